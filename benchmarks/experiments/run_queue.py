"""Long measurements one after the other, in the background; what was interrupted is run again.

Every job is a file with its command and state, and has a log beside it. Only one worker works at a time. A job that was
running when its worker was killed comes first at the next start: benchmarks keep every measurement as soon as it is
made, so little is measured twice.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from tacit.core import InvalidInput
from tacit.core.files import write_file

__all__ = ["Job", "Queue"]

WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"


@dataclass(frozen=True)
class Job:
    """One command, and how far it is.

    >>> print(Job("fashion", 1, ("python", "x.py"), FAILED, 61.0, 2))
    failed   fashion                  61 s  python x.py  (exit code 2)
    """

    name: str
    number: int
    command: tuple[str, ...]
    state: str = WAITING
    seconds: float = 0.0
    code: int | None = None

    def __str__(self) -> str:
        ended = f"  (exit code {self.code})" if self.code else ""
        return f"{self.state:<8} {self.name:<20} {self.seconds:>6.0f} s  {' '.join(self.command)}{ended}"


@dataclass(frozen=True)
class Queue:
    """The jobs in a folder.

    >>> import sys, tempfile
    >>> queue = Queue(Path(tempfile.mkdtemp()))
    >>> _ = queue.add("one", (sys.executable, "-c", "print(1)"))
    >>> [job.state for job in queue.work()]
    ['done']
    """

    folder: Path

    def jobs(self) -> list[Job]:
        """Every job, oldest first."""
        found = [json.loads(file.read_text(encoding="utf-8")) for file in self.folder.glob("*.json")]
        jobs = (Job(**{**each, "command": tuple(each["command"])}) for each in found)
        return sorted(jobs, key=lambda job: job.number)

    def add(self, name: str, command: tuple[str, ...]) -> Job:
        """A new job at the end."""
        if not re.fullmatch(r"\w[\w.-]{0,60}", name):
            raise InvalidInput(f"a job's name has letters, digits, dots and dashes, at most 60: got {name[:80]!r}")
        if not command:
            raise InvalidInput("give the command after the name: queue add NAME COMMAND")
        known = self.jobs()
        if any(job.name == name for job in known):
            raise InvalidInput(f"there is a job {name} already: choose another name, or put it back with 'again'")
        job = Job(name, max((job.number for job in known), default=0) + 1, command)
        self._write(job)
        return job

    def again(self, name: str) -> Job:
        """Put a job that has ended back to those that wait."""
        for job in self.jobs():
            if job.name == name and job.state in (DONE, FAILED):
                self._write(back := replace(job, state=WAITING, code=None))
                return back
        raise InvalidInput(f"there is no ended job {name[:80]!r}")

    def work(self, until: float = float("inf")) -> Iterator[Job]:
        """Run what waits, one at a time, and give each job as it ended; from the time ``until`` on none is begun."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._alone():
            while time.time() < until:
                # What is running has lost its worker.
                left = [job for state in (RUNNING, WAITING) for job in self.jobs() if job.state == state]
                if not left:
                    return
                yield self._run(left[0])

    def _run(self, job: Job) -> Job:
        self._write(replace(job, state=RUNNING))
        began = time.monotonic()
        try:
            with (self.folder / f"{job.name}.log").open("ab") as log:
                code = subprocess.run(
                    job.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False
                ).returncode
        except OSError:  # there is no such program
            code = 127
        seconds = round(job.seconds + time.monotonic() - began, 1)
        ended = replace(job, state=FAILED if code else DONE, seconds=seconds, code=code)
        self._write(ended)
        return ended

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        lock = FileLock(self.folder / "worker.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise InvalidInput(f"{self.folder}: a worker is at work already") from None
        try:
            yield
        finally:
            lock.release()

    def _write(self, job: Job) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_file(self.folder / f"{job.name}.json", (json.dumps(asdict(job), indent=1) + "\n").encode())
