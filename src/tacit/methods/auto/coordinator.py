"""The side that sees releases only: the releases so far, as blocks of one regression, and the next question.

Votes are sums, too: of vectors with a one at the nearest query. So every release gives, per class, the mean of some
public features over the records, with a known noise; side by side they are the moments of one regression on all these
features.

They are refined by how the public samples themselves lie: a mixture of normal laws, one per class. Embeddings of one
class lie around one point. Noise moves the classes' points away from where public samples are dense; a few steps of
expectation-maximization move them back. It is begun at the odds that follow from the releases and keeps a part of them
in every step, so a class cannot become another one. All of it is post-processing of releases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, InvalidInput, Reals, Release, Representation, gather
from tacit.mechanisms.description import noise_in_words
from tacit.methods.class_sums.coordinator import (
    LinearOdds,
    Moments,
    ReleasedSums,
    moments,
    read_calibrated,
    read_logistic,
    summed_records,
)
from tacit.methods.class_sums.wire import Norm, SumAsk, on_grid
from tacit.neighbors import nearest_queries
from tacit.students.wrapped import Projected

__all__ = [
    "MIXED_KINDS",
    "MIXTURE_COMPONENTS",
    "SAMPLES_PER_COMPONENT",
    "AutoCoordinator",
    "AutoState",
    "Block",
    "Features",
    "PublicMixture",
    "Step",
    "SumFeatures",
    "VoteFeatures",
    "contradiction",
    "current",
    "fit_public_mixture",
    "joint_odds",
    "joint_points",
    "purity",
    "refined",
    "released_misfit",
    "shifted",
    "sum_block",
    "vote_misfit",
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
    size: float | None = None  # how many records were added up, or voted
    refines: bool = False  # whether it contains what the blocks before it say
    odds: LinearOdds | None = None  # those that follow from it and all blocks before it, if they are not read jointly
    begun: Reals | None = None  # (public samples, classes): what was known before it, if its counts only refine that
    released: NDArray[Any] | None = None  # the noisy table itself
    noise: Mapping[str, Any] = field(default_factory=dict)  # its mechanism, the law of its noise, the sensitivity


def sum_block(ask: SumAsk, released: ReleasedSums, public: NDArray[Any], records: int | None) -> Block:
    """The block of released sums."""
    features = SumFeatures(ask.representation, ask.scale, ask.radius, ask.norm)
    points = features.points(public)
    mechanism: Any = ask.mechanism
    told = moments(released, ask, mechanism.noise_law.variance, points, records)
    return Block(features, points, told, size=summed_records(released, ask, records))


def current(blocks: Sequence[Block]) -> list[Block]:
    """The blocks without those that a later one contains.

    Votes are left out where sums were asked for twice: the features of the second sums were learned from them, and a
    column per query would add more noise than it says.
    """
    first = max((place for place, each in enumerate(blocks) if each.refines), default=0)
    left = list(blocks[first:])
    sums = [each for each in left if each.counts is None]
    return sums if len(sums) > 1 else left


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

    Class proportions are averaged over the blocks, weighted by precision. Two classes use logistic regression, which
    ranks better; more classes use calibrated least squares, which is more robust to noise.
    """
    blocks = current(blocks)
    if blocks[-1].odds is not None:
        return blocks[-1].odds
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
    chosen: Mapping[str, Any] = field(default_factory=dict)  # the public choices behind the question, for the recipe

    def block(self, answer: Any) -> Block:  # noqa: ANN401
        """The answer as it is read, with what was released."""
        mechanism = self.question.mechanism
        told = {"mechanism": type(mechanism).__name__, **noise_in_words(mechanism), **self.chosen}
        return replace(self.read(answer), released=np.asarray(answer), noise=told)


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
        releases = (*state.releases, answers[0].map(state.step.block))
        if len(releases) == self.steps:
            return AutoState(releases, None)
        return AutoState(releases, self.choose([each.value for each in releases]))

    def result(self, state: AutoState) -> Release[list[Block]]:
        """All releases."""
        if len(state.releases) < self.steps:
            raise InvalidInput("the run has questions that were not answered yet")
        return gather(state.releases)


# Kinds of samples that form one cluster per class: encoded texts and photographs, and embeddings.
MIXED_KINDS = ("text", "photographs", "embedding")
# The weight of the released odds in every step.
KEPT = 0.5
# Principal components for which the covariance is estimated, limited by the number of samples.
MIXTURE_COMPONENTS, SAMPLES_PER_COMPONENT = 100, 15
_STEPS = 10
# The fraction of the mean variance that is added to every variance.
_RIDGE = 1e-4
# The misfit of released sums to those of refined labels is 1 from noise alone, and larger if public samples differ from
# records; with the true labels of the development sets it is 1.1 to 1.6.
LARGEST_MISFIT = 1.25


@dataclass(frozen=True)
class PublicMixture:
    """Refined probabilities of the public samples, and the mixture's linear odds in the principal components."""

    probabilities: Reals  # (samples, classes)
    components: Projected
    odds: LinearOdds


def fit_public_mixture(public: NDArray[Any], begun: Reals) -> PublicMixture | None:
    """The mixture of public samples (n, features), started at probabilities (n, classes); None for too few samples.

    >>> public = np.concatenate([np.eye(30)[:, :2] * 0.1, 4 + np.eye(30)[:, :2] * 0.1])
    >>> begun = np.full((60, 2), 0.5)
    >>> begun[:5], begun[55:] = (0.9, 0.1), (0.1, 0.9)
    >>> fit_public_mixture(public, begun).probabilities.argmax(axis=1).tolist() == [0] * 30 + [1] * 30
    True
    """
    rows = public.reshape(len(public), -1).astype(np.float64)
    count = min(MIXTURE_COMPONENTS, len(rows) // SAMPLES_PER_COMPONENT, rows.shape[1])
    if count < 1 or not np.ptp(rows, axis=0).any():
        return None
    components = Projected.components(rows, count)
    seen = np.asarray(components.transform(rows), dtype=np.float64)
    chances, whole = begun, seen.T @ seen / len(seen)
    for _ in range(_STEPS):
        sizes = np.maximum(chances.sum(axis=0), 1e-9)
        means = chances.T @ seen / sizes[:, None]
        shares = sizes / sizes.sum()
        within = whole - (means.T * shares) @ means
        within += np.eye(count) * (_RIDGE * np.trace(whole) / count + 1e-12)
        weights = np.linalg.solve(within, means.T)
        odds = LinearOdds(weights, np.log(shares) - (means.T * weights).sum(axis=0) / 2)
        chances = KEPT * begun + (1 - KEPT) * odds.probabilities(seen)
    return PublicMixture(chances, components, odds)


def released_misfit(blocks: Sequence[Block], chances: Reals) -> float:
    """How much the sums of public samples with these probabilities differ from the released ones; 1 is noise alone.

    >>> from tacit.methods.auto.coordinator import SumFeatures
    >>> from tacit.methods.class_sums.coordinator import Moments
    >>> from tacit.representations.scaled import Identity
    >>> found = Moments(np.array([[-0.5], [0.5]]), np.array([0.5, 0.5]), np.full((2, 1), 1e-4))
    >>> block = Block(SumFeatures(Identity(1), 1.0, 1, "l2"), np.array([[-1.0], [1.0]] * 500), found)
    >>> right, wrong = np.tile(np.eye(2), (500, 1)), np.full((1000, 2), 0.5)
    >>> released_misfit([block], right) < 1e-9, released_misfit([block], wrong) > 100
    (True, True)
    """
    classes, squares, terms = chances.shape[1], 0.0, 0
    for each in blocks:
        off, variances = _differences(each, chances)
        squares += float((off / variances).sum())
        terms += off.size
    # The sums over all classes are those of all samples, so one class follows from the others.
    return float(squares / terms * classes / (classes - 1))


def _differences(block: Block, chances: Reals) -> tuple[Reals, Reals]:
    """The squared difference of each sum to that of public samples with these probabilities, and its variance."""
    means = chances.T @ block.public / len(block.public)
    drawn = np.square(chances).T @ np.square(block.public) / len(block.public) - np.square(means)
    return np.square(means - block.moments.means), block.moments.variances + drawn / len(block.public)


def refined(blocks: Sequence[Block], public: NDArray[Any], begun: Reals) -> PublicMixture | None:
    """The mixture, or None if the releases contradict it."""
    found = fit_public_mixture(public, begun)
    if found is None or not np.isfinite(found.probabilities).all():
        return None
    most = max(LARGEST_MISFIT, released_misfit(blocks, begun))
    return found if released_misfit(blocks, found.probabilities) <= most else None


# How many times better the first votes must fit a network's labels than the regression's, by which part of their signal
# sums must contradict the network's labels, and by how many standard errors. The measurements are in docs/auto.md.
_BETTER, _CONTRADICTED, _CERTAIN = 1.5, 0.03, 4.0


def vote_misfit(votes: Block, chances: Reals) -> float:
    """How much the classes of the votes differ from those of the public samples in the same clusters; 1 is noise alone.

    How many votes a cluster has is not compared: public samples may be more or less common there than records.

    >>> counts, public = np.array([[90, 10], [20, 80]]), np.repeat(np.eye(2), 100, axis=0)
    >>> votes = Block(None, public, Moments(counts.T / 200, np.ones(2) / 2, np.full((2, 2), 1e-4)), counts, 200.0)
    >>> right = np.repeat([[0.9, 0.1], [0.2, 0.8]], 100, axis=0)
    >>> vote_misfit(votes, right) < 1e-9, vote_misfit(votes, right[:, ::-1]) > 100
    (True, True)
    """
    assert votes.counts is not None
    assert votes.size is not None
    members = votes.public.sum(axis=0)[:, None]
    shares = votes.public.T @ chances / np.maximum(members, 1)
    each = np.maximum(votes.counts.sum(axis=1, keepdims=True), 1)
    drawn = shares * (1 - shares) * each**2 / np.maximum(members, 1)
    variances = votes.moments.variances.T * votes.size**2 + drawn
    return float((np.square(votes.counts - each * shares) / variances)[members[:, 0] > 0].mean())


def contradiction(sums: Block, chances: Reals) -> tuple[float, float]:
    """By which part of their signal released sums contradict these labels, and by how many standard errors.

    >>> found = Moments(np.array([[-0.5], [0.5]]), np.array([0.5, 0.5]), np.full((2, 1), 1e-4))
    >>> block = Block(SumFeatures(None, 1.0, 1, "l2"), np.array([[-1.0], [1.0]] * 500), found)
    >>> part, errors = contradiction(block, np.full((1000, 2), 0.5))
    >>> round(part, 2), errors > 100, contradiction(block, np.tile(np.eye(2), (500, 1)))[1] < 0
    (1.0, True, True)
    """
    squares, variances = _differences(sums, chances)
    alone = np.square(sums.moments.means - np.outer(sums.moments.shares, sums.public.mean(axis=0)))
    signal = float((alone - sums.moments.variances).sum())
    excess = float((squares - variances).sum())
    return excess / max(signal, 1e-12), excess / float(np.sqrt(2 * np.square(variances).sum()))


def shifted(blocks: Sequence[Block], before: Reals, network: Reals) -> bool:
    """Whether sums mislead, because public samples differ from the records.

    A network that learned the labels of the public samples does not learn what the images do not show, such as the
    errors of odds that are fitted to records in one place and to public samples in another. The first votes then fit
    its labels better, and these contradict the sums. Votes need no such agreement: they count records near a query.
    """
    votes, sums = blocks[0], blocks[-1]
    if votes.counts is None or sums.counts is not None:
        return False
    if vote_misfit(votes, before) < _BETTER * vote_misfit(votes, network):
        return False
    part, errors = contradiction(sums, network)
    return part >= _CONTRADICTED and errors >= _CERTAIN
