"""The default over nodes that trust nobody, beside the votes that it asked them for before.

Run: python benchmarks/default_nodes.py --folder DATA [--data adult,ag-news] [--runs 3] [--kept]

DATA has one folder per data set with its publisher's files (see experiments/development.py). Records are divided evenly
among nodes, each with noise and a ledger of its own (trust local, in this process), and encoded there by the encoder
that was fitted on the public samples. Every measurement is stored in .tacit-bench under its settings and a digest of
the code, so that an interrupted bench resumes. Writes docs/results/default-nodes.json and .md.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

import tacit
from experiments.development import DevelopmentSet, read_set
from experiments.measured import Memory, code_of
from experiments.noisy_logistic import scores
from experiments.table import Result, Row, write_result
from tacit.core import Ceiling, TacitWarning
from tacit.datasets.samples import samples_of
from tacit.encoders.kinds import recognize
from tacit.federation.node.node import Node
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.policy import Rules
from tacit.private.partition import split_evenly
from tacit.private.records import Private, Records

HERE = Path(__file__).parent
RESULTS, KEPT = HERE.parent / "docs" / "results", HERE.parent / ".tacit-bench"
EPSILONS, DELTA = (1.0, 0.1), 1e-5
NODES = {"adult": (5, 30), "ag-news": (5,)}
METHODS = {"auto": "the default", "rknn": "votes"}
RULES = Rules(
    ("rknn", "class_sums"),
    ("DiscreteLaplaceNoise", "RoundedGaussianNoise"),
    ("reverse k-NN labels", "class sums"),
    participants=2,
)
CODE = (
    "tacit.runs.distill",
    "tacit.methods.auto.method",
    "tacit.federation.node.node",
    "tacit.encoders.kinds",
    "experiments.development",
)


class Federation:
    """A development set whose records lie at nodes, with a run's score on its test part."""

    def __init__(self, parts: DevelopmentSet) -> None:
        encoder = recognize(samples_of(parts.public)).encoder
        self.classes = tuple(map(str, parts.classes))
        self.public, self.private, self.test = (
            np.asarray(samples_of(each) if encoder is None else encoder.encode(samples_of(each)))
            for each in (parts.public, parts.private[0], parts.test[0])
        )
        self.labels, self.truth = (
            np.array([self.classes.index(str(each)) for each in labels.tolist()])
            for labels in (parts.private[1], parts.test[1])
        )

    def measure(self, method: str, epsilon: float, count: int, seed: int) -> Mapping[str, float]:
        """Accuracy, and with two classes AUC, of one simulated run over this many nodes."""
        nodes = []
        for place, rows in enumerate(split_evenly(len(self.private), count)):
            name = f"node {place}"
            ledger = MemoryLedger({name: Ceiling(epsilon, DELTA)})
            own = Records(self.private[rows], self.labels[rows])
            nodes.append(Node(name, self.classes, Private(own), RULES, ledger, name, seed=1000 * seed + place))
        there = tacit.Nodes(lambda ask: [node.answer(ask) for node in nodes], nodes=count, records=len(self.private))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TacitWarning)
            run = tacit.distill(
                None, self.public, epsilon, delta=DELTA, method=method, classes=self.classes, request=f"run {seed}",
                exchange=there, trust="local",
            )  # fmt: skip
        known = [self.classes.index(str(each)) for each in run.student.classes_]
        chances = np.zeros((len(self.test), len(self.classes)))
        chances[:, known] = run.student.predict_proba(self.test)
        return scores(self.truth, chances)


def main() -> None:
    """Measure, print as it goes, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="one folder per data set")
    parser.add_argument("--data", default=",".join(NODES), help=f"some of {', '.join(NODES)}")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--kept", action="store_true", help="write what was measured so far, and measure nothing")
    given = parser.parse_args()
    memory, rows, code = Memory(KEPT / "default-nodes"), [], code_of(*CODE)
    for name in given.data.split(","):
        there = Federation(read_set(name, given.folder))
        for count in NODES[name]:
            for epsilon in EPSILONS:
                for method, line in METHODS.items():
                    runs = []
                    for seed in range(given.runs):
                        about = {
                            "data": name,
                            "nodes": count,
                            "ε": epsilon,
                            "method": method,
                            "seed": seed,
                            "code": code,
                        }
                        if not given.kept or memory.kept(about) is not None:
                            runs.append(memory.recall(about, partial(there.measure, method, epsilon, count, seed)))
                    rows.append(Row({"data": name, "nodes": str(count), "ε": f"{epsilon:g}", "line": line}, runs))
                    print(name, count, epsilon, line, [round(100 * run["test"], 1) for run in runs], flush=True)
    notes = [
        f"Each node pays ε at δ = {DELTA:g}; a record is protected, under replace-one adjacency, and nobody is trusted "
        "with a node's records: every node adds noise of its own. Public samples hold no private ones (assumed).",
        "ag-news: TF-IDF of the public texts; where MiniLM is installed its vectors are beside it.",
        "Nodes with seeds: simulations. Mean ± sample standard deviation.",
    ]
    caption = (
        "The default over nodes (class sums) and reverse k-NN votes: mean test accuracy and, of two classes, AUC, %."
    )
    measures = {"test": 100.0, "auc": 100.0, "processor seconds": 1.0}
    for file in write_result(Result("default-nodes", caption, rows, measures, notes).measured(), RESULTS):
        print(file)


if __name__ == "__main__":
    main()
