"""Groups of processes that are started, watched, logged, and ended together, however the program ends.

Also the log format of a federation's processes, and signals.
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

from tacit.core import InvalidInput, TacitError
from tacit.core.files import try_lock

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

__all__ = [
    "Processes", "Reminder", "end_with_parent", "end_within", "ended_by_signals", "exists", "failure_in_words",
    "free_port", "last_lines", "log_to", "only_process",
]  # fmt: skip

_PATIENCE = 5.0
# Seconds that ending everything may take; further signals in this time are ignored.
CLEANING = 4 * _PATIENCE
# Seconds until a signal that came at a bad time is handled again.
MOMENT = 0.05


@dataclass
class Processes:
    """Named processes with a log file each. Leaving the context ends all of them and their descendants.

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
        """Start a process whose output goes to ``<name>.log``; it ends with this process, even if that is killed."""
        self.logs.mkdir(parents=True, exist_ok=True)
        # A node's log is for its operator only.
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
        """Whether the process is running."""
        return name in self.running and self.running[name].poll() is None

    def at_work(self, name: str) -> int:
        """The number of its descendants that are running."""
        return sum(map(exists, _descendants(self.running[name].pid)))

    def kill(self, name: str) -> None:
        """Kill a process and its descendants at once, as a crash would."""
        _signal(self.running[name], signal.SIGKILL)
        self.running[name].wait()

    def stop(self, name: str) -> None:
        """Suspend a process, as if it hung, until ``resume``."""
        _signal(self.running[name], signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Continue a suspended process."""
        _signal(self.running[name], signal.SIGCONT)

    def end(self) -> None:
        """End all processes, by SIGTERM and after some seconds by SIGKILL; afterwards none of them writes a file."""
        made_by_them = {process for made in self.running.values() for process in _descendants(made.pid)}
        for made in self.running.values():
            _signal(made, signal.SIGCONT)
            _signal(made, signal.SIGTERM)
        deadline = time.monotonic() + _PATIENCE
        while True:
            # Repeatedly: a process may have started another one after the signal.
            for made in self.running.values():
                made_by_them.update(_descendants(made.pid))
            if time.monotonic() > deadline or all(made.poll() is not None for made in self.running.values()):
                break
            time.sleep(0.02)
        for made in self.running.values():
            # The process group outlives its leader if a child ignored the signal.
            _signal(made, signal.SIGKILL)
            made.wait()
        # Descendants in other process groups end with their parents.
        deadline = time.monotonic() + _PATIENCE
        while any(map(exists, made_by_them)) and time.monotonic() < deadline:
            time.sleep(0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def free_port() -> int:
    """A free port of this machine.

    >>> 1024 <= free_port() < 65536
    True
    """
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def only_process(file: Path, otherwise: str) -> Iterator[None]:
    """Hold a file's lock; if another process holds it, ``otherwise`` is the error message.

    The system releases the lock when this process ends, even if it is killed. The file stays and has no meaning itself.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "lock"
    >>> with only_process(file, "somebody is here already"), only_process(file, "somebody is here already"):
    ...     pass
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: somebody is here already (process ...)
    """
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be locked ({error.strerror})") from None
    try:
        if not try_lock(descriptor):
            raise InvalidInput(f"{otherwise} (process {last_lines(file)})")
        file.write_text(f"{os.getpid()}\n", encoding="ascii")
        yield
    finally:
        # Closing the descriptor releases the lock.
        os.close(descriptor)


def last_lines(file: Path, count: int = 15) -> str:
    """The end of a log, for an error message."""
    try:
        return "\n".join(file.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])
    except OSError:
        return "(no log)"


@contextmanager
def ended_by_signals(then: str = "") -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into an exception, so that every ``finally`` runs.

    The context ends with an error message, to which ``then`` adds what happens next. Further signals do not interrupt
    the cleaning up, which takes seconds. A destructor, a callback or a bare ``except`` of a library may swallow the
    exception, so a timer raises it again until it is handled.
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
        # If the context has not been left by then, the exception was swallowed.
        signal.setitimer(signal.ITIMER_REAL, CLEANING)
        raise _EndedError(pending.name)

    def again(lost: UnraisableHookArgs) -> None:
        if isinstance(lost.exc_value, _EndedError):
            signal.setitimer(signal.ITIMER_REAL, MOMENT)
        else:
            hook(lost)

    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
    # Signals that are ignored, as under nohup, stay ignored.
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
    """Whether an exception raised in this frame is lost, or would leave a lock of the logging module held."""
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_globals.get("__name__") in ("logging", "_weakrefset"):
            return True
        frame = frame.f_back
    return False


class _EndedError(BaseException):
    """A signal came. Not an ``Exception``, so that code that retries after exceptions does not catch it."""


def exists(process: int) -> bool:
    """Whether a process exists and is not a zombie; False for a number that no process can have.

    >>> exists(os.getpid()), exists(-1), exists(10**30)
    (True, False, False)
    """
    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except (psutil.NoSuchProcess, ValueError, OverflowError):
        return False


def _descendants(process: int) -> list[int]:
    """The ids of all descendants of a process; empty if it has ended."""
    try:
        return [child.pid for child in psutil.Process(process).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def end_within(folder: str) -> bool:
    """Kill all other processes with this folder in their command or environment; returns whether there were any.

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
    # The process leads its group, so its id is the group's.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(made.pid, number)


def end_with_parent(parent: int | None = None) -> None:
    """Ask Linux to kill this process when its parent ends, even if that is killed.

    ``parent`` is the id of the parent, if known: it may have ended already.
    """
    if sys.platform == "linux":
        import ctypes

        # A process that hangs would not handle another signal.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if parent is not None and os.getppid() != parent:
            os._exit(1)


LINE = "%(asctime)sZ %(levelname)s %(name)s: %(message)s"
_DAY = 24 * 3600.0


def log_to(file: Path | None = None, level: int = logging.INFO) -> None:
    """Log Tacit's messages of this process to a file that only its owner may read, or to standard error.

    Each line has its time in UTC. Earlier handlers are replaced, so that no line comes twice.
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
    """An error for an operator's log: its text if it is Tacit's or the system's, else only its type and place.

    Messages of other libraries may quote a cell of the records, and more people see logs than records.

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
    """Checks something at intervals, and reports each line that it finds once per day.

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
        """Check again, if the interval has passed."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every
        for line in self._find():
            if now - self._said.get(line, -_DAY) >= _DAY:
                self._said[line] = now
                self._tell(line)
