"""The list of classes: public knowledge, declared by the user, and the place of every label in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers

__all__ = ["class_indices", "plain", "read_classes"]


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
                names = path.read_text(encoding="utf-8").splitlines()
            case ".json":
                content = json.loads(path.read_text(encoding="utf-8"))
                names = content["classes"] if isinstance(content, dict) else content
                if not isinstance(names, list):
                    raise InvalidInput(f"{path}: 'classes' must be a list")
            case _:
                names = text.split(",")
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError) as error:
        raise InvalidInput(f"{path}: cannot read the classes ({type(error).__name__}: {error})") from None
    return check_classes([str(name).strip() for name in names if str(name).strip()])


def check_classes(classes: Sequence[Any]) -> list[Any]:
    """The classes, if there are at least two and all differ."""
    if len(set(classes)) < len(classes):
        raise InvalidInput("the list of classes names one class twice")
    if len(classes) < 2:
        raise InvalidInput(f"at least two classes are needed, got {list(classes)}")
    return list(classes)


def plain(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as numbers or text: arrays of Python objects, as pandas makes them, become text.

    >>> plain(np.array(["ill", "well"], dtype=object)).dtype.kind
    'U'
    """
    return labels.astype(str) if labels.dtype.kind == "O" else labels


def class_indices(labels: NDArray[Any], classes: NDArray[Any], source: str = "labels", first_row: int = 0) -> Integers:
    """The place of every label in the list of classes, or an error at the first label that is not in it.

    >>> class_indices(np.array(["b", "a"]), np.array(["a", "b"])).tolist()
    [1, 0]
    """
    check_classes(classes.tolist())
    # Numbers written as text (1, 1.0) are matched as the text they are.
    if labels.dtype.kind != classes.dtype.kind and "U" in (labels.dtype.kind, classes.dtype.kind):
        labels, classes = labels.astype(str), classes.astype(str)
    order = np.argsort(classes)
    place = np.searchsorted(classes, labels, sorter=order).clip(max=len(classes) - 1)
    indices: Integers = order[place].astype(np.int64)
    unseen = np.flatnonzero(classes[indices] != labels)
    if len(unseen):
        row = int(unseen[0])
        raise InvalidInput(
            f"{source}: row {row + first_row}: label {str(labels[row])!r} is not in the list of classes "
            f"({', '.join(map(str, classes))})"
        )
    return indices
