"""What a mechanism declares for its audit, and the lower bounds on ε and δ that counts of an event prove.

A claim of privacy comes with its worst pair of neighboring inputs, a claim of unbiased counts with the participants to
estimate from. ``tacit.audit`` draws from them and searches for an event that contradicts the claim.

A mechanism is (ε, δ)-DP if P₀(S) ≤ e^ε P₁(S) + δ for every event S and every two neighboring inputs. So an event that
is frequent on the first input and rare on the second proves a lower bound on ε or δ. The two probabilities are bounded
by exact Clopper-Pearson intervals; each may fail with half of the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, LocalMechanism, Mechanism, Randomness, Reals, Spend

__all__ = [
    "AUDITED_CELLS",
    "MOVED",
    "PAIR",
    "PURE",
    "SELECTED",
    "SINGLE",
    "Check",
    "Counts",
    "Estimator",
    "Target",
    "accounted",
    "delta_bounds",
    "difference",
    "epsilon_bounds",
    "first_byte",
    "message_checks",
    "proportion_above",
    "proportion_below",
    "provable_epsilon",
    "rowwise",
    "sent_message",
    "unbiased",
]

Counts = Integers | Reals
# Samples of an event in an ordinary audit.
ORDINARY = 500_000
PURE = Fraction(0)
# One record changes its label: two labels become equal.
SELECTED = ((2, 0), (1, 1))
# One record changes its label: the only vote moves from a cell to another.
MOVED = ((1, 0), (0, 1))
# Two participants without a cell in common, and two cells that neither has; or with one cell each.
AUDITED_CELLS, PAIR = 6, ((0, 1), (2, 3))
SINGLE = ((0,), (1,))
Read = Callable[[NDArray[Any]], Integers]
Encode = Callable[[NDArray[Any], Randomness], NDArray[Any]]
_Inputs = tuple[Sequence[int], Sequence[int]]


def proportion_above(hits: Counts | int, trials: int, error: float) -> Reals:
    """The lower Clopper-Pearson limit of a proportion, wrong with probability ``error``.

    >>> round(float(proportion_above(10, 100, 0.025)), 6), float(proportion_above(0, 100, 0.025))
    (0.049005, 0.0)
    """
    from scipy.special import betaincinv  # slow to import, and only audits need it

    hits = np.asarray(hits)
    limits: Reals = np.where(hits == 0, 0.0, betaincinv(np.maximum(hits, 1), trials - hits + 1, error))
    return limits


def proportion_below(hits: Counts | int, trials: int, error: float) -> Reals:
    """The upper Clopper-Pearson limit of a proportion, wrong with probability ``error``.

    >>> round(float(proportion_below(10, 100, 0.025)), 6), float(proportion_below(100, 100, 0.025))
    (0.176223, 1.0)
    """
    from scipy.special import betainccinv

    hits = np.asarray(hits)
    limits: Reals = np.where(hits == trials, 1.0, betainccinv(hits + 1, np.maximum(trials - hits, 1), error))
    return limits


def epsilon_bounds(hits: Counts | int, others: Counts | int, trials: int, delta: float, error: float) -> Reals:
    """The ε proven at δ by an event with ``hits`` on one input and ``others`` on the other, in ``trials`` each.

    >>> round(float(epsilon_bounds(50_000, 18_394, 100_000, delta=0, error=1e-3)), 3)
    0.968
    """
    frequent = proportion_above(hits, trials, error / 2) - delta
    rare = proportion_below(others, trials, error / 2)
    bounds: Reals = np.log(np.maximum(frequent / rare, 1.0))
    return bounds


def provable_epsilon(frequent: Reals, rare: Reals, delta: float = 0.0) -> Reals:
    """The ε that an event with these probabilities proves in an ordinary audit; used to choose the inputs.

    >>> provable_epsilon(np.array([0.5, 0.0005]), np.array([0.2, 0.0001])).round(2).tolist()
    [0.9, 0.84]
    """
    return epsilon_bounds(ORDINARY * frequent, ORDINARY * rare, ORDINARY, delta, 1e-4)


def delta_bounds(hits: Counts | int, others: Counts | int, trials: int, epsilon: float, error: float) -> Reals:
    """The δ proven at ε by an event with ``hits`` on one input and ``others`` on the other, in ``trials`` each.

    >>> round(float(delta_bounds(20_000, 0, 100_000, epsilon=0, error=1e-3)), 3)
    0.196
    """
    frequent = proportion_above(hits, trials, error / 2)
    rare = proportion_below(others, trials, error / 2)
    bounds: Reals = np.maximum(frequent - np.exp(epsilon) * rare, 0.0)
    return bounds


@dataclass(frozen=True)
class Target:
    """A mechanism that claims (ε, δ), and its worst pair of neighboring inputs.

    ``draw(value, count, randomness)`` gives ``count`` independent outcomes of the mechanism on ``value``, each a row of
    integer features. Features are post-processing: a bound proven for them holds for the outcome. ``cost`` is the time
    of one draw, in ordinary draws.

    A claim with ε = 0 is about total variation: then δ is measured.
    """

    name: str
    epsilon: Fraction
    delta: Fraction
    inputs: tuple[Any, Any]
    draw: Callable[[Any, int, Randomness], Integers]
    cost: int = 1

    @property
    def claimed(self) -> str:
        """The claim in short."""
        parts = [
            f"{name} = {float(value):.3g}" for name, value in (("ε", self.epsilon), ("δ", self.delta)) if value > 0
        ]
        return ", ".join(parts)


@dataclass(frozen=True)
class Estimator:
    """A mechanism that claims unbiased counts of a stated variance.

    ``deviations(participants, randomness)`` gives the error of every cell's estimate, in claimed standard deviations.
    """

    name: str
    deviations: Callable[[int, Randomness], NDArray[np.float64]]
    cost: int = 1

    @property
    def claimed(self) -> str:
        """The claim in short."""
        return "unbiased"


Check = Target | Estimator


def rowwise(
    name: str,
    claim: tuple[Fraction, Fraction],
    mechanism: Callable[[int], Mechanism[Integers, Any]],
    inputs: _Inputs,
    read: Read = np.asarray,
) -> Target:
    """A mechanism that treats all rows of a table independently; ``mechanism(rows)`` makes it for ``rows`` rows.

    A table of equal rows gives one draw per row. ``read`` turns a release into features.
    """

    def draw(row: Sequence[int], count: int, randomness: Randomness) -> Integers:
        return read(mechanism(count).sample(np.tile(np.array(row), (count, 1)), randomness))

    return Target(name, *claim, inputs, draw)


def difference(table: Integers) -> Integers:
    """The first column minus the second.

    >>> difference(np.array([[5, 3]])).tolist()
    [2]
    """
    return table[:, 0] - table[:, 1]


def accounted(spend: Spend, delta: Fraction) -> tuple[Fraction, Fraction]:
    """The (ε, δ) of a spend by Tacit's accountants: the claim that is audited.

    >>> from tacit.core.spend import Pure
    >>> accounted(Pure("1/2"), Fraction(0))
    (Fraction(1, 2), Fraction(0, 1))
    """
    # Accountants are slow to import and needed by audits only.
    from tacit.accounting.compose import total
    from tacit.core import Rule

    return Fraction(total([spend], delta, Rule.PLANNED).epsilon), delta


def sent_message(name: str, mechanism: LocalMechanism, inputs: _Inputs, read: Read, cost: int = 1) -> Target:
    """One message of a participant with one or the other set of cells; ``read`` turns messages into features."""

    def draw(cells: Sequence[int], count: int, randomness: Randomness) -> Integers:
        return read(mechanism.encode(np.tile(np.array(cells), (count, 1)), randomness))

    return Target(name, mechanism.epsilon, PURE, inputs, draw, cost)


def unbiased(
    name: str, mechanism: LocalMechanism, inputs: _Inputs, encode: Encode | None = None, cost: int = 1
) -> Estimator:
    """Counts from participants of whom two thirds have the first set of cells and the others the second."""
    send = encode or mechanism.encode

    def deviations(participants: int, randomness: Randomness) -> NDArray[np.float64]:
        held = np.array(inputs)[np.arange(participants) % 3 // 2]
        estimates = mechanism.decode(send(held, randomness))
        true = np.bincount(held.ravel(), minlength=mechanism.cells)
        return (estimates.counts - true) / np.sqrt(estimates.variances)

    return Estimator(name, deviations, cost)


def message_checks(name: str, mechanism: LocalMechanism, inputs: _Inputs, read: Read, cost: int = 1) -> list[Check]:
    """Both claims of a local mechanism: the ε of one message, and unbiased counts.

    Two participants with disjoint cells are the worst pair.
    """
    return [sent_message(name, mechanism, inputs, read, cost), unbiased(name, mechanism, inputs, cost=cost)]


def first_byte(messages: NDArray[Any]) -> Integers:
    """Rows of packed bits of at most eight cells as numbers.

    >>> first_byte(np.array([[5], [255]], dtype=np.uint8)).tolist()
    [5, 255]
    """
    return messages[:, 0].astype(np.int64)
