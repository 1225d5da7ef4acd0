"""What the default promises: that of the questions which it would ask."""

from __future__ import annotations

from dataclasses import replace

from tacit.core.options import Options
from tacit.methods.auto.method import elsewhere
from tacit.methods.auto.plan import FIRST_SHARE
from tacit.methods.class_sums.forecast import sums_forecast
from tacit.methods.class_sums.options import ClassSums
from tacit.methods.forecast import Evidence, Expected
from tacit.methods.rknn.forecast import votes_forecast
from tacit.methods.rknn.options import ReverseKNN
from tacit.methods.task import Task

__all__ = ["forecast"]


def forecast(task: Task, options: Options, evidence: Evidence) -> Expected:
    """Votes where no plan of its own is made, sums where it is, and for images the better of both."""
    if elsewhere(task) is not None:
        return votes_forecast(task, ReverseKNN(), evidence)
    if task.kind != "images":
        return sums_forecast(task, ClassSums(whitening=0.0 if task.kind in ("mixed", "table") else 0.25), evidence)
    later = replace(task, epsilon=task.budget * (1 - FIRST_SHARE))
    return max(
        (votes_forecast(later, ReverseKNN(), evidence), sums_forecast(later, ClassSums(), evidence)),
        key=lambda each: each.accuracy,
    )
