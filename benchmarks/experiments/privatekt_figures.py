"""PrivateKT's tables: the authors' setting, utility over ε, what each helper is worth, what a total buys, and time.

Schedules are chosen on public samples alone, with pretended labels: groups of samples that look alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from experiments.privatekt import TransferBench
from experiments.privatekt_data import Setting
from experiments.privatekt_groups import groups
from experiments.table import Result, Row
from tacit.core import SeededRandomness, permutations
from tacit.datasets.published import Parts
from tacit.methods.privatekt.options import PrivateKT, Teaching
from tacit.report.charts import Chart, Panel
from tacit.runs.distill import distill

__all__ = ["FIGURES", "losses", "pretended"]

Made = tuple[Result, Chart | None]
MEASURES = {"accuracy": 100.0, "epsilon": 1.0, "rounds": 1.0, "processor seconds": 1.0}
# What the authors say of MNIST at ε = 5 per round.
PAPER = {"mnist": 0.951}
# Rounds of federated averaging: by then it stands still.
AVERAGED = 50


def main(bench: TransferBench) -> Made:
    """The authors' setting, and federated averaging beside it."""
    setting, published = bench.main, PAPER.get(bench.name)
    beside = {} if published is None else {"accuracy": f"{100 * published:.1f}"}
    row = bench.row(f"ε = {setting.round_epsilon} per round", setting, beside)
    reached = [_reached(run, published) for run in row.runs] if published is not None else []
    rows = [row, bench.averaging(replace(setting, rounds=min(setting.rounds, AVERAGED)))]
    notes = [f"{100 * (published or 0):.1f} % was first seen after {', '.join(reached)} rounds."] if reached else []
    caption = f"PrivateKT on {bench.name}: {_said(setting)}."
    return _result(bench, "main", caption, rows, notes), _over_rounds(bench, "main", caption, rows)


def curve(bench: TransferBench) -> Made:
    """Accuracy over ε per round, and what each adds up to."""
    rows = [
        bench.row(f"ε = {each} per round", replace(bench.short, round_epsilon=each)) for each in ("1", "2", "5", "10")
    ]
    caption = f"PrivateKT on {bench.name} over ε per round: {_said(bench.short)}."
    means = [float(100 * np.mean(row.values("accuracy"))) for row in rows]
    panel = Panel(bench.name, "ε per round", "accuracy, %", [1, 2, 5, 10], {"PrivateKT": means}, log_across=True)
    plain = bench.averaging(replace(bench.short, rounds=min(bench.short.rounds, AVERAGED)))
    result = _result(bench, "curve", caption, [*rows, plain])
    return result, Chart(result.name, caption, [panel])


def ablation(bench: TransferBench) -> Made:
    """What each of the three helpers is worth, and each kind of target."""
    whole = bench.short

    def without(**changes: Any) -> Setting:  # noqa: ANN401
        return replace(whole, teaching=replace(whole.teaching, **changes))

    settings = {
        "everything": whole,
        "no buffer": without(buffer=1),
        "no importance sampling": without(importance=False),
        "no self-training": without(self_training=False),
        "none of the three": without(buffer=1, importance=False, self_training=False),
        "hard targets": without(targets="hard"),
        "soft targets": without(targets="soft"),
        "no start from public groups": replace(whole, learning=replace(whole.learning, pretext=0)),
    }
    rows = [bench.row(what, setting) for what, setting in settings.items()]
    caption = f"PrivateKT on {bench.name} without one helper: {_said(whole)}."
    notes = losses(rows)
    return _result(bench, "ablation", caption, rows, notes), _over_rounds(bench, "ablation", caption, rows)


def losses(rows: Sequence[Row]) -> list[str]:
    """What each other line is below or above the first one, seed by seed, with its 95 % interval.

    >>> runs = [[{"accuracy": each} for each in some] for some in ([0.8, 0.9], [0.8, 0.9])]
    >>> losses([Row({"what": what}, found) for what, found in zip(("all", "no buffer"), runs)])
    ["Against 'all', in points, seed by seed (95 % interval): no buffer: +0.0 ± 0.0 (cannot be told from chance)."]
    """
    from scipy.stats import t

    whole, said = rows[0], []
    for row in rows[1:]:
        change = 100 * np.subtract(row.values("accuracy"), whole.values("accuracy"))
        if len(change) < 2:
            return []
        half = float(t.ppf(0.975, len(change) - 1) * change.std(ddof=1) / np.sqrt(len(change)))
        chance = " (cannot be told from chance)" if abs(change.mean()) <= half else ""
        said.append(f"{row.names['what']}: {change.mean():+.1f} ± {half:.1f}{chance}")
    return [
        f"Against '{whole.names['what']}', in points, seed by seed (95 % interval): {'; '.join(said)}.",
    ]


# How often each holder is asked, how many answers each time, and which share of the holders is asked at once.
SCHEDULES = ((1, 1, 1 / 16), (1, 1, 1 / 40), (2, 1, 1 / 16), (4, 1, 1 / 16), (2, 2, 1 / 8), (4, 2, 1 / 8))
# ε of one answer: below this its noise drowns it, above it there is hardly any, and more answers teach more.
AN_ANSWER = (2, 10)
# A run with few answers depends on which samples were asked about, so a schedule is judged by several.
PRETENDED = 3


def totals(bench: TransferBench) -> Made:
    """What a total budget buys, with the schedule that is best on public samples with pretended labels."""
    rows, notes = [], []
    public = pretended(bench.parts)
    for epsilon in ("5", "10", "20"):
        tried = {}
        for schedule in _affordable(int(epsilon)):
            setting, what = _scheduled(bench, epsilon, *schedule), f"pretended labels, {_schedule(*schedule)}"
            found = [bench.run(f"total ε = {epsilon}, {what}", setting, seed, public) for seed in range(PRETENDED)]
            tried[schedule] = float(np.mean([each["accuracy"] for each in found]))
        best = max(tried, key=lambda each: tried[each])
        notes.append(
            f"Total ε = {epsilon}, agreement with pretended labels: "
            + "; ".join(f"{_schedule(*each)}: {100 * value:.1f} %" for each, value in tried.items())
            + "."
        )
        rows.append(bench.row(f"total ε = {epsilon}: {_schedule(*best)}", _scheduled(bench, epsilon, *best)))
    caption = (
        f"PrivateKT on {bench.name} at a total ε of each holder over all rounds, δ = 1e-5. Each schedule is the best "
        f"on public samples with pretended labels (groups of like samples), {PRETENDED} runs each."
    )
    return _result(bench, "totals", caption, rows, notes), _over_rounds(bench, "totals", caption, rows)


def growth(bench: TransferBench) -> Made:
    """Processor seconds of short runs over the number of holders and of rounds."""
    rows, parts, setting = [], bench.parts, replace(bench.main, learning=replace(bench.main.learning, pretext=0))

    def participations(holders: int, rounds: int) -> float:
        begun = time.process_time()
        method = PrivateKT(
            round_epsilon=setting.round_epsilon, rounds=rounds, learning=setting.learning,
            teaching=replace(setting.teaching, warmup_rounds=1),
        )  # fmt: skip
        distill(
            (parts.private_samples, parts.private_labels), parts.public_samples, delta=setting.delta, method=method,
            holders=holders, classes=parts.classes, seed=0,
        )  # fmt: skip
        return time.process_time() - begun

    # The first run also loads what is used.
    participations(20, 1)
    for holders in (20, 40, 80):
        for rounds in (4, 8):
            used = participations(holders, rounds)
            bench.tell(f"{holders} holders, {rounds} rounds: {used:.1f} s")
            names = {"holders": str(holders), "invited per round": str(holders // 2), "rounds": str(rounds)}
            rows.append(Row(names, [{"processor seconds": used, "a round": used / rounds}]))
    caption = f"Processor seconds of PrivateKT on {bench.name}, everything in one process, without the start."
    notes = ["The records are divided, so a holder has fewer of them where there are more holders; steps are equal."]
    measures = {"processor seconds": 1.0, "a round": 1.0}
    return Result(f"privatekt-{bench.name}-growth", caption, rows, measures, notes), None


def pretended(parts: Parts) -> Parts:
    """A data set made of the public samples alone: labels are groups of like samples, as many as there are classes."""
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA

    flat = parts.public_samples.reshape(len(parts.public_samples), -1)
    reduced = PCA(min(40, *flat.shape), random_state=0).fit_transform(flat)
    groups = KMeans(len(parts.classes), random_state=0, n_init=3).fit_predict(reduced).astype(np.int64)
    order = permutations(1, len(flat), SeededRandomness(0))[0]
    mine, shown, test = np.split(order, [int(0.65 * len(order)), int(0.9 * len(order))])
    samples = parts.public_samples
    return Parts(
        samples[mine], groups[mine], samples[shown], groups[shown], samples[test], groups[test],
        np.arange(len(parts.classes)),
    )  # fmt: skip


def _affordable(total: int) -> list[tuple[int, int, float]]:
    """The schedules whose answers are neither drowned in noise nor dearer than they need to be."""
    least, most = AN_ANSWER
    return [each for each in SCHEDULES if least <= total / (each[0] * each[1]) <= most]


def _scheduled(bench: TransferBench, epsilon: str, times: int, answers: int, share: float) -> Setting:
    """A schedule at a total budget. Few answers are all kept, and holders and lessons take more steps."""
    setting = bench.data.setting
    learning = setting.learning
    return replace(
        setting, round_epsilon=None, epsilon=epsilon, rounds=max(1, round(times / share)), answers=answers,
        participation=share, teaching=replace(setting.teaching, buffer=None),
        learning=replace(learning, steps=3 * learning.steps, local_steps=4 * learning.local_steps),
    )  # fmt: skip


def _schedule(times: int, answers: int, share: float) -> str:
    return f"{times} × {answers} answers, {share:.1%} at once"


def _said(setting: Setting) -> str:
    kept: Teaching = setting.teaching
    return (
        f"{setting.rounds} rounds, {setting.holders} holders, {setting.participation:.0%} of them per round, "
        f"K = {setting.answers}, B = {kept.buffer}"
    )


def _reached(run: Mapping[str, Any], goal: float) -> str:
    return str(next((turn for turn, accuracy in run["curve"] if accuracy >= goal), "no"))


def _over_rounds(bench: TransferBench, figure: str, caption: str, rows: Sequence[Row]) -> Chart:
    """The first run of every row over its rounds."""
    seen = {row.names["what"]: dict(map(tuple, row.runs[0]["curve"])) for row in rows}
    places = sorted({turn for points in seen.values() for turn in points})
    curves = {what: [_percent(points.get(turn)) for turn in places] for what, points in seen.items()}
    panel = Panel(bench.name, "rounds", "accuracy, %", places, curves)
    return Chart(f"privatekt-{bench.name}-{figure}", caption, [panel])


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _result(bench: TransferBench, figure: str, caption: str, rows: Sequence[Row], notes: Sequence[str] = ()) -> Result:
    said = (
        *bench.data.notes,
        "Simulations with seeds. ε is the total of one holder with all its records over the rounds it answered, at "
        "δ = 1e-5, by exact composition; accuracy is that after the last round, not the best one. A run that was "
        "interrupted is timed from where it went on.",
        *notes,
    )
    return Result(f"privatekt-{bench.name}-{figure}", caption, rows, MEASURES, said)


FIGURES: Mapping[str, Callable[[TransferBench], Made]] = {
    "main": main,
    "totals": totals,
    "ablation": ablation,
    "curve": curve,
    "growth": growth,
    "groups": groups,
}
