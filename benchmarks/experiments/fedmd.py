"""FedMD measured: over subset sizes, kinds of answers, partitions of the data, parties, rounds, and guarantees.

Every run is a simulation with a seed, kept once it is over, so a bench that was stopped goes on where it was. Sets that
the paper uses are not always at hand; what stands in for them is in ``experiments.fedmd_data``, and every
caption names it. Published figures are shown beside ours for their trend, not for their value.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.fedmd_data import STAND_INS, StandIn, partitioned
from experiments.fedmd_pooled import centralized
from experiments.measured import Memory
from experiments.table import Result, Row
from tacit.core import InvalidInput
from tacit.methods.fedmd.exposure import WeakPrivacyWarning
from tacit.methods.fedmd.models import Schedule, StartingModel, party_models
from tacit.methods.fedmd.options import FedMD
from tacit.runs.distill import distill

__all__ = ["BENCHED", "MEASURES", "PAPER", "SHORT", "FedBench", "FedSetting"]

MEASURES = {"before": 100.0, "after": 100.0, "processor seconds": 1.0}
# Convolutions of two depths and two widths, a perceptron, and a scikit-learn model: what a party costs is bearable.
BENCHED = ("two-convolutions", "three-convolutions", "perceptron", "two-narrow-convolutions", "logistic")
PRETRAINED = 5  # epochs


@dataclass(frozen=True)
class FedSetting:
    """One way to run a federation; the defaults are the paper's, with models of five kinds.

    ``records`` is how many of the private records are used at all, divided among the parties.
    """

    variant: str = "nfdp"
    parties: int = 10
    how: str = "iid"
    subset: int | None = 60
    kind: str = "argmax"
    rounds: int = 20
    queries: int = 5000
    own: int = 20
    epsilon: str | None = None
    delta: str = "0"
    mechanism: str = "subset-selection"
    records: int | None = None
    models: tuple[str, ...] = BENCHED

    @property
    def schedule(self) -> str:
        """How long it is trained, in words."""
        return (
            f"{self.own} epochs on own records, then {self.rounds} rounds of {self.queries:,} public samples, "
            "2 epochs on the consensus and 1 on own records"
        )


PAPER = FedSetting()
# A tenth of the paper's work; what it costs in accuracy is shown by the figure ``schedule``.
SHORT = FedSetting(rounds=10, queries=1000)


@dataclass(frozen=True)
class FedBench:
    """A stand-in at hand, how often each line is run, and where measurements are kept."""

    name: str
    data: StandIn
    memory: Memory
    runs: int
    tell: Callable[[str], None]
    setting: FedSetting = SHORT
    _pretrained: dict[tuple[int, tuple[str, ...]], list[StartingModel]] = field(default_factory=dict)

    @classmethod
    def open(cls, name: str, folder: Path, cache: Path, runs: int, tell: Callable[[str], None]) -> FedBench:
        """Read the stand-in from its published files."""
        if name not in STAND_INS:
            raise InvalidInput(f"unknown data set {name!r}: choose one of {', '.join(STAND_INS)}")
        tell(f"reading {name}")
        return cls(name, STAND_INS[name](folder), Memory(cache), runs, tell)

    def row(
        self, names: Mapping[str, str], setting: FedSetting, published: Mapping[str, str] | None = None,
        runs: int | None = None,
    ) -> Row:  # fmt: skip
        """One line of a table: the same setting with as many seeds as there are runs."""
        found = []
        for seed in range(1, (runs or self.runs) + 1):
            found.append(self.measure(setting, seed))
            words = " · ".join(value for value in names.values() if value)
            self.tell(f"{words}, run {seed}: {_figures(found[-1])}")
        return Row(names, found, published or {})

    def result(self, figure: str, caption: str, rows: Sequence[Row], notes: Sequence[str] = ()) -> Result:
        """A table about this stand-in, with what holds for its rows."""
        about = f"{caption} Data: {self.data.name}."
        cost = "Processor seconds are those of a run without its pretraining, which runs of one seed share."
        return Result(f"fedmd-{self.name}-{figure}", about, rows, MEASURES, [*notes, cost, *_held(rows)])

    def measure(self, setting: FedSetting, seed: int) -> dict[str, Any]:
        """Mean accuracy before and after, the curve over rounds and the claim, from the cache or measured now."""
        data = self.data
        if setting.records is not None:
            kept = slice(0, setting.records)
            owners = None if data.owners is None else data.owners[kept]
            data = replace(data, samples=data.samples[kept], labels=data.labels[kept], owners=owners)
        words = {"bench": "fedmd 2", "data": data.name, "records": len(data.labels), "tested": len(data.test[1]),
                 "seed": seed, **asdict(setting), "models": list(setting.models)}  # fmt: skip

        def run() -> dict[str, Any]:
            models = self._models(setting.models, seed)
            worked = time.process_time()
            with warnings.catch_warnings():
                # Every table says of every row what it protects; the warning beside each run would say it again.
                warnings.simplefilter("ignore", WeakPrivacyWarning)
                # What is measured are the holders' models, whatever the coordinator's own student learns.
                warnings.filterwarnings("ignore", "the holders have no consensus")
                found = _pooled(data, setting, models) if setting.variant == "centralized" else _federated(
                    data, setting, models, seed
                )  # fmt: skip
            return {**found, "federation seconds": round(time.process_time() - worked, 1)}

        found = self.memory.recall(words, run)
        # What all runs with this seed share is in the time of the first one only, so the rest is what is compared.
        return {**found, "processor seconds": found["federation seconds"]}

    def _models(self, names: tuple[str, ...], seed: int) -> list[StartingModel]:
        """One pretrained model a kind; runs with the same seed start from the same ones."""
        if (seed, names) not in self._pretrained:
            data, labels, kinds = self.data, None, len(self.data.classes)
            # Public labels of the same classes would solve the task by themselves; then there is no pretraining.
            if data.public_labels is not None and not np.isin(data.public_labels, data.classes).all():
                others, labels = np.unique(data.public_labels, return_inverse=True)
                kinds = len(others)
            self._pretrained[seed, names] = party_models(
                names, len(names), data.public, len(data.classes), labels, kinds, PRETRAINED, seed
            )
        return self._pretrained[seed, names]


def _pooled(data: StandIn, setting: FedSetting, models: Sequence[StartingModel]) -> dict[str, Any]:
    shared = partitioned(data, setting.parties, setting.how, seed=0)
    found = centralized(shared, data.public, data.test, classes=data.classes, models=models, epochs=setting.own)
    # As many of each kind as there are among the parties.
    kinds = [found[party % len(found)] for party in range(setting.parties)]
    return {"after": float(np.mean(kinds)), "claim": "no privacy: all records in one place"}


def _federated(data: StandIn, setting: FedSetting, models: Sequence[StartingModel], seed: int) -> dict[str, Any]:
    method = FedMD(
        variant=setting.variant, models=models, rounds=setting.rounds,
        queries=min(setting.queries, len(data.public)), kind=setting.kind, schedule=Schedule(own=setting.own),
        subset=setting.subset, mechanism=setting.mechanism,
    )  # fmt: skip
    run = distill(
        partitioned(data, setting.parties, setting.how, seed=seed), data.public, setting.epsilon, delta=setting.delta,
        method=method, classes=data.classes, test=data.test, seed=seed,
    )  # fmt: skip
    made = run.holder_models
    assert made is not None
    assert made.accuracies is not None
    return {
        "before": made.before,
        "after": made.after,
        "curve": made.accuracies.mean(axis=1).round(6).tolist(),
        "parties": made.accuracies[-1].round(6).tolist(),
        "claim": str(run.guarantee),
    }


def _figures(run: Mapping[str, Any]) -> str:
    shares = [f"{name} {100 * run[name]:.1f} %" for name in ("before", "after") if name in run]
    return ", ".join([*shares, f"{run['processor seconds']:.0f} s"])


def _held(rows: Sequence[Row]) -> list[str]:
    """What holds, each sentence once with the rows it is about: the claims without what the seed makes of them."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for line in str(row.runs[0]["claim"]).splitlines():
            if line.startswith(("NO ", "no ", "NOT ", "Total-variation", "With system randomness")):
                found.setdefault(line, []).append(", ".join(value for value in row.names.values() if value))
    said = [f"{'every row' if len(names) == len(rows) else '; '.join(names)}: {line}" for line, names in found.items()]
    return ["All runs are simulations with a seed.", *said]
