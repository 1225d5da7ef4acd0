"""Public samples that are private records after all: found before anything is paid, and told to the operator alone.

What is found is a Python warning, on the screen of who runs this. It returns nothing, so that it cannot get into a
statement, a file or a message: whether a record is among the public samples is what a guarantee has to hide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import warn_user
from tacit.datasets.frame import Frame, as_texts, frame_of
from tacit.datasets.tables import row_marks

__all__ = ["warn_of_copies"]


def warn_of_copies(private: Iterable[Any], public: Any) -> None:  # noqa: ANN401
    """Warn the user where public rows are exact copies of anyone's private ones.

    >>> warn_of_copies([np.array([[1.0]]), np.array([[2.0]])], np.array([[3.0]]))
    """
    known = {mark for part in private for mark in _marks(part)}
    copies = sum(mark in known for mark in _marks(public))
    if copies:
        what = "row is an exact copy of a private one" if copies == 1 else "rows are exact copies of private ones"
        warn_user(
            f"{copies} public {what}. What is in the public data is not protected; remove what is not public anyway. "
            "Only you are told: nothing that is written or sent says it"
        )


def _marks(samples: Frame | NDArray[Any]) -> Iterator[int]:
    """A number for every row, equal for rows that say the same: of numbers, of texts, or of a table's cells."""
    if isinstance(samples, Frame):
        columns = (as_texts(samples.column(name)) for name in samples.columns)
        yield from map(hash, zip(*columns, strict=True))
    elif np.asarray(samples).dtype.kind in "UTO":
        texts = np.asarray(samples)
        yield from _marks(frame_of(texts.reshape(len(texts), -1), "samples"))
    else:
        yield from row_marks(samples)
