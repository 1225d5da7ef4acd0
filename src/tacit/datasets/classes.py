"""The list of classes: public knowledge, declared by the user, and the place of every label in it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput, listed
from tacit.core.protocols import Integers
from tacit.datasets.table import Rows, row_number

__all__ = ["class_indices", "plain", "read_classes"]

UNSEEN = -1


def read_classes(text: str) -> list[str]:
    """Classes as typed, ``a,b,c``, or from a file: ``.txt`` with one a line, ``.json`` with a list of them.

    A JSON file may also be a schema: an object with the list under ``"classes"``.

    >>> read_classes("benign, malignant")
    ['benign', 'malignant']
    """
    path = Path(text)
    try:
        match path.suffix.lower():
            case ".txt":
                names = path.read_text(encoding="utf-8-sig").splitlines()
            case ".json":
                content = json.loads(path.read_text(encoding="utf-8-sig"))
                names = content["classes"] if isinstance(content, dict) else content
                if not isinstance(names, list):
                    raise InvalidInput(f"{path}: 'classes' must be a list")
            case _:
                names = text.split(",")
    except InvalidInput:
        raise
    except OSError as error:
        raise InvalidInput(f"{path}: cannot read the classes ({error.strerror})") from None
    except (ValueError, KeyError) as error:
        raise InvalidInput(f"{path}: cannot read the classes ({type(error).__name__}: {error})") from None
    return check_classes([str(name).strip() for name in names if str(name).strip()])


def check_classes(classes: Sequence[Any]) -> list[Any]:
    """The classes, if there are at least two and all differ."""
    if len(set(classes)) < len(classes):
        raise InvalidInput("the list of classes names one class twice")
    if len(classes) < 2:
        raise InvalidInput("at least two classes are needed; declare them all, also those that no record has")
    return list(classes)


def plain(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as numbers or text: arrays of Python objects, as pandas makes them, become text.

    >>> plain(np.array(["ill", "well"], dtype=object)).dtype.kind
    'U'
    """
    return labels.astype(str) if labels.dtype.kind == "O" else labels


def class_indices(
    labels: NDArray[Any], classes: NDArray[Any], source: str = "labels", rows: Rows = 0, column: str | None = None
) -> Integers:
    """The place of every label in the list of classes, or an error at the first label that is not in it.

    The error names the row, and the column where it is given: the label itself is private.

    A label is the class that is written the same way. Where none is, it is the class of the same value, if just one
    has it: 1, 1.0, "1" and True are one value, 0, "0.0" and False another.

    >>> class_indices(np.array(["b", "a"]), np.array(["a", "b"])).tolist()
    [1, 0]
    >>> class_indices(np.array([1.0, 0.0]), np.array(["0", "1"])).tolist()
    [1, 0]
    """
    names = check_classes(classes.tolist())
    where = "" if column is None else f", column {column!r}"
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        row = row_number(rows, int(np.flatnonzero(np.isnan(labels))[0]))
        raise InvalidInput(f"{source}: row {row}{where}: the label is missing (nan); remove the row")
    written = {str(name): index for index, name in enumerate(names)}
    values = [_value(name) for name in names]

    def place(label: Any) -> int:  # noqa: ANN401
        if (exact := written.get(str(label))) is not None:
            return exact
        value = _value(label)
        return values.index(value) if value is not None and values.count(value) == 1 else UNSEEN

    found, inverse = np.unique(labels, return_inverse=True)
    indices: Integers = np.array([place(label) for label in found.tolist()], dtype=np.int64)[inverse]
    unseen = np.flatnonzero(indices == UNSEEN)
    if len(unseen):
        row = int(unseen[0])
        raise InvalidInput(
            f"{source}: row {row_number(rows, row)}{where}: the label is none of the classes "
            f"({listed([str(name) for name in names])})"
        )
    return indices


def _value(name: Any) -> float | None:  # noqa: ANN401
    """What a label is worth as a number; nothing where it is text."""
    text = str(name).strip()
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    try:
        value = float(text)
    except ValueError:
        return None
    # Python would read 1_000 as a thousand; among labels it is a name.
    return value if math.isfinite(value) and "_" not in text else None
