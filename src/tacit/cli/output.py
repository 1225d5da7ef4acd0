"""What is said on the screen while a run is made: warnings in yellow, and never at the cost of the run."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, TextIO

from rich.console import Console
from rich.markup import escape

from tacit.core.errors import TacitError, TacitWarning

__all__ = ["tolerate_broken_pipe", "warnings_aloud"]


@contextmanager
def warnings_aloud() -> Iterator[None]:
    """Print Tacit's own warnings as they come, each time, in yellow; leave those of others as they are.

    They go to the error stream, with the errors: a warning may say what only the operator may know, and what is on the
    other stream is the report of a run, which may be kept in a file and handed on.
    """
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:  # noqa: ANN401
        if issubclass(category, TacitWarning):
            # Where nobody can read it, the run goes on.
            with suppress(OSError):
                Console(stderr=True).print(f"[yellow]warning:[/yellow] {escape(str(message))}.", soft_wrap=True)
        else:
            usual(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", TacitWarning)
        warnings.showwarning = show
        yield


@contextmanager
def tolerate_broken_pipe() -> Iterator[None]:
    """Go on where nobody listens: a closed pipe or a full disk behind the screen must not end a run that is paid for.

    A closed pipe is how ``head`` says that it has seen enough; every other failure is told once the work is done.
    """
    screen = Screen(sys.stdout)
    with redirect_stdout(screen):
        yield
        screen.flush()
    if screen.failed is not None and screen.failed.errno != errno.EPIPE:
        raise TacitError(f"the run was made and written, but what it printed was lost: {screen.failed.strerror}")


class Screen:
    """A text stream that falls silent at the first failure to write, and remembers it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.failed: OSError | None = None

    def write(self, text: str) -> int:
        """Write, or pass over it."""
        if self.failed is None:
            try:
                return self._stream.write(text)
            except OSError as error:
                self._fall_silent(error)
        return len(text)

    def flush(self) -> None:
        """Flush, or pass over it."""
        if self.failed is None:
            try:
                self._stream.flush()
            except OSError as error:
                self._fall_silent(error)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._stream, name)

    def _fall_silent(self, error: OSError) -> None:
        self.failed = error
        # What is still buffered is flushed when Python exits, and would fail there once more.
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
