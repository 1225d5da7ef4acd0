"""As many groups as there are classes, each one question: a sample's shares in a few groups of the public samples.

Some clusterings have no center that is nearest to all of its samples: a mixture whose parts are long and thin, groups
on which neighbors agree, or images that are compared up to a turn (``transformed_kmeans``). Votes need centers. So a
sample is represented by its share in every group, which adds up to 1; asked with the unit axes as queries, a sample
votes for the group it has most of, because |p − e_l|² = |p|² + 1 − 2p_l.
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

# e^−t as (1 + t/2^10)^−(2^10): a library's exponential may round by where a number stands in an array, ten
# multiplications cannot. It is above e^−t by 5 % at t = 10, and of the same order everywhere.
SQUARINGS = 10
# Beyond this a share is 0 in float32.
LARGEST_PENALTY = 500.0
# Squares stay finite up to here; a sample that far out is in no group anyway.
_FARTHEST = 1e100
MIXTURE_STARTS = 5
# Of the samples' mean variance: no part of the mixture may be thinner, or parts shrink to a few samples and others
# swallow two classes (MNIST, 9 to 12 dimensions of a spectral map: 85 to 98 % pure at 1e-4, 97.5 to 97.7 % at 1e-2).
THINNEST = 1e-2
# How much equal groups count beside neighbors that agree.
EVENNESS = 3.0
MOST_NEIGHBORS = 30
_STEPS, _BATCH, RATE = 900, 1000, 5e-3
# What a logarithm is taken of is never smaller.
_FLOOR = 1e-9


def shares(penalties: NDArray[np.float64]) -> Floats:
    """For each row, shares that fall as e^−penalty; the smallest penalty has the largest share.

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
    """The rows as numbers that can be squared; what is no number is refused in the owner's name.

    >>> measurable(np.array([[1e300, -2.0]])).tolist()
    [[1e+100, -2.0]]
    """
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        raise InvalidInput(f"{whose} a value that is not a finite number")
    return np.clip(rows.astype(np.float64), -_FARTHEST, _FARTHEST)


def axes(groups: int) -> Floats:
    """The queries of such a space: one a group.

    >>> axes(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return np.eye(groups, dtype=np.float32)


def require_groups(public: NDArray[Any], groups: int) -> None:
    """Refuse more groups than there are different public samples, and fewer than two."""
    distinct = len(np.unique(public.reshape(len(public), -1), axis=0)) if len(public) else 0
    if not 2 <= groups <= distinct:
        raise InvalidInput(f"groups must be between 2 and the {distinct} distinct public samples, got {groups}")


@dataclass(frozen=True)
class MixtureShares:
    """How likely a sample comes from each part of a Gaussian mixture; ``queries`` are the axes of this space.

    Best on a map: there the classes of handwritten digits come apart, so that one question per class is enough
    ("end2end"). A mixture follows groups that are longer than wide, where k-means would cut them. Give the map at least
    as many dimensions as there are groups: on fewer, the likeliest mixture may join two classes.

    All arithmetic is feature by feature and part by part, so a sample's encoding is the same bits in any company.

    >>> rng = np.random.default_rng(0)
    >>> long, round = rng.normal(size=(100, 2)) * [9, 1], rng.normal(size=(100, 2)) + [0, 12]
    >>> fitted = MixtureShares.fit(np.concatenate([long, round]), groups=2)
    >>> of_long, far_out, of_round = fitted.encode(np.array([[0.0, 0.0], [20.0, 2.0], [0.0, 12.0]])).argmax(axis=1)
    >>> bool(of_long == far_out != of_round)
    True
    """

    name: ClassVar[str] = "mixture"

    means: Reals  # (groups, features)
    scales: Reals  # (groups, features, features): a deviation times its part's is of unit spread
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
            # A mixture that still moves a little after its last step is as good as one that does not.
            warnings.simplefilter("ignore", ConvergenceWarning)
            mixture.fit(rows)
        scales = mixture.precisions_cholesky_
        depth = np.log(np.diagonal(scales, axis1=1, axis2=2)).sum(axis=1)
        return cls(mixture.means_, scales, -np.log(mixture.weights_) - depth)

    fields = parameters

    @classmethod
    def read(cls, fields: StrictReader) -> MixtureShares:
        """Read a mean, a scale and an offset for each part."""
        means = read_finite_array(fields, "means", shape=(None, None))
        groups, width = means.shape
        scales = read_finite_array(fields, "scales", shape=(groups, width, width))
        return cls(means, scales, read_finite_array(fields, "offsets", shape=(groups,)))

    @property
    def queries(self) -> Floats:
        """What to ask: one query a group."""
        return axes(len(self.means))

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 shares a sample."""
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
    """A linear layer that puts neighbors into one group and fills all groups; ``queries`` are this space's axes.

    The idea is that of SCAN (Van Gansbeke et al., 2020): a sample and one of its nearest neighbors should fall into
    the same group surely, and groups should be of equal size on average. Photographs seen by a pretrained network have
    no round clusters, and k-means cuts their classes; this layer does not. It sees the public samples and no label.
    Assumes that the classes are about equally frequent among the public samples.

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

        Without ``neighbors`` a sample has 30, and no more than half of what a group of equal size holds.
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
        # Each sample is its own nearest one, or an equal one is.
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
        """Read a row of weights and an offset for each group."""
        weights = read_finite_array(fields, "weights", shape=(None, None))
        return cls(weights, read_finite_array(fields, "offsets", shape=(len(weights),)))

    @property
    def queries(self) -> Floats:
        """What to ask: one query a group."""
        return axes(len(self.weights))

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 shares a sample."""
        rows = same_width(samples, self.weights.shape[1])
        result = np.empty((len(rows), len(self.weights)), dtype=np.float32)
        for block in blocks(len(rows)):
            # einsum adds each row up by itself, always in the same order, whatever rows are around it.
            scores = np.einsum("nf,gf->ng", measurable(rows[block]), self.weights)
            result[block] = shares(-(scores + self.offsets))
        return result


@dataclass(frozen=True)
class _Trained:
    weights: Reals
    offsets: Reals
    loss: float


def _train(rows: Reals, nearest: NDArray[Any], groups: int, rng: np.random.Generator) -> _Trained:
    """One layer from a random start, by Adam; its loss is the mean of the last pass."""
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
    """How little neighbors agree and how uneven the groups are, and how that changes with the weights."""
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
