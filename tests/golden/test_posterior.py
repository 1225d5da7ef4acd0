"""Mathematics, section 12: denoising is free."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.mechanisms.accuracy import argmax_pmf
from tacit.methods.rknn.posterior import Mixture, Noise, mixture_posterior


def test_posterior_of_one_query():
    mixture = Mixture.even([20, 40, 60], [0.5, 0.7, 0.9])
    found = mixture_posterior(np.array([[35, 8, -3, 12]]), Noise("laplace", 5), mixture)[0]
    assert found == pytest.approx([0.986304542, 0.00325335540, 0.000848346443, 0.00959375622], rel=2e-9)


def test_flat_prior_is_the_law_of_the_argmax():
    # True counts of which every one is as likely as another are the seen ones less noise; noise is symmetric.
    found = argmax_pmf("laplace", np.array([30, 10, 5]), 10)
    assert found == pytest.approx([0.8145103, 0.11735137, 0.06813833], abs=1e-8)
