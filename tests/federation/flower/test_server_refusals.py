"""What a node does not answer, over Flower's messages: one closed word, whatever its records are."""

import dataclasses
import logging
import threading

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from flwr.app import Message

from tacit.core.account import Ceiling
from tacit.core.codec import encode
from tacit.core.errors import LedgerError
from tacit.federation.flower.client import InProcessGrid, client_app, configured_node, contexts
from tacit.federation.flower.handover import forwarding_app
from tacit.federation.flower.server import FlowerExchange, content_of, payload_of
from tacit.federation.messages import RefusalReason, Request, read_response
from tacit.federation.node.local_socket import SOCKET_VARIABLE, LocalSocket, receive
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.policy import Rules
from tacit.wire import ask_to_bytes, read_ask, read_release
from tests.federation.federation import RULES, nodes
from tests.federation.flower.test_client_simulated import TERMS, ask, federated

__all__ = ["ask"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rules": dataclasses.replace(RULES, methods=("privatekt",))}, RefusalReason.METHOD),
        ({"rules": dataclasses.replace(RULES, mechanisms=("PermuteAndFlip",))}, RefusalReason.MECHANISM),
        ({"rules": dataclasses.replace(RULES, purposes=("research",))}, RefusalReason.PURPOSE),
        ({"rules": dataclasses.replace(RULES, participants=5)}, RefusalReason.PARTICIPANTS),
        ({"classes": tuple("abcdefghij")}, RefusalReason.CLASSES),
        ({"ledger": MemoryLedger({"site 0": Ceiling("0.5")})}, RefusalReason.BUDGET),
        ({"ledger": None, "seed": None}, RefusalReason.FAILED),
    ],
)
def test_a_node_refuses_what_its_own_policy_does_not_allow(ask, change, reason):
    node = dataclasses.replace(nodes(4)[0], **change)
    assert read_response(node.reply(Request("r", 0, 4, ask_to_bytes(ask)).to_bytes())).answer is reason


def test_a_refusal_says_the_same_whatever_the_records_are(ask):
    said = set()
    for place in range(4):
        node = dataclasses.replace(nodes(4)[place], name="site", rules=Rules(("fedmd",), ("x",), ("y",), 1))
        said.add(node.reply(Request("r", 0, 4, ask_to_bytes(ask)).to_bytes()))
    assert len(said) == 1


def test_a_node_tells_its_budget_only_where_its_operator_lets_it(ask):
    question = Request("r", 0, 4, ask_to_bytes(ask)).to_bytes()
    silent = nodes(4)[0]
    telling = dataclasses.replace(silent, tells_budget=True)
    assert read_response(silent.reply(question)).budget is None
    told = read_response(telling.reply(question))
    assert told.answer == read_response(silent.reply(question)).answer
    spent = telling.ledger.balance(telling.account)
    assert told.budget.in_words == f"spent epsilon 1 of {spent.ceiling.epsilon} at delta {spent.ceiling.delta}"
    # A refusal tells it, too, and that depends on no record.
    refused = {
        dataclasses.replace(
            each, rules=dataclasses.replace(RULES, methods=()), tells_budget=True, account="site", name="site",
            ledger=MemoryLedger({"site": Ceiling("0.5", "1e-6")}),
        ).reply(question)
        for each in nodes(4)
    }  # fmt: skip
    assert [(read_response(each).answer, read_response(each).budget.in_words) for each in refused] == [
        (RefusalReason.METHOD, "spent epsilon 0 of 0.5 at delta 1e-06")
    ]


def test_a_budget_that_cannot_be_read_is_not_told_and_the_answer_goes_out(ask, monkeypatch):
    node = dataclasses.replace(nodes(4)[0], tells_budget=True)

    def damaged(_):
        raise LedgerError("damaged")

    monkeypatch.setattr(node.ledger, "balance", damaged)
    reply = read_response(node.reply(Request("r", 0, 4, ask_to_bytes(ask)).to_bytes()))
    assert isinstance(reply.answer, bytes)
    assert reply.budget is None


def test_what_nodes_tell_of_their_budgets_is_in_the_round(ask):
    them = [dataclasses.replace(each, tells_budget=place < 2) for place, each in enumerate(nodes(4))]
    grid = InProcessGrid(client_app(lambda context: them[int(context.node_config["partition-id"])]), contexts(4))
    exchange = FlowerExchange(grid, "run", TERMS)
    assert len(exchange(ask)) == 4
    told = exchange.rounds[0].budgets
    assert len(told) == 2
    assert {each.spent for each in told.values()} == {"1"}


@pytest.mark.parametrize(
    "payload", [b"", b"hello", encode({"run": "r"}), Request("r", 0, 4, b"no question").to_bytes(), encode([1] * 9)]
)
def test_a_node_is_not_upset_by_what_is_not_a_question(payload):
    assert read_response(nodes(4)[0].reply(payload)).answer is RefusalReason.QUESTION


def test_a_node_with_more_records_than_the_public_believes_does_not_fit_the_question():
    crowd = {"holders": "records", "nodes": 60, "records": 60, "queries": 12}
    asked = []
    with pytest.raises(InterruptedError):
        federated(lambda question: asked.append(question) or interrupted(), **crowd)
    node = nodes(30, records=60)[0]
    question = ask_to_bytes(asked[0])
    # Two records send two messages; where one is the most, none can be sent, and the payment buys them later.
    refused = node.reply(Request("r", 0, 60, question, records=1).to_bytes())
    assert read_response(refused).answer is RefusalReason.QUESTION
    answer = read_response(node.reply(Request("r", 0, 60, question, records=2).to_bytes())).answer
    assert len(read_release(answer, asked[0], "site", 2).value) == 2
    assert node.ledger.balance(node.account).payments == 1


def interrupted():
    raise InterruptedError


def test_a_failure_tells_the_operator_and_nobody_else(ask, caplog):
    def broken(self, samples):
        raise RuntimeError(f"the secret is {samples[0].tolist()}")

    node = nodes(4)[0]
    question = read_ask(ask_to_bytes(ask))
    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(type(question.representation), "encode", broken)
        sent = node.reply(Request("r", 0, 4, ask_to_bytes(ask)).to_bytes())
    assert b"secret" not in sent
    assert read_response(sent).answer is RefusalReason.QUESTION


def test_a_client_app_turns_every_exception_into_one_word():
    def nowhere(context):
        raise OSError("/home/someone/records.csv: the patient Ada is missing")

    grid = InProcessGrid(client_app(nowhere), contexts(1), keep=True)
    message = Message(content_of(b"hello"), 1, "query.answer")
    (reply,) = grid.send_and_receive([message], timeout=1)
    assert read_response(payload_of(reply)).answer is RefusalReason.FAILED
    assert b"Ada" not in payload_of(reply)


def test_a_simulated_node_has_a_place_by_its_own_configuration_only():
    context = contexts(1)[0]
    context.node_config = {}
    context.run_config = {"simulation": "digits", "partition-id": 0, "num-partitions": 1}
    with pytest.raises(KeyError):
        configured_node(context)


def test_a_real_node_is_the_one_behind_its_own_door_whatever_a_run_says(tmp_path, monkeypatch):
    monkeypatch.setenv(SOCKET_VARIABLE, str(tmp_path / "socket"))
    context = contexts(1)[0]
    context.run_config = {SOCKET_VARIABLE: "/somewhere/else", "simulation": "digits"}
    heard = []

    def answer():
        with listening.accept() as connection:
            heard.append(receive(connection))
            connection.send_bytes(b"reply")

    listening = LocalSocket(tmp_path / "socket", 1)
    thread = threading.Thread(target=answer)
    thread.start()
    grid = InProcessGrid(forwarding_app(), [context], keep=True)
    (reply,) = grid.send_and_receive([Message(content_of(b"hello"), 1, "query.answer", ttl=7.0)], timeout=5)
    thread.join()
    listening.close()
    assert payload_of(reply) == b"reply"
    assert heard == [(b"hello", 7.0)]
    # Nobody is behind it: one word, and nothing of the path.
    (reply,) = grid.send_and_receive([Message(content_of(b"hello"), 1, "query.answer")], timeout=5)
    assert read_response(payload_of(reply)).answer is RefusalReason.FAILED


def test_a_simulation_takes_its_parts_from_what_the_run_names():
    there = contexts(4)
    for context in there:
        context.run_config = {"simulation": "digits", "seed": 7}
    exchange = FlowerExchange(InProcessGrid(client_app(configured_node), there), "r", TERMS)
    run = federated(exchange)
    assert run.guarantee.simulation
    again = FlowerExchange(InProcessGrid(client_app(configured_node), there), "r", TERMS)
    np.testing.assert_array_equal(run.probabilities, federated(again).probabilities)
