"""What users hand to a run, checked before anything is paid for: every complaint names the parameter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.errors import InvalidInput, warn_user
from tacit.core.protocols import Representation
from tacit.core.rational import whole
from tacit.core.samples import column_names, in_order, numbered
from tacit.datasets.classes import plain
from tacit.representations.registry import fitted_to

__all__ = [
    "class_names",
    "labeled",
    "matched",
    "one_column",
    "public_rows",
    "refuse_own_encoder",
    "seeded",
]


def matched(private: Any, public: Any) -> tuple[Any, Any, tuple[str, ...] | None]:  # noqa: ANN401
    """The private pair with its columns in the order of the public table's, the public table, and the columns' names.

    Tables with other columns are refused. Where one side has no names, columns are matched by place, as scikit-learn
    does it, and the user is warned.

    >>> from tacit.core.samples import Named
    >>> private = Named(np.array([[61.0, 2.5]]), ("age", "dose"))
    >>> pair, _, names = matched((private, ["ill"]), Named(np.array([[1.0, 50.0]]), ("dose", "age")))
    >>> pair[0].values.tolist(), names
    ([[2.5, 61.0]], ('dose', 'age'))
    """
    names = column_names(public, "public samples")
    if not isinstance(private, tuple | list) or len(private) != 2:
        # Who reads the pair says so.
        return private, public, names
    given = column_names(private[0], "private samples")
    if (given is None) != (names is None) and not numbered(given or names or ()):
        warn_user(
            f"the {'public' if names is None else 'private'} samples have no column names and the others do: columns "
            "are matched by place. Make sure that they are in the same order"
        )
    return (in_order(private[0], names, "private samples", "the public ones"), private[1]), public, names


def labeled(private: Any) -> tuple[NDArray[Any], NDArray[Any]]:  # noqa: ANN401
    """The private samples and their labels, from a pair of them.

    >>> labeled(([[1.0], [2.0]], [["a"], ["b"]]))[1].tolist()
    ['a', 'b']
    """
    if not isinstance(private, tuple | list) or len(private) != 2:
        raise InvalidInput("private must be a pair (X, y): samples and their labels")
    samples = rows(private[0], "private")
    labels = _array(private[1], "private labels")
    # One label per row is often kept as a table of one column.
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or len(labels) != len(samples):
        raise InvalidInput(f"private labels have shape {labels.shape} for {len(samples)} samples; give one per sample")
    return samples, plain(_without_gaps(labels, "private labels"))


def public_rows(public: ArrayLike, like: NDArray[Any]) -> NDArray[Any]:
    """The public samples, if they are of the same kind as the private ones.

    >>> public_rows([[1.0, 2.0]], like=np.zeros((5, 2))).shape
    (1, 2)
    """
    samples = rows(public, "public")
    if like[0].size != samples[0].size:
        raise InvalidInput(
            f"private samples have {like[0].size} features and public ones {samples[0].size}; "
            "they must be of the same kind"
        )
    return samples


def rows(values: ArrayLike, what: str) -> NDArray[Any]:
    """Finite numbers, one row or one image a sample."""
    names = column_names(values, f"{what} samples")
    samples = _array(values, f"{what} samples")
    if samples.dtype.kind in "OUST" and samples.ndim == 2:
        samples = _numbers(samples, names, what)
    if samples.dtype.kind not in "fiub" or samples.ndim < 2:
        raise InvalidInput(f"{what} samples must be numbers, one row per sample; got {samples.dtype}{samples.shape}")
    if not samples.size:
        raise InvalidInput(f"the {what} part is empty")
    if samples.dtype.kind == "f" and not np.isfinite(samples).all():
        row, *place = map(int, np.argwhere(~np.isfinite(samples))[0])
        where = f"{what} samples: row {row}{_column(place, names)}"
        raise InvalidInput(f"{where} has a value that is not a finite number (NaN or inf)")
    return samples


def _numbers(cells: NDArray[Any], names: tuple[str, ...] | None, what: str) -> NDArray[np.float64]:
    """Cells of Python objects, as data frames of several types have them, as numbers; text is not read as numbers."""
    for row, column in np.ndindex(cells.shape):
        cell = cells[row, column]
        if cell is None or (cell != cell) is True:
            raise InvalidInput(f"{what} samples: row {row}{_column([column], names)} is missing")
        if not isinstance(cell, bool | int | float | np.number | np.bool_):
            raise InvalidInput(f"{what} samples must be numbers; row {row}{_column([column], names)} has none")
    return cells.astype(np.float64)


def _column(place: Sequence[int], names: tuple[str, ...] | None) -> str:
    """Where in a row: the column's name, or its place."""
    if len(place) != 1:
        return ""
    return f", column {place[0]}" if names is None else f", column {names[place[0]]!r}"


def one_column(values: ArrayLike, name: str, records: int) -> NDArray[Any]:
    """One entry per record: whose it is.

    >>> one_column(["ada", None], "persons", 2)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: persons: row 1 is missing
    """
    column = _array(values, name)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise InvalidInput(f"{name} must have one entry per record, got an array of shape {column.shape}")
    if len(column) != records:
        raise InvalidInput(f"{name} has {len(column)} entries for {records} records")
    return plain(_without_gaps(column, name))


def class_names(classes: Iterable[Any]) -> NDArray[Any]:
    """The list of classes that the user declares.

    >>> class_names(2)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: classes must be a list of the classes, for example range(10), got 2
    """
    if isinstance(classes, str | bytes) or not isinstance(classes, Iterable):
        raise InvalidInput(f"classes must be a list of the classes, for example range(10), got {classes!r}")
    names = _array(list(classes), "classes")
    if names.ndim != 1:
        raise InvalidInput(f"classes must be a plain list of the classes, got an array of shape {names.shape}")
    found = plain(_without_gaps(names, "classes"))
    if len(set(found.tolist())) < len(found):
        raise InvalidInput("the list of classes names one class twice")
    return found


def seeded(seed: Any) -> int | None:  # noqa: ANN401
    """A seed for a simulation, or none.

    >>> seeded(None) is None, seeded(7)
    (True, 7)
    """
    return None if seed is None else whole(seed, "seed", least=0)


def refuse_own_encoder(representation: Representation, samples: NDArray[Any]) -> None:
    """Refuse a representation that was fitted on these very private records, in any order: it is not paid for.

    Each representation says so itself, as far as it can. One fitted on some of the records cannot be found out. Only
    who has the records may be told this: a holder that refused it would confirm a guess at all its records to whoever
    asks.
    """
    if fitted_to(representation, samples):
        raise InvalidInput("the representation was fitted on these private records; fit it on public samples")


def _array(values: ArrayLike, name: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except (ValueError, TypeError):
        raise InvalidInput(f"{name} must be an array: its rows are of different lengths or kinds") from None


def _without_gaps(column: NDArray[Any], name: str) -> NDArray[Any]:
    """The column, if no entry of it is missing, as pandas marks it."""
    if column.dtype.kind in "OfcmM":
        # A missing number is the one that does not equal itself.
        missing = [row for row, each in enumerate(column.tolist()) if each is None or each != each]
        if missing:
            raise InvalidInput(f"{name}: row {missing[0]} is missing")
    return column
