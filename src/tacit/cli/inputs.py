"""The two files of a run, private and public, read and compared before anything else happens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput

if TYPE_CHECKING:
    from tacit.datasets.tables import Table

__all__ = ["read_inputs"]


def read_inputs(
    private: Path, public: Path, label: str, owner: str | None, classes: str | None
) -> tuple[Table, Table, NDArray[Any]]:
    """The private table, its columns in the order of the public one's, the public table, and the names of the classes.

    ``owner`` is the private file's column that says whose a record is. Every label must be one of the classes, which
    are read off the labels where they are not declared.
    """
    from tacit.datasets.classes import class_indices, read_classes
    from tacit.datasets.tables import align, read_table

    open_table = read_table(public)
    table = read_table(private, label, owner)
    if label in open_table.columns:
        raise InvalidInput(f"{public}: has the label column {label!r}; remove it, public samples are unlabeled")
    table = align(table, open_table)
    assert table.labels is not None
    names = np.unique(table.labels) if classes is None else np.array(read_classes(classes))
    class_indices(table.labels, names, str(private), table.rows)
    return table, open_table, names
