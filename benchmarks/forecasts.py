"""Forecasts compared with measured runs: does the interval contain the fraction of correct labels, and how wide is it?

Run: python benchmarks/forecasts.py [--folder DATA] [--runs 2] [--again]

DATA has one folder per data set with its publisher's files (see experiments/development.py); without it the sets that
come with scikit-learn are measured. Every setting is forecast from public samples alone, and again with 100 and 300
labeled public ones; then it is run as a simulation. Writes docs/results/forecasts.json and .md.

The line from structure to purity in tacit/methods/forecast.py was drawn through eight of these sets (digits, adult,
mnist, ag-news, medical-abstracts, wine, cancer, iris), so that "structure alone" is not out of sample.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tacit
from experiments.development import read_set
from tacit.core import InvalidInput, TacitWarning
from tacit.runs.folders import machine, versions
from tacit.runs.planning import Prospect

RESULTS = Path(__file__).parent.parent / "docs" / "results"
FILED = ("adult", "ag-news", "medical-abstracts", "mnist")
BUNDLED = ("digits", "wine", "cancer")
MOST_PRIVATE, MOST_PUBLIC = 6000, 1500
KNOWN = (0, 100, 300)
# Method, ε and δ.
ASKED = [(name, epsilon, 1e-5) for name in ("rknn", "class_sums") for epsilon in (0.2, 1.0, 5.0)]
SEVERAL = [("fedmd", 2.0, 0.0), ("privatekt", 10.0, 1e-5), ("pate", 5.0, 1e-5)]


@dataclass(frozen=True)
class Measured:
    """One data set in two parts."""

    name: str
    private: tuple[Any, NDArray[Any]]
    public: Any
    truth: NDArray[Any]
    classes: tuple[Any, ...]


def sets(folder: Path | None) -> Iterator[Measured]:
    from sklearn import datasets

    for name in (*BUNDLED, *(FILED if folder is not None else ())):
        if name in ("wine", "cancer"):
            samples, labels = (datasets.load_wine if name == "wine" else datasets.load_breast_cancer)(return_X_y=True)
            order = np.random.default_rng(0).permutation(len(samples))
            half = len(samples) // 2
            private, public = order[:half], order[half:]
            yield Measured(
                name, (samples[private], labels[private]), samples[public], labels[public], tuple(np.unique(labels))
            )
            continue
        found = read_set(name, folder or Path())
        rows, labels = found.private
        yield Measured(
            name, (rows[:MOST_PRIVATE], labels[:MOST_PRIVATE]), found.public[:MOST_PUBLIC],
            np.asarray(found.public_labels)[:MOST_PUBLIC], found.classes,
        )  # fmt: skip


def measure(parts: Measured, method: str, epsilon: float, delta: float, seed: int) -> tuple[float, float]:
    """The share of right labels of one simulated run, and its seconds of a processor."""
    more: dict[str, Any] = {} if method not in ("fedmd", "privatekt") else {"holders": 10}
    if method == "privatekt":
        more |= {"model": "logistic", "rounds": 40}
    if method == "fedmd":
        more |= {"models": ["logistic"], "rounds": 3}
    if method == "pate":
        more |= {"queries": min(50, len(parts.truth))}
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        run = tacit.distill(
            parts.private, parts.public, epsilon, delta=delta, method=method, classes=parts.classes, seed=seed, **more
        )
    return float((run.labels == parts.truth).mean()), time.process_time() - began


def foreseen(parts: Measured, method: str, epsilon: float, delta: float, known: int) -> Prospect:
    """The forecast for the same setting, with this many labels known."""
    labels = None
    if known:
        labels = np.array(parts.truth, dtype=object)
        hidden = np.random.default_rng(1).permutation(len(labels))[known:]
        labels[hidden] = None
    options: Any = method
    if method == "privatekt":
        options = tacit.PrivateKT(rounds=40)
    if method == "pate":
        options = tacit.PATE(queries=min(50, len(parts.truth)))
    found = tacit.forecast(
        parts.public, records=len(parts.private[1]), classes=parts.classes, epsilon=epsilon, delta=delta,
        methods=[options], holders=10, public_labels=labels,
    )  # fmt: skip
    return next(
        each for each in found.prospects if each.trust != "shuffle" and (method != "rknn" or each.trust == "central")
    )


def lines(folder: Path | None, runs: int) -> Iterator[dict[str, Any]]:
    for parts in sets(folder):
        several = SEVERAL if parts.name in ("digits", "cancer", "adult") else []
        for method, epsilon, delta in (*ASKED, *several):
            try:
                found = [measure(parts, method, epsilon, delta, seed) for seed in range(runs)]
            except InvalidInput as error:
                print(parts.name, method, epsilon, error)
                continue
            right = [each for each, _ in found]
            for known in KNOWN:
                if known >= len(parts.truth):
                    continue
                try:
                    expected = foreseen(parts, method, epsilon, delta, known)
                except InvalidInput as error:
                    print(parts.name, method, epsilon, known, error)
                    continue
                if expected.refused:
                    print(parts.name, method, epsilon, known, expected.refused)
                    continue
                line = {
                    "data": parts.name, "method": method, "epsilon": epsilon, "delta": delta, "known": known,
                    "measured": right, "expected": expected.accuracy, "low": expected.low, "high": expected.high,
                    "seconds": float(np.mean([each for _, each in found])), "expected seconds": expected.seconds,
                }  # fmt: skip
                print(
                    f"{parts.name:18}{method:12}{epsilon:5g} known {known:4} measured {np.mean(right):.3f} "
                    f"expected {expected.accuracy:.3f} [{expected.low:.3f}, {expected.high:.3f}] "
                    f"{'' if expected.low <= np.mean(right) <= expected.high else 'MISSED'}",
                    flush=True,
                )
                yield line


def summary(found: list[dict[str, Any]], known: int, several: bool) -> dict[str, float]:
    """Over runs: how often the interval held the measured share; its width; and how far the middle was off."""
    mine = [each for each in found if each["known"] == known and (each["method"] in ("rknn", "class_sums")) != several]
    held = [each["low"] <= value <= each["high"] for each in mine for value in each["measured"]]
    wide = [each["high"] - each["low"] for each in mine]
    off = [abs(each["expected"] - np.mean(each["measured"])) for each in mine]
    return {
        "settings": len(mine), "runs": len(held), "covered": float(np.mean(held)), "width": float(np.mean(wide)),
        "off": float(np.mean(off)),
    }  # fmt: skip


# Half widths that might hold nine of ten once they are scaled on other data sets: the same everywhere, that of the
# forecast, that of a share of samples, and half of the forecast's beside five points.
SCALES: dict[str, Callable[[dict[str, Any]], float]] = {
    "the same everywhere": lambda line: 1.0,
    "the forecast's own": lambda line: (line["high"] - line["low"]) / 2,
    "by √(p(1 − p))": lambda line: math.sqrt(max(line["expected"] * (1 - line["expected"]), 0.01)),
    "half the forecast's, and five points": lambda line: (line["high"] - line["low"]) / 4 + 0.05,
}


def calibrated(found: list[dict[str, Any]], known: int, several: bool, scale: str) -> tuple[float, float]:
    """Coverage and width of intervals around the same middles whose scale is that of all other data sets."""
    mine = [each for each in found if each["known"] == known and (each["method"] in ("rknn", "class_sums")) != several]
    held, wide = [], []
    for name in sorted({each["data"] for each in mine}):
        off = sorted(
            abs(np.mean(each["measured"]) - each["expected"]) / SCALES[scale](each)
            for each in mine
            if each["data"] != name
        )
        factor = off[min(math.ceil((len(off) + 1) * 0.9), len(off)) - 1]
        for each in (each for each in mine if each["data"] == name):
            half = factor * SCALES[scale](each)
            low, high = max(0.0, each["expected"] - half), min(1.0, each["expected"] + half)
            held.append(low <= np.mean(each["measured"]) <= high)
            wide.append(high - low)
    return float(np.mean(held)), float(np.mean(wide))


def write(found: list[dict[str, Any]], record: dict[str, Any] | None = None) -> None:
    heads = [(known, several) for several in (False, True) for known in KNOWN]
    totals = {f"{'others' if s else 'rknn and class_sums'}, {k} labels": summary(found, k, s) for k, s in heads
              if any(e["known"] == k and (e["method"] in ("rknn", "class_sums")) != s for e in found)}  # fmt: skip
    record = record or {"machine": machine(), "versions": versions(), "totals": totals, "lines": found}
    (RESULTS / "forecasts.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    text = [
        "# Forecasts against measured runs",
        "",
        "Written by `python benchmarks/forecasts.py --folder DATA`. A forecast sees public samples, and none, 100 or",
        "300 of their labels. *Covered* is how many runs lie in the interval that should hold nine of ten; *width*",
        "is its mean, *off* the mean distance of its middle from the measured mean, in points.",
        "",
        "| methods, labels known | settings | runs | covered | width | off |",
        "|---|---|---|---|---|---|",
        *(
            f"| {name} | {each['settings']} | {each['runs']} | {each['covered']:.0%} | {100 * each['width']:.1f} | "
            f"{100 * each['off']:.1f} |"
            for name, each in totals.items()
        ),
        "",
        "Would other widths around the same middles do better? Each is scaled to hold nine of ten settings of all",
        "other data sets, and held against the one left out (a setting counts by its mean).",
        "",
        "| half width | labels known | covered | width |",
        "|---|---|---|---|",
        *(
            f"| {scale} | {known} | {covered:.0%} | {100 * width:.1f} |"
            for known in KNOWN
            for scale in SCALES
            for covered, width in [calibrated(found, known, False, scale)]
        ),
        "",
        "| data | method | ε | labels known | measured | expected | interval | |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {each['data']} | {each['method']} | {each['epsilon']:g} | {each['known']} | "
            f"{100 * np.mean(each['measured']):.1f} | {100 * each['expected']:.1f} | {100 * each['low']:.1f} – "
            f"{100 * each['high']:.1f} | "
            f"{'' if each['low'] <= np.mean(each['measured']) <= each['high'] else 'missed'} |"
            for each in found
        ),
        "",
    ]
    (RESULTS / "forecasts.md").write_text("\n".join(text), encoding="utf-8")
    print("\n".join(text[:20]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="only write the tables again, from forecasts.json")
    given = parser.parse_args()
    if given.again:
        kept = json.loads((RESULTS / "forecasts.json").read_text(encoding="utf-8"))
        write(kept["lines"], kept)
        return
    write(list(lines(given.folder, given.runs)))


if __name__ == "__main__":
    main()
