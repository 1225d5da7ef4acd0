"""What learns images where torch is not installed, for any number of public images."""

import numpy as np
import pytest

from tacit.methods.auto.image_students import component_features, perceptron
from tests.methods.auto.test_voting import pictures


@pytest.mark.parametrize(("samples", "steps"), [(20, 600), (200, 600), (5000, 750)])
def test_few_samples_get_as_many_steps_and_as_light_a_penalty_as_many(samples, steps):
    points = np.ones((samples, 3))
    odds = perceptron("passthrough", points)[-1]
    assert odds.max_iter * -(-samples // odds.batch_size) == steps
    # Scikit-learn divides by the number of samples.
    assert odds.alpha / samples == pytest.approx(1 / 5000)


def test_a_perceptron_sees_images_whole():
    images, _ = pictures(40, 1)
    features = component_features(images, "gradients", 0.25, 3)
    assert np.linalg.norm(features.points(images), axis=1).max() == pytest.approx(1, abs=1e-3)
