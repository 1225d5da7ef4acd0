"""What the default can be told."""

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
    are nearly pure, more votes follow in the view of a network that learned from them; elsewhere class sums, of the
    images' gradients and of that network's features. ``releases`` fixes one of these. Crowds, nodes, sets of labels
    and, without a delta, plain numbers are labeled by reverse k-NN votes.
    """

    name: ClassVar[str] = "auto"
    renamed: ClassVar[Mapping[str, str]] = {}

    releases: str = option("auto", "votes or sums, where the plan is not to choose.", choices=("auto", "votes", "sums"))
    student: Any = option(
        "auto", "auto; logistic, map, forest; with torch network, or for images handwriting, photographs."
    )

    def __post_init__(self) -> None:
        check(self)
