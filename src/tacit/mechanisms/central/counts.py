"""Tables of counts: checks, the base class of selection mechanisms, and exact tables encrypted for a curator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, Mechanism, Number, Pure, Randomness, Sensitivity, Spend, positive
from tacit.mechanisms.description import COUNT, EXACT, Described, Parameters
from tacit.mechanisms.forms import Numbers

__all__ = ["RowSelection", "SealedTable", "count_rows", "count_table", "read_sealed_table", "table_bytes"]

# Differences of two such counts, and any of them with noise, still fit in 64 bits.
_LARGEST = 2**61
NUMBER = np.dtype("<i8")


def count_table(table: NDArray[Any]) -> Integers:
    """The table as int64; anything but whole numbers of at most 2^61 is refused, never rounded.

    >>> count_table(np.array([1, 2], dtype=np.uint8)).dtype
    dtype('int64')
    """
    table = np.asarray(table)
    if table.dtype.kind not in "iu":
        raise InvalidInput(f"table must hold integers, got {table.dtype}")
    if table.size and (table.max() > _LARGEST or table.min() < -_LARGEST):
        raise InvalidInput("table must hold integers in [-2^61, 2^61]")
    return table.astype(np.int64)


def count_rows(table: NDArray[Any]) -> Integers:
    """A table with one row per query and one column per label.

    >>> count_rows(np.zeros((2, 3), dtype=int)).shape
    (2, 3)
    """
    rows = count_table(table)
    if rows.ndim != 2 or rows.shape[1] < 1:
        raise InvalidInput(f"table must have one row per query and at least one column, got shape {rows.shape}")
    return rows


@dataclass(frozen=True)
class RowSelection(Described):
    """A selection of one label per row whose odds change by at most e^(rate · (rise + fall)) in every row.

    Its subclasses prove this of their law; the spend, rate · ``row_range``, follows.
    """

    statistic = "table"
    releases = "labels"
    parameters: ClassVar[Parameters] = {"rate": EXACT, "row_range": COUNT}

    rate: Fraction
    row_range: int

    def __init__(self, rate: Number, row_range: int) -> None:
        object.__setattr__(self, "row_range", _checked(row_range))
        object.__setattr__(self, "rate", positive(rate, "rate"))

    @classmethod
    def for_epsilon(cls, epsilon: Number, row_range: int) -> Self:
        """The mechanism that spends exactly ε on a table of sensitivity ``row_range``.

        >>> RowSelection.for_epsilon("1/10", row_range=4).rate
        Fraction(1, 40)
        """
        return cls(positive(epsilon, "epsilon") / _checked(row_range), row_range)

    @classmethod
    def calibrated(cls, sensitivity: Sensitivity, epsilon: Fraction, delta: Fraction) -> Self:
        """The mechanism for a table of this sensitivity, at this cost."""
        return cls.for_epsilon(epsilon, int(sensitivity.row_range))

    @property
    def spend(self) -> Pure:
        """The cost of one label per row."""
        return Pure(self.rate * self.row_range)

    @property
    def max_sensitivity(self) -> Sensitivity:
        """The largest sensitivity of the table."""
        return Sensitivity(row_range=self.row_range)

    def answer_form(self, rows: int, columns: int, limit: int) -> Numbers:
        """One label per row."""
        return Numbers((rows,), 0, columns - 1)


def _checked(row_range: int) -> int:
    if row_range < 1:
        raise InvalidInput(f"row_range must be at least 1, got {row_range}")
    return int(row_range)


@dataclass(frozen=True)
class SealedTable(Described):
    """One holder's exact counts, encrypted for the curator.

    **Law.** The table itself, encrypted, without noise: the curator adds the noise of ``mechanism`` to the sum.

    **Spend.** That of ``mechanism``: the cost of the curator's release for the holder's records. The holder pays it
    from its own account before the table leaves.

    **Proof.** That of ``mechanism``, against everybody but the curator, who is trusted with the table. The sum of all
    tables changes as much as the one table does.

    **Source.** Nothing new.

    ``session`` identifies the run, the round and the encryption key, so that a request that was paid for one session is
    not answered in another.
    """

    name = "sealed-table"
    statistic = "table"
    releases = "sealed"

    mechanism: Mechanism[Any, Any]
    session: str
    seal: Callable[[bytes], NDArray[np.uint8]] = field(repr=False, compare=False)

    @property
    def spend(self) -> Spend:
        """The cost of the curator's release for this holder's records."""
        return self.mechanism.spend

    @property
    def max_sensitivity(self) -> Sensitivity:
        """The largest sensitivity of the table."""
        return self.mechanism.max_sensitivity

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[np.uint8]:
        """The encrypted table, of the same length for every table of that shape."""
        return self.seal(np.ascontiguousarray(count_table(value), dtype=NUMBER).tobytes())


def table_bytes(shape: tuple[int, int]) -> int:
    """The size in bytes of a table of that shape.

    >>> table_bytes((4, 3))
    96
    """
    return shape[0] * shape[1] * NUMBER.itemsize


def read_sealed_table(
    content: bytes, shape: tuple[int, int], largest: int, total: int, signed: bool = False
) -> Integers:
    """The table in these bytes, every count clipped to 0 to ``largest``, and the table scaled down to ``total``.

    With ``signed`` the numbers are sums and are clipped to ±``largest``.

    The limits must be the reader's own, not the coordinator's. No table is refused for its counts and nothing says that
    a count was clipped, because either would reveal something about the counts. Clipping single counts increases no
    distance between two tables. A table above the total has counts that no holder within the limits can have, and is
    scaled down in proportion.

    >>> read_sealed_table(np.array([[1, -2], [9, 3]]).tobytes(), (2, 2), largest=4, total=100).tolist()
    [[1, 0], [4, 3]]
    >>> read_sealed_table(np.array([[4, 4], [4, 4]]).tobytes(), (2, 2), largest=4, total=8).tolist()
    [[2, 2], [2, 2]]
    >>> read_sealed_table(np.array([[4, -9], [4, 4]]).tobytes(), (2, 2), largest=4, total=8, signed=True).tolist()
    [[2, -2], [2, 2]]
    """
    if len(content) != table_bytes(shape):
        raise InvalidInput(f"a table of {shape[0]} by {shape[1]} counts must have {table_bytes(shape)} bytes")
    table: Integers = np.frombuffer(content, dtype=NUMBER).astype(np.int64).reshape(shape)
    table = np.clip(table, -largest if signed else 0, largest)
    # As Python integers: sums and products of counts may exceed 64 bits.
    whole = int(np.abs(table).sum(dtype=object))
    if whole > total:
        table = np.sign(table) * (np.abs(table).astype(object) * total // whole).astype(np.int64)
    return table
