"""Encoding records without visible failures, and caches of encodings on disk or in memory.

The coordinator chooses the representation. If it failed on some record, and the failure were visible, the coordinator
would learn that there is such a record. So a question is tried on a made-up sample before anything is paid, and
afterwards a record that cannot be encoded becomes NaN and affects no other.

Only the holder can choose a cache; it is never part of a question. Files are named by a digest of the encoder's
parameters and the samples' bytes, and are readable by their owner only. A node in service keeps encodings in memory
only, up to a limit.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Encodings, Floats, InvalidInput, Representation
from tacit.core.codec import encode as as_bytes
from tacit.core.files import new_file
from tacit.representations.arrays import require_narrow

__all__ = [
    "EncodedCache", "EncodingMemory", "encoded_apart", "encoded_block", "encoded_chunks", "encoder_digest", "has_name",
    "require_encodable",
]  # fmt: skip

# Rows encoded at a time: enough for fast matrix products, and a bounded memory for any data set.
_CHUNK = 8192


def encoder_digest(representation: Representation) -> str:
    """A digest of the encoder: equal parameters give equal digests.

    A representation is a frozen dataclass of numbers, texts, arrays and other representations, or it has its own
    ``digest``.

    >>> from tacit.representations.scaled import Identity
    >>> encoder_digest(Identity(4)) == encoder_digest(Identity(4)) != encoder_digest(Identity(5))
    True
    """
    return hashlib.sha256(as_bytes(_plain(representation))).hexdigest()


def has_name(representation: Representation) -> bool:
    """Whether the encoder has a digest; without one its encodings are never cached.

    >>> from tacit.representations.scaled import Identity
    >>> has_name(Identity(4)), has_name(object())
    (True, False)
    """
    try:
        return bool(encoder_digest(representation))
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
            raise InvalidInput(f"{folder}: the cache folder cannot be made ({error.strerror})") from None

    def encode(self, representation: Representation, samples: NDArray[Any]) -> Floats:
        """The samples' encoding: read if it is stored and undamaged, otherwise computed and stored."""
        file = self.folder / f"{_name(representation, samples)}.npy"
        kept = _read(file, len(samples))
        if kept is not None:
            return kept
        encoded = representation.encode(samples)
        with new_file(file, private=True) as stream:
            stream.write(hashlib.sha256(encoded.tobytes()).digest())
            np.save(stream, encoded, allow_pickle=False)
        return encoded


class EncodingMemory:
    """A cache of encodings in memory, of at most ``most`` bytes; nothing is written to disk.

    If it is full, the encodings of the least recently used representation are removed, never those of the current one:
    of records that do not all fit, a part stays cached.

    >>> from tacit.representations.scaled import Identity
    >>> memory = EncodingMemory(most=16)
    >>> memory.encode(Identity(2), np.ones((1, 2))).tolist(), memory.size
    ([[1.0, 1.0]], 8)
    >>> _ = memory.encode(Identity(2), np.zeros((1, 2))), memory.encode(Identity(1), np.zeros((3, 1)))
    >>> memory.size
    12
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, dict[bytes, Floats]] = OrderedDict()
        self.size = 0

    def encode(self, representation: Representation, samples: NDArray[Any]) -> Floats:
        """The samples' encoding as a copy: from the cache, or computed."""
        encoder = encoder_digest(representation)
        name = _samples_digest(samples).digest()
        kept = self._kept.setdefault(encoder, {})
        self._kept.move_to_end(encoder)
        if name in kept:
            return kept[name].copy()
        encoded = representation.encode(samples)
        while self.size + encoded.nbytes > self._most and len(self._kept) > 1:
            _, gone = self._kept.popitem(last=False)
            self.size -= sum(each.nbytes for each in gone.values())
        if self.size + encoded.nbytes <= self._most:
            # A copy: the encoder may have returned the records themselves.
            kept[name] = encoded.copy()
            self.size += encoded.nbytes
        return encoded

    def forget(self) -> None:
        """Empty the cache, when the records change."""
        self._kept.clear()
        self.size = 0


def _samples_digest(samples: NDArray[Any]) -> Any:  # noqa: ANN401
    content = hashlib.sha256(f"{samples.dtype.str} {samples.shape}".encode())
    content.update(np.ascontiguousarray(samples).view(np.uint8).reshape(-1).data)
    return content


def _name(representation: Representation, samples: NDArray[Any]) -> str:
    content = hashlib.sha256(encoder_digest(representation).encode())
    content.update(f"{samples.dtype.str} {samples.shape}".encode())
    content.update(np.ascontiguousarray(samples).view(np.uint8).reshape(-1).data)
    return content.hexdigest()


def _read(file: Path, rows: int) -> Floats | None:
    """The encoding in the file; None if the file is missing or damaged."""
    try:
        with file.open("rb") as stream:
            expected = stream.read(32)
            encoded: Floats = np.load(stream, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    whole = encoded.dtype == np.float32 and encoded.ndim == 2 and len(encoded) == rows
    return encoded if whole and hashlib.sha256(encoded.tobytes()).digest() == expected else None


def encoded_chunks(
    representation: Representation, samples: NDArray[Any], cache: Encodings | None = None
) -> Iterator[Floats]:
    """The samples in the representation's space, a few thousand at a time, from the owner's cache if there is one.

    A sample's features do not depend on the others. A sample that cannot be encoded becomes NaN.

    >>> from tacit.representations.scaled import Identity
    >>> [chunk.tolist() for chunk in encoded_chunks(Identity(1), np.array([[1.0], [2.0]]))]
    [[[1.0], [2.0]]]
    """
    kept = cache if cache is not None and has_name(representation) else None
    for start in range(0, len(samples), _CHUNK):
        # Row by row in memory: in another order the rounding of a row depends on how many there are.
        chunk = np.ascontiguousarray(samples[start : start + _CHUNK])
        encoded = _attempt(representation, chunk, kept)
        yield encoded_apart(representation, chunk) if encoded is None else encoded


def encoded_apart(representation: Representation, samples: NDArray[Any]) -> Floats:
    """The encodings of samples some of which cannot be encoded: those become rows of NaN.

    >>> from tacit.representations.image_features import Deskewed
    >>> images = np.array([[0.0, 1.0, 0.0, 1.0], [0.0, np.nan, 0.0, 1.0]])
    >>> np.isfinite(encoded_apart(Deskewed((2, 2, 1), 0.0, 1.0), images)).all(axis=1).tolist()
    [True, False]
    """
    encoded = _attempt(representation, samples)
    if encoded is not None:
        return encoded
    if len(samples) == 1:
        with np.errstate(all="ignore"):
            width = representation.encode(np.zeros_like(samples)).shape[1]
        return np.full((1, width), np.nan, dtype=np.float32)
    half = len(samples) // 2
    return np.concatenate([encoded_apart(representation, part) for part in (samples[:half], samples[half:])])


def encoded_block(representation: Representation, samples: NDArray[Any], rows: int) -> Floats:
    """The encodings of at most ``rows`` samples, padded with zeros to a block of exactly ``rows``.

    The block has always the same size, in case a library's results depend on it. A sample that cannot be encoded
    becomes NaN, and the others are encoded with zeros in its place.

    >>> from tacit.representations.scaled import Identity
    >>> encoded_block(Identity(1), np.array([[1.0], [2.0]]), rows=8).tolist()
    [[1.0], [2.0]]
    """
    count = len(samples)
    padded = samples
    if count < rows:
        padded = np.concatenate([samples, np.zeros((rows - count, *samples.shape[1:]), dtype=samples.dtype)])
    encoded = _attempt(representation, padded)
    if encoded is None:
        apart = encoded_apart(representation, samples)
        lost = ~np.isfinite(apart).all(axis=1)
        blanked = padded.copy()
        blanked[:count][lost] = 0
        encoded = _attempt(representation, blanked)
        if encoded is None:
            return apart
        encoded[:count][lost] = np.nan
    return encoded[:count]


def require_encodable(representation: Representation, blank: NDArray[Any], width: int) -> None:
    """Refuse a representation that does not map samples like the made-up one to ``width`` features.

    >>> from tacit.representations.scaled import Identity
    >>> require_encodable(Identity(3), np.zeros((1, 3)), 3)
    """
    encoder = getattr(representation, "encoder", None)
    # Raw rows have as many features as their encoder makes, which the operator's policy bounds.
    require_narrow(width, blank if encoder is None else np.zeros((1, encoder.width)))
    encoded = _attempt(representation, blank)
    if encoded is None or encoded.shape != (1, width):
        raise InvalidInput(
            f"records are samples of shape {blank.shape[1:]}, and the question is about samples of a different kind; "
            "nothing was charged"
        )


def _attempt(representation: Representation, samples: NDArray[Any], cache: Encodings | None = None) -> Floats | None:
    """The encodings, or None if the representation fails in any way."""
    try:
        with np.errstate(all="ignore"):
            return representation.encode(samples) if cache is None else cache.encode(representation, samples)
    except Exception:
        return None
