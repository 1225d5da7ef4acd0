"""What the laws of methods are tried on: records, public samples, and every adapter for which a law has a meaning."""

from functools import cache

import numpy as np
import pytest

from tests.laws.methods.adapters import ADAPTERS, CLASSES

__all__ = [
    "LABELS", "PRIVATE", "PUBLIC", "SAMPLES", "added_simply", "every", "every_case", "looked_at_before", "paying",
    "plain", "seeded", "several_payments",
]  # fmt: skip

# Three far clouds, a class each; every holder that gets each third record has records of all classes.
CENTERS = np.array([[0.0, 0, 0, 0], [9, 0, 9, 0], [0, 9, 0, 9]])
PLACES = np.arange(90) // 3 % 3
NOISE = np.random.default_rng(0).normal(size=(150, 4))
SAMPLES, LABELS = CENTERS[PLACES] + NOISE[:90], np.array(CLASSES)[PLACES]
PUBLIC = CENTERS[np.arange(60) % 3] + NOISE[90:]
PRIVATE = (SAMPLES, LABELS)


@cache
def plain(name):
    """A run with system randomness and a ledger of its own."""
    return ADAPTERS[name].run(PRIVATE, PUBLIC)


@cache
def seeded(name, delta=None):
    """A simulation; with a δ, one that spends it."""
    options = {} if delta is None else ADAPTERS[name].delta_options
    return ADAPTERS[name].run(PRIVATE, PUBLIC, delta=delta, seed=1, **options)


def skipped(reason):
    return () if reason is None else pytest.mark.skip(reason=reason)


def every(only=lambda _: None):
    """All adapters; ``only`` says why the law has no meaning for one."""
    cases = [pytest.param(each, id=each.name, marks=skipped(only(each))) for each in ADAPTERS.values()]
    return pytest.mark.parametrize("method", cases)


def every_case(cases, only=lambda _, __: None):
    """All adapters with each case, which is a law of its own."""
    return pytest.mark.parametrize(("method", "case"), [
        pytest.param(each, case, id=f"{each.name}-{case}", marks=skipped(only(case, each)))
        for case in cases
        for each in ADAPTERS.values()
    ])  # fmt: skip


def paying(method):
    return None if method.payments else "it protects nothing, and pays from no account"


def several_payments(method):
    return paying(method) or (None if method.payments > 1 else "an account pays once: that is the law of over-budget")


def looked_at_before(method):
    if method.federated:
        return "nobody looks into a node's ledger beforehand: it refuses by itself, and the run goes on later"
    return several_payments(method)


def added_simply(method):
    """What can be added up without an accountant."""
    no_sum = method.delta and (method.gaussian or method.sampled)
    return paying(method) or ("Gaussian noise has no simple sum" if no_sum else None)
