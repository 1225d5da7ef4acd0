"""AG News where every holder has one text and trusts nobody: local answers at ε = 1 and what the classes' names add.

Run: python benchmarks/news_local.py --folder DATA [--runs 5] [--kept] [--cache FOLDER]

7,000 holders answer once. MiniLM encodes the texts, and the names of the four classes; DATA/ag-news has the published
files, and the extra ``features`` is needed. Texts are encoded once and kept in the cache; so is every measurement, by
its settings and a digest of the code. Writes docs/results/news-local.json, .md and .png.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.development import read_set
from experiments.kept_encodings import KeptRows
from experiments.leaderboard_public import NAMES
from experiments.local_groups import asked
from experiments.measured import Memory
from experiments.named_groups import grouped_by, voted
from experiments.privatekt_groups import likeness
from experiments.public_odds import Known
from experiments.seeded import INTERVAL, MEASURES, Seeded, line
from experiments.table import Result, Row, write_result
from tacit.report.charts import Chart, Panel, draw_chart
from tacit.representations.chained import Chained
from tacit.representations.scaled import Directions, PrincipalComponents

HERE = Path(__file__).parent
RESULTS, KEPT = HERE.parent / "docs" / "results", HERE.parent / ".tacit-bench"
NAME, COMPONENTS = "news-local", 64
EPSILONS, GROUPS = (1.0, 2.0), (4, 8, 16, 32, 64)
# An answer is hardly ever randomized.
CLEAR = 20.0
CODE = ("experiments.local_groups", "experiments.privatekt_groups", "tacit.methods.rknn.method")
NOTES = [
    "Of 10,000 texts of the training file 7,000 are private, one per holder, and 3,000 public without labels; the "
    "whole test file, 7,600, is for the test.",
    "One randomized answer per holder (record and group at once), δ = 0, replace-one, nobody is trusted.",
    "Public knowledge: MiniLM, trained on public pairs of sentences; the names World, Sports, Business and Sci/Tech; "
    "in the mixture also that the four classes are equally frequent.",
    "Answers alone: the released shares of each group are taught to a logistic regression. With names: the mixture's "
    "chances are fitted to these shares. Every number of groups is shown; none was chosen.",
    "ε = 0 uses no record. Hardly any noise: ε = 20. No privacy: a logistic regression on the records.",
    INTERVAL,
]


def read(folder: Path, cache: Path) -> Known:
    """The texts as MiniLM sees them, and the chances of the classes by their names."""
    from tacit.representations.torch_minilm import TextFeatures

    found = read_set("ag-news", folder)
    encoder, kept = TextFeatures(), KeptRows(cache / "encodings")
    texts = (found.private[0], found.public, found.test[0])
    seen = [kept.rows(encoder.digest, each, encoder.encode) for each in texts]
    said = [likeness(each, tuple(NAMES["ag-news"][name] for name in found.classes)) for each in seen[1:]]
    space = Chained.fit(seen[1], lambda rows: PrincipalComponents.fit(rows, COMPONENTS), Directions.fit)
    private, public, test = (space.encode(each) for each in seen)
    labels = [_numbers(each, found.classes) for each in (found.private[1], found.public_labels, found.test[1])]
    return Known(private, labels[0], public, labels[1], test, labels[2], said[0], said[1])


def _numbers(labels: NDArray[Any], classes: tuple[Any, ...]) -> NDArray[np.int64]:
    return np.array([classes.index(each) for each in labels.tolist()])


def direct(known: Known, *_: float) -> Mapping[str, Any]:
    """No privacy."""
    from tacit.students.weighted import logistic

    student = logistic().fit(known.private, known.labels)
    return {"test": float(student.score(known.test, known.truth))}


def lines(known: Known, seeded: Seeded) -> Iterator[Row]:
    """From nothing but names to no privacy."""
    grouped = grouped_by(known)
    yield line("0", "the likest name of a class", [known.judged((known.chances, known.test_chances))])
    yield line(
        "0", "the same in a mixture of even classes", [known.judged((grouped.public, grouped.chances(known.test)))]
    )
    for epsilon in (*EPSILONS, CLEAR):
        shown = "hardly any noise" if epsilon == CLEAR else f"local {epsilon:g}"
        answers = seeded.runs("mixture", epsilon, partial(voted, known), CODE)
        yield line(shown, "the mixture's groups, named by the answers and the names", answers, "both")
        yield line(shown, "the mixture's groups, named by the answers alone", answers, "answers")
        for groups in GROUPS:
            runs = seeded.runs(f"{groups} groups", epsilon, partial(asked, known, groups), CODE)
            yield line(shown, f"{groups} groups, answers and names", runs, "both")
            yield line(shown, f"{groups} groups, answers alone", runs, "answers")
    yield line("no privacy", "the records themselves", seeded.runs("direct", 0, partial(direct, known), CODE))


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="one folder per data set")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cache", type=Path, default=KEPT, help="where encodings and measurements are kept")
    parser.add_argument("--kept", action="store_true", help="write what was measured so far, and measure nothing")
    given = parser.parse_args()
    known = read(given.folder, given.cache)
    seeded = Seeded(Memory(given.cache / NAME), given.runs, partial(print, flush=True), given.kept)
    caption = "AG News, 7,000 holders of one text each, one randomized answer per holder; % right."
    result = Result(NAME, caption, list(lines(known, seeded)), MEASURES, NOTES).measured()
    files = write_result(result, RESULTS)
    for file in [*files, draw(result.rows)]:
        print(file)


def draw(rows: Sequence[Row]) -> Path:
    """Accuracy over the number of groups, between what names say and no privacy."""

    def mean(shown: str, name: str) -> float:
        found = next(row for row in rows if (row.names["ε"], row.names["line"]) == (shown, name))
        return 100 * float(np.mean(found.values("test")))

    curves: dict[str, Sequence[float | None]] = {
        f"{shown}, {way}": [mean(shown, f"{groups} groups, {way}") for groups in GROUPS]
        for shown in ("local 1", "local 2", "hardly any noise")
        for way in ("answers alone", "answers and names")
    }
    curves["ε = 0: names, in a mixture"] = [mean("0", "the same in a mixture of even classes")] * len(GROUPS)
    curves["no privacy"] = [mean("no privacy", "the records themselves")] * len(GROUPS)
    panel = Panel("AG News, one answer per holder", "groups", "test, % right", GROUPS, curves)
    return draw_chart(Chart(NAME, "", [panel]), RESULTS / f"{NAME}.png")


if __name__ == "__main__":
    main()
