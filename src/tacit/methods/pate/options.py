"""What PATE can be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tacit.core.options import check, option

__all__ = ["PATE"]

_MECHANISMS = ("auto", "permute-and-flip", "laplace", "gaussian", "lnmax", "gnmax")


@dataclass(frozen=True)
class PATE:
    """PATE: teachers trained on disjoint records vote on public samples, and a student learns from noisy votes.

    In one process the records of each holder make one teacher, or the records of one holder ``teachers`` of them.
    Over nodes each node is one teacher. A changed record changes one teacher, who moves two votes per query, so that
    ``queries`` samples cost as much as 2 · queries cells: ask about few.
    """

    name: ClassVar[str] = "pate"
    renamed: ClassVar[Mapping[str, str]] = {}

    teachers: int | None = option(
        None, "Teachers that the records of one holder are divided among; one per 20 records if left out.", least=1
    )
    queries: int | None = option(None, "Public samples that are asked about; all if left out.", least=1)
    mechanism: str = option(
        "auto",
        "auto; permute-and-flip (a report noisy max), laplace (LNMax), gaussian (GNMax, with delta above 0).",
        choices=_MECHANISMS,
    )
    teacher: Any = option("logistic", "The teachers' model: logistic, forest.")
    student: Any = option("logistic", "logistic, map, forest; with torch network, handwriting, photographs.")
    robust: str | None = option(
        None, "Over nodes that send votes one by one: add them up by 'median' or 'trimmed' mean."
    )

    def __post_init__(self) -> None:
        check(self)
