"""A question's digest covers all that it asks: a stored release is never given for another question."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

from tacit.core.account import Ceiling
from tacit.core.errors import RequestConflict
from tacit.ledger import open_ledger
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.methods.rknn.holder import VoteHolder
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.representations.scaled import Identity, PrincipalComponents
from tests.wire_samples import ASKS

# The gate binds the mechanism, the ledger request and purpose; who else is asked changes nobody's answer.
ELSEWHERE = {"mechanism", "purpose", "request", "invited"}


def other(value):
    """Another value of the same kind, or None where this test knows none."""
    match value:
        case Identity():
            return Identity(value.width + 1)
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return {"l2": "l1", "l1": "l2"}.get(value, value + "x")
        case bytes():
            return value + b"x"
        case tuple():
            return tuple(reversed(value))
        case np.ndarray():
            return value + np.ones_like(value)
        case _ if is_dataclass(value):
            first = fields(value)[1 if isinstance(getattr(value, fields(value)[0].name), str) else 0].name
            return replace(value, **{first: other(getattr(value, first))})
    return None


def altered():
    for ask in ASKS:
        if hasattr(ask, "question"):
            for field in fields(ask):
                value = getattr(ask, field.name)
                if field.name in ELSEWHERE or value is None or field.name == "voting_rule":
                    continue
                yield pytest.param(ask, field.name, other(value), id=f"{ask.name}-{field.name}")


@pytest.mark.parametrize(("ask", "name", "value"), list(altered()))
def test_every_part_of_a_question_is_in_its_digest(ask, name, value):
    changed = object.__new__(type(ask))
    for field in fields(ask):
        object.__setattr__(changed, field.name, value if field.name == name else getattr(ask, field.name))
    assert changed.question != ask.question


def test_the_same_request_in_another_representation_is_refused_and_not_replayed():
    samples = np.array([[0.0, 1.0], [1.0, 0.0], [0.9, 0.1]])
    swapped = PrincipalComponents(np.zeros(2), np.array([[0.0, 1.0], [1.0, 0.0]]))
    queries = np.array([[0.0, 1.0], [1.0, 0.0]], dtype=np.float32)
    ask = VoteAsk(queries, Identity(2), 1, ("a", "b"), "c0ffee", PermuteAndFlip(1, 2), "labels", "r-1")
    ledger = open_ledger("memory:", {"clinic": Ceiling(9)})
    holder = VoteHolder([Private(Records(samples, np.array([0, 1, 1])))], Gate(ledger, "clinic"))
    holder.answer(ask)
    with pytest.raises(RequestConflict):
        holder.answer(replace(ask, representation=swapped))
