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
    assert gained([0.80, 0.82, 0.84], [0.82, 0.84, 0.86]) == "+2.0 to +2.0"
    low, high = map(float, gained([0.80, 0.82, 0.84], [0.82, 0.86]).split(" to "))
    assert low < 0 < high


def test_a_gain_without_an_interval_is_drawn_too(tmp_path):
    names = {"idea": "x", "data": "toy", "ε": "1", "95 % interval": ""}
    row = Row(names, [{"without": 0.5, "with": 0.6}])
    assert draw([row, Row({**names, "95 % interval": "-1.0 to +2.0"}, row.runs)], tmp_path / "x.png").exists()
