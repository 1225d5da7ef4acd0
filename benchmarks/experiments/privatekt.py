"""PrivateKT measured: single runs, and federated averaging without privacy beside them.

Every run is a simulation with a seed. It is kept round by round and its figures once it is over, so a bench that was
stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.measured import Memory, code_of
from experiments.privatekt_data import DATA, Data, Setting
from experiments.table import Row
from tacit.core import InvalidInput
from tacit.datasets.published import Parts
from tacit.datasets.table import class_indices
from tacit.methods.privatekt.holder import models
from tacit.methods.privatekt.options import PrivateKT
from tacit.methods.task import Observer
from tacit.private.partition import split_by_dirichlet
from tacit.runs.distill import distill
from tacit.runs.task import Partition

__all__ = ["TransferBench"]

# Rounds between two looks at the test set.
EVERY = 10


@dataclass(frozen=True)
class TransferBench:
    """One data set at hand, how often each line is run, and where measurements are kept.

    ``rounds`` shortens every run, where a longer one takes too long.
    """

    name: str
    parts: Parts
    data: Data
    cache: Path
    runs: int
    tell: Callable[[str], None]
    rounds: int | None = None
    beliefs: NDArray[Any] | None = None

    @classmethod
    def open(
        cls, name: str, folder: Path, cache: Path, runs: int, tell: Callable[[str], None], rounds: int | None = None
    ) -> TransferBench:
        """Read the data set from its published files."""
        if name not in DATA:
            raise InvalidInput(f"unknown data set {name!r}: choose one of {', '.join(DATA)}")
        tell(f"reading {name}")
        return cls(name, DATA[name].parts(folder, cache), DATA[name], cache, runs, tell, rounds)

    @property
    def main(self) -> Setting:
        """The setting of the main row."""
        return replace(self.data.setting, rounds=self.rounds or self.data.setting.rounds)

    @property
    def short(self) -> Setting:
        """The same with the rounds of a comparison of many settings."""
        return replace(self.data.setting, rounds=self.rounds or self.data.short)

    def row(self, what: str, setting: Setting, published: Mapping[str, str] | None = None) -> Row:
        """One line of a table: the same setting with as many seeds as there are runs."""
        return Row({"what": what}, [self.run(what, setting, seed) for seed in range(self.runs)], published or {})

    def run(self, what: str, setting: Setting, seed: int, parts: Parts | None = None) -> dict[str, Any]:
        """The accuracy, its curve and the price of one run, as found in the cache or measured now."""
        used = self.parts if parts is None else parts
        words = {"bench": "privatekt", "data": self.name, "setting": repr(setting), "seed": seed}
        if setting.groups is not None:
            words["code"] = code_of("tacit.methods.privatekt.method", "tacit.methods.privatekt.holder")
        if parts is not None:
            words["parts"] = hashlib.sha256(parts.private_labels.tobytes()).hexdigest()[:16]
        kept = self.cache / "rounds" / hashlib.sha256(repr(words).encode()).hexdigest()[:24]

        def tell(turn: int) -> None:
            if turn % EVERY == 0:
                self.tell(f"{what}, run {seed + 1}: round {turn} of {setting.rounds}")

        def measure() -> dict[str, Any]:
            method = PrivateKT(
                round_epsilon=setting.round_epsilon, rounds=setting.rounds, queries_per_round=setting.answers,
                participation=setting.participation, model=setting.model, learning=setting.learning,
                teaching=setting.teaching, eval_every=EVERY, local=setting.local, groups=setting.groups,
                representation="auto" if setting.groups is None else setting.representation,
                beliefs=self.beliefs if setting.names else None,
            )  # fmt: skip
            holders = setting.holders
            made = distill(
                (used.private_samples, used.private_labels), used.public_samples, setting.epsilon,
                delta=setting.delta, method=method, classes=used.classes, seed=seed,
                # A run without networks is over in seconds.
                checkpoint=kept if isinstance(setting.model, str) else None,
                holders=holders if setting.alpha is None else Partition(holders, "dirichlet", setting.alpha),
                test=(used.test_samples, used.test_labels), observer=Observer(progress=tell),
            )  # fmt: skip
            # What the run could have gone on from would replay it, were it ever measured again.
            shutil.rmtree(kept, ignore_errors=True)
            return {
                "accuracy": made.metrics["curve"][-1][1],
                "curve": [list(point) for point in made.metrics["curve"]],
                "epsilon": float(made.guarantee.epsilon),
                "round epsilon": float(Fraction(made.recipe["round_epsilon"])),
                "participations": made.recipe["max_participations"],
                "rounds": made.metrics["rounds"],
            }

        found = Memory(self.cache).recall(words, measure)
        self.tell(f"{what}, run {seed + 1}: {100 * found['accuracy']:.1f} %, {found['processor seconds']:.0f} s")
        return found

    def averaging(self, setting: Setting) -> Row:
        """Federated averaging without any privacy: the same networks and local training, weights in the clear."""
        runs = [self._averaged(setting, seed) for seed in range(self.runs)]
        return Row({"what": f"federated averaging, no privacy, {setting.rounds} rounds"}, runs)

    def _averaged(self, setting: Setting, seed: int) -> dict[str, Any]:
        parts = self.parts

        def measure() -> dict[str, Any]:
            trainer, local = models(setting.model, None, parts.public_samples, parts.classes, setting.learning, seed)
            labels = class_indices(parts.private_labels, parts.classes)
            shares = split_by_dirichlet(labels, setting.holders, setting.alpha, seed)
            prepared = [local.prepare(parts.private_samples[rows], labels[rows]) for rows in shares]
            true, model, points = class_indices(parts.test_labels, parts.classes), trainer.begin(), []
            invited = max(1, round(setting.participation * setting.holders))
            for turn in range(1, setting.rounds + 1):
                start = turn * invited
                guests = [prepared[(start + place) % len(prepared)] for place in range(invited)]
                model = local.averaged(guests, model, seed + 1000 * turn)  # type: ignore[attr-defined]
                if turn % EVERY == 0 or turn == setting.rounds:
                    guessed = trainer.probabilities(model, parts.test_samples).argmax(axis=1)
                    points.append((turn, float(np.mean(guessed == true))))
            return {"accuracy": points[-1][1], "curve": [list(point) for point in points], "rounds": setting.rounds}

        words = {"bench": "federated averaging", "data": self.name, "setting": repr(setting), "seed": seed}
        return Memory(self.cache).recall(words, measure)
