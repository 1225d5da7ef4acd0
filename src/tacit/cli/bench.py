"""``tacit bench``: the experiments, made by commands alone."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.markup import escape

from tacit.cli.bench_fedmd import fedmd
from tacit.cli.bench_privatekt import privatekt
from tacit.cli.screen import console, flowing
from tacit.core.errors import InvalidInput

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    help=flowing("""Repeat the experiments: fixed parts of real data sets, several seeded runs, mean and spread.

Data sets are read from their publishers' own files; nothing is downloaded. Measurements are kept as they are made, so
a bench that is stopped goes on where it was."""),
)


@app.callback()
def experiments() -> None:
    """One command a method."""


@app.command()
def rknn(
    data: str = typer.Option(
        ..., help="mnist, svhn, cifar10, or mnist-femnist: records of one hand, public samples of another."
    ),
    figure: str = typer.Option(
        "table1",
        help="table1, queries, neighbors, local, shuffle, iterations, teaching, multilabel, mechanisms, opacus, "
        "stages, cost; or several: a,b.",
    ),
    folder: Path = typer.Option(..., help="The folder with the data set's published files."),
    runs: int = typer.Option(5, min=1, help="Seeded runs of every line."),
    out: Path = typer.Option(Path("docs/results"), help="Where tables, numbers and pictures are written."),
    cache: Path = typer.Option(Path(".tacit-bench"), help="Where single measurements are kept."),
    kept: bool = typer.Option(False, "--kept", help="Run nothing: write what has been measured so far."),
) -> None:
    """Reverse k-NN labeling on images, beside the paper's figures.

    Example: tacit bench rknn --data mnist --folder data/mnist --figure table1,mechanisms
    """
    from tacit.bench.rknn import FIGURES
    from tacit.bench.rknn_runs import Bench
    from tacit.bench.table import write_result
    from tacit.report.bars import draw_rows

    figures = [each.strip() for each in figure.split(",")]
    for each in figures:
        if each not in FIGURES:
            raise InvalidInput(f"unknown figure {each!r}: choose one of {', '.join(FIGURES)}")
    bench = Bench.open(data, folder, cache, runs, lambda text: console.print(f"[dim]{escape(text)}[/dim]"), kept)
    for each in figures:
        result = FIGURES[each](bench)
        if kept:
            result = result.measured()
        console.print(result.markdown(), markup=False, highlight=False)
        files = write_result(result, out)
        lines = [(" · ".join(row.names.values()), row.values("labels"), row.values("test")) for row in result.rows]
        if any(labels or test for _, labels, test in lines):
            files.append(draw_rows(result.caption, lines, out / f"{result.name}.png"))
        for file in files:
            console.print(f"wrote {escape(str(file))}")


app.command()(privatekt)
app.command()(fedmd)
