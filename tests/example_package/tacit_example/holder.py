"""The example method's side at a node: the only part that sees records."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Unit
from tacit.core.release import Release
from tacit.mechanisms.central.counts import SealedTable
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.choices import AllowedMechanisms
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace, MaskedShare
from tacit.private.node_side import NodeContext, NodeSide, allowed_by_step
from tacit.private.records import Records
from tacit_example.method import CountAsk

TABLES = (DiscreteLaplaceNoise,)
COUNTS = AllowedMechanisms(
    "a holder of counts",
    (*TABLES, DistributedLaplace, MaskedShare, SealedTable),
    {MaskedShare: (DistributedLaplace,), SealedTable: TABLES},
)


def answer_at_node(ask: CountAsk, context: NodeContext) -> Release[Any]:
    """The counts as the mechanism lets them out, paid for before a record is looked at."""
    COUNTS.require(ask.mechanism)
    if context.gate.unit != Unit():
        raise InvalidInput("this example protects single records; the account protects something else")

    def counted(own: Records) -> NDArray[np.int64]:
        # A label that is none of the classes is not counted: an empty vote, which every sensitivity includes.
        return np.array([[np.sum(own.labels == each) for each in range(len(ask.class_names))]], dtype=np.int64)

    return context.gate.release(
        context.records.map(counted),
        lambda: np.zeros(ask.table_shape, dtype=np.int64),
        ask.sensitivity(context.gate.unit, context.gate.adjacency),
        ask.mechanism,
        ask.purpose,
        ask.request,
        ask.question,
    )


AT_NODE = NodeSide(answer_at_node, {CountAsk: allowed_by_step(TABLES, "a curator of counts")})
