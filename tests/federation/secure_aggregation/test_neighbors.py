"""Sums in which holders mask with few neighbors: exact through dropouts, and a coordinator that lies is noticed."""

import dataclasses
import hashlib
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.core.account import Ceiling
from tacit.core.codec import decode, encode
from tacit.core.errors import InvalidInput, TooFewParticipants
from tacit.core.randomness import SeededRandomness
from tacit.federation.keys import SigningIdentity
from tacit.federation.messages import Request
from tacit.federation.node.steps import Masking, NodeMemory, masked_step
from tacit.federation.secure_aggregation import client, server
from tacit.federation.secure_aggregation.masks import element_to_bytes, own_mask, read_element, reconstruct_secret
from tacit.federation.secure_aggregation.neighbors import (
    AgreementQuestion,
    Equivocation,
    drawn_neighbors,
    read_inbox,
    write_agreement,
    write_agreements,
    write_inbox,
)
from tacit.federation.secure_aggregation.session import (
    STEPS,
    Session,
    read_keys,
    read_openings,
    read_roster,
    write_roster,
)
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.masked.distributed_gaussian import DistributedGaussian
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.mechanisms.masked.neighborhoods import Neighborhood

sys.path.insert(0, str(Path(__file__).parent))
from masking_party import CELLS, Party, broken, expected, parties, session_of, summed

COUNT = 12
PLAN = DistributedLaplace(2, 2, COUNT, threshold=10, honest=3, most=1000, colluding=1)


def ready(until):
    """Nodes and a coordinator that stand before a step."""
    nodes = parties(COUNT)
    session = session_of(nodes, PLAN)
    state, inbox = server.ServerState(session), dict.fromkeys(nodes, b"")
    for step in STEPS:
        if step == until:
            return nodes, session, state, inbox
        for name, each in nodes.items():
            sent = each.keys(session) if step == "keys" else each.step(step, inbox[name])
            state = server.accept_message(state, name, sent)
        state, inbox = server.close(state)
    return nodes, session, state, inbox


@pytest.fixture(scope="module")
def before():
    """Sessions that stand before each step, made when they are asked for first."""
    made = {}

    def find(step):
        if step not in made:
            made[step] = ready(step)
        nodes, session, state, inbox = made[step]
        return {name: Copy(each) for name, each in nodes.items()}, session, state, inbox

    return find


class Copy(Party):
    """A party that stands where another does, with a ledger of its own."""

    def __init__(self, other):
        super().__init__(other.name, other.table, int(other.name.split("-")[1]))
        self.identity = other.identity
        self.state = None if other.state is None else client.ClientState.read(other.state.to_bytes())


def test_each_node_has_few_neighbors_and_the_sum_is_exact():
    nodes = parties(COUNT)
    session = session_of(nodes, PLAN)
    assert session.neighborhood == Neighborhood(5, 3)
    transcript = []
    release, state = summed(nodes, session, transcript=transcript)
    assert release.value.tolist() == expected(nodes, nodes, PLAN).tolist()
    assert {each.spend for each in release.receipts} == {PLAN.spend}
    assert all(each.spent == 1 for each in nodes.values())
    assert Counter(step for step, _, _ in transcript) == dict.fromkeys(STEPS, COUNT)
    boxes = [decode(sent)["names"] for step, _, sent in transcript if step == "shares"]
    assert {len(each) for each in boxes} == {5}
    assert state.step == "over"


@pytest.mark.slow
def test_the_sum_of_a_hundred_holders_is_exact_though_some_are_lost_at_every_step():
    nodes = parties(100)
    plan = DistributedLaplace(2, 2, 100, threshold=90, honest=51, most=1000, colluding=10)
    drops = {name: STEPS[place // 2] for place, name in enumerate(sorted(nodes)[::10])}
    release, state = summed(nodes, session_of(nodes, plan), drops)
    survivors = [name for name in nodes if drops.get(name, "unmask") in ("agree", "unmask")]
    assert len(survivors) == 94
    assert release.value.tolist() == expected(nodes, survivors, plan).tolist()
    assert state.session.neighborhood.degree < 99


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_the_sum_is_exact_with_random_dropouts_at_random_steps(data):
    nodes = parties(COUNT)
    session = session_of(nodes, PLAN)
    lost = data.draw(st.sets(st.sampled_from(sorted(nodes)), max_size=COUNT - PLAN.threshold))
    drops = {name: data.draw(st.sampled_from(STEPS)) for name in sorted(lost)}
    release, _ = summed(nodes, session, drops)
    survivors = [name for name in nodes if drops.get(name, "unmask") in ("agree", "unmask")]
    assert release.value.tolist() == expected(nodes, survivors, PLAN).tolist()


@pytest.mark.parametrize("step", STEPS)
def test_the_sum_is_exact_with_as_many_lost_at_one_step_as_may_be(step):
    nodes = parties(COUNT)
    names = sorted(nodes)
    release, _ = summed(nodes, session_of(nodes, PLAN), {names[3]: step, names[11]: step})
    survivors = [name for name in nodes if name not in (names[3], names[11]) or step in ("agree", "unmask")]
    assert release.value.tolist() == expected(nodes, survivors, PLAN).tolist()


@pytest.mark.parametrize("step", STEPS)
def test_below_the_threshold_nothing_is_shown(step):
    nodes = parties(COUNT)
    with pytest.raises(TooFewParticipants, match=r"9 of 12 nodes.*at least 10 are needed\. Nothing was revealed"):
        summed(nodes, session_of(nodes, PLAN), dict.fromkeys(sorted(nodes)[:3], step))


def test_integer_noise_of_class_sums_is_summed_exactly():
    nodes = parties(COUNT)
    for each in nodes.values():
        each.ledger = MemoryLedger({each.name: Ceiling(10, "1e-5")})
    plan = DistributedGaussian(3, 2, CELLS, COUNT, threshold=10, honest=3, most=1000, colluding=1)
    release, _ = summed(nodes, session_of(nodes, plan), {"node-4": "input"})
    assert release.value.tolist() == expected(nodes, [name for name in nodes if name != "node-4"], plan).tolist()
    assert {each.spend for each in release.receipts} == {plan.spend}


def test_a_session_names_its_neighborhood():
    """A sum without one would have no signatures, and a coordinator could tell every holder other dropouts."""
    session = session_of(parties(4))
    for written in (session.to_bytes(), session.announced):
        without = {name: value for name, value in decode(written).items() if name != "neighborhood"}
        with pytest.raises(InvalidInput, match="neighborhood"):
            Session.read(encode(without), session.nodes)


def test_few_holders_draw_all_others_and_agree():
    nodes = parties(9)
    session = session_of(nodes, DistributedLaplace(2, 2, 9, threshold=6, honest=4, most=1000, colluding=2))
    assert session.neighborhood == Neighborhood(8, 5)
    release, _ = summed(nodes, session, {"node-1": "shares", "node-2": "input", "node-3": "unmask"})
    survivors = [name for name in nodes if name not in ("node-1", "node-2")]
    assert release.value.tolist() == expected(nodes, survivors, session.plan).tolist()


def test_a_large_session_travels_without_its_members_and_is_bound_to_them():
    nodes = parties(COUNT)
    session = session_of(nodes, PLAN)
    assert not any(name.encode() in session.announced for name in nodes)
    assert Session.read(session.announced, session.nodes) == session
    assert Session.read(session.to_bytes()) == session
    stranger = {**session.nodes, "node-3": SigningIdentity.new().public}
    with pytest.raises(InvalidInput, match="not those in this node's own list"):
        Session.read(session.announced, stranger)
    with pytest.raises(InvalidInput, match="the session names 0"):
        Session.read(session.announced)


def test_neighbors_follow_from_a_node_s_own_number_and_are_equally_likely():
    nodes = parties(COUNT)
    session = session_of(nodes, PLAN)
    drawn = [drawn_neighbors(number.to_bytes(32, "little"), session, "node-7") for number in range(2000)]
    assert all(len(each) == 5 and "node-7" not in each for each in drawn)
    seen = Counter(name for each in drawn for name in each)
    # Each of the 11 others is in 2000 · 5/11 of the draws, with a deviation of 22; the draws are fixed.
    assert set(seen) == set(nodes) - {"node-7"}
    assert all(abs(count - 2000 * 5 / 11) < 5 * 22 for count in seen.values())
    assert drawn[0] == drawn_neighbors(bytes(32), session, "node-7")
    other = session_of(nodes, PLAN, run="another")
    assert drawn_neighbors(bytes(32), other, "node-7") != drawn[0]


def test_a_node_draws_anew_in_every_session():
    nodes = parties(COUNT)
    session = session_of(nodes, PLAN)
    choices = {read_keys(nodes["node-0"].keys(session), session).choice for _ in range(4)}
    assert len(choices) == 4


def test_a_neighborhood_that_is_not_safe_is_refused_by_every_node():
    nodes = parties(COUNT)
    session = session_of(nodes, PLAN)
    for wrong in (Neighborhood(3, 2), Neighborhood(5, 2), Neighborhood(5, 6), Neighborhood(12, 8)):
        with pytest.raises(InvalidInput, match=r"not safe|does not fit"):
            nodes["node-0"].keys(dataclasses.replace(session, neighborhood=wrong))
    unbounded = DistributedLaplace(2, 2, COUNT, threshold=10, honest=3, most=1000)
    with pytest.raises(InvalidInput, match="number of holders that may collude"):
        nodes["node-0"].keys(dataclasses.replace(session, plan=unbounded))


def test_keys_of_a_node_that_is_no_neighbor_are_refused(before):
    nodes, session, state, inbox = before("shares")
    rosters = {name: set(read_roster(content, session)) for name, content in inbox.items()}
    node, stranger = min((name, other) for name in nodes for other in set(nodes) - rosters[name])
    shown = {name: state.came["keys"][name] for name in (*rosters[node], stranger)}
    with pytest.raises(InvalidInput, match="not a neighbor of this one"):
        nodes[node].step("shares", write_roster(shown, session))


def test_boxes_of_a_node_that_is_no_neighbor_are_refused_by_both_sides(before):
    nodes, session, state, inbox = before("shares")
    sent = nodes["node-0"].step("shares", inbox["node-0"])
    drawn = set(decode(sent)["names"])
    stranger = min(set(nodes) - drawn - {"node-0"})
    wrong = broken(sent, names=sorted((drawn - {min(drawn)}) | {stranger}))
    with pytest.raises(InvalidInput, match="one for each neighbor that it drew"):
        server.accept_message(state, "node-0", wrong)
    nodes, session, _, inbox = before("input")
    inboxes = {name: read_inbox(content, session)[1:] for name, content in inbox.items()}
    node, stranger = min((name, other) for name in nodes for other in set(nodes) - {name, *inboxes[name][1]})
    (boxes, there), box = inboxes[node], bytes(80)
    for more, present in (({stranger: box}, there), ({stranger: box}, {*there, stranger}), ({}, {*there, stranger})):
        with pytest.raises(InvalidInput, match=r"drew this node|neighbors that announced keys"):
            nodes[node].step("input", write_inbox(node, {**boxes, **more}, present, session))


def test_a_table_leaves_only_with_enough_of_the_neighbors_that_the_node_drew(before):
    nodes, session, _, inbox = before("input")
    node = nodes["node-0"]
    _, boxes, there = read_inbox(inbox["node-0"], session)
    lost = sorted(node.state.drawn & set(there))[:3]
    left = {name: box for name, box in boxes.items() if name not in lost}
    with pytest.raises(InvalidInput, match="fewer than 3 of the neighbors"):
        node.step("input", write_inbox("node-0", left, set(there) - set(lost), session))
    assert node.spent == 0


def test_a_coordinator_that_shows_different_graphs_is_noticed(before):
    """It hides from one node that another drew it; the other sees by the missing tag that they do not mask alike."""
    nodes, session, state, inbox = before("input")
    inboxes = {name: read_inbox(content, session)[1:] for name, content in inbox.items()}
    node, hidden = min((name, other) for name in nodes for other in inboxes[name][0].keys() - nodes[name].state.drawn)
    boxes, there = inboxes[node]
    left = {name: box for name, box in boxes.items() if name != hidden}
    inbox = {**inbox, node: write_inbox(node, left, set(there) - {hidden}, session)}
    for name, each in nodes.items():
        state = server.accept_message(state, name, each.step("input", inbox[name]))
    _, inbox = server.close(state)
    with pytest.raises(InvalidInput, match=f"'{node}' did not mask with this node: they were shown different graphs"):
        nodes[hidden].step("agree", inbox[hidden])


def test_a_coordinator_that_hides_a_drawn_neighbor_is_noticed(before):
    nodes, session, state, inbox = before("input")
    _, boxes, there = read_inbox(inbox["node-0"], session)
    hidden = min(nodes["node-0"].state.drawn & set(there))
    left = {name: box for name, box in boxes.items() if name != hidden}
    inbox = {**inbox, "node-0": write_inbox("node-0", left, set(there) - {hidden}, session)}
    for name, each in nodes.items():
        state = server.accept_message(state, name, each.step("input", inbox[name]))
    _, inbox = server.close(state)
    with pytest.raises(InvalidInput, match="exactly the neighbors that it was told of"):
        nodes["node-0"].step("agree", inbox["node-0"])


def test_two_stories_reveal_nothing_and_end_the_session(before):
    """Half of the nodes are asked about another set of survivors: nobody opens a share, and there is no second try."""
    nodes, session, _, inbox = before("agree")
    asked = {name: AgreementQuestion.read(content, session) for name, content in inbox.items()}
    lie = {
        name: AgreementQuestion(each.survivors - {"node-11"}, each.dropped | {"node-11"}, each.tags)
        for name, each in asked.items()
    }
    signatures = {}
    for place, name in enumerate(sorted(nodes)):
        told = asked[name] if place % 2 else lie[name]
        if name == "node-11":
            continue
        sent = nodes[name].step("agree", told.to_bytes(session))
        signatures[name] = decode(sent)["signature"].tobytes()
    forged = write_agreements(signatures, session)
    node = nodes["node-1"]
    memory = NodeMemory()
    ours = Masking(node.identity, {}, memory)
    request = Request("run", 0, COUNT, b"", "unmask", forged)
    masked_key = f"{hashlib.sha256(b'run 0').hexdigest()[:32]}.masking"
    memory.write(masked_key, node.state.to_bytes())
    with pytest.raises(Equivocation, match="other nodes were sent a different"):
        masked_step(request, None, "node-1", ours, None)
    with pytest.raises(InvalidInput, match="left the session"):
        masked_step(request, None, "node-1", ours, None)
    kept = client.ClientState.read(memory.read(masked_key))
    assert kept.sealing == kept.masking == kept.seed == b""


def test_a_question_is_signed_once_and_opened_only_after_enough_have_signed(before):
    nodes, session, _, inbox = before("unmask")
    question = AgreementQuestion.read(nodes["node-0"].state.heard["agree"], session)
    changed = AgreementQuestion(question.survivors - {"node-3"}, question.dropped | {"node-3"}, question.tags)
    with pytest.raises(InvalidInput, match="is complete, and had different content"):
        nodes["node-0"].step("agree", changed.to_bytes(session))
    few = {
        name: decode(write_agreement(name, question, nodes[name].identity, session))["signature"].tobytes()
        for name in sorted(nodes)[: PLAN.threshold - 1]
    }
    with pytest.raises(InvalidInput, match="only 9 nodes have signed; at least 10 are needed"):
        nodes["node-0"].step("unmask", write_agreements(few, session))
    opened = nodes["node-0"].step("unmask", inbox["node-0"])
    assert opened == nodes["node-0"].step("unmask", inbox["node-0"])
    assert nodes["node-0"].state.seed == b""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: (found.survivors - {"node-0"}, found.dropped), "this node's own table"),
        (lambda found: (found.survivors, found.survivors), "both secrets of one node"),
        (
            lambda found: (found.survivors - {"node-1", "node-2", "node-3"}, found.dropped),
            "only 9 nodes are in the sum",
        ),
    ],
)
def test_other_questions_are_refused(before, change, said):
    nodes, session, _, inbox = before("agree")
    found = AgreementQuestion.read(inbox["node-0"], session)
    with pytest.raises(InvalidInput, match=said):
        nodes["node-0"].step("agree", AgreementQuestion(*change(found), found.tags).to_bytes(session))


def test_shares_below_the_threshold_give_another_secret(before):
    """One share fewer than needed restores nothing; the coordinator ends in words."""
    nodes, session, state, inbox = before("unmask")
    seed = nodes["node-5"].state.seed
    for name, each in nodes.items():
        state = server.accept_message(state, name, each.step("unmask", inbox[name]))
    state, _ = server.close(state)
    known = {name: read_openings(payload, session)[1] for name, payload in state.came["unmask"].items()}
    givers = [name for name, given in known.items() if "node-5" in given]
    assert len(givers) == session.neighborhood.degree
    points = {session.place(name): read_element(known[name]["node-5"]) for name in givers}
    enough, fewer = (dict(sorted(points.items())[:count]) for count in (session.shares, session.shares - 1))
    assert element_to_bytes(reconstruct_secret(enough)) == seed
    assert element_to_bytes(reconstruct_secret(fewer)) != seed
    # All but one share fewer than the threshold are taken away.
    for name in givers[session.shares - 1 :]:
        names = [each for each in decode(state.came["unmask"][name])["names"] if each != "node-5"]
        openings = b"".join(known[name][each] for each in names)
        cut = broken(state.came["unmask"][name], names=names, openings=np.frombuffer(openings, dtype=np.uint8))
        state = dataclasses.replace(state, came={**state.came, "unmask": {**state.came["unmask"], name: cut}})
    with pytest.raises(TooFewParticipants, match="correct share"):
        server.result(state, "votes", (CELLS,))


def test_a_table_whose_neighbors_collude_is_still_under_its_own_mask(before):
    nodes, session, _, inbox = before("input")
    node = nodes["node-0"]
    sent = node.step("input", inbox["node-0"])
    masked = server._masked(session, "node-0", sent, "votes").value
    own = own_mask(node.state.seed, session, "node-0")
    fresh = SeededRandomness(0)
    table = node.table + PLAN.share(CELLS, fresh)
    assert not np.array_equal(PLAN.opened(masked.astype(np.uint64)), table)
    # The own mask alone does not uncover it either: masks with neighbors are left.
    assert not np.array_equal(PLAN.opened(masked.astype(np.uint64) - own), table)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), step=st.sampled_from(STEPS[1:]))
def test_a_holder_refuses_hostile_messages(before, data, step):
    nodes, _, _, inbox = before(step)
    payload = bytearray(inbox["node-1"])
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] ^= data.draw(st.integers(1, 255))
    if bytes(payload) == inbox["node-1"]:
        return
    try:
        nodes["node-1"].step(step, bytes(payload))
    except InvalidInput:
        return
    # A box may be any bytes until it is opened, and a signature that is not looked at any bytes at all.
    changed = decode(bytes(payload))
    same = {name for name, value in decode(inbox["node-1"]).items() if np.array_equal(value, changed[name])}
    assert set(changed) - same <= {"boxes", "signatures"}
