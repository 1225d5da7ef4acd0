"""The coordinator, which sees releases only: the releases so far as blocks of one regression, and the next question.

Votes are sums too: of one-hot vectors of the nearest query. So every release gives, per class, the mean of some public
features over the records, with known noise; together they are the moments of one regression on all these features. All
of it is post-processing.
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
    "joint_odds",
    "joint_points",
    "purity",
    "sum_block",
]

# Grid steps in the radius: finer than single precision, which ONNX models use, and squares fit in 64 bits.
_FINE_STEPS = 2**28


@dataclass(frozen=True)
class SumFeatures:
    """The features of class sums: encoded samples, clipped to the radius and divided by it.

    Records are summed on an integer grid; for public samples a much finer grid is used.
    """

    representation: Representation
    scale: float
    radius: int
    norm: Norm

    def points(self, samples: NDArray[Any]) -> Reals:
        """One row per sample, with a norm of at most 1."""
        scale = self.scale * _FINE_STEPS / self.radius
        return on_grid(self.representation.encode(samples), scale, _FINE_STEPS, self.norm)[0] / _FINE_STEPS


@dataclass(frozen=True)
class VoteFeatures:
    """The features of votes: a one-hot vector of the nearest query."""

    representation: Representation
    queries: Floats

    def points(self, samples: NDArray[Any]) -> Reals:
        """One row per sample with at most one 1; all zeros for a sample that cannot be encoded.

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
    """One release: the public features it is about, and their moments per class."""

    features: Features
    public: Reals  # (public samples, features)
    moments: Moments
    counts: NDArray[Any] | None = None  # (queries, classes), of votes


def sum_block(ask: SumAsk, table: Integers, public: NDArray[Any], records: int | None) -> Block:
    """The block of released sums."""
    features = SumFeatures(ask.representation, ask.scale, ask.radius, ask.norm)
    points = features.points(public)
    mechanism: Any = ask.mechanism
    return Block(features, points, moments(ReleasedSums(table), ask, mechanism.noise_law.variance, points, records))


def purity(counts: NDArray[Any]) -> float:
    """The fraction of the votes that go to the leading class of their query, from noisy counts.

    >>> purity(np.array([[90, 8, 2], [1, 99, 0]]))
    0.945
    """
    return float(counts.max(axis=1).sum() / max(1, counts.sum()))


def joint_points(blocks: Sequence[Block]) -> Reals:
    """The public samples in the features of all blocks."""
    return np.concatenate([each.public for each in blocks], axis=1)


def joint_odds(blocks: Sequence[Block]) -> LinearOdds:
    """The regression whose moments are those of all blocks.

    Class proportions are averaged over the blocks, weighted by precision. Two classes use logistic regression, which
    ranks better; more classes use calibrated least squares, which is more robust to noise.
    """
    exact = np.array([1 / each.moments.variances.mean() for each in blocks])
    shares = np.average([each.moments.shares for each in blocks], axis=0, weights=exact)
    together = Moments(
        np.concatenate([each.moments.means for each in blocks], axis=1),
        shares / shares.sum(),
        np.concatenate([each.moments.variances for each in blocks], axis=1),
    )
    read = read_logistic if len(shares) == 2 else read_calibrated
    return read(together, joint_points(blocks))


@dataclass(frozen=True)
class Step:
    """A question, how its answer is read, and warnings to show before it is paid for."""

    question: Any
    read: Callable[[Any], Block]
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class AutoState:
    """The releases so far, and the open question."""

    releases: tuple[Release[Block], ...]
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
            raise InvalidInput(f"the default method expects one answer, from a curator; got {len(answers)}")
        releases = (*state.releases, answers[0].map(state.step.read))
        if len(releases) == self.steps:
            return AutoState(releases, None)
        return AutoState(releases, self.choose([each.value for each in releases]))

    def result(self, state: AutoState) -> Release[list[Block]]:
        """All releases."""
        if len(state.releases) < self.steps:
            raise InvalidInput("the run has questions that were not answered yet")
        return gather(state.releases)
