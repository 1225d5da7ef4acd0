"""Accuracy and calibration of a student on test samples with known labels.

These figures are computed from the test samples without noise: no guarantee covers those samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, listed
from tacit.runs.export import for_classes

__all__ = ["Measured", "measure"]

BINS = 10


@dataclass(frozen=True)
class Measured:
    """A student's results on a test set; ``bins`` are (mean confidence, accuracy, samples)."""

    source: str
    classes: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]  # a row per true class
    bins: tuple[tuple[float, float, int], ...] = ()

    @property
    def samples(self) -> int:
        """The number of test samples."""
        return sum(map(sum, self.confusion))

    @property
    def accuracy(self) -> float:
        """The fraction of correct predictions."""
        return sum(row[place] for place, row in enumerate(self.confusion)) / self.samples

    @property
    def margin(self) -> float:
        """The margin of the accuracy: two standard errors, after Agresti and Coull."""
        count = self.samples + 4
        share = (self.accuracy * self.samples + 2) / count
        return float(2 * np.sqrt(share * (1 - share) / count))

    @property
    def calibration_error(self) -> float | None:
        """The expected calibration error: the mean distance of confidence and accuracy; None without probabilities."""
        if not self.bins:
            return None
        return sum(count * abs(likely - right) for likely, right, count in self.bins) / self.samples

    def by_class(self) -> list[tuple[str, int, float, float]]:
        """For each class: its number of samples, recall and precision."""
        table = np.array(self.confusion)
        said = table.sum(axis=0)
        return [
            (name, int(row.sum()), float(row[place] / max(1, row.sum())), float(row[place] / max(1, said[place])))
            for place, (name, row) in enumerate(zip(self.classes, table, strict=True))
        ]


def measure(student: Any, samples: Any, truth: Sequence[Any], classes: NDArray[Any], source: str) -> Measured:  # noqa: ANN401
    """Measure a student on samples with known labels.

    >>> class Student:
    ...     classes_ = np.array(["ill", "well"])
    ...     def predict(self, X): return np.array(["ill", "well", "well"])
    ...     def predict_proba(self, X): return np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    >>> found = measure(Student(), np.zeros((3, 1)), ["ill", "ill", "well"], Student.classes_, "new.csv")
    >>> found.confusion, round(found.accuracy, 2), len(found.bins)
    (((1, 1), (0, 1)), 0.67, 3)
    """
    names = [str(each) for each in classes]
    places = {name: place for place, name in enumerate(names)}
    known = [str(each) for each in truth]
    if unknown := sorted(set(known) - set(names)):
        raise InvalidInput(f"{source}: labels that are not classes of the run: {listed(unknown)}")
    said = [str(each) for each in student.predict(samples)]
    if not said:
        raise InvalidInput(f"{source}: has no samples to measure on")
    table = np.zeros((len(names), len(names)), dtype=np.int64)
    for true, found in zip(known, said, strict=True):
        table[places[true], places[found]] += 1
    bins: tuple[tuple[float, float, int], ...] = ()
    if hasattr(student, "predict_proba"):
        chances = for_classes(student.predict_proba(samples), student.classes_, classes)
        sure = chances[np.arange(len(said)), [places[each] for each in said]]
        bins = _bins(sure, np.array(known) == np.array(said))
    return Measured(source, tuple(names), tuple(tuple(map(int, row)) for row in table), bins)


def _bins(sure: NDArray[np.float64], right: NDArray[np.bool_]) -> tuple[tuple[float, float, int], ...]:
    place = np.minimum((sure * BINS).astype(np.int64), BINS - 1)
    return tuple(
        (float(sure[place == each].mean()), float(right[place == each].mean()), int((place == each).sum()))
        for each in range(BINS)
        if (place == each).any()
    )
