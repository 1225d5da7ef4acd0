"""What a federation is made of, checked before anything is trained or paid for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.datasets.classes import class_indices
from tacit.experiment.inputs import class_names, labeled, public_rows
from tacit.private.records import Records

__all__ = ["Setting", "checked_setting"]


@dataclass(frozen=True)
class Setting:
    """Checked input: records of every party, public samples, and the test set."""

    records: list[Records]
    public: NDArray[Any]
    public_labels: Integers | None
    public_classes: int  # as many as there are classes, or of other classes as many as public labels have
    names: NDArray[Any]
    test: tuple[NDArray[Any], Integers] | None


def checked_setting(
    parties: Sequence[tuple[ArrayLike, ArrayLike]],
    public: ArrayLike,
    public_labels: ArrayLike | None,
    classes: Iterable[Any],
    test: tuple[ArrayLike, ArrayLike] | None,
) -> Setting:
    """The input as arrays of one kind, or an error that names the party and what is wrong with it.

    >>> checked_setting([([[1.0]], ["a"]), ([[2.0]], ["c"])], [[3.0]], None, ["a", "b"], None)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: party 1: private labels: row 0: label 'c' is not in the list of classes (a, b)
    """
    if not len(parties):
        raise InvalidInput("parties must hold at least one pair (X, y)")
    names = class_names(classes)
    records = []
    for number, pair in enumerate(parties):
        try:
            samples, labels = labeled(pair)
            records.append(Records(samples, class_indices(labels, names, "private labels")))
        except InvalidInput as error:
            raise InvalidInput(f"party {number}: {error}") from None
    rows = public_rows(public, records[0].samples)
    for number, each in enumerate(records):
        if each.samples.shape[1:] != rows.shape[1:]:
            raise InvalidInput(
                f"party {number}: samples have shape {each.samples.shape[1:]}, public ones {rows.shape[1:]}"
            )
    marks, kinds = None, len(names)
    if public_labels is not None:
        given = np.asarray(public_labels)
        if given.shape != (len(rows),):
            raise InvalidInput(f"public_labels has shape {given.shape} for {len(rows)} public samples")
        others = np.unique(given)
        if np.isin(others, names).all():
            marks = class_indices(given, names)
        else:
            marks, kinds = np.unique(given, return_inverse=True)[1].astype(np.int64), len(others)
    measured = None
    if test is not None:
        samples, labels = labeled(test)
        measured = (samples, class_indices(labels, names, "test labels"))
    return Setting(records, rows, marks, kinds, names, measured)
