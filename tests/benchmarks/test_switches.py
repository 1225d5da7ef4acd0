"""The switch table compares lines that exist, each with the other at the same budget."""

import json

import pytest

import switches
from experiments.table import Row
from switches import SWITCHES, Switch, draw, gained
from tacit.core.errors import InvalidInput


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda each: f"{each.idea} {each.data} {each.epsilon}")
def test_every_switch_names_two_lines_of_its_table(switch):
    row = switch.row(switches.RESULTS)
    assert row.values("without")
    assert row.values("with")
    assert float(row.names["gain"]) == pytest.approx(
        100 * (sum(row.values("with")) / len(row.values("with")))
        - 100 * (sum(row.values("without")) / len(row.values("without"))),
        abs=0.051,
    )


def test_a_line_that_is_not_there_or_there_twice_is_refused(tmp_path):
    rows = [{"names": {"ε": "1", "line": line}, "runs": [{"test": 0.5}]} for line in ("a", "b", "b")]
    (tmp_path / "toy.json").write_text(json.dumps({"rows": rows}))
    for line in ("b", "c"):
        with pytest.raises(InvalidInput, match="lines are named"):
            Switch("idea", "toy", "1", "toy", {"line": "a"}, {"line": line}).row(tmp_path)


def test_intervals_of_unequal_numbers_of_runs_are_wider_than_of_pairs():
    assert gained([0.80, 0.82, 0.84], [0.82, 0.84, 0.86], True) == "+2.0 to +2.0"
    low, high = map(float, gained([0.80, 0.82, 0.84], [0.82, 0.86], False).split(" to "))
    assert low < 0 < high


@pytest.mark.parametrize(
    ("seeds", "narrow"), [([0, 1, 2], True), ([2, 1, 0], True), ([1, 2, 3], False), ([None, None, None], False)]
)
def test_lines_are_paired_by_their_seeds_and_not_by_the_number_of_runs(tmp_path, seeds, narrow):
    def runs(values, seeds):
        return [{"test": value, "settings": {"seed": seed}} for value, seed in zip(values, seeds, strict=True)]

    # By seed the second line is always two points better; in another order differences would vary.
    ordered = {0: 0.82, 1: 0.84, 2: 0.86}
    after = [ordered.get(seed, 0.82 + 0.02 * place) for place, seed in enumerate(seeds)]
    rows = [
        {"names": {"line": "a"}, "runs": runs([0.80, 0.82, 0.84], [0, 1, 2])},
        {"names": {"line": "b"}, "runs": runs(after, seeds)},
    ]
    (tmp_path / "toy.json").write_text(json.dumps({"rows": rows}))
    found = Switch("idea", "toy", "1", "toy", {"line": "a"}, {"line": "b"}).row(tmp_path)
    assert (found.names["95 % interval"] == "+2.0 to +2.0") is narrow


def test_a_gain_without_an_interval_is_drawn_too(tmp_path):
    names = {"idea": "x", "data": "toy", "ε": "1", "95 % interval": ""}
    row = Row(names, [{"without": 0.5, "with": 0.6}])
    assert draw([row, Row({**names, "95 % interval": "-1.0 to +2.0"}, row.runs)], tmp_path / "x.png").exists()
