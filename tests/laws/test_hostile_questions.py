"""Whatever is asked, and whatever a record holds: the kind of reply, its size and the charge are the same.

The questions and protocols are those of ``tacit audit protocol``. On the tree in which holders computed before they
paid, a tenth of the pairs below differed, and a whole record could be read at epsilon = 0.
"""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.audit import protocol
from tacit.audit.protocol_questions import AUDIT_CLASSES, AUDIT_PURPOSE, HOSTILE, QUESTION_KINDS, question
from tacit.core.codec import encode
from tacit.core.errors import InvalidInput
from tacit.federation.messages import RefusalReason, Request, read_response
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.methods.class_sums import holder as sums
from tacit.methods.noisy_sgd import holder as sgd
from tacit.methods.pate import holder as pate
from tacit.methods.private_knn import holder as neighbors_of
from tacit.methods.question import table_shape
from tacit.methods.rknn import holder
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.gate import Gate
from tacit.private.records import Records, reveal
from tacit.representations.chained import Chained
from tacit.representations.image_features import Deskewed
from tacit.representations.scaled import PrincipalComponents
from tacit.wire import ask_to_bytes
from tests.sampled import sampled

hostile = st.sampled_from(HOSTILE) | st.floats() | st.integers(0, 3).map(float)
REPLACED = protocol.AUDITED_ACCOUNTS["replace-one"]
quiet = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::sklearn.exceptions.ConvergenceWarning")


def kinds_of(wanted):
    return sorted(name for name, kind in QUESTION_KINDS.items() if kind.protocol == wanted)


def check(wanted, data):
    kind = data.draw(st.sampled_from(kinds_of(wanted)))
    account = data.draw(st.sampled_from(sorted(protocol.AUDITED_ACCOUNTS)).map(protocol.AUDITED_ACCOUNTS.get))
    pair = data.draw(st.sampled_from(list(protocol.neighbors(account, QUESTION_KINDS[kind].sets))))
    ask = question(kind, lambda: data.draw(hostile))
    if ask is not None:
        first, second = protocol.compare(kind, ask, account, pair)
        assert first == second


@quiet
@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_neighboring_data_sets_get_the_same_kind_of_reply_at_the_same_price(data):
    check("answer", data)


@quiet
@pytest.mark.parametrize("wanted", ["masked", "shuffled", "curated"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_same_holds_where_several_nodes_and_a_collector_take_part(wanted, data):
    check(wanted, data)


def harmless():
    return map(float, count(1)).__next__


@quiet
@pytest.mark.parametrize("kind", sampled(sorted(QUESTION_KINDS), 4))
def test_every_kind_of_question_is_answered_whatever_the_records_are(kind):
    """With ordinary numbers every question is answered, so the law above compares answers, too."""
    ask = question(kind, harmless())
    ask_by = protocol.PROTOCOL_RUNS[QUESTION_KINDS[kind].protocol]
    pairs = list(protocol.neighbors(REPLACED, QUESTION_KINDS[kind].sets))
    assert {ask_by(ask, pair[1], REPLACED).kind for pair in pairs} == {"answered"}


@pytest.mark.parametrize("kind", ["class sums masked, identity", "noisy sgd masked, identity"])
def test_a_sum_whose_noise_is_accounted_for_fewer_cells_is_refused_unpaid(kind):
    ask = question(kind, harmless())
    seen = protocol.PROTOCOL_RUNS["masked"](ask, protocol.records(), REPLACED)
    assert seen.kind == "answered"
    assert all(number for _, number in seen.charged)
    small = replace(ask, mechanism=replace(ask.mechanism, cells=table_shape(ask)[0]), request="r-small")
    seen = protocol.PROTOCOL_RUNS["masked"](small, protocol.records(), REPLACED)
    assert seen.kind == "refused: question"
    assert not any(number for _, number in seen.charged)


# What the law must catch


def touching_first(self, value, empty, sensitivity, mechanism, purpose, request, question=""):
    reveal(value)
    return RELEASE(self, value, empty, sensitivity, mechanism, purpose, request, question)


def refusing_afterwards(self, value, empty, mechanism):
    return encode(mechanism.sample(reveal(value), self.randomness))


def one_class_refused(teacher, records):
    if len(np.unique(records.labels)) < 2:
        raise ValueError("a teacher needs two classes")
    return teacher().fit(records.samples, records.labels)


RELEASE = Gate.release


def encode_or_fail(representation, samples, cache=None):
    """As it was: the failure of one record is that of all."""
    encoded = representation.encode(samples)
    if not np.isfinite(encoded).all():
        raise ValueError("not a number")
    yield encoded


@pytest.mark.parametrize(
    ("mutant", "kind"),
    [
        ({(Gate, "release"): touching_first, (holder, "encoded_chunks"): encode_or_fail}, "rknn laplace, identity"),
        ({(Gate, "release"): touching_first, (holder, "encoded_chunks"): encode_or_fail}, "rknn subset, standardized"),
        ({(Gate, "_drawn"): refusing_afterwards, (holder, "encoded_chunks"): encode_or_fail}, "rknn bits, identity"),
        ({(Gate, "release"): touching_first, (holder, "encoded_chunks"): encode_or_fail}, "rknn masked, identity"),
        ({(Gate, "release"): touching_first, (holder, "encoded_chunks"): encode_or_fail}, "rknn one message, identity"),
        (
            {(Gate, "release"): touching_first, (holder, "encoded_chunks"): encode_or_fail},
            "rknn curated laplace, identity",
        ),
        (
            {(Gate, "release"): touching_first, (sums, "encoded_chunks"): encode_or_fail},
            "class sums rounded gaussian, identity",
        ),
        (
            {(Gate, "_drawn"): refusing_afterwards, (sums, "encoded_chunks"): encode_or_fail},
            "class sums masked, identity",
        ),
        (
            {(Gate, "release"): touching_first, (sums, "encoded_chunks"): encode_or_fail},
            "class sums curated laplace, identity",
        ),
        (
            {(Gate, "release"): touching_first, (sgd, "encoded_chunks"): encode_or_fail},
            "noisy sgd rounded gaussian, identity",
        ),
        (
            {(Gate, "_drawn"): refusing_afterwards, (sgd, "encoded_chunks"): encode_or_fail},
            "noisy sgd curated laplace, identity",
        ),
        (
            {(Gate, "release"): touching_first, (neighbors_of, "encoded_chunks"): encode_or_fail},
            "private k-NN votes, identity",
        ),
        (
            {(Gate, "_drawn"): refusing_afterwards, (neighbors_of, "encoded_chunks"): encode_or_fail},
            "private k-NN screen, identity",
        ),
        ({(Gate, "release"): touching_first, (pate, "_learned"): one_class_refused}, "pate lnmax"),
        ({(Gate, "_drawn"): refusing_afterwards, (pate, "_learned"): one_class_refused}, "pate gnmax"),
    ],
)
@quiet
def test_the_law_fails_on_mutants(mutant, kind, monkeypatch):
    for (place, name), code in mutant.items():
        monkeypatch.setattr(place, name, code)
    ask = question(kind, harmless())
    pairs = [protocol.compare(kind, ask, REPLACED, pair) for pair in protocol.neighbors(REPLACED)]
    assert any(first != second for first, second in pairs)


# The attack that read a whole record


def oracle(guess, width):
    """A question whose encoding was no number for a record that equals the guess, and for no other."""
    encoder = Chained((PrincipalComponents(guess, np.eye(len(guess))), Deskewed((4, 4, 1), 0.0, width)))
    # More than the account has: the refusal was "question" where the record made the encoding fail, else "budget".
    mechanism = DiscreteLaplaceNoise.for_epsilon(10, 2)
    queries = np.zeros((2, len(guess)), dtype=np.float32)
    return VoteAsk(queries, encoder, 1, AUDIT_CLASSES, "c0ffee", mechanism, AUDIT_PURPOSE, "r-1")


def replies(own, asks):
    node = protocol.node_with(own, protocol.AuditedAccount(ceiling="1"))
    said = [node.reply(Request("audit", number, 3, ask_to_bytes(ask)).to_bytes()) for number, ask in enumerate(asks)]
    assert node.ledger.balance("ada").payments == 0
    return [read_response(each).answer for each in said]


def test_a_record_cannot_be_read_by_questions_that_fail_for_it_alone():
    """361 such questions read all 64 features of a record once, at epsilon = 0 and with no row in the ledger."""
    own = protocol.records()
    secret = own.samples[3]
    guesses = [np.where(np.arange(16) == place, level, secret) for place in range(16) for level in range(4)]
    third = np.arange(12)[:, None] == 3
    others = [Records(np.where(third, value, own.samples), own.labels) for value in (0.0, 2.0, 9.0)]
    # A range of no width is not even read; what can be read is refused by the ledger alone.
    for width, reason in ((5e-324, RefusalReason.QUESTION), (1e-30, RefusalReason.BUDGET)):
        asks = [oracle(guess, width) for guess in guesses]
        for each in (own, *others):
            assert replies(each, asks) == [reason] * len(asks)


def test_a_question_that_skips_reading_fares_no_better():
    """In one process nothing is read from bytes; an encoder that fails for one record gives it an empty vote."""
    own = protocol.records()
    seen = set()
    for each in (own, own.take(np.delete(np.arange(12), 3)), own.take(np.array([3]))):
        node = protocol.node_with(each, REPLACED)
        try:
            holder.VoteHolder([node.records], Gate(node.ledger, "ada")).answer(oracle(own.samples[3], 5e-324))
            kind = "answered"
        except InvalidInput as refused:
            kind = str(refused)
        seen.add((kind, node.ledger.balance("ada").payments))
    assert len(seen) == 1


def test_a_record_that_casts_no_vote_differs_in_the_released_messages_alone():
    """Where a client sends many messages their number is released, so it is left out, and nothing else is."""
    kind, (own, broken) = "rknn many messages, identity", list(protocol.neighbors(REPLACED))[6]
    assert np.isnan(broken.samples).any()
    seen = protocol.compare(kind, question(kind, lambda: 1.0), REPLACED, (own, broken))
    assert seen[0] == seen[1]
    assert seen[0].kind == "answered"
    assert "'participants': 36" in seen[0].counts
    assert seen[0].said[-1][1] > 0
