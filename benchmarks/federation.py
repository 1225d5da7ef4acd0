"""How a federation of one-record holders scales in one process: time, memory and bytes a holder.

Every holder is a node with a policy and a ledger of its own, asked over Flower's messages without a network. Bytes are
those of letters and replies; what a message says at least is the mechanism's own count of its bits.

Run: python benchmarks/federation.py [holders ...]
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from tacit.datasets.digits import digits
from tacit.exchange.flower_client import client_app
from tacit.exchange.flower_in_process import InProcessGrid, contexts
from tacit.exchange.flower_messages import payload_of
from tacit.exchange.flower_server import FlowerExchange
from tacit.exchange.node import Node
from tacit.exchange.node_simulated import RULES
from tacit.exchange.rounds import Terms
from tacit.experiment.federated import distill_federated
from tacit.experiment.machine import machine
from tacit.ledger.memory import Ceiling, MemoryLedger
from tacit.private.records import Private, Records

SIZES = (10, 100, 1000, 10_000)
QUERIES = 12


class Counting(InProcessGrid):
    """A grid that counts what crosses it."""

    def __init__(self, *arguments: Any, **more: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments, **more)
        self.down = self.up = 0

    def push_messages(self, messages: Iterable[Any]) -> list[str]:
        messages = list(messages)
        self.down += sum(len(payload_of(each)) for each in messages)
        return super().push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Any]:
        found = super().pull_messages(message_ids)
        for each in found:
            self.up += len(payload_of(each))
        return found


def crowd(count: int, epsilon: int) -> list[Node]:
    parts, source = digits(), np.random.default_rng(0)
    rows = source.integers(0, len(parts.private_labels), count)
    made = []
    for place, row in enumerate(rows):
        name = f"holder {place:05d}"
        own = Records(parts.private_samples[[row]], parts.private_labels[[row]])
        classes = tuple(map(str, parts.classes))
        made.append(Node(name, classes, Private(own), RULES, MemoryLedger({name: Ceiling(epsilon)}), name, seed=1))
    return made


def measure(count: int, representation: str, epsilon: int = 4) -> list[str]:
    parts = digits()
    nodes = crowd(count, epsilon)
    grid = Counting(client_app(lambda context: nodes[context.node_config["partition-id"]]), contexts(count))
    terms = Terms(expected=count, at_least=count, deadline=3600, grace=1, patience=1, records=1)
    exchange = FlowerExchange(grid, "bench", terms)
    spent = []

    def timed(ask: Any) -> list[Any]:  # noqa: ANN401
        bits.append(ask.mechanism.message_bits)
        began = time.perf_counter()
        answers = exchange(ask)
        spent.append(time.perf_counter() - began)
        return answers

    bits: list[int] = []
    run = distill_federated(
        timed, parts.public_samples, epsilon, classes=parts.classes, nodes=count, records=count, holders="records",
        queries=QUERIES, representation=representation, request="bench",
    )  # fmt: skip
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    right = 100 * np.mean(run.labels == parts.public_labels)
    return [
        f"{count:,}", f"{spent[0]:.1f}", f"{1000 * spent[0] / count:.1f}", f"{memory:.0f}",
        f"{grid.down / count:,.0f}", f"{grid.up / count:,.0f}", f"{bits[0] / 8:.0f}", f"{right:.0f} %",
    ]  # fmt: skip


def main() -> None:
    sizes = [int(each) for each in sys.argv[1:]] or SIZES
    print(f"one-record holders in one process, {QUERIES} queries, epsilon 4, principal components ({machine()})\n")
    names = (
        "holders",
        "round, s",
        "ms a holder",
        "peak MB",
        "bytes down",
        "bytes up",
        "bytes at least",
        "labels right",
    )
    print("| " + " | ".join(names) + " |\n|" + " ---: |" * len(names))
    for size in sizes:
        print("| " + " | ".join(measure(size, "pca")) + " |", flush=True)


if __name__ == "__main__":
    main()
