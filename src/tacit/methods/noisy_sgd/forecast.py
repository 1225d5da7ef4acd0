"""What noisy SGD promises: what planes reach, as far as its rehearsal on made-up labels survived the noise."""

from __future__ import annotations

import math

from tacit.core.guarantee import Trust
from tacit.core.options import Options
from tacit.methods.forecast import Evidence, Expected
from tacit.methods.noisy_sgd.options import NoisySGD
from tacit.methods.noisy_sgd.plan import plan_gradients
from tacit.methods.task import Task

__all__ = ["forecast"]

# From run to run, where the noise matters: about this part of what it takes away; and how far the rehearsal is off.
_SHAKEN, _UNLIKE = 0.25, 0.02


def forecast(task: Task, options: Options, evidence: Evidence) -> Expected:
    """All steps by a curator, with the settings that the run would choose; two layers are taken for one."""
    assert isinstance(options, NoisySGD)
    key = ("gradients", task.budget, task.delta, task.units, options)
    if key not in evidence.found:
        plan = plan_gradients(task, options, Trust.CENTRAL)
        least = 1 / evidence.classes
        kept = min(1.0, max(0.0, (plan.expected - least) / (1 - least)))
        evidence.found[key] = plan.question.representation.encode(evidence.points), kept
    rows, kept = evidence.found[key]
    most = evidence.reachable(rows) if evidence.labeled else evidence.reachable()
    # Made-up labels have no margins between classes; real ones do, and are learned sooner.
    accuracy = evidence.common + (most - evidence.common) * math.sqrt(kept)
    seconds = 2.0 + 4e-9 * options.steps * task.units * rows.shape[1] * evidence.classes
    deviation = _UNLIKE + _SHAKEN * (1 - kept) * (most - 1 / evidence.classes)
    said = f"{options.steps} steps in {rows.shape[1]} components; {kept:.0%} right on made-up labels"
    return Expected(accuracy, deviation, options.steps, None, options.steps, seconds, said)
