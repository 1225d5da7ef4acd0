"""Options of the default method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tacit.core.options import check, option, with_renamed

__all__ = ["Auto"]


@with_renamed
@dataclass(frozen=True)
class Auto:
    """The default method, which chooses its questions from public samples and earlier releases.

    For tables, texts and embeddings it asks for class sums. For images it first asks for votes on clusters. If these
    are nearly pure, more votes follow in the feature space of a network trained on them. Otherwise class sums of the
    images' gradients follow; then, where noise leaves enough of them, the gradient of the regression that follows from
    them, and else sums of such a network's features. ``releases`` fixes votes or sums. For one-record holders, nodes,
    sets of labels and, with delta = 0, plain numbers it uses reverse k-NN votes.
    """

    name: ClassVar[str] = "auto"
    renamed: ClassVar[Mapping[str, str]] = {}

    releases: str = option(
        "auto",
        "What is released: votes, sums, or auto (chosen by the plan).",
        choices=("auto", "votes", "sums"),
    )
    student: Any = option(
        "auto", "auto; logistic, map, forest; with torch network, or for images handwriting, photographs."
    )

    def __post_init__(self) -> None:
        check(self)

    @property
    def trust_over_nodes(self) -> str:
        """The default over nodes: that of class sums, or of votes."""
        return "masked" if self.releases == "sums" else "local"
