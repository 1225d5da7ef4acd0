"""What is paid for is never lost, never paid twice, and never mistaken for something else."""

import hashlib
import io
import json
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import tacit
from tacit.cli import main
from tacit.cli.inputs import inputs_digest
from tacit.cli.request import RunRequest
from tacit.cli.screen import show_claim
from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Guarantee, Trust, Unit
from tacit.datasets.tables import read_data
from tacit.ledger.heads import state_folder
from tacit.ledger.sqlite import SqliteLedger

PARTS = tacit.digits()
COMPLETE = {"labels.csv", "arrays.npz", "recipe.toml", "run.json", "student.skops"}
BASE = ("distill", "--private", "private.npz", "--public", "public.npz", "--label", "y", "--epsilon", "1",
        "--representation", "pca", "--classes", "0,1,2,3,4,5,6,7,8,9", "--out", "out")  # fmt: skip
PAID = ("--ledger", "main.ledger", "--account", "research")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    np.savez("private.npz", X=PARTS.private_samples, y=PARTS.private_labels)
    np.savez("public.npz", X=PARTS.public_samples)
    SqliteLedger.create("main.ledger", {"research": Ceiling(1)}).close()
    return tmp_path


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(each) for each in arguments])
    return stopped.value.code


def start(*arguments, code="from tacit.cli import main; main()", **options):
    # Whoever runs the tests in the background ignores interrupts, and children inherit that.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + code
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, text=True, **options)


def names():
    return sorted(file.name for file in Path().iterdir())


def payments():
    with SqliteLedger("main.ledger") as book:
        return book.balance("research").payments


def interrupted(monkeypatch, *arguments):
    """A run that pays, and whose disk is then full."""

    def crash(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("tacit.runs.run.Run.write", crash)
        assert run(*BASE, *PAID, *arguments) == 1


# Says at its end whether torch was imported.
COUNTED = """
import atexit, sys
from tacit.cli import main
atexit.register(lambda: print("torch" in sys.modules, file=sys.stderr))
main()
"""


def test_a_reader_that_leaves_early_does_not_end_the_run(place):
    with start(*BASE, code=COUNTED, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        assert "Traceback" not in said
        assert process.wait(300) == 0
    assert {file.name for file in Path("out").iterdir()} >= COMPLETE
    # What no step of this run needs is not imported: it would take longer than the run.
    assert said.splitlines()[-1] == "False"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_screen_that_cannot_be_written_does_not_end_the_run(place):
    with Path("/dev/full").open("w") as full, start(*BASE, stdout=full) as process:
        said = process.stderr.read()
        assert process.wait(300) == 1
    assert "the run was made and written, but what it printed was lost" in said
    assert "Traceback" not in said
    assert {file.name for file in Path("out").iterdir()} >= COMPLETE


def test_the_run_is_written_before_its_statement_is_printed(place, monkeypatch):
    def fail(_):
        raise RuntimeError("printing failed")

    monkeypatch.setattr("tacit.cli.distill.show_claim", fail)
    with pytest.raises(RuntimeError):
        main([*BASE])
    assert {file.name for file in Path("out").iterdir()} >= COMPLETE


# A run that tells when it has been paid for, and then trains for ever.
STUCK = """
import sys, time
import tacit.runs.distill as made
from tacit.methods.rknn.method import StudentTrainer
from tacit.cli import main
def train(*_, **__):
    print("paid", file=sys.stderr, flush=True)
    time.sleep(600)
if {paid}:
    StudentTrainer.train = train
else:
    made.drive = train
main()
"""


@pytest.mark.parametrize("paid", [True, False])
def test_a_stopped_run_says_whether_it_was_paid_and_how_to_go_on(place, paid, capsys):
    with start(*BASE, *PAID, code=STUCK.format(paid=paid), stdout=subprocess.DEVNULL) as process:
        assert process.stderr.readline() == "paid\n"
        # A second run with the same --out is turned away while the first is at work.
        assert run(*BASE, *PAID) == 2
        assert "another run with this --out is running" in capsys.readouterr().err
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(60) == 130
    assert payments() == paid
    assert Path("out.request").exists() == paid
    assert ("run the same command again" in said) if paid else ("Nothing was paid" in said)
    if paid:
        # The student may change: it is no part of what was paid for.
        assert run(*BASE, *PAID, "--student", "forest") == 0
        assert "resuming" in capsys.readouterr().out
        assert payments() == 1
        assert not Path("out.request").exists()


def test_a_request_is_not_taken_up_for_other_records(place, monkeypatch, capsys):
    interrupted(monkeypatch)
    assert "run the same command again" in capsys.readouterr().err
    kept = Path("out.request").read_text()
    assert set(json.loads(kept)) == {"format", "request", "durable", "inputs", "recipe"}
    np.savez("private.npz", X=PARTS.private_samples, y=PARTS.private_labels[::-1])
    assert run(*BASE, *PAID) == 2
    assert "differs in --private" in capsys.readouterr().err
    np.savez("private.npz", X=PARTS.private_samples, y=PARTS.private_labels)
    assert run(*BASE, *PAID, "--neighbors", 2, "--epsilon", 0.5) == 2
    assert "differs in --epsilon, --neighbors" in capsys.readouterr().err
    assert run(*BASE) == 2
    assert "differs in --account, --ledger" in capsys.readouterr().err
    assert Path("out.request").read_text() == kept
    assert run(*BASE, *PAID) == 0
    assert payments() == 1


def test_what_a_killed_run_leaves_confirms_no_guess_of_the_records(place, monkeypatch):
    """It had SHA-256 of what the private file holds: whoever guessed a table could see that it was right."""
    interrupted(monkeypatch)
    kept = json.loads(Path("out.request").read_text())
    guess = inputs_digest(read_data(Path("private.npz"), "y", None, labeled=True))
    guesses = {guess, hashlib.sha256(guess.encode()).hexdigest()}
    assert not any(each.startswith(kept["inputs"]["--private"]) for each in guesses)
    (key,) = (state_folder() / "requests").glob(f"{kept['request']}.key")
    assert key.stat().st_mode & 0o077 == 0
    assert run(*BASE, *PAID) == 0
    assert not key.exists()


def test_a_request_of_another_machine_is_not_taken_up(place, monkeypatch, capsys):
    interrupted(monkeypatch)
    name = json.loads(Path("out.request").read_text())["request"]
    (state_folder() / "requests" / f"{name}.key").unlink()
    assert run(*BASE, *PAID) == 2
    assert "another user or machine" in capsys.readouterr().err
    assert payments() == 1


def test_a_run_that_is_refused_leaves_nothing(place, capsys):
    before = names()
    for arguments in (("--epsilon", 2), ("--queries", 501), ("--account", "nobody"), ("--seed", 1), ("--delta", 2)):
        assert run(*BASE, *PAID, *arguments) in (1, 2)
        assert "Traceback" not in capsys.readouterr().err
        assert names() == before
    assert payments() == 0


@pytest.mark.parametrize("content", ["", "{", "[]", "7c1f\n", '{"format": 2}', '{"format": 1, "request": "a"}'])
def test_a_damaged_request_is_said(place, content, capsys):
    Path("out.request").write_text(content)
    assert run(*BASE, *PAID) == 2
    assert "out.request: damaged" in capsys.readouterr().err
    assert Path("out.request").read_text() == content


def test_a_folder_in_the_place_of_the_request_is_said(place, capsys):
    Path("out.request").mkdir()
    assert run(*BASE, *PAID) == 2
    assert "out.request: is a folder" in capsys.readouterr().err


def test_two_requests_never_have_one_file(tmp_path):
    first, second = (RunRequest(tmp_path / "out", Path("a.ledger"), "a", {"--epsilon": "1"}) for _ in range(2))
    first.begin()
    with pytest.raises(InvalidInput, match="another run"):
        second.begin()
    with pytest.raises(InvalidInput, match="another run"):
        RunRequest(tmp_path / "out", Path("a.ledger"), "a", {"--epsilon": "1"})
    first.close()
    again = RunRequest(tmp_path / "out", Path("a.ledger"), "a", {"--epsilon": "1"})
    assert again.name == first.name
    again.done()
    again.close()
    assert list(tmp_path.iterdir()) == []


def test_a_killed_run_without_a_ledger_leaves_nothing_to_take_up(tmp_path):
    killed = RunRequest(tmp_path / "out", None, None, {"--epsilon": "1"})
    killed.begin()
    killed.close()
    fresh = RunRequest(tmp_path / "out", Path("a.ledger"), "a", {"--epsilon": "2"})
    assert fresh.name != killed.name
    fresh.begin()
    fresh.close()
    assert RunRequest(tmp_path / "out", Path("a.ledger"), "a", {"--epsilon": "2"}).name == fresh.name


@pytest.mark.parametrize("out", ["/proc/x", "public.npz/inside", "x" * 256, "x" * 250, "new/" + "é" * 128])
def test_a_place_that_cannot_be_written_is_found_before_anything_is_paid(place, out, capsys):
    before = names()
    assert run(*BASE[:-1], out, *PAID) == 2
    assert "cannot be written there" in capsys.readouterr().err
    assert names() == before
    assert payments() == 0


def test_a_name_just_short_enough_is_written(place):
    out = "new/" + "x" * 237
    assert run(*BASE[:-1], out, *PAID) == 0
    assert {file.name for file in Path(out).iterdir()} >= COMPLETE


def test_doubts_are_told_before_a_record_is_counted(place, capsys):
    assert run(*BASE, "--epsilon", 60) == 0
    assert "warning: epsilon = 60 is practically no protection" in capsys.readouterr().err
    record = json.loads(Path("out/run.json").read_text())
    assert "practically no protection" in record["guarantee"]["statement"]


@pytest.mark.parametrize(("epsilon", "color"), [(1, "32"), (10, "33")])
def test_a_weak_statement_is_not_green(monkeypatch, epsilon, color):
    output = io.StringIO()
    monkeypatch.setattr("tacit.cli.screen.console", Console(file=output, force_terminal=True, color_system="standard"))
    guarantee = Guarantee(Fraction(epsilon), Fraction(0), Unit(), Adjacency.REPLACE_ONE, Trust.CENTRAL)
    show_claim(guarantee)
    assert f"\x1b[{color}m" in output.getvalue()
    assert f"\x1b[{65 - int(color)}m" not in output.getvalue()


def test_copies_are_told_on_the_screen_and_not_in_the_record(place, capsys):
    np.savez("public.npz", X=np.concatenate([PARTS.public_samples, PARTS.private_samples[:13]]))
    assert run(*BASE) == 0
    said = capsys.readouterr()
    assert "13 public rows are exact copies of private ones" in " ".join(said.err.split())
    record = json.loads(Path("out/run.json").read_text())
    for text in (said.out, json.dumps(record)):
        assert "copies" not in text
        assert "assumed to contain no private record" in " ".join(text.replace("│", " ").split())
