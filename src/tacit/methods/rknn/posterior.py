"""Posterior probabilities from noisy counts: of each query's label, and of the class proportions.

Post-processing: the inputs are released counts, the public law of the noise and the number of classes. The most
probable label is still the one with the largest count; the posterior adds its probability, which a student can use as
soft labels, as weights, or to leave a query out.

Law. A query with N votes, a fraction π of them for its label and the rest divided equally among the other classes, has
counts a_c that are Poisson with mean Nπ or N(1−π)/(Y−1); z_c = a_c + noise is released. So with K(z|μ) = Σ_a
Poisson(a;μ)·f(z−a), where f is the law of the noise,

    P(y | z) ∝ prior(y) · Σ_{N,π} w(N,π) · K(z_y | Nπ) · Π_{c≠y} K(z_c | N(1−π)/(Y−1)).

The weights w are common to all queries and are fitted by expectation-maximization (EM).

Proof that the order of the counts is preserved (for a uniform prior and a log-concave f, as of Laplace and Gaussian
noise). Poisson laws have a monotone likelihood ratio, and so has K(z|μ), the convolution with a log-concave law. As Nπ
≥ N(1−π)/(Y−1) for π ≥ 1/Y, exchanging y for a class with a smaller count decreases every term of the sum.

Without the model, if all true counts are equally likely, the posterior is the law of the argmax of z with the noise
added again: ``tacit.mechanisms.accuracy``.

Proportions. A cluster is seldom of one class. A sample of a cluster with six cats and four dogs is a cat with
probability .6, however certain it is that cats lead. A student that learns proportions learns class boundaries.

Law. A cell of the table (a query, a class) has a count that is Poisson with mean μ, released with noise as z. The prior
of the means is common to all cells: weights w(μ) on a grid, fitted to the released counts by EM (empirical Bayes). Then
E[μ | z] = Σ_μ μ·w(μ)·K(z|μ) / Σ_μ w(μ)·K(z|μ), with K as above, and a query's proportions are those of its cells'
expected means. Counts below the noise are shrunk toward zero, which most cells are, without a threshold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp, wrightomega, xlogy

from tacit.core import Integers, InvalidInput, Reals

__all__ = [
    "Mixture",
    "Noise",
    "calibrated_posterior",
    "checked_counts",
    "expected_proportions",
    "fit_mixture",
    "log_kernel",
    "mixture_posterior",
]

_SIZES, _SHARES = 24, 12
MOST_ITERATIONS, ENOUGH = 200, 1e-5
# At most this many numbers in one table.
_CELLS = 4_000_000
MEANS, PRIOR_ITERATIONS, PRIOR_ENOUGH = 40, 300, 1e-6
# In votes: a query without votes gets equal proportions.
_NOTHING = 1e-6


@dataclass(frozen=True)
class Noise:
    """Integer noise with probabilities proportional to e^(−|x|/scale), or to e^(−x²/(2·scale²)).

    >>> Noise("laplace", 5)
    Noise(law='laplace', scale=5)
    """

    law: Literal["laplace", "gaussian"]
    scale: float

    def __post_init__(self) -> None:
        if self.law not in ("laplace", "gaussian"):
            raise InvalidInput(f"law must be laplace or gaussian, got {self.law!r}")
        if not 0 < self.scale < np.inf:
            raise InvalidInput(f"scale must be above 0 and finite, got {self.scale}")

    @property
    def deviation(self) -> float:
        """The standard deviation of the continuous law.

        >>> Noise("gaussian", 5.0).deviation
        5.0
        """
        return self.scale * (2**0.5 if self.law == "laplace" else 1.0)


@dataclass(frozen=True)
class Mixture:
    """A distribution of (N, π), the number of votes of a query and the fraction for its label: one weight per pair.

    >>> Mixture.even([20, 40], [0.5, 0.9]).weights.tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    sizes: Reals
    shares: Reals
    weights: Reals

    @classmethod
    def even(cls, sizes: ArrayLike, shares: ArrayLike) -> Mixture:
        """Every pair of a size and a fraction, equally weighted."""
        size, share = (each.ravel() for each in np.meshgrid(np.asarray(sizes, float), np.asarray(shares, float)))
        return cls(size, share, np.full(len(size), 1 / len(size)))


def calibrated_posterior(noisy_counts: NDArray[Any], noise: Noise, prior: ArrayLike | None = None) -> Reals:
    """The probability of each label for each query, (queries, classes), from the released counts.

    ``prior`` is one probability per class, by default uniform.

    >>> counts = np.array([[95, 3, -6], [4, 88, 1], [-2, 10, 90], [5, -1, 2]])
    >>> calibrated_posterior(counts, Noise("laplace", 5)).round(2).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.42, 0.26, 0.32]]
    """
    return mixture_posterior(noisy_counts, noise, fit_mixture(noisy_counts, noise, prior), prior)


def mixture_posterior(
    noisy_counts: NDArray[Any], noise: Noise, mixture: Mixture, prior: ArrayLike | None = None
) -> Reals:
    """The probability of each label for each query, for a known mixture.

    >>> mixture = Mixture.even([20, 40, 60], [0.5, 0.7, 0.9])
    >>> mixture_posterior(np.array([[35, 8, -3, 12]]), Noise("laplace", 5), mixture).round(4).tolist()
    [[0.9863, 0.0033, 0.0008, 0.0096]]
    """
    counts = checked_counts(noisy_counts)
    believed = _log_prior(prior, counts.shape[1])
    weights = np.log(mixture.weights)
    evidence = [logsumexp(part + weights, axis=2) + believed for part in _log_likelihoods(counts, noise, mixture)]
    table = np.concatenate(evidence)
    posterior: Reals = np.exp(table - logsumexp(table, axis=1, keepdims=True))
    return posterior


def fit_mixture(noisy_counts: NDArray[Any], noise: Noise, prior: ArrayLike | None = None) -> Mixture:
    """The likeliest mixture for the released counts, on a grid determined by them.

    A uniform prior with the weight of one query is added, so that few queries rule nothing out.

    >>> counts = np.array([[95, 3, -6], [4, 88, 1], [-2, 10, 90]] * 20)
    >>> fitted = fit_mixture(counts, Noise("laplace", 5))
    >>> round(float(fitted.weights @ fitted.sizes)), round(float(fitted.weights @ fitted.shares), 2)
    (97, 0.94)
    """
    counts = checked_counts(noisy_counts)
    classes = counts.shape[1]
    believed = _log_prior(prior, classes)[:, None]
    # Equal steps of the square root are equal steps in standard deviations of a Poisson count.
    largest = max(1, counts.sum(axis=1).max(), counts.max())
    grid = Mixture.even(np.linspace(0, np.sqrt(largest), _SIZES) ** 2, np.linspace(1 / classes, 1, _SHARES))
    log_evidence = np.concatenate(
        [logsumexp(part + believed, axis=1) for part in _log_likelihoods(counts, noise, grid)]
    )  # (queries, pairs)
    evidence = np.exp(log_evidence - log_evidence.max(axis=1, keepdims=True))
    weights, before = grid.weights, -np.inf
    for _ in range(MOST_ITERATIONS):
        total = evidence @ weights
        weights = (weights * (1 / total @ evidence) + grid.weights) / (len(counts) + 1)
        reached = float(np.log(total).mean())
        if reached - before < ENOUGH:
            break
        before = reached
    return Mixture(grid.sizes, grid.shares, weights)


def checked_counts(noisy_counts: NDArray[Any]) -> Integers:
    """The counts as a table of int64; refused if they are not a table of integers."""
    counts = np.asarray(noisy_counts)
    if counts.ndim != 2 or counts.dtype.kind not in "iu" or counts.shape[0] < 1 or counts.shape[1] < 2:
        raise InvalidInput(
            "noisy_counts must be integers, at least 1 row of at least 2 classes, "
            f"got shape {counts.shape} of {counts.dtype}"
        )
    return counts.astype(np.int64)


def _log_prior(prior: ArrayLike | None, classes: int) -> Reals:
    """The logarithm of the prior, up to a constant."""
    if prior is None:
        return np.zeros(classes)
    given = np.asarray(prior, dtype=np.float64)
    if given.shape != (classes,) or not (given > 0).all() or not np.isfinite(given).all():
        raise InvalidInput(f"prior must be {classes} numbers above 0, got {prior}")
    return np.log(given)


def _log_likelihoods(counts: Integers, noise: Noise, mixture: Mixture) -> Iterator[Reals]:
    """log K(z_y|Nπ)·Π_{c≠y} K(z_c|N(1−π)/(Y−1)), (queries, classes y, pairs), some queries at a time."""
    classes = counts.shape[1]
    values, place = np.unique(counts, return_inverse=True)
    own = log_kernel(values, mixture.sizes * mixture.shares, noise)
    other = log_kernel(values, mixture.sizes * (1 - mixture.shares) / (classes - 1), noise)
    rows = max(1, _CELLS // (classes * len(mixture.weights)))
    for first in range(0, len(counts), rows):
        part = place.reshape(counts.shape)[first : first + rows]
        yield (own - other)[part] + other[part].sum(axis=1, keepdims=True)


def log_kernel(values: Integers, means: Reals, noise: Noise) -> Reals:
    """log K(z|μ) for sorted values z and means μ, (values, means), up to a constant."""
    if noise.law == "gaussian":
        rows = max(1, _CELLS // len(means))
        blocks = [values[at : at + rows] for at in range(0, len(values), rows)]
        return np.concatenate([_gaussian_kernel(each, means, noise.scale) for each in blocks])
    # Twelve standard deviations above every mean and every value, terms are negligible.
    highest = max(0.0, float(values[-1]), float(means.max()))
    most = int(highest + 12 * np.sqrt(highest) + 60)
    columns = max(1, _CELLS // (most + 2))
    parts = [means[at : at + columns] for at in range(0, len(means), columns)]
    return np.concatenate([_laplace_kernel(values, each, noise.scale, most) for each in parts], axis=1)


def _laplace_kernel(values: Integers, means: Reals, scale: float, most: int) -> Reals:
    """Both sides of the sum are cumulative sums of the Poisson law times an increasing or a decreasing exponential."""
    amount = np.arange(most + 2)[:, None]
    poisson = xlogy(amount, means) - means - gammaln(amount + 1)
    growing = np.logaddexp.accumulate(poisson + amount / scale)  # over a ≤ row
    falling = np.logaddexp.accumulate((poisson - amount / scale)[::-1])[::-1]  # over a ≥ row
    seen = values[:, None]
    left = np.where(seen >= 0, growing[np.maximum(values, 0)] - seen / scale, -np.inf)
    right = falling[np.maximum(values + 1, 0)] + seen / scale
    return np.asarray(np.logaddexp(left, right))


def _gaussian_kernel(values: Integers, means: Reals, sigma: float) -> Reals:
    """The terms are log-concave in a and smooth, so a sum over 81 equally spaced ones around the largest is enough.

    They are adjacent, or at most half a standard deviation apart, and cover ten standard deviations on both sides: the
    relative error of the sum is below 1e-10.
    """
    seen, mean = values[:, None].astype(np.float64), means[None, :]
    with np.errstate(divide="ignore"):
        # Finite, so that 0 · log 0 is 0.
        logarithm = np.maximum(np.log(mean), -1e300)
    # The largest term is where log(μ/a) + (z−a)/σ² = 0.
    largest = np.rint(sigma**2 * wrightomega(seen / sigma**2 + logarithm - 2 * np.log(sigma)))
    spread = 1 / np.sqrt(1 / sigma**2 + 1 / np.maximum(largest, 1))
    spacing = np.maximum(1, np.floor(spread / 2))
    factorial = gammaln(np.arange(1, int((largest + 40 * spacing).max()) + 2))

    def term(amount: Reals) -> Reals:
        log_poisson = amount * logarithm - factorial[amount.astype(np.int64)]
        return np.asarray(log_poisson - ((seen - amount) / sigma) ** 2 / 2)

    peak = term(largest)
    total = np.zeros(peak.shape)
    for index in range(-40, 41):
        amount = largest + index * spacing
        total += np.where(amount >= 0, np.exp(term(np.maximum(amount, 0)) - peak), 0)
    return np.asarray(np.log(total * spacing) + peak - mean)


def expected_proportions(noisy_counts: NDArray[Any], noise: Noise) -> NDArray[np.float64]:
    """The expected class proportions of each query's votes, (queries, classes).

    >>> counts = np.array([[61, 38, -3], [2, -4, 95], [1, 88, 4], [-2, 3, 1]])
    >>> expected_proportions(counts, Noise("laplace", 4)).round(2).tolist()
    [[0.6, 0.39, 0.01], [0.01, 0.01, 0.98], [0.01, 0.98, 0.01], [0.28, 0.4, 0.32]]
    """
    counts = checked_counts(noisy_counts)
    values, place, often = np.unique(counts, return_inverse=True, return_counts=True)
    # Equal steps of the square root are equal steps in standard deviations of a Poisson count.
    means = np.linspace(0, np.sqrt(max(1, values[-1])), MEANS) ** 2
    log_evidence = log_kernel(values, means, noise)
    evidence = np.exp(log_evidence - log_evidence.max(axis=1, keepdims=True))  # (values, means)
    weights, before = np.full(MEANS, 1 / MEANS), -np.inf
    for _ in range(PRIOR_ITERATIONS):
        total = evidence @ weights
        # A uniform prior with the weight of one cell, so that few cells rule nothing out.
        weights = (weights * ((often / total) @ evidence) + 1 / MEANS) / (often.sum() + 1)
        reached = float(often @ np.log(total)) / float(often.sum())
        if reached - before < PRIOR_ENOUGH:
            break
        before = reached
    expected = (evidence @ (weights * means) / (evidence @ weights))[place].reshape(counts.shape) + _NOTHING
    proportions: NDArray[np.float64] = expected / expected.sum(axis=1, keepdims=True)
    return proportions
