"""Options of the default method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from tacit.core import Spend
from tacit.core.options import check, option, with_renamed
from tacit.students.weighted import thresholds_option

__all__ = ["Auto"]


@with_renamed
@dataclass(frozen=True)
class Auto:
    """The default method, which chooses its questions from public samples and earlier releases.

    For tables, texts, embeddings, and photographs that a pretrained network encodes it asks for class sums; with very
    little noise, of all but tables, for eight gradients of a regression. For other images it first asks for votes on
    clusters. If these are nearly pure, more votes follow in the feature space of a network trained on them. Otherwise
    class sums of the images' gradients follow; then, where noise leaves enough of them, the gradient of the regression
    that follows from them, and else sums of such a network's features; or votes there, if the releases show that sums
    mislead. ``releases`` fixes votes or sums. With a delta it asks once for class sums of sets of labels, and of the
    tables, texts and embeddings of nodes. For one-record holders, images at nodes and, with delta = 0, nodes, plain
    numbers and sets of labels it uses reverse k-NN votes.
    """

    name: ClassVar[str] = "auto"
    renamed: ClassVar[Mapping[str, str]] = {}

    releases: str = option(
        "auto",
        "What is released: votes, sums, or auto (chosen by the plan).",
        choices=("auto", "votes", "sums"),
    )
    max_labels: int | None = option(
        None,
        "For records with sets of labels: the most labels of one record; public, as it determines the noise.",
        least=1,
    )
    thresholds: str = thresholds_option()
    student: Any = option(
        "auto", "auto; logistic, map, forest; with torch network, or for images handwriting, photographs."
    )

    def __post_init__(self) -> None:
        check(self)

    def price_lists(self, epsilon: Fraction, delta: Fraction) -> list[list[Spend]]:
        """What a run can cost at least, whatever its data: one release, or one of the divisions of its budget.

        >>> len(Auto().price_lists(Fraction(1), Fraction(0)))
        5
        """
        from tacit.accounting.calibrate import least_gaussian, least_prices
        from tacit.methods.auto.division import divided_prices

        one = least_prices(epsilon, delta) + ([[least_gaussian(epsilon, delta)]] if delta > 0 else [])
        return one + divided_prices(epsilon, delta)

    @property
    def own_student(self) -> bool:
        """Whether the plan chooses the student."""
        return isinstance(self.student, str) and self.student == "auto"

    @property
    def photographs(self) -> bool:
        """Whether images in color are encoded by a pretrained network: not for a student that is to see images."""
        return self.own_student and self.releases != "votes"

    @property
    def trust_over_nodes(self) -> str:
        """The default over nodes: local needs no peers; sums that were asked for are masked."""
        return "masked" if self.releases == "sums" else "local"
