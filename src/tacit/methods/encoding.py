"""Encoding records whatever they hold: one that cannot be encoded becomes NaN, and spoils no other.

Whoever asks chooses the representation. If it failed on some record, and the failure showed, whoever asks would learn
that there is such a record. So a question is tried on a made-up sample before anything is paid for, and afterwards
every failure stays with the record that caused it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats, Representation
from tacit.representations.encoded_cache import EncodedCache, has_name

__all__ = ["encoded_apart", "encoded_chunks", "require_encodable"]

# Rows encoded at a time: enough to keep matrix products busy, little enough to forget the size of the data set.
CHUNK = 8192


def encoded_chunks(
    representation: Representation, samples: NDArray[Any], cache: EncodedCache | None = None
) -> Iterator[Floats]:
    """The samples in the representation's space, a few thousand at a time; read from the owner's cache, if any.

    A sample's features do not depend on the others, so neither does what is cached on how samples fall into chunks.
    A sample that cannot be encoded has features that are not numbers.

    >>> from tacit.representations.scaled import Identity
    >>> [chunk.tolist() for chunk in encoded_chunks(Identity(1), np.array([[1.0], [2.0]]))]
    [[[1.0], [2.0]]]
    """
    kept = cache if cache is not None and has_name(representation) else None
    for start in range(0, len(samples), CHUNK):
        chunk = samples[start : start + CHUNK]
        encoded = _attempt(representation, chunk, kept)
        yield encoded_apart(representation, chunk) if encoded is None else encoded


def encoded_apart(representation: Representation, samples: NDArray[Any]) -> Floats:
    """The encodings of samples of which some cannot be encoded; those become rows of NaN.

    >>> from tacit.representations.handwriting import Deskewed
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


def require_encodable(representation: Representation, blank: NDArray[Any], width: int) -> None:
    """Refuse a representation that does not take samples like the made-up one to ``width`` features.

    >>> from tacit.representations.scaled import Identity
    >>> require_encodable(Identity(3), np.zeros((1, 3)), 3)
    """
    encoded = _attempt(representation, blank)
    if encoded is None or encoded.shape != (1, width):
        raise InvalidInput(
            f"records are samples of shape {blank.shape[1:]}, and the question is about samples of another kind; "
            "nothing was charged"
        )


def _attempt(representation: Representation, samples: NDArray[Any], cache: EncodedCache | None = None) -> Floats | None:
    """The encodings, or None where the representation fails, in whatever way."""
    try:
        with np.errstate(all="ignore"):
            return representation.encode(samples) if cache is None else cache.encode(representation, samples)
    except Exception:
        return None
