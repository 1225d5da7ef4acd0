"""The baseline that a default must beat: full-batch noisy logistic regression on the same representation, well tuned.

Every step clips each record's gradient, adds Gaussian noise to their sum and moves. Gaussian steps compose exactly
(Dong, Roth & Su 2022): T of them with noise σ are one with σ/√T, solved for (ε, δ) exactly.
The noise here is floating-point, as in a trial, and its settings are the best of a grid *on the test part*, which no
honest run could know: it is a bar to clear, not a method to use.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, softmax

from tacit.core import Reals

__all__ = ["gaussian_parameter", "noisy_logistic", "scores"]


STEPS, RATES, CLIPS = (10, 30, 100), (1.0, 4.0, 16.0), (0.3, 1.0)


def gaussian_parameter(epsilon: float, delta: float) -> float:
    """The largest shift in units of σ whose Gaussian mechanism is (ε, δ)-private.

    >>> round(1 / gaussian_parameter(1.0, 1e-5), 6)
    3.730632
    """

    def excess(shift: float) -> float:
        first = log_ndtr(shift / 2 - epsilon / shift)
        second = epsilon + log_ndtr(-shift / 2 - epsilon / shift)
        return float(np.exp(first) - np.exp(second)) - delta

    return float(brentq(excess, 1e-6, 100.0, xtol=1e-12))


def scores(truth: NDArray[np.int64], chances: Reals) -> dict[str, float]:
    """Accuracy and, for two classes, the area under the curve.

    >>> scores(np.array([0, 1, 1]), np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]))["auc"]
    1.0
    """
    from sklearn.metrics import roc_auc_score

    found = {"test": float((chances.argmax(axis=1) == truth).mean())}
    if chances.shape[1] == 2:
        found["auc"] = float(roc_auc_score(truth, chances[:, 1]))
    return found


def noisy_logistic(
    private: tuple[Reals, NDArray[np.int64]],
    test: tuple[Reals, NDArray[np.int64]],
    classes: int,
    epsilon: float,
    delta: float,
    seed: int,
    units: int = 1,
) -> Mapping[str, Any]:
    """The best of a grid on the test part, of rows scaled to length one; ``units`` records may change together.

    For two classes the area under the curve is the best of the grid by itself, which other settings may have reached.
    """
    rows, labels = private
    scale = np.sqrt(np.square(rows).sum(axis=1).mean())
    rows, others = (np.column_stack([each / scale, np.ones(len(each))]) for each in (rows, test[0]))
    lengths, targets = np.linalg.norm(rows, axis=1), np.eye(classes)[labels]
    shift = gaussian_parameter(epsilon, delta)
    best: dict[str, Any] = {"test": -1.0}
    for steps, rate, clip in itertools.product(STEPS, RATES, CLIPS):
        random = np.random.default_rng((seed, steps))
        sigma = 2 * clip * units * np.sqrt(steps) / shift
        weights = np.zeros((rows.shape[1], classes))
        for _ in range(steps):
            errors = softmax(rows @ weights, axis=1) - targets
            errors *= np.minimum(1, clip / np.maximum(lengths * np.linalg.norm(errors, axis=1), 1e-12))[:, None]
            gradient = rows.T @ errors + random.normal(scale=sigma, size=weights.shape)
            weights -= rate / clip * gradient / len(rows)
        found = scores(test[1], softmax(others @ weights, axis=1))
        area = max(found["auc"], best.get("auc", 0.0)) if "auc" in found else None
        if found["test"] > best["test"]:
            best = {**found, "steps": steps, "rate": rate, "clip": clip}
        best |= {} if area is None else {"auc": area}
    return best
