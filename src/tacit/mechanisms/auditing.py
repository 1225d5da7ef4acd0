"""How a mechanism says what to audit of it: claims as values, and the usual ways to make them.

A claim of privacy comes with the two neighboring inputs that test it hardest, a claim of unbiased counts with clients
to estimate from. ``tacit.audit`` draws from them and looks for an event that contradicts the claim.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.protocols import Integers, LocalMechanism, Mechanism
from tacit.core.randomness import Randomness
from tacit.core.spend import Spend

__all__ = [
    "AUDITED_CELLS",
    "MOVED",
    "PAIR",
    "PURE",
    "SELECTED",
    "SINGLE",
    "Check",
    "Estimator",
    "Target",
    "accounted",
    "difference",
    "first_byte",
    "message_checks",
    "rowwise",
    "sent_message",
    "unbiased",
]

PURE = Fraction(0)
# One record changes its label: a label that is behind draws level.
SELECTED = ((2, 0), (1, 1))
# One record changes its label: the only vote moves from a cell to another.
MOVED = ((1, 0), (0, 1))
# Two clients without a cell in common, and two cells that neither has; or with one cell each.
AUDITED_CELLS, PAIR = 6, ((0, 1), (2, 3))
SINGLE = ((0,), (1,))

Read = Callable[[NDArray[Any]], Integers]
Encode = Callable[[NDArray[Any], Randomness], NDArray[Any]]
Inputs = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True)
class Target:
    """A mechanism that claims (ε, δ), and two neighboring inputs on which it is as distinguishable as it gets.

    ``draw(value, count, randomness)`` gives that many independent outcomes of the mechanism on ``value``, one row
    of integer features each. Features may forget some of an outcome, which is post-processing: what is proven of
    them holds for the outcome. ``cost`` says how many ordinary draws one draw takes the time of.

    A claim with ε = 0 is one of total variation: what is measured then is δ.
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

    ``deviations(clients, randomness)`` gives the error of every cell's estimate from the messages of that many
    clients, in claimed standard deviations.
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
    inputs: Inputs,
    read: Read = np.asarray,
) -> Target:
    """A mechanism that treats every row of a table alike: ``mechanism(rows)`` makes it for that many rows.

    A row is an independent run, so a table of equal rows gives as many draws as it has rows. ``read`` makes features
    of what is released.
    """

    def draw(row: Sequence[int], count: int, randomness: Randomness) -> Integers:
        return read(mechanism(count).sample(np.tile(np.array(row), (count, 1)), randomness))

    return Target(name, *claim, inputs, draw)


def difference(table: Integers) -> Integers:
    """The first column minus the second: what remains of two cells that are compared.

    >>> difference(np.array([[5, 3]])).tolist()
    [2]
    """
    return table[:, 0] - table[:, 1]


def accounted(spend: Spend, delta: Fraction) -> tuple[Fraction, Fraction]:
    """The (ε, δ) that Tacit's accountants state for a spend: the claim that is audited.

    >>> from tacit.core.spend import Pure
    >>> accounted(Pure("1/2"), Fraction(0))
    (Fraction(1, 2), Fraction(0, 1))
    """
    # Accountants are slow to import and needed by audits only.
    from tacit.accounting.compose import total
    from tacit.core.account import Rule

    return Fraction(total([spend], delta, Rule.PLANNED).epsilon), delta


def sent_message(name: str, mechanism: LocalMechanism, inputs: Inputs, read: Read, cost: int = 1) -> Target:
    """One message of a client that has one or the other set of cells; ``read`` makes features of messages."""

    def draw(cells: Sequence[int], count: int, randomness: Randomness) -> Integers:
        return read(mechanism.encode(np.tile(np.array(cells), (count, 1)), randomness))

    return Target(name, mechanism.epsilon, PURE, inputs, draw, cost)


def unbiased(
    name: str, mechanism: LocalMechanism, inputs: Inputs, encode: Encode | None = None, cost: int = 1
) -> Estimator:
    """Counts from clients of which two in three have the first set of cells, and the others the second."""
    send = encode or mechanism.encode

    def deviations(clients: int, randomness: Randomness) -> NDArray[np.float64]:
        held = np.array(inputs)[np.arange(clients) % 3 // 2]
        estimates = mechanism.decode(send(held, randomness))
        true = np.bincount(held.ravel(), minlength=mechanism.cells)
        return (estimates.counts - true) / np.sqrt(estimates.variances)

    return Estimator(name, deviations, cost)


def message_checks(name: str, mechanism: LocalMechanism, inputs: Inputs, read: Read, cost: int = 1) -> list[Check]:
    """Both claims of a local mechanism: what one message gives away, and that counts are unbiased.

    Two clients with disjoint cells are the worst pair for all of them.
    """
    return [sent_message(name, mechanism, inputs, read, cost), unbiased(name, mechanism, inputs, cost=cost)]


def first_byte(messages: NDArray[Any]) -> Integers:
    """Rows of packed bits of at most eight cells as numbers.

    >>> first_byte(np.array([[5], [255]], dtype=np.uint8)).tolist()
    [5, 255]
    """
    return messages[:, 0].astype(np.int64)
