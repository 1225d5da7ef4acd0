"""Federations from the command line: who takes part, what holds, what is refused, and what a kill costs: nothing."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.ledger.sqlite import SqliteLedger
from tacit.methods.fedmd.holder import SUBSET_REQUEST
from tacit.students.saved import load_student

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


def test_parties_from_a_column_vote_and_keep_their_models(place, capsys):
    models = "north=forest,south=logistic,east=forest"
    assert run(*BASE, "--holder", "clinic", "--epsilon", 2, "--variant", "rknn", "--models", models) == 0
    said = capsys.readouterr().out
    assert "Differential privacy: epsilon = 2, delta = 0 (pure)" in said
    assert "round 3 of 3" in said
    assert "hand each to its party and to nobody else" in said
    made = record()
    assert [(each["name"], each["model"]) for each in made["parties"]] == [
        ("east", "forest"),
        ("north", "forest"),
        ("south", "logistic"),
    ]
    assert [each["epsilon"] for each in made["claims"]] == ["2"] * 3
    assert len(made["receipts"]) == 3
    assert "no guarantee covers them" in made["models"]
    for clinic in CLINICS:
        folder = place / "out" / "parties" / clinic
        assert folder.stat().st_mode & 0o077 == 0
        student = load_student(folder / "student.skops")
        # The classes are numbered as in run.json.
        assert (student.predict(PARTS.test_samples) == PARTS.test_labels).mean() > 0.5
    assert (place / "out" / "labels.csv").read_text().startswith("public row,label,probability\n")


@pytest.mark.parametrize("split", [(), ("--alpha", 0.5), ("--by-class",)])
def test_a_number_of_parties_and_a_subset_that_warns(place, capsys, split):
    arguments = ("--holders", 3, *split, "--variant", "nfdp", "--subset", 10)
    assert run(*BASE, *arguments, *TREES, "--seed", 1) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("NOT DIFFERENTIAL PRIVACY IN THE USUAL SENSE") == 2  # a warning, and the last word
    assert "SIMULATION" in said
    assert record()["claim"]["kind"] == "total-variation stability"


def test_networks_pretrained_on_other_labels(place, capsys):
    pytest.importorskip("torch")
    arguments = ("--public", "marked.npz", "--public-label", "z", "--holders", 2, "--variant", "np")
    assert run(*BASE, *arguments, "--models", "perceptron", "--kind", "logits", "--weights", "2,1") == 0
    assert "NO PRIVACY AT ALL" in capsys.readouterr().out
    student = load_student(place / "out" / "parties" / "party-0" / "student.safetensors")
    assert student.predict(PARTS.test_samples).shape == (297,)


def test_a_budget_that_does_not_last_is_refused_before_it_is_touched(place, capsys):
    paid = ("--holder", "clinic", "--variant", "response", "--ledgers", "books", *TREES)
    assert run(*BASE, *paid, "--epsilon", 3) == 0
    assert run(*BASE, *paid, "--epsilon", 3, "--out", "other") == 1
    assert "Nothing was charged" in " ".join(capsys.readouterr().err.split())
    with SqliteLedger("books/north.ledger") as book:
        assert book.balance("north").payments == 3
    assert not (place / "other").exists()
    assert not (place / "other.request").exists()


def killed_after(line, *arguments):
    """Start the command and kill it with no warning once it has said so."""
    code = "from tacit.cli import main; main()"
    child = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    seen = []
    for said in child.stdout:
        seen.append(said.strip())
        if said.strip() == line:
            child.kill()
            break
    child.communicate()
    assert seen, "the command said nothing"
    assert child.returncode == -9, seen
    return seen


def test_a_killed_run_goes_on_at_any_round_and_pays_nothing_twice(place, capsys):
    command = (*BASE, "--holder", "clinic", "--variant", "response", "--epsilon", 3, "--ledgers", "books", *TREES)
    killed_after("trained on own records", *command)
    killed_after("round 1 of 3", *command)
    assert not (place / "out").exists()
    with SqliteLedger("books/north.ledger") as book:
        before = [each.receipt for each in book.payments("north")]
    assert 1 <= len(before) <= 3
    assert run(*command) == 0
    assert "resuming" in capsys.readouterr().out
    for party in CLINICS:
        with SqliteLedger(f"books/{party}.ledger") as book:
            balance = book.balance(party)
            assert balance.payments == 3
            assert balance.spent.epsilon <= 3
    with SqliteLedger("books/north.ledger") as book:
        assert [each.receipt for each in book.payments("north")][: len(before)] == before
    assert not (place / "out.request").exists()


def test_a_stopped_run_says_that_its_subset_is_bought(place, capsys, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    command = (*BASE, "--holder", "clinic", "--variant", "nfdp", "--subset", 30, "--ledgers", "books", *TREES)
    with monkeypatch.context() as patched:
        patched.setattr("tacit.methods.fedmd.holder.SubsetParty.answer", stopped)
        assert run(*command) == 130
    assert "What was bought is kept in the ledger" in capsys.readouterr().err
    assert run(*command) == 0
    with SqliteLedger("books/east.ledger") as book:
        assert [len(book.payments(each)) for each in book.accounts()] == [1]


def test_a_killed_run_never_draws_its_subset_again(place):
    command = (*BASE, "--holder", "clinic", "--variant", "nfdp", "--subset", 10, "--ledgers", "books", *TREES)

    def subsets():
        found = []
        for party in CLINICS:
            with SqliteLedger(f"books/{party}.ledger") as book:
                (payment,) = book.payments(party)
                assert payment.receipt.request == SUBSET_REQUEST
                found.append(book.kept(payment.receipt))
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
        (("--epsilon", 1), "give --holder, the column"),
        (("--epsilon", 1, "--holder", "clinic", "--holders", 3), "give --holder, the column"),
        (("--holder", "clinic"), "needs epsilon"),
        (("--holder", "doctor", "--epsilon", 1), "doctor"),
        (("--holder", "clinic", "--by-class", "--epsilon", 1), "here a column does"),
        (("--holders", 3, "--by-class", "--alpha", 1, "--epsilon", 1), "choose one"),
        (("--holders", 3, "--alpha", 0, "--epsilon", 1), "alpha must be above 0"),
        (("--holders", 301, "--epsilon", 1), "holders must be between 1 and the 300 records"),
        (("--holder", "clinic", "--variant", "fedavg"), "variant must be one of"),
        (("--holder", "clinic", "--variant", "nfdp"), "subset must say how many"),
        (("--holder", "clinic", "--variant", "nfdp", "--subset", 9, "--epsilon", 1), "epsilon does nothing in variant"),
        (("--holder", "clinic", "--variant", "np", "--ledgers", "books"), "leave out the ledgers"),
        (("--holder", "clinic", "--epsilon", 1, "--queries", 101), "at most the 100 public samples"),
        (("--holder", "clinic", "--epsilon", 1, "--models", "oracle"), "unknown model 'oracle'"),
        (("--holder", "clinic", "--epsilon", 1, "--models", "west=forest"), "none of the parties"),
        (("--holder", "clinic", "--epsilon", 1, "--models", "north=forest"), "no model for the party 'east'"),
        (("--holder", "clinic", "--epsilon", 1, "--weights", "1;2"), "--weights must be equal"),
        (("--holder", "clinic", "--epsilon", 1, "--seed", 1, "--ledgers", "books"), "leave out --seed or --ledgers"),
        (("--holder", "clinic", "--epsilon", 1, "--neighbors", 2), "--neighbors is an option of --method rknn"),
        (("--holder", "clinic", "--epsilon", 1, "--public", "marked.npz", "--label", "z"), "z"),
    ],
)
def test_wrong_use_is_named(place, capsys, arguments, words):
    assert run(*BASE, *arguments) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not list(place.glob("out*"))
    assert not (place / "books").exists()
