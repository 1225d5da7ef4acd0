import dataclasses
import json

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from flwr.app import ConfigRecord, Error, Message

from tacit.core.account import Ceiling
from tacit.core.codec import encode
from tacit.core.errors import InvalidInput, TooFewParticipants
from tacit.datasets.published import digits
from tacit.federation.coordinator import Journal, NodeHeads, RoundPolicy
from tacit.federation.flower.client import InProcessGrid, client_app, contexts
from tacit.federation.flower.server import FlowerExchange, content_of, payload_of
from tacit.federation.messages import RefusalReason, Request, Response, digest_request, read_node_request, read_response
from tacit.ledger.memory import MemoryLedger
from tacit.wire import ask_to_bytes, read_ask, read_release, release_to_bytes
from tests.federation import federation
from tests.federation.federation import nodes
from tests.local_exchange import local_exchange

SETTINGS = {"classes": range(10), "nodes": 4, "records": 1000, "request": "r"}
TERMS = RoundPolicy(expected=4, at_least=3, deadline=5, grace=0.5, patience=0.5, records=1000)


def grid_over(there, change=None, keep=False):
    """A grid over nodes; ``change`` may alter what a node sends, by its place."""
    app = client_app(lambda context: there[context.node_config["partition-id"]])

    def altered(message, context):
        reply = app(message, context)
        return reply if change is None else change(context.node_config["partition-id"], message, reply)

    return InProcessGrid(altered, contexts(len(there), [each.name for each in there]), keep=keep)


def exchange_over(there, change=None, terms=TERMS, **more):
    return FlowerExchange(grid_over(there, change), "r", terms, **more)


def federated(exchange, **more):
    return federation.federated(exchange, digits().public_samples, "1", **(SETTINGS | more))


def said(run):
    return [(each.account, each.request, each.spend, each.randomness) for each in run.receipts]


@pytest.fixture(scope="module")
def ask():
    """The question that a run asks."""
    asked = []

    def listen(question):
        asked.append(question)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        federated(listen)
    return asked[0]


@pytest.mark.parametrize("holders", ["nodes", "records"])
def test_the_same_simulation_through_the_local_loop_and_through_flower(holders):
    count = 4 if holders == "nodes" else 60
    more = {"holders": holders, "nodes": count, "records": count if holders == "records" else 1000, "queries": 12}
    made = nodes(count, records=more["records"])
    here = federated(local_exchange(made), **more)
    terms = dataclasses.replace(TERMS, expected=count, at_least=count)
    there = federated(exchange_over(nodes(count, records=more["records"]), terms=terms), **more)
    assert (here.labels == there.labels).all()
    np.testing.assert_array_equal(here.probabilities, there.probabilities)
    np.testing.assert_array_equal(
        here.student.predict(digits().test_samples), there.student.predict(digits().test_samples)
    )
    assert sorted(said(here), key=str) == sorted(said(there), key=str)
    assert here.guarantee == there.guarantee
    other = federated(local_exchange(nodes(count, seed=6, records=more["records"])), **more)
    assert not np.array_equal(here.probabilities, other.probabilities)


def test_several_sites_label_well_and_the_guarantee_is_that_of_one():
    run = federated(exchange_over(nodes(4, seed=None)))
    assert np.mean(run.labels == digits().public_labels) > 0.6
    assert (run.guarantee.epsilon, run.guarantee.simulation, str(run.guarantee.trust)) == (1, False, "local")
    assert run.recipe["answered"] == 4


def test_every_byte_that_a_node_sends_is_a_declared_reply(ask):
    there = nodes(4, seed=None)
    grid = grid_over(there, keep=True)
    federated(FlowerExchange(grid, "r", TERMS))
    assert len(grid.sent) == 4
    for message in grid.sent:
        assert not message.has_error()
        assert [(name, list(record)) for name, record in message.content.items()] == [("tacit", ["letter"])]
        reply = read_response(payload_of(message))
        release = read_release(reply.answer, ask, "site", TERMS.records)
        # Encoding what was read gives every byte that was sent: there is nothing else in it.
        wire_request = Request("r", 0, 4, ask_to_bytes(ask), records=TERMS.records).to_bytes()
        answer = release_to_bytes(release, ask, TERMS.records)
        assert Response(digest_request(wire_request), answer).to_bytes() == payload_of(message)
        assert (release.value.dtype, release.value.shape) == (np.int64, (len(ask.queries), 10))
        assert len(release.receipts) == 1


def test_sizes_do_not_depend_on_private_counts(ask):
    sizes = set()
    for count in (4, 20, 100):
        for node in nodes(count, seed=None)[:3]:
            node = dataclasses.replace(node, name="site", account="site", ledger=MemoryLedger({"site": Ceiling(1)}))
            sizes.add(len(node.reply(Request("r", 0, 4, ask_to_bytes(ask)).to_bytes())))
    assert len(sizes) == 1


def test_answers_leave_at_a_pace_that_does_not_depend_on_records(ask, monkeypatch):
    slept = []
    clock = iter([10.0, 10.3, 50.0, 50.9])
    monkeypatch.setattr("tacit.federation.node.node.time.monotonic", lambda: next(clock))
    monkeypatch.setattr("tacit.federation.node.node.time.sleep", slept.append)
    node = dataclasses.replace(nodes(4)[0], pace=0.5)
    for _ in range(2):
        node.reply(Request("r", 0, 4, ask_to_bytes(ask)).to_bytes())
    # 0.3 s of work leaves after 0.5 s, 0.9 s after 1 s.
    assert slept == pytest.approx([0.2, 0.1])


def asked_by(message):
    return read_ask(read_node_request(payload_of(message)).ask)


def altered(change_answer):
    """The second node sends something else in place of its answer."""

    def change(place, message, reply):
        if place != 1:
            return reply
        sent = read_response(payload_of(reply))
        return Message(
            content_of(Response(sent.request_digest, change_answer(sent.answer)).to_bytes()), reply_to=message
        )

    return change


def raw(payload):
    def change(place, message, reply):
        return Message(content_of(payload), reply_to=message) if place == 1 else reply

    return change


def broken(place, message, reply):
    return Message(Error(2, "it raised"), reply_to=message) if place == 1 else reply


def foreign(place, message, reply):
    if place != 1:
        return reply
    wire_request = dataclasses.replace(read_node_request(payload_of(message)), run="another run")
    sent = read_response(payload_of(reply))
    return Message(
        content_of(Response(digest_request(wire_request.to_bytes()), sent.answer).to_bytes()), reply_to=message
    )


def stuffed(place, message, reply):
    if place == 1:
        reply.content["more"] = ConfigRecord({"loss": 0.1})
    return reply


# A receipt is nine bytes here: its place in the ledger, and its evidence.
HOSTILE = {
    "wrong shape": (altered(lambda answer: answer[:-20]), "malformed"),
    "another type": (altered(lambda answer: answer[:9] + bytes(8 * 130)), "malformed"),
    "out of range": (altered(lambda answer: answer[:9] + b"\xff" * len(answer[9:])), "malformed"),
    "no receipt": (altered(lambda answer: answer[9:]), "malformed"),
    "two receipts": (altered(lambda answer: answer[:9] + answer), "malformed"),
    "nothing but a receipt": (altered(lambda answer: answer[:9]), "malformed"),
    "nothing": (altered(lambda answer: b""), "malformed"),
    "an old form": (altered(lambda answer: encode({"value": [], "receipts": []})), "malformed"),
    "not a reply": (raw(b"hello"), "malformed"),
    "oversized": (raw(b"x" * (1 << 20)), "malformed"),
    "an unknown word": (raw(Response(bytes(4), RefusalReason.FAILED).to_bytes()[:-1] + b"\x63"), "malformed"),
    "words": (raw(Response(bytes(4), RefusalReason.FAILED).to_bytes() + b"Ada has it"), "malformed"),
    "another run": (foreign, "another run or round"),
    "an error": (broken, "failed or was lost"),
    "more records": (stuffed, "failed or was lost"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_answer_is_dropped_counted_and_named(kind):
    change, why = HOSTILE[kind]
    exchange = exchange_over(nodes(4), change)
    run = federated(exchange)
    turn = exchange.rounds[0]
    assert turn.answered == ["site 0", "site 2", "site 3"]
    assert why in turn.dropped["site 1"]
    # The result is that of the three others, to the last bit.
    honest = nodes(4)
    alone = federated(local_exchange([honest[0], honest[2], honest[3]]))
    np.testing.assert_array_equal(run.probabilities, alone.probabilities)


class Lossy(InProcessGrid):
    """Some replies never come, and one comes twice."""

    def __init__(self, app, nodes, lost=(), twice=()):
        super().__init__(app, nodes)
        self.lost, self.twice = set(lost), set(twice)

    def pull_messages(self, message_ids):
        found = super().pull_messages(message_ids)
        found = [each for each in found if each.metadata.src_node_id not in self.lost]
        return found + [each for each in found if each.metadata.src_node_id in self.twice]


def test_a_round_ends_with_enough_and_names_who_is_missing():
    there = nodes(4)
    app = client_app(lambda context: there[context.node_config["partition-id"]])
    exchange = FlowerExchange(Lossy(app, contexts(4), lost=[3], twice=[1]), "r", TERMS)
    federated(exchange)
    turn = exchange.rounds[0]
    assert len(turn.answered) == 3
    assert turn.dropped == {"node 00000000000000000003": "did not answer in time"}
    assert sum(turn.ignored.values()) == 1
    assert "1 messages ignored" in turn.in_words
    # What is watched while it goes on can be written down.
    assert json.loads(json.dumps(dataclasses.asdict(turn)))["ignored"] == turn.ignored


def test_too_few_end_the_run_in_words():
    there = nodes(4)
    app = client_app(lambda context: there[context.node_config["partition-id"]])
    exchange = FlowerExchange(Lossy(app, contexts(4), lost=[2, 3]), "r", dataclasses.replace(TERMS, deadline=0.5))
    with pytest.raises(TooFewParticipants, match=r"2 of 4 nodes answered.*At least 3 were needed.*nobody pays twice"):
        federated(exchange)


def test_nobody_pays_where_too_few_are_there():
    there = nodes(2)
    with pytest.raises(TooFewParticipants, match=r"2 nodes are connected .* at least 3 .* nobody paid"):
        federated(exchange_over(there))
    assert [node.ledger.balance(node.account).payments for node in there] == [0, 0]


def test_a_coordinator_that_comes_back_asks_nobody_for_what_was_answered(tmp_path):
    there = nodes(4, seed=None)
    journal = Journal.open(tmp_path, "a recipe")
    first = federated(exchange_over(there, journal=journal))

    class Silent(InProcessGrid):
        def push_messages(self, messages):
            raise AssertionError("somebody was asked again")

    grid = Silent(client_app(lambda context: there[0]), contexts(4))
    again = federated(FlowerExchange(grid, "r", TERMS, Journal.open(tmp_path, "a recipe")))
    np.testing.assert_array_equal(first.probabilities, again.probabilities)
    assert first.receipts == again.receipts
    with pytest.raises(InvalidInput, match="another run"):
        Journal.open(tmp_path, "another recipe")


def test_a_coordinator_killed_in_a_round_gets_what_was_paid_for(tmp_path):
    there = nodes(4, seed=None)

    class Dying(InProcessGrid):
        def pull_messages(self, message_ids):
            raise KeyboardInterrupt

    app = client_app(lambda context: there[context.node_config["partition-id"]])
    dying = Dying(app, contexts(4), keep=True)
    with pytest.raises(KeyboardInterrupt):
        federated(FlowerExchange(dying, "r", TERMS, Journal.open(tmp_path, "a recipe")))
    grid = InProcessGrid(app, contexts(4), keep=True)
    federated(FlowerExchange(grid, "r", TERMS, Journal.open(tmp_path, "a recipe")))
    assert [payload_of(each) for each in grid.sent] == [payload_of(each) for each in dying.sent]
    assert [node.ledger.balance(node.account).payments for node in there] == [1, 1, 1, 1]


def test_a_question_that_came_out_differently_is_not_asked_under_the_old_name(tmp_path):
    journal = Journal.open(tmp_path, "a recipe")
    federated(exchange_over(nodes(4), journal=journal))
    with pytest.raises(InvalidInput, match="round 1 was started with another question"):
        federated(exchange_over(nodes(4), journal=journal), queries=11)


def test_a_node_whose_ledger_was_put_back_is_dropped_and_named(ask):
    """The same node answers again from the ledger that it had before its first answer."""
    heads = NodeHeads()
    exchange_over(nodes(4, seed=None), heads=heads)(ask)
    again = exchange_over(nodes(4, seed=None), heads=heads, terms=dataclasses.replace(TERMS, at_least=4))
    with pytest.raises(
        TooFewParticipants, match=r"sent an answer that is not accepted \(its ledger (was rolled back|forked)"
    ):
        again(dataclasses.replace(ask, request="another request"))
