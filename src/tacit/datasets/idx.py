"""The idx format of MNIST and its relatives: one array a file, plain or gzipped.

A file is two zero bytes, a byte for the type of the numbers, a byte for the number of dimensions, the size of each
dimension as a 32-bit number, and then the numbers, all big-endian.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput

__all__ = ["find_idx", "read_idx"]

GZIP = b"\x1f\x8b"
TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: str | Path, dimensions: int | None = None) -> NDArray[Any]:
    """The array in an idx file, gzipped or not; anything else is refused with the reason.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "labels-idx1-ubyte"
    >>> _ = file.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]))
    >>> read_idx(file, dimensions=1)
    array([7, 9], dtype=uint8)
    """
    path = Path(path)
    content = _content(path)
    if len(content) < 4 or content[:2] != b"\x00\x00" or content[2] not in TYPES:
        raise InvalidInput(f"{path}: not an idx file: it does not begin as one")
    dtype, sides = np.dtype(TYPES[content[2]]), content[3]
    if dimensions is not None and sides != dimensions:
        raise InvalidInput(f"{path}: an array of {sides} dimensions, {dimensions} were expected (images or labels?)")
    start = 4 + 4 * sides
    if len(content) < start:
        raise InvalidInput(f"{path}: the file ends inside its head")
    shape = struct.unpack(f">{sides}I", content[4:start])
    size = math.prod(shape) * dtype.itemsize
    if len(content) - start != size:
        raise InvalidInput(
            f"{path}: shape {shape} needs {size} bytes and the file has {len(content) - start}; is it cut short?"
        )
    return np.frombuffer(content, dtype=dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def find_idx(folder: str | Path, stem: str) -> Path:
    """The file of that name in a folder, with or without ``.gz`` and with a dot or a dash before ``idx``.

    >>> find_idx("no-such-folder", "train-images-idx3-ubyte")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no-such-folder: no file train-images-idx3-ubyte or train-images-idx3-ubyte.gz
    """
    for name in (stem, stem.replace("-idx", ".idx")):
        for candidate in (Path(folder) / name, Path(folder) / f"{name}.gz"):
            if candidate.is_file():
                return candidate
    raise InvalidInput(f"{folder}: no file {stem} or {stem}.gz")


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content[:2] == GZIP else content
    except OSError as error:
        # A damaged gzip file raises BadGzipFile, which is an OSError without a number.
        raise InvalidInput(f"{path}: cannot be read ({error.strerror or error})") from None
    except (EOFError, zlib.error) as error:
        raise InvalidInput(f"{path}: the gzip file is damaged or cut short ({error})") from None
