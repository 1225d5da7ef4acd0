"""The sum is exact whoever drops out, nothing else can be had, and nobody pays twice."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.core.account import Ceiling
from tacit.core.codec import decode
from tacit.core.errors import BudgetExceeded, InvalidInput, RequestConflict, TooFewParticipants
from tacit.federation.keys import SigningIdentity
from tacit.federation.secure_aggregation import client, server
from tacit.federation.secure_aggregation.session import STEPS, Session
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.methods.fedmd import wire as fedmd
from tacit.methods.fedmd.holder import VotingParty
from tacit.methods.pate.holder import TeacherHolder
from tacit.methods.pate.wire import TeacherAsk
from tacit.methods.rknn import wire as rknn
from tacit.methods.rknn.holder import VoteHolder
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.representations.scaled import Identity as Unchanged

sys.path.insert(0, str(Path(__file__).parent))
from masking_party import CELLS, broken, expected, parties, session_of, summed


def test_the_sum_is_exact_and_paid_for_by_everybody():
    nodes = parties(5)
    session = session_of(nodes)
    release, _ = summed(nodes, session)
    assert release.value.tolist() == expected(nodes, nodes, session.plan).tolist()
    assert sorted(each.account for each in release.receipts) == sorted(nodes)
    assert {each.spend for each in release.receipts} == {session.plan.spend}
    assert all(each.spent == 1 for each in nodes.values())


@settings(max_examples=40)
@given(data=st.data(), count=st.integers(2, 9))
def test_the_sum_is_exact_with_up_to_a_third_dropping_at_any_step(data, count):
    nodes = parties(count)
    session = session_of(nodes)
    lost = data.draw(st.sets(st.sampled_from(sorted(nodes)), max_size=count - session.plan.threshold))
    assert 3 * len(lost) <= count
    drops = {name: data.draw(st.sampled_from(STEPS)) for name in lost}
    release, state = summed(nodes, session, drops)
    survivors = [name for name in nodes if drops.get(name, "unmask") in ("agree", "unmask")]
    assert sorted(state.came["input"]) == sorted(survivors)
    assert release.value.tolist() == expected(nodes, survivors, session.plan).tolist()


@pytest.mark.parametrize("step", STEPS)
def test_below_the_threshold_nothing_is_shown(step):
    nodes = parties(6)
    session = session_of(nodes)
    drops = dict.fromkeys(sorted(nodes)[:3], step)
    with pytest.raises(TooFewParticipants, match=r"3 of 6 nodes.*at least 4 are needed\. Nothing was revealed"):
        summed(nodes, session, drops)


def test_a_table_of_votes_keeps_its_shape():
    nodes = parties(3)
    for each in nodes.values():
        each.table = each.table.reshape(2, 3)
    release, _ = summed(nodes, session_of(nodes), shape=(2, 3))
    assert release.value.shape == (2, 3)


def ready(count=4, until="unmask"):
    """Nodes and a coordinator that stand before a step."""
    nodes = parties(count)
    session = session_of(nodes)
    state, inbox = server.ServerState(session), dict.fromkeys(nodes, b"")
    for step in STEPS:
        if step == until:
            return nodes, session, state, inbox
        for name, each in nodes.items():
            state = server.accept_message(
                state, name, each.keys(session) if step == "keys" else each.step(step, inbox[name])
            )
        state, inbox = server.close(state)
    return nodes, session, state, inbox


def test_a_retry_gets_the_same_bytes_and_pays_nothing():
    nodes, _, state, inbox = ready(until="input")
    ada = nodes["node-0"]
    first = ada.step("input", inbox["node-0"])
    assert ada.step("input", inbox["node-0"]) == first
    # The holder crashed after it had paid, and before its state was written down.
    ada.state = client.ClientState.read(ada.state.to_bytes())
    ada.state = replace(ada.state, said={step: ada.state.said[step] for step in ("keys", "shares")})
    assert ada.step("input", inbox["node-0"]) == first
    assert ada.spent == 1
    again = server.accept_message(server.accept_message(state, "node-0", first), "node-0", first)
    assert again.came["input"] == {"node-0": first}


def test_a_second_session_for_the_same_request_is_refused_by_the_gate():
    nodes, _, _, inbox = ready(until="input")
    for name, each in nodes.items():
        each.step("input", inbox[name])
    second = session_of(nodes, run="another run")
    state, inbox = server.ServerState(second), {}
    for name, each in nodes.items():
        state = server.accept_message(state, name, each.keys(second))
    state, inbox = server.close(state)
    for name, each in nodes.items():
        state = server.accept_message(state, name, each.step("shares", inbox[name]))
    state, inbox = server.close(state)
    for name, each in nodes.items():
        with pytest.raises(RequestConflict):
            each.step("input", inbox[name])
        assert each.spent == 1


def test_an_account_that_cannot_pay_sends_nothing():
    nodes = parties(3)
    nodes["node-0"].ledger = type(nodes["node-0"])("node-0", [0] * CELLS, 0, ceiling="1/2").ledger
    session = session_of(nodes)
    with pytest.raises(BudgetExceeded):
        summed(nodes, session)


def test_secrets_are_forgotten_when_nothing_more_can_be_asked():
    nodes, _, _, inbox = ready()
    ada = nodes["node-0"]
    secrets = [ada.state.seed, ada.state.masking, ada.state.sealing]
    assert all(each in ada.state.to_bytes() for each in secrets)
    first = ada.step("unmask", inbox["node-0"])
    assert not any(each in ada.state.to_bytes() for each in secrets)
    assert ada.step("unmask", inbox["node-0"]) == first


def test_wrong_tables_are_refused():
    nodes, _session, state, inbox = ready(until="input")
    honest = nodes["node-0"].step("input", inbox["node-0"])
    inner = decode(honest)["paid"]

    for wrong in (
        broken(honest, paid=inner[:-1]),
        broken(honest, paid=inner[:-2]),
        broken(honest, paid=np.append(inner, np.uint8(0))),
        broken(honest, paid=inner[9:]),
        broken(honest, paid=inner[:9]),
        broken(honest, paid=inner[:0]),
        broken(honest, paid=inner.astype(np.float64)),
        broken(honest, node="node-1"),
        broken(honest, session="00"),
    ):
        with pytest.raises(InvalidInput):
            server.accept_message(state, "node-0", wrong)
    taken = server.accept_message(state, "node-0", honest)
    with pytest.raises(InvalidInput, match="the first one counts"):
        server.accept_message(taken, "node-0", broken(honest, paid=np.append(inner[:-1], inner[-1] ^ 1)))
    with pytest.raises(InvalidInput, match="does not take part"):
        server.accept_message(state, "stranger", honest)
    with pytest.raises(InvalidInput, match="not complete"):
        server.result(state, "votes", (CELLS,))
    over, _ = summed(nodes, session_of(nodes, request="r-2"))
    assert over.value.size == CELLS


def test_the_session_is_checked():
    nodes = parties(3)
    session = session_of(nodes)
    assert Session.read(session.to_bytes()) == session
    with pytest.raises(InvalidInput, match="3 holders, the session names 2"):
        Session("run", 0, "r", CELLS, session.plan, dict(list(session.nodes.items())[:2]), session.neighborhood)
    with pytest.raises(InvalidInput, match="same identity"):
        Session(
            "run", 0, "r", CELLS, session.plan, dict.fromkeys(nodes, SigningIdentity.new().public), session.neighborhood
        )
    with pytest.raises(InvalidInput, match="must be one of distributed-laplace"):
        Session.read(broken(session.to_bytes(), plan={"kind": "permute-and-flip", "rate": "1", "row_range": 2}))
    with pytest.raises(InvalidInput, match="sorted"):
        Session.read(broken(session.to_bytes(), names=["node-2", "node-1", "node-0"]))


def test_secrets_are_not_shown():
    nodes, _, _, _ = ready(until="input")
    shown = repr(nodes["node-0"].state)
    assert nodes["node-0"].state.seed.hex() not in shown
    assert "seed" not in shown
    assert "sealing" not in shown
    assert "secret" not in repr(nodes["node-0"].identity)


def test_identities_are_kept_in_files(tmp_path):
    ada = SigningIdentity.new()
    ada.write(tmp_path / "ada.key")
    assert SigningIdentity.read(tmp_path / "ada.key") == ada
    assert (tmp_path / "ada.key").stat().st_mode & 0o777 == 0o600
    with pytest.raises(InvalidInput, match="cannot be made"):
        ada.write(tmp_path / "ada.key")
    (tmp_path / "bob.key").write_text("not a key")
    with pytest.raises(InvalidInput, match="64 hexadecimal digits"):
        SigningIdentity.read(tmp_path / "bob.key")
    with pytest.raises(InvalidInput, match="32 bytes"):
        SigningIdentity.from_secret(b"short")


def test_counts_beyond_the_declared_most_are_clipped():
    nodes = parties(3)
    nodes["node-0"].table = np.full(CELLS, 10**6)
    session = session_of(nodes, DistributedLaplace(2, 2, 3, 2, 2, most=100))
    release, _ = summed(nodes, session)
    assert release.value.tolist() == expected(nodes, nodes, session.plan).tolist()
    assert release.value.max() < 100 + 100 + 128 * 3


@pytest.mark.parametrize("method", ["rknn", "fedmd", "pate"])
def test_votes_of_every_method_are_summed_under_masks(method):
    nodes = parties(3)
    plan = DistributedLaplace("1/50", 2 if method != "pate" else 4, 3, 2, 2, most=1000)
    queries = np.array([[0.0], [10.0]], dtype=np.float32)
    labels = {"node-0": [0, 1], "node-1": [0, 1], "node-2": [1, 1]}
    samples = np.array([[0.0], [10.0]])

    def answering(name, each):
        gate = Gate(MemoryLedger({name: Ceiling(1000)}), name)
        records = Private(Records(samples, np.array(labels[name])))

        def answer(share):
            match method:
                case "rknn":
                    ask = rknn.VoteAsk(queries, Unchanged(1), 1, ("a", "b"), "", share, "votes", "r-1")
                    return VoteHolder([records], gate).answer(ask)
                case "fedmd":
                    ask = fedmd.PartyVoteAsk(queries, Unchanged(1), 2, share, "00", "votes", "r-1")
                    return VotingParty(records, gate, None).answer(ask)
                case "pate":
                    ask = TeacherAsk(samples, ("a", "b"), share, "votes", "r-1")
                    return TeacherHolder([records], gate, lambda: KNeighborsClassifier(1)).answer(ask)

        return lambda request: answer

    for name, each in nodes.items():
        each.answer = answering(name, each)
    session = replace(session_of(nodes, plan), cells=4)
    release, _ = summed(nodes, session, shape=(2, 2))
    assert release.value.tolist() == [[2, 1], [0, 3]]
