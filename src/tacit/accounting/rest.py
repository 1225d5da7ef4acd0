"""The rest of a running total: sums and a Rényi curve, rounded up, of the parts beyond those it counts one by one.

The denominator of a sum of many different fractions grows with each of them. The sum is exact while the denominator has
at most ``BITS`` bits; then it is rounded up to ``BITS`` binary digits. Each rounding adds at most one part in 2^127, so
a billion of them stay below one part in 10^29. Divergences are floats: each addition goes to the next float above, at
most one part in 2^52, so a million charges stay below one part in 10^9. Because rounding is always up, a total that is
compared with a ceiling is never too small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tacit.accounting.parts import Part, SpendParts, basic_epsilon, largest_epsilon, own_delta
from tacit.core import DiscreteGaussian, Gaussian

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BITS", "Rest", "deciding_orders", "sum_up"]

BITS = 128
# Besides the orders that decide, every twelfth order of the grid is stored.
EVERY = 12


def sum_up(one: Fraction, other: Fraction) -> Fraction:
    """The sum, exact while its denominator is small; otherwise rounded up to a binary grid.

    >>> sum_up(Fraction(1, 3), Fraction(1, 7))
    Fraction(10, 21)
    >>> third = Fraction(10**60 + 7, 3 * 10**60)
    >>> 0 < sum_up(third, third) - 2 * third < Fraction(1, 2**127)
    True
    """
    total = one + other
    if total.denominator.bit_length() <= BITS:
        return total
    # Binary digits after the point, for BITS significant ones.
    size = total.numerator.bit_length() - total.denominator.bit_length()
    scale = 1 << max(BITS - size, 0)
    return Fraction(-(-total.numerator * scale // total.denominator), scale)


@dataclass(frozen=True)
class Rest:
    """Sums of ε (None if a part has no ε at δ = 0), of δ and of ρ, the largest ε, and a Rényi curve at some orders.

    Gaussian noise has the curve αρ and is summed in ρ; the curve is that of the other parts.

    >>> from tacit.core.spend import Pure
    >>> Rest().plus(Pure("1/3"), 3, curves=False).epsilon
    Fraction(1, 1)
    """

    epsilon: Fraction | None = Fraction(0)
    delta: Fraction = Fraction(0)
    largest: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    # Indices into ``rdp.ORDERS``: None while there is only Gaussian noise, empty if no Rényi curve is kept.
    places: tuple[int, ...] | None = None
    divergence: tuple[float, ...] = ()

    @property
    def converts(self) -> bool:
        """Whether the Rényi curve is known."""
        return self.places != ()

    def plus(self, part: Part, count: int, curves: bool) -> Rest:
        """The rest with ``count`` of a part added, rounded up."""
        parts = {part: count}
        own = basic_epsilon(parts)
        rho, places, divergence = self.rho, self.places, self.divergence
        if not curves:
            places, divergence = (), ()
        elif isinstance(part, Gaussian | DiscreteGaussian):
            rho = sum_up(rho, count * _rho(part))
        elif self.converts:
            places, divergence = self._curve(part, count)
        return Rest(
            epsilon=None if own is None or self.epsilon is None else sum_up(self.epsilon, own),
            delta=sum_up(self.delta, own_delta(parts)),
            largest=max(self.largest, largest_epsilon(parts)),
            rho=rho,
            places=places,
            divergence=divergence,
        )

    def _curve(self, part: Part, count: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
        import numpy as np

        from tacit.accounting.rdp import ORDERS, curve

        places = tuple(range(len(ORDERS))) if self.places is None else self.places
        before = np.zeros(len(places)) if self.places is None else np.array(self.divergence)
        after = np.nextafter(before + np.nextafter(curve({part: count})[list(places)], np.inf), np.inf)
        return places, tuple(map(float, after))

    def at(self, places: tuple[int, ...]) -> Rest:
        """The rest with its curve at fewer orders, or without a curve.

        >>> from tacit.core.spend import RandomizedResponse
        >>> Rest().plus(RandomizedResponse(1, 10), 1, curves=True).at((0, 9)).places
        (0, 9)
        """
        if self.places is None and places:
            return self
        held = dict(zip(self.places or (), self.divergence, strict=True))
        kept = tuple(place for place in places if place in held)
        rho = self.rho if places else Fraction(0)
        return replace(self, rho=rho, places=kept, divergence=tuple(held[place] for place in kept))

    def with_table(self, parts: SpendParts) -> NDArray[Any]:
        """The divergence of the rest and of the counted parts at every order of the grid.

        Between the stored orders (α−1)R(α), which is convex and 0 at order 1, is bounded by its chord.
        """
        import numpy as np

        from tacit.accounting.rdp import ORDERS, curve

        total = curve(parts) + np.nextafter(ORDERS * float(self.rho), np.inf)
        if self.places:
            orders = ORDERS[list(self.places)]
            moments = (orders - 1) * np.array(self.divergence)
            grid, known = np.concatenate([[1.0], orders]), np.concatenate([[0.0], moments])
            chords = np.interp(ORDERS, grid, known, right=np.inf) / (ORDERS - 1)
            # A chord to an order with an infinite divergence is infinite.
            total = total + np.where(np.isnan(chords), np.inf, chords * (1 + 1e-14))
        return np.nextafter(total, np.inf)

    def to_json(self) -> dict[str, Any]:
        """The rest as JSON values; an infinite divergence is null.

        >>> Rest().to_json()
        {'epsilon': '0', 'delta': '0', 'largest': '0', 'rho': '0', 'curve': []}
        """
        curve: list[list[float | None]] | None = [] if self.converts else None
        if self.places and curve is not None:
            from tacit.accounting.rdp import ORDERS

            for place, value in zip(self.places, self.divergence, strict=True):
                curve.append([float(ORDERS[place]), value if math.isfinite(value) else None])
        return {
            "epsilon": None if self.epsilon is None else str(self.epsilon),
            "delta": str(self.delta),
            "largest": str(self.largest),
            "rho": str(self.rho),
            "curve": curve,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Rest:
        """The rest that ``to_json`` wrote.

        >>> Rest.from_json(Rest(Fraction(1, 3)).to_json()).epsilon
        Fraction(1, 3)
        """
        curve, places = value["curve"], () if value["curve"] is None else None
        if curve:
            import numpy as np

            from tacit.accounting.rdp import ORDERS

            orders = np.array([order for order, _ in curve])
            found = np.searchsorted(ORDERS, orders).tolist()
            if max(found) >= len(ORDERS) or not np.array_equal(ORDERS[found], orders):
                raise ValueError("a curve at orders that are not on the grid")
            places = tuple(found)
        return cls(
            epsilon=None if value["epsilon"] is None else Fraction(value["epsilon"]),
            delta=Fraction(value["delta"]),
            largest=Fraction(value["largest"]),
            rho=Fraction(value["rho"]),
            places=places,
            divergence=tuple(math.inf if each is None else float(each) for _, each in curve or ()),
        )


def _rho(part: Gaussian | DiscreteGaussian) -> Fraction:
    """The ρ of noise with the curve αρ."""
    return part.rho if isinstance(part, DiscreteGaussian) else 1 / (2 * part.noise_multiplier**2)


def deciding_orders(epsilon: Fraction, delta: Fraction) -> tuple[int, ...]:
    """The orders that an account with this ceiling stores, as indices into ``rdp.ORDERS``.

    The filter decides at the one order that the ceiling determines, where the chord between the two nearest orders of
    the grid is the bound. So with these two every decision is the same as with the complete grid. The few others serve
    to say roughly how much was spent.

    >>> len(deciding_orders(Fraction(1), Fraction(1, 10**6))) < 50
    True
    """
    import numpy as np

    from tacit.accounting.rdp import ORDERS, order_for

    above = int(np.searchsorted(ORDERS, order_for(float(epsilon), float(delta))))
    around = {min(max(place, 0), len(ORDERS) - 1) for place in (above - 2, above - 1, above, above + 1)}
    return tuple(sorted({*range(0, len(ORDERS), EVERY), len(ORDERS) - 1, *around}))
