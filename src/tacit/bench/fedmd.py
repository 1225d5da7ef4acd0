"""FedMD measured: over subset sizes, kinds of answers, ways to share out the data, parties, rounds, and guarantees.

Every run is a simulation with a seed, kept once it is over, so a bench that was stopped goes on where it was. Sets that
the paper uses are not always at hand; what stands in for them is in ``tacit.experiment.fedmd_data``, and every
caption names it. Published figures are shown beside ours for their trend, not for their value.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.bench.measured import Memory
from tacit.bench.table import Result, Row
from tacit.experiment.fedmd import federate
from tacit.experiment.fedmd_data import StandIn, shared_out
from tacit.experiment.fedmd_models import MIXED
from tacit.experiment.fedmd_pooled import centralized
from tacit.methods.fedmd.exposure import WeakPrivacyWarning
from tacit.methods.fedmd.form import Form
from tacit.methods.fedmd.noise import gaussian_needed, laplace_needed
from tacit.methods.fedmd.published import PRINTED, curves_over_parties, curves_over_subsets, table_two
from tacit.methods.fedmd.study import Schedule

__all__ = ["PAPER", "FedSetting", "guarantees", "kinds", "measure", "noise", "over_parties", "partitions",
           "privacy", "subsets"]  # fmt: skip

Progress = Callable[[str, int], None]
MEASURES = {"before": 100.0, "after": 100.0, "processor seconds": 1.0}


@dataclass(frozen=True)
class FedSetting:
    """One way to run a federation; the defaults are the paper's, with models of five kinds."""

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
    models: tuple[str, ...] = MIXED


PAPER = FedSetting()


@contextmanager
def _quietly() -> Iterator[None]:
    """Every table says of every row what it protects; the warning beside each run would say it again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPrivacyWarning)
        yield


def measure(
    data: StandIn, setting: FedSetting, seed: int, cache: Path, progress: Progress | None = None
) -> dict[str, Any]:
    """Mean accuracy before and after, the curve over rounds and the claim, as found in the cache or measured now."""
    # Public labels of the same classes would solve the task by themselves; then there is no pretraining.
    labels = None if np.isin(data.public_labels, data.classes).all() else data.public_labels
    words = {"bench": "fedmd", "data": data.name, "records": len(data.labels), "seed": seed, **asdict(setting)}
    words["models"] = list(setting.models)

    def run() -> dict[str, Any]:
        shared = shared_out(data, setting.parties, setting.how, seed=seed)
        with _quietly():
            if setting.variant == "centralized":
                found = centralized(
                    shared, data.public, data.test, classes=data.classes, public_labels=labels,
                    models=setting.models, epochs=setting.own + setting.rounds, seed=seed,
                )  # fmt: skip
                kinds = [found[setting.models[party % len(setting.models)]] for party in range(len(shared))]
                return {"after": float(np.mean(kinds)), "claim": "no privacy: all records in one place"}
            made = federate(
                shared, data.public, setting.variant, classes=data.classes, public_labels=labels,
                models=setting.models, rounds=setting.rounds, queries=min(setting.queries, len(data.public)),
                kind=setting.kind, schedule=Schedule(own=setting.own), subset=setting.subset, epsilon=setting.epsilon,
                delta=setting.delta, mechanism=setting.mechanism, test=data.test, seed=seed,
                progress=None if progress is None else lambda number, _: progress(_named(data, setting, seed), number),
            )  # fmt: skip
        assert made.accuracies is not None
        return {
            "before": made.before,
            "after": made.after,
            "curve": made.accuracies.mean(axis=1).round(6).tolist(),
            "parties": made.accuracies[-1].round(6).tolist(),
            "claim": str(made.claim),
        }

    return Memory(cache).recall(words, run)


def _named(data: StandIn, setting: FedSetting, seed: int) -> str:
    return f"{data.name}: {setting.variant}, {setting.parties} parties, run {seed}"


def _row(
    names: dict[str, str], data: StandIn, setting: FedSetting, runs: int, cache: Path, progress: Progress | None,
    published: dict[str, str] | None = None,
) -> Row:  # fmt: skip
    made = [measure(data, setting, seed, cache, progress) for seed in range(1, runs + 1)]
    return Row(names, made, published or {})


def subsets(
    data: StandIn, sizes: Sequence[int], setting: FedSetting = PAPER, runs: int = 3, cache: Path = Path("cache"),
    progress: Progress | None = None,
) -> Result:  # fmt: skip
    """Accuracy over the size of the subset, between no privacy and everything pooled: as the paper's Table 2.

    The curves over rounds, as in its Figure 4, are in the JSON.
    """
    paper = {(row.data, row.size): f"{100 * row.accuracy:.2f}" for row in PRINTED}
    task = "CIFAR" if "CIFAR" in data.name else "FEMNIST"
    rows = [
        _row({"method": name, "k": ""}, data, replace(setting, variant=variant, subset=None), runs, cache, progress)
        for variant, name in (("centralized", "Centralized (NO PRIVACY)"), ("np", "FedMD-NP (NO PRIVACY)"))
    ]
    for size in sizes:
        beside = {f"accuracy on {task}": paper[task, size]} if (task, size) in paper else {}
        names = {"method": "FedMD-NFDP (stability, not differential privacy)", "k": str(size)}
        rows.append(_row(names, data, replace(setting, variant="nfdp", subset=size), runs, cache, progress, beside))
    caption = (
        f"Mean test accuracy (%) of {setting.parties} parties before and after {setting.rounds} rounds; {data.name}."
    )
    return Result("fedmd-subsets", caption, rows, MEASURES, _notes(rows))


def kinds(
    data: StandIn, parties: Sequence[int] = (5, 10), setting: FedSetting = PAPER, runs: int = 3,
    cache: Path = Path("cache"), progress: Progress | None = None,
) -> Result:  # fmt: skip
    """Logits, probabilities and labels: as the paper's Table 3."""
    rows = [
        _row(
            {"parties": str(count), "answers": kind},
            data,
            replace(setting, parties=count, kind=kind),
            runs,
            cache,
            progress,
        )
        for count in parties
        for kind in ("logits", "softmax", "argmax")
    ]
    return Result("fedmd-kinds", f"What is sent of a prediction; {data.name}.", rows, MEASURES, _notes(rows))


def partitions(
    data: StandIn, setting: FedSetting = PAPER, runs: int = 3, cache: Path = Path("cache"),
    progress: Progress | None = None,
) -> Result:  # fmt: skip
    """Parties alike and parties that differ: as the paper's Table 4."""
    ways = ["iid", "dirichlet", "class", *(["owner"] if data.owners is not None else [])]
    rows = [_row({"shared out": how}, data, replace(setting, how=how), runs, cache, progress) for how in ways]
    caption = f"IID against Dirichlet(0.5), by class and, where there are any, by owner; {data.name}."
    return Result("fedmd-partitions", caption, rows, MEASURES, _notes(rows))


def over_parties(
    data: StandIn, parties: Sequence[int] = (2, 4, 6, 8, 10), setting: FedSetting = PAPER, runs: int = 3,
    cache: Path = Path("cache"), progress: Progress | None = None,
) -> Result:  # fmt: skip
    """Accuracy over the number of parties, each with as many records as ten would have: as the paper's Figure 5."""
    share = len(data.labels) // max(parties)
    rows = []
    for count in parties:
        kept = slice(0, share * count)
        owners = None if data.owners is None else data.owners[kept]
        part = replace(data, samples=data.samples[kept], labels=data.labels[kept], owners=owners)
        rows.append(_row({"parties": str(count)}, part, replace(setting, parties=count), runs, cache, progress))
    return Result("fedmd-parties", f"Over the number of parties; {data.name}.", rows, MEASURES, _notes(rows))


def guarantees(
    data: StandIn, epsilons: Sequence[str] = ("1", "5", "10"), delta: str = "1e-5", queries: int = 50, asked: int = 2,
    setting: FedSetting = PAPER, runs: int = 3, cache: Path = Path("cache"), progress: Progress | None = None,
) -> Result:  # fmt: skip
    """The same federation at the same total ε: noisy predictions, randomized responses, reverse k-NN votes.

    Predictions are paid for each time, so the first two ask ``queries`` samples in ``asked`` rounds only. Votes are
    paid for once, at δ = 0, and learned from in every round.
    """
    rows = [
        _row(
            {"method": "FedMD-NP", "total epsilon": "∞", "protects": "NOTHING"},
            data, replace(setting, variant="np", subset=None), runs, cache, progress,
        )
    ]  # fmt: skip
    for epsilon in epsilons:
        noisy = replace(setting, subset=None, epsilon=epsilon)
        few = replace(noisy, delta=delta, queries=queries, rounds=asked)
        for name, unit, each in (
            ("FedMD-LDP, discrete Gaussian", "a holder", replace(few, variant="ldp")),
            ("generalized response", "a holder", replace(few, variant="response", mechanism="generalized-response")),
            ("subset selection (PrivSet)", "a holder", replace(few, variant="response")),
            ("reverse k-NN votes, pure", "a record", replace(noisy, variant="rknn")),
        ):
            names = {"method": name, "total epsilon": epsilon, "protects": unit}
            rows.append(_row(names, data, each, runs, cache, progress))
    caption = (
        f"Mean test accuracy (%) of the parties before and after, at equal total epsilon for each party "
        f"(delta {delta}, pure for votes); predictions are asked for {queries} samples in each of {asked} rounds; "
        f"{data.name}."
    )
    notes = [
        "What protects a holder with all its records protects each record too; votes protect one record. "
        "The parties' own models are not covered and stay with them.",
        *_notes(rows),
    ]
    return Result("fedmd-guarantees", caption, rows, MEASURES, notes)


def privacy() -> Result:
    """The paper's privacy columns in natural logarithms beside what it prints; its Figures 2 and 3 are in the JSON.

    >>> privacy().rows[0].names["epsilon (ln)"], privacy().rows[0].names["printed epsilon"]
    ('0.00624892', '0.0027')
    """
    rows = [
        Row({key: value if isinstance(value, str) else f"{value:.6g}" for key, value in each.items()}, [])
        for each in table_two()
    ]
    rows[0] = replace(
        rows[0],
        runs=[
            {
                "over k": curves_over_subsets(),
                "over parties, FEMNIST": curves_over_parties(28_800),
                "over parties, CIFAR": curves_over_parties(3000),
            }
        ],
    )
    notes = [
        "NFDP is NOT differential privacy in the usual sense: delta is the probability with which a raw record is "
        "exposed, it is the same for every epsilon, and k raw records train the model.",
        "The paper prints decimal logarithms; its rows k = 16 were computed with k = 18.",
    ]
    return Result("fedmd-privacy", "Table 2 of the FedMD-NFDP paper: printed, and what holds.", rows, {}, notes)


def noise(
    epsilons: Sequence[str] = ("0.1", "1", "10"), delta: str = "1e-5", queries: int = 5000, rounds: int = 20,
    classes: int = 6,
) -> Result:  # fmt: skip
    """The noise that FedMD-LDP needs on every number it sends, in units of a probability (or logit).

    >>> noise(("1",)).rows[1].names["Laplace scale"]
    '200000'
    """
    rows = []
    for epsilon in epsilons:
        for kind in ("argmax", "softmax", "logits"):
            form = Form(kind, classes)
            rows.append(
                Row(
                    {
                        "total epsilon": epsilon,
                        "answers": kind,
                        "Laplace scale": f"{laplace_needed(form, queries, rounds, epsilon):.6g}",
                        f"Gaussian sigma (delta {delta})": (
                            f"{gaussian_needed(form, queries, rounds, epsilon, delta):.6g}"
                        ),
                    },
                    [],
                )
            )
    caption = f"Noise for {queries} queries in each of {rounds} rounds, {classes} classes; a probability is at most 1."
    return Result("fedmd-noise", caption, rows, {}, ())


def _notes(rows: Sequence[Row]) -> list[str]:
    """What holds for each row, once: the first lines of the claims, without what the seed makes of them."""
    found: dict[str, None] = {}
    for row in rows:
        for line in str(row.runs[0]["claim"]).splitlines():
            if line.startswith(("NO ", "no ", "NOT ", "Total-variation", "With system randomness")):
                found[f"{', '.join(value for value in row.names.values() if value)}: {line}"] = None
    return ["All runs are simulations with a seed.", *found]
