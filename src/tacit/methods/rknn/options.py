"""Options of reverse k-NN labeling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from tacit.core import Number, Pure, Representation, Spend, positive
from tacit.core.options import check, option, with_renamed
from tacit.students.weighted import thresholds_option

__all__ = ["ReverseKNN"]


@with_renamed
@dataclass(frozen=True)
class ReverseKNN:
    """Reverse k-NN labeling: each record votes for its k nearest queries, and each query's label is released.

    ``labels`` is what is released and learned: ``hard`` labels; ``soft`` ones (counts are released, and the student
    learns the probability that each label leads); or ``proportions`` (the same counts; the student learns the class
    proportions of a cluster, best if clusters are mixed; in later iterations its predictions decide which sample has
    which class). Several ``iterations`` split the budget (by ``shares``, or evenly): a student is trained on the labels
    so far, and the next queries are where it is uncertain (``selection``), in its own ``vote_space``. ``propagation``
    assigns the queries' labels to samples, by cluster or over the neighbor graph, and ``label_fraction`` is the
    fraction of the most certain labels that the student learns. If the public samples form one cluster per class,
    ``one_query_per_class`` assigns all labels at once, by the most probable of all assignments, which is far more
    robust to noise; ``soft`` labels are then the probabilities over all assignments, so that a student is not taught
    what is unsure. Records with sets of labels need ``max_labels``.
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
        "hard: one label per query. soft: counts are released, and the student learns probabilities. proportions: the "
        "class proportions of each cluster, from the same counts; best if clusters are mixed.",
    )
    mechanism: str = option(
        "auto", "auto, or by name: permute-and-flip (a report noisy max), laplace, gaussian, or a local one."
    )
    queries: int | Sequence[int] | None = option(
        None,
        "Number of queries, or one number per iteration (300,100); by default chosen from public numbers.",
        least=1,
    )
    neighbors: int = option(1, "Number of queries that one record votes for (k).", least=1)
    representation: str | Representation = option(
        "auto",
        "auto; identity, standardized, pca, spectral, umap; for images gradients, handwriting, patches, imagenet, "
        "simclr; for one query per class mixture, groups (if classes are about equally frequent), transformed "
        "(images). Fitted on public data only.",
    )
    student: Any = option(
        "auto", "auto; logistic, map, forest; with torch network, or for images handwriting, photographs."
    )
    iterations: int = option(
        1,
        "Number of iterations, which split the budget; later votes are in a student's feature space.",
        least=1,
    )
    shares: Sequence[Number] | None = option(
        None, "With iterations: relative share of the budget per iteration, such as 4,6; by default equal."
    )
    selection: str = option(
        "diverse",
        "How later iterations choose queries: diverse (clusters, finer where the student is uncertain), clusters, or "
        "the most uncertain samples by entropy or margin.",
    )
    vote_space: str = option(
        "student",
        "Feature space of later votes: student (its features), 'student map' (a map of them), or same (the first one).",
    )
    voting_rule: str = option(
        "nearest",
        "nearest: a record votes for its nearest queries. balanced: queries get about equal numbers of votes.",
    )
    one_query_per_class: bool = option(
        False, "One query per class: labels are assigned one to one, which is more robust to noise."
    )
    propagation: str = option(
        "clusters", "How labels reach samples: by the query's cluster, or over the neighbor 'graph'."
    )
    label_fraction: float = option(
        1.0,
        "Fraction of the labels, the most certain ones, that the student learns.",
        least=0.0,
        most=1,
    )
    max_labels: int | None = option(
        None,
        "For records with sets of labels: the most labels of one record; public, as it determines the noise.",
        least=1,
    )
    thresholds: str = thresholds_option()
    robust: str | None = option(
        None, "Over nodes whose tables arrive separately: combine them by 'median' or 'trimmed' mean."
    )
    private_cache: str | Path | None = option(
        None, "A folder that caches encodings of the records, for slow encoders; as private as the records."
    )

    def __post_init__(self) -> None:
        check(self)

    def price_lists(self, epsilon: Fraction, delta: Fraction) -> list[list[Spend]]:
        """What a run can cost at least, whatever its data; empty if that depends on them.

        >>> ReverseKNN(iterations=2, shares=[1, 3]).price_lists(Fraction(1), Fraction(0))
        [[Pure(epsilon=Fraction(1, 4)), Pure(epsilon=Fraction(3, 4))]]
        """
        if self.iterations == 1:
            from tacit.accounting.calibrate import least_prices

            return least_prices(epsilon, delta)
        if delta > 0:
            return []
        parts = [positive(share, "a share") for share in self.shares or [1] * self.iterations]
        return [[Pure(epsilon * part / sum(parts)) for part in parts]]
