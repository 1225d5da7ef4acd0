"""What the laws of methods are tried on: records, public samples, and every adapter for which a law has a meaning.

In ``make test`` every method is tried by every law in its plainest form, in one process and through a federation, and
each further variant by every third law or more (``one_in``); ``make slow`` tries all of them by all laws.
"""

from functools import cache
from zlib import crc32

import numpy as np
import pytest

import tacit
from tests.laws.methods.adapters import ADAPTERS, CLASSES

__all__ = [
    "LABELS", "OVER_BUDGET", "PRIVATE", "PUBLIC", "SAMPLES", "added_simply", "every", "every_case", "looked_at_before",
    "paying", "plain", "seeded", "several_payments",
]  # fmt: skip

# Three far clouds, a class each; every holder that gets each third record has records of all classes.
CENTERS = np.array([[0.0, 0, 0, 0], [9, 0, 9, 0], [0, 9, 0, 9]])
PLACES = np.arange(90) // 3 % 3
NOISE = np.random.default_rng(0).normal(size=(150, 4))
SAMPLES, LABELS = CENTERS[PLACES] + NOISE[:90], np.array(CLASSES)[PLACES]
PUBLIC = CENTERS[np.arange(60) % 3] + NOISE[90:]
PRIVATE = (SAMPLES, LABELS)
# A node names the part of its budget that is too small, where a question spends both.
OVER_BUDGET = "cannot pay|its account's δ is too small"


@cache
def plain(name):
    """A run with system randomness and a ledger of its own."""
    return ADAPTERS[name].run(PRIVATE, PUBLIC)


@cache
def seeded(name, delta=None):
    """A simulation; with a δ, one that spends it."""
    options = {} if delta is None else ADAPTERS[name].delta_options
    return ADAPTERS[name].run(PRIVATE, PUBLIC, delta=delta, seed=1, **options)


def plainest():
    """The names of the first adapter of each method, in one process and in a federation, and of each kind of FedMD."""
    found = {}
    for each in ADAPTERS.values():
        kind = each.name if isinstance(each.options, tacit.FedMD) else type(each.options)
        found.setdefault((kind, each.federated), each.name)
    return frozenset(found.values())


PLAINEST = plainest()


def marks(law, place, method, reason):
    """Skipped for a reason; slow where it is a variant that this law does not try in every test run."""
    found = [] if reason is None else [pytest.mark.skip(reason=reason)]
    turn = (crc32(law.encode()) + place) % method.one_in
    return found + [pytest.mark.slow] * (method.name not in PLAINEST and turn > 0)


def every(only=lambda _: None):
    """All adapters; ``only`` says why the law has no meaning for one."""

    def decorated(law):
        return pytest.mark.parametrize("method", [
            pytest.param(each, id=each.name, marks=marks(law.__name__, place, each, only(each)))
            for place, each in enumerate(ADAPTERS.values())
        ])(law)  # fmt: skip

    return decorated


def every_case(cases, only=lambda _, __: None):
    """All adapters with each case, which is a law of its own."""

    def decorated(law):
        return pytest.mark.parametrize(("method", "case"), [
            pytest.param(each, case, id=f"{each.name}-{case}",
                         marks=marks(f"{law.__name__} {case}", place, each, only(case, each)))
            for case in cases
            for place, each in enumerate(ADAPTERS.values())
        ])(law)  # fmt: skip

    return decorated


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
    no_sum = method.delta and (method.gaussian or method.sampled or method.composed)
    return paying(method) or ("Gaussian noise has no simple sum" if no_sum else None)
