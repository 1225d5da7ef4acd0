"""Text files, plain or compressed, read as UTF-8; the suffix says which, and a complaint names the place."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, cast

from tacit.core.errors import InvalidInput

__all__ = ["COMPRESSIONS", "open_text", "suffix_of"]

COMPRESSIONS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


def suffix_of(path: Path) -> str:
    """What kind of file it is, without the suffix that says how it is compressed.

    >>> suffix_of(Path("records.CSV.gz")), suffix_of(Path("scan.png"))
    ('.csv', '.png')
    """
    whole = path.suffix.lower()
    return Path(path.stem).suffix.lower() if whole in COMPRESSIONS else whole


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """The file as text, with or without a byte order mark."""
    opener = COMPRESSIONS.get(path.suffix.lower(), open)
    try:
        with opener(path, "rt", newline="", encoding="utf-8-sig") as file:
            yield cast(TextIO, file)
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{path}: not a text file in UTF-8{_first_bad_byte(path, opener)}; save it as UTF-8 and try again"
        ) from None
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError):
        raise InvalidInput(f"{path}: damaged, or not compressed as its suffix {path.suffix} says") from None


def _first_bad_byte(path: Path, opener: Any) -> str:  # noqa: ANN401
    with opener(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return f" (row {number}, byte {error.start + 1})"
    return ""
