"""Features as ranks among the public samples: no feature counts more than another, and no value is too wild."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.codec import StrictReader
from tacit.core.errors import InvalidInput


@dataclass(frozen=True)
class Ranks:
    """For each feature the share of public samples that lie below.

    >>> Ranks.fit(np.array([[0.0], [1.0], [2.0], [3.0]])).encode(np.array([[1.5], [99.0]])).tolist()
    [[0.5], [1.0]]
    """

    name: ClassVar[str] = "ranks"

    columns: NDArray[np.float64]  # (public samples, features), each column in order

    @classmethod
    def fit(cls, public: NDArray[Any]) -> Ranks:
        return cls(np.sort(public.reshape(len(public), -1).astype(np.float64), axis=0))

    def fields(self) -> dict[str, Any]:
        return {"columns": self.columns}

    @classmethod
    def read(cls, fields: StrictReader) -> Ranks:
        columns = fields.array("columns", ("<f8",), (None, None))
        if not columns.size or (np.diff(columns, axis=0) < 0).any():
            raise InvalidInput(f"the {fields.what}'s columns must be in order")
        return cls(columns)

    def fitted_to(self, samples: NDArray[Any]) -> bool:
        rows = samples.reshape(len(samples), -1)
        return rows.shape == self.columns.shape and np.array_equal(np.sort(rows, axis=0), self.columns)

    def encode(self, samples: NDArray[Any]) -> NDArray[np.float32]:
        rows = samples.reshape(len(samples), -1)
        if rows.shape[1] != self.columns.shape[1]:
            raise InvalidInput(
                f"samples have {rows.shape[1]} features, the public samples have {self.columns.shape[1]}"
            )
        below = [np.searchsorted(column, own) for column, own in zip(self.columns.T, rows.T, strict=True)]
        return (np.column_stack(below) / len(self.columns)).astype(np.float32)


def coarse_ranks(public: NDArray[Any], queries: int) -> Ranks:
    """A function of the public samples and the number of queries does as well: ranks among a few for each query."""
    return Ranks.fit(public[: 10 * queries])
