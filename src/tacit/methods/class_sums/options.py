"""Options of class sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from tacit.core import Pure, Representation, Spend
from tacit.core.options import check, option, with_renamed
from tacit.students.weighted import thresholds_option

__all__ = ["ClassSums"]


@with_renamed
@dataclass(frozen=True)
class ClassSums:
    """Class sums: one noisy sum of encoded records per class, from which the odds of every class are computed.

    A record is encoded by a public ``representation``, projected on the first ``components`` principal components of
    the public samples, clipped, and added to the row of its class. The rows are released once. They are all that a
    logistic regression needs of the labels, so the odds of the public samples are computed from them (``fit``), and a
    ``student`` is trained on those. Best if classes are linearly separable in the representation: tables, texts,
    features of networks. A record with a set of labels is added to the row of each of them, and every label has odds of
    its own.
    """

    name: ClassVar[str] = "class_sums"
    renamed: ClassVar[Mapping[str, str]] = {}

    representation: str | Representation = option(
        "auto",
        "auto (features as they are, or standardized), identity, standardized, random-features (odds need not "
        "be linear); for images gradients, handwriting, patches, imagenet. Fitted on public data only, and followed by "
        "components.",
    )
    components: int | None = option(
        None,
        "Number of principal components of the public samples that are summed; fewer for a smaller epsilon.",
        least=1,
    )
    whitening: float = option(
        0.25, "How much the components are whitened: from 0, not at all (best for tables), to 0.5, fully.", most=0.5
    )
    count_weight: float | None = option(
        None,
        "Weight of a record's count relative to its encoding; 1 is the norm bound of an encoding.",
        least=0.0,
        most=1,
    )
    fit: str = option(
        "logistic",
        "How class odds are computed from the sums: logistic (regression by moments) or least-squares.",
        choices=("logistic", "least-squares"),
    )
    max_labels: int | None = option(
        None,
        "For records with sets of labels: the most labels of one record, by default all; public, as it determines the "
        "noise.",
        least=1,
    )
    thresholds: str = thresholds_option()
    student: Any = option(
        "auto", "auto; logistic, map, forest; with torch network, or for images handwriting, photographs."
    )
    private_cache: str | Path | None = option(
        None, "A folder that caches encodings of the records, for slow encoders; as private as the records."
    )

    def __post_init__(self) -> None:
        check(self)

    def price_lists(self, epsilon: Fraction, delta: Fraction) -> list[list[Spend]]:
        """What a run costs at least, whatever its data: one release.

        >>> ClassSums().price_lists(Fraction(1), Fraction(0))
        [[Pure(epsilon=Fraction(1, 1))]]
        """
        if delta == 0:
            return [[Pure(epsilon)]]
        from tacit.accounting.calibrate import least_gaussian

        return [[least_gaussian(epsilon, delta)]]
