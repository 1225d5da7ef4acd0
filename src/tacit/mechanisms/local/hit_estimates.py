"""What every mechanism has that answers "does this message hit this cell?": its accuracy follows from two rates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from tacit.core.sensitivity import ANYTHING, Sensitivity
from tacit.mechanisms.local.clients import HitRates

__all__ = ["HitEstimates"]


class HitEstimates(ABC):
    """Errors of estimates that are counts of hits, without the bias; final but for ``rates``.

    Whatever a client's cells are, its message hides them up to e^ε: any set may become any other.
    """

    tolerates: ClassVar[Sensitivity] = ANYTHING
    biased: ClassVar[bool] = False

    cells: int
    ones: int

    @property
    @abstractmethod
    def rates(self) -> HitRates:
        """How often a message hits a cell that its client has, and any other."""

    @property
    def variance_zero(self) -> float:
        """Variance that one client adds to a cell it does not have."""
        return self.rates.variance_zero

    @property
    def variance_one(self) -> float:
        """Variance that one client adds to a cell it has."""
        return self.rates.variance_one

    @property
    def mean_squared_error(self) -> float:
        """Expected squared error of one client's estimates, averaged over all cells."""
        return self.rates.mean_squared_error(self.cells, self.ones)
