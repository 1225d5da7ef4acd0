"""What users hand to a run, checked before anything is paid for: every complaint names the parameter."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.catalog import STUDENTS, find
from tacit.core.content import content_digest, row_digests
from tacit.core.errors import InvalidInput
from tacit.core.protocols import Representation
from tacit.datasets.classes import plain
from tacit.representations.interpolated import Interpolated
from tacit.representations.principal import PrincipalComponents
from tacit.representations.scaled import Standardised
from tacit.students.weighted import takes_weights

__all__ = [
    "class_names",
    "labeled",
    "learner",
    "one_column",
    "public_rows",
    "refuse_own_encoder",
    "seeded",
    "whole",
]


def labeled(private: Any) -> tuple[NDArray[Any], NDArray[Any]]:  # noqa: ANN401
    """The private samples and their labels, from a pair of them.

    >>> labeled(([[1.0], [2.0]], [["a"], ["b"]]))[1].tolist()
    ['a', 'b']
    """
    if not isinstance(private, tuple | list) or len(private) != 2:
        raise InvalidInput("private must be a pair (X, y): samples and their labels")
    samples = rows(private[0], "private")
    labels = _array(private[1], "private labels")
    # One label a row is often kept as a table of one column.
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or len(labels) != len(samples):
        raise InvalidInput(f"private labels have shape {labels.shape} for {len(samples)} samples; give one a sample")
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
    samples = _array(values, f"{what} samples")
    if samples.dtype.kind not in "fiub" or samples.ndim < 2:
        raise InvalidInput(f"{what} samples must be numbers, one row a sample; got {samples.dtype}{samples.shape}")
    if not samples.size:
        raise InvalidInput(f"the {what} part is empty")
    if samples.dtype.kind == "f" and not np.isfinite(samples).all():
        row = int(np.argwhere(~np.isfinite(samples))[0][0])
        raise InvalidInput(f"{what} samples: row {row} has a value that is not a finite number")
    return samples


def one_column(values: ArrayLike, name: str, records: int) -> NDArray[Any]:
    """One entry a record: whose it is.

    >>> one_column(["ada", None], "persons", 2)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: persons: row 1 is missing
    """
    column = _array(values, name)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise InvalidInput(f"{name} must have one entry a record, got an array of shape {column.shape}")
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
    return plain(_without_gaps(names, "classes"))


def whole(value: Any, name: str, least: int = 1) -> int:  # noqa: ANN401
    """A whole number, numpy's too, that is not below the least allowed.

    >>> whole(np.int64(3), "queries")
    3
    >>> whole(2.5, "queries")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: queries must be a whole number, got 2.5
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise InvalidInput(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise InvalidInput(f"{name} must be at least {least}, got {value}")
    return int(value)


def seeded(seed: Any) -> int | None:  # noqa: ANN401
    """A seed for a simulation, or none.

    >>> seeded(None) is None, seeded(7)
    (True, 7)
    """
    return None if seed is None else whole(seed, "seed", least=0)


def learner(student: Any) -> Any:  # noqa: ANN401
    """The student by its name, or the user's own if it can be trained later: what is paid for must not be lost to it.

    >>> from sklearn.linear_model import LinearRegression
    >>> learner(LinearRegression())
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: student must be a classifier, and LinearRegression is not one
    """
    from sklearn.base import clone

    if isinstance(student, str):
        return find(STUDENTS, student, "student")()
    if isinstance(student, type):
        raise InvalidInput(f"student must be an object, not a class: give {student.__name__}() with its parameters")
    name = type(student).__name__
    try:
        clone(student)
    except Exception as error:
        # A constructor of someone else's may fail in any way.
        raise InvalidInput(f"student {name} cannot be copied as scikit-learn copies estimators: {error}") from error
    if not _classifies(student):
        raise InvalidInput(f"student must be a classifier, and {name} is not one")
    if not takes_weights(student):
        raise InvalidInput(f"student {name} does not take sample_weight in fit; choose another")
    return student


def refuse_own_encoder(representation: Representation, samples: NDArray[Any]) -> None:
    """Refuse a representation that was fitted on these very private records, in any order: it is not paid for.

    A chain, or a representation of the user's own, may carry ``fitted_on``, the digest of the samples it was fitted
    on; means and anchors of the others give it away themselves. One fitted on some of the records cannot be found
    out. Only who has the records may be told this: a holder that refused it would confirm a guess at all its records
    to whoever asks.
    """
    if _fitted_on(representation, samples):
        raise InvalidInput("the representation was fitted on these private records; fit it on public samples")


def _fitted_on(representation: Representation, samples: NDArray[Any]) -> bool:
    fitted_on = getattr(representation, "fitted_on", None)
    if fitted_on is not None:
        return bool(fitted_on == content_digest(row_digests(samples)))
    rows = samples.reshape(len(samples), -1)
    if isinstance(representation, Interpolated) and representation.anchors.shape == rows.shape:
        return content_digest(row_digests(representation.anchors)) == content_digest(row_digests(rows))
    if isinstance(representation, PrincipalComponents | Standardised) and representation.mean.shape == rows.shape[1:]:
        # Sums in another order differ in their last digits only; means of other samples differ far more.
        return np.allclose(representation.mean, rows.mean(axis=0, dtype=np.float64), rtol=1e-9, atol=1e-12)
    return False


def _classifies(student: Any) -> bool:  # noqa: ANN401
    from sklearn.base import is_classifier

    try:
        return bool(is_classifier(student))
    except (AttributeError, TypeError):
        # An estimator that does not descend from scikit-learn's says what it is by this name.
        return getattr(student, "_estimator_type", None) == "classifier"


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
