"""An exact table on its way to a trusted curator: sealed before it leaves, noisy before anybody else sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers, Mechanism
from tacit.core.randomness import Randomness
from tacit.core.sensitivity import Sensitivity
from tacit.core.spend import Spend
from tacit.mechanisms.central.counts import count_table
from tacit.mechanisms.description import Described

__all__ = ["SealedTable", "read_table", "table_bytes"]

NUMBER = np.dtype("<i8")


@dataclass(frozen=True)
class SealedTable(Described):
    """One holder's exact counts, which only the curator can open.

    **Law.** The table as it is, in a box. There is no noise: the curator adds ``mechanism``'s to the sum.

    **Spend.** That of ``mechanism``: what the curator's release costs the holder's records. The holder pays it
    from its own account before the table leaves.

    **Proof.** That of ``mechanism``, for everybody but the curator, who is trusted with the table. A holder's
    table moves no further than the sum of all tables.

    **Source.** Nothing new.

    ``session`` names the run, the round and whose key seals, so that a request that was paid for one is not
    answered in another.
    """

    name = "sealed-table"
    statistic = "table"
    releases = "sealed"

    mechanism: Mechanism[Any, Any]
    session: str
    seal: Callable[[bytes], NDArray[np.uint8]] = field(repr=False, compare=False)

    @property
    def spend(self) -> Spend:
        """What the curator's release costs this holder's records."""
        return self.mechanism.spend

    @property
    def max_sensitivity(self) -> Sensitivity:
        """How far the table may move."""
        return self.mechanism.max_sensitivity

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[np.uint8]:
        """The box, as long for every table of that shape."""
        return self.seal(np.ascontiguousarray(count_table(value), dtype=NUMBER).tobytes())


def table_bytes(shape: tuple[int, int]) -> int:
    """How long a table of that shape is, as bytes.

    >>> table_bytes((4, 3))
    96
    """
    return shape[0] * shape[1] * NUMBER.itemsize


def read_table(content: bytes, shape: tuple[int, int], largest: int, total: int, signed: bool = False) -> Integers:
    """The table in these bytes, every count brought into 0 to ``largest`` and all of them together to ``total``.

    ``signed`` says that the numbers are sums, which may be as far below 0.

    Whose limits these are matters: they are the reader's own. Nothing is refused for its counts, because who sees a
    refusal learns something about them, and nothing says whether a count was changed. Bringing single counts into
    a range moves no two tables further apart; a table above the total has counts that no holder within the limits can
    have, and is made smaller in proportion.

    >>> read_table(np.array([[1, -2], [9, 3]]).tobytes(), (2, 2), largest=4, total=100).tolist()
    [[1, 0], [4, 3]]
    >>> read_table(np.array([[4, 4], [4, 4]]).tobytes(), (2, 2), largest=4, total=8).tolist()
    [[2, 2], [2, 2]]
    >>> read_table(np.array([[4, -9], [4, 4]]).tobytes(), (2, 2), largest=4, total=8, signed=True).tolist()
    [[2, -2], [2, 2]]
    """
    if len(content) != table_bytes(shape):
        raise InvalidInput(f"a table of {shape[0]} by {shape[1]} counts must have {table_bytes(shape)} bytes")
    table: Integers = np.frombuffer(content, dtype=NUMBER).astype(np.int64).reshape(shape)
    table = np.clip(table, -largest if signed else 0, largest)
    # As Python's own numbers: sums and products of counts may be beyond 64 bits.
    whole = int(np.abs(table).sum(dtype=object))
    if whole > total:
        table = np.sign(table) * (np.abs(table).astype(object) * total // whole).astype(np.int64)
    return table
