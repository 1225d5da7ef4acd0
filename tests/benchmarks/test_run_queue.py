"""The queue of measurements: order, failures, one worker, and a worker that is killed."""

import os
import signal
import subprocess
import sys
import time

import pytest

from experiments.run_queue import DONE, FAILED, RUNNING, WAITING, Queue
from tacit.cli import main
from tacit.core.errors import InvalidInput

WORKER = """
import sys
from pathlib import Path
from experiments.run_queue import Queue
list(Queue(Path(sys.argv[1])).work())
"""


def said(file, words):
    return (sys.executable, "-c", f"open({str(file)!r}, 'a').write({words!r})")


def bench(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "queue", *map(str, arguments)])
    return stopped.value.code


def test_jobs_run_in_order_and_a_failed_one_is_put_back(tmp_path, capsys):
    out, folder = tmp_path / "out", tmp_path / "queue"
    assert bench("add", "--folder", folder, "b", *said(out, "first ")) == 0
    assert bench("add", "--folder", folder, "wrong", sys.executable, "-c", "import sys; sys.exit(3)") == 0
    assert bench("add", "--folder", folder, "a", *said(out, "second")) == 0
    assert bench("work", "--nice", 0, "--folder", folder) == 1
    assert out.read_text() == "first second"
    queue = Queue(folder)
    assert [(job.name, job.state, job.code) for job in queue.jobs()] == [
        ("b", DONE, 0),
        ("wrong", FAILED, 3),
        ("a", DONE, 0),
    ]
    assert bench("show", "--folder", folder) == 0
    assert "exit code 3" in capsys.readouterr().out
    queue.again("wrong")
    assert [job.state for job in queue.jobs()] == [DONE, WAITING, DONE]
    assert [job.name for job in queue.work(until=time.time() - 1)] == []


def test_a_killed_worker_leaves_a_job_that_is_run_again_first(tmp_path):
    folder, out = tmp_path / "queue", tmp_path / "out"
    queue = Queue(folder)
    waits = (
        f"import os, time; n = os.path.exists({str(out)!r}); open({str(out)!r}, 'a').write('x'); n or time.sleep(60)"
    )
    queue.add("long", (sys.executable, "-c", waits))
    queue.add("short", said(out, "y"))
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(folder)], env=path, start_new_session=True)
    try:
        while not out.exists():
            assert worker.poll() is None
            time.sleep(0.05)
        with pytest.raises(InvalidInput, match="a worker is at work already"):
            list(queue.work())
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    assert [job.state for job in queue.jobs()] == [RUNNING, WAITING]
    assert [job.name for job in queue.work()] == ["long", "short"]
    assert out.read_text() == "xxy"


def test_wrong_use_is_named(tmp_path, capsys):
    queue = Queue(tmp_path)
    queue.add("a", ("no-such-program",))
    assert [job.code for job in queue.work()] == [127]
    for arguments, words in (
        (("add", "--folder", tmp_path, "a", "x"), "there is a job a already"),
        (("add", "--folder", tmp_path, "../a", "x"), "a job's name has letters"),
        (("again", "b", "--folder", tmp_path), "no ended job 'b'"),
    ):
        assert bench(*arguments) == 2
        assert words in " ".join(capsys.readouterr().err.split())
