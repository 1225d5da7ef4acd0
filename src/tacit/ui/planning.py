"""The planning form: forecasts of every method from public information. No record is read, nothing is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacit.core.errors import InvalidInput, listed
from tacit.methods.registry import METHODS
from tacit.runs.planning import Forecast, forecast

__all__ = ["FIELDS", "PUBLIC_FIELDS", "planned"]

# The fields: name, description, example, and bounds.
FIELDS = (
    ("records", "number of private records, or persons", "20000", (1, 10**9)),
    ("classes", "classes", "5", (2, 10**4)),
    ("epsilon", "privacy budget ε", "1", (1e-6, 1000)),
    ("delta", "failure probability δ (0: pure methods only)", "1e-6", (0, 0.1)),
    ("holders", "holders, where a method has several", "10", (1, 10**5)),
)
PUBLIC_FIELDS = ("public", "label", "purity")
_PURITY = (0.01, 1)


def planned(given: Mapping[str, str], files: Mapping[str, Path]) -> Forecast:
    """The forecast for a filled-in form; ``files`` may be chosen as public samples. Errors name the field.

    Without a public file the purity is taken from the form.

    >>> given = {"records": "20000", "classes": "5", "epsilon": "0.5", "delta": "1e-6", "holders": "4", "purity": "0.9"}
    >>> planned(given, {}).best.accuracy > 0.8
    True
    >>> planned({**given, "records": "many"}, {})
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: records: must be a whole number between 1 and 1e+09
    """
    whole = ("records", "classes", "holders")
    said = {name: _number(given, name, bounds, name in whole) for name, _, _, bounds in FIELDS}
    name, classes = given.get("public", ""), int(said["classes"])
    more: dict[str, Any] = {}
    known: Any = classes
    if not name:
        more["purity"] = _number(given, "purity", _PURITY)
    else:
        if name not in files:
            raise InvalidInput("public: this file no longer exists")
        more["public"], more["public_labels"], names = _samples(files[name], given.get("label", "").strip())
        if names is not None:
            if len(names) != classes:
                raise InvalidInput(f"label: the column has {len(names)} different labels, and classes is {classes}")
            known = names
    return forecast(
        records=int(said["records"]), classes=known, epsilon=str(said["epsilon"]), delta=str(said["delta"]),
        methods=[each for each in METHODS if METHODS[each].forecast], holders=int(said["holders"]), **more,
    )  # fmt: skip


def _samples(file: Path, label: str) -> tuple[Any, Any, list[str] | None]:
    """The public samples, the labels of those that have one, and the different labels."""
    from tacit.datasets.frame import Frame
    from tacit.datasets.table import Table
    from tacit.datasets.tables import read_data

    found = read_data(file)
    if not label:
        return found.frame if isinstance(found, Table) else found, None, None
    if not isinstance(found, Frame):
        raise InvalidInput(f"label: {listed([file.name])} has no columns with names")
    rest, labels, _ = found.apart(label)
    assert labels is not None
    return rest, labels, sorted({str(each) for each in labels if each not in (None, "")})


def _number(given: Mapping[str, str], name: str, bounds: tuple[float, float], whole: bool = False) -> float:
    least, most = bounds
    text = given.get(name, "").strip()
    try:
        found = float(text) if len(text) <= 20 else math.nan
    except ValueError:
        found = math.nan
    if not least <= found <= most or (whole and found != int(found)):
        kind = "a whole number" if whole else "a number"
        raise InvalidInput(f"{name}: must be {kind} between {least:g} and {most:g}")
    return found
