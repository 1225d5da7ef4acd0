import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


class Worker:
    """The process that forks the children; see worker.py."""

    def __init__(self, errors):
        command = [sys.executable, str(Path(__file__).with_name("worker.py"))]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1
        )
        self._errors = errors

    def run(self, **command):
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def succeed(self, **command):
        answer = self.run(**command)
        assert set(answer["statuses"]) == {0}, Path(self._errors.name).read_text()
        return answer["said"]

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    with (tmp_path_factory.mktemp("worker") / "errors.txt").open("w") as errors:
        worker = Worker(errors)
        yield worker
        worker.close()


@pytest.fixture
def folder(tmp_path):
    """A folder in memory where the system has one: a killed process leaves the same files there, only sooner."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tacit-") as name:
        yield Path(name)
