"""What a node makes of a batch that a coordinator names: it believes its own file and its own numbers."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.core.account import Ceiling
from tacit.core.codec import decode, encode
from tacit.federation.collector.batches import plan_batch, plan_tables
from tacit.federation.collector.client import Address
from tacit.federation.keys import SigningIdentity, public_key
from tacit.federation.messages import RefusalReason, Request, read_response
from tacit.federation.node.node import Node
from tacit.federation.node.steps import Collecting, FolderMemory, Masking, NodeMemory
from tacit.federation.secure_aggregation.client import ClientState
from tacit.federation.secure_aggregation.session import Session
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.policy import Rules
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.mechanisms.masked.neighborhoods import neighborhood_of
from tacit.mechanisms.shuffle.multi_message_noise import plan_noise_messages
from tacit.mechanisms.shuffle.single_message import Shuffled, SingleMessage
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.records import Private, Records
from tacit.representations.scaled import Identity as Unchanged
from tacit.wire import ask_to_bytes

NAMES = ("ada", "bob", "cyd", "dan")
IDENTITIES = {name: SigningIdentity.new() for name in NAMES}
PEERS = {name: each.public for name, each in IDENTITIES.items()}
KEY = public_key(b"s" * 32)
ADDRESS = Address("http://127.0.0.1:1")
QUERIES = np.array([[0.0], [9.0]], dtype=np.float32)
VOTES = VoteAsk(QUERIES, Unchanged(1), 1, ("a", "b"), "", DiscreteLaplaceNoise.for_epsilon(1, 2), "votes", "r-1")


def node(participants=2, peers=PEERS, rules=None, **more):
    """The node and all that it handed in."""
    handed = []
    collecting = Collecting(
        IDENTITIES["ada"], ADDRESS, (ADDRESS, KEY), peers, lambda *all_of_it: handed.append(all_of_it)
    )
    allowed = rules or Rules(
        ("rknn",), ("DiscreteLaplaceNoise", "Shuffled", "DistributedLaplace"), ("votes",), participants
    )
    own = Private(Records(np.tile([[0.0], [9.0]], (10, 1)), np.tile([0, 1], 10)))
    ledger = MemoryLedger({"ada": Ceiling(10, "1e-3")})
    return Node("ada", ("a", "b"), own, allowed, ledger, "ada", collecting=collecting, **more), handed


def said(node, batch, ask=VOTES, claimed=1000, step="submit"):
    wire_request = Request(batch.run, batch.round, claimed, ask_to_bytes(ask), step, batch.to_bytes())
    answer = read_response(node.reply(wire_request.to_bytes())).answer
    paid = node.ledger.balance("ada").payments
    return (answer if isinstance(answer, RefusalReason) else "handed in"), paid


def tables(names=NAMES, minimum=3, largest=1000, ask=VOTES):
    return plan_tables(ask, "run", 0, names, KEY, minimum, largest)


def test_a_node_hands_in_for_as_many_records_as_it_has_and_no_fewer():
    """A curator cuts tables that count more, and a table that was cut moves further than was paid for."""
    for largest, outcome in ((20, ("handed in", 1)), (19, (RefusalReason.QUESTION, 0))):
        own, handed = node()
        assert said(own, tables(largest=largest)) == outcome
        assert len(handed) == outcome[1]


LOCAL = GeneralizedRandomizedResponse(4, 1, "1/10")
SHARES = DistributedLaplace.for_epsilon(1, 2, 4, most=1000, colluding=1)
GRAPH = neighborhood_of(4, 3, 2, 1)


@pytest.mark.parametrize("step", ["submit", "answer", "keys"])
@pytest.mark.parametrize("mechanism", [LOCAL, DiscreteLaplaceNoise.for_epsilon(1, 2), SHARES, "shuffled"], ids=str)
def test_a_mechanism_goes_through_its_own_step_only(step, mechanism):
    """A local randomizer in a curator's batch was charged 0.1 and released the whole table: worst case 5.0."""
    if mechanism == "shuffled":
        mechanism = Shuffled(SingleMessage(LOCAL, 20, "1e-6"), 20)
    own, _ = node(rules=Rules(("rknn",), (type(mechanism).__name__,), ("votes",), 1))
    own = replace(own, masking=Masking(IDENTITIES["ada"], PEERS, NodeMemory()))
    answer, paid = said(own, tables(ask=VOTES), replace(VOTES, mechanism=mechanism), step=step)
    belongs = {
        "submit": (DiscreteLaplaceNoise, Shuffled),
        "answer": (DiscreteLaplaceNoise, GeneralizedRandomizedResponse),
        "keys": (DistributedLaplace,),
    }
    assert (answer is not RefusalReason.MECHANISM) == isinstance(mechanism, belongs[step])
    assert paid == (answer == "handed in" and step != "keys")


CROWD = Shuffled(SingleMessage(LOCAL, 20, "1e-6"), 20)
MIXED = replace(VOTES, mechanism=CROWD)


def mixing(names=NAMES):
    return plan_batch(CROWD.inner, "run", 0, "r-1", names, KEY, participants=20)


@pytest.mark.parametrize("claimed", [0, 3, 1000])
@pytest.mark.parametrize(
    ("names", "minimum", "participants", "enough"),
    [
        (NAMES, 3, 3, True),
        (NAMES, 2, 3, False),  # the curator may release the sum of two tables
        (NAMES[:2], 2, 3, False),
        (NAMES[:2], 2, 2, True),
        (NAMES, 4, 5, False),
    ],
)
def test_a_curated_batch_counts_by_its_own_list(claimed, names, minimum, participants, enough):
    own, handed = node(participants)
    outcome = ("handed in", 1) if enough else (RefusalReason.PARTICIPANTS, 0)
    assert said(own, tables(names, minimum), claimed=claimed) == outcome
    assert len(handed) == enough


@pytest.mark.parametrize("claimed", [0, 3, 1000])
@pytest.mark.parametrize(("names", "enough"), [(NAMES, True), (NAMES[:3], True), (NAMES[:2], False)])
def test_a_shuffled_batch_counts_by_its_own_list(claimed, names, enough):
    own, handed = node(3)
    outcome = ("handed in", 1) if enough else (RefusalReason.PARTICIPANTS, 0)
    assert said(own, mixing(names), MIXED, claimed) == outcome
    assert len(handed) == enough


@pytest.mark.parametrize(("batch", "ask"), [(tables(), VOTES), (mixing(), MIXED)], ids=["curated", "shuffled"])
def test_members_are_those_that_this_sites_own_file_knows_each_once(batch, ask):
    same = dict.fromkeys(NAMES, IDENTITIES["ada"].public)
    assert said(node(2, same)[0], batch, ask) == (RefusalReason.PARTICIPANTS, 0)
    assert said(node(1, same)[0], batch, ask) == ("handed in", 1)
    # Without such a file the node knows itself and nobody else.
    assert said(node(2, {})[0], batch, ask) == (RefusalReason.PARTICIPANTS, 0)
    some = {name: PEERS[name] for name in NAMES[:3]}
    assert said(node(1, some)[0], batch, ask) == (RefusalReason.QUESTION, 0)


@pytest.mark.parametrize(("participants", "enough"), [(3, True), (4, False)])
def test_a_masked_sum_counts_by_its_session(participants, enough):
    """It is opened with its threshold of nodes already, whatever the coordinator says of how many there are."""
    ask = replace(VOTES, mechanism=SHARES)
    assert (SHARES.holders, SHARES.threshold) == (4, 3)
    own = replace(node(participants)[0], masking=Masking(IDENTITIES["ada"], PEERS, NodeMemory()))
    session = Session("run", 0, "r-1", 4, SHARES, PEERS, GRAPH)
    for claimed in (0, 3, 1000):
        wire_request = Request("run", 0, claimed, ask_to_bytes(ask), "keys", session.to_bytes())
        answer = read_response(own.reply(wire_request.to_bytes())).answer
        assert isinstance(answer, bytes) if enough else answer is RefusalReason.PARTICIPANTS


def test_steps_of_rounds_that_were_not_started_leave_no_file(tmp_path):
    """They need no question and cost nothing: a coordinator could fill the disk with them."""
    own = replace(node(1)[0], masking=Masking(IDENTITIES["ada"], PEERS, FolderMemory(tmp_path)))
    for number in range(300):
        step = ("shares", "agree", "unmask")[number % 3]
        answer = read_response(own.reply(Request(f"run {number}", 0, 4, b"", step, b"").to_bytes())).answer
        assert answer is RefusalReason.QUESTION
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", [False, True])
def test_rounds_that_are_started_and_never_paid_are_few_and_paid_ones_stay(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("tacit.federation.node.steps.MOST_MASKED_ROUNDS", 4)
    memory = FolderMemory(tmp_path) if folder else NodeMemory()
    own = replace(node(1)[0], masking=Masking(IDENTITIES["ada"], PEERS, memory))

    def state(**said):
        session = Session("paid", 0, "r-1", 4, SHARES, PEERS, GRAPH)
        return ClientState(session, "ada", b"s" * 32, b"m" * 32, b"e" * 32, said=said).to_bytes()

    # One of which the sum is still open, and one that is over.
    memory.write("1.masking", state(keys=b"", input=b""))
    memory.write("2.masking", state(keys=b"", input=b"", unmask=b""))
    ask = ask_to_bytes(replace(VOTES, mechanism=SHARES))
    for number in range(9):
        session = Session("run", number, "r-1", 4, SHARES, PEERS, GRAPH)
        wire_request = Request("run", number, 4, ask, "keys", session.to_bytes())
        first, again = (read_response(own.reply(wire_request.to_bytes())).answer for _ in range(2))
        assert isinstance(first, bytes)
        assert first == again
    left = memory.names(".masking")
    assert len(left) == 4
    assert "1.masking" in left
    assert "2.masking" not in left
    assert not folder or len(list(tmp_path.iterdir())) == 5


def test_a_sum_that_nobody_signs_is_refused():
    """A coordinator that told every holder other dropouts learned a sum of fewer tables than the noise was made for."""
    own = replace(node(1)[0], masking=Masking(IDENTITIES["ada"], PEERS, NodeMemory()))
    unbounded = replace(SHARES, colluding=None)
    whole = Session("run", 0, "r-1", 4, SHARES, PEERS, GRAPH).to_bytes()
    without = encode({name: value for name, value in decode(whole).items() if name != "neighborhood"})
    nowhere = Session("run", 0, "r-1", 4, unbounded, PEERS, GRAPH).to_bytes()
    for plan, session in ((unbounded, nowhere), (SHARES, without), (SHARES, whole)):
        ask = ask_to_bytes(replace(VOTES, mechanism=plan))
        answer = read_response(own.reply(Request("run", 0, 4, ask, "keys", session).to_bytes())).answer
        assert isinstance(answer, bytes) if session is whole else answer is RefusalReason.QUESTION


@pytest.mark.parametrize("wrong", ["a stranger", "without it", "cells", "plan", "request", "run", "round"])
def test_a_session_is_of_known_members_and_this_node_and_for_this_table(wrong):
    ask = replace(VOTES, mechanism=SHARES)
    own = replace(node(1)[0], masking=Masking(IDENTITIES["ada"], PEERS, NodeMemory()))
    members = dict(PEERS)
    if wrong == "a stranger":
        members["dan"] = SigningIdentity.new().public
    if wrong == "without it":
        own = replace(own, name="eve")
    session = Session("run", 0, "r-1", 5 if wrong == "cells" else 4, SHARES, members, GRAPH)
    other = {
        # The policy was asked about the question's noise: a session with less of it would be another price.
        "plan": {"plan": DistributedLaplace.for_epsilon(50, 2, 4, most=1000, colluding=1)},
        "request": {"request": "r-2"},
        "run": {"run": "another"},
        "round": {"round": 1},
    }
    session = replace(session, **other.get(wrong, {}))
    wire_request = Request("run", 0, 4, ask_to_bytes(ask), "keys", session.to_bytes())
    assert read_response(own.reply(wire_request.to_bytes())).answer is RefusalReason.QUESTION


def test_for_a_plain_answer_there_is_no_list_and_the_coordinators_word_counts():
    for claimed, outcome in ((2, (RefusalReason.PARTICIPANTS, 0)), (3, ("handed in", 1))):
        assert said(node(3)[0], tables(), claimed=claimed, step="answer") == outcome


FLOOD = plan_noise_messages(1, "1e-4", cells=4, participants=20, prefer="1/2")


def test_a_batch_without_room_for_the_noise_is_refused_before_payment():
    """A draw with much noise did not fit, and the retried request drew again, unpaid, until noise was scarce."""
    ask = replace(VOTES, mechanism=Shuffled(FLOOD, 20))
    planned = plan_batch(FLOOD, "run", 0, "r-1", NAMES, KEY, participants=20, block=1)
    assert said(node()[0], planned, ask) == ("handed in", 1)
    own, handed = node()
    scarce = int(20 * FLOOD.messages - 2 * (4 * 20 * 4 * FLOOD.flood_share.variance) ** 0.5)
    for _ in range(40):
        assert said(own, replace(planned, most=scarce), ask) == (RefusalReason.QUESTION, 0)
    assert handed == []
    # One message less than the plan has room for, and a batch whose shuffler would refuse what was paid for.
    for wrong in ({"most": planned.most - 1}, {"each": 1}, {"largest": 19}):
        assert said(own, replace(planned, **wrong), ask) == (RefusalReason.QUESTION, 0)
