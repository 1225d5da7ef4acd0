"""Nodes of a simulation: parts of one data set, accounts in memory, seeded noise. Nothing here protects anybody."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.datasets.digits import digits
from tacit.datasets.tables import read_table
from tacit.exchange.node import Node
from tacit.ledger.memory import Ceiling, MemoryLedger
from tacit.ledger.policy import Rules
from tacit.private.records import Private, Records

__all__ = ["simulated_node"]

CEILING = 10**6
RULES = Rules(
    methods=("rknn", "privatekt", "pate", "fedmd"),
    mechanisms=(
        "AnswerSheet",
        "DiscreteGaussianNoise",
        "DiscreteLaplaceNoise",
        "PermuteAndFlip",
        "Responses",
        "SubsetSelection",
    ),
    purposes=("reverse k-NN labels", "PrivateKT labels", "PATE votes", "FedMD predictions"),
    participants=1,
)


def simulated_node(place: int, count: int, settings: Mapping[str, Any]) -> Node:
    """The node at one of ``count`` places, with its part of the data set that the settings name.

    >>> simulated_node(0, 4, {"simulation": "digits", "seed": 1}).name
    'node 00000'
    """
    source, seed = str(settings.get("simulation", "")), int(settings.get("seed", 0))
    if not source:
        raise InvalidInput("a simulation needs data: set simulation to digits, or to an .npz file with X and y")
    return _node(source, place, count, seed)


# Kept for as long as the process lives: a node that is asked again remembers what it paid and said.
@cache
def _node(source: str, place: int, count: int, seed: int) -> Node:
    samples, labels, classes = _data(source)
    rows = np.arange(place, len(samples), count)
    name = f"node {place:05d}"
    return Node(
        name=name,
        classes=classes,
        records=Private(Records(samples[rows], labels[rows])),
        rules=RULES,
        ledger=MemoryLedger({name: Ceiling(CEILING, "1/2")}),
        account=name,
        seed=seed,
    )


@lru_cache(maxsize=2)
def _data(source: str) -> tuple[NDArray[Any], NDArray[np.int64], tuple[str, ...]]:
    if source == "digits":
        parts = digits()
        return parts.private_samples, parts.private_labels, tuple(map(str, parts.classes))
    table = read_table(source, "y")
    assert table.labels is not None
    names, indices = np.unique(table.labels, return_inverse=True)
    return table.samples, indices.astype(np.int64), tuple(map(str, names))
