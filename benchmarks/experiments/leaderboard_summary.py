"""All leaderboards as the short tables of one page, from what was written down.

Run: python -m experiments.leaderboard_summary docs/results (in the folder benchmarks), and copy what it prints.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.table import shown

__all__ = ["curves", "fixed_lines", "margins", "read_boards"]

# In the order of the page, with what is said of the encoder.
BOARDS = {
    "digits": "digits",
    "mnist": "MNIST",
    "fashion": "Fashion-MNIST",
    "svhn": "SVHN",
    "cifar10": "CIFAR-10",
    "ag-news": "AG News",
    "adult": "Adult",
}
EARLIER = "†"
# Lines of ours that protect one record, and those that they are held against.
OURS = ("auto", "rknn", "class_sums")
AGAINST = {
    "noisy SGD": ("noisy_sgd", "noisy_sgd on the map", "noisy_sgd two layers", "noisy_sgd fine-tuned"),
    "Private k-NN": ("private_knn",),
    "GNMax": ("pate gnmax", "pate confident"),
    "LNMax": ("pate lnmax",),
}


def read_boards(folder: Path) -> dict[str, list[Mapping[str, Any]]]:
    """The rows of every board in the folder."""
    files = {name: folder / f"leaderboard-{name}.json" for name in BOARDS}
    return {
        name: json.loads(file.read_text(encoding="utf-8"))["rows"] for name, file in files.items() if file.is_file()
    }


def curves(name: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line per method and a column per ε: mean, and standard deviation where there are several runs.

    >>> rows = [{"names": {"method": "rknn", "ε": "1", "code": "this"}, "runs": [{"test": 0.9}, {"test": 0.92}]}]
    >>> print("\\n".join(curves("digits", rows)))
    | digits | ε = 1 | runs |
    |---|---|---|
    | rknn | 91.0 ± 1.4 | 2 |
    """
    measured = [row for row in rows if row["names"].get("ε")]
    epsilons = sorted({float(row["names"]["ε"]) for row in measured})
    cells = {(row["names"]["method"], float(row["names"]["ε"])): row for row in measured}
    lines = [
        f"| {BOARDS[name]} | {' | '.join(f'ε = {each:g}' for each in epsilons)} | runs |",
        "|" + "---|" * (len(epsilons) + 2),
    ]
    for method in dict.fromkeys(method for method, _ in cells):
        found = [cells.get((method, each)) for each in epsilons]
        counts = sorted({len(row["runs"]) for row in found if row is not None})
        runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        lines.append(f"| {method} | {' | '.join(map(_cell, found))} | {runs} |")
    return lines


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    return shown([run["test"] for run in row["runs"]]) + (EARLIER if row["names"].get("code") == "earlier" else "")


def fixed_lines(boards: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """What does not depend on ε: a line per data set and a column per kind of knowledge."""
    values = {
        (name, row["names"]["method"]): shown([run["test"] for run in row["runs"]])
        for name, rows in boards.items()
        for row in rows
        if not row["names"].get("ε")
    }
    kinds = list(dict.fromkeys(kind for _, kind in values))
    # Without privacy last, whichever data set has most lines.
    kinds.sort(key=lambda kind: (kind.startswith("no privacy"), "oracle" in kind))
    lines = [f"| | {' | '.join(kinds)} |", "|" + "---|" * (len(kinds) + 1)]
    for name in boards:
        lines.append(f"| {BOARDS[name]} | {' | '.join(values.get((name, kind), '') for kind in kinds)} |")
    return lines


def margins(boards: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """How many points our best line is above the best of each baseline's lines, up to ε = 1.

    >>> rows = [{"names": {"method": name, "ε": "1"}, "runs": [{"test": test}]}
    ...         for name, test in (("auto", 0.9), ("rknn", 0.8), ("pate gnmax", 0.85))]
    >>> print("\\n".join(margins({"digits": rows})))
    | data | ε | our best line | above noisy SGD | above Private k-NN | above GNMax | above LNMax |
    |---|---|---|---|---|---|---|
    | digits | 1 | auto 90.0 |  |  | 5.0 |  |
    """
    heads = ["data", "ε", "our best line", *(f"above {each}" for each in AGAINST)]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for name, rows in boards.items():
        for epsilon in sorted({row["names"]["ε"] for row in rows if row["names"].get("ε")}, key=float):
            if float(epsilon) > 1:
                continue
            means = {
                row["names"]["method"]: 100 * float(np.mean([run["test"] for run in row["runs"]]))
                for row in rows
                if row["names"].get("ε") == epsilon
            }
            ours = max((each for each in OURS if each in means), key=lambda each: means[each])
            best = [max((means[each] for each in some if each in means), default=None) for some in AGAINST.values()]
            said = ["" if each is None else f"{means[ours] - each:.1f}" for each in best]
            lines.append(f"| {BOARDS[name]} | {epsilon} | {ours} {means[ours]:.1f} | {' | '.join(said)} |")
    return lines


def _page(boards: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    for name, rows in boards.items():
        yield from (*curves(name, rows), "")
    yield from (*fixed_lines(boards), "")
    yield from margins(boards)


if __name__ == "__main__":
    print("\n".join(_page(read_boards(Path(sys.argv[1])))))
