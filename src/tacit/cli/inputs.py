"""The two files of a run, private and public, read and compared before anything else happens."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput

if TYPE_CHECKING:
    from tacit.datasets.frame import Frame
    from tacit.datasets.image_files import ImageFiles
    from tacit.datasets.table import Table

__all__ = ["Inputs", "digest", "read_inputs"]


@dataclass(frozen=True)
class Inputs:
    """What the two files hold: samples as they were found, labels, owners, and the names of the classes."""

    private: Frame | Table | ImageFiles
    public: Frame | Table | ImageFiles
    labels: NDArray[Any]
    classes: NDArray[Any]

    @property
    def samples(self) -> tuple[Any, Any]:
        """Private and public samples, as a run takes them."""
        return _samples(self.private), _samples(self.public)


def read_inputs(
    private: Path,
    public: Path,
    label: str | None,
    owner: str | None,
    classes: str | None,
    public_label: str | None = None,
    mixed: bool = False,
) -> Inputs:
    """What the private and the public file hold, with the same columns, and the names of the classes.

    ``owner`` is the private file's column that says whose a record is. Every label must be one of the classes, which
    are read off the labels where they are not declared. Where all public cells are numbers, and the table is not said
    to be ``mixed``, private ones must be, too.
    """
    from tacit.core.samples import match_names
    from tacit.datasets.classes import class_indices, read_classes
    from tacit.datasets.frame import Frame
    from tacit.datasets.table import Table
    from tacit.datasets.tables import align, read_data
    from tacit.encoders.kinds import all_numbers

    opened = read_data(public, public_label)
    found = read_data(private, label, owner, labeled=True)
    if found.labels is None:
        raise InvalidInput(f"{private}: say which column or array has the labels: --label")
    if isinstance(opened, Frame) and label is not None and label in opened.columns:
        raise InvalidInput(
            f"{public}: has the label column {label!r}; remove it, public samples are unlabeled. FedMD pretrains on "
            "labels that are named by --public-label"
        )
    for each in (opened, found):
        if not len(each if not isinstance(each, Table) else each.samples):
            raise InvalidInput(f"{each.source}: the file has no rows")
    if isinstance(found, Frame) and isinstance(opened, Frame):
        if not mixed and all_numbers(opened):
            found.numbers()
        match_names(found.columns, opened.columns, str(private), str(public))
        found = found.take(opened.columns)
    elif isinstance(found, Table) and isinstance(opened, Table):
        found = align(found, opened)
    assert found.labels is not None
    names = np.unique(found.labels) if classes is None else np.array(read_classes(classes))
    class_indices(found.labels, names, str(private), found.rows, label)
    return Inputs(found, opened, found.labels, names)


def _samples(found: Frame | Table | ImageFiles) -> Any:  # noqa: ANN401
    from tacit.datasets.table import Table

    return found.frame if isinstance(found, Table) else found


def digest(data: Frame | Table | ImageFiles) -> str:
    """A name for what a file holds: it changes with any of its columns, values, labels or persons.

    >>> from tacit.datasets.table import Table
    >>> first, other = (Table("a.csv", ("x",), np.array([[value]])) for value in (1.0, 2.0))
    >>> digest(first) == digest(first), digest(first) == digest(other)
    (True, False)
    """
    from tacit.datasets.image_files import ImageFiles
    from tacit.datasets.table import Table

    content = hashlib.sha256()
    if isinstance(data, ImageFiles):
        for file in data.files:
            content.update(hashlib.sha256(file.read_bytes()).digest())
        arrays: list[Any] = []
    else:
        content.update(repr(data.columns).encode())
        whole = isinstance(data, Table) or isinstance(data.cells, np.ndarray)
        arrays = [data.samples if isinstance(data, Table) else data.cells] if whole else list(data.cells)  # type: ignore[union-attr]
    for array in (*arrays, data.labels, data.persons):
        if array is not None:
            content.update(f"{array.dtype}{array.shape}".encode())
            # Text is kept as objects; its bytes are those of its words.
            content.update(repr(array.tolist()).encode() if array.dtype.kind == "O" else array.tobytes())
    return content.hexdigest()
