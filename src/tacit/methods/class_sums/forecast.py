"""What class sums promise: the part of what planes can tell that noise leaves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit.core.guarantee import Trust
from tacit.core.options import Options
from tacit.methods.class_sums.options import ClassSums
from tacit.methods.class_sums.plan import plan_sums, suggest_components
from tacit.methods.forecast import Evidence, Expected, of_planes
from tacit.methods.task import Task

__all__ = ["forecast", "sums_forecast"]

# From run to run, where the noise matters: about this part of what it takes away.
_SHAKEN = 0.25
# How far a regression by its moments is from one that sees every label, as a deviation.
_UNLIKE = 0.02


def forecast(task: Task, options: Options, evidence: Evidence) -> Expected:
    """One question, answered by a curator."""
    assert isinstance(options, ClassSums)
    return sums_forecast(task, options, evidence)


def sums_forecast(task: Task, options: ClassSums, evidence: Evidence) -> Expected:
    """What planes reach in the components that are summed, less what this budget's noise hides of them."""
    key = ("kept", task.budget, task.delta, task.units, options)
    if key not in evidence.found:
        ask = plan_sums(task, options, Trust.CENTRAL).question
        mechanism: Any = ask.mechanism
        rows = ask.representation.encode(evidence.points).astype(np.float64)
        noise = (
            math.sqrt(mechanism.noise_law.variance)
            / ask.radius
            / task.units
            / (evidence.classes if ask.centered else 1)
        )
        _, kept = suggest_components(rows, noise, task.units, evidence.classes, ask.norm)
        evidence.found[key] = rows, kept
    rows, kept = evidence.found[key]
    components = rows.shape[1]
    if evidence.labeled:
        most = evidence.reachable(rows)
    else:
        # How much a few components tell of what all do depends on the labels: nobody knows.
        part = min(1.0, (components / evidence.classes) ** 0.5)
        most = evidence.common + (evidence.reachable() - evidence.common) * part ** (1 - evidence.level)
    accuracy = of_planes(most, evidence.common, kept, evidence.classes)
    seconds = 1.0 + 2e-9 * task.units * task.public[0].size * components
    return Expected(
        accuracy, _UNLIKE + _SHAKEN * (1 - kept) * (most - 1 / evidence.classes), components, None, 1, seconds,
        f"noise leaves {kept:.0%} of {components} components",
    )  # fmt: skip
