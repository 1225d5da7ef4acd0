"""Encodings kept on disk, named by what they are: the encoder's parameters and the samples' bytes.

A cache is a place that someone chose, and encoding through it is an explicit call. It is not a representation, so
it never travels to a holder inside a question: what a holder encodes is kept only if the holder passes a cache of
its own. Files are readable by their owner only.
"""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.codec import encode as as_bytes
from tacit.core.errors import InvalidInput
from tacit.core.files import new_file
from tacit.core.protocols import Floats, Representation

__all__ = ["EncodedCache", "digest", "has_name"]


def digest(representation: Representation) -> str:
    """A name for what the encoder does: equal parameters give equal names.

    A representation is a frozen dataclass of numbers, texts, arrays and other representations, or it tells its
    own ``digest``.

    >>> from tacit.representations.scaled import Identity
    >>> digest(Identity(4)) == digest(Identity(4)) != digest(Identity(5))
    True
    """
    return hashlib.sha256(as_bytes(_plain(representation))).hexdigest()


def has_name(representation: Representation) -> bool:
    """Whether the encoder can be named by what it does; one that cannot is never cached.

    >>> from tacit.representations.scaled import Identity
    >>> has_name(Identity(4)), has_name(object())
    (True, False)
    """
    try:
        return bool(digest(representation))
    except InvalidInput:
        return False


def _plain(value: Any) -> Any:  # noqa: ANN401
    own = getattr(value, "digest", None)
    if isinstance(own, str):
        return [type(value).__name__, own]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kind": type(value).__name__, "fields": fields}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str | np.ndarray):
        return value
    raise InvalidInput(f"{type(value).__name__} cannot be cached: its parameters are not plain values")


class EncodedCache:
    """A folder of encodings, each computed once.

    >>> import tempfile
    >>> from tacit.representations.scaled import Identity
    >>> cache = EncodedCache(Path(tempfile.mkdtemp()))
    >>> cache.encode(Identity(2), np.ones((1, 2))).tolist(), len(list(cache.folder.iterdir()))
    ([[1.0, 1.0]], 1)
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise InvalidInput(f"{folder}: no place for a cache ({error.strerror})") from None

    def encode(self, representation: Representation, samples: NDArray[Any]) -> Floats:
        """The samples' encoding: read if it is there and whole, else computed and kept."""
        file = self.folder / f"{_name(representation, samples)}.npy"
        kept = _read(file, len(samples))
        if kept is not None:
            return kept
        encoded = representation.encode(samples)
        with new_file(file, private=True) as stream:
            stream.write(hashlib.sha256(encoded.tobytes()).digest())
            np.save(stream, encoded, allow_pickle=False)
        return encoded


def _name(representation: Representation, samples: NDArray[Any]) -> str:
    content = hashlib.sha256(digest(representation).encode())
    content.update(f"{samples.dtype.str} {samples.shape}".encode())
    content.update(np.ascontiguousarray(samples).view(np.uint8).reshape(-1).data)
    return content.hexdigest()


def _read(file: Path, rows: int) -> Floats | None:
    """What the file holds, if it is whole: a damaged file is as good as none."""
    try:
        with file.open("rb") as stream:
            expected = stream.read(32)
            encoded: Floats = np.load(stream, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    whole = encoded.dtype == np.float32 and encoded.ndim == 2 and len(encoded) == rows
    return encoded if whole and hashlib.sha256(encoded.tobytes()).digest() == expected else None
