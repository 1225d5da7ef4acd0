"""The side that sees releases only: the releases so far, as blocks of one regression, and the next question.

Votes are sums, too: of vectors with a one at the nearest query. So every release gives, per class, the mean of some
public features over the records, with a known noise; side by side they are the moments of one regression on all these
features. All of it is post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats, Integers, Reals, Representation
from tacit.core.release import Release, gather
from tacit.methods.class_sums.coordinator import (
    LinearOdds,
    Moments,
    ReleasedSums,
    added_up,
    moments,
    read_calibrated,
    read_logistic,
)
from tacit.methods.class_sums.wire import Norm, SumAsk, on_grid
from tacit.neighbors import nearest_queries

__all__ = [
    "AutoCoordinator",
    "AutoState",
    "Block",
    "Features",
    "Step",
    "SumFeatures",
    "VoteFeatures",
    "current",
    "joint_odds",
    "joint_points",
    "purity",
    "sum_block",
]

# Steps in the radius: finer than single precision, which ONNX models compute in, and squares fit in 64 bits.
_FINE_STEPS = 2**28


@dataclass(frozen=True)
class SumFeatures:
    """The features of class sums: encoded, clipped to the radius, in lengths of it.

    Records are summed on the grid of the radius; public samples and the student's need no grid but a fine one.
    """

    representation: Representation
    scale: float
    radius: int
    norm: Norm

    def points(self, samples: NDArray[Any]) -> Reals:
        """One row per sample, no longer than 1."""
        scale = self.scale * _FINE_STEPS / self.radius
        return on_grid(self.representation.encode(samples), scale, _FINE_STEPS, self.norm)[0] / _FINE_STEPS


@dataclass(frozen=True)
class VoteFeatures:
    """The features of votes: a one at the nearest query."""

    representation: Representation
    queries: Floats

    def points(self, samples: NDArray[Any]) -> Reals:
        """One row per sample with at most one 1; none for a sample that is nowhere.

        >>> from tacit.representations.scaled import Identity
        >>> VoteFeatures(Identity(1), np.array([[0.0], [9.0]], dtype=np.float32)).points(np.array([[8.0]])).tolist()
        [[0.0, 1.0]]
        """
        near = nearest_queries(self.representation.encode(samples), self.queries, 1)[:, 0]
        ones: Reals = (near[:, None] == np.arange(len(self.queries))).astype(np.float64)
        return ones


Features = SumFeatures | VoteFeatures


@dataclass(frozen=True)
class Block:
    """One release: the public features it is about, and what it says of them per class."""

    features: Features
    public: Reals  # (public samples, features)
    told: Moments
    counts: NDArray[Any] | None = None  # (queries, classes), of votes
    size: float | None = None  # how many records were added up, of sums
    refines: bool = False  # whether it contains what the block before it told


def sum_block(ask: SumAsk, table: Integers, public: NDArray[Any], records: int | None) -> Block:
    """What released sums tell."""
    features = SumFeatures(ask.representation, ask.scale, ask.radius, ask.norm)
    points = features.points(public)
    mechanism: Any = ask.mechanism
    released = ReleasedSums(table)
    told = moments(released, ask, mechanism.noise_law.variance, points, records)
    return Block(features, points, told, size=added_up(released, ask, records))


def current(blocks: Sequence[Block]) -> list[Block]:
    """The blocks without those that a later one contains."""
    later = [*blocks[1:], None]
    return [each for each, after in zip(blocks, later, strict=True) if after is None or not after.refines]


def purity(counts: NDArray[Any]) -> float:
    """The fraction of the votes that go to the leading class of their query, from noisy counts.

    >>> purity(np.array([[90, 8, 2], [1, 99, 0]]))
    0.945
    """
    return float(counts.max(axis=1).sum() / max(1, counts.sum()))


def joint_points(blocks: Sequence[Block]) -> Reals:
    """The public samples in the features of all blocks."""
    return np.concatenate([each.public for each in current(blocks)], axis=1)


def joint_odds(blocks: Sequence[Block]) -> LinearOdds:
    """The regression whose moments are those of all blocks.

    Shares of the classes are the means over the blocks, weighted by precision. With two classes odds are those
    of a logistic regression, whose ranking is the better one; with more, least squares, whose scores are calibrated
    afterwards, is more robust to noise.
    """
    blocks = current(blocks)
    exact = np.array([1 / each.told.variances.mean() for each in blocks])
    shares = np.average([each.told.shares for each in blocks], axis=0, weights=exact)
    together = Moments(
        np.concatenate([each.told.means for each in blocks], axis=1),
        shares / shares.sum(),
        np.concatenate([each.told.variances for each in blocks], axis=1),
    )
    read = read_logistic if len(shares) == 2 else read_calibrated
    return read(together, joint_points(blocks))


@dataclass(frozen=True)
class Step:
    """A question, what its answer tells, and reasons to think again before it is paid for."""

    question: Any
    read: Callable[[Any], Block]
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class AutoState:
    """The releases so far, and the open question."""

    told: tuple[Release[Block], ...]
    step: Step | None


@dataclass(frozen=True)
class AutoCoordinator:
    """Asks ``steps`` questions: the ``first``, and others, each chosen by ``choose`` from the blocks before it."""

    steps: int
    first: Step
    choose: Callable[[Sequence[Block]], Step]

    def begin(self) -> AutoState:
        """The first question, from public samples alone."""
        return AutoState((), self.first)

    def ask(self, state: AutoState) -> Any | None:  # noqa: ANN401
        """The open question."""
        return None if state.step is None else state.step.question

    def fold(self, state: AutoState, answers: Sequence[Release[Any]]) -> AutoState:
        """Read the answer, and choose the next question from all releases."""
        if len(answers) != 1 or state.step is None:
            raise InvalidInput(f"the default takes one answer, a curator's; got {len(answers)}")
        told = (*state.told, answers[0].map(state.step.read))
        if len(told) == self.steps:
            return AutoState(told, None)
        return AutoState(told, self.choose([each.value for each in told]))

    def result(self, state: AutoState) -> Release[list[Block]]:
        """All that was told."""
        if len(state.told) < self.steps:
            raise InvalidInput("the run has questions that were not answered yet")
        return gather(state.told)
