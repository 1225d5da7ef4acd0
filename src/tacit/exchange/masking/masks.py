"""The masks of a table: one of the holder's own, and one with every other holder that vanishes in the sum."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from tacit.exchange.ciphers import agreed, derived, public_key, stream
from tacit.exchange.masking.session import Keys, Session

__all__ = ["commitment", "masking_public", "own_stream", "pair_stream"]


def own_stream(seed: bytes, session: Session, node: str) -> NDArray[np.uint64]:
    """A holder's own mask."""
    return stream(derived(seed, "own mask", session.digest, node), session.cells)


def pair_stream(masking: bytes, session: Session, node: str, other: Keys) -> NDArray[np.uint64]:
    """The mask of two holders as ``node`` adds it: what one of them adds, the other takes away."""
    shared = agreed(_masking_key(masking, session, node), other.masking)
    first, second = sorted((node, other.node))
    words = stream(derived(shared, "pair mask", session.digest, first, second), session.cells)
    return words if node == first else np.uint64(0) - words


def masking_public(masking: bytes, session: Session, node: str) -> bytes:
    """The public key that belongs to a secret of this session."""
    return public_key(_masking_key(masking, session, node))


def _masking_key(masking: bytes, session: Session, node: str) -> bytes:
    return derived(masking, "masking key", session.digest, node)


def commitment(seed: bytes, session: Session, node: str) -> bytes:
    """What tells a seed from every other without saying it: the seed has 255 random bits."""
    return hashlib.sha256(derived(seed, "commitment", session.digest, node)).digest()
