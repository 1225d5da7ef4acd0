"""``tacit bench fedmd``: FedMD's tables and curves on stand-ins for the paper's data."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.markup import escape

from tacit.cli.screen import console
from tacit.core.errors import InvalidInput

__all__ = ["fedmd"]


def fedmd(
    figure: str = typer.Option(
        "subsets",
        help="subsets, kinds, partitions, parties, convergence, schedule, guarantees; privacy and noise are "
        "computed and need no data; or several: a,b.",
    ),
    data: str | None = typer.Option(
        None, help="fashion or clothes (Fashion-MNIST; public MNIST, or unlabeled clothes), cifar10, femnist."
    ),
    folder: Path | None = typer.Option(
        None, help="The folder with the published files: fashion-mnist/, mnist/, cifar10/, femnist-digits/."
    ),
    runs: int = typer.Option(3, min=1, help="Seeded runs of every line."),
    out: Path = typer.Option(Path("docs/results"), help="Where tables, numbers and pictures are written."),
    cache: Path = typer.Option(Path(".tacit-bench"), help="Where single measurements are kept."),
) -> None:
    """Federations of different models, with and without a guarantee, beside the paper's figures.

    Example: tacit bench fedmd --data fashion --folder data --figure subsets,partitions
    """
    from tacit.bench.fedmd import FedBench
    from tacit.bench.fedmd_figures import FIGURES
    from tacit.bench.fedmd_theory import COMPUTED
    from tacit.bench.table import write_result
    from tacit.report.bars import draw_rows
    from tacit.report.curves import draw_chart

    figures = [each.strip() for each in figure.split(",")]
    for each in figures:
        if each not in FIGURES and each not in COMPUTED:
            raise InvalidInput(f"unknown figure {each!r}: choose one of {', '.join([*FIGURES, *COMPUTED])}")
    bench = None
    if any(each in FIGURES for each in figures):
        if data is None or folder is None:
            raise InvalidInput("this figure is measured: give --data, and --folder with its files")
        bench = FedBench.open(data, folder, cache, runs, lambda text: console.print(f"[dim]{escape(text)}[/dim]"))
    for each in figures:
        if bench is not None and each in FIGURES:
            result, chart = FIGURES[each](bench)
        else:
            result, chart = COMPUTED[each]()
        console.print(result.markdown(), markup=False, highlight=False)
        files, picture = write_result(result, out), out / f"{result.name}.png"
        if chart is not None:
            files.append(draw_chart(chart, picture))
        else:
            lines = [
                (" · ".join(value for value in row.names.values() if value), row.values("before"), row.values("after"))
                for row in result.rows
            ]
            # The caption is in the table; beside a picture of a few lines there is no place for it.
            title = f"{result.name}: mean test accuracy of the parties"
            files.append(draw_rows(title, lines, picture, ("before", "after")))
        for file in files:
            console.print(f"wrote {escape(str(file))}")
