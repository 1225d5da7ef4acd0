"""Forecasts compared with measured runs: does the interval contain the fraction of correct labels, and how wide is it?

Run: python benchmarks/forecasts.py [--folder DATA] [--runs 2] [--again]

DATA has one folder per data set with its publisher's files (see experiments/development.py); without it the sets that
come with scikit-learn are measured. Every setting is forecast from public samples alone, and again with 100 and 300
labeled public ones, by figures and by a rehearsal; then it is run as a simulation. Writes docs/results/forecasts.json
and .md. Every set is written as soon as it is measured, in the place of its lines; with --data only these
are measured.

The line from structure to purity in tacit/methods/forecast.py was drawn through eight of these sets (digits, adult,
mnist, ag-news, medical-abstracts, wine, cancer, iris), so that "structure alone" is not out of sample.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tacit
from experiments.development import read_set
from tacit.core import InvalidInput, TacitWarning
from tacit.datasets.samples import samples_of
from tacit.encoders.kinds import recognize
from tacit.runs.folders import machine, versions
from tacit.runs.planning import Prospect

RESULTS = Path(__file__).parent.parent / "docs" / "results"
FILED = ("adult", "ag-news", "medical-abstracts", "mnist")
BUNDLED = ("digits", "wine", "cancer")
MOST_PRIVATE, MOST_PUBLIC = 6000, 1500
KNOWN = (0, 100, 300)
# Method, ε and δ.
ASKED = [(name, epsilon, 1e-5) for name in ("rknn", "class_sums") for epsilon in (0.2, 1.0, 5.0)]
ASKED += [("noisy_sgd", 1.0, 1e-5), ("auto", 1.0, 1e-5)]
# The rows of the summary, and the methods that can be rehearsed.
TWO, OTHERS, REHEARSAL = "rknn and class_sums", "others", "rehearsed"
REHEARSED = ("auto", "class_sums", "noisy_sgd", "rknn")
SEVERAL = [("fedmd", 2.0, 0.0), ("privatekt", 10.0, 1e-5), ("pate", 5.0, 1e-5)]


@dataclass(frozen=True)
class Measured:
    """One data set in two parts."""

    name: str
    private: tuple[Any, NDArray[Any]]
    public: Any
    truth: NDArray[Any]
    classes: tuple[Any, ...]


def names_of(folder: Path | None, wanted: Sequence[str]) -> list[str]:
    """The sets that can be read, or those of them that are wanted."""
    return [name for name in (*BUNDLED, *(FILED if folder is not None else ())) if not wanted or name in wanted]


def sets(folder: Path | None, wanted: Sequence[str]) -> Iterator[Measured]:
    from sklearn import datasets

    for name in names_of(folder, wanted):
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


def foreseen(
    parts: Measured, method: str, epsilon: float, delta: float, known: int, rehearse: bool = False
) -> Prospect:
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
        methods=[options], holders=10, public_labels=labels, rehearse=rehearse,
    )  # fmt: skip
    return next(
        each for each in found.prospects if each.trust != "shuffle" and (method != "rknn" or each.trust == "central")
    )


def lines(folder: Path | None, runs: int, wanted: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    for parts in sets(folder, wanted):
        several = SEVERAL if parts.name in ("digits", "cancer", "adult") else []
        for method, epsilon, delta in (*ASKED, *several):
            try:
                found = [measure(parts, method, epsilon, delta, seed) for seed in range(runs)]
            except InvalidInput as error:
                print(parts.name, method, epsilon, error)
                continue
            right = [each for each, _ in found]
            for known, rehearse in ((known, rehearse) for known in KNOWN for rehearse in (False, True)):
                if known >= len(parts.truth) or (rehearse and (not known or method not in REHEARSED)):
                    continue
                try:
                    expected = foreseen(parts, method, epsilon, delta, known, rehearse)
                except InvalidInput as error:
                    print(parts.name, method, epsilon, known, error)
                    continue
                if expected.refused:
                    print(parts.name, method, epsilon, known, expected.refused)
                    continue
                line = {
                    "data": parts.name, "method": method, "epsilon": epsilon, "delta": delta, "known": known,
                    "rehearsed": rehearse, "measured": right, "expected": expected.accuracy, "low": expected.low,
                    "high": expected.high,
                    "seconds": float(np.mean([each for _, each in found])), "expected seconds": expected.seconds,
                }  # fmt: skip
                print(
                    f"{parts.name:18}{method:12}{epsilon:5g} known {known:4} measured {np.mean(right):.3f} "
                    f"expected {expected.accuracy:.3f} [{expected.low:.3f}, {expected.high:.3f}] "
                    f"{'' if expected.low <= np.mean(right) <= expected.high else 'MISSED'}",
                    flush=True,
                )
                yield line


# What a pilot spends, and how many records a user's own estimate without privacy is made from.
PILOT, OWN = 0.1, 2000


def ideas(folder: Path | None, wanted: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Two other ways to know how far labels follow the samples: a small payment, and a figure of the user's own.

    The pilot releases the proportions of votes at a small ε; its certainty stands for the accuracy to come. The user's
    figure is what a regression on records reaches without privacy, given as ``purity``.
    """
    for parts in sets(folder, wanted):
        private, labels = parts.private
        for seed in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TacitWarning)
                run = tacit.distill(
                    parts.private, parts.public, PILOT, delta=1e-5, method="rknn", labels="proportions",
                    classes=parts.classes, seed=50 + seed,
                )  # fmt: skip
            assert run.probabilities is not None
            yield {"idea": "pilot", "data": parts.name, "expected": float(run.probabilities.max(axis=1).mean())}
        public = samples_of(parts.public)
        seen = recognize(public)

        def numbers(samples: Any, encoder: Any = seen.encoder) -> NDArray[Any]:  # noqa: ANN401
            rows = samples_of(samples) if encoder is None else encoder.encode(samples_of(samples))
            return np.asarray(rows).reshape(len(rows), -1)

        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=100))
        model.fit(numbers(private)[:OWN], np.asarray(labels)[:OWN])
        own = float((model.predict(numbers(parts.public)) == parts.truth).mean())
        for method, epsilon, delta in ASKED:
            expected = tacit.forecast(
                parts.public, records=len(labels), classes=parts.classes, epsilon=epsilon, delta=delta,
                methods=[method], purity=own,
            )  # fmt: skip
            each = next(each for each in expected.prospects if each.trust == "central")
            if not each.refused:
                yield {
                    "idea": "own figure", "data": parts.name, "method": method, "epsilon": epsilon, "own": own,
                    "expected": each.accuracy, "low": each.low, "high": each.high,
                }  # fmt: skip


def idea_rows(tried: list[dict[str, Any]], found: list[dict[str, Any]]) -> Iterator[str]:
    """How far each idea was off the measured runs of the same settings."""
    runs = {(each["data"], each["method"], each["epsilon"]): each["measured"] for each in found}
    pilots = [each for each in tried if each["idea"] == "pilot" and (each["data"], "rknn", 1.0) in runs]
    if pilots:
        off = [abs(each["expected"] - float(np.mean(runs[each["data"], "rknn", 1.0]))) for each in pilots]
        yield f"| a pilot that spends ε = {PILOT} (rknn at ε = 1) | {len(pilots)} | | | {100 * np.mean(off):.1f} |"
    key = ("data", "method", "epsilon")
    own = [(each, runs[where]) for each in tried if each["idea"] == "own figure"
           if (where := tuple(each[name] for name in key)) in runs]  # fmt: skip
    if own:
        held = float(np.mean([each["low"] <= value <= each["high"] for each, measured in own for value in measured]))
        width = float(np.mean([each["high"] - each["low"] for each, _ in own]))
        off = [abs(each["expected"] - float(np.mean(measured))) for each, measured in own]
        shown = f"{len(own)} | {held:.0%} | {100 * width:.1f} | {100 * np.mean(off):.1f}"
        yield f"| a user's own figure without privacy | {shown} |"


def group(found: list[dict[str, Any]], known: int, kind: str) -> list[dict[str, Any]]:
    """The lines of one row of the summary."""
    mine = [each for each in found if each["known"] == known and each.get("rehearsed", False) == (kind == REHEARSAL)]
    return [each for each in mine if kind == REHEARSAL or (each["method"] in ("rknn", "class_sums")) == (kind == TWO)]


def summary(found: list[dict[str, Any]], known: int, kind: str) -> dict[str, float]:
    """Over runs: how often the interval held the measured share; its width; and how far the middle was off."""
    mine = group(found, known, kind)
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


def calibrated(found: list[dict[str, Any]], known: int, kind: str, scale: str) -> tuple[float, float]:
    """Coverage and width of intervals around the same middles whose scale is that of all other data sets."""
    mine = group(found, known, kind)
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


def write_page(totals: dict[str, Any]) -> None:
    """The same rows, rounded, in the page about planning."""
    page = RESULTS.parent / "plan.md"
    head, begin, rest = page.read_text(encoding="utf-8").partition("<!-- written by benchmarks/forecasts.py -->\n")
    rows = [
        "| methods, labels known | runs in the 90 % interval | its width | mean error of its middle |",
        "|---|---|---|---|",
        *(
            f"| {name} | {each['covered']:.0%} | {100 * each['width']:.0f} | {100 * each['off']:.0f} |"
            for name, each in totals.items()
        ),
    ]
    _, end, after = rest.partition("<!-- end -->\n")
    page.write_text(head + begin + "\n".join(rows) + "\n" + end + after, encoding="utf-8")


def write(found: list[dict[str, Any]], tried: list[dict[str, Any]]) -> None:
    totals = {
        f"{kind}, {known} labels": summary(found, known, kind)
        for kind in (TWO, OTHERS, REHEARSAL)
        for known in KNOWN
        if group(found, known, kind)
    }
    record = {"machine": machine(), "versions": versions(), "totals": totals, "lines": found, "ideas": tried}
    (RESULTS / "forecasts.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    text = [
        "# Forecasts against measured runs",
        "",
        "Written by `python benchmarks/forecasts.py --folder DATA`. A forecast sees public samples, and none, 100 or",
        "300 of their labels; where it is rehearsed, the method is run on public samples as if these were records.",
        "*Covered* is how many runs lie in the interval that should hold nine of ten; *width*",
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
        "Two other ideas, on the same settings (`--ideas`):",
        "",
        "| idea | settings | covered | width | off |",
        "|---|---|---|---|---|",
        *idea_rows(tried, found),
        "",
        "Would other widths around the same middles do better? Each is scaled to hold nine of ten settings of all",
        "other data sets, and held against the one left out (a setting counts by its mean).",
        "",
        "| half width | labels known | covered | width |",
        "|---|---|---|---|",
        *(
            f"| {scale} | {kind}, {known} | {covered:.0%} | {100 * width:.1f} |"
            for kind in (TWO, REHEARSAL)
            for known in KNOWN
            if len({each["data"] for each in group(found, known, kind)}) > 1
            for scale in SCALES
            for covered, width in [calibrated(found, known, kind, scale)]
        ),
        "",
        "| data | method | ε | labels known | measured | expected | interval | |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {each['data']} | {each['method']}{', rehearsed' * each.get('rehearsed', False)} | "
            f"{each['epsilon']:g} | {each['known']} | "
            f"{100 * np.mean(each['measured']):.1f} | {100 * each['expected']:.1f} | {100 * each['low']:.1f} – "
            f"{100 * each['high']:.1f} | "
            f"{'' if each['low'] <= np.mean(each['measured']) <= each['high'] else 'missed'} |"
            for each in found
        ),
        "",
    ]
    (RESULTS / "forecasts.md").write_text("\n".join(text), encoding="utf-8")
    write_page(totals)
    print("\n".join(text[:20]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="only write the tables again, from forecasts.json")
    parser.add_argument("--ideas", action="store_true", help="only try two other ideas, beside the lines of before")
    parser.add_argument("--data", default="", help="only these sets: digits,adult")
    given = parser.parse_args()
    wanted = given.data.split(",") if given.data else []
    kept = json.loads((RESULTS / "forecasts.json").read_text(encoding="utf-8"))
    if given.again:
        write(kept["lines"], kept.get("ideas", []))
        return
    if given.ideas:
        write(kept["lines"], list(ideas(given.folder, wanted)))
        return
    found = kept["lines"]
    for name in names_of(given.folder, wanted):
        # A set is written as soon as it is measured.
        found = [*(each for each in found if each["data"] != name), *lines(given.folder, given.runs, [name])]
        write(found, kept.get("ideas", []))


if __name__ == "__main__":
    main()
