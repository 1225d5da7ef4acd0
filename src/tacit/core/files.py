"""Files that appear whole or not at all, and locks that end with the process that holds them.

What is written is on disk before it gets its name. What a killed process left beside a file is removed by the next one
that writes there. Locks are the system's own (``flock``): it lets go of them when a process ends, in whatever way, so a
lock that can be taken says that nobody is at work. They need no process number, which another process, or another
container, may have.
"""

from __future__ import annotations

import glob
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["locked", "new_file", "sync_folder", "try_lock", "write_file"]


@contextmanager
def new_file(path: Path, *, private: bool = False, replace: bool = True) -> Iterator[BinaryIO]:
    """A file to be written, which gets its name when the block ends well; otherwise nothing is left of it.

    A ``private`` one can be read by its owner alone. Without ``replace`` a file that is there stays, and the error is
    ``FileExistsError``.

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
            # Still locked, so that nobody takes it for a leftover.
            if replace:
                draft.replace(path)
            else:
                os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    if not replace:
        sync_folder(folder)


def write_file(path: Path, content: bytes | bytearray, *, private: bool = False, replace: bool = True) -> None:
    """Write a file whole or not at all; see ``new_file``.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "node.key"
    >>> write_file(path, b"secret", private=True)
    >>> oct(path.stat().st_mode & 0o777), [each.name for each in path.parent.iterdir()]
    ('0o600', ['node.key'])
    """
    with new_file(path, private=private, replace=replace) as file:
        file.write(content)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last through a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(file: Path) -> Iterator[int]:
    """Hold the lock of a file, which is made where it is missing; waits for whoever holds it. Yields the open file.

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
        # The lock goes with the descriptor.
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock an open file or folder until it is closed or the process ends; False where another one has it."""
    try:
        _flock(descriptor, wait=False)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _flock(descriptor: int, wait: bool) -> None:
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def _draft(folder: Path, name: str, mode: int) -> tuple[Path, int]:
    """A new hidden file beside its place, locked."""
    while True:
        draft = folder / f".{name}.{secrets.token_hex(4)}.new"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        if try_lock(descriptor) and draft.exists():
            return draft, descriptor
        # Another process took it for a leftover before it was locked, and removes it.
        os.close(descriptor)


def _remove_leftovers(folder: Path, name: str) -> None:
    """Remove what killed processes left of a file; what a living one is writing is left alone."""
    for left in folder.glob(f".{glob.escape(name)}.*.new"):
        with suppress(OSError):
            descriptor = os.open(left, os.O_RDONLY)
            try:
                if try_lock(descriptor):
                    left.unlink()
            finally:
                os.close(descriptor)
