"""The baseline that FedMD is measured against: all parties' records in one place, no privacy at all."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tacit.experiment.fedmd_models import MIXED, party_models
from tacit.experiment.fedmd_setting import checked_setting
from tacit.experiment.inputs import whole
from tacit.methods.fedmd.exposure import WeakPrivacyWarning

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
    setting = checked_setting(parties, public, public_labels, classes, test)
    made = party_models(
        models,
        len(models),
        setting.public,
        len(setting.names),
        setting.public_labels,
        setting.public_classes,
        pretrain,
        seed,
    )
    samples = np.concatenate([each.samples for each in setting.records])
    labels = np.concatenate([each.labels for each in setting.records])
    assert setting.test is not None
    found = []
    for model in made:
        model.learn(samples, labels, whole(epochs, "epochs"))
        found.append(float((model.predict(setting.test[0]) == setting.test[1]).mean()))
    return found
