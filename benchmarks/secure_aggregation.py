"""What a masked sum costs one node, in processor time and bytes: masking with all others, and with neighbors.

A few nodes go through all steps with real messages, each step from its state on disk and back, as a process for every
message does it. The other holders are there as far as these nodes need them: keys, sealed boxes, tags and signatures
are real, and nobody adds up tables that no measured node sees. ``--whole`` runs everybody instead, and adds what the
coordinator works.

Run: python benchmarks/secure_aggregation.py [--whole] [holders ...]
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core import Ceiling, Sensitivity
from tacit.core.files import write_file
from tacit.federation.keys import SigningIdentity, boxed, derived, shared_secret
from tacit.federation.secure_aggregation import client, server
from tacit.federation.secure_aggregation.neighbors import (
    AgreementQuestion,
    drawn_neighbors,
    tag_of,
    write_agreements,
    write_inbox,
)
from tacit.federation.secure_aggregation.session import (
    STEPS,
    Keys,
    Session,
    read_keys,
    write_roster,
)
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.mechanisms.masked.neighborhoods import Neighborhood, exposure, neighborhood_of
from tacit.private.gate import Gate
from tacit.private.records import Private
from tacit.runs.folders import machine

SIZES = (10, 100, 200, 1000, 5000)
CELLS, MEASURED = 400, 3
MOVES = Sensitivity(l1=2, l2_squared=2, linf=1, row_range=2)
RESULTS = Path(__file__).parents[1] / "docs" / "results"


def plan_of(holders: int) -> DistributedLaplace:
    """A tenth may drop out and a tenth collude; the noise is that of half of all holders."""
    return DistributedLaplace(
        2, 2, holders, threshold=-(-9 * holders // 10), honest=holders // 2 + 1, most=1000, colluding=holders // 10
    )


class Node:
    """A holder whose time and bytes are counted."""

    def __init__(self, name: str) -> None:
        self.name, self.identity = name, SigningIdentity.new()
        self.seconds, self.bytes, self.state = 0.0, 0, b""
        gate = Gate(MemoryLedger({name: Ceiling(1)}), name)
        table = Private(np.ones(CELLS, dtype=np.int64))
        self._answer = lambda share: gate.release(
            table, lambda: np.zeros(CELLS, dtype=np.int64), MOVES, share, "votes", "r"
        )

    def step(self, step: str, payload: bytes, session: Session) -> bytes:
        """One step, from the state on disk and back."""
        began = time.process_time()
        if step == "keys":
            state, sent = client.announce(Session.read(payload, session.nodes), self.name, self.identity)
        else:
            state = client.ClientState.read(self.state)
            match step:
                case "shares":
                    state, sent = client.share_secrets(state, payload)
                case "input":
                    state, sent = client.masked_input(state, payload, self._answer)
                case "agree":
                    state, sent = client.agree(state, payload, self.identity)
                case _:
                    state, sent = client.unmask(state, payload)
        self.state = state.to_bytes()
        self.seconds += time.process_time() - began
        self.bytes += len(payload) + len(sent)
        return sent


def session_for(nodes: list[Node], sparse: bool) -> Session:
    plan = plan_of(len(nodes))
    graph = neighborhood_of(plan.holders, plan.threshold, plan.honest, plan.colluding) if sparse else None
    # All others: whoever is left of them restores a secret.
    graph = graph or Neighborhood(plan.holders - 1, plan.threshold - 1)
    return Session("bench", 0, "r", CELLS, plan, {each.name: each.identity.public for each in nodes}, graph)


def sampled(holders: int, sparse: bool) -> tuple[float, float]:
    """Milliseconds and bytes of a node, by a few of them."""
    nodes = [Node(f"node-{number:05d}") for number in range(holders)]
    session = session_for(nodes, sparse)
    measured = nodes[:MEASURED]
    states: dict[str, Any] = {}
    said: dict[str, bytes] = {}
    # A node checks that its neighborhood is safe; so that everybody does not do so here, it is measured apart.
    began = time.process_time()
    exposure(holders, session.plan.honest, session.plan.colluding or 0, session.neighborhood)
    checking = time.process_time() - began
    allowed, type(session.neighborhood).require = type(session.neighborhood).require, lambda *_: None
    try:
        for each in nodes:
            if each in measured:
                said[each.name] = each.step("keys", session.announced, session)
            else:
                states[each.name], said[each.name] = client.announce(session, each.name, each.identity)
    finally:
        type(session.neighborhood).require = allowed
    keys = {name: read_keys(each, session, seen=True) for name, each in said.items()}
    with_neighbors(nodes, measured, session, said, states, keys)
    for each in measured:
        each.seconds += checking
    count = len(measured)
    return 1000 * sum(each.seconds for each in measured) / count, sum(each.bytes for each in measured) / count


def box(state: Any, mine: Keys, session: Session) -> bytes:  # noqa: ANN401
    """A box from another holder with some share in it."""
    shared = shared_secret(state.sealing, mine.sealing)
    key = derived(shared, "box", session.digest, state.node, mine.node)
    return boxed(
        key, os.urandom(31) + b"\0" + os.urandom(31) + b"\0", f"{session.digest} {state.node} {mine.node}".encode()
    )


def with_neighbors(
    nodes: list[Node],
    measured: list[Node],
    session: Session,
    said: dict[str, bytes],
    states: dict[str, Any],
    keys: dict[str, Keys],
) -> None:
    """The steps of nodes that mask with their neighbors."""
    drawn = {name: drawn_neighbors(each.choice, session, name) for name, each in keys.items()}
    neighbors = server.neighbors_of(drawn)
    for each in measured:
        each.step(
            "shares", write_roster({name: said[name] for name in (each.name, *neighbors[each.name])}, session), session
        )
    states |= {each.name: client.ClientState.read(each.state) for each in measured}
    survivors = frozenset(session.names[: session.plan.threshold])
    dropped = frozenset(session.names) - survivors
    bare = AgreementQuestion(survivors, dropped, {})
    signed = {each.name: each.identity.sign(bare.signed_part(session)) for each in nodes if each.name in survivors}
    agreements = write_agreements(signed, session)
    for each in measured:
        mine = keys[each.name]
        boxes = {name: box(states[name], mine, session) for name in neighbors[each.name] if each.name in drawn[name]}
        each.step("input", write_inbox(each.name, boxes, neighbors[each.name], session), session)
        tags = {
            name: tag_of(shared_secret(states[name].sealing, mine.sealing), session, name, each.name)
            for name in neighbors[each.name] & survivors
        }
        each.step("agree", replace(bare, tags=tags).to_bytes(session), session)
        each.step("unmask", agreements, session)


def whole(holders: int, sparse: bool) -> tuple[float, float, float]:
    """Milliseconds and bytes of a node, and seconds of the coordinator, with everybody taking part."""
    nodes = {each.name: each for each in (Node(f"node-{number:05d}") for number in range(holders))}
    session = session_for(list(nodes.values()), sparse)
    began, worked = time.process_time(), 0.0
    state, inbox = server.ServerState(session), dict.fromkeys(nodes, session.announced)
    lost = set(session.names[session.plan.threshold :])
    for step in STEPS:
        for name in inbox if step in ("keys", "shares") else inbox.keys() - lost:
            state = server.accept_message(state, name, nodes[name].step(step, inbox[name], session))
        state, inbox = server.close(state)
    server.result(state, "votes", (CELLS,))
    worked = sum(each.seconds for each in nodes.values())
    mean = sum(each.bytes for each in nodes.values()) / holders
    return 1000 * worked / holders, mean, time.process_time() - began - worked


def main() -> None:
    words = sys.argv[1:]
    everybody = words[:1] == ["--whole"]
    sizes = [int(each) for each in words[everybody:]] or SIZES
    rows = []
    for holders in sizes:
        graph = session_for([Node(str(number)) for number in range(holders)], sparse=True).neighborhood
        row: dict[str, Any] = {"holders": holders, "neighbors drawn": graph.degree if graph else holders - 1}
        row["shares that restore a secret"] = graph.shares if graph else plan_of(holders).threshold
        for title, sparse in (("all others", False), ("neighbors", True)):
            if everybody:
                milliseconds, size, seconds = whole(holders, sparse)
                row[f"coordinator s, {title}"] = round(seconds, 2)
            else:
                milliseconds, size = sampled(holders, sparse)
            row |= {f"CPU ms, {title}": round(milliseconds, 1), f"bytes, {title}": round(size)}
        rows.append(row)
        print(row, flush=True)
    columns = list(rows[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + " ---: |" * len(columns)]
    lines += ["| " + " | ".join(f"{row[each]:,}" for each in columns) + " |" for row in rows]
    about = (
        f"One node of a masked sum of {CELLS} cells, all steps, up and down; a tenth of the holders may drop out (and "
        "does, before the tables are sent), a tenth may collude, half of them make the noise. "
    )
    about += "Everybody took part." if everybody else f"Means of {MEASURED} nodes."
    name = "secure-aggregation-whole" if everybody else "secure-aggregation"
    text = f"# {name}\n\n{about}\n\n" + "\n".join(lines) + f"\n\n- {machine()}\n"
    print(text)
    if words[everybody:] == []:
        write_file(RESULTS / f"{name}.md", text.encode())
        write_file(RESULTS / f"{name}.json", (json.dumps({"about": about, "rows": rows}, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
