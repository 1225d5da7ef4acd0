"""FedMD's tables and curves: those of the paper on stand-ins, and beyond it the same federation with a guarantee."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from experiments.fedmd import PAPER, FedBench, FedSetting
from experiments.fedmd_published import PRINTED
from experiments.fedmd_sums import sums
from experiments.table import Result, Row
from tacit.mechanisms.central.sampling import SubsetSample
from tacit.report.charts import Chart, Panel

__all__ = [
    "FIGURES", "convergence", "guarantees", "kinds", "learning_curves", "parties", "partitions", "schedule", "subsets",
]  # fmt: skip

Figure = tuple[Result, Chart | None]

CURVES = "The curves, round by round, are in the JSON."

SIZES = (18, 60, 300)  # those that both of the paper's tasks have
# What the paper prints without privacy.
BASELINES = {
    "FEMNIST": {"centralized": "98.00", "np": "96.15"},
    "CIFAR": {"centralized": "88.83", "np": "86.88"},
}
# Many records make many steps per epoch: a party that trains on many takes fewer epochs, and a pool fewer still.
MANY, FEW_EPOCHS, POOLED_EPOCHS = 1000, 5, 4
# At equal totals: few enough records that parties have something to learn from each other.
GUARDED_RECORDS, GUARDED_EPOCHS, EPSILONS, DELTA = 6000, 10, ("1", "10"), "1e-5"
# Predictions that are paid for one by one: of 10, 20, 100 or 500 samples once, or 50 twice, the last helped most.
# Chosen on records of Fashion-MNIST that ``clothes`` leaves out; no test part was looked at.
ASKED, ASKED_ROUNDS = 50, 2


def subsets(bench: FedBench) -> Figure:
    """Accuracy over the size of the subset, between no privacy and everything pooled: as the paper's Table 2."""
    paper = {(row.data, row.size): f"{100 * row.accuracy:.2f}" for row in PRINTED}
    task = "CIFAR" if bench.name.startswith("cifar") else "FEMNIST"
    setting, nothing = replace(bench.setting, subset=None), {"k": "", "stability delta": "1"}
    records = _share(bench)
    pooled = min(setting.own, POOLED_EPOCHS) if records > MANY else setting.own
    ends, column = BASELINES[task], f"accuracy on {task}"
    rows = [
        bench.row(
            {"method": "Centralized (NO PRIVACY)", **nothing},
            replace(setting, variant="centralized", own=pooled),
            {column: ends["centralized"]},
        ),
        bench.row(
            {"method": "FedMD-NP (NO PRIVACY)", **nothing},
            _own(replace(setting, variant="np"), records),
            {column: ends["np"]},
        ),
    ]
    for size in (row.size for row in PRINTED if row.data == task and row.size <= records):
        beside = {column: paper[task, size]}
        delta = float(SubsetSample(size, records, replacement=True).delta)
        names = {"method": "FedMD-NFDP (not DP)", "k": str(size), "stability delta": f"{delta:.4f}"}
        rows.append(bench.row(names, _own(replace(setting, subset=size), size), beside))
    fewer = f" On more than {MANY} own records: {FEW_EPOCHS} epochs." if records > MANY else ""
    caption = (
        f"Mean test accuracy (%) of {setting.parties} parties with {records} records each, before and after the "
        f"rounds: {setting.schedule}.{fewer} Centralized: {pooled} epochs."
    )
    result = bench.result("subsets", caption, rows, [CURVES])
    return result, learning_curves(result.name, caption, rows)


def kinds(bench: FedBench) -> Figure:
    """Logits, probabilities and labels: as the paper's Table 3."""
    rows = [
        bench.row({"parties": str(count), "answers": kind}, replace(_some(bench, count), kind=kind))
        for count in _counts(bench)[1:]
        for kind in ("logits", "softmax", "argmax")
    ]
    caption = (
        f"What is sent of a prediction, FedMD-NFDP with k = {bench.setting.subset} of {_share(bench)} records a "
        f"party: {bench.setting.schedule}."
    )
    return bench.result("kinds", caption, rows), None


def partitions(bench: FedBench) -> Figure:
    """Parties alike and parties that differ: as the paper's Table 4."""
    names = {"iid": "IID", "dirichlet": "Dirichlet(0.5)", "class": "by class"}
    if bench.data.owners is not None:
        names["owner"] = "by owner"
    rows = [bench.row({"divided": words}, replace(bench.setting, how=how)) for how, words in names.items()]
    caption = f"How records are divided, FedMD-NFDP with k = {bench.setting.subset}: {bench.setting.schedule}."
    return bench.result("partitions", caption, rows), None


def parties(bench: FedBench) -> Figure:
    """Accuracy over the number of parties, each with as many records as ten would have: as the paper's Figure 5."""
    counts = _counts(bench)
    rows = [bench.row({"parties": str(count)}, _some(bench, count)) for count in counts]
    caption = (
        f"Over the number of parties with {_share(bench)} records each, FedMD-NFDP with k = {bench.setting.subset}: "
        f"{bench.setting.schedule}."
    )
    first = ", ".join(bench.setting.models[: counts[0]])
    result = bench.result("parties", caption, rows, [f"The kinds of models come in turn; the first: {first}."])
    curves = {name: [_mean(row.values(name)) for row in rows] for name in ("before", "after")}
    panel = Panel("mean test accuracy of the parties", "parties", "%", counts, curves)
    return result, Chart(result.name, caption, [panel])


def convergence(bench: FedBench) -> Figure:
    """Accuracy over rounds, without privacy and with subsets: as the paper's Figure 4."""
    short = bench.setting
    lines = {
        "FedMD-NP (NO PRIVACY)": _own(replace(short, variant="np", subset=None), _share(bench)),
        **{f"FedMD-NFDP, k = {size}": replace(short, subset=size) for size in SIZES if size <= _share(bench)},
    }
    caption = f"Mean test accuracy (%) of the parties over rounds: {short.schedule}."
    return _over_rounds(bench, "convergence", caption, lines)


def schedule(bench: FedBench) -> Figure:
    """What the short schedule costs in accuracy: one run each of it and of the paper's own."""
    short = bench.setting
    long = replace(short, rounds=PAPER.rounds, queries=PAPER.queries)
    caption = (
        f"FedMD-NFDP, k = {short.subset}: mean test accuracy (%) of the parties over rounds, one run each. "
        f"Short: {short.schedule}. The paper's: {long.schedule}."
    )
    return _over_rounds(bench, "schedule", caption, {"short": short, "the paper's": long}, runs=1)


def _over_rounds(
    bench: FedBench, figure: str, caption: str, lines: Mapping[str, FedSetting], runs: int | None = None
) -> Figure:
    rows = [bench.row({"method": name}, setting, runs=runs) for name, setting in lines.items()]
    result = bench.result(figure, caption, rows, [CURVES])
    return result, learning_curves(result.name, caption, rows)


def learning_curves(name: str, caption: str, rows: Sequence[Row]) -> Chart:
    """The mean accuracy of each line over its rounds; what was trained once, without rounds, is a level.

    >>> runs = [[{"curve": [0.5, 0.75], "after": 0.75}], [{"after": 1.0}]]
    >>> rows = [Row({"method": what}, found) for what, found in zip(("rounds", "pooled"), runs)]
    >>> learning_curves("toy", "", rows).panels[0].curves
    {'rounds': [50.0, 75.0], 'pooled': [100.0, 100.0]}
    """
    longest = max(len(run["curve"]) for row in rows for run in row.runs if "curve" in run)
    curves: dict[str, list[float | None]] = {}
    for row in rows:
        line = row.names["method"] + (f", k = {row.names['k']}" if row.names.get("k") else "")
        if all("curve" in run for run in row.runs):
            mean = (100 * np.mean([run["curve"] for run in row.runs], axis=0)).tolist()
        else:
            mean = [_mean(row.values("after"))] * longest
        curves[line] = [*mean, *[None] * (longest - len(mean))]
    return Chart(name, caption, [Panel("mean test accuracy", "rounds", "%", list(range(longest)), curves)])


def guarantees(bench: FedBench) -> Figure:
    """The same federation at the same total ε: noisy predictions, randomized responses, reverse k-NN votes.

    Predictions are paid for each time, so the first three ask few samples in few rounds. Votes are paid for once,
    at δ = 0, and learned from in every round.
    """
    records = None if len(bench.data.labels) <= GUARDED_RECORDS else GUARDED_RECORDS
    own = min(bench.setting.own, GUARDED_EPOCHS)
    setting = replace(bench.setting, subset=None, how="dirichlet", records=records, own=own)
    beside = {"method": "FedMD-NP", "total epsilon": "∞", "protects": "NOTHING"}
    rows = [bench.row(beside, replace(setting, variant="np"))]
    for epsilon in EPSILONS:
        noisy = replace(setting, epsilon=epsilon)
        few = replace(noisy, delta=DELTA, queries=min(ASKED, len(bench.data.public)), rounds=ASKED_ROUNDS)
        for name, unit, each in (
            ("FedMD-LDP, discrete Gaussian", "a holder", replace(few, variant="ldp")),
            ("generalized response", "a holder", replace(few, variant="response", mechanism="generalized-response")),
            ("subset selection (PrivSet)", "a holder", replace(few, variant="response")),
            ("reverse k-NN votes, pure", "a record", replace(noisy, variant="rknn")),
        ):
            rows.append(bench.row({"method": name, "total epsilon": epsilon, "protects": unit}, each))
    caption = (
        f"Mean test accuracy (%) of the parties before and after, at equal total epsilon for each party (delta "
        f"{DELTA}, pure for votes), {records or len(bench.data.labels)} records divided by Dirichlet(0.5) over "
        f"{setting.parties} parties: {setting.schedule}. Predictions that are paid for are asked for {ASKED} samples "
        f"in each of {ASKED_ROUNDS} rounds, as was best on records that are in no table."
    )
    notes = [
        "What protects a holder with all its records protects each record too; votes protect one record.",
        "The parties' own models are not covered and stay with them.",
    ]
    return bench.result("guarantees", caption, rows, notes), None


def _mean(values: list[float]) -> float:
    return 100 * float(np.mean(values))


def _share(bench: FedBench) -> int:
    return len(bench.data.labels) // bench.setting.parties


def _counts(bench: FedBench) -> list[int]:
    full = bench.setting.parties
    return sorted({max(1, full // 5), max(1, full // 2), full})


def _some(bench: FedBench, count: int) -> FedSetting:
    """Fewer parties, each with as many records as all of them would have."""
    records = None if count == bench.setting.parties else _share(bench) * count
    return replace(bench.setting, parties=count, records=records)


def _own(setting: FedSetting, records: int) -> FedSetting:
    return replace(setting, own=min(setting.own, FEW_EPOCHS)) if records > MANY else setting


FIGURES: Mapping[str, Callable[[FedBench], Figure]] = {
    "subsets": subsets,
    "kinds": kinds,
    "partitions": partitions,
    "parties": parties,
    "convergence": convergence,
    "schedule": schedule,
    "guarantees": guarantees,
    "sums": sums,
}
