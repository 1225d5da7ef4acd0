"""Options of PATE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tacit.core import InvalidInput
from tacit.core.options import check, option

__all__ = ["PATE"]

_MECHANISMS = ("auto", "permute-and-flip", "laplace", "gaussian", "lnmax", "gnmax")


@dataclass(frozen=True)
class PATE:
    """PATE: teachers trained on disjoint records vote on public samples, and a student learns from noisy votes.

    In one process the records of each holder make one teacher, or the records of one holder ``teachers`` of them.
    Over nodes each node is one teacher. A changed record changes one teacher, which changes two counts per query, so
    that ``queries`` samples cost as much as 2 · queries cells: ask about few.
    """

    name: ClassVar[str] = "pate"
    renamed: ClassVar[Mapping[str, str]] = {}

    teachers: int | None = option(
        None, "Number of teachers, where one holder has all records; one per 20 records if left out.", least=1
    )
    queries: int | None = option(None, "Number of public samples that are asked about; all if left out.", least=1)
    mechanism: str = option(
        "auto",
        "auto; permute-and-flip (a report noisy max), laplace (LNMax), gaussian (GNMax, with delta above 0).",
        choices=_MECHANISMS,
    )
    threshold: float | None = option(
        None, "Confident-GNMax: screen first where this fraction of the teachers agrees, by a noisy count.",
        least=0.0, most=1,
    )  # fmt: skip
    answers: int | None = option(
        None, "With threshold: how many queries are answered, those that pass first; half if left out.", least=1
    )
    teacher: Any = option("logistic", "The teachers' model: logistic, forest, or any classifier with fit and predict.")
    student: Any = option("logistic", "logistic, map, forest; with torch network, handwriting, photographs.")
    robust: str | None = option(
        None, "Over nodes whose votes arrive separately: combine them by 'median' or 'trimmed' mean."
    )

    rounds: int = option(
        1, "Number of rounds: each asks about the samples that a student of the earlier answers is least sure of.",
        least=1,
    )  # fmt: skip
    diagnostic: bool = option(
        False, "Show the operator the data-dependent epsilon; it is private, and neither written nor sent."
    )

    def __post_init__(self) -> None:
        check(self)
        if self.answers is not None and self.threshold is None:
            raise InvalidInput("answers limits what passes the screen: give a threshold with it, or leave it out")
        if self.threshold is not None and self.rounds > 1:
            raise InvalidInput("a screen goes with one round: leave out threshold, or rounds")
        if self.threshold is not None and self.mechanism not in ("auto", "gaussian", "gnmax"):
            raise InvalidInput(f"the screen of Confident-GNMax goes with gaussian noise, not {self.mechanism}")
