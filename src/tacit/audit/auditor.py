"""The auditor of all mechanisms, and the list of everything that can be audited by name.

Half of the samples choose an event, the other half are the proof. The event is the one that distinguishes two inputs
best. Outcomes are grouped into the cells of a grid over their features, finer in the tails, where truncated noise
shows. By the Neyman-Pearson lemma the best event consists of the cells with the largest likelihood ratio;
the bound that they would prove decides how many of them to take. Samples that choose the event prove nothing.

Audited by name are the mechanisms' own checks, the gate, and whole protocols. The gate is audited end to end, from
records to a release: encode, vote, pay, randomize, store, release. Nothing is trusted there: neither the mechanism, nor
the sensitivity that the holder states, nor that a repeated request gets the release that was paid for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from tacit.core import Adjacency, Ceiling, Integers, InvalidInput, Ledger, Randomness, Reals, SystemRandomness
from tacit.ledger import open_ledger
from tacit.mechanisms import registry
from tacit.mechanisms.auditing import Check, Counts, Estimator, Target, delta_bounds, epsilon_bounds
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.mechanisms.description import Checks
from tacit.methods.rknn.holder import VoteHolder
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.representations.scaled import Identity

__all__ = [
    "AUDITABLE", "PROTOCOLS", "RETRIES", "Event", "Finding", "Grid", "Prove", "audit", "best_event", "gate",
    "gate_retried", "open_account", "runnable", "whole_path",
]  # fmt: skip

# Cells of the whole grid, coarse to fine: few cells have well-known probabilities, many distinguish more.
_SIZES = (16, 64, 256)
# The outermost cells should contain about this many samples.
_FEWEST = 10
# Ratios are lowered by this many standard errors, so that chance does not put a cell first.
DOUBT = 2.0

# From hits on the input where the event should be frequent, hits on the other, and trials of each to proven bounds.
Prove = Callable[[Counts, Counts, int], Reals]


def _edges(column: Integers, limit: int) -> Integers:
    """Where the cells of one feature begin: at every value, or at ``limit`` quantiles that are dense in the tails.

    The smallest and the largest value always have their own cells: truncated noise shows there.
    """
    values = np.unique(column)
    if len(values) <= limit + 2:
        return values
    # Evenly spaced in log-odds: each tail is cut where its mass falls by a constant factor.
    furthest = np.log(len(column) / _FEWEST)
    shares = 1 / (1 + np.exp(np.linspace(furthest, -furthest, limit + 2)[1:-1]))
    return np.unique([values[1], *np.quantile(column, shares, method="higher"), values[-1]]).astype(np.int64)


@dataclass(frozen=True)
class Grid:
    """Cells of the space of features, made from samples.

    >>> Grid.of(np.array([[3], [5], [5]]), size=16).cells(np.array([[3], [4], [5], [9]])).tolist()
    [1, 1, 2, 2]
    """

    edges: tuple[Integers, ...]

    @classmethod
    def of(cls, features: Integers, size: int) -> Grid:
        """A grid of about this many cells for these samples, one per row."""
        limit = max(1, round(size ** (1 / features.shape[1])) - 1)
        return cls(tuple(_edges(column, limit) for column in features.T))

    @property
    def size(self) -> int:
        """How many cells there are."""
        return int(np.prod([len(edges) + 1 for edges in self.edges]))

    def cells(self, features: Integers) -> Integers:
        """The cell of each sample."""
        cells = np.zeros(len(features), dtype=np.int64)
        for edges, column in zip(self.edges, features.T, strict=True):
            cells = cells * (len(edges) + 1) + np.searchsorted(edges, column, side="right")
        return cells


@dataclass(frozen=True)
class Event:
    """A set of cells; ``reverse`` if it should be frequent on the second input."""

    grid: Grid
    members: NDArray[np.bool_]
    reverse: bool

    def hits(self, first: Integers, second: Integers) -> tuple[int, int]:
        """How often it happened where it should be frequent, and on the other input."""
        counts = [int(self.members[self.grid.cells(features)].sum()) for features in (first, second)]
        return (counts[1], counts[0]) if self.reverse else (counts[0], counts[1])


def best_event(first: Integers, second: Integers, prove: Prove) -> Event:
    """The event, in the better of both directions, with the largest expected bound for this many samples.

    One half of the samples orders the cells, the other chooses how many of them to take and which grid: the best cell
    of the first half is partly there by chance.
    """
    trials, half = len(first), len(first) // 2
    scale = trials / (trials - half)
    found: list[tuple[float, Event]] = []
    for size in _SIZES:
        grid = Grid.of(np.concatenate([first, second]), size)
        cells = [grid.cells(features) for features in (first, second)]
        ordering = [np.bincount(each[:half], minlength=grid.size) for each in cells]
        choosing = [np.bincount(each[half:], minlength=grid.size) for each in cells]
        for reverse in (False, True):
            here, there = (1, 0) if reverse else (0, 1)
            order = _order(ordering[here], ordering[there])
            # An event that was never seen is expected once; otherwise the rarest events would look best.
            others = np.minimum(choosing[there][order].cumsum() + 1, trials - half)
            bounds = prove(choosing[here][order].cumsum() * scale, others * scale, trials)
            members = np.zeros(grid.size, dtype=np.bool_)
            members[order[: int(bounds.argmax()) + 1]] = True
            found.append((float(bounds.max()), Event(grid, members, reverse)))
    return max(found, key=lambda each: each[0])[1]


def _order(here: Integers, there: Integers) -> Integers:
    """Cells by decreasing likelihood ratio; half a hit is added so that none is infinite."""
    ratio = np.log((here + 0.5) / (there + 0.5)) - DOUBT * np.sqrt(1 / (here + 0.5) + 1 / (there + 0.5))
    return np.argsort(-ratio, kind="stable")


# Draws made at a time, so that a million samples need no more memory than this many.
_CHUNK = 100_000
FEWEST_SAMPLES = 100


@dataclass(frozen=True)
class Finding:
    """An audit's result: the bound that the samples prove, and the largest one that the claim allows.

    ``measure`` is ``ε`` or ``δ``, the proven lower bound of which must not be above the claim; or ``|z|``, the
    largest error of an estimate in standard deviations, which must not be above what chance allows.
    ``samples`` counts draws of each input, or participants.
    """

    name: str
    claimed: str
    measure: str
    allowed: float
    found: float
    samples: int
    confidence: float
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether the samples agree with the claim. This does not prove that the claim is true."""
        return self.found <= self.allowed

    @property
    def share(self) -> float | None:
        """The proven fraction of a privacy claim; None for an estimator."""
        return None if self.measure == "|z|" else self.found / self.allowed

    def __str__(self) -> str:
        if self.measure == "|z|":
            verdict = f"estimates are {self.found:.1f} standard deviations off, chance allows {self.allowed:.1f}"
        else:
            verdict = f"claimed {self.claimed}, samples prove {self.measure} ≥ {self.found:.4g}"
        return f"{self.name}: {verdict} (confidence {self.confidence:.7g})"


def audit(
    check: Check, samples: int = 1_000_000, confidence: float = 0.999, randomness: Randomness | None = None
) -> Finding:
    """Compare a claim with samples. A true claim fails with a probability of at most 1 − ``confidence``.

    ``samples`` are divided by the check's own cost, so that all checks take a similar time.

    >>> from tacit.core.randomness import SeededRandomness
    >>> from tacit.mechanisms.registry import audits
    >>> (claim,) = audits()["permute-and-flip"](1, 0)
    >>> finding = audit(claim, samples=100_000, randomness=SeededRandomness(1))
    >>> finding.passed, round(finding.found, 2)
    (True, 0.96)
    """
    if samples < FEWEST_SAMPLES:
        raise InvalidInput(f"samples must be at least {FEWEST_SAMPLES}, got {samples}")
    if not 0.5 <= confidence < 1:
        raise InvalidInput(f"confidence must be in [0.5, 1), got {confidence}")
    source = randomness or SystemRandomness()
    count = max(FEWEST_SAMPLES, samples // check.cost)
    match check:
        case Target():
            return _audit_privacy(check, count, confidence, source)
        case Estimator():
            return _audit_bias(check, count, confidence, source)


def _audit_privacy(target: Target, samples: int, confidence: float, randomness: Randomness) -> Finding:
    started = time.perf_counter()
    error, half = 1 - confidence, samples // 2
    total_variation = target.epsilon == 0

    def prove(hits: Counts, others: Counts, trials: int) -> Reals:
        if total_variation:
            return delta_bounds(hits, others, trials, float(target.epsilon), error)
        return epsilon_bounds(hits, others, trials, float(target.delta), error)

    event = best_event(_draw(target, 0, half, randomness), _draw(target, 1, half, randomness), prove)
    # The event is fixed before these samples are drawn, so only the two intervals can fail.
    hits, others = event.hits(_draw(target, 0, half, randomness), _draw(target, 1, half, randomness))
    return Finding(
        name=target.name,
        claimed=target.claimed,
        measure="δ" if total_variation else "ε",
        allowed=float(target.delta if total_variation else target.epsilon),
        found=float(prove(np.array(hits), np.array(others), half)),
        samples=2 * half,
        confidence=confidence,
        seconds=time.perf_counter() - started,
    )


def _draw(target: Target, which: int, count: int, randomness: Randomness) -> Integers:
    parts = [
        target.draw(target.inputs[which], min(_CHUNK, count - start), randomness) for start in range(0, count, _CHUNK)
    ]
    features = np.concatenate(parts)
    return features.reshape(count, -1).astype(np.int64)


def _audit_bias(estimator: Estimator, participants: int, confidence: float, randomness: Randomness) -> Finding:
    """A normal test of every cell's error, with a Bonferroni correction over the cells.

    A sum over thousands of participants is normal to far better than the last digit shown, even in the tail.
    """
    started = time.perf_counter()
    deviations = np.abs(estimator.deviations(participants, randomness))
    return Finding(
        name=estimator.name,
        claimed=estimator.claimed,
        measure="|z|",
        allowed=float(norm.isf((1 - confidence) / (2 * len(deviations)))),
        found=float(deviations.max()),
        samples=participants,
        confidence=confidence,
        seconds=time.perf_counter() - started,
    )


ACCOUNT = "audited"
# More than any audit can spend: each release is audited, not their total.
BOTTOMLESS = 10**12
_QUERIES = np.array([[0.0, 0.0], [10.0, 10.0]], dtype=np.float32)
# How often a request is made: the more often, the clearer a second draw shows.
RETRIES = 8
# Two records near the first query, of which the second may have either label.
SAMPLES = np.array([[1.0, 0.0], [0.0, 1.0]])


def open_account(adjacency: Adjacency = Adjacency.REPLACE_ONE) -> Ledger:
    """A ledger with one account whose budget is never spent."""
    return open_ledger("memory:", {ACCOUNT: Ceiling(BOTTOMLESS, adjacency=adjacency)})


def whole_path(
    name: str, mechanism: PermuteAndFlip, ledger: Callable[[], Ledger] = open_account, times: int = 1
) -> Target:
    """One record of a holder changes its label; every request is made this many ``times``.

    Compared is how often the query near the record got label 1.
    """

    def draw(label: int, count: int, randomness: Randomness) -> Integers:
        records = Private(Records(SAMPLES, np.array([0, label])))
        holder = VoteHolder([records], Gate(ledger(), ACCOUNT, randomness))
        released = np.zeros(count, dtype=np.int64)
        for number, _ in np.ndindex(count, times):
            ask = VoteAsk(_QUERIES, Identity(2), 1, ("0", "1"), "", mechanism, "audit", request=f"request {number}")
            released[number] += holder.answer(ask).value[0]
        return released

    return Target(name, mechanism.spend.epsilon, Fraction(0), (0, 1), draw, cost=100 + 100 * times)


def gate(epsilon: Fraction) -> Target:
    """Labels by permute-and-flip, each request once."""
    return whole_path("gate", PermuteAndFlip.for_epsilon(epsilon, row_range=2))


def gate_retried(epsilon: Fraction) -> Target:
    """Every request is repeated, as if answers were lost: together they still cost ε."""
    return whole_path("gate-retried", PermuteAndFlip.for_epsilon(epsilon, row_range=2), times=RETRIES)


def runnable(name: str) -> bool:
    """Whether everything that an audit needs is installed: protocols need ``cryptography``.

    >>> runnable("permute-and-flip")
    True
    """
    return name not in PROTOCOLS or find_spec("cryptography") is not None


def _protocol(name: str) -> Checks:
    def checks(epsilon: Fraction, delta: Fraction) -> Sequence[Check]:
        if not runnable(name):
            raise InvalidInput(
                f"{name} audits a protocol with cryptography, which needs an extra: pip install 'tacit[federated]'"
            )
        from tacit.audit.transcripts import masked_transcript, shuffled_transcript

        if name.startswith("masked"):
            return [masked_transcript(epsilon, packets=name == "masked-packets")]
        return [shuffled_transcript(epsilon, delta, order=name == "shuffled-order")]

    return checks


# What a server sees in whole runs: the masked sum and messages, and the numbers and order of shuffled messages.
PROTOCOLS = ("masked-sum", "masked-packets", "shuffled-counts", "shuffled-order")
AUDITABLE: Mapping[str, Checks] = {
    **registry.audits(),
    "gate": lambda epsilon, delta: [gate(epsilon)],
    "gate-retried": lambda epsilon, delta: [gate_retried(epsilon)],
    **{name: _protocol(name) for name in PROTOCOLS},
}
