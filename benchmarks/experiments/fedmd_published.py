"""The privacy figures that the NFDP paper prints, beside those that hold for the same mechanism.

The printed ε are decimal logarithms of a quantity that the theorems define by natural ones, the rows "k = 16" were
computed with k = 18, and an ε beside a δ that stays the same for every ε says nothing. See the errata.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from tacit.accounting.calibrate import gaussian_sigma
from tacit.core import InvalidInput
from tacit.core.rational import Number, exact, positive
from tacit.mechanisms.central.sampling import SubsetSample
from tacit.methods.fedmd.wire import PredictionForm

__all__ = [
    "PRINTED",
    "PrintedRow",
    "curves_over_parties",
    "curves_over_subsets",
    "gaussian_needed",
    "laplace_needed",
    "table_two",
]


@dataclass(frozen=True)
class PrintedRow:
    """One row of the paper's Table 2: what it prints, and the subset size that its numbers belong to."""

    data: str
    records: int
    printed_size: int
    size: int
    epsilon: float
    delta: float
    accuracy: float


PRINTED = (
    PrintedRow("FEMNIST", 2880, 16, 18, 0.0027, 0.0062, 0.8064),
    PrintedRow("FEMNIST", 2880, 60, 60, 0.0090, 0.0206, 0.8806),
    PrintedRow("FEMNIST", 2880, 300, 300, 0.0452, 0.0989, 0.9356),
    PrintedRow("FEMNIST", 2880, 2880, 2880, 0.4342, 0.6321, 0.9663),
    PrintedRow("CIFAR", 300, 16, 18, 0.0260, 0.0583, 0.7440),
    PrintedRow("CIFAR", 300, 60, 60, 0.0867, 0.1815, 0.8158),
    PrintedRow("CIFAR", 300, 120, 120, 0.1734, 0.3301, 0.8357),
    PrintedRow("CIFAR", 300, 300, 300, 0.4336, 0.6327, 0.8738),
)


def table_two() -> list[dict[str, float | int | str]]:
    """The privacy columns of Table 2: as printed, in natural logarithm, and what holds.

    >>> row = table_two()[0]
    >>> row["printed epsilon"], round(row["epsilon (log10)"], 6), round(row["epsilon (ln)"], 6)
    (0.0027, 0.002714, 0.006249)
    >>> round(row["delta, for every epsilon"], 6)
    0.006232
    """
    rows: list[dict[str, float | int | str]] = []
    for each in PRINTED:
        sample = SubsetSample(each.size, each.records, replacement=True)
        rows.append(
            {
                "data": each.data,
                "records per party": each.records,
                "printed k": each.printed_size,
                "true k": each.size,
                "printed epsilon": each.epsilon,
                "epsilon (log10)": sample.printed_epsilon,
                "epsilon (ln)": sample.published_epsilon,
                "printed delta": each.delta,
                "delta, for every epsilon": float(sample.delta),
                "delta times records": float(sample.delta * each.records),
            }
        )
    return rows


def curves_over_subsets(records: int = 100) -> list[dict[str, float | int]]:
    """ε and δ over the size of the subset, with and without replacement, as in Figure 2.

    >>> curves_over_subsets(4)[1]["delta without replacement"]
    0.5
    """
    if records < 2:
        raise InvalidInput(f"records must be at least 2, got {records}")
    rows: list[dict[str, float | int]] = []
    for size in range(1, records + 1):
        row: dict[str, float | int] = {"k": size}
        for words, replacement in (("with", True), ("without", False)):
            sample = SubsetSample(size, records, replacement)
            row[f"published epsilon {words} replacement"] = sample.published_epsilon
            row[f"delta {words} replacement"] = float(sample.delta)
        rows.append(row)
    return rows


def curves_over_parties(
    records: int, size: int = 3, parties: tuple[int, ...] = (2, 4, 6, 8, 10), queries: int = 5000, rounds: int = 20
) -> list[dict[str, float | int]]:
    """Privacy of a party over the number of parties that share the records, as in Figure 3.

    Beside it is the Gaussian noise that FedMD-LDP needs for the same two numbers, taken as an ordinary (ε, δ).

    >>> round(curves_over_parties(28_800, parties=(10,))[0]["sigma of FedMD-LDP"])
    118586
    """
    rows: list[dict[str, float | int]] = []
    for count in parties:
        sample = SubsetSample(size, records // count, replacement=True)
        form = PredictionForm("softmax", classes=6)
        rows.append(
            {
                "parties": count,
                "records per party": records // count,
                "published epsilon": sample.published_epsilon,
                "delta": float(sample.delta),
                "sigma of FedMD-LDP": gaussian_needed(
                    form, queries, rounds, sample.published_epsilon, float(sample.delta)
                ),
            }
        )
    return rows


def laplace_needed(form: PredictionForm, queries: int, rounds: int, epsilon: Number) -> float:
    """The Laplace scale, in units of the prediction, with which all queries of all rounds together cost ε.

    >>> laplace_needed(PredictionForm("softmax", classes=10), queries=5000, rounds=20, epsilon=1)
    200000.0
    """
    unit = 1 if form.kind == "argmax" else form.grid
    return float(Fraction(int(form.sensitivity(queries).l1) * rounds, unit) / positive(epsilon, "epsilon"))


def gaussian_needed(form: PredictionForm, queries: int, rounds: int, epsilon: Number, delta: Number) -> float:
    """The Gaussian standard deviation, in units of the prediction, for (ε, δ) over all queries of all rounds.

    All releases together are one Gaussian mechanism whose L2 sensitivity grows with the square root of their number.

    >>> round(gaussian_needed(PredictionForm("softmax", classes=10), queries=5000, rounds=20, epsilon=1, delta=1e-5))
    1668
    """
    unit = 1 if form.kind == "argmax" else form.grid
    distance = math.sqrt(form.sensitivity(queries).l2_squared * rounds) / unit
    return distance * gaussian_sigma(epsilon, exact(delta, "delta"))
