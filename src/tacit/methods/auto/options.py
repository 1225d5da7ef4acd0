"""Options of the default method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tacit.core.options import check, option

__all__ = ["Auto"]


@dataclass(frozen=True)
class Auto:
    """The default: what is asked, and how, is chosen from public samples and from what earlier questions released.

    Tables, texts and embeddings are asked for class sums. Images are first asked for votes on clusters: where these
    are nearly pure, more votes follow in the feature space of a network trained on them; elsewhere class sums, of the
    images' gradients and of that network's features. ``releases`` fixes one of these. Holders of one record each,
    nodes, sets of labels and, without a delta, plain numbers are labeled by reverse k-NN votes.
    """

    name: ClassVar[str] = "auto"
    renamed: ClassVar[Mapping[str, str]] = {}

    releases: str = option(
        "auto",
        "Fix what is released: votes or sums. Chosen by the plan if left out.",
        choices=("auto", "votes", "sums"),
    )
    student: Any = option(
        "auto", "auto; logistic, map, forest; with torch network, or for images handwriting, photographs."
    )

    def __post_init__(self) -> None:
        check(self)
