"""The masks of a table, and the secret shares that reconstruct the masks of holders that drop out.

A holder has one mask of its own, and one with every other holder that cancels in the sum. Their secrets are shared by
Shamir's secret sharing over the field of integers modulo 2^255 − 19. A secret is the value at 0 of a polynomial whose
other coefficients are uniform; share i is its value at i. As many shares as the polynomial has coefficients determine
it, and fewer reveal nothing: for every secret there are equally many polynomials through them. Many secrets are put
together from the same holders' shares, so the weights of interpolation are computed once for all of them.
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
    "PRIME", "commitment", "element_to_bytes", "joined_secret", "masking_public", "own_stream", "pair_stream",
    "read_element", "split_secret", "weights_at_zero",
]  # fmt: skip

PRIME = 2**255 - 19
_WIDTH = 32


def split_secret(
    secret: int, threshold: int, places: Sequence[int], randomness: Randomness, prime: int = PRIME
) -> list[int]:
    """A share for every place, any ``threshold`` of which give the secret back.

    >>> from tacit.core.randomness import SystemRandomness
    >>> shares = split_secret(42, 2, [1, 2, 3], SystemRandomness())
    >>> joined_secret({1: shares[0], 3: shares[2]})
    42
    """
    if not 0 <= secret < prime:
        raise InvalidInput("a secret must be an element of the field")
    if not 1 <= threshold <= len(places) or len(set(places)) < len(places):
        raise InvalidInput(f"threshold must be between 1 and the {len(places)} different places, got {threshold}")
    if not all(1 <= place < prime for place in places):
        raise InvalidInput("places must be from 1 on: the place 0 is the secret's")
    coefficients = [secret, *(integer_below(prime, randomness) for _ in range(threshold - 1))]
    shares = []
    for place in places:
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * place + coefficient) % prime
        shares.append(value)
    return shares


def weights_at_zero(places: Sequence[int], prime: int = PRIME) -> list[int]:
    """How much each place counts for the value at 0.

    >>> [weight if weight < PRIME // 2 else weight - PRIME for weight in weights_at_zero([1, 2])]
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


def joined_secret(shares: Mapping[int, int], prime: int = PRIME) -> int:
    """The secret that these shares, by place, belong to; with fewer than the threshold it is any number."""
    weights = weights_at_zero(list(shares), prime)
    return sum(weight * share for weight, share in zip(weights, shares.values(), strict=True)) % prime


def element_to_bytes(element: int) -> bytes:
    """An element of the field as 32 bytes.

    >>> read_element(element_to_bytes(7))
    7
    """
    return element.to_bytes(_WIDTH, "little")


def read_element(content: bytes) -> int:
    """The element in 32 bytes; anything else is refused."""
    element = int.from_bytes(content, "little")
    if len(content) != _WIDTH or element >= PRIME:
        raise InvalidInput("a share must be an element of the field, in 32 bytes")
    return element


def own_stream(seed: bytes, session: Session, node: str) -> NDArray[np.uint64]:
    """A holder's own mask."""
    return stream(derived(seed, "own mask", session.digest, node), session.cells)


def pair_stream(masking: bytes, session: Session, node: str, other: Keys) -> NDArray[np.uint64]:
    """The mask of two holders as ``node`` adds it: what one of them adds, the other takes away."""
    shared = shared_secret(_masking_key(masking, session, node), other.masking)
    first, second = sorted((node, other.node))
    words = stream(derived(shared, "pair mask", session.digest, first, second), session.cells)
    return words if node == first else np.uint64(0) - words


def masking_public(masking: bytes, session: Session, node: str) -> bytes:
    """The public key that belongs to a secret of this session."""
    return public_key(_masking_key(masking, session, node))


def _masking_key(masking: bytes, session: Session, node: str) -> bytes:
    return derived(masking, "masking key", session.digest, node)


def commitment(seed: bytes, session: Session, node: str) -> bytes:
    """A commitment to a seed, which does not reveal it: the seed has 255 random bits."""
    return hashlib.sha256(derived(seed, "commitment", session.digest, node)).digest()
