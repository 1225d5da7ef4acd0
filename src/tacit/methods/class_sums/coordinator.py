"""The coordinator, which sees releases only: ask once, add the answers, and fit odds to the noisy sums.

The sums are all that a regression needs of the labels; public samples approximate the distribution of the records, and
the known noise determines the regularization. All of it is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, Reals, Release, gather
from tacit.methods.class_sums.wire import SumAsk, on_grid

__all__ = [
    "LinearOdds",
    "Moments",
    "ReleasedSums",
    "SumCoordinator",
    "SumState",
    "moments",
    "public_probabilities",
    "read_calibrated",
    "read_logistic",
    "read_squares",
    "ridge",
    "summed_records",
]

# The most public samples for a fit; more take longer without a gain.
MOST_ROWS = 20_000
# Prior variances of the weights, from which the likeliest is chosen.
SPREADS = np.geomspace(1e-3, 1e4, 57)
# The curvature is taken at even odds and is smaller where the fit is confident, so the ridge is this much larger.
CAUTION = 3.0
# Least squares have the same curvature everywhere, so the ridge may be smaller.
SQUARES_CAUTION = 2.0
FIT_STEPS = 500
# The least curvature relative to the largest: odds that are sure of a class have none.
_FLATTEST = 1e-9
# The largest factor between least-squares scores and log-odds, and the ridge of the offsets.
STEEPEST, _RIDGE = 100.0, 1e-4
_DEVIATIONS, SUREST = 2.0, 0.97


@dataclass(frozen=True)
class ReleasedSums:
    """The noisy sums, a row per class, and the number of answers in them, each with its own noise."""

    table: Integers  # (classes, components + 1)
    answers: int = 1


@dataclass(frozen=True)
class SumState:
    """The state of a run: the sums, once they are released."""

    sums: Release[ReleasedSums] | None = None


@dataclass(frozen=True)
class SumCoordinator:
    """Asks for the sums once. If several holders answer, each with its own noise, their tables are added."""

    question: SumAsk

    def begin(self) -> SumState:
        """The state before the question."""
        return SumState()

    def ask(self, state: SumState) -> SumAsk | None:
        """The one question, until it is answered."""
        return self.question if state.sums is None else None

    def fold(self, state: SumState, answers: Sequence[Release[Any]]) -> SumState:
        """Add the answers."""
        if not answers:
            raise InvalidInput("no holder answered, so no student can be trained")
        return SumState(gather(answers).map(self._added))

    def result(self, state: SumState) -> Release[ReleasedSums]:
        """The sums."""
        if state.sums is None:
            raise InvalidInput("the run has no answer yet")
        return state.sums

    def _added(self, tables: list[Any]) -> ReleasedSums:
        if any(np.shape(table) != self.question.table_shape for table in tables):
            raise InvalidInput("the answers are tables of a different shape than the question's")
        return ReleasedSums(np.sum(tables, axis=0, dtype=np.int64), len(tables))


@dataclass(frozen=True)
class Moments:
    """The moments that the sums estimate, per record: means of z·[class], class proportions, variances of the means.

    Lengths are relative to the radius, so that every z has a norm of at most 1.
    """

    means: Reals  # (classes, components)
    shares: Reals  # (classes,)
    variances: Reals  # (classes, components)


def summed_records(released: ReleasedSums, ask: SumAsk, records: int | None) -> float:
    """How many records were added up: as many as is public, or what the noisy counts say."""
    if records is not None:
        return float(records)
    return max(1.0, released.table[:, -1].sum() / ask.count) if ask.count else 1.0


def moments(released: ReleasedSums, ask: SumAsk, variance: float, public: Reals, records: int | None) -> Moments:
    """The moments in the sums; ``variance`` is that of one answer's noise in one cell.

    ``records`` is their number if it is public; otherwise it is estimated from the noisy counts. The means of all
    classes should add up to the mean of all records, which is approximated by that of the public samples; the rest is
    noise, or a difference between records and public samples on which no odds depend. So centered sums are read like
    others, after scaling; for them the number of records must be public.
    """
    classes = len(released.table)
    times = classes if ask.centered else 1
    noise = variance * released.answers / times**2
    table = released.table / times
    counts = table[:, -1]
    size = summed_records(released, ask, records)
    shares = np.full(classes, 1 / classes)
    if ask.count:
        shares = counts / (ask.count * size)
        shares += (1 - shares.sum()) / classes
        # Proportions are shrunk toward equal ones by the noise of the counts, with a uniform prior.
        before = (classes - 1) / (classes**2 * (classes + 1))
        shares = 1 / classes + (shares - 1 / classes) * before / (
            before + noise * (1 - 1 / classes) / (ask.count * size) ** 2
        )
        smallest = max(1 / size, math.sqrt(noise) / (ask.count * size))
        shares = np.maximum(shares, min(smallest, 0.5 / classes))
        shares /= shares.sum()
    means = table[:, :-1] / (ask.radius * size)
    means += (public.mean(axis=0) - means.sum(axis=0)) / classes
    # The noise after that step, and the sampling variance of the means of this many records.
    drawn = np.outer(shares * (1 - shares), np.square(public).mean(axis=0)) / size
    return Moments(means, shares, drawn + noise * (1 - 1 / classes) / (ask.radius * size) ** 2)


@dataclass(frozen=True)
class LinearOdds:
    """Scores of every class, linear in z: log-odds, or with ``squares`` probabilities."""

    weights: Reals  # (components, classes)
    intercepts: Reals  # (classes,)
    squares: bool = False

    def probabilities(self, points: Reals) -> Reals:
        """The probability of each class at each point, (points, classes).

        >>> LinearOdds(np.array([[1.0, -1.0]]), np.zeros(2)).probabilities(np.array([[0.0]])).tolist()
        [[0.5, 0.5]]
        """
        scores = points @ self.weights + self.intercepts
        # Least-squares scores may be below 0 or above 1.
        odds = np.maximum(scores, 1e-3) if self.squares else np.exp(scores - scores.max(axis=1, keepdims=True))
        likely: Reals = odds / odds.sum(axis=1, keepdims=True)
        return likely


def ridge(curvature: Reals, residual: Reals, variances: Reals, caution: float, largest: float = math.inf) -> Reals:
    """The ridge of each weight, by empirical Bayes.

    Weights are modeled as draws from one normal law. A residual is the weight times the curvature, plus noise; the
    variance of the law is the one that makes the residuals likeliest, and not above ``largest``. Components in which
    the public samples hardly vary are shrunk most.
    """
    spreads = SPREADS[: max(1, int(np.searchsorted(SPREADS, largest, side="right")))]
    expected = np.square(curvature)[None] * spreads[:, None, None] + variances[None]
    likelihood = -(np.log(expected) + np.square(residual)[None] / expected).sum(axis=(1, 2))
    held: Reals = caution * variances / (spreads[likelihood.argmax()] * curvature)
    return held


def read_logistic(found: Moments, public: Reals, around: LinearOdds | None = None) -> LinearOdds:
    """The logistic regression whose moments over the public samples are those of the records.

    Its likelihood depends on the labels through the sums only: mean of log Σ exp(score) − ⟨weights, means⟩ −
    ⟨intercepts, shares⟩, where the first mean needs no labels. With the ridge it is convex and has one minimum for any
    noise. The ridge shrinks weights toward those of ``around``, by default toward 0.
    """
    from scipy.optimize import minimize
    from scipy.special import logsumexp

    rows = public[:: -(-len(public) // MOST_ROWS)]
    classes, components = found.means.shape
    # Odds are not further from the right ones than they are from even ones: much noise would make that likely, too.
    largest = math.inf if around is None else float(np.square(around.weights).mean())
    if around is None:
        around = LinearOdds(np.zeros((components, classes)), np.log(found.shares))
    before, base = around.probabilities(rows), rows @ around.weights + around.intercepts
    curvature = (before * (1 - before)).T @ np.maximum(np.square(rows), 1e-12) / len(rows)
    curvature = np.maximum(curvature, _FLATTEST * curvature.max())
    held = ridge(curvature, found.means - before.T @ rows / len(rows), found.variances, CAUTION, largest)
    # Preconditioning: in these units the curvature is about equal in every direction.
    unit = 1 / np.sqrt(curvature + held)
    start = np.zeros((components + 1) * classes)

    def loss(values: Reals) -> tuple[float, Reals]:
        weights = values[: components * classes].reshape(classes, components) * unit
        intercepts = values[components * classes :]
        scores = base + rows @ weights.T + intercepts
        normal = logsumexp(scores, axis=1)
        likely = np.exp(scores - normal[:, None])
        value = normal.mean() - (weights * found.means).sum() - intercepts @ found.shares
        slope = (likely.T @ rows / len(rows) - found.means + held * weights) * unit
        rest = likely.mean(axis=0) - found.shares
        return float(value + (held * weights**2).sum() / 2), np.concatenate([slope.ravel(), rest])

    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": FIT_STEPS}).x
    weights = best[: components * classes].reshape(classes, components) * unit
    return LinearOdds(around.weights + weights.T, around.intercepts + best[components * classes :])


def read_squares(found: Moments, public: Reals) -> LinearOdds:
    """Least squares: (H + Λ)⁻¹ · means with the public second moment H and a ridge Λ that grows with the noise."""
    return _squares(found, public)[0]


def _squares(found: Moments, public: Reals) -> tuple[LinearOdds, Reals]:
    """The least-squares scores, and the derivative of each weight by its own mean, (classes, components)."""
    rows = public - public.mean(axis=0)
    spread = np.maximum(np.square(rows).mean(axis=0), 1e-12)
    residual = found.means - found.shares[:, None] * public.mean(axis=0)
    held = ridge(np.broadcast_to(spread, residual.shape), residual, found.variances, SQUARES_CAUTION)
    moment = rows.T @ rows / len(rows)
    inverses = [np.linalg.inv(moment + np.diag(ridge)) for ridge in held]
    weights = np.stack([inverse @ each for inverse, each in zip(inverses, residual, strict=True)], axis=1)
    odds = LinearOdds(weights, found.shares - public.mean(axis=0) @ weights, squares=True)
    return odds, np.stack([np.diag(inverse) for inverse in inverses])


def read_calibrated(found: Moments, public: Reals) -> LinearOdds:
    """Least squares whose scores become log-odds by one common factor and one offset per class.

    The mean score of a class over the records is known, because the score is linear in z, up to what fitting to the
    noise adds: the sum of the variances times the derivative of each weight by its mean. The factor and the offsets
    give the public samples this mean score and the class proportions: a logistic regression on one feature. So the odds
    are calibrated as far as public samples resemble the records.
    """
    from scipy.optimize import minimize
    from scipy.special import logsumexp, softmax

    squares, follows = _squares(found, public)
    scores = public @ squares.weights + squares.intercepts
    residual = found.means - found.shares[:, None] * public.mean(axis=0)
    fitted = (residual * squares.weights.T).sum() - (found.variances * follows).sum()
    reached = float(fitted + found.shares @ found.shares)
    # Minus the sampling error of the mean over the public samples: rather too flat log-odds than too steep ones.
    reached -= _DEVIATIONS * float(scores.max(axis=1).std()) / math.sqrt(len(public))
    # The mean score lies between that of the class proportions alone and that of always being right.
    low, high = float(found.shares @ found.shares), float(scores.max(axis=1).mean())
    reached = min(max(reached, low * (1 + 1e-6)), low + SUREST * max(0.0, high - low))

    def loss(values: Reals) -> tuple[float, Reals]:
        raw = values[0] * scores + values[1:]
        likely = softmax(raw, axis=1)
        value = logsumexp(raw, axis=1).mean() - values[0] * reached - values[1:] @ found.shares
        slope = np.concatenate([[(likely * scores).sum(axis=1).mean() - reached], likely.mean(axis=0) - found.shares])
        return float(value + _RIDGE * (values[1:] ** 2).sum() / 2), slope + _RIDGE * np.concatenate([[0.0], values[1:]])

    start = np.concatenate([[1.0], np.zeros(len(found.shares))])
    bounds = [(0.1, STEEPEST), *[(-STEEPEST, STEEPEST)] * len(found.shares)]
    best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return LinearOdds(best[0] * squares.weights, best[0] * squares.intercepts + best[1:])


READERS = {"logistic": read_logistic, "least-squares": read_squares, "calibrated": read_calibrated}


def public_probabilities(
    released: ReleasedSums,
    ask: SumAsk,
    public: NDArray[Any],
    records: int | None = None,
    fit: str = "logistic",
) -> Reals:
    """The probability of each class for every public sample, (samples, classes), computed from the release.

    >>> from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
    >>> from tacit.representations.scaled import Identity
    >>> noise = RoundedGaussianNoise(4, 400)
    >>> ask = SumAsk(Identity(1), 1, 1.0, 10, "l2", 10, ("low", "high"), "c0ffee", noise, "sums", "r-1")
    >>> sums = ReleasedSums(np.array([[-800, 1000], [790, 1000]]))
    >>> public_probabilities(sums, ask, np.array([[-9.0], [-7.0], [8.0], [8.0]]), 200).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    points = in_radii(ask, on_grid(ask.representation.encode(public), ask.scale, ask.radius, ask.norm)[0])
    mechanism: Any = ask.mechanism
    found = moments(released, ask, mechanism.noise_law.variance, points, records)
    return READERS[fit](found, points).probabilities(points)


def in_radii(ask: SumAsk, points: Integers) -> Reals:
    """Points of the grid relative to the radius."""
    return points / ask.radius
