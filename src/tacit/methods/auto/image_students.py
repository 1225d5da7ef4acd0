"""What learns images between questions and at the end: small networks, or without torch a perceptron."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Reals
from tacit.core.samples import content_digest, image_shape, row_digests
from tacit.methods.auto.coordinator import SumFeatures
from tacit.methods.class_sums.plan import RADIUS, sum_representation
from tacit.methods.class_sums.wire import lengths
from tacit.representations.chained import Chained
from tacit.representations.scaled import PrincipalComponents
from tacit.students.registry import STUDENTS
from tacit.students.wrapped import Projected

__all__ = ["FEW", "component_features", "image_network", "perceptron"]

# With fewer samples a map of them is a better student than a perceptron.
FEW = 150
# Components that a perceptron sees, its passes over the public samples, the fewest steps (few samples give few steps in
# a pass), the samples of a step, and the number of samples for which a penalty of 1 was chosen.
_SEEN, _PASSES, _STEPS, _BATCH, _PENALIZED = 100, 30, 600, 200, 5000
# The part of an image's side by which the last networks' predictions are averaged over shifts.
_SHIFT = 0.04


def component_features(public: NDArray[Any], representation: str, whitening: float, classes: int) -> SumFeatures:
    """Components of these features of images, as a perceptron sees them; no sample is clipped.

    >>> component_features(np.random.default_rng(0).normal(size=(20, 8, 8)), "identity", 0.25, 2).points(
    ...     np.zeros((3, 8, 8))).shape
    (3, 20)
    """
    base = sum_representation(representation, public, classes)[1]
    encoded = base.encode(public)
    fitted = PrincipalComponents.fit(encoded, min(_SEEN, *encoded.shape), whitening=whitening)
    length = float(lengths(fitted.encode(encoded).astype(np.float64), "l2").max())
    view = Chained.of((base, fitted), content_digest(row_digests(public)))
    return SumFeatures(view, RADIUS / max(length, 1e-12), RADIUS, "l2")


def perceptron(seen: Any, points: Reals) -> Any:  # noqa: ANN401
    """An untrained perceptron behind the transformer ``seen``, for as many samples as these points.

    >>> perceptron("passthrough", np.ones((10, 2)))[-1].max_iter
    600
    """
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import Pipeline

    width = points.shape[1]
    scaled = Projected(np.zeros(width), np.eye(width) / float(np.sqrt(np.square(points).mean()) or 1.0))
    passes = max(_PASSES, -(-_STEPS // -(-len(points) // _BATCH)))
    # Scikit-learn divides the penalty by the number of samples: with few it would be far too large.
    penalty = min(1.0, len(points) / _PENALIZED)
    odds = MLPClassifier(
        (256,), alpha=penalty, batch_size=min(_BATCH, len(points)), max_iter=passes, random_state=0
    )  # fmt: skip
    return Pipeline([("seen", seen), ("scaled", scaled), ("odds", odds)])


def image_network(public: NDArray[Any], last: bool, seed: int = 0) -> Any:  # noqa: ANN401
    """A small convolutional network with slight augmentation for these images; a last one is trained longer.

    >>> [image_network(np.zeros((samples, 784)), True).epochs for samples in (500, 5000)]
    [40, 8]
    """
    epochs, batch, steps = (8, 32, 600) if last else (6, 64, 300)
    # A network needs some hundred steps, which few samples have in many epochs only.
    epochs = max(epochs, -(-steps // max(1, len(public) // batch)))
    side = min(image_shape(public)[:2])
    return STUDENTS["network"](
        network="small-convolutions", epochs=epochs, batch=batch, learning_rate=5e-3,
        label_smoothing=0.1 if last else 0.0, average=0.995 if last else 0.99, augmentation="handwriting", seed=seed,
        shifts=round(_SHIFT * side) if last else 0,
    )  # fmt: skip
