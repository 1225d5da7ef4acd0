"""``tacit plan``: what to expect before a single record is looked at."""

from __future__ import annotations

import typer
from rich.table import Table

from tacit.cli.screen import console

__all__ = ["plan_command"]


def plan_command(
    records: int = typer.Option(..., min=1, help="How many private records will vote; with persons, how many persons."),
    classes: int = typer.Option(..., min=2, help="How many classes there are."),
    epsilon: float = typer.Option(..., help="The privacy budget."),
    queries: int | None = typer.Option(None, min=1, help="How many queries; a few numbers are compared if left out."),
    neighbors: int = typer.Option(1, min=1, help="How many queries a record votes for (k)."),
    per_person: int = typer.Option(1, min=1, help="Records of one person that are used, at most."),
    purity: float = typer.Option(0.9, help="The share of a query's voters that agree: a guess about your data."),
) -> None:
    """Say how many labels will be right, from public figures alone.

    Nothing is read and nothing is spent. For a number of records, queries and classes it shows the lead a label needs
    under permute-and-flip, and the least share of labels to expect if queries were voted on evenly and a given share of
    each query's voters agreed.

    Where persons are protected, give the number of persons as --records: how many persons there are is public under
    replace-one adjacency, how many records each of them has is not. 'tacit distill' plans in the same way.

    Example: tacit plan --records 20000 --classes 5 --epsilon 0.5
    """
    from fractions import Fraction

    from tacit.core.guarantee import Unit
    from tacit.core.rational import positive
    from tacit.mechanisms.accuracy import at_least, expected_label_accuracy
    from tacit.methods.rknn.choice import choose_mechanism
    from tacit.methods.rknn.wire import table_sensitivity

    budget = positive(epsilon, "epsilon")
    asked = (
        [queries] if queries else sorted({max(classes, neighbors, records // votes) for votes in (25, 50, 100, 400)})
    )
    table = Table("queries", "votes per query", "lead needed", "queries right", "samples right")
    for number in asked:
        sensitivity = table_sensitivity(number, classes, neighbors, Unit.person("person", per_person))
        choice = choose_mechanism(sensitivity, classes, budget, Fraction(0))
        expected = expected_label_accuracy(records, number, classes, budget / per_person, neighbors, purity)
        table.add_row(
            str(number),
            f"{expected.votes:.0f}",
            f"{choice.gap:.1f}",
            f"at least {at_least(expected.queries_right)}",
            f"at least {at_least(expected.samples_right)}",
        )
    console.print(table)
    if per_person > 1:
        console.print(
            f"Persons of {per_person} records share the budget: each record is as noisy as at a "
            f"{per_person}th of epsilon = {epsilon:g}."
        )
    console.print(expected.in_words)
    console.print(
        f"That {purity:.0%} of a query's voters agree is a guess (--purity). Nothing was read, so nothing is known "
        "about your data: where voters agree less, fewer labels are right."
    )
