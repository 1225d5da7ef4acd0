"""Settings chosen without reading a record: by training on public samples with made-up labels.

Labels are drawn from random softmax regressions on the public samples, whose weights are proportional to the standard
deviations of the components. Training uses the real noise for the number of records; the setting is chosen whose result
agrees best with the regressions that made the labels.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, Reals
from tacit.methods.class_sums.wire import Norm, lengths
from tacit.methods.noisy_sgd.coordinator import Descent

__all__ = ["OFFSET", "Setting", "candidates", "rehearsed", "trained_on", "with_constant", "within_one"]

# The candidates, chosen once on digits and Adult so that the best ones are inside; and the constant feature, relative
# to features of norm 1.
COMPONENTS, RATES, CLIPS, DAMPINGS = (5, 10, 20, 40, 80, 160), (1.0, 4.0), (0.3, 1.0), (0.1, 1.0)
OFFSET = 0.5
# The quantile of the public samples' norms that becomes 1; longer samples are clipped to it and keep their direction.
_WITHIN = 0.25
# Random regressions, the most public samples, the most made-up records, and the standard deviation of log-odds.
_TEACHERS, LOOKED_AT, MADE_UP, _SPREAD = 4, 2000, 1000, 3.0


@dataclass(frozen=True)
class Setting:
    """How a linear model is trained: components, learning rate, clipping norm and damping."""

    components: int
    rate: float
    clip: float
    damping: float


def candidates(
    most: int, components: int | None, rate: float | None, clip: float | None, damping: float | None
) -> list[Setting]:
    """The settings to choose from: given values, and the usual candidates for the others.

    >>> len(candidates(64, None, None, 1.0, None)), candidates(64, 100, 1.0, 1.0, 0.1)
    (20, [Setting(components=64, rate=1.0, clip=1.0, damping=0.1)])
    """
    several = [min(components, most)] if components else [*(each for each in COMPONENTS if each < most), most]
    return [
        Setting(*each)
        for each in itertools.product(
            several,
            RATES if rate is None else (rate,),
            CLIPS if clip is None else (clip,),
            DAMPINGS if damping is None else (damping,),
        )
    ]


def within_one(points: Reals, norm: Norm) -> tuple[Reals, float]:
    """Public samples scaled and clipped to a norm of at most 1, and the scale.

    >>> within_one(np.array([[3.0, 4.0], [6.0, 8.0]]), "l2")[0].round(2).tolist()
    [[0.48, 0.64], [0.6, 0.8]]
    """
    far = lengths(points, norm)
    longest = float(np.quantile(far, _WITHIN))
    if not longest > 0:
        raise InvalidInput("a quarter of the public samples are equal to their mean: they vary too little")
    return points / np.maximum(far, longest)[:, None], 1 / longest


def with_constant(points: Reals) -> Reals:
    """Features with the constant feature appended.

    >>> with_constant(np.array([[1.0]])).tolist()
    [[1.0, 0.5]]
    """
    return np.column_stack([points, np.full(len(points), OFFSET)])


def trained_on(
    points: Reals,
    labels: NDArray[np.int64],
    classes: int,
    setting: Setting,
    steps: int,
    deviation: float,
    random: np.random.Generator,
    norm: Norm = "l2",
) -> Reals:
    """The weights trained on these labels, with noise of this ``deviation`` on the mean gradient at a clip of 1."""
    features = with_constant(points)
    order = 1 if norm == "l1" else 2
    far, truth = np.linalg.norm(features, order, axis=1), np.eye(classes)[labels]
    spread = np.square(features).mean(axis=0)
    descent, path = Descent(spread, setting.rate, setting.damping), [np.zeros((features.shape[1], classes))]
    for _ in range(steps):
        errors = _softmax(features @ path[-1]) - truth
        long = far * np.linalg.norm(errors, order, axis=1)
        errors *= np.minimum(1, setting.clip / np.maximum(long, 1e-12))[:, None]
        noise = random.normal(scale=deviation * setting.clip, size=path[-1].shape)
        path.append(descent.stepped(path[-1], features.T @ errors / len(features) + noise))
    return Descent.learned(path[1:])


def rehearsed(
    points: Reals,
    classes: int,
    settings: Sequence[Setting],
    steps: int,
    deviation: float,
    records: int,
    norm: Norm = "l2",
) -> tuple[Setting, float]:
    """The setting with the best accuracy on made-up labels, and that accuracy.

    ``points`` are public samples in as many components as any setting has. ``deviation`` is that of the noise on the
    mean gradient of the records at a clip of 1.

    >>> spread = np.random.default_rng(0).normal(size=(500, 20)) / np.arange(4, 24)
    >>> some = candidates(20, None, 1.0, 1.0, 0.1)
    >>> [rehearsed(spread, 3, some, 8, noise, 10**4)[0].components for noise in (1e-4, 1e-1)]
    [20, 5]
    """
    looked_at = points[:: -(-len(points) // LOOKED_AT)]
    deviations = looked_at.std(axis=0)
    right = np.zeros(len(settings))
    for teacher in range(_TEACHERS):
        random = np.random.default_rng((20, teacher))
        scores = looked_at @ (random.normal(size=(points.shape[1], classes)) * deviations[:, None])
        scores *= _SPREAD / max(float(scores.std()), 1e-12)
        chosen = random.integers(len(looked_at), size=min(max(records, 2), MADE_UP))
        reached = _softmax(scores[chosen]).cumsum(axis=1) > random.random((len(chosen), 1))
        labels, truth = reached.argmax(axis=1), scores.argmax(axis=1)
        for place, each in enumerate(settings):
            seen = within_one(looked_at[:, : each.components], norm)[0]
            weights = trained_on(
                seen[chosen], labels, classes, each, steps, deviation, np.random.default_rng((21, teacher)), norm
            )
            right[place] += ((with_constant(seen) @ weights).argmax(axis=1) == truth).mean() / _TEACHERS
    best = int(right.argmax())
    return settings[best], float(right[best])


def _softmax(scores: Reals) -> Reals:
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    likely: Reals = odds / odds.sum(axis=1, keepdims=True)
    return likely
