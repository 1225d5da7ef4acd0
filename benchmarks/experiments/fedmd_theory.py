"""What FedMD's privacy statements are worth, computed: the paper's Table 2, its Figures 2 and 3, and noise needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from experiments.fedmd_published import (
    curves_over_parties,
    curves_over_subsets,
    gaussian_needed,
    laplace_needed,
    table_two,
)
from experiments.table import Result, Row
from tacit.methods.fedmd.wire import PredictionForm
from tacit.report.charts import Chart, Panel

__all__ = ["COMPUTED", "noise", "privacy"]

FEMNIST_RECORDS, CIFAR_RECORDS = 28_800, 3000
PARTIES = (2, 4, 6, 8, 10)


def privacy() -> tuple[Result, Chart]:
    """The paper's privacy columns in natural logarithms beside what it prints, and its Figures 2 and 3.

    >>> result, chart = privacy()
    >>> result.rows[0].names["epsilon (ln)"], result.rows[0].names["printed epsilon"]
    ('0.00624892', '0.0027')
    >>> [panel.across for panel in chart.panels]
    ['k', 'k', 'parties']
    """
    rows = [
        Row({key: value if isinstance(value, str) else f"{value:.6g}" for key, value in each.items()}, [])
        for each in table_two()
    ]
    sizes = curves_over_subsets()
    shared = {"FEMNIST": curves_over_parties(FEMNIST_RECORDS, parties=PARTIES),
              "CIFAR": curves_over_parties(CIFAR_RECORDS, parties=PARTIES)}  # fmt: skip
    kept = {"over k": sizes, **{f"over parties, {name}": curve for name, curve in shared.items()}}
    rows[0] = replace(rows[0], runs=[kept])
    notes = [
        "NFDP is NOT differential privacy in the usual sense: delta is the probability with which a raw record is "
        "exposed, it is the same for every epsilon, and k raw records train the model.",
        "The paper prints decimal logarithms; its rows k = 16 were computed with k = 18.",
    ]
    result = Result("fedmd-privacy", "Table 2 of the FedMD-NFDP paper: printed, and what holds.", rows, {}, notes)
    k, ways = [float(row["k"]) for row in sizes], ("with", "without")
    panels = [
        Panel(
            "delta = chance that a record is used, of 100 records", "k", "delta", k,
            {f"{way} replacement": [row[f"delta {way} replacement"] for row in sizes] for way in ways},
        ),
        Panel(
            "published epsilon, natural logarithm (promises nothing more)", "k", "epsilon", k,
            {f"{way} replacement": [row[f"published epsilon {way} replacement"] for row in sizes] for way in ways},
        ),
        Panel(
            "delta over parties that share the records, k = 3", "parties", "delta", [float(each) for each in PARTIES],
            {name: [row["delta"] for row in curve] for name, curve in shared.items()}, log_up=True,
        ),
    ]  # fmt: skip
    return result, Chart(result.name, result.caption, panels)


def noise(
    epsilons: Sequence[str] = ("0.1", "1", "10"), delta: str = "1e-5", queries: int = 5000, rounds: int = 20,
    classes: int = 6,
) -> tuple[Result, Chart]:  # fmt: skip
    """The noise that FedMD-LDP needs on every number it sends, in units of a probability (or logit).

    >>> noise(("1",))[0].rows[1].names["Laplace scale"]
    '200000'
    """
    rows, forms = [], {kind: PredictionForm(kind, classes) for kind in ("argmax", "softmax", "logits")}
    for epsilon in epsilons:
        for kind, form in forms.items():
            needed = {
                "Laplace scale": laplace_needed(form, queries, rounds, epsilon),
                f"Gaussian sigma (delta {delta})": gaussian_needed(form, queries, rounds, epsilon, delta),
            }
            names = {"total epsilon": epsilon, "answers": kind}
            rows.append(Row(names | {name: f"{value:.6g}" for name, value in needed.items()}, []))
    caption = f"Noise for {queries} queries in each of {rounds} rounds, {classes} classes; a probability is at most 1."
    places = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]
    panel = Panel(
        "noise on one number", "total epsilon", "standard deviation (range of a probability: 1, of a logit: 16)",
        places,
        {f"Gaussian, {kind}": [gaussian_needed(form, queries, rounds, epsilon, delta) for epsilon in places]
         for kind, form in forms.items()}, log_across=True, log_up=True,
    )  # fmt: skip
    return Result("fedmd-noise", caption, rows, {}, ()), Chart("fedmd-noise", caption, [panel])


COMPUTED: Mapping[str, Callable[[], tuple[Result, Chart]]] = {"privacy": privacy, "noise": noise}
