"""A server or a holder of a masked sum that does not keep to its part learns nothing and spoils nothing."""

import hashlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.core.codec import decode
from tacit.core.errors import InvalidInput
from tacit.federation.keys import SigningIdentity
from tacit.federation.messages import Request
from tacit.federation.node.steps import FolderMemory, Masking, NodeMemory, masked_step
from tacit.federation.secure_aggregation import client, server
from tacit.federation.secure_aggregation.masks import own_mask, pairwise_mask
from tacit.federation.secure_aggregation.neighbors import AgreementQuestion
from tacit.federation.secure_aggregation.session import STEPS, Keys, read_keys, read_roster, write_pieces

sys.path.insert(0, str(Path(__file__).parent))
from masking_party import CELLS, broken, expected

from tests.federation.secure_aggregation.test_session_masking import ready


@pytest.mark.parametrize("step", STEPS[1:])
def test_messages_of_another_run_are_refused(step):
    nodes, _, state, inbox = ready(until=step)
    _, _, other_state, other_inbox = ready(until=step)
    with pytest.raises(InvalidInput, match=r"another session|for this session"):
        nodes["node-0"].step(step, other_inbox["node-0"])
    before = STEPS[STEPS.index(step) - 1]
    late = server.ServerState(state.session, {**state.came, before: {}}, before)
    with pytest.raises(InvalidInput, match=r"another session|for this session"):
        server.accept_message(late, "node-0", other_state.came[before]["node-0"])
    assert nodes["node-0"].step(step, inbox["node-0"])


def test_steps_come_in_order():
    nodes, _, _, inbox = ready(until="shares")
    with pytest.raises(InvalidInput, match="comes after 'shares'"):
        nodes["node-0"].step("unmask", b"")
    nodes["node-0"].step("shares", inbox["node-0"])


def with_keys(roster, session, changes):
    """The roster with other keys under some names, or without them."""
    peers = {name: keys.content for name, keys in read_roster(roster, session, seen=True).items()} | changes
    pieces = write_pieces("keys", {name: content for name, content in peers.items() if content is not None})
    return broken(roster, **pieces)


def test_keys_that_a_server_made_up_are_refused():
    nodes, session, state, inbox = ready(until="shares")
    ada, roster, intruder = nodes["node-0"], inbox["node-0"], SigningIdentity.new()
    fake = replace(session, nodes={**session.nodes, "node-1": intruder.public})
    _, forged = client.announce(fake, "node-1", intruder)
    with pytest.raises(InvalidInput, match="signed by the node they name"):
        server.accept_message(server.ServerState(session), "node-1", forged)
    with pytest.raises(InvalidInput, match="signed by the node they name"):
        ada.step("shares", with_keys(roster, session, {"node-1": read_keys(forged, fake, seen=True).content}))
    # A node that signs another's keys as its own could open what is encrypted for neither.
    theirs = read_keys(state.came["keys"]["node-2"], session)
    pieces = theirs.sealing, theirs.masking, theirs.commitment, theirs.choice
    copied = Keys.signed(session, "node-1", nodes["node-1"].identity, *pieces).content
    with pytest.raises(InvalidInput, match="same key twice"):
        ada.step("shares", with_keys(roster, session, {"node-1": copied}))
    with pytest.raises(InvalidInput, match="only 1 of this node's neighbors announced keys; at least 2 must"):
        ada.step("shares", with_keys(roster, session, {"node-2": None, "node-3": None}))
    with pytest.raises(InvalidInput, match="keys that this node announced"):
        nodes["node-1"].step("shares", with_keys(inbox["node-1"], session, {"node-1": None}))
    with pytest.raises(InvalidInput, match="another node"):
        server.accept_message(server.ServerState(session), "node-2", state.came["keys"]["node-1"])
    with pytest.raises(InvalidInput, match="under its own identity"):
        client.announce(session, "node-1", intruder)


@pytest.mark.parametrize("place", [0, 1])
def test_keys_with_which_no_exchange_is_possible_are_their_senders_fault(place):
    """Passed on, they would fail at every neighbor, and the sum would lack honest nodes."""
    nodes, session, state, _ = ready(until="shares")
    theirs = read_keys(state.came["keys"]["node-1"], session)
    pieces = [theirs.sealing, theirs.masking, theirs.commitment, theirs.choice]
    pieces[place] = bytes(32)  # a point of small order
    weak = Keys.signed(session, "node-1", nodes["node-1"].identity, *pieces).to_bytes()
    with pytest.raises(InvalidInput, match="not a valid public key"):
        server.accept_message(server.ServerState(session), "node-1", weak)


def test_keys_that_the_right_node_announced_elsewhere_are_refused():
    """A signature binds the session: keys of an earlier one, whose secrets may be known by now, are not fresh."""
    nodes, session, _, inbox = ready(until="shares")
    bob = nodes["node-1"].identity
    _, earlier = client.announce(replace(session, run="last week"), "node-1", bob)
    with pytest.raises(InvalidInput, match="for this session"):
        server.accept_message(server.ServerState(session), "node-1", earlier)
    # Keys of this session that a node announced once more, with another secret, are not those it uses.
    _, second = client.announce(session, "node-1", bob)
    with pytest.raises(InvalidInput, match="keys that this node announced"):
        nodes["node-1"].step(
            "shares", with_keys(inbox["node-1"], session, {"node-1": read_keys(second, session).content})
        )


def test_a_table_that_comes_after_its_key_was_opened_is_still_masked():
    """A node that is late was taken for lost, so its pair masks are known; its own mask must hide the table."""
    nodes, session, _, inbox = ready(until="input")
    ada = nodes["node-0"]
    secret, roster = ada.state.masking, read_roster(ada.state.heard["shares"], session)
    sent = server._masked(session, "node-0", ada.step("input", inbox["node-0"]), "votes").value
    pairs = sum(pairwise_mask(secret, session, "node-0", roster[name]) for name in nodes if name != "node-0")
    uncovered = session.plan.opened(sent.astype(np.uint64) - pairs)
    assert not np.array_equal(uncovered, expected(nodes, ["node-0"], session.plan))
    # With its own mask, which only its seed gives, it is the noisy table: nothing else was left in.
    own = own_mask(ada.state.seed, session, "node-0")
    assert np.array_equal(
        session.plan.opened(sent.astype(np.uint64) - pairs - own), expected(nodes, ["node-0"], session.plan)
    )


@pytest.mark.parametrize("liars", [("node-8",), ("node-0", "node-4"), ("node-2", "node-6")])
def test_a_spoiled_box_and_wrong_shares_do_not_spoil_the_sum(liars):
    nodes, session, state, inbox = ready(count=9, until="input")
    content = decode(inbox["node-1"])["boxes"].copy()
    content[5] ^= 1
    inbox["node-1"] = broken(inbox["node-1"], boxes=content)
    for name, each in nodes.items():
        state = server.accept_message(state, name, each.step("input", inbox[name]))
    state, inbox = server.close(state)
    for name, each in nodes.items():
        state = server.accept_message(state, name, each.step("agree", inbox[name]))
    state, inbox = server.close(state)
    for name, each in nodes.items():
        sent = each.step("unmask", inbox[name])
        if name in liars:
            sent = broken(sent, openings=np.zeros_like(decode(sent)["openings"]))
        state = server.accept_message(state, name, sent)
    state, _ = server.close(state)
    assert server.result(state, "votes", (CELLS,)).value.tolist() == expected(nodes, nodes, session.plan).tolist()


@settings(max_examples=60)
@given(data=st.data(), step=st.sampled_from(STEPS))
def test_hostile_messages_are_refused_and_change_nothing(data, step):
    _nodes, _session, state, _inbox = READY[step]
    honest = HONEST[step]
    payload = bytearray(honest)
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] ^= data.draw(st.integers(1, 255))
    hostile = data.draw(st.sampled_from([bytes(payload), honest[:-1], honest + b"\0", b"", honest[:40]]))
    before = state.to_bytes()
    try:
        after = server.accept_message(state, "node-0", hostile)
    except InvalidInput:
        assert state.to_bytes() == before
    else:
        # Masked cells and shares may be any numbers; everything else is bound.
        assert step in ("input", "unmask", "shares") or hostile == honest
        assert set(after.came[step]) == {"node-0"}


READY = {step: ready(until=step) for step in STEPS}


HONEST = {
    step: (nodes["node-0"].keys(session) if step == "keys" else nodes["node-0"].step(step, inbox["node-0"]))
    for step, (nodes, session, _, inbox) in READY.items()
}


@pytest.mark.parametrize("folder", [False, True])
def test_two_questions_at_once_are_not_both_answered(folder, tmp_path, monkeypatch):
    """Each would find that nothing was said yet, and together they would open both secrets of a node."""
    nodes, session, _, inbox = ready(until="agree")
    memory = FolderMemory(tmp_path / "masking") if folder else NodeMemory()
    key = f"{hashlib.sha256(b'run 0').hexdigest()[:32]}.masking"
    memory.write(key, nodes["node-0"].state.to_bytes())
    write = type(memory).write

    def slowly(self, name, content):
        time.sleep(0.2)
        write(self, name, content)

    monkeypatch.setattr(type(memory), "write", slowly)
    ours = Masking(nodes["node-0"].identity, {}, memory)
    told = AgreementQuestion.read(inbox["node-0"], session)
    other = AgreementQuestion(told.survivors - {"node-1"}, told.dropped | {"node-1"}, told.tags)
    stories = [inbox["node-0"], other.to_bytes(session)]

    def signed(story):
        wire_request = Request("run", 0, 4, b"", "agree", story)
        try:
            return masked_step(wire_request, None, "node-0", ours, None)
        except InvalidInput as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(signed, stories))
    assert sum(isinstance(each, bytes) for each in said) == 1
    assert sum("had different content" in each for each in said if isinstance(each, str)) == 1
