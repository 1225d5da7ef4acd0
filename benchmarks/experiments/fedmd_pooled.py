"""The baseline that FedMD is measured against: all parties' records in one place, no privacy at all."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core import Integers, whole
from tacit.datasets.table import class_indices
from tacit.methods.fedmd.exposure import WeakPrivacyWarning
from tacit.methods.fedmd.models import party_models
from tacit.methods.fedmd.options import MIXED
from tacit.runs.inputs import class_names, labeled, rows

__all__ = ["centralized"]


def centralized(
    parties: Sequence[tuple[ArrayLike, ArrayLike]],
    public: ArrayLike,
    test: tuple[ArrayLike, ArrayLike],
    *,
    classes: Iterable[Any],
    public_labels: ArrayLike | None = None,
    models: Sequence[Any] = MIXED,
    epochs: int = 20,
    pretrain: int = 5,
    seed: int = 0,
) -> list[float]:
    """Accuracy of every one of the models when all records are pooled in one place: no privacy at all.

    >>> X = np.arange(40.0).reshape(40, 1)
    >>> y = (X[:, 0] > 20).astype(int)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     centralized([(X, y)], X, (X, y), classes=[0, 1], models=["forest"])[0] > 0.9
    True
    """
    warnings.warn("NO PRIVACY AT ALL: the records of all parties are pooled.", WeakPrivacyWarning, stacklevel=2)
    names, shown = class_names(classes), rows(public, "public")
    given = [labeled(pair) for pair in parties]
    made = party_models(
        models, len(models), shown, len(names), _marks(public_labels, names),
        len(names) if public_labels is None else max(len(names), len(np.unique(public_labels))), pretrain, seed,
    )  # fmt: skip
    samples = np.concatenate([each for each, _ in given])
    labels = np.concatenate([class_indices(each, names, "private labels") for _, each in given])
    tested, right = labeled(test)
    wanted = class_indices(right, names, "test labels")
    found = []
    for model in made:
        model.learn(samples, labels, whole(epochs, "epochs"))
        found.append(float((model.predict(tested) == wanted).mean()))
    return found


def _marks(public_labels: ArrayLike | None, names: NDArray[Any]) -> Integers | None:
    if public_labels is None:
        return None
    given = np.asarray(public_labels)
    if np.isin(given, names).all():
        return class_indices(given, names)
    marks: Integers = np.unique(given, return_inverse=True)[1].astype(np.int64)
    return marks
