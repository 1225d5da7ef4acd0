"""What is learned from the answers: which samples to ask about, and what to teach the global model.

Everything here works on public samples and on releases, and costs nothing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.core.randomness import SeededRandomness

__all__ = ["TARGETS", "Answered", "Learner", "Lesson", "choose_uncertain", "entropies", "public_draw", "targets_of"]

Reals = NDArray[np.float64]

TARGETS = ("hard", "soft", "weighted")


@dataclass(frozen=True)
class Answered:
    """One round's answers: the public rows, the unbiased shares of every label and their variances."""

    rows: Integers  # (answers,)
    shares: Reals  # (answers, classes)
    variances: Reals  # (answers, classes)


@dataclass(frozen=True)
class Lesson:
    """Samples, a probability of every class for each, and how much each counts."""

    samples: NDArray[Any]  # (n, *shape)
    targets: Reals  # (n, classes)
    weights: Reals  # (n,)

    def __add__(self, other: Lesson) -> Lesson:
        return Lesson(
            np.concatenate([self.samples, other.samples]),
            np.concatenate([self.targets, other.targets]),
            np.concatenate([self.weights, other.weights]),
        )


class Learner(Protocol):
    """The coordinator's side of a model. A model is bytes, so that a run can stop, go on, and send it."""

    @property
    def travels(self) -> bool:
        """Whether local models start from this one, so that it is sent to the holders."""
        ...

    def begin(self) -> bytes:
        """An untrained model."""
        ...

    def learn(self, model: bytes, lesson: Lesson, seed: int) -> bytes:
        """The model after a lesson."""
        ...

    def probabilities(self, model: bytes, samples: NDArray[Any]) -> Reals:
        """One row of class probabilities a sample."""
        ...

    def finished(self, model: bytes) -> Any:  # noqa: ANN401
        """The model as a classifier with scikit-learn manners."""
        ...


def public_draw(seed: int, turn: int, purpose: str) -> SeededRandomness:
    """Randomness for a public choice of one round: the same whenever the run is repeated or goes on.

    >>> int(public_draw(0, 3, "rows").words(1)[0]) == int(public_draw(0, 3, "rows").words(1)[0])
    True
    """
    digest = hashlib.sha256(f"{seed} {turn} {purpose}".encode()).digest()
    return SeededRandomness(int.from_bytes(digest[:16], "little"))


def entropies(probabilities: Reals) -> Reals:
    """How unsure a model is of each sample, in nats.

    >>> entropies(np.array([[1.0, 0.0], [0.5, 0.5]])).round(6).tolist()
    [0.0, 0.693147]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(probabilities > 0, probabilities * np.log(probabilities), 0.0)
    unsure: Reals = np.maximum(-terms.sum(axis=1), 0.0)
    return unsure


def choose_uncertain(entropy: Reals, count: int, randomness: SeededRandomness) -> Integers:
    """``count`` different samples, drawn one after another with probabilities proportional to e^entropy.

    Adding independent Gumbel noise to the exponents and taking the largest is that very draw. With equal
    entropies it is a uniform one.

    >>> len(set(choose_uncertain(np.zeros(5), 5, SeededRandomness(1)).tolist()))
    5
    """
    if not 1 <= count <= len(entropy):
        raise InvalidInput(f"answers must be between 1 and the {len(entropy)} public samples, got {count}")
    uniform = (randomness.words(len(entropy)).astype(np.float64) + 0.5) / 2.0**64
    # The largest words round up to 1 in float64; e^-53 less keeps the logarithm finite and changes no order.
    gumbel = -np.log(-np.log(np.minimum(uniform, 1 - 2.0**-53)))
    return np.argsort(-(entropy + gumbel), kind="stable")[:count].astype(np.int64)


def targets_of(shares: Reals, variances: Reals, kind: str) -> tuple[Reals, Reals]:
    """Targets to learn from unbiased shares, and weights: shares themselves may be negative, targets may not.

    ``hard`` is the label with the largest share; ``soft`` the nearest probabilities to the shares; ``weighted`` the
    hard label with the weight 2Φ(lead/σ) − 1, where σ is the deviation of its lead over the second label: 0 where
    the noise alone could have made the lead, 1 where it could not.

    >>> targets_of(np.array([[1.2, -0.2, 0.0]]), np.full((1, 3), 0.01), "soft")[0].tolist()
    [[1.0, 0.0, 0.0]]
    """
    if kind not in TARGETS:
        raise InvalidInput(f"targets must be one of {', '.join(TARGETS)}, got {kind!r}")
    if kind == "soft":
        return _nearest_probabilities(shares), np.ones(len(shares))
    best = shares.argmax(axis=1)
    hard = np.eye(shares.shape[1])[best]
    if kind == "hard":
        return hard, np.ones(len(shares))
    from scipy.special import erf

    order = np.argsort(shares, axis=1)[:, -2:]
    (second, first), places = order.T, np.arange(len(shares))
    deviation = np.sqrt(variances[places, first] + variances[places, second])
    lead = shares[places, first] - shares[places, second]
    # 2Φ(x) − 1 = erf(x/√2).
    return hard, np.asarray(erf(lead / np.maximum(deviation, 1e-12) / np.sqrt(2.0)))


def _nearest_probabilities(shares: Reals) -> Reals:
    """The Euclidean projection of every row onto the probabilities: the same amount off each, nothing below 0."""
    ordered = -np.sort(-shares, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, shares.shape[1] + 1)
    kept = (ordered > excess).sum(axis=1)
    nearest: Reals = np.maximum(shares - excess[np.arange(len(shares)), kept - 1][:, None], 0.0)
    return nearest
