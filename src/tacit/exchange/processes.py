"""Processes that belong together: started in groups of their own, watched, and ended on every way out."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Self

from tacit.core.errors import TacitError

__all__ = ["Processes", "end_with_parent", "ended_by_signals", "exists", "free_port", "last_lines"]

PATIENCE = 5.0
# How long ending everything may take; a signal in this time is somebody who is impatient.
CLEANING = 4 * PATIENCE


@dataclass
class Processes:
    """Named processes with a log file each. Leaving the context ends all of them, and what they started.

    >>> import tempfile
    >>> with Processes(Path(tempfile.mkdtemp())) as processes:
    ...     made = processes.start("sleeper", [sys.executable, "-c", "import time; time.sleep(60)"], dict(os.environ))
    ...     processes.alive("sleeper")
    True
    >>> made.poll() is not None
    True
    """

    logs: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(
        self, name: str, command: Sequence[str | Path], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start a process whose output goes to ``<name>.log``; it ends when this process ends, however that happens."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{name}.log").open("ab") as log:
            made = subprocess.Popen(  # noqa: S603
                list(map(str, command)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(environment),
                start_new_session=True,
                preexec_fn=partial(end_with_parent, os.getpid()),
            )
        self.running[name] = made
        return made

    def alive(self, name: str) -> bool:
        """Whether the process is there."""
        return name in self.running and self.running[name].poll() is None

    def kill(self, name: str) -> None:
        """End a process and all it started at once, as a crash would."""
        _signal(self.running[name], signal.SIGKILL)
        self.running[name].wait()

    def stop(self, name: str) -> None:
        """Let a process hang: it is there and does nothing. ``resume`` lets it go on."""
        _signal(self.running[name], signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let a stopped process go on."""
        _signal(self.running[name], signal.SIGCONT)

    def end(self) -> None:
        """End everything: politely, and after some patience not. When this returns, nobody writes a file any more."""
        below = [process for made in self.running.values() for process in _descendants(made.pid)]
        for made in self.running.values():
            _signal(made, signal.SIGCONT)
            _signal(made, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        for made in self.running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                made.wait(max(0.0, deadline - time.monotonic()))
        for made in self.running.values():
            # The group outlives its leader where a child did not listen.
            _signal(made, signal.SIGKILL)
            made.wait()
        # Those in groups of their own end with who started them.
        deadline = time.monotonic() + PATIENCE
        while any(map(exists, below)) and time.monotonic() < deadline:
            time.sleep(0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def free_port() -> int:
    """A port of this machine that nobody listens on now.

    >>> 1024 <= free_port() < 65536
    True
    """
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def last_lines(file: Path, count: int = 15) -> str:
    """The end of a log, for an error message."""
    try:
        return "\n".join(file.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])
    except OSError:
        return "(no log)"


@contextmanager
def ended_by_signals(then: str = "") -> Iterator[None]:
    """Let an interrupt or a polite end (SIGINT, SIGTERM, SIGHUP) leave through every ``finally``.

    It ends in words, to which ``then`` adds what comes next. Whoever is impatient and sends another one does not
    interrupt the cleaning up, which takes seconds.
    """
    came = -CLEANING

    def leave(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if time.monotonic() - came < CLEANING:
            return
        came = time.monotonic()
        raise _EndedError(signal.Signals(number).name)

    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # Who is told to ignore a signal, as by nohup, goes on ignoring it.
    before = {each: signal.getsignal(each) for each in ends if signal.getsignal(each) is not signal.SIG_IGN}
    for each in before:
        signal.signal(each, leave)
    try:
        yield
    except _EndedError as ended:
        raise TacitError(f"ended by {ended}{then}") from None
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class _EndedError(BaseException):
    """A signal came. Not an ``Exception``, so that nobody who tries again after one goes on after this."""


def exists(process: int) -> bool:
    """Whether a process is there and not dead already: one that nobody has buried still has a number.

    >>> exists(os.getpid())
    True
    """
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _descendants(process: int) -> list[int]:
    """What a process has started, and what that has; nothing where the system does not say."""
    found = []
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, file.read_text(encoding="ascii").split()):
                found += [child, *_descendants(child)]
    return found


def _signal(made: subprocess.Popen[bytes], number: int) -> None:
    # The process is the leader of its group, so its number is the group's.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(made.pid, number)


def end_with_parent(parent: int | None = None) -> None:
    """Ask Linux to end this process when the one that started it is gone, killed or not.

    ``parent`` is who started it, where it is known: it may be gone already.
    """
    if sys.platform == "linux":
        import ctypes

        # One that hangs does not hear anything gentler.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if parent is not None and os.getppid() != parent:
            os._exit(1)
