"""A rehearsal of Private k-NN for its forecast: public samples with known labels vote on each other, with noise."""

from __future__ import annotations

import numpy as np

from tacit.core import InvalidInput, Representation
from tacit.methods.forecast import Evidence
from tacit.methods.private_knn.wire import NeighborAsk

__all__ = ["rehearsed_votes"]

# Draws of the noise, and the fewest known labels that stand for the voters on a query.
_DRAWS, _FEWEST = 50, 3


def rehearsed_votes(
    evidence: Evidence, ask: NeighborAsk, space: Representation, sigma: float, part: float
) -> tuple[float, float]:
    """The fraction of known labels that are right if the nearest others of them vote with noise, and its deviation.

    The nearest ``part`` of the known samples stands for the same part of the sampled records.
    """
    assert evidence.known is not None
    seen = np.flatnonzero(evidence.known >= 0)
    labels, encoded = evidence.known[seen], np.asarray(space.encode(evidence.points[seen]))
    if len(seen) <= _FEWEST:
        raise InvalidInput(f"too few labeled public samples: give at least 50, got {len(seen)}")
    near = max(_FEWEST, min(round(part * len(seen)), len(seen) - 1))
    distance = np.array([np.square(encoded - query).sum(axis=1) for query in ask.queries])
    mine, order = distance.argmin(axis=0), np.argsort(distance, axis=1, kind="stable")
    voters = [[other for other in order[query] if other != place][:near] for place, query in enumerate(mine)]
    agree = np.array([np.bincount(labels[each], minlength=evidence.classes) for each in voters]) / near
    random = np.random.default_rng(0)
    noise = sigma * random.standard_normal((_DRAWS, len(ask.queries), evidence.classes))[:, mine]
    chance = np.sqrt(ask.neighbors * agree * (1 - agree)) * random.standard_normal((_DRAWS, *agree.shape))
    right = ((ask.neighbors * agree + chance + noise).argmax(axis=2) == labels).mean(axis=1)
    return float(right.mean()), float(right.std())
