"""Holders of streamed records: what they refuse before anything is paid."""

import dataclasses
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pytest

from tacit.core.errors import InvalidInput
from tacit.engines.counting import require_written
from tacit.engines.records import streamed_records
from tacit.engines.source import RecordSource
from tacit.ledger import Ceiling, open_ledger
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.methods.rknn.holder import OneRecordHolders, VoteHolder
from tacit.methods.rknn.voting_rules import VOTING_RULES
from tacit.private.gate import Gate
from tacit.private.records import Private, Records, schema_of
from tests.engines.holdings import CLASSES, VOTES, table, threads

ASK = dataclasses.replace(VOTES, mechanism=DiscreteLaplaceNoise.for_epsilon(1, 4))


def stream():
    source = RecordSource(pa.dataset.dataset(table(50)), "label", [f"f{place}" for place in range(4)]).open()
    return Private(streamed_records(source, threads(), np.array(CLASSES), None, (4,)))


def gate():
    return Gate(open_ledger("memory:", {"clinic": Ceiling(1)}), "clinic")


def test_a_source_has_a_schema_and_no_record_is_read_for_it():
    found = schema_of(stream())
    assert (found.shape, found.streamed, found.owned, found.blank.shape) == ((4,), True, False, (1, 4))


def test_a_source_is_all_that_a_holder_has():
    more = Private(Records(np.zeros((2, 4)), np.zeros(2, dtype=np.int64)))
    with pytest.raises(InvalidInput, match="all its files in one source"):
        VoteHolder([stream(), more], gate())


def test_one_record_holders_are_not_streamed():
    with pytest.raises(InvalidInput, match="need records in memory"):
        OneRecordHolders([stream()], gate())


@pytest.mark.parametrize("rule", VOTING_RULES[1:])
def test_rules_that_look_at_all_records_together_are_refused_before_payment(rule):
    own = gate()
    with pytest.raises(InvalidInput, match="nothing was charged"):
        VoteHolder([stream()], own).answer(dataclasses.replace(ASK, voting_rule=rule))
    # All of the budget is still there.
    assert len(VoteHolder([stream()], own).answer(ASK).receipts) == 1


def test_a_question_that_cannot_travel_is_refused_before_payment():
    class Nowhere:
        def require_sendable(self, count):
            raise InvalidInput("cannot be sent; nothing was charged")

    own = gate()
    held = stream().map(lambda records: dataclasses.replace(records, engine=Nowhere()))
    with pytest.raises(InvalidInput, match="cannot be sent"):
        VoteHolder([held], own).answer(ASK)
    assert len(VoteHolder([stream()], own).answer(ASK).receipts) == 1


def test_a_data_set_in_memory_is_refused_before_payment_where_workers_are_elsewhere():
    """It was found after the payment, by an engine that could not send it: a budget was spent on an empty table."""

    class Elsewhere:
        def require_sendable(self, sent):
            require_written(sent, pickle.dumps)

    own = gate()
    held = stream().map(lambda records: dataclasses.replace(records, engine=Elsewhere()))
    with pytest.raises(InvalidInput, match="write a data set in memory to files, or"):
        VoteHolder([held], own).answer(ASK)
    assert len(VoteHolder([stream()], own).answer(ASK).receipts) == 1
