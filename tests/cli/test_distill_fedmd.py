"""Federations from the command line: who takes part, what holds, what is refused, and what a kill costs: nothing."""

import io
import json
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.ledger.sqlite import SqliteLedger
from tacit.methods.fedmd.holder import SUBSET_REQUEST
from tacit.students.registry import load_student
from tests.cli.forked import ended, kill

PARTS = tacit.digits()
CLASSES = ("--classes", "0,1,2,3,4,5,6,7,8,9")
BASE = ("distill", "--method", "fedmd", "--private", "private.npz", "--public", "public.npz", "--label", "y",
        "--rounds", "3", "--queries", "20", "--own-epochs", "1", "--out", "out", *CLASSES)  # fmt: skip
CLINICS = ("north", "south", "east")
TREES = ("--models", "forest")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    clinics = np.array(CLINICS)[np.arange(300) % 3]
    np.savez("private.npz", X=PARTS.private_samples[:300], y=PARTS.private_labels[:300], clinic=clinics)
    np.savez("public.npz", X=PARTS.public_samples[:100])
    np.savez("marked.npz", X=PARTS.public_samples[:100], z=PARTS.public_labels[:100] + 50)
    return tmp_path


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(each) for each in arguments])
    return stopped.value.code


def record():
    return json.loads(Path("out/run.json").read_text())


def test_parties_from_a_column_vote_and_no_model_leaves_them(place, capsys):
    models = "north=forest,south=logistic,east=forest"
    assert run(*BASE, "--holder", "clinic", "--epsilon", 2, "--variant", "rknn", "--models", models) == 0
    said = capsys.readouterr().out
    assert "Differential privacy: epsilon = 2, delta = 0 (pure)" in said
    assert "round 3 of 3" in said
    assert "give each to its holder" not in said
    made = record()
    assert made["recipe"]["options"]["models"] == {"east": "forest", "north": "forest", "south": "logistic"}
    assert {name: each["epsilon"] for name, each in made["guarantees"].items()} == {
        f"holder {clinic}": "2" for clinic in CLINICS
    }
    assert len(made["receipts"]) == 3
    assert "they stay with the holders" in said or "not covered" in said
    assert {file.name for file in (place / "out").iterdir()} == {
        "run.json", "recipe.toml", "labels.csv", "arrays.npz", "student.skops",
    }  # fmt: skip
    assert made["holder_models"] is None


def test_party_models_are_written_when_asked_for(place, capsys):
    assert run(*BASE, "--holder", "clinic", "--epsilon", 20, *TREES, "--save-holder-models") == 0
    assert "give each to its holder only" in capsys.readouterr().out
    assert "Give each to its own holder" in record()["holder_models"]["about"]
    for clinic in CLINICS:
        folder = place / "out" / "holders" / clinic
        assert folder.stat().st_mode & 0o077 == 0
        student = load_student(folder / "student.skops")
        # The classes are numbered as in run.json.
        assert (student.predict(PARTS.test_samples) == PARTS.test_labels).mean() > 0.5
    assert (place / "out" / "labels.csv").read_text().startswith("public row,label\n")


@pytest.mark.parametrize("split", [(), ("--alpha", 0.5), ("--by-class",)])
def test_a_number_of_parties_and_a_subset_that_warns(place, capsys, split):
    arguments = ("--holders", 3, *split, "--variant", "nfdp", "--subset", 10)
    assert run(*BASE, *arguments, *TREES, "--seed", 1) == 0
    shown = capsys.readouterr()
    said = " ".join(shown.out.split())
    for each in (said, shown.err):  # the last word, and a warning
        assert each.count("NOT DIFFERENTIAL PRIVACY IN THE USUAL SENSE") == 1
    assert "SIMULATION" in said
    assert record()["guarantee"]["kind"] == "total-variation stability"


def test_networks_pretrained_on_other_labels(place, capsys):
    pytest.importorskip("torch")
    arguments = ("--public", "marked.npz", "--public-label", "z", "--holders", 2, "--variant", "np")
    assert (
        run(*BASE, *arguments, "--save-holder-models", "--models", "perceptron", "--kind", "logits", "--weights", "2,1")
        == 0
    )
    assert "NO PRIVACY AT ALL" in capsys.readouterr().out
    student = load_student(place / "out" / "holders" / "0" / "student.safetensors")
    assert student.predict(PARTS.test_samples).shape == (297,)


def test_a_budget_that_does_not_last_is_refused_before_it_is_touched(place, capsys):
    paid = ("--holder", "clinic", "--variant", "response", "--ledger", "books", *TREES)
    assert run(*BASE, *paid, "--epsilon", 3) == 0
    assert run(*BASE, *paid, "--epsilon", 3, "--out", "other") == 1
    assert "Nothing was charged" in " ".join(capsys.readouterr().err.split())
    with SqliteLedger("books/holder-north.ledger") as book:
        assert book.balance("holder north").payments == 3
    assert not (place / "other").exists()
    assert not (place / "other.request").exists()


def killed_after(line, *arguments):
    """Start the command and kill it with no warning once it has said so."""

    class Listened(io.TextIOWrapper):
        def write(self, text):
            written = super().write(text)
            if line in map(str.strip, text.splitlines()):
                self.flush()
                kill()
            return written

    def listen():
        sys.stdout = Listened(sys.stdout.detach(), line_buffering=True)

    code, said = ended(*arguments, first=listen)
    assert line in map(str.strip, said.splitlines()), said
    assert code == -signal.SIGKILL, said


def test_a_killed_run_goes_on_at_any_round_and_pays_nothing_twice(place, capsys):
    command = (*BASE, "--holder", "clinic", "--variant", "response", "--epsilon", 3, "--ledger", "books", *TREES)
    killed_after("trained on own records", *command)
    killed_after("round 1 of 3", *command)
    assert not (place / "out").exists()
    with SqliteLedger("books/holder-north.ledger") as book:
        before = [each.receipt for each in book.payments("holder north")]
    assert 1 <= len(before) <= 3
    assert run(*command) == 0
    assert "resuming" in capsys.readouterr().out
    for party in CLINICS:
        with SqliteLedger(f"books/holder-{party}.ledger") as book:
            balance = book.balance(f"holder {party}")
            assert balance.payments == 3
            assert balance.spent.epsilon <= 3
    with SqliteLedger("books/holder-north.ledger") as book:
        assert [each.receipt for each in book.payments("holder north")][: len(before)] == before
    assert not (place / "out.request").exists()


def test_a_stopped_run_says_that_its_subset_is_bought(place, capsys, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    command = (*BASE, "--holder", "clinic", "--variant", "nfdp", "--subset", 30, "--ledger", "books", *TREES)
    with monkeypatch.context() as patched:
        patched.setattr("tacit.methods.fedmd.holder.SubsetParty.answer", stopped)
        assert run(*command) == 130
    assert "Paid answers are stored in the ledger" in capsys.readouterr().err
    assert run(*command) == 0
    with SqliteLedger("books/holder-east.ledger") as book:
        assert [len(book.payments(each)) for each in book.accounts()] == [1]


def test_a_killed_run_never_draws_its_subset_again(place):
    command = (*BASE, "--holder", "clinic", "--variant", "nfdp", "--subset", 10, "--ledger", "books", *TREES)

    def subsets():
        found = []
        for party in CLINICS:
            with SqliteLedger(f"books/holder-{party}.ledger") as book:
                (payment,) = book.payments(f"holder {party}")
                assert payment.receipt.request == SUBSET_REQUEST
                found.append(book.stored_release(payment.receipt))
        return found

    killed_after("round 1 of 3", *command)
    first = subsets()
    assert run(*command) == 0
    assert subsets() == first
    # Nor by a run with one more clinic, whose name comes first.
    with np.load("private.npz") as archive:
        arrays = dict(archive)
    clinics = np.concatenate([arrays["clinic"], np.full(40, "abbey")])
    more = {"X": PARTS.private_samples[300:340], "y": PARTS.private_labels[300:340]}
    np.savez("private.npz", clinic=clinics, **{name: np.concatenate([arrays[name], more[name]]) for name in more})
    assert run(*command, "--out", "more") == 0
    assert subsets() == first
    # Nor by another run, and another size is refused.
    assert run(*command, "--out", "again") == 0
    assert subsets() == first
    assert run(*command, "--out", "larger", "--subset", 11) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--epsilon", 1), "assign the records to holders: --holder with a column"),
        (("--epsilon", 1, "--holder", "clinic", "--holders", 3), "leave one out"),
        (("--holder", "clinic"), "needs --epsilon"),
        (("--holder", "doctor", "--epsilon", 1), "doctor"),
        (("--holder", "clinic", "--by-class", "--epsilon", 1), "divide records among --holders"),
        (("--holders", 3, "--by-class", "--alpha", 1, "--epsilon", 1), "choose one"),
        (("--holders", 3, "--alpha", 0, "--epsilon", 1), "alpha must be above 0"),
        (("--holders", 301, "--epsilon", 1), "holders must be between 1 and the 300 records"),
        (("--holder", "clinic", "--variant", "fedavg", "--epsilon", 1), "variant must be one of"),
        (("--holder", "clinic", "--variant", "nfdp"), "subset must be the number"),
        (
            ("--holder", "clinic", "--variant", "nfdp", "--subset", 9, "--epsilon", 1),
            "epsilon has no effect",
        ),
        (("--holder", "clinic", "--variant", "np", "--ledger", "books"), "leave out the ledger"),
        (("--holder", "clinic", "--epsilon", 1, "--queries", 101), "at most the 100 public samples"),
        (("--holder", "clinic", "--epsilon", 1, "--models", "oracle"), "unknown model 'oracle'"),
        (("--holder", "clinic", "--epsilon", 1, "--models", "west=forest"), "is not one of the 3 holders"),
        (("--holder", "clinic", "--epsilon", 1, "--models", "north=forest"), "no model for 2 of the 3 holders"),
        (("--holder", "clinic", "--epsilon", 1, "--weights", "1;2"), "--weights must be"),
        (("--holder", "clinic", "--epsilon", 1, "--seed", 1, "--ledger", "books"), "leave out --seed or --ledger"),
        (("--holder", "clinic", "--epsilon", 1, "--ledgers", "books"), "--ledgers is called --ledger now"),
        (("--holder", "clinic", "--epsilon", 1, "--save-party-models"), "is called --save-holder-models now"),
        (("--holder", "clinic", "--epsilon", 1, "--neighbors", 2), "--neighbors is an option of --method rknn"),
        (("--holder", "clinic", "--epsilon", 1, "--public", "marked.npz", "--label", "z"), "z"),
    ],
)
def test_wrong_use_is_named(place, capsys, arguments, words):
    assert run(*BASE, *arguments) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not list(place.glob("out*"))
    assert not (place / "books").exists()
