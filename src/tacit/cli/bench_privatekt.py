"""``tacit bench privatekt``: PrivateKT's tables and curves on images, X-rays and medical text."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.markup import escape

from tacit.cli.screen import console
from tacit.core.errors import InvalidInput

__all__ = ["privatekt"]


def privatekt(
    data: str = typer.Option(..., help="mnist, pneumonia (PneumoniaMNIST) or text (medical abstracts)."),
    folder: Path = typer.Option(..., help="The folder with the data set's published files."),
    figure: str = typer.Option("main", help="main, totals, ablation, curve, growth; or several: a,b."),
    rounds: int | None = typer.Option(None, min=1, help="Shorten or lengthen the runs; tables say how long they were."),
    runs: int = typer.Option(3, min=1, help="Seeded runs of every line."),
    out: Path = typer.Option(Path("docs/results"), help="Where tables, numbers and pictures are written."),
    cache: Path = typer.Option(Path(".tacit-bench"), help="Where single measurements are kept."),
) -> None:
    """Many holders answer a few questions a round: the authors' setting, totals, and what each part is worth.

    Example: tacit bench privatekt --data mnist --folder data/mnist --figure main,totals
    """
    from tacit.bench.privatekt import TransferBench
    from tacit.bench.privatekt_figures import FIGURES
    from tacit.bench.table import write_result
    from tacit.report.curves import draw_chart

    figures = [each.strip() for each in figure.split(",")]
    for each in figures:
        if each not in FIGURES:
            raise InvalidInput(f"unknown figure {each!r}: choose one of {', '.join(FIGURES)}")

    def tell(text: str) -> None:
        console.print(f"[dim]{escape(text)}[/dim]")

    bench = TransferBench.open(data, folder, cache, runs, tell, rounds)
    for each in figures:
        result, chart = FIGURES[each](bench)
        console.print(result.markdown(), markup=False, highlight=False)
        files = write_result(result, out)
        if chart is not None:
            files.append(draw_chart(chart, out / f"{result.name}.png"))
        for file in files:
            console.print(f"wrote {escape(str(file))}")
