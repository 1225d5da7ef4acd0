"""Arrays that a run stores for its report: how certain each label is, and an example of each query as text.

Both are computed from releases and public samples: post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.datasets.frame import Frame
from tacit.methods.task import Outcome
from tacit.runs.export import for_classes

__all__ = ["query_certainty", "query_examples", "shown_arrays"]

_LONGEST = 160
_MOST_CELLS = 6


def shown_arrays(
    outcome: Outcome,
    student: Any,  # noqa: ANN401
    public: NDArray[Any],
    classes: NDArray[Any],
    raw: Any,  # noqa: ANN401
) -> Mapping[str, NDArray[Any]]:
    """Arrays for the report in addition to the method's releases.

    ``certainty`` is the student's probability of each public sample's label, if labels have no probabilities;
    ``query_examples`` one public sample per query as text, if samples are texts or tables.
    """
    found: dict[str, NDArray[Any]] = {}
    # A student that fails on its own training samples must not lose a paid run.
    with suppress(Exception):
        if outcome.probabilities is None and outcome.labels.ndim == 1:
            place = {name: column for column, name in enumerate(classes.tolist())}
            chances = for_classes(student.predict_proba(public), student.classes_, classes)
            found["certainty"] = chances[np.arange(len(public)), [place[each] for each in outcome.labels.tolist()]]
    if isinstance(raw, Frame) and "query_labels" in outcome.arrays and "membership" in outcome.arrays:
        found["query_examples"] = query_examples(raw, outcome.arrays["membership"], len(outcome.arrays["query_labels"]))
    return found


def query_certainty(arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.float64] | None:
    """The average probability of the labels of each query's samples; None if it is not known.

    ``arrays`` are those of a run, with its probabilities if there are any. A query without samples has NaN.

    >>> released = {"query_labels": np.array(["a", "b"]), "membership": np.array([0, 0, 1])}
    >>> query_certainty({**released, "certainty": np.array([0.5, 0.7, 0.9])}).tolist()
    [0.6, 0.9]
    """
    found = arrays.get("probabilities", arrays.get("certainty"))
    if found is None or not {"membership", "query_labels"} <= arrays.keys():
        return None
    if arrays["query_labels"].ndim == 2:
        sure = np.maximum(found, 1 - found).mean(axis=1)
    else:
        sure = found if found.ndim == 1 else found.max(axis=1)
    asked, queries = arrays["membership"] >= 0, len(arrays["query_labels"])
    count = np.bincount(arrays["membership"][asked], minlength=queries)
    total = np.bincount(arrays["membership"][asked], weights=sure[asked], minlength=queries)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def query_examples(samples: Frame, membership: NDArray[Any], queries: int) -> NDArray[Any]:
    """The first public sample of every query as text; empty for a query without samples.

    >>> frame = Frame(("age", "sex"), (np.array([61.0, 40.0]), np.array(["f", "m"], dtype=object)))
    >>> query_examples(frame, np.array([1, 1]), 2).tolist()
    ['', 'age 61, sex f']
    """
    said = [""] * queries
    asked, first = np.unique(membership, return_index=True)
    for query, row in zip(asked.tolist(), first.tolist(), strict=True):
        if query >= 0:
            said[query] = _words(samples, row)
    return np.array(said)


def _words(samples: Frame, row: int) -> str:
    cells = [(name, samples.column(name)[row]) for name in samples.columns[:_MOST_CELLS]]
    told = [_cell(value) if len(samples.columns) == 1 else f"{name} {_cell(value)}" for name, value in cells]
    text = " ".join(", ".join(told).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _cell(value: Any) -> str:  # noqa: ANN401
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)
