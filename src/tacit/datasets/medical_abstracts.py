"""Medical abstracts with the kind of condition they are about, from the published csv file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput

__all__ = ["medical_abstracts"]

LABEL, TEXT = "condition_label", "medical_abstract"


def medical_abstracts(folder: str | Path) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The texts and their labels in ``medical_abstracts.csv``, or in another csv file of the folder with its columns.

    >>> medical_abstracts("no-such-folder")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no-such-folder: no csv file in it
    """
    files = sorted(Path(folder).glob("*.csv"))
    if not files:
        raise InvalidInput(f"{folder}: no csv file in it")
    rows: list[tuple[str, int]] = []
    try:
        with files[0].open(newline="", encoding="utf-8") as opened:
            reader = csv.DictReader(opened)
            for row in reader:
                rows.append((row[TEXT], int(row[LABEL])))
    except (KeyError, TypeError, ValueError, csv.Error):
        raise InvalidInput(
            f"{files[0]}: needs columns {LABEL} (a number) and {TEXT}; record {len(rows)} has not"
        ) from None
    if not rows:
        raise InvalidInput(f"{files[0]}: the file has no rows")
    return np.array([text for text, _ in rows]), np.array([label for _, label in rows], dtype=np.int64)
