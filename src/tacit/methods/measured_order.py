"""The order in which methods with one curator were measured, for those that forecasts cannot tell apart.

It is that of the leaderboards (docs/which-method.md), by the kind of data and by how many records of a class there are
for the noise: the number of records times ε over the number of classes. No figure of anybody's data is in it.
"""

from __future__ import annotations

__all__ = ["measured_order"]

# From this many records of a class on, times ε, several noisy steps are better than one release.
_MANY = 1000.0
_BASELINES = ("private_knn", "pate")
_IMAGES = ("images", "photographs")


def measured_order(kind: str, records: int, classes: int, epsilon: float) -> tuple[str, ...]:
    """The methods for this kind of data (``tacit.encoders.kinds.KINDS``), the best first.

    >>> measured_order("images", 1000, 10, 1.0)[:3]
    ('auto', 'rknn', 'noisy_sgd')
    >>> measured_order("mixed", 20_000, 2, 1.0)[:3]
    ('auto', 'noisy_sgd', 'class_sums')
    """
    many = records * epsilon / classes >= _MANY
    if kind in _IMAGES:
        # Classes of images are clusters, which a few votes name; one direction per class says less.
        ours = ("noisy_sgd", "rknn", "class_sums") if many else ("rknn", "noisy_sgd", "class_sums")
    else:
        ours = ("noisy_sgd", "class_sums", "rknn") if many else ("class_sums", "rknn", "noisy_sgd")
    return ("auto", *ours, *_BASELINES)
