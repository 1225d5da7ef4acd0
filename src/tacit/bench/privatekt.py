"""PrivateKT measured: the authors' setting, what each helper is worth, what a total budget buys, and no privacy beside.

Every run is a simulation with a seed. It is kept round by round and its figures once it is over, so a bench that was
stopped goes on where it was. Nothing is tuned on private or test data: a schedule is a row of the table, not a choice.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.bench.measured import Memory
from tacit.bench.table import Result, Row
from tacit.datasets.classes import class_indices
from tacit.datasets.digits import Parts
from tacit.datasets.mnist import mnist
from tacit.datasets.splits import rows_of, split
from tacit.experiment.privatekt import transfer
from tacit.methods.privatekt.coordinator import Teaching
from tacit.methods.privatekt.models import Learning, models
from tacit.private.partition import split_by_dirichlet

__all__ = ["AUTHORS", "Setting", "ablation", "averaging", "curve", "growth", "measure", "mnist_parts", "repartitioned",
           "totals"]  # fmt: skip

Progress = Callable[[str, int], None]
# Rounds between two looks at the test set.
EVERY = 10


@dataclass(frozen=True)
class Setting:
    """One way to run: who is asked how often at what price, and what is made of the answers."""

    round_epsilon: str | None = "5"
    epsilon: str | None = None
    delta: str = "1e-5"
    rounds: int = 500
    answers: int = 2
    holders: int = 80
    alpha: float = 0.5
    participation: float = 0.5
    model: str = "auto"
    learning: Learning = field(default_factory=Learning)
    teaching: Teaching = field(default_factory=lambda: Teaching(pool=3000))


# 80 holders, half of them a round, two answers each at ε = 5 a round, a buffer of 25 rounds, 500 rounds.
AUTHORS = Setting()
PUBLISHED = {("mnist", "ε = 5 a round"): {"accuracy": "95.1"}}


def mnist_parts(folder: str | Path) -> Parts:
    """MNIST with 48,000 private and 12,000 public samples of the training file, and the test file for the test."""
    known = mnist(folder)
    test = np.concatenate([known.public_samples, known.test_samples])
    labels = np.concatenate([known.public_labels, known.test_labels])
    return repartitioned("mnist", (known.private_samples, known.private_labels), (test, labels), 12_000)


def repartitioned(
    name: str, known: tuple[NDArray[Any], NDArray[Any]], test: tuple[NDArray[Any], NDArray[Any]], public: int
) -> Parts:
    """So many public samples of a training set and the rest private, always the same; images are scaled to [0, 1].

    For text, hand over what an encoder that never saw the set makes of it.

    >>> parts = repartitioned("toy", (np.zeros((5, 2)), np.arange(5) % 2), (np.zeros((1, 2)), np.zeros(1)), public=2)
    >>> len(parts.private_samples), len(parts.public_samples)
    (3, 2)
    """
    samples, labels = known
    letters = split(f"{name} privatekt", len(labels), {"public": public, "private": len(labels) - public})
    mine, shown = rows_of(letters, "private"), rows_of(letters, "public")

    def scaled(values: NDArray[Any]) -> NDArray[Any]:
        return values.astype(np.float32) / 255 if values.dtype == np.uint8 else values

    return Parts(
        scaled(samples[mine]), labels[mine], scaled(samples[shown]), labels[shown], scaled(test[0]), test[1],
        np.unique(labels),
    )  # fmt: skip


def measure(
    parts: Parts, name: str, setting: Setting, seed: int, cache: Path, progress: Progress | None = None
) -> dict[str, Any]:
    """The accuracy, its curve and the price of one run, as found in the cache or measured now."""
    words = {"bench": "privatekt", "data": name, "setting": repr(setting), "seed": seed}

    def run() -> dict[str, Any]:
        made = transfer(
            (parts.private_samples, parts.private_labels),
            parts.public_samples,
            setting.epsilon,
            delta=setting.delta,
            round_epsilon=setting.round_epsilon,
            rounds=setting.rounds,
            answers=setting.answers,
            holders=setting.holders,
            alpha=setting.alpha,
            participation=setting.participation,
            model=setting.model,
            learning=setting.learning,
            teaching=setting.teaching,
            classes=parts.classes,
            test=(parts.test_samples, parts.test_labels),
            every=EVERY,
            seed=seed,
            keep=cache / "rounds" / hashlib.sha256(repr(words).encode()).hexdigest()[:24],
            progress=None if progress is None else lambda turn: progress(repr(setting), turn),
        )
        return {
            "accuracy": made.curve[-1][1],
            "curve": [list(point) for point in made.curve],
            "epsilon": float(made.guarantee.epsilon),
            "round epsilon": float(made.plan.sheet.epsilon),
            "participations": made.plan.most,
        }

    return Memory(cache).recall(words, run)


def curve(
    parts: Parts,
    name: str,
    cache: Path,
    rounds: int = 500,
    runs: int = 3,
    progress: Progress | None = None,
    epsilons: Sequence[str] = ("1", "2", "5", "10"),
) -> Result:
    """Accuracy over ε a round, and what each adds up to, beside federated averaging without privacy."""
    settings = {f"ε = {each} a round": replace(AUTHORS, round_epsilon=each, rounds=rounds) for each in epsilons}
    rows = _rows(parts, name, settings, runs, cache, progress)
    rows = [replace(row, published=PUBLISHED.get((name, row.names["what"]), {})) for row in rows]
    plain = [averaging(parts, name, replace(AUTHORS, rounds=min(rounds, 50)), seed, cache) for seed in range(runs)]
    rows.append(Row({"what": "federated averaging, no privacy, at most 50 rounds"}, plain))
    return _result(f"privatekt-{name}", f"PrivateKT on {name} over ε a round, {rounds} rounds.", rows)


def ablation(
    parts: Parts, name: str, cache: Path, rounds: int = 500, runs: int = 3, progress: Progress | None = None
) -> Result:
    """What each of the three helpers is worth, and each kind of target."""
    whole = replace(AUTHORS, rounds=rounds)

    def without(**changes: Any) -> Setting:  # noqa: ANN401
        return replace(whole, teaching=replace(whole.teaching, **changes))

    settings = {
        "everything": whole,
        "no buffer": without(buffer=1),
        "no importance sampling": without(importance=False),
        "no self-training": without(self_training=False),
        "none of the three": without(buffer=1, importance=False, self_training=False),
        "never forgetting": without(buffer=None),
        "hard targets": without(targets="hard"),
        "soft targets": without(targets="soft"),
    }
    rows = _rows(parts, name, settings, runs, cache, progress)
    return _result(f"privatekt-{name}-ablation", f"PrivateKT on {name} without one helper, {rounds} rounds.", rows)


def totals(
    parts: Parts,
    name: str,
    cache: Path,
    rounds: int = 500,
    runs: int = 3,
    progress: Progress | None = None,
    epsilons: Sequence[str] = ("5", "10", "20"),
) -> Result:
    """What a total budget buys under several schedules: few answers with little noise, or many with much.

    ``rounds`` bounds the longest schedule. All schedules are shown; none was picked by looking at private data.
    """
    # How many rounds each holder answers, how many answers each time, and which share of the holders is asked at once.
    schedules = ((2, 1, 0.1), (4, 1, 0.1), (4, 1, 0.25), (8, 1, 0.25), (8, 1, 0.5))
    settings = {}
    for epsilon in epsilons:
        for times, answers, share in schedules:
            count = min(rounds, round(times / share))
            settings[f"total ε = {epsilon}: {times} × {answers} answers, {share:.0%} a round"] = replace(
                AUTHORS, round_epsilon=None, epsilon=epsilon, rounds=count, answers=answers, participation=share,
                teaching=replace(AUTHORS.teaching, buffer=None),
            )  # fmt: skip
    rows = _rows(parts, name, settings, runs, cache, progress)
    return _result(f"privatekt-{name}-total", f"PrivateKT on {name} at a total ε, δ = 1e-5, per holder.", rows)


def averaging(parts: Parts, name: str, setting: Setting, seed: int, cache: Path) -> dict[str, Any]:
    """Federated averaging without any privacy: the same networks, holders and local training, weights in the clear."""

    def run() -> dict[str, Any]:
        learner, local = models(setting.model, None, parts.public_samples, parts.classes, setting.learning, seed)
        labels = class_indices(parts.private_labels, parts.classes)
        shares = split_by_dirichlet(labels, setting.holders, setting.alpha, seed)
        prepared = [local.prepare(parts.private_samples[rows], labels[rows]) for rows in shares]
        true, model, points = class_indices(parts.test_labels, parts.classes), learner.begin(), []
        invited = max(1, round(setting.participation * setting.holders))
        for turn in range(1, setting.rounds + 1):
            start = turn * invited
            guests = [prepared[(start + place) % len(prepared)] for place in range(invited)]
            model = local.averaged(guests, model, seed + 1000 * turn)  # type: ignore[attr-defined]
            if turn % EVERY == 0 or turn == setting.rounds:
                guessed = learner.probabilities(model, parts.test_samples).argmax(axis=1)
                points.append((turn, float(np.mean(guessed == true))))
        return {"accuracy": points[-1][1], "curve": [list(point) for point in points]}

    words = {"bench": "federated averaging", "data": name, "setting": repr(setting), "seed": seed}
    return Memory(cache).recall(words, run)


def growth(parts: Parts, holders: Sequence[int] = (20, 40, 80), rounds: Sequence[int] = (2, 4)) -> list[dict[str, Any]]:
    """Processor seconds of short runs, over the number of holders and of rounds: both should grow in a line."""
    found = []
    for count in holders:
        for length in rounds:
            begun = time.process_time()
            transfer(
                (parts.private_samples, parts.private_labels), parts.public_samples, delta=AUTHORS.delta,
                round_epsilon=AUTHORS.round_epsilon, rounds=length, holders=count, classes=parts.classes,
                teaching=AUTHORS.teaching, seed=0,
            )  # fmt: skip
            found.append({"holders": count, "rounds": length, "processor seconds": time.process_time() - begun})
    return found


def _rows(
    parts: Parts, name: str, settings: Mapping[str, Setting], runs: int, cache: Path, progress: Progress | None
) -> list[Row]:
    return [
        Row({"what": what}, [measure(parts, name, setting, seed, cache, progress) for seed in range(runs)])
        for what, setting in settings.items()
    ]


def _result(name: str, caption: str, rows: Sequence[Row]) -> Result:
    notes = (
        "Simulations with seeds. ε is the total of one holder with all its records over the rounds it answered, at "
        "δ = 1e-5, by exact composition; the figure after the last round, not the best one.",
    )
    return Result(name, caption, rows, {"accuracy": 100.0, "epsilon": 1.0, "processor seconds": 1.0}, notes)
