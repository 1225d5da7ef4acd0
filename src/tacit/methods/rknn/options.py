"""What reverse k-NN labeling can be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tacit.core.options import check, option
from tacit.core.protocols import Representation
from tacit.core.rational import Number

__all__ = ["ReverseKNN"]


@dataclass(frozen=True)
class ReverseKNN:
    """Reverse k-NN labeling: each record votes for its k nearest queries, and each query's label is released.

    ``labels`` are what is paid for and taught: ``hard`` ones, ``soft`` ones (counts are paid for, and the student gets
    the odds that each label leads) or ``proportions`` (the same counts; the student gets how the classes share a
    cluster, which serves where clusters are mixed; in later iterations its guesses say which sample is of which
    class). Several ``iterations`` split the budget (by ``shares``, or evenly): a student learns from the labels so
    far, and the next queries lie where it is unsure (``selection``), in its own ``vote_space``. ``propagation`` carries
    labels from queries to samples, by cluster or over the neighbor graph, and ``label_fraction`` is the fraction of
    the surest that are taught. Where the public samples fall into one cluster per class, ``one_query_per_class``
    labels them all at once, which noise disturbs far less. Records with sets of labels need ``max_labels``.
    """

    name: ClassVar[str] = "rknn"
    renamed: ClassVar[Mapping[str, str]] = {
        "view": "vote_space",
        "spread": "propagation",
        "keep": "label_fraction",
        "connections": "voting_rule",
        "one_to_one": "one_query_per_class",
        "most_labels": "max_labels",
        "balanced": "voting_rule='balanced'",
    }

    labels: str = option(
        "hard",
        "hard: one label per query. soft: counts are paid for, students get odds. proportions: of the classes in each "
        "cluster, from the same counts; best where clusters are mixed.",
    )
    mechanism: str = option(
        "auto", "auto, or by name: permute-and-flip (a report noisy max), laplace, gaussian, or a local one."
    )
    queries: int | Sequence[int] | None = option(
        None, "How many queries, or one number per iteration (300,100); chosen from public figures if left out."
    )
    neighbors: int = option(1, "How many queries a record votes for (k).")
    representation: str | Representation = option(
        "auto",
        "auto; identity, standardized, pca, spectral, umap; for images gradients, handwriting, patches, imagenet, "
        "simclr; for one query per class mixture, groups (where classes are about equally frequent), transformed "
        "(images). Fitted on public data only.",
    )
    student: Any = option(
        "auto", "auto; logistic, map, forest; with torch network, or for images handwriting, photographs."
    )
    iterations: int = option(
        1, "Ask again, in the vote space of a student that learned from the answers; the budget is split."
    )
    shares: Sequence[Number] | None = option(
        None, "With iterations: what each one spends of the budget, like 4,6; evenly if left out."
    )
    selection: str = option(
        "diverse",
        "Where later iterations ask: diverse (clusters, finer where the student is unsure), clusters, or the samples "
        "it is least sure of by entropy or margin.",
    )
    vote_space: str = option(
        "student",
        "Where later votes are cast: student (its features), 'student map' (a map of them), or same (as before).",
    )
    voting_rule: str = option("nearest", "A record votes for the nearest queries, or for balanced ones.")
    one_query_per_class: bool = option(
        False, "With one query per class: every class is given one query, which noise disturbs less."
    )
    propagation: str = option("clusters", "Labels go to a query's cluster, or on over the neighbor 'graph'.")
    label_fraction: float = option(
        1.0, "The fraction of the surest labels that are taught; the others abstain.", least=0.0, most=1
    )
    max_labels: int | None = option(
        None, "How many labels a record may have, where records have sets of labels: public, as it sets the noise."
    )
    robust: str | None = option(
        None, "Over nodes that send tables one by one: add them up by 'median' or 'trimmed' mean."
    )
    private_cache: str | Path | None = option(
        None, "A folder to keep encodings of the records in, for slow encoders; as private as the records."
    )

    def __post_init__(self) -> None:
        check(self)
