"""The baselines at their papers' settings: each option is one of its method, and what was measured is kept."""

from pathlib import Path

import pytest

import tacit
from experiments import published_settings
from experiments.development import read_set
from experiments.leaderboard import image_features
from experiments.leaderboard_parts import Line, encoded
from experiments.measured import Memory
from experiments.published_settings import CASES, Case, measured_cases
from tacit.cli import main


class Counted(Line):
    """A line that measures nothing and counts."""

    asked = 0

    def code(self):
        return "one"

    def measure(self, data, epsilon, seed):
        type(self).asked += 1
        return {"test": 0.5, "labels": 0.5, "adjacency": "replace-one"}


def test_every_setting_is_one_that_its_method_takes():
    parts = read_set("digits", Path())
    data = encoded(parts, image_features(parts))
    options = {"private_knn": tacit.PrivateKNN, "pate": tacit.PATE}
    made = {
        case.name: options[case.line.method](**case.line.options(data, case.epsilon))
        for case in CASES
        if case.data == "mnist"
    }
    assert (made["private_knn"].queries, made["private_knn"].rate) == (735, 0.15)
    paper = made["pate confident"]
    assert (paper.teachers, paper.queries, paper.answers, paper.threshold) == (250, 640, 286, 0.8)
    assert {case.epsilon for case in CASES if case.data == "cifar10"} == {4.0}


def test_a_case_is_measured_once_and_shown_beside_its_paper(tmp_path, monkeypatch):
    monkeypatch.setattr(Counted, "asked", 0)
    case = Case("digits", "counted", Counted("rknn"), 1.0, "as it is", "98 at ε = 1", "all of it")
    monkeypatch.setattr(published_settings, "CASES", (case,))
    for runs, asked in ((1, 1), (2, 2), (2, 2)):
        result = measured_cases(Path(), Memory(tmp_path), runs=runs)
        assert Counted.asked == asked
    assert "| digits | counted | as it is | 1 | replace-one | 50.0 ± 0.0 |" in result.markdown()
    assert "98 at ε = 1 | all of it" in result.markdown()


def test_wrong_use_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "published", "--folder", ".", "--data", "svhn"])
    assert stopped.value.code == 2
    assert "some of mnist, cifar10, got 'svhn'" in " ".join(capsys.readouterr().err.split())
