"""How a federation of one-record holders scales: time, memory and bytes per holder.

Every holder is a node with a policy and a ledger of its own, asked over Flower's messages: in one process, or by
Flower's simulation engine with its workers in processes of Ray. Bytes are those of requests and responses. What a
message says at least is the logarithm of how many different ones there are.

Run: python benchmarks/federation.py [holders ...]
     python benchmarks/federation.py --ray [holders ...]
     python benchmarks/federation.py --bytes

Ray gives itself half a minute to start. Where that is too short, start it before: ray start --head, and name its
address in RAY_ADDRESS.
"""

from __future__ import annotations

import math
import os
import resource
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Message
from flwr.serverapp import Grid, ServerApp

import tacit
from tacit.core import Ceiling
from tacit.datasets.published import digits
from tacit.federation.coordinator import RoundPolicy
from tacit.federation.flower.client import SIMULATED_RULES, InProcessGrid, client_app, contexts, simulated_node
from tacit.federation.flower.processes import QUIET
from tacit.federation.flower.server import FlowerExchange, content_of, payload_of
from tacit.federation.keys import OVERHEAD
from tacit.federation.messages import ANSWER, Response
from tacit.federation.node.node import Node
from tacit.ledger import open_ledger
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.shuffle.single_message import SingleMessage
from tacit.private.records import Private, Records
from tacit.runs.folders import machine

SIZES = (10, 100, 1000, 10_000)
RAY_SIZES = (10, 100, 1000)
QUERIES, EPSILON = 12, 4
COLUMNS = (
    "holders", "round, s", "CPU s", "CPU ms per holder", "of it coordinator", "peak MB", "bytes down", "bytes up",
    "bytes at least", "labels right",
)  # fmt: skip


class Counted:
    """A grid that counts what crosses it."""

    def __init__(self, grid: Any) -> None:  # noqa: ANN401
        self._grid = grid
        self.down = self.up = 0

    def get_nodes(self) -> Any:  # noqa: ANN401
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Any]) -> Any:  # noqa: ANN401
        messages = list(messages)
        self.down += sum(len(payload_of(each)) for each in messages)
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Any]:
        found = list(self._grid.pull_messages(message_ids))
        self.up += sum(len(payload_of(each)) for each in found)
        return found


class Holders:
    """One-record holders, made when they are asked first; ``seconds`` is what they work."""

    def __init__(self, count: int) -> None:
        self._parts = digits()
        self._rows = np.random.default_rng(0).integers(0, len(self._parts.private_labels), count)
        self._made: dict[int, Node] = {}
        self.seconds = 0.0

    def node(self, context: Context) -> Node:
        place = int(context.node_config["partition-id"])
        if place not in self._made:
            name, row = f"holder {place:05d}", self._rows[[place]]
            own = Records(self._parts.private_samples[row], self._parts.private_labels[row])
            classes = tuple(map(str, self._parts.classes))
            ledger = open_ledger("memory:", {name: Ceiling(EPSILON)})
            self._made[place] = Node(name, classes, Private(own), SIMULATED_RULES, ledger, name, seed=1)
        return self._made[place]


def least_bits(mechanism: Any) -> float:  # noqa: ANN401
    """What a message says at least."""
    if isinstance(mechanism, SubsetSelection):
        return math.log2(math.comb(mechanism.cells, mechanism.size))
    return float(mechanism.message_bits)


def asked(grid: Any, count: int) -> tuple[list[str], float, float]:  # noqa: ANN401
    """One run over a grid: the figures that all ways have, the seconds of its round, and those of its processor."""
    parts, counted, spent, bits = digits(), Counted(grid), [], []
    terms = RoundPolicy(expected=count, at_least=count, deadline=3600, grace=1, patience=60, records=1)
    exchange = FlowerExchange(counted, "bench", terms)

    def timed(ask: Any) -> list[Any]:  # noqa: ANN401
        bits.append(least_bits(ask.mechanism))
        began, worked = time.perf_counter(), time.process_time()
        answers = exchange(ask)
        spent.append((time.perf_counter() - began, time.process_time() - worked))
        return answers

    run = tacit.distill(
        None, parts.public_samples, EPSILON, classes=parts.classes, queries=QUERIES, representation="pca",
        student="logistic", exchange=tacit.Nodes(timed, nodes=count, records=count, holders="records"), request="bench",
    )  # fmt: skip
    right = 100 * np.mean(run.labels == parts.public_labels)
    figures = [f"{counted.down / count:,.0f}", f"{counted.up / count:,.0f}", f"{bits[0] / 8:.1f}", f"{right:.0f} %"]
    return figures, *spent[0]


def in_process(count: int) -> list[str]:
    holders = Holders(count)
    app = client_app(holders.node)

    def answered(message: Any, context: Context) -> Any:  # noqa: ANN401
        began = time.process_time()
        reply = app(message, context)
        holders.seconds += time.process_time() - began
        return reply

    figures, seconds, busy = asked(InProcessGrid(answered, contexts(count)), count)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    own = 1000 * (busy - holders.seconds) / count
    return [
        f"{count:,}", f"{seconds:.1f}", f"{busy:.1f}", f"{1000 * busy / count:.1f}", f"{own:.2f}", f"{memory:.0f}",
        *figures,
    ]  # fmt: skip


class Memory(threading.Thread):
    """The most memory that this process, all it started and all of Ray had together, shared pages once."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0.0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(1.0):
            everything = {os.getpid(), *_below(os.getpid()), *_engine()}
            self.peak = max(self.peak, sum(map(_proportional, everything)) / 1024)


def _below(process: int) -> list[int]:
    found = []
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            for child in map(int, file.read_text().split()):
                found += [child, *_below(child)]
        except OSError:
            continue
    return found


def _engine() -> list[int]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes()
        except OSError:
            continue
        if command.startswith(b"ray::") or b"/site-packages/ray/" in command:
            found.append(int(file.parent.name))
    return found


def _proportional(process: int) -> int:
    try:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def by_ray(count: int) -> list[str]:
    """The same by Flower's simulation engine, one worker a core; there are as many holders as records at most."""
    from flwr.simulation import run_simulation

    records, found = len(digits().private_labels), []
    server = ServerApp()

    def node(context: Context) -> Node:
        # By its place alone: what a worker is sent with every message must be small.
        settings = {"simulation": "digits", "seed": 1}
        return simulated_node(int(context.node_config["partition-id"]), records, settings)

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        # Workers start with their first message, which may be any.
        began = time.perf_counter()
        while len(there := list(grid.get_nodes())) < count:
            time.sleep(0.5)
        first = [each.node_id for each in there][: 2 * (os.cpu_count() or 1)]
        list(grid.send_and_receive([Message(content_of(b""), each, ANSWER) for each in first]))
        print(f"workers started in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        found.append(asked(grid, count))

    memory, began = Memory(), time.perf_counter()
    memory.start()
    run_simulation(server, client_app(node), count, backend_config={"client_resources": {"num_cpus": 1}})
    whole = time.perf_counter() - began
    memory.over.set()
    figures, seconds, _ = found[0]
    print(f"{count} holders by Ray: {whole:.0f} s with the engine's start and end", file=sys.stderr)
    return [f"{count:,}", f"{seconds:.1f}", "", "", "", f"{memory.peak:.0f}", *figures]


def by_size() -> None:
    """What replies take, over queries and epsilon: what is said, what is sent, and what a sealed box makes of it."""
    print(
        "| queries | epsilon | bytes at least | packed | response | times | encrypted for a shuffler |\n|"
        + " ---: |" * 7
    )
    for queries, epsilon in ((12, 4), (12, 1), (50, 4), (50, 1), (200, 4), (200, 1)):
        cells = 10 * queries
        mechanism = SubsetSelection(cells, 1, epsilon)
        least, packed = least_bits(mechanism) / 8, SingleMessage(mechanism, 1000, "1e-6").code.size
        reply = len(Response(bytes(4), bytes(9 + packed)).to_bytes())
        print(
            f"| {queries} | {epsilon} | {least:.1f} | {packed} | {reply} | {reply / least:.1f} | "
            f"{OVERHEAD + 1 + packed} |"
        )


def main() -> None:
    words = sys.argv[1:]
    if words == ["--bytes"]:
        return by_size()
    ray = words[:1] == ["--ray"]
    measure, standard = (by_ray, RAY_SIZES) if ray else (in_process, SIZES)
    if ray:
        os.environ.update(QUIET)
    where = "by Flower's simulation engine" if ray else "in one process"
    print(f"one-record holders {where}, {QUERIES} queries, epsilon {EPSILON}, principal components ({machine()})\n")
    print("| " + " | ".join(COLUMNS) + " |\n|" + " ---: |" * len(COLUMNS))
    for size in [int(each) for each in words[ray:]] or standard:
        print("| " + " | ".join(measure(size)) + " |", flush=True)


if __name__ == "__main__":
    main()
