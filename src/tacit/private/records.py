"""Records that cannot leave by accident.

``Private`` wraps a value so that printing, logging, pickling, iterating or comparing it either shows nothing or
raises. Code works on the value with ``map``, whose result is private again. Only the gate unwraps.
This guards against mistakes, not against malice: Python cannot hide a value from code in the same process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput

__all__ = ["Private", "Records", "combine"]

T = TypeVar("T")
U = TypeVar("U")


class Private(Generic[T]):
    """A value of the private side.

    >>> print(Private([1, 2, 3]))
    <private>
    >>> Private([1, 2, 3]).map(len)
    <private>
    >>> list(Private([1, 2, 3]))
    Traceback (most recent call last):
        ...
    TypeError: a private value cannot be iterated; work on it with map, release it through the gate
    """

    __slots__ = ("__value",)

    def __init__(self, value: T) -> None:
        self.__value = value

    def map(self, function: Callable[[T], U]) -> Private[U]:
        """The function's result, as private as its input."""
        return Private(function(self.__value))

    def __repr__(self) -> str:
        return "<private>"

    def __format__(self, specification: str) -> str:
        return "<private>"

    def _refuse(self, act: str) -> NoReturn:
        raise TypeError(f"a private value cannot be {act}; work on it with map, release it through the gate")

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


def combine(values: list[Private[T]], function: Callable[[list[T]], U]) -> Private[U]:
    """Several private values made one by a function, still private.

    >>> combine([Private(1), Private(2)], sum)
    <private>
    """
    collected: list[T] = []
    for value in values:
        value.map(collected.append)
    return Private(function(collected))


@dataclass(frozen=True)
class Records:
    """Labeled samples of one holder: features, labels, and optionally whose record each is.

    ``labels`` is one class index a record, or where records carry sets of labels a bool table (records, classes).
    """

    samples: NDArray[Any]
    labels: NDArray[Any]
    persons: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        for name, column in (("labels", self.labels), ("persons", self.persons)):
            if column is not None and len(column) != len(self.samples):
                raise InvalidInput(f"{name} has {len(column)} entries for {len(self.samples)} samples")
        if self.labels.ndim > 2 or (self.labels.ndim == 2) != (self.labels.dtype == np.bool_):
            raise InvalidInput("labels must be one class index a record, or a table of bool with a column a class")

    def take(self, rows: NDArray[np.int64]) -> Records:
        """The chosen rows, in that order."""
        persons = None if self.persons is None else self.persons[rows]
        return Records(self.samples[rows], self.labels[rows], persons)

    def __repr__(self) -> str:
        """Not even the number of records: under add/remove adjacency it is private."""
        return "Records(<private>)"
