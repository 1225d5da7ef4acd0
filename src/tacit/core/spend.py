"""Spends: the privacy cost of a step, as plain values.

The set is closed: every accountant matches all of them, and mypy fails where one is missing. A spend never depends on
private values and is known before anything is sampled. Its parameters are exact fractions, so that sums do not drift.
It is the cost for *one privacy unit*; the accountants in ``tacit.accounting`` turn spends into (ε, δ).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, assert_never

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import decimal
from tacit.core.rational import Number, exact, positive, probability

__all__ = [
    "FREE",
    "Approximate",
    "Composed",
    "DiscreteGaussian",
    "Gaussian",
    "Pure",
    "RandomizedResponse",
    "Repeated",
    "Spend",
    "Stability",
    "Subsampled",
    "spend_from_json",
    "spend_in_words",
    "spend_to_json",
]


@dataclass(frozen=True)
class Pure:
    """ε-differential privacy, δ = 0.

    >>> Pure(0.1)
    Pure(epsilon=Fraction(1, 10))
    """

    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon, "epsilon"))


@dataclass(frozen=True)
class RandomizedResponse:
    """Randomized response at ε over ``classes`` values: the true one is e^ε times as likely as any other.

    It is ε-DP, and its privacy loss is known exactly: ε, 0 or −ε with odds e^ε : classes − 2 : 1, so that it composes
    to far less than the sum of the ε. With two classes it dominates every ε-DP mechanism.

    >>> RandomizedResponse(2.5, 10)
    RandomizedResponse(epsilon=Fraction(5, 2), classes=10)
    """

    epsilon: Fraction
    classes: int

    def __init__(self, epsilon: Number, classes: int) -> None:
        if classes < 2:
            raise InvalidInput(f"classes must be at least 2, got {classes}")
        object.__setattr__(self, "epsilon", positive(epsilon, "epsilon"))
        object.__setattr__(self, "classes", int(classes))


@dataclass(frozen=True)
class Approximate:
    """(ε, δ)-differential privacy, with nothing more known about the mechanism (ε may be 0).

    >>> Approximate(1, "1e-6").delta
    Fraction(1, 1000000)
    """

    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        if exact(epsilon, "epsilon") < 0:
            raise InvalidInput(f"epsilon must be at least 0, got {epsilon}")
        object.__setattr__(self, "epsilon", exact(epsilon, "epsilon"))
        object.__setattr__(self, "delta", probability(delta, "delta"))


@dataclass(frozen=True)
class Gaussian:
    """Continuous Gaussian noise whose standard deviation is ``noise_multiplier`` times the L2 sensitivity.

    >>> Gaussian(4).noise_multiplier
    Fraction(4, 1)
    """

    noise_multiplier: Fraction

    def __init__(self, noise_multiplier: Number) -> None:
        object.__setattr__(self, "noise_multiplier", positive(noise_multiplier, "noise_multiplier"))


@dataclass(frozen=True)
class DiscreteGaussian:
    """Discrete Gaussian noise of parameter σ on an integer table whose L2 sensitivity is at most √squared_shift.

    With ``unit_steps`` no cell changes by more than one, so the privacy loss is dominated by that of ``squared_shift``
    independent cells that change by one each, and the privacy-loss distribution (PLD) of these is used. Otherwise
    zero-concentrated DP with ρ = squared_shift / (2σ²) is what is proven.

    >>> DiscreteGaussian(sigma=2, squared_shift=2, unit_steps=True).rho
    Fraction(1, 4)
    """

    sigma: Fraction
    squared_shift: int
    unit_steps: bool

    def __init__(self, sigma: Number, squared_shift: int, unit_steps: bool) -> None:
        squared_shift = int(squared_shift)
        if squared_shift < 1:
            raise InvalidInput(f"squared_shift must be at least 1, got {squared_shift}")
        object.__setattr__(self, "sigma", positive(sigma, "sigma"))
        object.__setattr__(self, "squared_shift", squared_shift)
        object.__setattr__(self, "unit_steps", bool(unit_steps))

    @property
    def rho(self) -> Fraction:
        """The ρ of zero-concentrated differential privacy (zCDP)."""
        return self.squared_shift / (2 * self.sigma**2)


@dataclass(frozen=True)
class Subsampled:
    """A Gaussian mechanism on a Poisson sample of the records (each taken independently with probability ``rate``).

    The cost is for add-remove adjacency; with ``replace_one`` it is for replace-one adjacency. Then ``spend`` must hold
    between any two of three statistics: with the first record, with the second, and with neither.

    >>> Subsampled(0.15, Gaussian(35)).rate
    Fraction(3, 20)
    """

    rate: Fraction
    spend: Gaussian
    replace_one: bool

    def __init__(self, rate: Number, spend: Gaussian, replace_one: bool = False) -> None:
        number = exact(rate, "rate")
        if not 0 < number <= 1:
            raise InvalidInput(f"rate must be in (0, 1], got {rate}")
        object.__setattr__(self, "rate", number)
        object.__setattr__(self, "spend", spend)
        object.__setattr__(self, "replace_one", bool(replace_one))


@dataclass(frozen=True)
class Repeated:
    """The same spend, ``count`` times on the same records.

    >>> Repeated(Pure(0.1), 3).count
    3
    """

    spend: Spend
    count: int

    def __init__(self, spend: Spend, count: int) -> None:
        if count < 1:
            raise InvalidInput(f"count must be at least 1, got {count}")
        object.__setattr__(self, "spend", spend)
        object.__setattr__(self, "count", int(count))


@dataclass(frozen=True)
class Composed:
    """Several spends on the same records. The empty composition, ``FREE``, is post-processing.

    >>> len(Composed(Pure(1), Pure(2)).spends)
    2
    """

    spends: tuple[Spend, ...]

    def __init__(self, *spends: Spend) -> None:
        object.__setattr__(self, "spends", tuple(spends))


@dataclass(frozen=True)
class Stability:
    """Total-variation stability: with probability up to ``delta`` a record is exposed without noise.

    It is exactly (0, δ)-differential privacy, and a larger ε does not reduce δ. Sampling a subset of the records
    without noise (NFDP) gives no more than this, so it is never reported as an ordinary (ε, δ).

    >>> Stability("1/160").delta
    Fraction(1, 160)
    """

    delta: Fraction

    def __init__(self, delta: Number) -> None:
        number = exact(delta, "delta")
        if not 0 < number <= 1:
            raise InvalidInput(f"delta must be in (0, 1], got {delta}")
        object.__setattr__(self, "delta", number)


Spend = (
    Pure | RandomizedResponse | Approximate | Gaussian | DiscreteGaussian | Subsampled | Repeated | Composed | Stability
)

FREE = Composed()


def spend_to_json(spend: Spend) -> dict[str, Any]:
    """A spend as JSON values, fractions as exact strings, as the ledger and the run folder store it.

    >>> spend_to_json(Repeated(Pure("1/10"), 2))
    {'kind': 'repeated', 'count': 2, 'spend': {'kind': 'pure', 'epsilon': '1/10'}}
    """
    match spend:
        case Pure(epsilon):
            return {"kind": "pure", "epsilon": str(epsilon)}
        case RandomizedResponse(epsilon, classes):
            return {"kind": "randomized_response", "epsilon": str(epsilon), "classes": classes}
        case Approximate(epsilon, delta):
            return {"kind": "approximate", "epsilon": str(epsilon), "delta": str(delta)}
        case Gaussian(noise_multiplier):
            return {"kind": "gaussian", "noise_multiplier": str(noise_multiplier)}
        case DiscreteGaussian(sigma, squared_shift, unit_steps):
            return {
                "kind": "discrete_gaussian",
                "sigma": str(sigma),
                "squared_shift": squared_shift,
                "unit_steps": unit_steps,
            }
        case Subsampled(rate, inner, replace_one):
            # Written only when true, so that entries of older ledgers keep their digests.
            chosen = {"replace_one": True} if replace_one else {}
            return {"kind": "subsampled", "rate": str(rate), "spend": spend_to_json(inner), **chosen}
        case Repeated(inner, count):
            return {"kind": "repeated", "count": count, "spend": spend_to_json(inner)}
        case Composed(spends):
            return {"kind": "composed", "spends": [spend_to_json(each) for each in spends]}
        case Stability(delta):
            return {"kind": "stability", "delta": str(delta)}
        case _:
            assert_never(spend)


def spend_in_words(spend: Spend) -> str:
    """A spend in short: its kind, then its parameters as decimals, nested ones in brackets.

    >>> spend_in_words(Gaussian("784814093/100000000")), spend_in_words(Repeated(Pure("1/3"), 2))
    ('gaussian noise multiplier 7.84814', 'repeated count 2 (pure epsilon 0.333334)')
    """
    return _in_words(spend_to_json(spend))


def _in_words(written: dict[str, Any]) -> str:
    parts = [written["kind"].replace("_", " ")]
    for name, value in written.items():
        match value:
            case dict():
                parts.append(f"({_in_words(value)})")
            case list():
                parts.append(f"({' + '.join(map(_in_words, value))})")
            case str() if name in ("epsilon", "delta"):
                parts.append(f"{name} {decimal(Fraction(value))}")
            case str() if name != "kind":
                parts.append(f"{name.replace('_', ' ')} {float(Fraction(value)):.6g}")
            case int():
                parts.append(f"{name.replace('_', ' ')} {value}")
    return " ".join(parts)


def spend_from_json(value: dict[str, Any]) -> Spend:
    """The spend that ``spend_to_json`` wrote; anything else is refused.

    >>> spend_from_json({"kind": "pure", "epsilon": "1/10"})
    Pure(epsilon=Fraction(1, 10))
    """
    try:
        match value["kind"]:
            case "pure":
                return Pure(value["epsilon"])
            case "randomized_response":
                return RandomizedResponse(value["epsilon"], value["classes"])
            case "approximate":
                return Approximate(value["epsilon"], value["delta"])
            case "gaussian":
                return Gaussian(value["noise_multiplier"])
            case "discrete_gaussian":
                return DiscreteGaussian(value["sigma"], value["squared_shift"], value["unit_steps"])
            case "subsampled":
                inner = spend_from_json(value["spend"])
                if not isinstance(inner, Gaussian):
                    raise InvalidInput("a subsampled spend must contain a gaussian one")
                replace_one = value.get("replace_one", False)
                if not isinstance(replace_one, bool):
                    raise InvalidInput("replace_one of a subsampled spend must be true or false")
                return Subsampled(value["rate"], inner, replace_one)
            case "repeated":
                return Repeated(spend_from_json(value["spend"]), value["count"])
            case "composed":
                return Composed(*map(spend_from_json, value["spends"]))
            case "stability":
                return Stability(value["delta"])
    except (KeyError, TypeError) as error:
        raise InvalidInput(f"not a spend: {value!r}") from error
    raise InvalidInput(f"unknown kind of spend: {value['kind']!r}")
