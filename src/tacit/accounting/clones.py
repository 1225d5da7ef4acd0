"""How well a crowd hides one message: the pair of distributions behind shuffled local randomizers.

Each other message is, with some probability, a clone: as likely as not to equal either of the two messages the
victim might have sent. The shuffler shows C ~ Bin(n−1, clone) clones split A ~ Bin(C, ½) to the left. The victim
adds one to the left with probability ``left``, to the right with probability ``right``, else nothing; on the
neighbouring data the two are exchanged. When the victim always adds one, everything else the output tells is
post-processing of the two counts, and the pair dominates every ε₀-DP randomizer it is built for. When it may be
silent that is not so, and the pair is only what a published bound claims (``tacit.accounting.amplify``).

Law: write t for the total and u for the left count, w₁ = P(C = t−1), w₀ = P(C = t), s = 1 − left − right. Then

    P(u, t) = w₁(left·b(u−1) + right·b(u)) + w₀·s·b'(u),    b = Bin(t−1, ½), b' = Bin(t, ½),

and Q exchanges left and right. P/Q grows with u, so P > e^ε·Q exactly above one threshold in each row t, and

    δ(ε) = Σ_t [P(U > a_t, t) − e^ε·Q(U > a_t, t)]₊.

Because b'(U > a) is the mean of b(U > a) and b(U > a−1), two incomplete beta functions a row are enough: order √n
of them instead of a double sum over n² pairs. Rows outside μ ± t with t = L/3 + √(L²/9 + 2NP(1−P)L) and
L = log(2/tolerance) hold at most ``tolerance`` by Bernstein's inequality, which is added.

Source: Feldman, McMillan & Talwar 2021 and 2022 (clones); Wang et al. 2024 (silent victims).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput

__all__ = ["Clones"]

Reals = NDArray[np.float64]


@dataclass(frozen=True)
class Clones:
    """The two distributions of one victim among ``others`` messages.

    >>> pair = Clones(others=49, clone=2 / (math.e + 1), left=math.e / (math.e + 1), right=1 / (math.e + 1))
    >>> f"{pair.delta(0.3):.9e}"
    '4.089086358e-03'
    """

    others: int
    clone: float
    left: float
    right: float

    def __post_init__(self) -> None:
        if self.others < 0:
            raise InvalidInput(f"others must be at least 0, got {self.others}")
        if not 0 <= self.clone < 1:
            raise InvalidInput(f"clone must be in [0, 1), got {self.clone}")
        # Rounding may push a sum that is 1 a little above it.
        if not (0 < self.right < self.left and self.left + self.right <= 1 + 1e-12):
            raise InvalidInput(f"left and right must be 0 < right < left with a sum of at most 1, got {self}")

    def delta(self, epsilon: float, tolerance: float = 0.0) -> float:
        """The hockey-stick divergence of order e^ε, from above; rows worth at most ``tolerance`` are left out."""
        growth = math.exp(epsilon)
        silent = max(0.0, 1 - self.left - self.right)
        lowest, highest = self._range(tolerance)
        masses = _masses(lowest - 1, highest, self.others, self.clone)
        before, at = masses[:-1], masses[1:]
        totals = np.arange(lowest, highest + 1, dtype=np.float64)
        # w₀/w₁, without dividing probabilities that may have underflowed.
        odds = (self.others - totals + 1) / totals * (self.clone / (1 - self.clone))
        numerator = 2 * (growth * self.left - self.right) + odds * silent * (growth - 1)
        # The last left count at which P ≤ e^ε·Q; where it reaches the total, nothing lies beyond it.
        last = np.floor(totals * numerator / (2 * (self.left - self.right) * (1 + growth)))
        inclusive, exclusive = _tail(last, totals - 1, 0.5), _tail(last + 1, totals - 1, 0.5)
        victim = (self.left - growth * self.right) * inclusive + (self.right - growth * self.left) * exclusive
        nobody = silent * (1 - growth) * (inclusive + exclusive) / 2
        return float(np.sum(np.maximum(before * victim + at * nobody, 0.0))) + tolerance

    def _range(self, tolerance: float) -> tuple[int, int]:
        """The first and last total t whose clones, t−1 or t, are among all but ``tolerance`` of the cases."""
        lowest, highest = 1, self.others + 1
        if tolerance > 0:
            mean, length = self.others * self.clone, math.log(2 / tolerance)
            reach = length / 3 + math.sqrt(length**2 / 9 + 2 * mean * (1 - self.clone) * length)
            lowest, highest = max(lowest, math.ceil(mean - reach)), min(highest, math.floor(mean + reach) + 1)
        return lowest, highest


def _tail(counts: Reals, trials: Reals, probability: float) -> Reals:
    """P(Bin(trials, probability) ≥ counts)."""
    from scipy.special import betainc  # slow to import, and only those who shuffle need it

    result = np.where(counts <= 0, 1.0, 0.0)
    inner = (counts > 0) & (counts <= trials)
    result[inner] = betainc(counts[inner], trials[inner] - counts[inner] + 1, probability)
    return result


@lru_cache(maxsize=8)
def _masses(lowest: int, highest: int, trials: int, probability: float) -> Reals:
    """P(Bin = k) for lowest ≤ k ≤ highest, as differences of the smaller tail so that none cancels.

    Remembered, because bisection on ε asks for the same ones again and again.
    """
    edges = np.arange(lowest, highest + 2, dtype=np.float64)
    many = np.full(len(edges), float(trials))
    rising = -np.diff(_tail(edges, many, probability))
    falling = np.diff(_tail(trials - edges + 1, many, 1 - probability))
    masses = np.where(edges[:-1] > trials * probability, rising, falling)
    masses.flags.writeable = False
    return masses
