"""Methods over records, classes and features: what is varied is varied alone, and cells are shared with the boards."""

import json
from pathlib import Path

import numpy as np
import pytest

from experiments import crossings, leaderboard
from experiments.crossings import Crossings, of_classes, of_records
from experiments.development import read_set
from experiments.leaderboard import Board
from experiments.leaderboard_parts import Line
from experiments.measured import Memory
from tacit.cli import main
from tacit.core import InvalidInput

pytestmark = pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")


@pytest.fixture(scope="module")
def digits():
    return read_set("digits", Path())


class Counted(Line):
    """A line that measures nothing and counts; it refuses fewer than 200 records."""

    asked = 0

    def code(self):
        return "one"

    def measure(self, data, epsilon, seed):
        if len(data.private) < 200:
            raise InvalidInput("too few")
        type(self).asked += 1
        return {"test": len(data.private) / 2000, "labels": 0.5, "unit": "one record", "adjacency": "replace-one",
                "delta": 0.0, "epsilon": epsilon, "trust": "central", "questions": 1}  # fmt: skip


@pytest.fixture
def counted(monkeypatch):
    monkeypatch.setattr(Counted, "asked", 0)
    monkeypatch.setattr(crossings, "LINES", {"rknn": Counted("rknn"), "class_sums": Counted("class_sums")})
    return Counted


def test_fewer_records_are_a_part_of_more_and_nothing_else_changes(digits):
    small, large = of_records(digits, 100), of_records(digits, 300)
    assert (small.private[0] == large.private[0][:100]).all()
    assert (small.private[1] == large.private[1][:100]).all()
    assert small.public is digits.public
    assert small.test is digits.test
    assert of_records(digits, 1000) is digits
    for count in (0, 1001):
        with pytest.raises(InvalidInput, match="1,000 private records"):
            of_records(digits, count)


def test_of_more_classes_there_are_as_many_records_and_public_samples(digits):
    for count in (2, 5, 10):
        cut = of_classes(digits, count, 2)
        assert len(cut.private[1]) == int((digits.private[1] < 2).sum())
        assert len(cut.public) == len(cut.public_labels) == int((digits.public_labels < 2).sum())
        assert set(cut.private[1].tolist()) == set(range(count)) == set(cut.classes)
        assert len(cut.test[1]) == int((digits.test[1] < count).sum())
        # Samples keep their labels.
        whole = {row.tobytes(): label for row, label in zip(digits.test[0], digits.test[1], strict=True)}
        assert [whole[row.tobytes()] for row in cut.test[0]] == cut.test[1].tolist()
    for count, fewest in ((11, 2), (5, 1)):
        with pytest.raises(InvalidInput, match="10 classes"):
            of_classes(digits, count, fewest)


def test_a_map_is_made_of_public_samples_alone_and_keeps_labels(digits):
    from dataclasses import replace

    found = crossings.on_the_map(digits)
    other = crossings.on_the_map(replace(digits, private=(digits.private[0] * 0, digits.private[1])))
    assert (found.public == other.public).all()
    assert (found.test[0] == other.test[0]).all()
    assert found.test[1] is digits.test[1]
    data = crossings.OVER["features"][0](digits, "map", ("map",))
    assert data.images is None
    assert data.content != crossings.OVER["features"][0](digits, "identity", ("identity",)).content


def test_cells_are_measured_once_and_shared_with_the_leaderboard(digits, counted, tmp_path):
    memory = Memory(tmp_path)

    def made(**more):
        bench = Crossings(digits, "records", memory, ("100", "500", "1000"), ("rknn", "class_sums"), (1.0,), **more)
        bench.measure()
        return bench

    told = []
    bench = made(tell=told.append)
    assert counted.asked == 4
    assert sum("too few" in each for each in told) == 2  # what a method refuses is said, and the others go on
    rows = bench.result().rows
    assert [(row.names["records"], row.names["method"], row.values("test")) for row in rows] == [
        (size, name, [value]) for size, value in (("500", 0.25), ("1000", 0.5)) for name in ("rknn", "class_sums")
    ]
    panel = bench.chart().panels[0]
    assert panel.places == [100.0, 500.0, 1000.0]
    assert panel.curves["rknn"] == [None, 25.0, 50.0]
    assert panel.log_across
    made(runs=2)
    assert counted.asked == 8
    made(kept=True)
    assert counted.asked == 8
    # The cell of all records is that of the leaderboard.
    from experiments.leaderboard_parts import encoded

    data = encoded(digits, leaderboard.image_features(digits))
    Board(data, memory, {"rknn": Counted("rknn")}, (1.0,), 1).measure()
    assert counted.asked == 8


def test_features_are_those_asked_for(digits, counted, tmp_path):
    bench = Crossings(digits, "features", Memory(tmp_path), ("identity",), ("rknn",), (1.0,))
    bench.measure()
    assert [row.names["features"] for row in bench.result().rows] == ["identity"]
    assert bench.chart() is None
    assert leaderboard.image_features(digits, "gradients") == ("gradients", "gradients")
    assert leaderboard.image_features(digits, "identity") == leaderboard.image_features(digits)
    texts = np.array(["one text", "another text", "a third one"], dtype=object)
    from dataclasses import replace

    words = replace(digits, name="words", public=texts)
    assert leaderboard.image_features(words) is None
    with pytest.raises(InvalidInput, match="features are for images, and words"):
        leaderboard.image_features(words, "gradients")


def test_a_small_one_is_written_by_the_command(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "crossings", "--data", "digits", "--over", "records", "--values", "300,1000", "--methods",
              "class_sums", "--epsilons", "1", "--out", "results", "--cache", "kept"])  # fmt: skip
    assert stopped.value.code == 0
    names = sorted(file.name for file in (tmp_path / "results").iterdir())
    assert names == [f"crossings-digits-records.{kind}" for kind in ("json", "md", "png")]
    rows = json.loads((tmp_path / "results" / "crossings-digits-records.json").read_text())["rows"]
    few, many = (row["runs"][0]["test"] for row in rows)
    assert few < many


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--over", "years"), "unknown variation 'years'"),
        (("--over", "records", "--methods", "knn"), "unknown method 'knn'"),
        (("--over", "records", "--values", "many"), "whole numbers, got 'many'"),
        (("--over", "features", "--values", "colors"), "unknown features 'colors'"),
        (("--over", "records", "--epsilons", "x"), "comma-separated numbers"),
    ],
)
def test_wrong_use_is_named(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "crossings", "--data", "digits", *arguments])
    assert stopped.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())
