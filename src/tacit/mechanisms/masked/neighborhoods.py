"""The neighborhood of a holder in sparse secure aggregation: its size, from exact hypergeometric tails.

Each holder draws ``degree`` others at random, masks its table with them, and gives each a share of its secrets, any
``shares`` of which restore them (secret sharing). ``docs/decisions/0014-sparse-secure-aggregation.md`` proves that then
no sum of fewer than ``honest`` honest tables is exposed, except with the probability that ``exposure`` bounds.

Counts are exact integers. Only their logarithms are floats, and they are rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from tacit.core import InvalidInput

__all__ = ["CORRECTNESS", "SECURITY", "Neighborhood", "exposure", "failure", "neighborhood_of", "witnesses"]

# Exponents of two of the probability that too small a sum is exposed, and that dropouts make an honest sum fail. The
# first is divided between the draw of neighbors and the draw of witnesses.
SECURITY = -40.0
CORRECTNESS = -20.0
# math.log2 of an integer has a relative error below 1e-12, and no logarithm here is above 10^5.
_ROUNDING = 1e-6
# Smaller powers of two would underflow; each of them counts as this one.
_SMALLEST = -1000.0
_UNEVEN = 8


@dataclass(frozen=True)
class Neighborhood:
    """How many other holders a holder draws, and how many of their shares restore its secrets."""

    degree: int
    shares: int

    def require(self, holders: int, threshold: int, honest: int, colluding: int | None) -> None:
        """Refuse a neighborhood that is not safe for a holder.

        >>> Neighborhood(48, 32).require(holders=200, threshold=180, honest=100, colluding=20)
        """
        if colluding is None:
            raise InvalidInput("sparse secure aggregation needs colluding, the number of holders that may collude")
        if not 1 <= self.shares <= self.degree < holders:
            raise InvalidInput(f"a neighborhood of {self.degree} with {self.shares} shares does not fit the session")
        if exposure(holders, honest, colluding, self) > SECURITY - 1:
            raise InvalidInput(
                f"a neighborhood of {self.degree} with {self.shares} shares is not safe among {holders} holders of "
                f"whom {colluding} may collude"
            )
        witnesses(holders, threshold, colluding)


def exposure(holders: int, honest: int, colluding: int, neighborhood: Neighborhood) -> float:
    """The logarithm, to base 2, of a bound on the probability that a sum of fewer than ``honest`` tables is exposed.

    The sum of a set of a honest holders is exposed only if each of them drew at least ``shares`` of its neighbors from
    the set itself and from the colluding holders. Draws are independent, so the probability for a given set is the a-th
    power of a hypergeometric tail, and the union bound is Σ over a < honest of C(holders, a) · tail(a)^a.

    >>> exposure(200, 100, 20, Neighborhood(48, 32)) < SECURITY < exposure(200, 100, 20, Neighborhood(48, 27))
    True
    """
    others, degree, shares = holders - 1, neighborhood.degree, neighborhood.shares
    total = math.log2(math.comb(others, degree))
    bad = sum(
        math.comb(colluding, each) * math.comb(others - colluding, degree - each)
        for each in range(shares, min(colluding, degree) + 1)
    )
    sets, terms = 1, []
    for size in range(1, honest):
        sets = sets * (holders - size + 1) // size
        if bad:
            term = math.log2(sets) + size * (math.log2(bad) - total + _ROUNDING)
            if term > SECURITY:
                # Sets of this size alone are already far too likely.
                return 0.0
            terms.append(2.0 ** max(term + _ROUNDING, _SMALLEST))
        # One more holder in the set: the draws in which it completes the ``shares``.
        within = size - 1 + colluding
        if within < others:
            bad += math.comb(within, shares - 1) * math.comb(others - 1 - within, degree - shares)
    return min(0.0, math.log2(math.fsum(terms)) + _ROUNDING) if terms else -math.inf


def failure(holders: int, threshold: int, neighborhood: Neighborhood) -> float:
    """The logarithm, to base 2, of a bound on the probability that some holder's secrets cannot be restored.

    Assumes that as many holders drop out as may, independently of the neighborhoods.

    >>> failure(200, 180, Neighborhood(48, 32)) < CORRECTNESS < failure(200, 180, Neighborhood(48, 36))
    True
    """
    others, lost, degree = holders - 1, holders - threshold, neighborhood.degree
    tail = sum(
        math.comb(lost, each) * math.comb(others - lost, degree - each)
        for each in range(degree - neighborhood.shares + 1, min(lost, degree) + 1)
    )
    if not tail:
        return -math.inf
    return min(0.0, math.log2(holders * tail) - math.log2(math.comb(others, degree)) + _ROUNDING)


@lru_cache(maxsize=64)
def neighborhood_of(holders: int, threshold: int, honest: int, colluding: int | None) -> Neighborhood | None:
    """The smallest neighborhood that is safe and survives dropouts; it may contain all other holders.

    None if the number of colluding holders is not bounded, or if no neighborhood is safe.

    >>> neighborhood_of(holders=1000, threshold=900, honest=500, colluding=100)
    Neighborhood(degree=69, shares=45)
    >>> neighborhood_of(holders=9, threshold=6, honest=4, colluding=2)
    Neighborhood(degree=8, shares=5)
    >>> neighborhood_of(holders=2, threshold=2, honest=2, colluding=0)
    Neighborhood(degree=1, shares=1)
    >>> neighborhood_of(holders=9, threshold=6, honest=4, colluding=None) is None
    True
    """
    if colluding is None:
        return None

    def safe(degree: int) -> Neighborhood | None:
        shares = _most_shares(holders, threshold, degree)
        made = Neighborhood(degree, shares)
        return made if shares and exposure(holders, honest, colluding, made) <= SECURITY - 1 else None

    low, high = 0, min(2, holders - 1)
    while high < holders - 1 and safe(high) is None:
        low, high = high, min(2 * high, holders - 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if safe(middle) is not None else (middle, high)
    # Rounding to integer shares makes safety slightly non-monotone: a few fewer may be enough.
    return next(filter(None, map(safe, range(max(min(2, high), high - _UNEVEN), high + 1))), None)


def _most_shares(holders: int, threshold: int, degree: int) -> int:
    """The largest number of shares that dropouts rarely make unavailable; 0 if there is none."""
    others, lost = holders - 1, holders - threshold
    budget = math.comb(others, degree)
    tail, gone = 0, min(degree, lost)
    while gone >= 1:
        tail += math.comb(lost, gone) * math.comb(others - lost, degree - gone)
        if holders * tail * 2 ** int(-CORRECTNESS) > budget:
            break
        gone -= 1
    return degree - gone


@lru_cache(maxsize=64)
def witnesses(holders: int, threshold: int, colluding: int) -> int:
    """How many signatures of a question a holder checks, drawn at random by itself.

    At least ``threshold`` holders are claimed to have signed. No two questions can both be signed by more than
    (holders + colluding)/2 holders. The probability that all drawn signatures are valid although fewer holders signed
    is below 2^-41 for all holders together.

    >>> witnesses(1000, 900, 100)
    69
    """
    few = (holders + colluding) // 2
    if few >= threshold:
        raise InvalidInput(f"{threshold} of {holders} holders are not a majority if {colluding} may collude")
    limit = 2 ** int(1 - SECURITY)
    drawn = wrong = every = 1
    # C(few, drawn) / C(threshold, drawn) as two products.
    while True:
        wrong, every = wrong * (few - drawn + 1), every * (threshold - drawn + 1)
        if holders * wrong * limit <= every:
            return drawn
        drawn += 1
