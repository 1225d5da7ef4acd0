"""Class sums around what is publicly known of each sample: a text reader's digits, a network's own classes.

Public knowledge may say by itself how likely every class of a sample is. A regression on the released sums then
multiplies these odds by factors whose logarithms are linear in the summed features. Its ridge shrinks the factors to 1,
as far as noise explains how the sums differ from those of public samples with the known odds; so what was known
remains where noise leaves little of the sums. Everything here is computed from public samples and releases.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tacit
from tacit.core import Adjacency, Reals, TacitWarning
from tacit.core.guarantee import Trust, Unit
from tacit.methods.auto.coordinator import Block, fit_public_mixture, sum_block
from tacit.methods.class_sums.coordinator import CAUTION, LinearOdds, Moments, ReleasedSums, read_calibrated, ridge
from tacit.methods.class_sums.options import ClassSums
from tacit.methods.class_sums.plan import counted, plan_sums
from tacit.methods.task import Task

__all__ = ["DELTA", "Chances", "Known", "Released", "corrected", "correction", "geometric", "right"]

DELTA = 1e-5
# Of public and test samples: the chances of each class.
Chances = tuple[Reals, Reals]
# Public samples in the regression, its steps, and the least chance and curvature.
MOST_ROWS, STEPS, LEAST, FLATTEST = 20_000, 100, 1e-6, 1e-8


@dataclass(frozen=True, eq=False)
class Known:
    """Encoded samples with their labels, and the public chances of each class; ``persons`` own the private ones.

    Labels of public samples judge, and never teach; those of the test part judge alone.
    """

    private: NDArray[Any]
    labels: NDArray[Any]
    public: NDArray[Any]
    public_labels: NDArray[Any]
    test: NDArray[Any]
    truth: NDArray[Any]
    chances: Reals  # (public samples, classes)
    test_chances: Reals  # (test samples, classes)
    persons: NDArray[Any] | None = None

    @property
    def classes(self) -> int:
        """The number of classes, which are called 0, 1, 2, ..."""
        return int(self.chances.shape[1])

    def sums(self, epsilon: float, seed: int, unit: Unit | None = None, delta: float = DELTA) -> Released:
        """One simulated run of class sums, by the one door; only its release is used, not its student."""
        from sklearn.dummy import DummyClassifier

        owned: dict[str, Any] = {} if unit is None else {"unit": unit, "persons": self.persons}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TacitWarning)
            run = tacit.distill(
                (self.private, self.labels), self.public, epsilon, delta=delta, classes=range(self.classes),
                method="class_sums", representation="identity", student=DummyClassifier(), seed=seed, **owned,
            )  # fmt: skip
            # The same public plan once more: what the released table is about.
            task = Task(
                public=self.public, classes=np.arange(self.classes), epsilon=Fraction(epsilon), delta=Fraction(delta),
                unit=unit or Unit(), adjacency=Adjacency.REPLACE_ONE, trust=None, units=self._units(unit), request="",
            )  # fmt: skip
            ask = plan_sums(task, ClassSums(representation="identity"), Trust.CENTRAL).question
        assert run.recipe["components"] == ask.components
        return Released(self, sum_block(ask, ReleasedSums(run.arrays["sums"]), self.public, counted(task)), run)

    def judged(self, chances: Chances) -> dict[str, float]:
        """How often the likeliest class is the true one."""
        return {"labels": right(chances[0], self.public_labels), "test": right(chances[1], self.truth)}

    def mixed(self, chances: Chances) -> Chances:
        """The chances after a mixture of the public samples, one normal law per class, that begins at them."""
        found = fit_public_mixture(self.public, chances[0])
        if found is None:
            return chances
        return found.probabilities, found.odds.probabilities(np.asarray(found.components.transform(self.test)))

    def _units(self, unit: Unit | None) -> int:
        return len(self.private) if unit is None or self.persons is None else len(set(self.persons.tolist()))


@dataclass(frozen=True)
class Released:
    """One release of class sums, and what can be read from it."""

    known: Known
    block: Block
    run: Any

    def alone(self) -> Chances:
        """The chances that follow from the sums, with nothing known of the classes."""
        odds = read_calibrated(self.block.moments, self.block.public)
        return odds.probabilities(self.block.public), odds.probabilities(self._test())

    def both(self) -> Chances:
        """The geometric mean of the known chances and those that follow from the sums."""
        first, second = self.alone()
        return geometric(self.known.chances, first), geometric(self.known.test_chances, second)

    def around(self) -> Chances:
        """The known chances, corrected by the sums."""
        factors = correction(self.block.moments, self.block.public, self.known.chances)
        return (
            corrected(self.known.chances, factors, self.block.public),
            corrected(self.known.test_chances, factors, self._test()),
        )

    def _test(self) -> Reals:
        return np.asarray(self.block.features.points(self.known.test), dtype=np.float64)


def geometric(first: Reals, second: Reals) -> Reals:
    """The geometric mean of two sets of chances: two opinions that are partly the same.

    >>> geometric(np.array([[0.9, 0.1]]), np.array([[0.1, 0.9]])).tolist()
    [[0.5, 0.5]]
    """
    odds = np.sqrt(np.maximum(first, LEAST) * np.maximum(second, LEAST))
    found: Reals = odds / odds.sum(axis=1, keepdims=True)
    return found


def correction(found: Moments, points: Reals, known: Reals) -> LinearOdds:
    """The factors of known chances with which the public samples have the released moments, as far as noise allows.

    >>> points = np.array([[-1.0], [1.0]] * 50)
    >>> told = Moments(np.array([[-0.5], [0.5]]), np.full(2, 0.5), np.full((2, 1), 1e-6))
    >>> factors = correction(told, points, np.full((100, 2), 0.5))
    >>> corrected(np.full((2, 2), 0.5), factors, points[:2]).round(1).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    from scipy.optimize import minimize
    from scipy.special import logsumexp

    step = -(-len(points) // MOST_ROWS)
    rows = np.column_stack([points, np.ones(len(points))])[::step]
    base = np.log(np.maximum(known[::step], LEAST))
    before = known[::step]
    told = np.column_stack([found.means, found.shares])
    # Counts are as noisy as the sums' other columns.
    variances = np.column_stack([found.variances, found.variances.mean(axis=1)])
    curvature = np.maximum((before * (1 - before)).T @ np.square(rows) / len(rows), FLATTEST)
    held = ridge(curvature, told - before.T @ rows / len(rows), variances, CAUTION)
    unit = 1 / np.sqrt(curvature + held)

    def loss(values: Reals) -> tuple[float, Reals]:
        weights = values.reshape(told.shape) * unit
        scores = base + rows @ weights.T
        normal = logsumexp(scores, axis=1)
        likely = np.exp(scores - normal[:, None])
        value = normal.mean() - (weights * told).sum() + (held * weights**2).sum() / 2
        return float(value), ((likely.T @ rows / len(rows) - told + held * weights) * unit).ravel()

    best = minimize(loss, np.zeros(told.size), jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x
    weights = best.reshape(told.shape) * unit
    return LinearOdds(weights[:, :-1].T, weights[:, -1])


def corrected(known: Reals, factors: LinearOdds, points: Reals) -> Reals:
    """The known chances times the factors, per sample."""
    scores = np.log(np.maximum(known, LEAST)) + points @ factors.weights + factors.intercepts
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances: Reals = odds / odds.sum(axis=1, keepdims=True)
    return chances


def right(chances: Reals, truth: NDArray[Any]) -> float:
    """The fraction of samples whose likeliest class is the true one.

    >>> right(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1]))
    0.5
    """
    return float((chances.argmax(axis=1) == truth).mean())
