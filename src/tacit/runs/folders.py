"""Folders that appear complete or not at all, and what a process that was killed left of one.

A folder is written in a hidden one beside its place and renamed into it. The hidden one is locked as long as its
process lives: the system lets go of the lock when the process ends, in whatever way, so a lock that can be taken says
that nobody is at work there. It needs no process number, which another process, or another container, may have.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tacit.core.errors import InvalidInput, TacitError
from tacit.core.files import try_lock

__all__ = ["new_folder", "remove_leftovers"]

PREFIX = ".tacit-partial-"


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder that appears complete or not at all: written beside its place, then renamed into it.

    What killed processes left beside its place is removed first.
    """
    made: list[Path] = []
    scratch: Path | None = None
    lock: int | None = None
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InvalidInput(f"{folder}: exists already and is not an empty folder; choose another --out")
        made = [each for each in folder.absolute().parents if not each.exists()]
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder.parent)
        scratch, lock = _hidden(folder.parent)
        # A folder of our own inside, because what mkdtemp makes is for its owner alone.
        partial = scratch / (folder.name or "run")
        partial.mkdir()
        yield partial
        partial.replace(folder)
        scratch.rmdir()
    except BaseException as error:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        for parent in made:
            with suppress(OSError):
                parent.rmdir()
        if not isinstance(error, OSError):
            raise
        raise TacitError(f"{folder}: the run could not be written, {_why(error)}; nothing was left behind") from error
    finally:
        if lock is not None:
            os.close(lock)


def remove_leftovers(place: Path) -> None:
    """Remove the hidden folders of processes that were killed; what a living one is writing is left alone.

    >>> place = Path(tempfile.mkdtemp())
    >>> (place / ".tacit-partial-old").mkdir()
    >>> remove_leftovers(place)
    >>> list(place.iterdir())
    []
    """
    with suppress(OSError):
        for found in place.glob(f"{PREFIX}*"):
            if found.is_symlink() or not found.is_dir():
                continue
            lock = _locked(found)
            if lock is not None:
                shutil.rmtree(found, ignore_errors=True)
                os.close(lock)


def _hidden(place: Path) -> tuple[Path, int]:
    """A new hidden folder, locked."""
    while True:
        scratch = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        lock = _locked(scratch)
        if lock is None:
            # Another process took it for a leftover before we had locked it; that one removes it.
            continue
        if scratch.exists():
            return scratch, lock
        os.close(lock)


def _locked(folder: Path) -> int | None:
    """The folder's lock, or None where another process has it or the folder is gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    if try_lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def _why(error: OSError) -> str:
    """What the system said, and about which file."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    place = f" ({Path(os.fsdecode(error.filename)).name})" if isinstance(error.filename, str | bytes) else ""
    return f"{error.strerror or error}{place}"
