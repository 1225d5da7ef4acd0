"""What a demanding user ran into: each test failed once."""

import json
import warnings

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.core.errors import InvalidInput, TacitWarning
from tacit.runs.inputs import warn_of_copies

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 2, 200)
PRIVATE = RNG.normal(size=(200, 3)) + 4 * LABELS[:, None]
PUBLIC = RNG.normal(size=(60, 3)) + 4 * RNG.integers(0, 2, 60)[:, None]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    rows = [",".join(map(str, [*row, label])) for row, label in zip(PRIVATE, LABELS, strict=True)]
    (tmp_path / "private.csv").write_text("\n".join(["a,b,c,label", *rows]) + "\n")
    (tmp_path / "public.csv").write_text("\n".join(["a,b,c", *(",".join(map(str, row)) for row in PUBLIC)]) + "\n")
    (tmp_path / "policy.toml").write_text("[accounts.research]\nepsilon = 4\n")
    return tmp_path


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(each) for each in arguments])
    return stopped.value.code


def distilled(**options):
    options = {"private": (PRIVATE, LABELS), "public": PUBLIC, "epsilon": 4, "classes": [0, 1]} | options
    return tacit.distill(**options)


BASE = ("distill", "--private", "private.csv", "--public", "public.csv", "--label", "label", "--classes", "0,1",
        "--epsilon", "1")  # fmt: skip


def test_an_interrupted_run_of_several_rounds_wants_its_student_back(files, capsys, monkeypatch):
    # The student chooses the second question: with another one what was paid for could not be had again.
    assert run("ledger", "open", "main.ledger", "--policy", "policy.toml") == 0
    paid = (*BASE, "--ledger", "main.ledger", "--account", "research", "--iterations", "2", "--out", "out")
    with monkeypatch.context() as cut:
        cut.setattr("tacit.cli.distill.write_run", _interrupt)
        assert run(*paid, "--student", "forest") == 130
    assert (files / "out.request").exists()
    capsys.readouterr()
    assert run(*paid, "--student", "logistic") == 2
    assert "differs in --student" in capsys.readouterr().err
    assert run(*paid, "--student", "forest") == 0
    assert "spent epsilon 1 of 4" in capsys.readouterr().out


def test_labels_of_one_round_may_teach_another_student(files, monkeypatch):
    assert run("ledger", "open", "main.ledger", "--policy", "policy.toml") == 0
    paid = (*BASE, "--ledger", "main.ledger", "--account", "research", "--out", "out")
    with monkeypatch.context() as cut:
        cut.setattr("tacit.cli.distill.write_run", _interrupt)
        assert run(*paid, "--student", "forest") == 130
    assert run(*paid, "--student", "logistic") == 0


def _interrupt(*_, **__):
    raise KeyboardInterrupt


def test_the_plan_and_the_run_say_how_many_rounds_there_are(files, capsys):
    assert run(*BASE, "--iterations", "2", "--propagation", "graph", "--label-fraction", "0.5", "--out", "out") == 0
    assert "rounds     2" in capsys.readouterr().out
    recipe = json.loads((files / "out/run.json").read_text())["recipe"]
    assert len(recipe["rounds"]) == 2
    options = recipe["options"]
    assert (options["propagation"], options["label_fraction"], options["voting_rule"]) == ("graph", 0.5, "nearest")


def test_a_demo_that_cannot_be_written_is_refused_before_it_is_made(files, capsys):
    assert run("demo", "--out", "private.csv/run") == 2
    told = capsys.readouterr()
    assert "private.csv/run: cannot be written there" in told.err
    assert "labels right" not in told.out


def test_samples_abstain_from_soft_labels_too():
    class Counting:
        _estimator_type = "classifier"
        seen = 0

        def get_params(self, deep=True):
            return {}

        def fit(self, samples, labels, sample_weight):
            Counting.seen = len(np.unique(samples, axis=0))
            return self

    distilled(labels="soft", student=Counting())
    everyone = Counting.seen
    distilled(labels="soft", student=Counting(), label_fraction=0.5)
    assert everyone == len(PUBLIC)
    assert Counting.seen < 0.6 * everyone


def test_only_the_last_student_is_warned_about():
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", TacitWarning)
        distilled(private=(PRIVATE, np.zeros(200, dtype=int)), iterations=3, epsilon=60)
    assert sum("all labels are the same" in str(each.message) for each in heard) == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"labels": "soft", "propagation": "graph"}, "leave out propagation"),
        ({"public": PUBLIC[:5], "propagation": "graph"}, "neighbor graph links each public sample with 10 others"),
        ({"mechanism": ["laplace"]}, "mechanism must be a name"),
        ({"selection": ["diverse"]}, "selection must be one of"),
        ({"iterations": 2, "shares": 3}, "shares must be a list"),
        ({"ledger": 3, "account": "research"}, "ledger must be a ledger, a path or a URL"),
    ],
)
def test_a_wrong_choice_is_named(options, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        distilled(**options)


def test_a_run_is_loaded_from_a_folder():
    with pytest.raises(InvalidInput, match="a run is loaded from a folder, got None"):
        tacit.load(None)


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        ("", "accounts: is missing"),
        ("[accounts.a]\nepsilon = 1\nbudget = 2\n", "accounts.a.budget: is not a setting of a policy"),
        ('[accounts.a]\nepsilon = 1\nunit = "person"\n', 'accounts.a.unit: must be "holder" or a table, for example {'),
    ],
)
def test_a_wrong_policy_is_explained_in_its_own_terms(files, capsys, policy, complaint):
    (files / "wrong.toml").write_text(policy)
    assert run("ledger", "open", "new.ledger", "--policy", "wrong.toml") == 2
    assert complaint in capsys.readouterr().err
    assert not (files / "new.ledger").exists()


def test_files_that_are_none_are_told_apart(files, capsys):
    assert run(*BASE, "--classes", "missing.txt", "--out", "out") == 2
    assert "missing.txt: cannot read the classes (No such file or directory)" in capsys.readouterr().err
    assert run(*BASE, "--private", "/dev/null", "--out", "out") == 2
    assert "/dev/null: a device or a pipe, not a file" in capsys.readouterr().err


def test_zeros_of_both_signs_are_one_copy():
    with pytest.warns(TacitWarning, match="1 public row is an exact copy of a private one"):
        warn_of_copies([np.array([[0.0, 1.0]])], np.array([[-0.0, 1.0], [1.0, 1.0]]))
