"""SVHN's house numbers by a public text reader: what it reads alone, and what the records add, by digit and by photo.

Run: python benchmarks/house_numbers.py --folder DATA [--runs 5] [--figure reader,photographs] [--records N] [--kept]

DATA/svhn has the published files, and ``train_house_number_image.txt``, which says which digits come from one
photograph. The reader's weights come with ``pip install --no-deps rapidocr==3.10.0``. Private: the 73,257 digits of the
training file; public: 20,000 of the test file, without labels; test: the other 6,032 (splits/svhn-complete.txt). Each
image is encoded once and kept in the cache; so is every measurement, by its settings and a digest of the code. Writes
docs/results/house-numbers-*.json, .md and .png.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tacit
from experiments.charts import draw_rows
from experiments.kept_encodings import KeptRows
from experiments.measured import Memory
from experiments.public_odds import DELTA, Known
from experiments.seeded import INTERVAL, MEASURES, MUCH, Seeded, line, noise_in_words
from experiments.table import Result, Row, write_result
from experiments.text_reader import TextReader, reading
from splits import SPLITS
from tacit.core import TacitWarning
from tacit.datasets.color_images import read_svhn
from tacit.datasets.published import rows_of, split
from tacit.report.charts import Chart, Panel, draw_chart

HERE = Path(__file__).parent
RESULTS, KEPT = HERE.parent / "docs" / "results", HERE.parent / ".tacit-bench"
EPSILONS, BOUNDS = (1.0, 0.1), (1, 2, 4)
ALONE = "the reader alone: its likeliest digit"
CODE = ("experiments.public_odds", "experiments.text_reader")
VOTED = ("tacit.runs.distill", "tacit.methods.rknn.method", "experiments.text_reader")
KNOWLEDGE = (
    "Public knowledge: 20,000 images of the test file without labels; a text reader trained on photographs of text "
    "(PP-OCRv6, in the wheel of rapidocr 3.10), among which house numbers may be; and that the images show digits."
)
SETTING = (
    "Private: digits of the training file; public: 20,000 of the test file; test: the other 6,032. "
    f"δ = {DELTA:g}, replace-one, one curator. Views and steps of the reader were chosen by the labels of 1,000 public "
    "images, and how its odds join those of the sums by all 20,000; nothing was chosen on records or the test part."
)


def read(folder: Path, cache: Path, records: int | None = None) -> Known:
    """The digits as the reader sees them, of the training file all or the first ones."""
    digits, labels = (each[:records] for each in read_svhn(folder / "svhn" / "train_32x32.mat"))
    images, truth = read_svhn(folder / "svhn" / "test_32x32.mat")
    letters = split("svhn-complete", *SPLITS["svhn-complete"])
    public, test = rows_of(letters, "public"), rows_of(letters, "test")
    reader, kept = TextReader(), KeptRows(cache / "encodings")
    private, others = (kept.rows(reader.digest, each, reader.encode) for each in (digits, images))
    photographs = np.loadtxt(folder / "svhn" / "train_house_number_image.txt", dtype=np.int64)[:records]
    said = np.exp(reading(others))
    said /= said.sum(axis=1, keepdims=True)
    return Known(
        features(private), labels, features(others[public]), truth[public], features(others[test]), truth[test],
        said[public], said[test], photographs,
    )  # fmt: skip


def features(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """What is summed: the digits' log-probabilities of each view."""
    views = rows.reshape(len(rows), 2, -1)
    return np.ascontiguousarray(views[:, :, :30].reshape(len(rows), -1))


def summed(known: Known, epsilon: float, seed: int, unit: tacit.Unit | None = None) -> Mapping[str, Any]:
    """One release of class sums, read alone and with what the reader says."""
    released = known.sums(epsilon, seed, unit)
    return {
        "alone": known.judged(released.alone()),
        "both": known.judged(released.both()),
        "components": released.run.recipe["components"],
        "mechanism": released.run.recipe["mechanism"],
    }


def voted(known: Known, epsilon: float, seed: int) -> Mapping[str, Any]:
    """Reverse k-NN votes on clusters of what the reader says, with reverse k-NN's own defaults."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        run = tacit.distill(
            (known.private, known.labels), known.public, epsilon, delta=DELTA, classes=range(10), method="rknn",
            representation="identity", labels="proportions", student="logistic", seed=seed,
        )  # fmt: skip
    guessed = run.student.predict(known.test)
    return {"labels": float((run.labels == known.public_labels).mean()), "test": float((guessed == known.truth).mean())}


def taught(known: Known, private: bool, *_: float) -> Mapping[str, Any]:
    """A logistic regression on true labels, of all records or of the public samples: no privacy."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    given = (known.private, known.labels) if private else (known.public, known.public_labels)
    student = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)).fit(*given)
    return {"test": float(student.score(known.test, known.truth))}


def reader_lines(known: Known, seeded: Seeded) -> Iterator[Row]:
    """What the reader knows, and what records add to it."""
    about = {"records": len(known.labels)}
    yield line("0", ALONE, [alone(known)])
    for epsilon in (*EPSILONS, MUCH):
        shown = noise_in_words(epsilon)
        sums = seeded.runs("sums", epsilon, partial(summed, known), CODE, about)
        yield line(shown, "class sums and what the reader says", sums, "both")
        yield line(shown, "class sums alone", sums, "alone")
        yield line(shown, "reverse k-NN votes", seeded.runs("votes", epsilon, partial(voted, known), VOTED, about))
    for private, name in ((True, "true labels of all records"), (False, "true labels of the public images")):
        runs = seeded.runs(name, 0, partial(taught, known, private), ("experiments.text_reader",), about)
        yield line("no privacy", f"{name}: logistic regression", runs)


def photograph_lines(known: Known, seeded: Seeded) -> Iterator[tuple[int | None, float, list[dict[str, Any]]]]:
    """Class sums where a photograph is protected with all its digits, over the bound on them, and a digit alone."""
    about = {"records": len(known.labels)}
    for epsilon in (*EPSILONS, MUCH):
        for most in BOUNDS:
            run = partial(summed, known, unit=tacit.Unit.person("photograph", most))
            yield most, epsilon, seeded.runs("photographs", epsilon, run, CODE, {"bound": most, **about})
        yield None, epsilon, seeded.runs("sums", epsilon, partial(summed, known), CODE, about)


def alone(known: Known) -> dict[str, float]:
    """How often the reader is right without any record."""
    return known.judged((known.chances, known.test_chances))


def write_reader(rows: list[Row], known: Known) -> None:
    """The table and the picture of the reader's lines."""
    caption = (
        f"SVHN, a public text reader as encoder, {len(known.labels):,} private digits: labels of the public images and "
        "the test part, % right."
    )
    notes = [SETTING, KNOWLEDGE, INTERVAL, "no noise: ε = 10⁶, one run. ε = 0 uses no record."]
    result = Result("house-numbers-reader", caption, rows, MEASURES, notes).measured()
    files = write_result(result, RESULTS)
    lines = [
        (f"{each.names['ε']}: {each.names['line']}", each.values("labels"), each.values("test")) for each in result.rows
    ]
    for file in [*files, draw_rows("SVHN by a public text reader, over ε", lines, RESULTS / f"{result.name}.png")]:
        print(file)


def write_photographs(found: list[tuple[int | None, float, list[dict[str, Any]]]], known: Known) -> None:
    """Accuracy over the bound on a photograph's digits, as a table and as curves."""
    assert known.persons is not None
    digits = np.unique(known.persons, return_counts=True)[1]
    rows: list[Row] = []
    curves: dict[str, list[float | None]] = {}
    for most, epsilon, runs in found:
        used = len(known.labels) if most is None else int(np.minimum(digits, most).sum())
        for way, part in (("sums and the reader", "both"), ("sums alone", "alone")):
            told = line(noise_in_words(epsilon), way, runs, part)
            protects = {"protects": "a digit alone" if most is None else "a photograph",
                        "bound m": "" if most is None else str(most), "records used": f"{used:,}"}  # fmt: skip
            rows.append(replace(told, names={**told.names, **protects}))
            if most is not None and epsilon != MUCH:
                height = 100 * float(np.mean(told.values("test"))) if runs else None
                curves.setdefault(f"{way}, ε = {epsilon:g}", []).append(height)
    rows.append(replace(line("0", ALONE, [alone(known)])))
    caption = "SVHN by photograph: class sums of a text reader's digits over the bound m on a photograph's digits, %."
    notes = [
        SETTING, KNOWLEDGE, f"{len(digits):,} photographs have 1 to {digits.max()} digits each. Of one with more than "
        "m digits m are drawn at random; a photograph is then protected with all of them, so the noise grows with m.",
        INTERVAL,
    ]  # fmt: skip
    for file in write_result(Result("house-numbers-photographs", caption, rows, MEASURES, notes).measured(), RESULTS):
        print(file)
    panel = Panel("a photograph is protected", "bound m", "test, % right", BOUNDS, curves)
    print(draw_chart(Chart("house-numbers-photographs", caption, [panel]), RESULTS / "house-numbers-photographs.png"))


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="one folder per data set")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--records", type=int, help="the first of the training file only; all if left out")
    parser.add_argument("--figure", default="reader,photographs")
    parser.add_argument("--cache", type=Path, default=KEPT, help="where encodings and measurements are kept")
    parser.add_argument("--kept", action="store_true", help="write what was measured so far, and measure nothing")
    given = parser.parse_args()
    known = read(given.folder, given.cache, given.records)
    seeded = Seeded(Memory(given.cache / "house-numbers"), given.runs, partial(print, flush=True), given.kept)
    if "reader" in given.figure.split(","):
        write_reader(list(reader_lines(known, seeded)), known)
    if "photographs" in given.figure.split(","):
        write_photographs(list(photograph_lines(known, seeded)), known)


if __name__ == "__main__":
    main()
