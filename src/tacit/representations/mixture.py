"""A Gaussian mixture of the public samples, best on a map: as many groups as there are classes, each one question.

On a map of the neighbour graph or of UMAP the classes of handwritten digits come apart, so that one question a
class is enough ("end2end"). A mixture follows groups that are longer than wide, where k-means would cut them. Give
the map at least as many dimensions as there are groups: on fewer, the likeliest mixture may join two classes.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.protocols import Floats
from tacit.representations.grid import blocks
from tacit.representations.scaled import flat, same_width
from tacit.representations.shares import axes, measurable, require_groups, shares

__all__ = ["MixtureShares"]

STARTS = 5
# Of the samples' mean variance: no part of the mixture may be thinner, or parts shrink to a few samples and others
# swallow two classes (MNIST, 9 to 12 dimensions of a spectral map: 85 to 98 % pure at 1e-4, 97.5 to 97.7 % at 1e-2).
THINNEST = 1e-2


@dataclass(frozen=True)
class MixtureShares:
    """How likely a sample comes from each part of a mixture; ``queries`` are the axes of this space.

    All arithmetic is feature by feature and part by part, so a sample's encoding is the same bits in any company.

    >>> rng = np.random.default_rng(0)
    >>> long, round = rng.normal(size=(100, 2)) * [9, 1], rng.normal(size=(100, 2)) + [0, 12]
    >>> fitted = MixtureShares.fit(np.concatenate([long, round]), groups=2)
    >>> of_long, far_out, of_round = fitted.encode(np.array([[0.0, 0.0], [20.0, 2.0], [0.0, 12.0]])).argmax(axis=1)
    >>> bool(of_long == far_out != of_round)
    True
    """

    means: NDArray[np.float64]  # (groups, features)
    scales: NDArray[np.float64]  # (groups, features, features): a deviation times its part's is of unit spread
    offsets: NDArray[np.float64]  # (groups,): minus the log density at each mean

    @classmethod
    def fit(cls, public: NDArray[Any], groups: int, seed: int = 0) -> MixtureShares:
        """Find the likeliest of a few mixtures that start from k-means of the public samples."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.mixture import GaussianMixture

        rows = measurable(flat(public), "the public samples have")
        require_groups(rows, groups)
        floor = THINNEST * float(rows.var(axis=0).mean())
        mixture = GaussianMixture(groups, n_init=STARTS, reg_covar=floor, random_state=seed)
        with warnings.catch_warnings():
            # A mixture that still moves a little after its last step is as good as one that does not.
            warnings.simplefilter("ignore", ConvergenceWarning)
            mixture.fit(rows)
        scales = mixture.precisions_cholesky_
        depth = np.log(np.diagonal(scales, axis1=1, axis2=2)).sum(axis=1)
        return cls(mixture.means_, scales, -np.log(mixture.weights_) - depth)

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

    def _penalties(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
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
