"""Clusterings as representations: a sample's share in each of a few groups of the public samples, one query per group.

Some clusterings have no center that is nearest to all samples of a group: a mixture of elongated components, groups of
samples whose neighbors agree (SCAN), or images compared up to a rotation (``transformed_kmeans``). Votes need centers.
So a sample is represented by its shares in the groups, which sum to 1; with the unit vectors as queries it votes for
the group of its largest share, because |p − e_l|² = |p|² + 1 − 2p_l.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, InvalidInput, Reals
from tacit.core.codec import StrictReader
from tacit.neighbors import nearest_queries
from tacit.representations.arrays import blocks, parameters, read_finite_array
from tacit.representations.scaled import flat, same_width

__all__ = ["ClusteringHead", "MixtureShares", "axes", "measurable", "require_groups", "shares"]

# e^−t as (1 + t/2^10)^−(2^10): the rounding of a library's exponential may depend on a number's position in an array,
# that of ten multiplications does not. It is above e^−t by 5 % at t = 10, and decreasing everywhere.
SQUARINGS = 10
# Beyond this a share is 0 in float32.
LARGEST_PENALTY = 500.0
# Squares are finite up to here; a sample this far away belongs to no group anyway.
_FARTHEST = 1e100
MIXTURE_STARTS = 5
# The least variance of a component, as a share of the samples' mean variance: with less, some components shrink to a
# few samples and others join two classes (MNIST, spectral maps of 9 to 12 dimensions: purity 85 to 98 % at 1e-4, 97.5
# to 97.7 % at 1e-2).
THINNEST = 1e-2
# The weight of equal group sizes (entropy) in the loss of SCAN.
EVENNESS = 3.0
MOST_NEIGHBORS = 30
_STEPS, _BATCH, RATE = 900, 1000, 5e-3
# The least argument of a logarithm.
_FLOOR = 1e-9


def shares(penalties: NDArray[np.float64]) -> Floats:
    """For each row, shares proportional to e^−penalty (a softmax); the smallest penalty has the largest share.

    >>> shares(np.array([[3.0, 3.0, 900.0], [0.0, 1.0, 2.0]])).round(3).tolist()
    [[0.5, 0.5, 0.0], [0.6650000214576721, 0.24500000476837158, 0.09000000357627869]]
    """
    above = np.minimum(penalties - penalties.min(axis=1, keepdims=True), LARGEST_PENALTY)
    likely = 1 / (1 + above / 2**SQUARINGS)
    for _ in range(SQUARINGS):
        likely *= likely
    total = np.zeros(len(likely))
    for column in likely.T:  # group by group, so that every row is added up in the same order
        total += column
    fractions: Floats = (likely / total[:, None]).astype(np.float32)
    return fractions


def measurable(rows: NDArray[Any], whose: str = "a sample has") -> NDArray[np.float64]:
    """The rows, limited so that squares are finite; NaN and infinity are refused, with ``whose`` in the message.

    >>> measurable(np.array([[1e300, -2.0]])).tolist()
    [[1e+100, -2.0]]
    """
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        raise InvalidInput(f"{whose} a value that is not a finite number")
    return np.clip(rows.astype(np.float64), -_FARTHEST, _FARTHEST)


def axes(groups: int) -> Floats:
    """The unit vectors: the queries of such a space, one per group.

    >>> axes(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return np.eye(groups, dtype=np.float32)


def require_groups(public: NDArray[Any], groups: int) -> None:
    """Refuse fewer than two groups, or more than there are distinct public samples."""
    distinct = len(np.unique(public.reshape(len(public), -1), axis=0)) if len(public) else 0
    if not 2 <= groups <= distinct:
        raise InvalidInput(f"groups must be between 2 and the {distinct} distinct public samples, got {groups}")


@dataclass(frozen=True)
class MixtureShares:
    """The posterior probability of each component of a Gaussian mixture; ``queries`` are the unit vectors.

    Best on a spectral map: there the classes of handwritten digits are separate, so that one query per class is enough
    ("end2end"). A mixture follows elongated groups, which k-means would cut. Use a map with at least as many dimensions
    as groups: with fewer, the likeliest mixture may join two classes.

    All sums are feature by feature and component by component, so a sample's encoding does not depend on other samples.

    >>> rng = np.random.default_rng(0)
    >>> long, round = rng.normal(size=(100, 2)) * [9, 1], rng.normal(size=(100, 2)) + [0, 12]
    >>> fitted = MixtureShares.fit(np.concatenate([long, round]), groups=2)
    >>> of_long, far_out, of_round = fitted.encode(np.array([[0.0, 0.0], [20.0, 2.0], [0.0, 12.0]])).argmax(axis=1)
    >>> bool(of_long == far_out != of_round)
    True
    """

    name: ClassVar[str] = "mixture"

    means: Reals  # (groups, features)
    scales: Reals  # (groups, features, features): Cholesky factors of the precision matrices
    offsets: Reals  # (groups,): minus the log density at each mean

    @classmethod
    def fit(cls, public: NDArray[Any], groups: int, seed: int = 0) -> MixtureShares:
        """Find the likeliest of a few mixtures that start from k-means of the public samples."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.mixture import GaussianMixture

        rows = measurable(flat(public), "the public samples have")
        require_groups(rows, groups)
        floor = THINNEST * float(rows.var(axis=0).mean())
        mixture = GaussianMixture(groups, n_init=MIXTURE_STARTS, reg_covar=floor, random_state=seed)
        with warnings.catch_warnings():
            # A mixture that has not fully converged is good enough.
            warnings.simplefilter("ignore", ConvergenceWarning)
            mixture.fit(rows)
        scales = mixture.precisions_cholesky_
        depth = np.log(np.diagonal(scales, axis1=1, axis2=2)).sum(axis=1)
        return cls(mixture.means_, scales, -np.log(mixture.weights_) - depth)

    fields = parameters

    @classmethod
    def read(cls, fields: StrictReader) -> MixtureShares:
        """Read a mean, a scale and an offset per component."""
        means = read_finite_array(fields, "means", shape=(None, None))
        groups, width = means.shape
        scales = read_finite_array(fields, "scales", shape=(groups, width, width))
        return cls(means, scales, read_finite_array(fields, "offsets", shape=(groups,)))

    @property
    def queries(self) -> Floats:
        """The queries: one per group."""
        return axes(len(self.means))

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 shares per sample."""
        rows = same_width(samples, self.means.shape[1])
        result = np.empty((len(rows), len(self.means)), dtype=np.float32)
        for block in blocks(len(rows)):
            result[block] = shares(self._penalties(measurable(rows[block])))
        return result

    def _penalties(self, rows: Reals) -> Reals:
        penalties = np.empty((len(rows), len(self.means)))
        for group, (mean, scale) in enumerate(zip(self.means, self.scales, strict=True)):
            deviation = rows - mean
            squared = np.zeros(len(rows))
            for column in scale.T:
                unit = np.zeros(len(rows))
                for feature, factor in enumerate(column):
                    unit += deviation[:, feature] * factor
                squared += unit * unit
            penalties[:, group] = squared / 2 + self.offsets[group]
        return penalties


@dataclass(frozen=True)
class ClusteringHead:
    """A linear layer that puts neighbors into one group and uses all groups; ``queries`` are the unit vectors.

    The method is SCAN (Van Gansbeke et al., 2020): a sample and one of its nearest neighbors should be in the same
    group with certainty, and groups should be of equal size on average. Features of photographs from a pretrained
    network have no round clusters, and k-means cuts their classes; this layer does not. It is trained on the public
    samples without labels, and assumes that the classes are about equally frequent among them.

    >>> rng = np.random.default_rng(0)
    >>> public = np.concatenate([rng.normal(size=(60, 2)) + center for center in ([0, 9], [9, 0], [-9, -9])])
    >>> fitted = ClusteringHead.fit(public, groups=3, neighbors=5, starts=2)
    >>> groups = fitted.encode(public).argmax(axis=1).reshape(3, 60)
    >>> [len(set(each)) for each in groups.tolist()], len(set(groups[:, 0].tolist()))
    ([1, 1, 1], 3)
    """

    name: ClassVar[str] = "head"

    weights: Reals  # (groups, features)
    offsets: Reals  # (groups,)

    @classmethod
    def fit(
        cls,
        public: NDArray[Any],
        groups: int,
        neighbors: int | None = None,
        starts: int = 12,
        seed: int = 0,
    ) -> ClusteringHead:
        """Train a layer from each of several starts on the public samples, and keep the one of least loss.

        By default a sample has 30 neighbors, and no more than half of an equal share of the samples.
        """
        rows = measurable(flat(public), "the public samples have")
        require_groups(rows, groups)
        if neighbors is None:
            neighbors = max(1, min(MOST_NEIGHBORS, len(rows) // (2 * groups)))
        if not 1 <= neighbors < len(rows):
            raise InvalidInput(f"neighbors must be at least 1 and below the {len(rows)} samples, got {neighbors}")
        if starts < 1:
            raise InvalidInput(f"starts must be at least 1, got {starts}")
        narrow = rows.astype(np.float32)
        # The nearest is the sample itself, or an equal one.
        nearest = nearest_queries(narrow, narrow, neighbors + 1)[:, 1:]
        mean, spread = rows.mean(axis=0), float(rows.std()) or 1.0
        centered = (rows - mean) / spread
        trained = (_train(centered, nearest, groups, np.random.default_rng((seed, start))) for start in range(starts))
        best = min(trained, key=lambda each: each.loss)
        weights = best.weights / spread
        return cls(weights, best.offsets - weights @ mean)

    fields = parameters

    @classmethod
    def read(cls, fields: StrictReader) -> ClusteringHead:
        """Read a row of weights and an offset per group."""
        weights = read_finite_array(fields, "weights", shape=(None, None))
        return cls(weights, read_finite_array(fields, "offsets", shape=(len(weights),)))

    @property
    def queries(self) -> Floats:
        """The queries: one per group."""
        return axes(len(self.weights))

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 shares per sample."""
        rows = same_width(samples, self.weights.shape[1])
        result = np.empty((len(rows), len(self.weights)), dtype=np.float32)
        for block in blocks(len(rows)):
            # einsum sums each row separately, always in the same order, independent of the other rows.
            scores = np.einsum("nf,gf->ng", measurable(rows[block]), self.weights)
            result[block] = shares(-(scores + self.offsets))
        return result


@dataclass(frozen=True)
class _Trained:
    weights: Reals
    offsets: Reals
    loss: float


def _train(rows: Reals, nearest: NDArray[Any], groups: int, rng: np.random.Generator) -> _Trained:
    """One layer from a random start, by Adam; its loss is the mean of the last epoch."""
    width, batch = rows.shape[1], min(_BATCH, len(rows))
    # The offset is the weight of a feature that is always 1.
    weights = np.concatenate([rng.uniform(-1, 1, (groups, width)) / np.sqrt(width), np.zeros((groups, 1))], axis=1)
    rows = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    first, second, step = np.zeros_like(weights), np.zeros_like(weights), 0
    losses: list[float] = []
    while step < _STEPS:
        losses.clear()
        order = rng.permutation(len(rows))
        for own in np.array_split(order, max(1, len(rows) // batch)):
            other = nearest[own, rng.integers(nearest.shape[1], size=len(own))]
            loss, slope = _loss(weights, rows[own], rows[other])
            losses.append(loss)
            step += 1
            first += 0.1 * (slope - first)
            second += 0.001 * (slope * slope - second)
            weights -= RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return _Trained(weights[:, :-1], weights[:, -1], float(np.mean(losses)))


def _loss(weights: Reals, own: Reals, other: Reals) -> tuple[float, Reals]:
    """The loss of SCAN (disagreement of neighbors, inequality of groups) and its gradient."""
    from scipy.special import softmax

    mine, theirs = softmax(own @ weights.T, axis=1), softmax(other @ weights.T, axis=1)
    agree = np.maximum((mine * theirs).sum(axis=1, keepdims=True), _FLOOR)
    sizes = np.maximum((mine + theirs).mean(axis=0) / 2, _FLOOR)
    loss = -float(np.log(agree).mean()) + EVENNESS * float((sizes * np.log(sizes)).sum())
    even = EVENNESS * (np.log(sizes) + 1) / 2
    slopes = []
    for shown, shares_of, others in ((own, mine, theirs), (other, theirs, mine)):
        by_share = even - others / agree
        by_score = shares_of * (by_share - (shares_of * by_share).sum(axis=1, keepdims=True))
        slopes.append(by_score.T @ shown)
    return loss, (slopes[0] + slopes[1]) / len(own)
