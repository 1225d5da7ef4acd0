"""Public samples that are private records after all: found before anything is paid, and said aloud."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

from tacit.core.errors import TacitWarning
from tacit.datasets.tables import row_marks

__all__ = ["warn_of_copies"]


def warn_of_copies(private: Iterable[NDArray[Any]], public: NDArray[Any]) -> bool:
    """Warn the caller's caller where public rows are exact copies of anyone's private ones, and say whether they are.

    >>> import numpy as np
    >>> warn_of_copies([np.array([[1.0]]), np.array([[2.0]])], np.array([[3.0]]))
    False
    """
    known = {mark for part in private for mark in row_marks(part)}
    copies = sum(mark in known for mark in row_marks(public))
    if copies:
        warnings.warn(
            f"{copies} public rows are exact copies of private ones. What is in the public data is not protected; "
            "remove them unless they are public anyway",
            TacitWarning,
            stacklevel=3,
        )
    return copies > 0
