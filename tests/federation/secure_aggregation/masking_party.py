"""Holders and a coordinator of a masked sum in one process, for tests."""

from dataclasses import replace

import numpy as np

from tacit.core.account import Ceiling
from tacit.core.codec import decode, encode
from tacit.core.randomness import SeededRandomness
from tacit.core.sensitivity import Sensitivity
from tacit.federation.keys import SigningIdentity
from tacit.federation.secure_aggregation import client, server
from tacit.federation.secure_aggregation.session import STEPS, Session
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.mechanisms.masked.neighborhoods import neighborhood_of
from tacit.private.gate import Gate
from tacit.private.records import Private

CELLS = 6
MOVES = Sensitivity(l1=2, l2_squared=2, linf=1, row_range=2)


class Party:
    """A holder with a table, a ledger and an identity."""

    def __init__(self, name, table, seed, ceiling=10):
        self.name, self.table = name, np.asarray(table)
        self.identity = SigningIdentity.new()
        self.ledger = MemoryLedger({name: Ceiling(ceiling)})
        self.randomness = SeededRandomness(seed)
        self.state = None

    def answer(self, request):
        gate = Gate(self.ledger, self.name, self.randomness)
        return lambda share: gate.release(
            Private(self.table), lambda: np.zeros_like(self.table), MOVES, share, "votes", request
        )

    def keys(self, session):
        self.state, sent = client.announce(session, self.name, self.identity)
        return sent

    def step(self, step, payload):
        # Every step goes through the disk, as it does where a process is started for each message.
        state = client.ClientState.read(self.state.to_bytes())
        match step:
            case "shares":
                self.state, sent = client.share_secrets(state, payload)
            case "input":
                self.state, sent = client.masked_input(state, payload, self.answer(state.session.request))
            case "agree":
                self.state, sent = client.agree(state, payload, self.identity)
            case "unmask":
                self.state, sent = client.unmask(state, payload)
        return sent

    @property
    def spent(self):
        return self.ledger.balance(self.name).spent.epsilon


def parties(count, seed=1, ceiling=10):
    tables = np.random.default_rng(seed).integers(0, 50, size=(count, CELLS))
    return {f"node-{number}": Party(f"node-{number}", tables[number], number, ceiling) for number in range(count)}


def session_of(nodes, plan=None, run="run", request="r-1"):
    plan = plan or DistributedLaplace.for_epsilon(1, 2, len(nodes), most=1000)
    if plan.colluding is None:
        plan = replace(plan, colluding=plan.threshold - plan.honest)
    graph = neighborhood_of(plan.holders, plan.threshold, plan.honest, plan.colluding)
    return Session(run, 0, request, CELLS, plan, {name: each.identity.public for name, each in nodes.items()}, graph)


def summed(nodes, session, drops=None, transcript=None, shape=(CELLS,)):
    """Run all steps; ``drops`` says at which step, before it is sent, a node is lost."""
    drops = drops or {}
    alive = dict(nodes)
    state, inbox = server.ServerState(session), dict.fromkeys(nodes, b"")
    for step in STEPS:
        alive = {name: each for name, each in alive.items() if drops.get(name) != step and name in inbox}
        for name, each in alive.items():
            sent = each.keys(session) if step == "keys" else each.step(step, inbox[name])
            state = server.accept_message(server.ServerState.read(state.to_bytes()), name, sent)
            if transcript is not None:
                transcript.append((step, name, sent))
        state, inbox = server.close(state)
    return server.result(state, "votes", shape), state


def expected(nodes, survivors, plan):
    total = np.zeros(CELLS, dtype=np.int64)
    for name in survivors:
        fresh = SeededRandomness(int(name.split("-")[1]))
        total += np.clip(nodes[name].table, 0, plan.most) + plan.share(CELLS, fresh)
    return total


def broken(payload, **changes):
    """The message with other fields."""
    return encode(decode(payload) | changes)
