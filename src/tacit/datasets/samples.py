"""Samples in every form that users may pass: files, folders, tables, arrays, texts, sparse matrices, tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tacit.core import InvalidInput
from tacit.datasets.frame import Frame, frame_of, is_frame
from tacit.datasets.image_files import ImageFiles, looks_like_image_files
from tacit.datasets.published import PublishedSamples
from tacit.datasets.table import Table
from tacit.datasets.tables import read_data

__all__ = ["is_text", "labeled_samples", "samples_of"]


def samples_of(values: Any, what: str = "samples") -> Any:  # noqa: ANN401
    """The samples as a frame, an array, a sparse matrix of rows, or image files.

    One text or path names a file. Several texts are samples, or image files if all of them name existing ones.

    >>> samples_of(["A cough.", "A fever."]).dtype.kind
    'U'
    >>> samples_of([[1, 2]]).shape
    (1, 2)
    """
    if isinstance(values, str | Path):
        values = read_data(values)
    if isinstance(values, Table):
        values = values.frame
    if isinstance(values, PublishedSamples):
        return values.samples
    if isinstance(values, Frame | ImageFiles):
        return values
    if is_frame(values):
        return frame_of(values, what)
    if sparse.issparse(values):
        matrix: Any = values
        return sparse.csr_array(matrix)
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        return _tensor(values)
    if isinstance(values, list | tuple) and looks_like_image_files(values):
        return ImageFiles(tuple(map(Path, values)))
    if isinstance(values, list | tuple) and values and all(isinstance(each, str) for each in values):
        return np.array(values)
    try:
        found = np.asarray(values)
    except (ValueError, TypeError):
        raise InvalidInput(f"{what} must be an array: its rows are of different lengths or kinds") from None
    if found.ndim == 0:
        kind = "a dict: make a data frame of it" if isinstance(values, dict) else type(values).__name__[:80]
        raise InvalidInput(f"{what} must be rows, as an array, a data frame, texts or files have them, got {kind}")
    if found.ndim == 1 and found.dtype.kind in "UO" and looks_like_image_files(found.tolist()):
        return ImageFiles(tuple(map(Path, found.tolist())))
    return found


def _tensor(values: Any) -> NDArray[Any]:  # noqa: ANN401
    """A tensor of any device as an array; numpy has no bfloat16, so this type becomes 32-bit floats."""
    found = values.detach().cpu()
    try:
        return np.asarray(found.numpy())
    except TypeError:
        return np.asarray(found.float().numpy())


def is_text(values: object) -> bool:
    """Whether the samples are an array of texts.

    >>> is_text(np.array(["A cough."])), is_text(np.zeros(2))
    (True, False)
    """
    if not isinstance(values, np.ndarray) or values.ndim != 1 or not len(values):
        return False
    return values.dtype.kind in "UT" or (
        values.dtype.kind == "O" and all(each is None or isinstance(each, str) for each in values.tolist())
    )


def labeled_samples(
    values: Any,  # noqa: ANN401
    label: str | None = None,
    person: str | None = None,
    holder: str | None = None,
) -> tuple[Any, Any, NDArray[Any] | None, NDArray[Any] | None]:
    """Private samples, labels, persons and holders of a pair (X, y), a file, a folder, or a table with such columns.

    >>> table = np.array([(61.0, "ill", "ada")], dtype=[("age", "f8"), ("outcome", "U4"), ("who", "U3")])
    >>> samples, labels, persons, _ = labeled_samples(table, "outcome", "who")
    >>> samples.columns, labels.tolist(), persons.tolist()
    (('age',), ['ill'], ['ada'])
    """
    if isinstance(values, tuple | list) and len(values) == 2:
        if label is not None:
            raise InvalidInput("label names a column of a private table; a pair (X, y) has its labels in y")
        samples, _, persons, holders = _apart(samples_of(values[0], "private samples"), None, person, holder)
        return samples, values[1], persons, holders
    if isinstance(values, str | Path):
        # The reader checks label and person itself, so that its errors name the file's row numbers.
        values = read_data(values, label, person, labeled=True)
        if isinstance(values, Frame):
            rest, _, _, holders = _apart(values, None, None, holder)
            return rest, _required(values.labels, values.source), values.persons, holders
    if isinstance(values, PublishedSamples):
        return values.samples, values.labels, *_owned(values.owners, person, holder)
    if isinstance(values, Table | ImageFiles):
        samples = samples_of(values) if isinstance(values, Table) else values
        return samples, _required(values.labels, values.source), *_owned(values.persons, person, holder)
    if isinstance(values, Frame) and values.labels is not None and label is None:
        rest, _, persons, holders = _apart(values, None, person, holder)
        return rest, values.labels, values.persons if persons is None else persons, holders
    if not is_frame(values):
        raise InvalidInput("private must be a pair (X, y): samples and their labels")
    if label is None:
        raise InvalidInput("private is a table: name its label column with label=")
    return _apart(frame_of(values, "private samples"), label, person, holder)


def _required(labels: NDArray[Any] | None, source: str) -> NDArray[Any]:
    if labels is None:
        raise InvalidInput(f"{source}: name the column or array of the labels with label=")
    return labels


def _apart(
    samples: Any,  # noqa: ANN401
    *names: str | None,
) -> tuple[Any, NDArray[Any] | None, NDArray[Any] | None, NDArray[Any] | None]:
    """The samples without these columns, and each of the columns."""
    if not any(names):
        return samples, None, None, None
    if not isinstance(samples, Frame):
        raise InvalidInput("a column is named, but the private samples have no columns")
    rest, label, (person, holder) = samples.apart(*names)
    return rest, _values(label), _values(person), _values(holder)


def _values(cells: NDArray[Any] | None) -> NDArray[Any] | None:
    """A column's cells; whole numbers become integers."""
    if cells is None or cells.dtype.kind != "f" or not np.isfinite(cells).all() or (cells % 1 != 0).any():
        return cells
    return cells.astype(np.int64)


def _owned(
    found: NDArray[Any] | None, person: str | None, holder: str | None
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """The owners that an array or a published set has, as persons or as holders."""
    if (person or holder) and found is None:
        raise InvalidInput("a person or holder column is named, but the private samples have no columns")
    return (found if person else None), (found if holder else None)
