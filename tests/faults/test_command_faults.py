"""Commands that are ended in the middle, or find nobody: it is said in words, nothing runs on, nothing is left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.federation.processes import exists
from tests.federation.deployment import START, TACIT, Deployment

LONG = pytest.mark.slow
pytestmark = [
    pytest.mark.fault,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]


def running_in(place):
    """The processes that have a folder in their command or environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            known = b"".join((folder / name).read_bytes() for name in ("cmdline", "environ"))
        except OSError:
            continue
        if str(place).encode() in known and exists(int(folder.name)):
            found.append(int(folder.name))
    return found


def started(place):
    """Whether nodes have been started."""
    return bool(list(place.glob("*/logs/west.log")))


def asked(place):
    """Whether the round has begun."""
    return any('"asked": ["' in file.read_text() for file in place.glob("*/study/run.journal/progress.json"))


@pytest.mark.parametrize(
    ("number", "happened"),
    [
        pytest.param(signal.SIGTERM, started),
        pytest.param(signal.SIGTERM, asked, marks=LONG),
        pytest.param(signal.SIGINT, started, marks=LONG),
        pytest.param(signal.SIGINT, asked, marks=LONG),
        pytest.param(signal.SIGKILL, started, marks=LONG),
        pytest.param(signal.SIGKILL, asked, marks=LONG),
    ],
)
def test_a_demo_that_is_ended_takes_everything_with_it(number, happened, tmp_path):
    code, said = ended(("demo", "--no-kill"), number, happened, tmp_path)
    if number == signal.SIGKILL:
        end = time.monotonic() + 30
        while running_in(tmp_path) and time.monotonic() < end:
            time.sleep(0.1)
    else:
        assert code == 1
        assert f"ended by {number.name}; all processes are ended, and nothing is left" in said
        assert list(tmp_path.iterdir()) == []
    assert running_in(tmp_path) == []


def ended(arguments, number, happened, place):
    """The exit code and the words of a command that is ended when something has happened."""
    with subprocess.Popen(
        [*TACIT, "federation", *map(str, arguments)],
        env=os.environ | {"TMPDIR": str(place)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as command:  # fmt: skip
        try:
            end = time.monotonic() + START
            while not happened(place):
                assert command.poll() is None, command.stdout.read()
                assert time.monotonic() < end
                time.sleep(0.05)
            assert len(running_in(place)) > 1
            command.send_signal(number)
            if number == signal.SIGINT:
                # Nobody likes to wait.
                time.sleep(0.2)
                command.send_signal(number)
            said, _ = command.communicate(timeout=60)
        finally:
            command.kill()
    assert "Traceback" not in said
    return command.returncode, " ".join(said.split())


@LONG
def test_a_coordinator_that_is_interrupted_or_finds_nobody_says_what_comes_next(tmp_path):
    made = Deployment(tmp_path, ("east", "north", "west"))
    arguments = ("coordinator", made.study, "--job", made.job(patience=300).file, "--port", made.port)
    code, said = ended(arguments, signal.SIGINT, lambda place: (place / "study" / "run.journal").exists(), tmp_path)
    assert code == 1
    assert "ended by SIGINT; start it again to resume the job, and nobody pays twice" in said
    assert running_in(tmp_path) == []
    # The same command again, with less patience.
    made.job(patience=1)
    command = [*TACIT, "federation", *map(str, arguments)]
    again = subprocess.run(command, capture_output=True, text=True, timeout=START, check=False)
    said = " ".join((again.stdout + again.stderr).split())
    assert again.returncode == 1
    assert "0 nodes are connected after 1 seconds, and at least 3 are needed; nobody was asked and nobody paid" in said
    assert "Traceback" not in said
    assert running_in(tmp_path) == []
