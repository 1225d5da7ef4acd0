"""The first minute: help at once, a doctor that says what is missing, completion, and no command without its line."""

import importlib.util
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import click
import pytest

from tacit.cli import main
from tacit.cli.application import COMMANDS
from tacit.cli.doctor import part_findings
from tacit.cli.screen import flowing

# Seconds of a processor for the help that lists all commands.
HELP_SECONDS = 0.4
ROOT = Path(__file__).parents[2]
TACIT = "from tacit.cli import main; main()"


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(each) for each in arguments])
    return stopped.value.code


def test_help_imports_nothing_that_it_does_not_show():
    program = (
        "import resource, sys\nfrom tacit.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "heavy = [each for each in ('numpy', 'scipy', 'sklearn', 'pydantic', 'torch', 'flwr') if each in sys.modules]\n"
        "print(heavy, used.ru_utime + used.ru_stime)"
    )
    used = []
    # Other programs on the machine make a process use more of its processor: one undisturbed try of five is enough.
    while len(used) < 5 and min(used, default=1.0) >= HELP_SECONDS:
        last = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
        ).stdout.splitlines()[-1]
        heavy, _, seconds = last.rpartition(" ")
        assert heavy == "[]"
        used.append(float(seconds))
    assert min(used) < HELP_SECONDS


def test_no_command_waits_for_scikit_learn_to_say_its_first_word():
    """A second of imports is what a user waits for; benchmarks/first_output.py measures it."""
    program = (
        "import sys\nfrom tacit.cli.application import COMMANDS\n"
        "for name, entry in COMMANDS.items():\n    entry.load(name)\n"
        "    heavy = [each for each in ('scipy', 'sklearn', 'torch', 'flwr', 'onnx') if each in sys.modules]\n"
        "    assert not heavy, (name, heavy)"
    )
    subprocess.run([sys.executable, "-c", program], timeout=120, check=True)


def test_the_benchmark_of_the_first_output_starts_every_command():
    found = importlib.util.spec_from_file_location("first_output", ROOT / "benchmarks" / "first_output.py")
    benchmark = importlib.util.module_from_spec(found)
    found.loader.exec_module(benchmark)

    def leaves(command, path):
        if not isinstance(command, click.Group):
            return [path]
        return [each for name in command.list_commands(None)
                for each in leaves(command.get_command(None, name), f"{path} {name}")]  # fmt: skip

    known = [leaf for name, entry in COMMANDS.items() for leaf in leaves(entry.load(name), name)]
    assert len(known) > 40
    assert [leaf for leaf in known if not any(f"{each} ".startswith(f"{leaf} ") for each in benchmark.COMMANDS)] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_of_a_command_is_the_first_of_its_help(name):
    command = COMMANDS[name].load(name)
    assert command.name == name
    assert flowing(command.help).split("\n\n")[0] == COMMANDS[name].line


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "bench"])
def test_every_command_has_help(name, capsys):
    assert run(name, "--help") == 0
    assert "Usage:" in capsys.readouterr().out


def test_the_doctor_says_what_is_here_and_how_to_get_the_rest(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TACIT_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "200")
    assert run("doctor", "--json") == 0
    found = {each["what"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["core"]["state"] == found["randomness"]["state"] == found["digits"]["state"] == "here"
    assert str(tmp_path / "state") in found["state"]["said"]
    assert run("doctor") == 0
    assert "scikit-learn" in capsys.readouterr().out


def test_a_missing_extra_is_named_with_the_way_to_get_it(monkeypatch):
    known = metadata.version

    def without(name):
        if name in ("torch", "numpy"):
            raise metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(metadata, "version", without)
    found = {each.what: each for each in part_findings()}
    assert found["torch"].state == "missing"
    assert found["torch"].said.endswith("not installed: torch. Get it by pip install 'tacit[torch]'")
    assert found["core"].state == "wrong"
    assert run("doctor") == 1


def test_a_state_folder_that_cannot_be_written_to_is_wrong(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TACIT_STATE", str(tmp_path / "file"))
    assert next(each for each in part_findings() if each.what == "state").state == "wrong"


def test_completion_knows_commands_and_their_options():
    def completed(*words):
        typed = {"_TACIT_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        program = f"import sys; sys.argv = ['tacit']; {TACIT}"
        done = subprocess.run(
            [sys.executable, "-c", program], env=os.environ | typed, capture_output=True, text=True, timeout=60
        )
        return done.stdout.split()

    assert completed("tacit", "pre") == ["predict"]
    assert "--probabilities" in completed("tacit", "predict", "--")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("doctr",), "Did you mean 'doctor'?"),
        (("doctor", "--jsn"), "--json"),
        (("doctor", "me"), "unexpected extra argument"),
        (("distil",), "Did you mean 'distill'?"),
        (("ledger", "opn"), "No such command 'opn'"),
    ],
)
def test_a_mistyped_word_is_met_with_the_nearest(arguments, said, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert run(*arguments) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told
