"""What a coordinator makes of votes by records with sets of labels: for every query, how likely each label is.

A record with several labels votes with each of them, so a query has no single winner. What matters for a label is
the share of the query's voters who have it, and both numbers are noisy: the label's count and the number of voters.

Law. A query with N voters, of whom a share π have label y, is seen as z_N = N + noise and z_y = Nπ + noise. With a
weight v_y(π) for each share, common to all queries and fitted to them by expectation maximisation,

    P(π | z) ∝ v_y(π) · Σ_N f(z_N − N) · f(z_y − Nπ),

and the label's probability is the mean of π: how likely a record near the query has it. A label is present where
that is at least one half. All of it is post-processing of what was paid for, the number of voters included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Estimates, Integers
from tacit.methods.rknn.posterior import Noise

__all__ = ["SetCountReader", "SetMessageReader", "SetReading", "label_chances"]

Reals = NDArray[np.float64]

SIZES, SHARES, ITERATIONS = 48, 21, 50


@dataclass(frozen=True)
class SetReading:
    """For every query, how likely a record near it has each label, (queries, classes)."""

    chances: Reals

    @property
    def present(self) -> NDArray[np.bool_]:
        """The labels that are more likely there than not."""
        return self.chances >= 0.5


@dataclass(frozen=True)
class SetCountReader:
    """The answer of a curator: noisy counts of each label, and of the voters in the last column.

    >>> counts = np.array([[58, 2, 61], [-3, 49, 50], [1, 77, 80], [3, -2, 4]])
    >>> SetCountReader(Noise("laplace", 4))(counts).present[:3].tolist()
    [[True, False], [False, True], [False, True]]
    """

    noise: Noise

    def __call__(self, answer: Integers) -> SetReading:
        """Read one answer."""
        return SetReading(label_chances(answer[:, :-1], answer[:, -1], self.noise, self.noise))


@dataclass(frozen=True)
class SetMessageReader:
    """The answer of a crowd, whose records filled their sets up to ``labels`` with made-up labels.

    Every voter has exactly that many votes in a query, so the votes of a query, divided by it, are its voters.
    """

    decode: Callable[[NDArray[Any]], Estimates]
    classes: int
    labels: int

    def __call__(self, answer: NDArray[Any]) -> SetReading:
        """Read one answer."""
        estimates = self.decode(answer)
        counts = estimates.counts.reshape(-1, self.classes + self.labels)
        # The errors of many records add up to nearly Gaussian ones.
        spread = float(np.sqrt(estimates.variances.mean()))
        voters = spread * np.sqrt(counts.shape[1]) / self.labels
        return SetReading(
            label_chances(
                counts[:, : self.classes],
                counts.sum(axis=1) / self.labels,
                Noise("gaussian", spread),
                Noise("gaussian", float(voters)),
            )
        )


def label_chances(counts: NDArray[Any], voters: NDArray[Any], noise: Noise, voter_noise: Noise) -> Reals:
    """How likely a record near each query has each label, (queries, classes), from noisy counts (queries, classes).

    >>> chances = label_chances(np.array([[60, 1], [2, 55]]), np.array([62, 57]), *2 * [Noise("laplace", 2)])
    >>> chances.round(1).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if counts.ndim != 2 or voters.shape != counts.shape[:1]:
        raise InvalidInput(
            f"counts must be a table with one number of voters a row, got {counts.shape}, {voters.shape}"
        )
    # Even steps of the root: a grid that is fine where a few voters more or less matter.
    most = np.sqrt(max(1.0, float(voters.max()), float(counts.max())))
    sizes, shares = np.linspace(0, most, SIZES) ** 2, np.linspace(0, 1, SHARES)
    size_weight = _log_density(voters[:, None] - sizes, voter_noise)  # (queries, sizes)
    size_weight -= size_weight.max(axis=1, keepdims=True)
    result = np.empty(counts.shape)
    for label in range(counts.shape[1]):
        distance = counts[:, label, None, None] - sizes[:, None] * shares  # (queries, sizes, shares)
        joint = size_weight[:, :, None] + _log_density(distance, noise)
        evidence = np.exp(joint - joint.max(axis=(1, 2), keepdims=True)).sum(axis=1)  # (queries, shares)
        weights = np.full(SHARES, 1 / SHARES)
        for _ in range(ITERATIONS):
            # One imaginary query that could be anything joins the real ones, so that few queries rule nothing out.
            posterior = evidence * weights
            posterior /= posterior.sum(axis=1, keepdims=True)
            weights = (posterior.sum(axis=0) + 1 / SHARES) / (len(counts) + 1)
        posterior = evidence * weights
        result[:, label] = posterior @ shares / posterior.sum(axis=1)
    return result


def _log_density(values: Reals, noise: Noise) -> Reals:
    """The logarithm of the noise's density, up to a constant."""
    scaled = values / noise.scale
    return -abs(scaled) if noise.law == "laplace" else -(scaled**2) / 2
