"""Options of Private k-NN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tacit.core import InvalidInput, Representation
from tacit.core.options import check, option, with_renamed

__all__ = ["PrivateKNN"]


@with_renamed
@dataclass(frozen=True)
class PrivateKNN:
    """Private k-NN: for every query a fresh sample of the records is drawn, and its nearest records vote with noise.

    Each record is sampled with probability ``rate`` for every query; the ``neighbors`` nearest sampled records vote,
    Gaussian noise is added, and a student learns from the winners. It needs a delta. With ``threshold`` a noisy screen
    comes first, and ``answers`` of the queries are answered, first those whose neighbors agree. With ``participations``
    every record takes part only in its first queries within ``reach`` and pays only for these (add-remove adjacency).
    """

    name: ClassVar[str] = "private_knn"
    renamed: ClassVar[Mapping[str, str]] = {}

    queries: int | None = option(
        None, "Number of public samples to ask about, one per cluster; by default from public numbers.", least=1
    )
    neighbors: int | None = option(
        None, "Number of nearest sampled records that vote (k); by default chosen from public numbers.", least=1
    )
    rate: float = option(0.15, "The probability that a record is sampled for a query.", least=0.0, most=1)
    threshold: float | None = option(
        None, "Screen: first select queries on which this fraction of the neighbors agrees, by a noisy count.",
        least=0.0, most=1,
    )  # fmt: skip
    answers: int | None = option(
        None, "With threshold: number of queries that are answered, those that pass first; by default half.", least=1
    )
    participations: int | None = option(
        None, "Individual filter: the most queries that a record takes part in (add-remove adjacency).", least=1
    )
    reach: float = option(
        0.1, "With participations: radius of a query, given as the fraction of public samples within it.",
        least=0.0, most=1,
    )  # fmt: skip
    representation: str | Representation = option(
        "auto",
        "auto; identity, standardized, pca, spectral, umap; for images gradients, handwriting, patches, imagenet, "
        "simclr. Fitted on public data only.",
    )
    student: Any = option("logistic", "logistic, map, forest; with torch network, handwriting, photographs.")
    private_cache: str | Path | None = option(
        None, "A folder that caches encodings of the records, for slow encoders; as private as the records."
    )

    def __post_init__(self) -> None:
        check(self)
        if self.answers is not None and self.threshold is None:
            raise InvalidInput("answers is for a screen: give threshold too, or leave it out")
