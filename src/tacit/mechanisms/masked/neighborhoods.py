"""With how many others a holder of a masked sum shares its secrets, from exact tails and not from a rule of thumb.

Each holder draws ``degree`` others at random, masks its table with them, and gives each a share of its secrets, any
``shares`` of which restore them. ``docs/decisions/0014-sparse-secure-aggregation.md`` proves that no sum of fewer than
``honest`` honest tables is then uncovered, except with the probability that ``exposure`` bounds.

Counts of draws are whole numbers, however large. Only their logarithms are floats, and they are rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from tacit.core import InvalidInput

__all__ = ["CORRECTNESS", "SECURITY", "Neighborhood", "exposure", "failure", "neighborhood_of", "witnesses"]

# Probabilities as powers of two: that too small a sum can be uncovered, and that an honest sum fails through dropouts.
# The first is divided between the draw of neighbors and the draw of witnesses.
SECURITY = -40.0
CORRECTNESS = -20.0
# math.log2 of a whole number is off by less than 1e-12 of itself, and no logarithm here is above 10^5.
_ROUNDING = 1e-6
# Below, a power of two is no float any more; so much is added for each of those that vanish.
_SMALLEST = -1000.0
_UNEVEN = 8


@dataclass(frozen=True)
class Neighborhood:
    """How many others a holder draws, and how many of their shares restore its secrets."""

    degree: int
    shares: int

    def require(self, holders: int, threshold: int, honest: int, colluding: int | None) -> None:
        """Refuse a neighborhood in which a holder would not be safe, whoever proposes it.

        >>> Neighborhood(48, 32).require(holders=200, threshold=180, honest=100, colluding=20)
        """
        if colluding is None:
            raise InvalidInput("a plan with neighbors must say how many holders may collude")
        if not 1 <= self.shares <= self.degree < holders:
            raise InvalidInput(f"a neighborhood of {self.degree} with {self.shares} shares does not fit the session")
        if exposure(holders, honest, colluding, self) > SECURITY - 1:
            raise InvalidInput(
                f"a neighborhood of {self.degree} with {self.shares} shares is not safe among {holders} holders of "
                f"whom {colluding} may collude"
            )
        witnesses(holders, threshold, colluding)


def exposure(holders: int, honest: int, colluding: int, neighborhood: Neighborhood) -> float:
    """The logarithm, to base 2, of a bound on the probability that fewer than ``honest`` tables are uncovered.

    A set of a honest holders is uncovered only if each of them drew at least ``shares`` of its neighbors from the set
    itself and from those who collude. Draws are independent, so a given set fails with the power a of a
    hypergeometric tail, and sets are added up: Σ over a < honest of C(holders, a) · tail(a)^a.

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
                # Far too likely already, by one size of sets alone.
                return 0.0
            terms.append(2.0 ** max(term + _ROUNDING, _SMALLEST))
        # One more holder of the set: draws in which it is the one that makes them enough.
        within = size - 1 + colluding
        if within < others:
            bad += math.comb(within, shares - 1) * math.comb(others - 1 - within, degree - shares)
    return min(0.0, math.log2(math.fsum(terms)) + _ROUNDING) if terms else -math.inf


def failure(holders: int, threshold: int, neighborhood: Neighborhood) -> float:
    """The logarithm, to base 2, of a bound on the probability that some holder's secrets cannot be restored.

    As many as may drop out do, whoever they are: drawn without regard to the neighborhoods.

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
    """A neighborhood that is safe and outlives dropouts, which may be all others; with one fewer it would not be.

    None where the plan does not bound who colludes, or none is safe.

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
    # Whole shares make it a little uneven: a few fewer may do.
    return next(filter(None, map(safe, range(max(min(2, high), high - _UNEVEN), high + 1))), None)


def _most_shares(holders: int, threshold: int, degree: int) -> int:
    """As many shares as can be asked for, so that dropouts rarely leave fewer; 0 where not one can."""
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
    """How many of the signatures under a question a holder checks, drawn by itself.

    At least ``threshold`` holders are said to have signed. Two questions cannot both have more than half of holders
    and colluding ones together; that the drawn ones are all right though fewer are has probability 2^-41 for all
    holders together.

    >>> witnesses(1000, 900, 100)
    69
    """
    few = (holders + colluding) // 2
    if few >= threshold:
        raise InvalidInput(f"{threshold} of {holders} holders are no majority when {colluding} may collude")
    limit = 2 ** int(1 - SECURITY)
    drawn = wrong = every = 1
    # C(few, drawn) / C(threshold, drawn) as two products.
    while True:
        wrong, every = wrong * (few - drawn + 1), every * (threshold - drawn + 1)
        if holders * wrong * limit <= every:
            return drawn
        drawn += 1
