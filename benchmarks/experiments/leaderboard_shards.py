"""Options of the lines that train a model per shard of the records: PATE's teachers, and holders of federations.

Their models get the first principal components of the public samples. No setting is chosen on private records or on
the test part: each follows from ε, δ, and the numbers of records, classes and public samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

import tacit
from experiments.leaderboard_parts import DELTA, Encoded, Samples
from experiments.noisy_logistic import gaussian_parameter
from tacit.methods.private_knn.plan import spread_rows

__all__ = ["NearestLabels", "components", "confident", "parties", "pate", "spread", "transferred"]

# Records per teacher, or the number of classes if that is larger, and the most teachers.
PER_TEACHER, MOST_TEACHERS = 10, 500
# PATE asks as many queries as noise of an eighth of the teachers allows, one per class at least.
EIGHTH, MOST_QUERIES = 8, 1000
# The authors' numbers: ten parties of FedMD; two samples per round of PrivateKT. Each of its holders is asked once.
PARTIES, ROUNDS, PER_ROUND = 10, 10, 2
# The mean squared length of a public sample's components: a model of a few records then needs no scaling by these.
LENGTH = 10.0


def components(data: Encoded, _: Mapping[str, Any]) -> Samples:
    """Samples as principal components of public ones, times one public factor."""
    factor = np.sqrt(LENGTH / np.square(data.public).sum(axis=1).mean())
    return Samples(data.private * factor, data.public * factor, data.parts.public_labels, data.test * factor)


def spread(data: Encoded, options: Mapping[str, Any]) -> Samples:
    """The same, public samples that are asked about first: the central one of every cluster, as for Private k-NN."""
    given = components(data, options)
    rows, _ = spread_rows(given.public.astype(np.float32), options["queries"])
    order = np.concatenate([rows, np.setdiff1d(np.arange(len(given.public)), rows)])
    return given._replace(public=given.public[order], public_labels=given.public_labels[order])


def plain() -> Any:  # noqa: ANN401
    """Logistic regression on features whose scale is public: a shard is too small to scale each by its own records."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=300)


class NearestLabels(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A student that learns from all public samples, each with the label of the nearest labeled one.

    So do the students of rknn and private_knn.

    >>> import numpy as np
    >>> public = np.array([[0.0], [1.0], [4.0], [5.0]])
    >>> NearestLabels(public).fit(public[[0, 3]], np.array([0, 1])).predict(public).tolist()
    [0, 0, 1, 1]
    """

    def __init__(self, public: NDArray[Any]) -> None:
        self.public = public

    def fit(self, samples: NDArray[Any], labels: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> Self:
        """Train on the public samples; one label alone needs no training."""
        from sklearn.dummy import DummyClassifier
        from sklearn.neighbors import KNeighborsClassifier

        told = KNeighborsClassifier(1).fit(samples, labels).predict(self.public)
        model = plain() if len(np.unique(told)) > 1 else DummyClassifier(strategy="most_frequent")
        self.model_ = model.fit(self.public, told)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, samples: NDArray[Any]) -> NDArray[Any]:
        """The model's labels."""
        found: NDArray[Any] = self.model_.predict(samples)
        return found


def teachers_of(data: Encoded) -> int:
    """As many as the records allow, with ten records each or as many as there are classes."""
    return int(np.clip(data.units // max(PER_TEACHER, data.classes), 2, MOST_TEACHERS))


def pate(mechanism: str, data: Encoded, epsilon: float) -> dict[str, Any]:
    """As many queries as noise of an eighth of the teachers allows: from public numbers, ε and δ alone."""
    teachers = teachers_of(data)
    if mechanism == "lnmax":
        most = teachers * epsilon / (2 * EIGHTH)
    else:
        most = (teachers * gaussian_parameter(epsilon, DELTA) / EIGHTH) ** 2 / 2
    return {
        "mechanism": mechanism,
        "teachers": teachers,
        "queries": int(np.clip(most, data.classes, min(MOST_QUERIES, len(data.public) // 2))),
        "teacher": plain(),
        "student": NearestLabels(components(data, {}).public),
    }


def confident(data: Encoded, epsilon: float) -> dict[str, Any]:
    """GNMax's queries, of which a noisy screen answers half: where half of the teachers agree."""
    chosen = pate("gnmax", data, epsilon)
    return chosen | {"queries": 2 * chosen["queries"], "threshold": 0.5}


def transferred(data: Encoded, _: float) -> dict[str, Any]:
    """PrivateKT: as many holders as PATE has teachers, each asked in one round, so that all of ε is in its answers."""
    return {
        "holders": tacit.Partition(teachers_of(data), "even"),
        "model": plain(),
        "rounds": ROUNDS,
        "queries_per_round": PER_ROUND,
        "participation": 1 / ROUNDS,
        "max_participations": 1,
    }


def parties(variant: str, data: Encoded, _: float) -> dict[str, Any]:
    """FedMD among ten parties, in one round about two samples per class where every prediction is paid for."""
    asked = {} if variant == "rknn" else {"queries": min(2 * data.classes, len(data.public))}
    return {
        "variant": variant,
        "holders": tacit.Partition(PARTIES, "even"),
        "models": ["logistic"],
        "rounds": 1,
        **asked,
    }
