"""What the servers see: from all of a run's messages two neighbouring inputs are told apart by no more than ε.

Each audit runs whole protocols on two neighbouring inputs of one holder and counts events of the server's view. It also
rejects a named mutant: noise that is left out, a shuffler that keeps the order.
"""

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.audit.bounds import epsilon_bounds
from tacit.core.codec import decode
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.core.sensitivity import Sensitivity
from tacit.exchange.ciphers import public_key
from tacit.exchange.identity import Identity
from tacit.exchange.masking import client, server
from tacit.exchange.masking.session import Session
from tacit.exchange.post.batch import Submission
from tacit.exchange.shuffling import shuffler
from tacit.exchange.shuffling.boxes import plan_batch, read_mixed, sealed_messages
from tacit.ledger.memory import Ceiling, MemoryLedger
from tacit.mechanisms.local.generalized_response import GeneralizedResponse
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.mechanisms.shuffle.single_message import SingleMessage
from tacit.private.gate import Gate
from tacit.private.records import Private

TRIALS, ERROR = 150, 1e-9
MOVES = Sensitivity(l1=2, l2_squared=2, linf=1, row_range=2)
PLAN = DistributedLaplace.for_epsilon(1, l1=2, holders=3, most=10)
INPUTS = (np.array([[1, 0]]), np.array([[0, 1]]))


def masked_view(own, trial):
    """The server's view of one masked sum, and what a dishonest node tells it: its noise."""
    identities = {name: Identity.new() for name in ("honest", "other", "traitor")}
    session = Session("run", 0, "r", 2, PLAN, {name: each.public for name, each in identities.items()})
    state, inbox, clients, seen = server.ServerState(session), dict.fromkeys(identities, b""), {}, []
    for step in server.STEPS:
        for name, identity in identities.items():
            table = own if name == "honest" else np.array([[2, 2]])
            noise = SeededRandomness(trial) if name == "traitor" else SystemRandomness()
            gate = Gate(MemoryLedger({name: Ceiling(10)}), name, noise)

            def answer(share, gate=gate, table=table):
                return gate.release(Private(table), MOVES, share, "votes", "r")

            match step:
                case "keys":
                    clients[name], said = client.announce(session, name, identity)
                case "shares":
                    clients[name], said = client.shares(clients[name], inbox[name])
                case "input":
                    clients[name], said = client.masked_input(clients[name], inbox[name], answer)
                case "unmask":
                    clients[name], said = client.unmask(clients[name], inbox[name])
            state = server.accept(state, name, said)
            seen.append((step, name, said))
        state, inbox = server.close(state)
    known = PLAN.share(2, SeededRandomness(trial))
    total = server.result(state, "votes", (2,)).value - known
    lone = next(decode(said) for step, name, said in seen if (step, name) == ("input", "honest"))
    # Behind the nine bytes of its receipt.
    return {"sum": total[0] - total[1] >= 1, "masked table": int(lone["paid"][9]) % 2 == 0}


def masked_counts():
    counts = [{"sum": 0, "masked table": 0} for _ in INPUTS]
    for trial in range(TRIALS):
        for place, own in enumerate(INPUTS):
            for event, happened in masked_view(own, trial).items():
                counts[place][event] += bool(happened)
    return counts


@pytest.mark.statistical(rate=4e-9)
def test_a_server_and_a_traitor_tell_masked_inputs_apart_by_no_more_than_epsilon():
    one, other = masked_counts()
    assert epsilon_bounds(one["sum"], other["sum"], TRIALS, 0, ERROR) <= float(PLAN.spend.epsilon)
    # A table under its masks is noise to the server: nothing is told apart by it at all.
    for first, second in ((one, other), (other, one)):
        assert epsilon_bounds(first["masked table"], second["masked table"], TRIALS, 0, ERROR) == 0


def test_the_audit_finds_noise_that_is_left_out(monkeypatch):
    monkeypatch.setattr(DistributedLaplace, "share", lambda self, cells, randomness: np.zeros(cells, dtype=np.int64))
    one, other = masked_counts()
    assert epsilon_bounds(one["sum"], other["sum"], TRIALS, 0, ERROR) > float(PLAN.spend.epsilon)


SECRET, CLIENTS, BATCHES = b"s" * 32, 80, 180
DELTA = 0.05
CROWD = SingleMessage(GeneralizedResponse(4, 1, 3), CLIENTS, "1/20")


def shuffled_view(cell):
    """What the coordinator gets of one batch: the first message it can open, and how many there are of each cell."""
    batch = plan_batch(CROWD, "run", 0, "r", ("ada", "bob"), public_key(SECRET), clients=CLIENTS, block=1)
    handed = []
    for node, cells in (("ada", np.array([[cell]])), ("bob", np.arange(CLIENTS - 1)[:, None] % 4)):
        mechanism = sealed_messages(CROWD, batch, node)
        handed.append(Submission(len(cells), mechanism.sample(cells, SystemRandomness())))
    mixed = read_mixed(shuffler.mixed(batch, handed).content, batch, SECRET, CROWD).messages
    return {"first": mixed[0] == 0, "counts": np.sum(mixed == 0) - np.sum(mixed == 1) >= 3}


def shuffled_counts():
    counts = [{"first": 0, "counts": 0} for _ in range(2)]
    for _ in range(BATCHES):
        for cell in (0, 1):
            for event, happened in shuffled_view(cell).items():
                counts[cell][event] += bool(happened)
    return counts


@pytest.mark.statistical(rate=2e-9)
def test_a_coordinator_tells_mixed_messages_apart_by_no_more_than_epsilon():
    one, other = shuffled_counts()
    for event in ("first", "counts"):
        assert epsilon_bounds(one[event], other[event], BATCHES, DELTA, ERROR) <= float(CROWD.spend.epsilon)


def test_the_audit_finds_a_shuffler_that_keeps_the_order(monkeypatch):
    def in_order(boxes, axis):
        return boxes

    monkeypatch.setattr(shuffler.np, "unique", in_order)
    monkeypatch.setattr(shuffler, "permutations", lambda count, size, _: np.arange(size)[None])
    one, other = shuffled_counts()
    # A larger error is allowed where something is to be found.
    assert epsilon_bounds(one["first"], other["first"], BATCHES, DELTA, 1e-3) > float(CROWD.spend.epsilon)
