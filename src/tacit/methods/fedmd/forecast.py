"""What FedMD promises where holders vote: reverse k-NN votes with the noise of every holder."""

from __future__ import annotations

import math

from tacit.core.errors import InvalidInput
from tacit.core.options import Options
from tacit.methods.fedmd.options import FedMD
from tacit.methods.forecast import Evidence, Expected
from tacit.methods.rknn.forecast import votes_forecast
from tacit.methods.rknn.options import ReverseKNN
from tacit.methods.task import Task

__all__ = ["forecast"]


def forecast(task: Task, options: Options, evidence: Evidence) -> Expected:
    """The consensus of the variant rknn; the other variants are not forecast."""
    assert isinstance(options, FedMD)
    if options.variant != "rknn":
        raise InvalidInput(f"variant {options.variant} has no forecast; rknn, the default, has one")
    holders = max(len(task.holders), 1)
    votes = ReverseKNN(mechanism="laplace", labels="soft", queries=options.vote_queries)
    return votes_forecast(task, votes, evidence, louder=math.sqrt(holders))
