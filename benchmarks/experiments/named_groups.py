"""Classes by the names of a network's own: public chances, a mixture of the public samples, and what records add.

The network was taught a thousand classes; those whose names belong to one of ours are its chances of it. A mixture of
the public samples, one normal law per class, begins at them. All that is done here without a release is public.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tacit
from experiments.leaderboard_public import IMAGENET
from experiments.public_odds import Known
from tacit.core import TacitWarning
from tacit.methods.auto.coordinator import PublicMixture, fit_public_mixture
from tacit.methods.rknn.assignment import assignment_probabilities

__all__ = ["Grouped", "evened", "grouped_by", "named", "summed", "voted"]

EVENINGS, MIXTURES = 30, 3
LEAST = 1e-12


def named(seen: NDArray[np.float32]) -> NDArray[np.float64]:
    """The chances of the ten classes by the network's own last layer, from its features."""
    import torch

    from tacit.representations.torch_efficientnet import _whole

    with torch.inference_mode():
        chances = torch.softmax(_whole()._fc(torch.from_numpy(seen)), dim=1).double().numpy()
    means = np.column_stack([chances[:, list(group)].mean(axis=1) for group in IMAGENET["cifar10"]]) + 1e-9
    said: NDArray[np.float64] = means / means.sum(axis=1, keepdims=True)
    return said


def evened(chances: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The chances times a factor per class, with which all classes are equally frequent; and the factors.

    >>> evened(np.array([[0.9, 0.1], [0.8, 0.2]]))[0].round(2).tolist()
    [[0.6, 0.4], [0.4, 0.6]]
    """
    factors = np.ones(chances.shape[1])
    for _ in range(EVENINGS):
        even = chances * factors
        even /= even.sum(axis=1, keepdims=True)
        factors /= even.mean(axis=0) * len(factors)
    even = chances * factors
    return even / even.sum(axis=1, keepdims=True), factors


@dataclass(frozen=True)
class Grouped:
    """A mixture of the public samples, one normal law per class, begun at the names and kept to even classes."""

    mixture: PublicMixture
    factors: NDArray[np.float64]
    public: NDArray[np.float64]

    @classmethod
    def of(cls, known: Known) -> Grouped:
        """Fit it to public samples."""
        chances = evened(known.chances)[0]
        mixture, factors = None, np.ones(known.classes)
        for _ in range(MIXTURES):
            mixture = fit_public_mixture(known.public, chances)
            assert mixture is not None
            chances, factors = evened(mixture.probabilities)
        assert mixture is not None
        return cls(mixture, factors, chances)

    def chances(self, samples: NDArray[Any]) -> NDArray[np.float64]:
        """The chances of each class."""
        points = np.asarray(self.mixture.components.transform(samples))
        found: NDArray[np.float64] = self.mixture.odds.probabilities(points) * self.factors
        found /= found.sum(axis=1, keepdims=True)
        return found


@lru_cache(maxsize=1)
def grouped_by(known: Known) -> Grouped:
    """The mixture of these public samples, fitted once."""
    return Grouped.of(known)


def summed(known: Known, epsilon: float, seed: int) -> Mapping[str, Any]:
    """One release of class sums, read in several ways; what is known is the mixture of the public samples."""
    grouped = grouped_by(known)
    known = replace(known, chances=grouped.public, test_chances=grouped.chances(known.test))
    released = known.sums(epsilon, seed)
    ways = {"alone": released.alone(), "around": released.around(), "both": released.both()}
    for name in ("alone", "both"):
        ways[f"{name}, mixed"] = known.mixed(ways[name])
    return {name: known.judged(each) for name, each in ways.items()} | {"components": released.run.recipe["components"]}


def voted(known: Known, epsilon: float, seed: int) -> Mapping[str, Any]:
    """One randomized answer per record: its group and label; groups are those of the mixture.

    The answers give how likely each class leads in a group; names give a prior, the mean chance of the group's public
    samples. Every class leads in one group: the chances are exact over all assignments, with the prior and without.
    """
    from sklearn.dummy import DummyClassifier

    grouped = grouped_by(known)
    private, public, test = (grouped.chances(each) for each in (known.private, known.public, known.test))
    corners = np.eye(known.classes, dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        run = tacit.distill(
            (corners[private.argmax(axis=1)], known.labels), corners[public.argmax(axis=1)], epsilon, trust="local",
            classes=range(known.classes), method="rknn", representation="identity", queries=known.classes,
            labels="soft", student=DummyClassifier(), seed=seed,
        )  # fmt: skip
    assert run.probabilities is not None
    groups = [np.flatnonzero(public.argmax(axis=1) == group) for group in range(known.classes)]
    said = np.log(np.stack([run.probabilities[each[0]] for each in groups]) + LEAST)
    names = np.log(np.stack([known.chances[each].mean(axis=0) for each in groups]) + LEAST)
    answered, both = assignment_probabilities(said), assignment_probabilities(said + names)
    return {
        "answers": known.judged((public @ answered, test @ answered)),
        "both": known.judged((public @ both, test @ both)),
        "mechanism": run.recipe["mechanism"],
    }
