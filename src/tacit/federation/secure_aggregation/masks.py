"""The masks of a table, and Shamir's secret sharing, which reconstructs the masks of holders that drop out.

A holder has one mask of its own, and a pairwise mask with every other holder that cancels in the sum. Their secrets are
shared by Shamir's secret sharing over the field of integers modulo 2^255 − 19. A secret is the value at 0 of a
polynomial whose other coefficients are uniform; share i is its value at i. As many shares as the polynomial has
coefficients determine it, and fewer reveal nothing: for every secret there are equally many polynomials through them.
Many secrets are reconstructed from the same holders' shares, so the Lagrange weights are computed once for all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, Randomness, integer_below
from tacit.federation.keys import derived, public_key, shared_secret, stream
from tacit.federation.secure_aggregation.session import Keys, Session

__all__ = [
    "PRIME",
    "commitment",
    "element_to_bytes",
    "lagrange_weights",
    "masking_public",
    "own_mask",
    "pairwise_mask",
    "read_element",
    "reconstruct_secret",
    "split_secret",
]  # fmt: skip

PRIME = 2**255 - 19
_WIDTH = 32


def split_secret(
    secret: int, threshold: int, places: Sequence[int], randomness: Randomness, prime: int = PRIME
) -> list[int]:
    """A share for every place, any ``threshold`` of which reconstruct the secret.

    >>> from tacit.core.randomness import SystemRandomness
    >>> shares = split_secret(42, 2, [1, 2, 3], SystemRandomness())
    >>> reconstruct_secret({1: shares[0], 3: shares[2]})
    42
    """
    if not 0 <= secret < prime:
        raise InvalidInput("a secret must be an element of the field")
    if not 1 <= threshold <= len(places) or len(set(places)) < len(places):
        raise InvalidInput(f"threshold must be between 1 and the {len(places)} different places, got {threshold}")
    if not all(1 <= place < prime for place in places):
        raise InvalidInput("places must be at least 1: the value at 0 is the secret")
    coefficients = [secret, *(integer_below(prime, randomness) for _ in range(threshold - 1))]
    shares = []
    for place in places:
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * place + coefficient) % prime
        shares.append(value)
    return shares


def lagrange_weights(places: Sequence[int], prime: int = PRIME) -> list[int]:
    """The Lagrange weight of each place for the value at 0.

    >>> [weight if weight < PRIME // 2 else weight - PRIME for weight in lagrange_weights([1, 2])]
    [2, -1]
    """
    weights = []
    for place in places:
        above = below = 1
        for other in places:
            if other != place:
                above = above * other % prime
                below = below * (other - place) % prime
        weights.append(above * pow(below, -1, prime) % prime)
    return weights


def reconstruct_secret(shares: Mapping[int, int], weights: Sequence[int] | None = None) -> int:
    """The secret of these shares, by place; with fewer than the threshold the result is unrelated to it.

    ``weights`` are those of the places, for many secrets of the same ones.
    """
    known = lagrange_weights(list(shares)) if weights is None else weights
    return sum(weight * share for weight, share in zip(known, shares.values(), strict=True)) % PRIME


def element_to_bytes(element: int) -> bytes:
    """An element of the field as 32 bytes.

    >>> read_element(element_to_bytes(7))
    7
    """
    return element.to_bytes(_WIDTH, "little")


def read_element(content: bytes) -> int:
    """The element in 32 bytes; anything else is an error."""
    element = int.from_bytes(content, "little")
    if len(content) != _WIDTH or element >= PRIME:
        raise InvalidInput("a share must be an element of the field, in 32 bytes")
    return element


def own_mask(seed: bytes, session: Session, node: str) -> NDArray[np.uint64]:
    """A holder's own mask."""
    return stream(derived(seed, "own mask", session.digest, node), session.cells)


def pairwise_mask(masking: bytes, session: Session, node: str, other: Keys) -> NDArray[np.uint64]:
    """The pairwise mask of two holders as ``node`` adds it: what one of them adds, the other one subtracts."""
    shared = shared_secret(_masking_key(masking, session, node), other.masking)
    first, second = sorted((node, other.node))
    words = stream(derived(shared, "pair mask", session.digest, first, second), session.cells)
    return words if node == first else np.uint64(0) - words


def masking_public(masking: bytes, session: Session, node: str) -> bytes:
    """The public key of a masking secret in this session."""
    return public_key(_masking_key(masking, session, node))


def _masking_key(masking: bytes, session: Session, node: str) -> bytes:
    return derived(masking, "masking key", session.digest, node)


def commitment(seed: bytes, session: Session, node: str) -> bytes:
    """A commitment to a seed; it does not reveal the seed, which has 255 random bits."""
    return hashlib.sha256(derived(seed, "commitment", session.digest, node)).digest()
