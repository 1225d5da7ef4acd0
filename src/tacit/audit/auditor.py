"""One auditor for all mechanisms: half of the samples choose an event, the other half are the proof."""

from __future__ import annotations

import time

import numpy as np
from scipy.stats import norm

from tacit.audit.bounds import Counts, Reals, delta_bounds, epsilon_bounds
from tacit.audit.checks import Check, Estimator, Finding, Target
from tacit.audit.events import best_event
from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.core.randomness import Randomness, SystemRandomness

__all__ = ["audit"]

# Draws made at a time, so that a million samples need no more memory than so many.
CHUNK = 100_000
FEWEST_SAMPLES = 100


def audit(
    check: Check, samples: int = 1_000_000, confidence: float = 0.999, randomness: Randomness | None = None
) -> Finding:
    """Compare a claim with samples. A true claim fails with a probability of at most 1 − ``confidence``.

    ``samples`` are divided by the check's own cost, so that all checks take a similar time.

    >>> from tacit.audit.central import permute_and_flip
    >>> from tacit.core.randomness import SeededRandomness
    >>> from fractions import Fraction
    >>> finding = audit(permute_and_flip(Fraction(1)), samples=100_000, randomness=SeededRandomness(1))
    >>> finding.passed, round(finding.found, 2)
    (True, 0.96)
    """
    if samples < FEWEST_SAMPLES:
        raise InvalidInput(f"samples must be at least {FEWEST_SAMPLES}, got {samples}")
    if not 0.5 <= confidence < 1:
        raise InvalidInput(f"confidence must be in [0.5, 1), got {confidence}")
    source = randomness or SystemRandomness()
    count = max(FEWEST_SAMPLES, samples // check.cost)
    match check:
        case Target():
            return _audit_privacy(check, count, confidence, source)
        case Estimator():
            return _audit_bias(check, count, confidence, source)


def _audit_privacy(target: Target, samples: int, confidence: float, randomness: Randomness) -> Finding:
    started = time.perf_counter()
    error, half = 1 - confidence, samples // 2
    total_variation = target.epsilon == 0

    def prove(hits: Counts, others: Counts, trials: int) -> Reals:
        if total_variation:
            return delta_bounds(hits, others, trials, float(target.epsilon), error)
        return epsilon_bounds(hits, others, trials, float(target.delta), error)

    event = best_event(_draw(target, 0, half, randomness), _draw(target, 1, half, randomness), prove)
    # The event is fixed before these samples are drawn, so the two intervals are all that can fail.
    hits, others = event.hits(_draw(target, 0, half, randomness), _draw(target, 1, half, randomness))
    return Finding(
        name=target.name,
        claimed=target.claimed,
        measure="δ" if total_variation else "ε",
        allowed=float(target.delta if total_variation else target.epsilon),
        found=float(prove(np.array(hits), np.array(others), half)),
        samples=2 * half,
        confidence=confidence,
        seconds=time.perf_counter() - started,
    )


def _draw(target: Target, which: int, count: int, randomness: Randomness) -> Integers:
    parts = [
        target.draw(target.inputs[which], min(CHUNK, count - start), randomness) for start in range(0, count, CHUNK)
    ]
    features = np.concatenate(parts)
    return features.reshape(count, -1).astype(np.int64)


def _audit_bias(estimator: Estimator, clients: int, confidence: float, randomness: Randomness) -> Finding:
    """A normal test of every cell's error, with the error of the test shared among the cells.

    A sum over thousands of clients is normal to far better than the last digit shown, even in the tail.
    """
    started = time.perf_counter()
    deviations = np.abs(estimator.deviations(clients, randomness))
    return Finding(
        name=estimator.name,
        claimed=estimator.claimed,
        measure="|z|",
        allowed=float(norm.isf((1 - confidence) / (2 * len(deviations)))),
        found=float(deviations.max()),
        samples=clients,
        confidence=confidence,
        seconds=time.perf_counter() - started,
    )
