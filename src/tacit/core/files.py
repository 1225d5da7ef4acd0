"""Atomic file writes, and file locks that end with their process.

A file's content is on disk before the file gets its name. Temporary files that a killed process left are removed by the
next writer. Locks are those of the operating system (``flock``), which releases them when a process ends for any
reason: a lock that can be acquired has no live owner. No process number is stored; another process, or another
container, could have the same one.
"""

from __future__ import annotations

import errno
import glob
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["create_locked", "is_there", "locked", "new_file", "sync_folder", "try_lock", "write_file"]


# What the system says of a name that no file can have.
_NO_NAME = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.ELOOP)


def is_there(path: str | Path) -> bool:
    """Whether something exists at a path; False for a name that no file can have, where ``Path.exists`` raises.

    >>> is_there("x" * 300), is_there(".")
    (False, True)
    """
    try:
        return Path(path).exists()
    except OSError as error:
        if error.errno in _NO_NAME:
            return False
        raise
    except ValueError:  # a zero character
        return False


@contextmanager
def new_file(path: Path, *, private: bool = False, replace: bool = True) -> Iterator[BinaryIO]:
    """A file to write, which gets its name when the block ends without an error; otherwise it is removed.

    A ``private`` file can be read by its owner alone. With ``replace=False`` an existing file is kept and
    ``FileExistsError`` raised.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "labels.csv"
    >>> with new_file(path) as file:
    ...     _ = file.write(b"whole")
    ...     path.exists()
    False
    >>> path.read_bytes()
    b'whole'
    """
    folder = path.absolute().parent
    _remove_leftovers(folder, path.name)
    draft, descriptor = _draft(folder, path.name, 0o600 if private else 0o644)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
            # Still locked, so that no other process removes it as a leftover.
            if replace:
                draft.replace(path)
            else:
                os.link(draft, path)
                sync_folder(folder)
    finally:
        draft.unlink(missing_ok=True)


def write_file(path: Path, content: bytes | bytearray, *, private: bool = False, replace: bool = True) -> None:
    """Write a file atomically; see ``new_file``.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "node.key"
    >>> write_file(path, b"secret", private=True)
    >>> oct(path.stat().st_mode & 0o777), [each.name for each in path.parent.iterdir()]
    ('0o600', ['node.key'])
    """
    with new_file(path, private=private, replace=replace) as file:
        file.write(content)


def create_locked(path: Path, content: bytes) -> int:
    """Create a private file that is locked from its first moment; returns the descriptor, whose closing unlocks it.

    An existing file is kept and ``FileExistsError`` raised.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "request"
    >>> descriptor = create_locked(path, b"one run")
    >>> with path.open() as other:
    ...     try_lock(other.fileno())
    False
    >>> os.close(descriptor)
    """
    with ExitStack() as undo:
        with new_file(path, private=True, replace=False) as file:
            file.write(content)
            # A lock belongs to the open file, and so to each of its descriptors.
            descriptor = os.dup(file.fileno())
            undo.callback(os.close, descriptor)
        undo.pop_all()
    return descriptor


def sync_folder(folder: Path) -> None:
    """Make the file names in a folder survive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(file: Path) -> Iterator[int]:
    """Hold the lock of a file, which is created if missing; waits for the lock. Yields the open file's descriptor.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "lock"
    >>> with locked(file), file.open() as other:
    ...     try_lock(other.fileno())
    False
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _flock(descriptor, wait=True)
        yield descriptor
    finally:
        # Closing the descriptor releases the lock.
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock an open file or folder until it is closed or the process ends; False if another process holds the lock."""
    try:
        _flock(descriptor, wait=False)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _flock(descriptor: int, wait: bool) -> None:
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def _draft(folder: Path, name: str, mode: int) -> tuple[Path, int]:
    """A new hidden temporary file in the same folder, locked."""
    while True:
        draft = folder / f".{name}.{secrets.token_hex(4)}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        if try_lock(descriptor) and draft.exists():
            return draft, descriptor
        # Another process locked it first, as a leftover, and removes it.
        os.close(descriptor)


def _remove_leftovers(folder: Path, name: str) -> None:
    """Remove temporary files that killed processes left; those of live processes are locked and stay."""
    for left in folder.glob(f".{glob.escape(name)}.{8 * '[0-9a-f]'}"):
        with suppress(OSError):
            descriptor = os.open(left, os.O_RDONLY)
            try:
                if try_lock(descriptor):
                    left.unlink()
            finally:
                os.close(descriptor)
