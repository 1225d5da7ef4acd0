"""Options of PATE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tacit.core import InvalidInput
from tacit.core.options import check, option, with_renamed

__all__ = ["PATE"]

_MECHANISMS = ("auto", "permute-and-flip", "laplace", "gaussian", "lnmax", "gnmax")


@with_renamed
@dataclass(frozen=True)
class PATE:
    """PATE: teachers trained on disjoint records vote on public samples, and a student learns from noisy votes.

    In one process each holder is one teacher, or the records of one holder are partitioned among ``teachers``. Over
    nodes each node is one teacher. One record changes one teacher and so two counts per query; the cost grows with the
    number of ``queries``, so use few.
    """

    name: ClassVar[str] = "pate"
    renamed: ClassVar[Mapping[str, str]] = {}

    teachers: int | None = option(
        None, "Number of teachers if one holder has all records; by default one per 20 records.", least=1
    )
    queries: int | None = option(None, "Number of public samples to ask about; by default all.", least=1)
    mechanism: str = option(
        "auto",
        "auto; permute-and-flip (a report noisy max), laplace (LNMax), gaussian (GNMax, with delta above 0).",
        choices=_MECHANISMS,
    )
    threshold: float | None = option(
        None, "Confident-GNMax: first select samples on which this fraction of teachers agrees, by a noisy count.",
        least=0.0, most=1,
    )  # fmt: skip
    answers: int | None = option(
        None, "With threshold: number of queries that are answered, those that pass first; by default half.", least=1
    )
    contested: float | None = option(
        None,
        "GNMax with a private test: noise for this fraction of the queries being contested, where the votes bear it "
        "out; labels only, with delta above 0.",
        least=0.0, most=1,
    )  # fmt: skip
    cost_estimate: float | None = option(
        None,
        "GNMax with a private estimate of what its labels cost on these votes, by smooth sensitivity: the fraction of "
        "epsilon that the estimate takes; labels only, with delta above 0.",
        least=0.0, most=1,
    )  # fmt: skip
    teacher: Any = option("logistic", "The teachers' model: logistic, forest, or any classifier with fit and predict.")
    student: Any = option("logistic", "logistic, map, forest; with torch network, handwriting, photographs.")
    robust: str | None = option(
        None, "Over nodes whose votes arrive separately: combine them by 'median' or 'trimmed' mean."
    )

    rounds: int = option(
        1, "Number of rounds; each asks about the samples of which a student of earlier answers is least certain.",
        least=1,
    )  # fmt: skip
    diagnostic: bool = option(
        False, "Show the data-dependent epsilon to the operator; it is private, and neither stored nor sent."
    )

    def __post_init__(self) -> None:
        check(self)
        if self.answers is not None and self.threshold is None:
            raise InvalidInput("answers is for a screen: give threshold too, or leave it out")
        if self.threshold is not None and self.rounds > 1:
            raise InvalidInput("a screen needs a single round: leave out threshold, or rounds")
        if self.threshold is not None and self.mechanism not in ("auto", "gaussian", "gnmax"):
            raise InvalidInput(f"the screen of Confident-GNMax needs gaussian noise, not {self.mechanism}")
        for name in ("contested", "cost_estimate"):
            if getattr(self, name) is None:
                continue
            if self.mechanism not in ("auto", "gnmax"):
                raise InvalidInput(f"{name} goes with gnmax, whose winners are released, not {self.mechanism}")
            if self.rounds > 1 or self.diagnostic:
                raise InvalidInput(f"{name} goes with one round and without diagnostic: leave them out")
        if self.contested is not None and (self.threshold is not None or self.cost_estimate is not None):
            raise InvalidInput("contested goes without threshold and cost_estimate: leave them out")
