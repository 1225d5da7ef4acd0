"""What class sums can be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tacit.core.options import check, option
from tacit.core.protocols import Representation

__all__ = ["ClassSums"]


@dataclass(frozen=True)
class ClassSums:
    """Class sums: one noisy sum of encoded records per class, from which odds of every class follow.

    A record is encoded by a public ``representation``, projected on the first ``components`` of the public samples,
    clipped, and added to the row of its class. What is released are the rows, once. They are what a logistic regression
    needs to know of labels, so the public samples' odds follow from them (``fit``), and a ``student`` learns those.
    Best where classes are told apart by planes in the representation: tables, texts, features of networks.
    """

    name: ClassVar[str] = "class_sums"
    renamed: ClassVar[Mapping[str, str]] = {}

    representation: str | Representation = option(
        "auto",
        "auto (features as they are, or standardized), identity, standardized; for images gradients, handwriting, "
        "patches, imagenet. Fitted on public data only, and followed by components.",
    )
    components: int | None = option(
        None, "Principal components of the public samples that are summed; fewer for a smaller epsilon.", least=1
    )
    whitening: float = option(
        0.25, "How far the components' spreads are evened out: 0 not at all (best for tables), 0.5 wholly.", most=0.5
    )
    count_weight: float | None = option(
        None, "The weight of a record's count beside its encoding, in lengths of the longest one.", least=0.0, most=1
    )
    fit: str = option(
        "logistic",
        "How odds follow from the sums: logistic (regression by its moments) or least-squares.",
        choices=("logistic", "least-squares"),
    )
    student: Any = option(
        "auto", "auto; logistic, map, forest; with torch network, or for images handwriting, photographs."
    )
    private_cache: str | Path | None = option(
        None, "A folder to keep encodings of the records in, for slow encoders; as private as the records."
    )

    def __post_init__(self) -> None:
        check(self)
