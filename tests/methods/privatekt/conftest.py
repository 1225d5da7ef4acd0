from types import SimpleNamespace

import numpy as np
import pytest

from tacit.core.account import Ceiling
from tacit.core.randomness import SeededRandomness
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.local.randomized_response import RandomizedLabels
from tacit.methods.privatekt.holder import LabelCohort, LabelHolder
from tacit.methods.privatekt.wire import LabelAsk
from tacit.private.gate import Gate
from tacit.private.records import Private, Records

SAMPLES = np.array([[0.0], [1.0], [2.0]])


class Nearest:
    """A local trainer without any training: the label of the nearest record."""

    classes = 3

    def prepare(self, samples, labels):
        return samples, labels

    def labels(self, prepared, weights, asked, seed):
        return [labels[np.abs(samples - asked.T).argmin(axis=0)] for samples, labels in prepared]


NEAREST = Nearest()


def holder(labels=(0, 1, 2), ceiling=None, seed=1, trainer=NEAREST, ledger=None, account="clinic"):
    ledger = ledger or MemoryLedger({account: ceiling or Ceiling(10**6)})
    records = Private(Records(SAMPLES[: len(labels)], np.array(labels, dtype=np.int64)))
    return LabelHolder(records, Gate(ledger, account, SeededRandomness(seed)), trainer)


def ask(epsilon=6, answers=3, samples=SAMPLES, request="r-1", invited=(0,), weights=None, classes=3):
    return LabelAsk(samples, weights, RandomizedLabels(classes, answers, epsilon), tuple(invited), "labels", request)


def cohort(ceilings, seed=1):
    """Holders that all know the three labels, with an account each; and their ledger."""
    ledger = MemoryLedger({f"h{place}": ceiling for place, ceiling in enumerate(ceilings)})
    made = [holder(seed=seed + place, ledger=ledger, account=f"h{place}") for place in range(len(ceilings))]
    return LabelCohort(made), ledger


@pytest.fixture
def make():
    return SimpleNamespace(holder=holder, ask=ask, cohort=cohort, samples=SAMPLES, trainer=NEAREST)
