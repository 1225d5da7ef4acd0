"""Groups of processes: started, watched, logged, and ended however the program ends.

A log line has its time, and goes to a file or to the output of the process, for its operator.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Self

import psutil
from filelock import FileLock, Timeout

from tacit.core import InvalidInput, TacitError

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

__all__ = [
    "Processes", "Reminder", "end_with_parent", "end_within", "ended_by_signals", "exists", "failure_in_words",
    "free_port", "last_lines", "log_to", "only_process",
]  # fmt: skip

_PATIENCE = 5.0
# How long ending everything may take; a signal in this time is somebody who is impatient.
CLEANING = 4 * _PATIENCE
# How soon a signal that came at a bad time is looked at again.
MOMENT = 0.05


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
        # A node's log is its operator's alone.
        descriptor = os.open(self.logs / f"{name}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "ab") as log:
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

    def at_work(self, name: str) -> int:
        """How many processes it has started, and they, that are there now."""
        return sum(map(exists, _descendants(self.running[name].pid)))

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
        """End everything, by SIGTERM and after some seconds by SIGKILL; afterwards no process writes a file."""
        made_by_them = {process for made in self.running.values() for process in _descendants(made.pid)}
        for made in self.running.values():
            _signal(made, signal.SIGCONT)
            _signal(made, signal.SIGTERM)
        deadline = time.monotonic() + _PATIENCE
        while True:
            # Looked for again and again: one that was about to start another may have done so after the signal.
            for made in self.running.values():
                made_by_them.update(_descendants(made.pid))
            if time.monotonic() > deadline or all(made.poll() is not None for made in self.running.values()):
                break
            time.sleep(0.02)
        for made in self.running.values():
            # The group outlives its leader where a child did not listen.
            _signal(made, signal.SIGKILL)
            made.wait()
        # Those in groups of their own end with who started them.
        deadline = time.monotonic() + _PATIENCE
        while any(map(exists, made_by_them)) and time.monotonic() < deadline:
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


@contextmanager
def only_process(file: Path, otherwise: str) -> Iterator[None]:
    """Hold a file's lock; where another process holds it, ``otherwise`` is the error, and nothing is touched.

    The system lets go of it when this process ends, however that happens. The file stays, and means nothing by itself.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "lock"
    >>> with only_process(file, "somebody is here already"), only_process(file, "somebody is here already"):
    ...     pass
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: somebody is here already (process ...)
    """
    lock = FileLock(file, timeout=0, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        raise InvalidInput(f"{otherwise} (process {last_lines(file)})") from None
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be locked ({error.strerror})") from None
    try:
        file.write_text(f"{os.getpid()}\n", encoding="ascii")
        yield
    finally:
        lock.release()


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
    interrupt the cleaning up, which takes seconds. An exception that a destructor, a callback or somebody's bare
    ``except`` swallows takes the signal with it, so a timer brings it back until it is heard.
    """
    came, pending = -CLEANING, signal.SIGTERM

    def leave(number: int, frame: FrameType | None) -> None:
        nonlocal came, pending
        if number != signal.SIGALRM:
            if time.monotonic() - came < CLEANING:
                return
            pending = signal.Signals(number)
        if _swallows(frame):
            signal.setitimer(signal.ITIMER_REAL, MOMENT)
            return
        came = time.monotonic()
        # Whoever has not left by then did not hear it.
        signal.setitimer(signal.ITIMER_REAL, CLEANING)
        raise _EndedError(pending.name)

    def again(lost: UnraisableHookArgs) -> None:
        if isinstance(lost.exc_value, _EndedError):
            signal.setitimer(signal.ITIMER_REAL, MOMENT)
        else:
            hook(lost)

    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
    # Who is told to ignore a signal, as by nohup, goes on ignoring it.
    before = {each: signal.getsignal(each) for each in ends if signal.getsignal(each) is not signal.SIG_IGN}
    for each in before:
        signal.signal(each, leave)
    hook, sys.unraisablehook = sys.unraisablehook, again
    try:
        yield
    except _EndedError as ended:
        raise TacitError(f"ended by {ended}{then}") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = hook
        for each, handler in before.items():
            signal.signal(each, handler)


def _swallows(frame: FrameType | None) -> bool:
    """Whether an exception raised in this frame is lost, or leaves a lock of the logging module taken for good."""
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_globals.get("__name__") in ("logging", "_weakrefset"):
            return True
        frame = frame.f_back
    return False


class _EndedError(BaseException):
    """A signal came. Not an ``Exception``, so that nobody who tries again after one goes on after this."""


def exists(process: int) -> bool:
    """Whether a process is there and not dead already: one that nobody has buried still has a number.

    >>> exists(os.getpid())
    True
    """
    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _descendants(process: int) -> list[int]:
    """What a process has started, and what that has; nothing where it is gone."""
    try:
        return [child.pid for child in psutil.Process(process).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def end_within(folder: str) -> bool:
    """Kill what still runs with this folder in its command or environment, but not this process; was there any?

    >>> end_within("no-such-folder-anywhere")
    False
    """
    found = False
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = (*process.cmdline(), *process.environ().values())
            if process.pid != os.getpid() and any(folder in word for word in words):
                process.kill()
                found = True
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


LINE = "%(asctime)sZ %(levelname)s %(name)s: %(message)s"
_DAY = 24 * 3600.0


def log_to(file: Path | None = None, level: int = logging.INFO) -> None:
    """Send what Tacit says in this process to a file of its owner's, or to its standard error, each line with a time.

    The time is UTC. What was set up before is replaced, so that no line comes twice.
    """
    handler: logging.Handler
    if file is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
        handler = logging.FileHandler(file, encoding="utf-8")
    made = logging.Formatter(LINE, "%Y-%m-%dT%H:%M:%S")
    made.converter = time.gmtime
    handler.setFormatter(made)
    logger = logging.getLogger("tacit")
    for before in list(logger.handlers):
        logger.removeHandler(before)
        before.close()
    logger.addHandler(handler)
    logger.setLevel(level)


def failure_in_words(error: BaseException) -> str:
    """An error for an operator's log: words where they are Tacit's or the system's, else only its type and place.

    What other libraries say may quote a cell of the records, and a log is copied to more people than the records are.

    >>> failure_in_words(TacitError("the ledger is full"))
    'TacitError: the ledger is full'
    >>> failure_in_words(OSError(28, "No space left on device"))
    'OSError: No space left on device'
    >>> failure_in_words(ValueError("could not convert 'HIV positive'"))
    'ValueError'
    """
    name = type(error).__name__
    if isinstance(error, TacitError):
        return f"{name}: {error}"
    if isinstance(error, OSError) and error.strerror:
        return f"{name}: {error.strerror}"
    if type(error).__module__ == "sqlite3":
        return f"{name}: {error}"
    places = [f"{Path(each.filename).name}:{each.lineno}" for each in traceback.extract_tb(error.__traceback__)]
    return f"{name} at {' < '.join(reversed(places[-5:]))}" if places else name


class Reminder:
    """Looks at something now and then, and says each line that it finds once per day.

    >>> said = []
    >>> reminder = Reminder(lambda: ["the certificate expires soon"], said.append, every=0.0)
    >>> reminder.look(); reminder.look()
    >>> said
    ['the certificate expires soon']
    """

    def __init__(self, find: Callable[[], Iterable[str]], tell: Callable[[str], None], every: float = 3600.0) -> None:
        self._find, self._tell, self._every = find, tell, every
        self._next = time.monotonic()
        self._said: dict[str, float] = {}

    def look(self) -> None:
        """Look again, if it is time to."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every
        for line in self._find():
            if now - self._said.get(line, -_DAY) >= _DAY:
                self._said[line] = now
                self._tell(line)
