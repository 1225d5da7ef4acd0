"""The form to plan: what to expect of labels from public figures alone. Nothing is read and nothing is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tacit.core.errors import InvalidInput
from tacit.mechanisms.accuracy import LabelAccuracy, expected_label_accuracy

__all__ = ["FIELDS", "planned_accuracy"]

# What is asked: a name, what it is, an example, and between what it must be.
FIELDS = (
    ("records", "number of private records", "20000", (1, 10**9)),
    ("classes", "classes", "5", (2, 10**4)),
    ("epsilon", "privacy budget ε", "0.5", (1e-6, 1000)),
    ("purity", "purity: fraction of a query's voters that agree, an assumption", "0.9", (0.01, 1)),
)
# How many records vote on a query.
_VOTES = (25, 50, 100, 400)


def planned_accuracy(given: Mapping[str, str]) -> list[tuple[int, LabelAccuracy]]:
    """What a form says, for a few numbers of queries; an error names the field.

    >>> rows = planned_accuracy({"records": "20000", "classes": "5", "epsilon": "0.5", "purity": "0.9"})
    >>> [queries for queries, _ in rows]
    [50, 200, 400, 800]
    >>> planned_accuracy({"records": "many", "classes": "5", "epsilon": "0.5", "purity": "0.9"})
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: records: must be a whole number between 1 and 1e+09
    """
    records, classes = int(_number(given, "records", True)), int(_number(given, "classes", True))
    epsilon, purity = _number(given, "epsilon"), _number(given, "purity")
    asked = sorted({max(classes, records // votes, 1) for votes in _VOTES})
    return [(queries, expected_label_accuracy(records, queries, classes, str(epsilon), 1, purity)) for queries in asked]


def _number(given: Mapping[str, str], name: str, whole: bool = False) -> float:
    least, most = next(bounds for field, _, _, bounds in FIELDS if field == name)
    text = given.get(name, "").strip()
    try:
        found = float(text) if len(text) <= 20 else math.nan
    except ValueError:
        found = math.nan
    if not least <= found <= most or (whole and found != int(found)):
        kind = "a whole number" if whole else "a number"
        raise InvalidInput(f"{name}: must be {kind} between {least:g} and {most:g}")
    return found
