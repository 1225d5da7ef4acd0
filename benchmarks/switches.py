"""What each free idea is worth: pairs of lines that differ in one switch, from the tables that were measured.

Run: python benchmarks/switches.py

Reads the measurements in docs/results and measures nothing. The gain is that of the mean, with its 95 % interval: of
the differences by seed where both lines have the same seeds, as they draw the same data and noise; else Welch's.
Writes docs/results/switches.json, .md and .png.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.table import Result, Row, shown, write_result
from tacit.core import InvalidInput

RESULTS = Path(__file__).parent.parent / "docs" / "results"
MISSING = (
    "Not measured with a switch of its own: MixMatch and FixMatch, fine-tuning the encoder, SimCLR, losses robust to "
    "wrong labels. The Gaussian-DP filter is computed, not measured: two charges of ε = 1 "
    "are 1.0000 instead of 1.0927 (it saves about a tenth of ε for adaptive Gaussian rounds)."
)


@dataclass(frozen=True)
class Switch:
    """An idea on a data set at a budget: the table, and the lines without and with it, by what names them."""

    idea: str
    data: str
    epsilon: str
    table: str
    without: Mapping[str, str]
    with_it: Mapping[str, str]
    shared: Mapping[str, str] = field(default_factory=dict)
    measures: tuple[str, str] = ("test", "test")  # without and with it

    def row(self, folder: Path) -> Row:
        """The line of the switch table."""
        rows = json.loads((folder / f"{self.table}.json").read_text(encoding="utf-8"))["rows"]
        (before, seeds), (after, others) = (
            _runs(rows, {**self.shared, **each}, self.table, measure)
            for each, measure in zip((self.without, self.with_it), self.measures, strict=True)
        )
        paired = same_seeds(seeds, others)
        names = {
            "idea": self.idea, "data": self.data, "ε": self.epsilon, "without": shown(before), "with": shown(after),
            "gain": f"{100 * (np.mean(after) - np.mean(before)):+.1f}", "95 % interval": gained(before, after, paired),
            "from": f"[table]({self.table}.md)",
        }  # fmt: skip
        return Row(names, [{"without": first, "with": second} for first, second in _pairs(before, after)])


def _runs(
    rows: Sequence[Mapping[str, Any]], names: Mapping[str, str], table: str, measure: str = "test"
) -> tuple[list[float], list[int | None]]:
    """Of the one line that these names belong to: what was measured, and the seeds where they are written down.

    Runs are in the order of their seeds.
    """
    found = [row for row in rows if all(row["names"].get(name) == value for name, value in names.items())]
    if len(found) != 1:
        raise InvalidInput(f"{table}: {len(found)} lines are named {dict(names)}")
    seeds = [run.get("settings", run).get("seed") for run in found[0]["runs"]]
    values = [float(run[measure]) for run in found[0]["runs"]]
    order = range(len(seeds)) if None in seeds else np.argsort(seeds).tolist()
    return [values[place] for place in order], [seeds[place] for place in order]


def same_seeds(first: Sequence[int | None], second: Sequence[int | None]) -> bool:
    """Whether two lines have the same seeds, written down and in the same order.

    >>> same_seeds([0, 1], [0, 1]), same_seeds([0, 1], [1, 2]), same_seeds([None, None], [None, None])
    (True, False, False)
    """
    return None not in first and list(first) == list(second)


def _pairs(before: Sequence[float], after: Sequence[float]) -> list[tuple[float | None, float | None]]:
    longest = max(len(before), len(after))
    filled = [[*each, *[None] * (longest - len(each))] for each in (before, after)]
    return list(zip(*filled, strict=True))


def gained(before: Sequence[float], after: Sequence[float], paired: bool) -> str:
    """The 95 % interval of the gain in points, of differences if runs are ``paired``; empty if a line has one run.

    >>> gained([0.80, 0.82], [0.81, 0.83], True), gained([0.8], [0.9, 0.9], False)
    ('+1.0 to +1.0', '')
    """
    from scipy.stats import t

    first, second = 100 * np.asarray(before), 100 * np.asarray(after)
    if min(len(first), len(second)) < 2:
        return ""
    middle = float(second.mean() - first.mean())
    if paired:
        free, error = len(first) - 1, float((second - first).std(ddof=1)) / len(first) ** 0.5
    else:
        parts = [each.var(ddof=1) / len(each) for each in (first, second)]
        error = float(sum(parts)) ** 0.5
        squares = sum(part**2 / (len(each) - 1) for part, each in zip(parts, (first, second), strict=True))
        free = error**4 / squares if squares else 1
    reach = float(t.ppf(0.975, free)) * error
    return f"{middle - reach:+.1f} to {middle + reach:+.1f}"


def _rounds(data: str, epsilon: str, most: str) -> list[Switch]:
    """Votes again in the student's own features, and how later queries are chosen."""
    table, once = f"rknn-{data.lower().replace('-', '')}-iterations", {"iterations": "1", "selection": "diverse"}
    name = "votes again in the student's features, at the same total ε"
    return [
        Switch(f"{name}: 2 rounds", data, epsilon, table, once, {"iterations": "2", "selection": "diverse"}),
        Switch(f"{name}: {most} rounds", data, epsilon, table, once, {"iterations": most, "selection": "diverse"}),
        Switch("queries where the student is unsure (margin) instead of diverse", data, epsilon, table,
               {"selection": "diverse"}, {"selection": "margin"}, {"iterations": "2"}),
    ]  # fmt: skip


def _taught(data: str, epsilon: str) -> list[Switch]:
    """What the student is taught, instead of labels weighted by confidence."""
    ideas = {
        "abstention: the surest 92 % of labels": "labels, the surest 92 %",
        "neighbors agree: labels spread over the public graph": "labels, over the graph",
        "soft labels: odds of the noisy counts": "odds of noisy counts",
        "two resolutions of queries, half the budget each": "odds of 20 and 80 queries",
    }
    if data == "CIFAR-10":
        ideas["proportions of each cluster"] = "proportions of noisy counts"
    table = f"rknn-{data.lower().replace('-', '')}-teaching"
    return [
        Switch(idea, data, epsilon, table, {"taught": "labels, weighted"}, {"taught": way}, {"ε": epsilon})
        for idea, way in ideas.items()
    ]


def _sets(data: str, epsilon: str) -> list[Switch]:
    """Switches of sets of labels; the figures are micro-F1."""
    ideas = {
        "thresholds from releases": ("default, thresholds half", "default"),
        "class sums before votes": ("votes", "default"),
    }
    shared = {"data": data, "ε": epsilon, "δ": "1e-05"}
    return [
        Switch(f"{idea} (micro-F1)", data, epsilon, "multilabel", {"line": first}, {"line": second}, shared)
        for idea, (first, second) in ideas.items()
    ]


# PrivateKT's tables that ask about groups: whose they are, how often a holder answers at each total ε, and beyond what.
GROUPS = (
    ("MNIST, 80 holders", "mnist", (1, 2, 5), ""),
    ("chest X-rays, 40 holders", "pneumonia", (2, 4, 9), ""),
    ("medical abstracts, 30 holders", "text", (2, 3, 6), ""),
    ("medical abstracts, classes' names known", "text", (2, 3, 6), ", classes' names known"),
    ("AG News, 200 holders", "news", (2, 3, 6), ""),
)
TOTALS = (5, 10, 20)


def _transferred() -> Iterator[Switch]:
    """What PrivateKT's helpers are worth: with few questions about groups, and in the authors' way."""

    def switch(idea: str, data: str, epsilon: str, table: str, without: str, with_it: str) -> Switch:
        return Switch(
            idea, f"PrivateKT, {data}", epsilon, f"privatekt-{table}", {"what": without}, {"what": with_it},
            measures=("accuracy", "accuracy"),
        )  # fmt: skip

    off = "no importance sampling"
    for idea, without in (
        ("a buffer of 25 rounds", "no buffer"),
        ("importance sampling of single samples", off),
        ("self-training", "no self-training"),
    ):
        yield switch(idea, "MNIST, 40 rounds", "87.2", "mnist-ablation", without, "everything")
    for data, table, times, known in GROUPS:
        for total, count in zip(TOTALS, times, strict=True):
            line = f"total ε = {total}: {count} × 1 answers{known}"
            yield switch("importance sampling of groups", data, str(total), f"{table}-groups", f"{line}, {off}", line)
            if table != "news" and total == 10 and not known:
                single = f"{line}, single samples"
                found = f"{single}, {off}", f"{single}, all answers kept"
                yield switch("importance sampling of single samples", data, "10", f"{table}-groups", *found)
                yield switch("self-training", data, "10", f"{table}-groups", line, f"{line}, self-training added")
                yield switch(
                    "questions about groups instead of single samples", data, "10", f"{table}-groups", found[1], line
                )


def _generations(budget: str) -> Iterator[Switch]:
    """What students taught in generations from one release are worth; all of them are in the same runs."""
    for idea, before, after in (
        ("an ensemble of two students instead of one", "one network", "generation 1"),
        ("students taught by groups of what former ones see: a second generation", "generation 1", "generation 2"),
        ("the same: a third generation", "generation 2", "test"),
    ):
        line = {"budget": budget}
        yield Switch(idea, "MNIST", budget, "mnist-generations", line, line, measures=(before, after))


SWITCHES = (
    *_rounds("MNIST", "0.1", "3"),
    *_rounds("SVHN", "1", "3"),
    *_rounds("CIFAR-10", "1", "3"),
    *(switch for data in ("MNIST", "CIFAR-10") for epsilon in ("0.1", "0.02") for switch in _taught(data, epsilon)),
    *(
        Switch("permute-and-flip instead of Laplace noise", "MNIST", epsilon, "rknn-mnist-mechanisms",
               {"mechanism": "laplace"}, {"mechanism": "permute-and-flip"}, {"ε": epsilon})
        for epsilon in ("0.1", "0.01", "0.002")
    ),
    *(
        Switch("class sums and a gradient or mixture (the default) instead of votes", "CIFAR-10", epsilon,
               "leaderboard-cifar10", {"method": "rknn"}, {"method": "auto"}, {"ε": epsilon})
        for epsilon in ("1", "0.1")
    ),
    *(
        Switch("public knowledge: a text reader's odds times those of class sums", "SVHN", epsilon,
               "house-numbers-reader", {"line": "class sums alone"}, {"line": "class sums and what the reader says"},
               {"ε": epsilon})
        for epsilon in ("1", "0.1")
    ),
    *(
        Switch("public knowledge: names of a network's classes as a prior over assignments", "CIFAR-10, local", epsilon,
               "cifar10-names-local", {"line": "groups named by the answers alone"},
               {"line": "groups named by the answers and the names"}, {"ε": f"local {epsilon}"})
        for epsilon in ("0.4", "0.2")
    ),
    *(
        Switch("public knowledge: a mixture begun at those names, corrected by class sums", "CIFAR-10", epsilon,
               "cifar10-names-central", {"line": "class sums alone"}, {"line": "the mixture, corrected by class sums"},
               {"ε": epsilon})
        for epsilon in ("1", "0.29", "0.1", "0.01")
    ),
    *(switch for data in ("scene", "yeast") for epsilon in ("1", "0.1") for switch in _sets(data, epsilon)),
    *_transferred(),
    *_generations("ε = .1"),
    *(
        Switch("public knowledge: a mixture begun at the classes' names joined with local answers", "AG News, local",
               epsilon, "news-local", {"line": "4 groups, answers alone"}, {"line": "4 groups, answers and names"},
               {"ε": f"local {epsilon}"})
        for epsilon in ("1", "2")
    ),
)  # fmt: skip


def main() -> None:
    """Write the table and the picture."""
    rows = [switch.row(RESULTS) for switch in SWITCHES]
    caption = (
        "What each free idea is worth: test accuracy (%) without and with it at the same budget, all else being equal."
    )
    sampled = [row for row in rows if row.names["idea"].startswith("importance sampling")]
    notes = [
        "Each line compares two lines of the table named at its end, where data, splits and public knowledge are, and "
        "which settings were chosen on private records.",
        "The interval is that of the mean gain: of differences by seed where both lines name the same seeds, else "
        "Welch's. One that contains 0 says that the idea cannot be told from chance here. It is about seeds, not about "
        "which images are in the test part: of CIFAR-10's and SVHN's 1,000 in these tables a point is 10 images.",
        "PrivateKT: ε is the total of a holder with all its records. " + _told(sampled),
        MISSING,
    ]
    result = Result("switches", caption, rows, {}, notes)
    for file in [*write_result(result, RESULTS), draw(rows, RESULTS / "switches.png")]:
        print(file)


def _told(rows: Sequence[Row]) -> str:
    """In how many comparisons importance sampling is told from chance, and to which side."""
    ends = [[float(end) for end in row.names["95 % interval"].split(" to ")] for row in rows]
    better, worse = sum(low > 0 for low, _ in ends), sum(high < 0 for _, high in ends)
    return (
        f"Importance sampling is compared {len(rows)} times: it is better than chance explains in {better}, worse in "
        f"{worse}."
    )


def draw(rows: Sequence[Row], file: Path) -> Path:
    """The gain of each switch with its interval."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 1 + 0.24 * len(rows)))
    axes = figure.add_subplot()
    places = np.arange(len(rows))[::-1]
    for place, row in zip(places, rows, strict=True):
        gain = 100 * (float(np.mean(row.values("with"))) - float(np.mean(row.values("without"))))
        ends = [float(each) for each in row.names["95 % interval"].split(" to ") if each]
        if ends:
            axes.plot(ends, [place, place], color="tab:blue", linewidth=1.5)
        axes.plot(gain, place, marker="o" if ends else "x", color="tab:blue", markersize=4)
    axes.axvline(0, color="gray", linewidth=0.8)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xticks([-3, -1, 0, 1, 3, 10, 30], ["−3", "−1", "0", "+1", "+3", "+10", "+30"])
    names = [f"{row.names['idea']}; {row.names['data']}, ε = {row.names['ε']}" for row in rows]
    axes.set_yticks(places, names, fontsize=8, parse_math=False)
    axes.set_xlabel("gain in points, 95 % interval (x: too few runs for one)", fontsize=9)
    axes.set_ylim(-1, len(rows))
    axes.grid(axis="x", alpha=0.3)
    figure.tight_layout()
    figure.savefig(file, dpi=110, metadata={"Software": None})
    return file


if __name__ == "__main__":
    main()
