"""The cost of secure aggregation for one node, in processor time and bytes: masks with all others, or with neighbors.

A few nodes go through all steps with real messages, each step from its state on disk and back, as a process for every
message does it. The other holders are there as far as these nodes need them: keys, sealed boxes, tags and signatures
are real, and nobody adds up tables that no measured node sees.

``--whole`` runs everybody instead, with the coordinator, whose work is measured, too. The noise is seeded, so that the
sum can be computed in one place: the sum that comes out must be equal. With all others it is run up to a hundred
holders: its cost grows with the square of their number.

Run: python benchmarks/secure_aggregation.py [--whole] [--out docs/results] [holders ...]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core import Ceiling, SeededRandomness, Sensitivity, SystemRandomness
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
# Of sums in which everybody takes part; and up to which of them everybody masks with all others.
WHOLE_SIZES, LARGEST_COMPLETE = (100, 300, 1000), 100
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

    def __init__(self, name: str, seed: int | None = None) -> None:
        self.name, self.identity, self.seed = name, SigningIdentity.new(), seed
        self.seconds, self.bytes, self.state = 0.0, 0, b""
        gate = Gate(MemoryLedger({name: Ceiling(1)}), name, self.randomness)
        self.table = np.arange(CELLS, dtype=np.int64) % (len(name) + (seed or 0) % 7)
        self._answer = lambda share: gate.release(
            Private(self.table), lambda: np.zeros(CELLS, dtype=np.int64), MOVES, share, "votes", "r"
        )

    @property
    def randomness(self) -> SeededRandomness | SystemRandomness:
        """That of its noise: with a seed the same from the start."""
        return SystemRandomness() if self.seed is None else SeededRandomness(self.seed)

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


def whole(holders: int, sparse: bool) -> dict[str, Any]:
    """Milliseconds and bytes of a node, seconds of the coordinator, and whether the sum is exact, with everybody."""
    nodes = {each.name: each for each in (Node(f"node-{number:05d}", number) for number in range(holders))}
    session = session_for(list(nodes.values()), sparse)
    began = time.process_time()
    state, inbox = server.ServerState(session), dict.fromkeys(nodes, session.announced)
    lost = set(session.names[session.plan.threshold :])
    for step in STEPS:
        for name in inbox if step in ("keys", "shares") else inbox.keys() - lost:
            state = server.accept_message(state, name, nodes[name].step(step, inbox[name], session))
        state, inbox = server.close(state)
    found = server.result(state, "votes", (CELLS,)).value
    took, worked = time.process_time() - began, sum(each.seconds for each in nodes.values())
    left = [each for name, each in nodes.items() if name not in lost]
    expected = sum(each.table + session.plan.share(CELLS, each.randomness) for each in left)
    return {
        "CPU ms": round(1000 * worked / holders, 1),
        "bytes": round(sum(each.bytes for each in nodes.values()) / holders),
        "coordinator s": round(took - worked, 2),
        "exact": bool(np.array_equal(found, expected)),
    }


def row_of(holders: int, everybody: bool) -> dict[str, Any]:
    """One row of the table."""
    graph = session_for([Node(str(number)) for number in range(holders)], sparse=True).neighborhood
    row: dict[str, Any] = {"holders": holders, "neighbors drawn": graph.degree if graph else holders - 1}
    row["shares that restore a secret"] = graph.shares if graph else plan_of(holders).threshold
    for title, sparse in (("all others", False), ("neighbors", True)):
        if everybody:
            taken = sparse or holders <= LARGEST_COMPLETE
            found = whole(holders, sparse) if taken else dict.fromkeys(("CPU ms", "bytes", "coordinator s", "exact"))
        else:
            milliseconds, size = sampled(holders, sparse)
            found = {"CPU ms": round(milliseconds, 1), "bytes": round(size)}
        row |= {f"{name}, {title}": each for name, each in found.items()}
    return row


def cell(value: Any) -> str:  # noqa: ANN401
    """A value in the table; what was not measured is empty."""
    return "" if value is None else ("NO", "yes")[value] if isinstance(value, bool) else f"{value:,}"


def page(rows: list[dict[str, Any]], name: str, about: str) -> str:
    columns = list(rows[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + " ---: |" * len(columns)]
    lines += ["| " + " | ".join(cell(row[each]) for each in columns) + " |" for row in rows]
    return f"# {name}\n\n{about}\n\n" + "\n".join(lines) + f"\n\n- {machine()}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("holders", type=int, nargs="*", help="how many take part; by default several numbers")
    parser.add_argument("--whole", action="store_true", help="everybody takes part, and the coordinator")
    parser.add_argument("--out", type=Path, help="where to write; by default docs/results, if no numbers are named")
    options = parser.parse_args()
    out = options.out or (None if options.holders else RESULTS)
    name = "secure-aggregation-whole" if options.whole else "secure-aggregation"
    about = (
        f"One node of a masked sum of {CELLS} cells, all steps, up and down; a tenth of the holders may drop out (and "
        "does, before the tables are sent), a tenth may collude, half of them make the noise. "
    )
    about += (
        "Everybody took part, in one process; the coordinator's processor seconds are for the whole sum. Exact: the "
        "sum equals that of the same tables and noise added up in one place. "
        "`python benchmarks/secure_aggregation.py --whole`."
        if options.whole
        else f"Means of {MEASURED} nodes."
    )
    rows: list[dict[str, Any]] = []
    for holders in options.holders or (WHOLE_SIZES if options.whole else SIZES):
        rows.append(row_of(holders, options.whole))
        print(rows[-1], flush=True)
        if out is not None:
            # After each number: the last is most of the work.
            write_file(out / f"{name}.md", page(rows, name, about).encode())
            write_file(out / f"{name}.json", (json.dumps({"about": about, "rows": rows}, indent=1) + "\n").encode())
    print(page(rows, name, about))
    if any(value is False for row in rows for value in row.values()):
        sys.exit("a sum is not exact")


if __name__ == "__main__":
    main()
