"""What a process of a federation writes down for its operator: each line with its time, to a file or to its output."""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from tacit.core.errors import TacitError

__all__ = ["Reminder", "failure_in_words", "log_to"]

LINE = "%(asctime)sZ %(levelname)s %(name)s: %(message)s"
DAY = 24 * 3600.0


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
            if now - self._said.get(line, -DAY) >= DAY:
                self._said[line] = now
                self._tell(line)
