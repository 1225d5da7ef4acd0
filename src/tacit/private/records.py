"""Records that cannot leak by accident, and are not used before they are paid for.

``Private`` wraps a value so that printing, logging, pickling, iterating or comparing it either shows nothing or
raises. Code works on the value with ``map``, which is lazy: nothing is computed, and so nothing can fail, before the
gate has paid and reveals the result. Otherwise a coordinator could learn about records without paying, from whether a
computation fails.
This guards against mistakes, not against malice: Python cannot hide a value from code in the same process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Adjacency, InvalidInput, Unit

__all__ = [
    "Private",
    "Records",
    "Schema",
    "combine",
    "inspect",
    "joined",
    "public_size",
    "redact_errors",
    "require_usable",
    "reveal",
    "schema_of",
]

P = ParamSpec("P")
_T = TypeVar("_T")
_U = TypeVar("_U")
_log = logging.getLogger("tacit.private")


class Private(Generic[_T]):
    """A value of the private side.

    >>> print(Private([1, 2, 3]))
    <private>
    >>> Private([1, 2, 3]).map(len)
    <private>
    >>> Private([]).map(lambda records: records[0])  # nothing is done yet, so nothing fails
    <private>
    >>> list(Private([1, 2, 3]))
    Traceback (most recent call last):
        ...
    TypeError: a private value cannot be iterated; transform it with map, release it through the gate
    """

    __slots__ = ("__compute",)

    def __init__(self, value: _T) -> None:
        self.__compute: Callable[[], _T] = lambda: value

    def map(self, function: Callable[[_T], _U]) -> Private[_U]:
        """The function of the value, as private as its input; computed when it is revealed."""
        return Private._later(lambda: function(self.__reveal()))

    @staticmethod
    def _later(compute: Callable[[], _U]) -> Private[_U]:
        made: Private[_U] = Private.__new__(Private)
        made.__compute = compute
        return made

    def __reveal(self) -> _T:
        value = self.__compute()
        # Computed once: a teacher that answers again is not trained again.
        self.__compute = lambda: value
        return value

    def __repr__(self) -> str:
        return "<private>"

    def __format__(self, specification: str) -> str:
        return "<private>"

    def _refuse(self, act: str) -> NoReturn:
        raise TypeError(f"a private value cannot be {act}; transform it with map, release it through the gate")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self._refuse("pickled or copied")

    def __iter__(self) -> NoReturn:
        self._refuse("iterated")

    def __getitem__(self, key: object) -> NoReturn:
        self._refuse("indexed")

    def __contains__(self, item: object) -> NoReturn:
        self._refuse("searched")

    def __len__(self) -> NoReturn:
        self._refuse("counted")

    def __bool__(self) -> NoReturn:
        self._refuse("tested for truth")

    def __eq__(self, other: object) -> NoReturn:
        self._refuse("compared")

    def __hash__(self) -> NoReturn:
        self._refuse("hashed")

    def __lt__(self, other: object) -> NoReturn:
        self._refuse("compared")

    __ne__ = __le__ = __gt__ = __ge__ = __lt__

    def __array__(self, *arguments: object, **options: object) -> NoReturn:
        self._refuse("made an array")

    def __float__(self) -> NoReturn:
        self._refuse("made a number")

    __int__ = __index__ = __complex__ = __float__


def reveal(private: Private[_T]) -> _T:
    """The value itself: for the gate, after it has paid.

    >>> reveal(Private(2).map(lambda number: number + 1))
    3
    """
    value: _T = private._Private__reveal()  # type: ignore[attr-defined]
    return value


def inspect(values: Sequence[Private[_T]], function: Callable[[list[_T]], _U]) -> _U:
    """Compute on values immediately, for their owner: checks when records are loaded, models that stay at the holder.

    What it raises or returns is for the operator only. Never call it while a question is answered.

    >>> inspect([Private(1), Private(2)], sum)
    3
    """
    return function([reveal(value) for value in values])


def combine(values: Sequence[Private[_T]], function: Callable[[list[_T]], _U]) -> Private[_U]:
    """A function of several private values, still private; computed when it is revealed.

    >>> combine([Private(1), Private(2)], sum)
    <private>
    """
    return Private._later(lambda: function([reveal(value) for value in values]))


def redact_errors(function: Callable[P, _T]) -> Callable[P, _T | None]:
    """Make a function of records return None if it raises.

    Whether it raises depends on records, and its message may quote one, so the error must not reach the coordinator.
    Only its type is logged, for the operator.

    >>> redact_errors(int)("a private cell") is None
    True
    """

    @wraps(function)
    def redacted(*arguments: P.args, **options: P.kwargs) -> _T | None:
        try:
            return function(*arguments, **options)
        except Exception as error:
            _log.error("%s cannot work on the records (%s)", function.__name__.lstrip("_"), type(error).__name__)
            return None

    return redacted


@dataclass(frozen=True)
class Records:
    """Labeled samples of one holder: features, labels, and optionally the person of each record.

    ``labels`` is one class index per record, or a bool table (records, classes) for multi-label records.
    """

    samples: NDArray[Any]
    labels: NDArray[Any]
    persons: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        for name, column in (("labels", self.labels), ("persons", self.persons)):
            if column is not None and len(column) != len(self.samples):
                raise InvalidInput(f"{name} has {len(column)} entries for {len(self.samples)} samples")
        if self.labels.ndim > 2 or (self.labels.ndim == 2) != (self.labels.dtype == np.bool_):
            raise InvalidInput("labels must be one class index per record, or a table of bool with a column per class")

    @property
    def schema(self) -> Schema:
        """The public properties of these records."""
        sets = self.labels.shape[1] if self.labels.ndim == 2 else None
        return Schema(self.samples.shape[1:], self.samples.dtype, sets, self.persons is not None)

    def in_order(self, order: Sequence[int]) -> Records:
        """The same records with their columns in another order."""
        return replace(self, samples=np.ascontiguousarray(self.samples[:, list(order)]))

    def take(self, rows: NDArray[np.int64]) -> Records:
        """The chosen rows, in that order."""
        persons = None if self.persons is None else self.persons[rows]
        return Records(self.samples[rows], self.labels[rows], persons)

    def __repr__(self) -> str:
        """Not even the number of records: under add/remove adjacency it is private."""
        return "Records(<private>)"


def joined(parts: Sequence[Records]) -> Records:
    """The records of several sets as one.

    >>> joined([Records(np.eye(2), np.arange(2)), Records(np.ones((1, 2)), np.array([1]))]).labels.tolist()
    [0, 1, 1]
    """
    owned = [each.persons for each in parts if each.persons is not None]
    return Records(
        np.concatenate([each.samples for each in parts]),
        np.concatenate([each.labels for each in parts]),
        np.concatenate(owned) if owned else None,
    )


@dataclass(frozen=True)
class Schema:
    """The public properties of records, which are the same for all of them.

    The shape and type of a sample, the number of classes of multi-label records (``sets``), whether each record has a
    person (``owned``), and whether records are ``streamed`` from their files and never all in memory. So a question can
    be tested on a ``blank`` record before it is paid for.

    >>> Schema((2,), np.dtype(np.float64)).blank.tolist()
    [[0.0, 0.0]]
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    sets: int | None = None
    owned: bool = False
    streamed: bool = False

    @property
    def blank(self) -> NDArray[Any]:
        """One sample of zeros."""
        return np.zeros((1, *self.shape), dtype=self.dtype)


def schema_of(records: Private[Records]) -> Schema:
    """The schema of private records, which depends on no record: all of them have the same shape and type.

    >>> schema_of(Private(Records(np.eye(3), np.arange(3))))
    Schema(shape=(3,), dtype=dtype('float64'), sets=None, owned=False, streamed=False)
    """
    return reveal(records).schema


def public_size(parts: Sequence[Private[Records]], unit: Unit, adjacency: Adjacency) -> int:
    """The number of records, or of persons if the unit is a person; public under replace-one adjacency only.

    >>> public_size([Private(Records(np.eye(3), np.arange(3)))], Unit(), Adjacency.REPLACE_ONE)
    3
    """
    if adjacency is not Adjacency.REPLACE_ONE:
        raise InvalidInput("the number of records is private under add/remove adjacency, and this question needs it")
    if any(schema_of(part).streamed for part in parts):
        streams: list[Any] = [reveal(part) for part in parts]
        return sum(each.units(unit) for each in streams)
    if unit.column is None:
        return sum(len(reveal(part).labels) for part in parts)
    return len(np.unique(np.concatenate([np.asarray(reveal(part).persons) for part in parts])))


def require_usable(records: Private[Records], classes: int) -> None:
    """Refuse records that would cast empty votes, when they are loaded; only the operator sees this error.

    Rows are counted from 0, and no value is shown.

    >>> require_usable(Private(Records(np.array([[1.0], [np.nan]]), np.arange(2))), classes=2)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: record 1 has a value that is not a finite number
    """

    def check(parts: list[Records]) -> None:
        own = parts[0]
        if not len(own.labels):
            raise InvalidInput("there are no records: a holder needs at least one")
        flat = own.samples.reshape(len(own.samples), -1)
        # Raw rows, which have named columns, are made numbers by an encoder that never fails on a cell.
        if flat.dtype.kind not in "fiub" and flat.dtype.names is None:
            raise InvalidInput(f"records must be numbers, got {flat.dtype}")
        if flat.dtype.kind == "f" and len(bad := np.flatnonzero(~np.isfinite(flat).all(axis=1))):
            raise InvalidInput(f"record {bad[0]} has a value that is not a finite number")
        if own.labels.ndim == 1 and len(bad := np.flatnonzero((own.labels < 0) | (own.labels >= classes))):
            raise InvalidInput(f"record {bad[0]} has a label that is not one of the {classes} classes")

    inspect([records], check)
