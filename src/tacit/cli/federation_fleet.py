"""``tacit federation fleet``: all nodes of a federation at its coordinator."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from tacit.cli.screen import console, show_rows

__all__ = ["fleet_command"]


def fleet_command(
    folder: Path = typer.Argument(..., help="The coordinator's folder.", show_default=False),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of tables."),
) -> None:
    """Show all nodes: who is admitted, their answers, their refusals by reason, and their payments.

    It is what this coordinator knows from its own jobs. A node's ceiling and its payments to other coordinators are not
    known: the amount shown as paid is the least that it has spent. Nothing is asked and nothing is changed.

    Example: tacit federation fleet hub
    """
    from tacit.runs.fleet import read_fleet

    found = read_fleet(folder)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
        return
    if not found.nodes:
        console.print(f"no node is listed; add one with `tacit federation nodes add {folder} north.pub`", markup=False)
        return
    rows = [
        (each.name, each.state, f"{each.answered} of {each.asked}", f"{each.lost}",
         ", ".join(f"{count} {reason}" for reason, count in sorted(each.refusals.items())) or "-",
         each.paid or "-", each.last_answer or "-")
        for each in found.nodes
    ]  # fmt: skip
    columns = ("node", "state", "rounds answered", "lost", "refusals", "paid at least", "last answer")
    show_rows(columns, rows, folding=("refusals", "paid at least"))
    jobs = [(each.name, each.state, f"{each.rounds}", each.message) for each in found.jobs]
    if jobs:
        show_rows(("job", "state", "rounds", "says"), jobs, folding=("says",))
