"""Processes that belong together end together, whatever ended the one that started them."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tacit.core.errors import TacitError
from tacit.federation.processes import Processes, ended_by_signals, exists, last_lines

SLEEP = [sys.executable, "-c", "import time; time.sleep(300)"]
STUBBORN = [
    sys.executable, "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(300)",
]  # fmt: skip


def gone(process, seconds=20.0):
    """Whether a process ends soon; one that nobody has buried counts as ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.1)
    return False


def test_one_that_does_not_listen_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("tacit.federation.processes._PATIENCE", 0.5)
    with Processes(tmp_path) as processes:
        made = processes.start("deaf", STUBBORN, dict(os.environ))
        while "deaf" not in last_lines(tmp_path / "deaf.log"):
            time.sleep(0.05)
    assert made.poll() == -signal.SIGKILL


def test_all_end_when_something_goes_wrong(tmp_path):
    made = []

    def fail():
        with Processes(tmp_path) as processes:
            made.extend(processes.start(name, SLEEP, dict(os.environ)) for name in ("one", "two"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert all(each.poll() is not None for each in made)


def test_a_hung_process_ends_too(tmp_path):
    with Processes(tmp_path) as processes:
        made = processes.start("hung", SLEEP, dict(os.environ))
        processes.stop("hung")
    assert made.poll() is not None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_children_end_with_a_parent_that_is_killed(tmp_path):
    program = f"""
import os, sys, time
from pathlib import Path
from tacit.federation.processes import Processes
made = Processes(Path({str(tmp_path)!r})).start("child", {SLEEP!r}, dict(os.environ))
print(made.pid, flush=True)
time.sleep(300)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(child)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_when_all_are_ended_so_is_what_they_started_in_groups_of_their_own(tmp_path):
    program = """
import subprocess, sys, time
made = subprocess.Popen(
    [sys.executable, "-c", "from tacit.federation.processes import end_with_parent as e; e(); import time; "
    "print('there', flush=True); time.sleep(300)"], stdout=subprocess.PIPE, start_new_session=True)
made.stdout.readline()
print(made.pid, flush=True)
time.sleep(300)
"""
    with Processes(tmp_path) as processes:
        processes.start("parent", [sys.executable, "-c", program], dict(os.environ))
        while not (said := last_lines(tmp_path / "parent.log")).isdigit():
            time.sleep(0.05)
        assert exists(int(said))
    assert not exists(int(said))


@pytest.fixture
def listening():
    """Signals that are heard: a shell's background job, or nohup's, is started with some of them ignored."""
    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.signal(each, signal.SIG_DFL) for each in ends}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_polite_end_leaves_through_every_finally_and_only_once(number, listening):
    before = signal.getsignal(number)
    cleaned = []

    def end():
        with ended_by_signals("; it goes on later"):
            try:
                os.kill(os.getpid(), number)
                time.sleep(5)
            finally:
                # Somebody is impatient.
                for each in (signal.SIGINT, signal.SIGTERM):
                    os.kill(os.getpid(), each)
                time.sleep(0.1)
                cleaned.append(True)

    with pytest.raises(TacitError, match=f"ended by {number.name}; it goes on later"):
        end()
    assert cleaned
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("caught", [Exception, TacitError])
def test_who_tries_again_after_every_error_is_ended_too(caught, listening):
    def end():
        with ended_by_signals():
            deadline = time.monotonic() + 5
            os.kill(os.getpid(), signal.SIGTERM)
            while time.monotonic() < deadline:
                with contextlib.suppress(caught):
                    time.sleep(0.1)

    with pytest.raises(TacitError, match="ended by SIGTERM"):
        end()


def test_a_signal_long_after_one_that_was_lost_is_heard(monkeypatch):
    monkeypatch.setattr("tacit.federation.processes.CLEANING", 0.2)

    def end():
        with ended_by_signals():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(1)
            except BaseException:
                time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
            raise AssertionError("it was not heard")

    with pytest.raises(TacitError, match="ended by SIGTERM"):
        end()


def test_a_signal_that_a_destructor_swallows_is_heard_a_little_later(listening, capfd):
    class Dying:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.2)

    def end():
        with ended_by_signals():
            dying = Dying()
            del dying
            time.sleep(5)
            raise AssertionError("it was not heard")

    with pytest.raises(TacitError, match="ended by SIGTERM"):
        end()
    assert "Traceback" not in capfd.readouterr().err


def test_a_signal_that_somebody_swallows_comes_back(listening, monkeypatch):
    monkeypatch.setattr("tacit.federation.processes.CLEANING", 0.2)

    def end():
        with ended_by_signals():
            with contextlib.suppress(BaseException):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(5)
            time.sleep(5)
            raise AssertionError("it was not heard")

    with pytest.raises(TacitError, match="ended by SIGTERM"):
        end()


def test_who_ignores_a_signal_goes_on_ignoring_it():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_by_signals():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
