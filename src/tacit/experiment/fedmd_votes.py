"""FedMD on reverse k-NN votes: which queries are asked, and with how much noise each party answers."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from tacit.catalog import REPRESENTATIONS, find, suggest_representation
from tacit.core.protocols import Representation
from tacit.core.rational import Number
from tacit.core.sensitivity import vote_sensitivity
from tacit.experiment.fedmd_setting import Setting
from tacit.experiment.inputs import whole
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.methods.fedmd.coordinator import VoteCoordinator
from tacit.methods.rknn.queries import cluster, suggest_queries
from tacit.representations.chained import Chained
from tacit.representations.hog import OrientedGradients
from tacit.representations.principal import PrincipalComponents

__all__ = ["vote_coordinator"]

# Noise of this many standard deviations in all leads is what a vote should stand out of.
CLEAR_LEAD = 4.25
# Images below this side have no edges to speak of; the edges of larger ones are cut down to so many components.
SMALLEST_IMAGE, COMPONENTS = 16, 64


def vote_coordinator(
    setting: Setting,
    epsilon: Number,
    rounds: int,
    learned: int,
    queries: int | None,
    representation: str | Representation,
    request: str,
    seed: int,
) -> VoteCoordinator:
    """Queries and noise for reverse k-NN votes that are added up over the parties."""
    count, parties = len(setting.names), len(setting.records)

    def noise(asked: int) -> DiscreteLaplaceNoise:
        return DiscreteLaplaceNoise.for_epsilon(epsilon, int(vote_sensitivity(asked, count, 1).l1))

    if queries is None:
        # Party sizes are public under replace-one adjacency.
        records = sum(len(each.labels) for each in setting.records)
        gap = CLEAR_LEAD * math.sqrt(parties * noise(2).variance)
        queries = suggest_queries(records, len(setting.public), count, 1, gap)
    queries = whole(queries, "vote_queries")
    fitted = _fitted(representation, setting.public, queries) if isinstance(representation, str) else representation
    groups = cluster(fitted.encode(setting.public), queries, seed)
    return VoteCoordinator(
        setting.public, fitted, groups.centres, groups.membership, count, noise(queries), rounds, learned, request, seed
    )  # fmt: skip


def _fitted(name: str, public: NDArray[Any], queries: int) -> Representation:
    """The representation of that name; ``auto`` looks at edges where samples are images, and else at all features."""
    if name == "auto" and public.ndim > 2 and min(public.shape[1:3]) >= SMALLEST_IMAGE and len(public) > COMPONENTS:
        return Chained.fit(
            public,
            OrientedGradients.fit,
            lambda rows: PrincipalComponents.fit(rows, COMPONENTS),
            lambda rows: REPRESENTATIONS["spectral"](rows, queries),
        )
    known = suggest_representation(public) if name == "auto" else name
    return find(REPRESENTATIONS, known, "representation")(public, queries)
