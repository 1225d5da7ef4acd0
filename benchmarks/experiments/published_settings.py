"""The baselines at the settings of their own papers, with the encoder and the student that the leaderboards have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from experiments.development import DevelopmentSet, read_set
from experiments.leaderboard import image_features
from experiments.leaderboard_lines import LINES
from experiments.leaderboard_parts import Encoded, Line, encoded
from experiments.leaderboard_shards import NearestLabels, components, plain
from experiments.leaderboard_voted import voted
from experiments.measured import Memory
from experiments.table import Result, Row

__all__ = ["CASES", "Case", "measured_cases"]


def confident(data: Encoded, _: float) -> dict[str, Any]:
    """Confident-GNMax on handwritten digits: 250 teachers, of 640 queries 286 answered, 200 teachers must agree."""
    return {
        "mechanism": "gnmax", "teachers": 250, "queries": 640, "answers": 286, "threshold": 0.8, "teacher": plain(),
        "student": NearestLabels(components(data, {}).public),
    }  # fmt: skip


def neighbors(data: Encoded, epsilon: float) -> dict[str, Any]:
    """Private k-NN on handwritten digits: 735 queries, each asked of 15 % of the records."""
    return voted(data, epsilon) | {"queries": 735, "rate": 0.15}


@dataclass(frozen=True)
class Case:
    """A baseline at its paper's setting: the ε that this setting is charged, and what the paper says."""

    data: str
    name: str
    line: Line
    epsilon: float
    setting: str
    published: str
    differs: str


CASES: Sequence[Case] = (
    Case(
        "mnist", "private_knn", Line("private_knn", neighbors), 0.47,
        "735 queries, rate .15; noise solved from ε", "98.8 at ε = .47",
        "votes on gradient histograms and a linear student, instead of a trained network's features and a "
        "semi-supervised student; k by the method's own rule",
    ),
    Case(
        "mnist", "pate confident", Line("pate", confident, samples=components), 2.757885,
        "250 teachers, 286 of 640 queries; noise solved from ε", "98.5 at ε = 1.97, which depends on the votes",
        "linear teachers on gradient histograms and a linear student, instead of convolutional networks and a "
        "generative student; the ε that holds for all votes",
    ),
    Case(
        "cifar10", "noisy_sgd", LINES["noisy_sgd"], 4.0, "one layer on fixed features", "73.7 at ε = 4",
        "features of a network trained on ImageNet, instead of the paper's; exact noise on 8 full sums of gradients",
    ),
    Case(
        "cifar10", "noisy_sgd two layers", LINES["noisy_sgd two layers"], 4.0, "two layers on fixed features",
        "78.5 at ε = 4", "features of a network trained on ImageNet, instead of the paper's",
    ),
)  # fmt: skip


def measured_cases(
    folder: Path,
    memory: Memory,
    data: Sequence[str] = (),
    runs: int = 1,
    tell: Callable[[str], None] = lambda _: None,
    kept: bool = False,
) -> Result:
    """The table, of these data sets alone where some are given."""
    rows, known = [], dict[str, Encoded]()
    for case in CASES:
        found: list[Mapping[str, Any]] = []
        if not data or case.data in data:
            if case.data not in known:
                known[case.data] = _encoded(read_set(case.data, folder))
            for seed in range(runs):
                about = case.line.about(f"{case.name} as published", known[case.data], case.epsilon, seed)
                run = memory.kept(about)
                if run is None and not kept:
                    run = memory.recall(about, partial(case.line.measure, known[case.data], case.epsilon, seed))
                    tell(f"{case.data} {case.name} ε = {case.epsilon:g} seed {seed}: {run['test']:.4f}")
                found += [] if run is None else [run]
        names = {"data": case.data, "method": case.name, "setting": case.setting, "ε": f"{case.epsilon:g}",
                 "adjacency": str(found[-1]["adjacency"]) if found else ""}  # fmt: skip
        rows.append(Row(names, found, {"test": case.published, "what differs": case.differs}))
    return Result(
        "published-settings",
        "The baselines at their papers' settings: mean test accuracy, %. δ = 1e-05; one record is protected.",
        rows,
        {"test": 100.0, "labels": 100.0, "processor seconds": 1.0},
        ("Parts, encoder and student of the leaderboards. No setting was chosen on private records or the test part.",),
    ).measured()


def _encoded(parts: DevelopmentSet) -> Encoded:
    return encoded(parts, image_features(parts))
