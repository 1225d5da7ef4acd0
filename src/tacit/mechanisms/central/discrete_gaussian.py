"""Discrete Gaussian noise on a table of counts, to release many counts under (ε, δ)-differential privacy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.core import DiscreteGaussian, Integers, InvalidInput, Number, Randomness, Sensitivity, positive
from tacit.mechanisms.auditing import MOVED, Check, accounted, difference, rowwise
from tacit.mechanisms.central.counts import count_table
from tacit.mechanisms.central.discrete_laplace import LARGEST_NOISE, SMALLEST_NOISE, laplace_integers
from tacit.mechanisms.description import COUNT, EXACT, FLAG, Checks, Described, NoiseLaw, Parameters
from tacit.mechanisms.exact import bernoulli, exp

if TYPE_CHECKING:
    from tacit.core import Rule

__all__ = ["DiscreteGaussianNoise", "gaussian_integers", "gaussian_mass"]


def gaussian_integers(sigma: Fraction, count: int, randomness: Randomness) -> Integers:
    """``count`` independent draws of P(x) ∝ e^(−x²/2σ²) on all integers, exactly.

    Discrete Laplace draws of scale t = ⌊σ⌋ + 1 are accepted with probability e^(−(|x| − σ²/t)²/2σ²); the product with
    their own law is the stated one, up to a constant.

    >>> from tacit.core.randomness import SeededRandomness
    >>> gaussian_integers(Fraction(100), 4, SeededRandomness(1)).tolist()
    [15, -37, 55, -52]
    """
    noise = np.empty(count, dtype=np.int64)
    filled = 0
    while filled < count:
        # Between 0.46 and 0.76 of the draws are accepted, so one and a half times as many nearly suffice.
        kept = _kept(sigma, (count - filled) * 3 // 2 + 8, randomness)[: count - filled]
        noise[filled : filled + len(kept)] = kept
        filled += len(kept)
    return noise


def _kept(sigma: Fraction, tries: int, randomness: Randomness) -> Integers:
    """The accepted ones of ``tries`` draws."""
    scale = Fraction(math.floor(sigma) + 1)
    peak, variance = sigma**2 / scale, sigma**2
    drawn = laplace_integers(scale, tries, randomness)
    magnitude = np.abs(drawn)

    def refine(index: int, digits: int) -> Decimal:
        return exp(-((int(magnitude[index]) - peak) ** 2) / (2 * variance), digits)

    # Rounding changes z = distance by a few units in the last place of |x|/σ, a negligible change of e^(−z²/2).
    distance = (magnitude - float(peak)) / float(sigma)
    return drawn[bernoulli(np.exp(-distance * distance / 2), refine, randomness)]


def gaussian_mass(sigma: float) -> float:
    """The sum of e^(−x²/2σ²) over all integers.

    >>> round(gaussian_mass(2.0), 9)
    5.013256549
    """
    # Either the sum itself or, by Poisson summation, that of its Fourier transform has few terms.
    if sigma < 1:
        return 1 + 2 * math.fsum(math.exp(-((x / sigma) ** 2) / 2) for x in range(1, 40))
    waves = math.fsum(math.exp(-2 * (math.pi * sigma * x) ** 2) for x in range(1, 5))
    return sigma * math.sqrt(2 * math.pi) * (1 + 2 * waves)


@dataclass(frozen=True)
class DiscreteGaussianNoise(Described):
    """Adds independent discrete Gaussian noise to every cell of a table of counts.

    **Law.** P(x) ∝ e^(−x²/2σ²) on all integers.

    **Spend.** ``DiscreteGaussian(sigma, squared_shift, unit_steps)``: zCDP with ρ = squared_shift/2σ² for any table of
    L2 sensitivity at most √squared_shift. With ``unit_steps`` no cell changes by more than one, and the privacy loss is
    that of at most ``squared_shift`` independent cells that change by one.

    **Proof.** For a cell that changes by d, the Rényi divergence of order α is (1/(α−1)) ln of a ratio of two sums of
    e^(−(x−c)²/2σ²) over the integers, times e^(α(α−1)d²/2σ²); such a sum is largest if its center c is an integer, and
    that of the denominator is, so the divergence is at most αd²/2σ². Cells are independent, so squares add. With unit
    steps a table that changes in fewer cells is a post-processing of one that changes in more.

    **Source.** C. Canonne, G. Kamath and T. Steinke, The discrete Gaussian for differential privacy, NeurIPS
    2020. Sampling by rejection from the discrete Laplace is theirs; the vectorized form is Tacit's own.

    >>> mechanism = DiscreteGaussianNoise(sigma=2, squared_shift=2, unit_steps=True)
    >>> mechanism.spend.rho, mechanism.max_sensitivity.l2_squared, mechanism.max_sensitivity.linf
    (Fraction(1, 4), 2, 1)
    """

    name = "discrete-gaussian"
    option = "gaussian"
    offers = "counts are released with (ε, δ) privacy"
    needs_delta = True
    statistic = "table"
    releases = "counts"
    parameters: ClassVar[Parameters] = {"sigma": EXACT, "squared_shift": COUNT, "unit_steps": FLAG}

    sigma: Fraction
    squared_shift: int
    unit_steps: bool

    def __init__(self, sigma: Number, squared_shift: int, unit_steps: bool) -> None:
        if squared_shift < 1:
            raise InvalidInput(f"squared_shift must be at least 1, got {squared_shift}")
        number = positive(sigma, "sigma")
        if not SMALLEST_NOISE <= number <= LARGEST_NOISE:
            raise InvalidInput(f"sigma must be in [1e-6, 1e12], got {float(number):g}")
        object.__setattr__(self, "sigma", number)
        object.__setattr__(self, "squared_shift", int(squared_shift))
        object.__setattr__(self, "unit_steps", bool(unit_steps))

    @classmethod
    def for_budget(
        cls, epsilon: Number, delta: Number, squared_shift: int, unit_steps: bool, repetitions: int, rule: Rule
    ) -> Self:
        """The mechanism with the least noise that may run ``repetitions`` times within (ε, δ)."""
        # Accountants are slow to import and needed here only.
        from tacit.accounting.calibrate import discrete_gaussian_sigma

        sigma = discrete_gaussian_sigma(epsilon, delta, squared_shift, unit_steps, repetitions, rule)
        return cls(sigma, squared_shift, unit_steps)

    @classmethod
    def calibrated(cls, sensitivity: Sensitivity, epsilon: Fraction, delta: Fraction) -> Self:
        """The mechanism for a table of this sensitivity, at this cost."""
        if delta == 0:
            raise InvalidInput("gaussian noise needs delta above 0, for example --delta 1e-6; got 0")
        from tacit.core import Rule

        return cls.for_budget(epsilon, delta, int(sensitivity.l2_squared), sensitivity.linf <= 1, 1, Rule.PLANNED)

    @property
    def spend(self) -> DiscreteGaussian:
        """The cost of the noisy table."""
        return DiscreteGaussian(self.sigma, self.squared_shift, self.unit_steps)

    @property
    def max_sensitivity(self) -> Sensitivity:
        """The largest sensitivity of the table."""
        return Sensitivity(l2_squared=self.squared_shift, linf=1 if self.unit_steps else math.inf)

    def sample(self, value: NDArray[Any], randomness: Randomness) -> Integers:
        """The table with noise on every cell, of the same shape.

        >>> from tacit.core.randomness import SeededRandomness
        >>> DiscreteGaussianNoise(2, 2, True).sample(np.array([[9, 0], [0, 9]]), SeededRandomness(1)).shape
        (2, 2)
        """
        table = count_table(value)
        return table + gaussian_integers(self.sigma, table.size, randomness).reshape(table.shape)

    def pmf(self, offset: NDArray[Any]) -> NDArray[np.float64]:
        """The probability that the noise is ``offset``."""
        sigma = float(self.sigma)
        law: NDArray[np.float64] = np.exp(-np.square(np.asarray(offset) / sigma) / 2) / gaussian_mass(sigma)
        return law

    @property
    def noise_law(self) -> NoiseLaw:
        """The law of the noise on each count."""
        return NoiseLaw("gaussian", float(self.sigma), float(self.sigma) ** 2)

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """One vote moves from one cell to another; their difference is a sufficient statistic."""

        def moved(epsilon: Fraction, delta: Fraction) -> list[Check]:
            from tacit.core import Rule

            mechanism = cls.for_budget(
                epsilon, delta, squared_shift=2, unit_steps=True, repetitions=1, rule=Rule.PLANNED
            )
            return [rowwise(cls.name, accounted(mechanism.spend, delta), lambda rows: mechanism, MOVED, difference)]

        return {cls.name: moved}
