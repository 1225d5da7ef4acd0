"""States of files by which a file that was changed between two passes over it is noticed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FileState", "file_states"]


@dataclass(frozen=True)
class FileState:
    """A file as it was found: which file it is, its size and its time of modification; None if there is none.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "records.csv"
    >>> _ = file.write_text("age\\n61\\n")
    >>> found = FileState.of(file)
    >>> _ = file.write_text("age\\n61\\n50\\n")
    >>> FileState.of(file) == found, FileState.of(file) == FileState.of(file)
    (False, True)
    """

    file: Path
    state: tuple[int, int, int, int] | None

    @classmethod
    def of(cls, file: Path) -> FileState:
        """The state of a file now. A new link to it, or other permissions, do not change it."""
        try:
            found = file.stat()
        except OSError:
            return cls(file, None)
        return cls(file, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns))


def file_states(files: Iterable[Path]) -> tuple[FileState, ...]:
    """The states of files now; of absolute paths, for they are looked at again later."""
    return tuple(FileState.of(file.absolute()) for file in files)
