"""Forecast of label accuracy before anything is paid: what is known of the data, and votes under noise.

The structure of public samples determines the effect of noise and of the number of queries. How far *labels* follow
that structure, the purity of clusters and the accuracy of linear models, is estimated: from public samples whose labels
are known, or else from the separation of clusters, which over data sets loosely predicts purity. No private data is
used.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import beta

from tacit.core import Integers, InvalidInput
from tacit.mechanisms.accuracy import error_probability, gap_needed

__all__ = ["Evidence", "Expected", "noise_unit", "of_planes", "seen_rows", "voted"]

# The most public samples for a forecast.
_LOOKED_AT = 1500
# Purity at four queries per class, as a linear function of the mean ratio of distances to the nearest and the second
# nearest of as many centers as classes, fitted to eight data sets; and the half width of its 90 % interval.
_LINE, _AROUND = (1.15, -0.55), 0.15
# The fraction of the missing purity that doubling the queries adds; and the labels per query for counting pairs.
_DOUBLING, _PER_QUERY = 0.12, 4
# Half width of a 90 % interval, in standard deviations.
NINE_OF_TEN = 1.645
# The concentration of the beta law of the clusters' purities, and the number of quantiles at which it is evaluated.
_CONCENTRATION, _QUANTILES = 4.0, 12
# Labels per class with which a student reaches half of its possible gain.
_HALF = 2.0
_UNSURE = 0.01
# The half width of the interval around a purity that the user states.
_STATED = 0.05


@dataclass(frozen=True)
class Expected:
    """The forecast of one method: the fraction of right labels, its deviation from run to run, and its cost."""

    accuracy: float
    deviation: float
    queries: int | None = None
    neighbors: int | None = None
    messages: int = 0
    seconds: float = 1.0
    said: str = ""


@dataclass(frozen=True)
class Evidence:
    """What is known about labels of the public samples: the samples' structure, some labels, or a stated purity.

    ``known`` is the class index of each sample, or -1. ``level`` -1 and 1 are the ends of a 90 % interval; 0 is the
    middle.

    >>> blobs = np.repeat([[0.0, 0.0], [9.0, 9.0]], 50, axis=0) + np.random.default_rng(0).normal(size=(100, 2))
    >>> Evidence(blobs, 2).purity(blobs, 4)[1] > 0.8
    True
    >>> known = np.repeat([0, 1], 50)
    >>> low, high = (Evidence(blobs, 2, known, level=each).purity(blobs, 4)[1] for each in (-1, 1))
    >>> 0.9 < low <= high <= 1.0
    True
    """

    points: NDArray[Any]
    classes: int
    known: Integers | None = None
    stated: float | None = None
    level: int = 0
    found: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def labeled(self) -> int:
        """The number of known labels."""
        return 0 if self.known is None else int((self.known >= 0).sum())

    @property
    def basis(self) -> str:
        """What the forecast is based on, in words."""
        if self.stated is not None:
            return f"on the given purity: {self.stated:.0%} of a query's voters agree, within {100 * _STATED:g} points"
        if self.labeled:
            return f"on {self.labeled} labeled public sample{'s' * (self.labeled != 1)} and the structure of the others"
        return "on the structure of the public samples alone, which says little about labels"

    @property
    def common(self) -> float:
        """The fraction of the most frequent class: the accuracy without learning."""
        if self.known is None or not self.labeled:
            return 1 / self.classes
        return float(np.bincount(self.known[self.known >= 0], minlength=self.classes).max() / self.labeled)

    def at(self, level: int) -> Evidence:
        """The same evidence at another end of the interval."""
        return replace(self, level=level)

    def purity(self, encoded: NDArray[Any], queries: int) -> tuple[NDArray[np.float64], float]:
        """The fraction of public samples at each of ``queries`` queries, and the purity of the queries."""
        shares, _ = self._clusters(encoded, queries)
        if self.stated is not None:
            return shares, self._as_stated(self.stated)
        if self.labeled:
            # Measured with few queries, which have enough pairs, and extrapolated to more queries, which are purer.
            at = min(queries, max(self.classes, self.labeled // _PER_QUERY))
            middle, wide = self._agreement(self._clusters(encoded, at)[1])
        else:
            at, middle, wide = 4 * self.classes, self._apart(encoded), _AROUND
        finer = 1 - (1 - middle) * (1 - _DOUBLING) ** math.log2(max(queries, 1) / at)
        wide = math.hypot(wide, (finer - middle) / 2)
        return shares, float(np.clip(finer + self.level * wide, self.common, 0.995))

    def reachable(self, encoded: NDArray[Any] | None = None) -> float:
        """The accuracy of a linear model with very many labels, on all features or on encoded ones."""
        if self.stated is not None:
            return self._as_stated(self.stated)
        rows = (self.points if encoded is None else encoded).reshape(len(self.points), -1)
        if not self.labeled:
            return float(np.clip(self._apart(rows) + self.level * _AROUND, self.common, 0.995))
        middle, wide = self._regression(rows)
        return float(np.clip(middle + self.level * wide, self.common, 0.995))

    def _as_stated(self, stated: float) -> float:
        return min(1.0, max(stated + self.level * _STATED, self.common))

    def learned(self, labels: float) -> float:
        """The accuracy of a student trained on this many right labels."""
        most = self.reachable()
        return self.common + (most - self.common) * labels / (labels + _HALF * self.classes)

    def _clusters(self, encoded: NDArray[Any], queries: int) -> tuple[NDArray[np.float64], Integers]:
        from sklearn.cluster import KMeans

        if not len(encoded):
            return np.full(queries, 1 / queries), np.empty(0, dtype=np.int64)
        key = ("clusters", _digest(encoded), queries)
        if key not in self.found:
            asked = min(queries, len(np.unique(encoded, axis=0)))
            groups = KMeans(asked, n_init=1, random_state=0).fit(encoded).labels_
            self.found[key] = np.bincount(groups, minlength=asked) / len(groups), groups
        shares, groups = self.found[key]
        return shares, groups

    def _agreement(self, groups: Integers) -> tuple[float, float]:
        """Purity from how often two labeled samples of one query agree, and its half width."""
        assert self.known is not None
        counts = np.zeros((groups.max() + 1, self.classes))
        seen = self.known >= 0
        np.add.at(counts, (groups[seen], self.known[seen]), 1)
        size = counts.sum(axis=1)
        many = size >= 2
        if not many.any():
            raise InvalidInput("too few labeled public samples: no query has two; give at least 50")
        pairs = (counts * (counts - 1)).sum(axis=1)[many] / (size * (size - 1))[many]
        same = float(np.average(pairs, weights=size[many]))
        grid = np.linspace(1 / self.classes, 0.999, 60)
        agree = [float(np.square(_parts(each, self.classes)).sum(axis=0).mean()) for each in grid]
        independent = float((size[many] - 1).sum())
        off = NINE_OF_TEN * math.sqrt(same * (1 - same) / independent + 1e-4)
        low, middle, high = np.interp([same - off, same, same + off], agree, grid)
        return float(middle), float(max(high - middle, middle - low, 0.02))

    def _regression(self, encoded: NDArray[Any]) -> tuple[float, float]:
        """The accuracy of a regression, between its cross-validated and its training accuracy, and its half width."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import StratifiedKFold, cross_val_score
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        key = ("regression", _digest(encoded))
        if key not in self.found:
            assert self.known is not None
            seen = self.known >= 0
            rows, labels = encoded[seen], self.known[seen]
            few = int(np.bincount(labels)[np.unique(labels)].min())
            if few < 2:
                raise InvalidInput("too few labeled public samples: a class has one; give at least 5 of every class")
            strength = 1.0 if 10 * rows.shape[1] <= len(rows) else 0.05
            model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=300))
            folds = StratifiedKFold(min(5, few), shuffle=True, random_state=0)
            tested = float(cross_val_score(model, rows, labels, cv=folds).mean())
            fitted = float(model.fit(rows, labels).score(rows, labels))
            middle = tested + max(0.0, fitted - tested) / 3
            drawn = math.sqrt(max(middle * (1 - middle), 1e-3) / len(labels))
            self.found[key] = middle, math.hypot(NINE_OF_TEN * drawn, max(0.0, fitted - tested) / 3)
        middle, wide = self.found[key]
        return middle, wide

    def _apart(self, encoded: NDArray[Any]) -> float:
        """Purity at four queries per class, from the separation of as many clusters as classes."""
        from sklearn.cluster import KMeans

        key = ("apart", _digest(encoded))
        if key not in self.found:
            scaled = (encoded - encoded.mean(axis=0)) / np.maximum(encoded.std(axis=0), 1e-9)
            far = np.sort(KMeans(self.classes, n_init=3, random_state=0).fit(scaled).transform(scaled), axis=1)
            ratio = float(np.mean(far[:, 0] / np.maximum(far[:, 1], 1e-12)))
            self.found[key] = float(np.clip(_LINE[0] + _LINE[1] * ratio, self.common, 0.99))
        return float(self.found[key])


def _digest(rows: NDArray[Any]) -> str:
    """By which figures of these rows are kept: two spaces may have the same shape."""
    return hashlib.sha256(np.ascontiguousarray(rows).data).hexdigest()


def noise_unit(lead: float, classes: int) -> float:
    """The standard deviation of Gaussian noise for which a label with this lead is 99 % certain.

    >>> round(noise_unit(4.2456, 10), 3)
    1.0
    """
    return lead / gap_needed("gaussian", classes, _UNSURE)


def voted(shares: NDArray[np.float64], purity: float, votes: float, noise: float, classes: int) -> tuple[float, float]:
    """The expected fraction of right labels, and its standard deviation, for noisy votes on queries.

    ``shares`` are the queries' fractions of all votes. The purities of queries have a beta law of this mean; half of
    the votes that are not for the leading class go to one other class.

    >>> even = np.full(40, 1 / 40)
    >>> clear, drowned = (voted(even, 0.9, 1000, noise, 10)[0] for noise in (1, 100))
    >>> round(clear, 2), drowned < 0.3
    (0.9, True)
    """
    least = 1 / classes
    pure, rival, *_ = _parts(purity, classes)
    counts = np.outer(shares * votes, np.ones(_QUANTILES))
    spread = np.sqrt(2 * noise**2 + counts * (pure + rival - (pure - rival) ** 2) + 1e-9)
    ahead = counts * (pure - rival)
    level = counts * (pure - (1 - pure - rival) / max(classes - 2, 1))
    lost = 1 - ndtr(ahead / spread) + (classes - 2) * (1 - ndtr(level / np.sqrt(2 * noise**2 + counts + 1e-9)))
    right = np.maximum(1 - lost, least)
    each = right * pure + (1 - right) * (1 - pure) / (classes - 1)
    accuracy = float(shares @ each.mean(axis=1))
    deviation = math.sqrt(float(np.square(shares) @ (right * (1 - right) * pure**2).mean(axis=1)))
    return accuracy, deviation


def _parts(purity: float, classes: int) -> list[NDArray[np.float64]]:
    """The fractions of a query's votes for its leading, second and every other class, at quantiles of the queries."""
    least = 1 / classes
    place = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    middle = float(np.clip((purity - least) / (1 - least), 1e-3, 1 - 1e-3))
    pure = least + (1 - least) * beta.ppf(place, _CONCENTRATION * middle, _CONCENTRATION * (1 - middle))
    rival = (1 - pure) * (1.0 if classes == 2 else 0.5)
    return [pure, rival, *[(1 - pure - rival) / max(classes - 2, 1)] * (classes - 2)]


def of_planes(reachable: float, common: float, kept: float, classes: int) -> float:
    """The accuracy of a linear model if noise leaves this part of its signal: margins shrink with its square root.

    >>> round(of_planes(0.9, 0.5, 1.0, 2), 3), of_planes(0.9, 0.76, 0.0, 2)
    (0.9, 0.76)
    """
    least = 1 / classes
    if kept <= 0 or reachable <= max(common, least + 1e-6):
        return common
    margin = gap_needed("gaussian", classes, max(1 - reachable, 1e-9)) * math.sqrt(min(1.0, kept))
    reached = 1 - error_probability("gaussian", classes, margin)
    return common + (reachable - common) * (reached - least) / (reachable - least)


def seen_rows(count: int, known: Integers | None, most: int = _LOOKED_AT) -> Integers:
    """The positions of at most ``most`` public samples, those with a known label first.

    >>> seen_rows(6, np.array([-1, -1, -1, 0, -1, -1]), 3)
    array([0, 2, 3])
    """
    if count <= most:
        return np.arange(count)
    told = np.empty(0, dtype=np.int64) if known is None else np.flatnonzero(known >= 0)[:most]
    others = np.setdiff1d(np.arange(count), told)
    # Evenly over the file, since neighboring rows are often similar.
    wanted = most - len(told)
    return np.sort(np.concatenate([told, others[np.arange(wanted) * len(others) // max(wanted, 1)]]))
