"""``tacit bench``: the experiments, made by commands alone; each imports what it measures: help comes at once."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from tacit.cli.screen import console, flowing
from tacit.core import InvalidInput

if TYPE_CHECKING:
    from experiments.table import Result
    from tacit.report.charts import Chart

__all__ = ["app"]

OUT = typer.Option(Path("docs/results"), help="Where tables, numbers and pictures are written.")
CACHE = typer.Option(Path(".tacit-bench"), help="Where single measurements are kept.")

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help=flowing("""Repeat the experiments: fixed parts of real data sets, several seeded runs, mean and spread.

Data sets are read from their publishers' own files; nothing is downloaded. Measurements are kept as they are made, so
a bench that is stopped goes on where it was."""),
)


@app.callback()
def experiments() -> None:
    """One command per method."""


def _chosen(figure: str, known: Collection[str]) -> list[str]:
    """The figures that were asked for, all of them known."""
    figures = [each.strip() for each in figure.split(",")]
    for each in figures:
        if each not in known:
            raise InvalidInput(f"unknown figure {each!r}: choose one of {', '.join(known)}")
    return figures


def _tell(text: str) -> None:
    console.print(f"[dim]{escape(text)}[/dim]")


def _written(result: Result, chart: Chart | None, out: Path) -> list[Path]:
    """The files of a result, which is shown too; a chart is drawn beside it."""
    from experiments.table import write_result
    from tacit.report.charts import draw_chart

    console.print(result.markdown(), markup=False, highlight=False)
    files = write_result(result, out)
    return files if chart is None else [*files, draw_chart(chart, out / f"{result.name}.png")]


def _name(files: list[Path]) -> None:
    for file in files:
        console.print(f"wrote {escape(str(file))}")


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
    out: Path = OUT,
    cache: Path = CACHE,
    kept: bool = typer.Option(False, "--kept", help="Run nothing: write what has been measured so far."),
) -> None:
    """Reverse k-NN labeling on images, beside the paper's figures.

    Example: tacit bench rknn --data mnist --folder data/mnist --figure table1,mechanisms
    """
    from experiments.charts import draw_rows
    from experiments.rknn import FIGURES
    from experiments.rknn_runs import Bench

    figures = _chosen(figure, FIGURES)
    bench = Bench.open(data, folder, cache, runs, _tell, kept)
    for each in figures:
        result = FIGURES[each](bench)
        if kept:
            result = result.measured()
        files = _written(result, None, out)
        lines = [(" · ".join(row.names.values()), row.values("labels"), row.values("test")) for row in result.rows]
        if any(labels or test for _, labels, test in lines):
            files.append(draw_rows(result.caption, lines, out / f"{result.name}.png"))
        _name(files)


@app.command()
def privatekt(
    data: str = typer.Option(
        ..., help="mnist, mnist-1000 (holders), pneumonia (PneumoniaMNIST), text (medical abstracts), news (AG News)."
    ),
    folder: Path = typer.Option(..., help="The folder with the data set's published files."),
    figure: str = typer.Option("main", help="main, totals, groups, ablation, curve, growth; or several: a,b."),
    rounds: int | None = typer.Option(None, min=1, help="Shorten or lengthen the runs; tables say how long they were."),
    runs: int = typer.Option(3, min=1, help="Seeded runs of every line."),
    out: Path = OUT,
    cache: Path = CACHE,
) -> None:
    """Many holders answer a few questions per round: the authors' setting, totals, and what each part is worth.

    Example: tacit bench privatekt --data mnist --folder data/mnist --figure main,totals
    """
    from experiments.privatekt import TransferBench
    from experiments.privatekt_figures import FIGURES

    figures = _chosen(figure, FIGURES)
    bench = TransferBench.open(data, folder, cache, runs, _tell, rounds)
    for each in figures:
        _name(_written(*FIGURES[each](bench), out))


@app.command()
def fedmd(
    figure: str = typer.Option(
        "subsets",
        help="subsets, kinds, partitions, parties, convergence, schedule, guarantees, sums; privacy and noise are "
        "computed and need no data; or several: a,b.",
    ),
    data: str | None = typer.Option(
        None,
        help="fashion or clothes (Fashion-MNIST; public MNIST, or unlabeled clothes), cifar10, cifar100, "
        "cifar100-superclasses, femnist.",
    ),
    folder: Path | None = typer.Option(
        None, help="The folder with the published files: fashion-mnist/, mnist/, cifar10/, cifar100/, femnist-digits/."
    ),
    runs: int = typer.Option(3, min=1, help="Seeded runs of every line."),
    out: Path = OUT,
    cache: Path = CACHE,
) -> None:
    """Federations of different models, with and without a guarantee, beside the paper's figures.

    Example: tacit bench fedmd --data fashion --folder data --figure subsets,partitions
    """
    from experiments.charts import draw_rows
    from experiments.fedmd import FedBench
    from experiments.fedmd_figures import FIGURES
    from experiments.fedmd_theory import COMPUTED

    figures, bench = _chosen(figure, [*FIGURES, *COMPUTED]), None
    if any(each in FIGURES for each in figures):
        if data is None or folder is None:
            raise InvalidInput("this figure is measured: give --data, and --folder with its files")
        bench = FedBench.open(data, folder, cache, runs, _tell)
    for each in figures:
        result, chart = FIGURES[each](bench) if bench is not None and each in FIGURES else COMPUTED[each]()
        files = _written(result, chart, out)
        if chart is None:
            lines = [
                (" · ".join(value for value in row.names.values() if value), row.values("before"), row.values("after"))
                for row in result.rows
            ]
            # The caption is in the table; beside a picture of a few lines there is no place for it.
            title = f"{result.name}: mean test accuracy of the parties"
            files.append(draw_rows(title, lines, out / f"{result.name}.png", ("before", "after")))
        _name(files)


@app.command()
def leaderboard(
    data: str = typer.Option(
        ..., help="digits, mnist, fashion, svhn, cifar10, cifar100, adult, diabetes130, ag-news or medical-abstracts."
    ),
    folder: Path | None = typer.Option(None, help="The folder with one folder per data set; digits needs none."),
    methods: str = typer.Option("", help="Lines with commas between them, such as rknn,noisy_sgd; all if left out."),
    features: str = typer.Option(
        "", help="Of images: identity (pixels), gradients or imagenet, for every line; the default's if left out."
    ),
    epsilons: str = typer.Option("", help="Values of ε, with commas; seven from 0.01 to 8 if left out."),
    runs: int = typer.Option(5, min=1, help="Seeded runs of every line."),
    out: Path = OUT,
    cache: Path = CACHE,
    kept: bool = typer.Option(False, "--kept", help="Run nothing: write what has been measured so far."),
    again: bool = typer.Option(False, "--again", help="Encode nothing: write and draw again what was written before."),
) -> None:
    """Every method on the same parts and representation: accuracy over ε.

    Measurements are kept by the content of the data and the code they went through; a board that is stopped goes on.

    Example: tacit bench leaderboard --data digits --methods rknn,class_sums,noisy_sgd --epsilons 0.1,1,8
    """
    from experiments.development import read_set
    from experiments.kept_encodings import keep_encodings, keep_in_memory
    from experiments.leaderboard import EPSILONS, Board
    from experiments.leaderboard_plot import draw_board
    from experiments.measured import Memory

    asked = _epsilons(epsilons) or EPSILONS
    parts = read_set(data, _folder(data, folder))
    keep_encodings(cache / "encodings")
    keep_in_memory()
    memory = Memory(cache / "leaderboard")
    if again:
        board = Board.again(parts, out, memory)
    else:
        board = Board.of(
            parts, _listed(methods),
            written=out, features=features, memory=memory, epsilons=asked, runs=runs, tell=_tell, kept=kept,
        )  # fmt: skip
        board.measure()
    if not board.shown():
        raise InvalidInput(f"nothing of {data} was measured so far: leave out --kept")
    result = board.result()
    _name([*_written(result, None, out), draw_board(board, out / f"{result.name}.png")])


@app.command()
def crossings(
    data: str = typer.Option(..., help="A data set of the leaderboard."),
    over: str = typer.Option(..., help="records, classes or features (of images): what is varied."),
    folder: Path | None = typer.Option(None, help="The folder with one folder per data set; digits needs none."),
    values: str = typer.Option("", help="Its values, with commas; a few if left out."),
    methods: str = typer.Option("", help="Lines of the leaderboard with commas; four if left out."),
    epsilons: str = typer.Option("0.1,1", help="Values of ε, with commas."),
    runs: int = typer.Option(1, min=1, help="Seeded runs of every cell."),
    out: Path = OUT,
    cache: Path = CACHE,
    kept: bool = typer.Option(False, "--kept", help="Run nothing: write what has been measured so far."),
) -> None:
    """Where methods cross: accuracy over records, classes or features, all else being equal.

    Measurements are shared with the leaderboard; one that is stopped goes on.

    Example: tacit bench crossings --data digits --over records --values 100,300,1000
    """
    from experiments.crossings import CROSSING, Crossings
    from experiments.development import read_set
    from experiments.kept_encodings import keep_encodings, keep_in_memory
    from experiments.measured import Memory

    asked = _epsilons(epsilons)
    parts = read_set(data, _folder(data, folder))
    keep_encodings(cache / "encodings")
    keep_in_memory()
    bench = Crossings(
        parts, over, Memory(cache / "leaderboard"), _listed(values), _listed(methods) or CROSSING, asked, runs, _tell,
        kept,
    )  # fmt: skip
    bench.measure()
    _name(_written(bench.result(), bench.chart(), out))


@app.command()
def published(
    folder: Path = typer.Option(..., help="The folder with one folder per data set."),
    data: str = typer.Option("", help="mnist, cifar10 or both; both if left out."),
    runs: int = typer.Option(1, min=1, help="Seeded runs of every line."),
    out: Path = OUT,
    cache: Path = CACHE,
    kept: bool = typer.Option(False, "--kept", help="Run nothing: write what has been measured so far."),
) -> None:
    """The baselines at the settings of their own papers.

    Example: tacit bench published --folder data --data mnist
    """
    from experiments.kept_encodings import keep_encodings
    from experiments.measured import Memory
    from experiments.published_settings import CASES, measured_cases

    sets = list(dict.fromkeys(case.data for case in CASES))
    asked = _listed(data)
    if any(each not in sets for each in asked):
        raise InvalidInput(f"data must be some of {', '.join(sets)}, got {data[:80]!r}")
    keep_encodings(cache / "encodings")
    result = measured_cases(folder, Memory(cache / "leaderboard"), asked, runs, _tell, kept)
    _name(_written(result, None, out))


def _folder(data: str, folder: Path | None) -> Path:
    if folder is None and data != "digits":
        raise InvalidInput("give --folder: it has one folder per data set with its publisher's files")
    return folder or Path()


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _epsilons(text: str) -> list[float]:
    try:
        asked = [float(each) for each in _listed(text)]
    except ValueError:
        raise InvalidInput(f"epsilons must be comma-separated numbers, got {text[:80]!r}") from None
    if any(not 0 < each < 1000 for each in asked):
        raise InvalidInput(f"every epsilon must be above 0 and below 1000, got {text[:80]!r}")
    return sorted(set(asked))


queue_app = typer.Typer(
    no_args_is_help=True,
    help=flowing("""Run long measurements one after the other, in the background.

Jobs are kept in a folder with their logs; a worker that was killed goes on with what it was doing.

Example: tacit bench queue add fashion python benchmarks/defaults.py --folder data --data fashion"""),
)
app.add_typer(queue_app, name="queue")
QUEUE = typer.Option(Path(".tacit-bench/queue"), help="The folder with the jobs.")


@queue_app.command(context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})
def add(
    name: str = typer.Argument(help="What to call it."),
    command: list[str] = typer.Argument(help="The command and its arguments."),
    folder: Path = QUEUE,
) -> None:
    """Add a command at the end.

    Example: tacit bench queue add mnist tacit bench rknn --data mnist --folder data/mnist
    """
    from experiments.run_queue import Queue

    console.print(str(Queue(folder).add(name, tuple(command))), markup=False, highlight=False)


@queue_app.command()
def again(name: str = typer.Argument(help="A job that has ended."), folder: Path = QUEUE) -> None:
    """Put a job that has ended back.

    Example: tacit bench queue again mnist
    """
    from experiments.run_queue import Queue

    console.print(str(Queue(folder).again(name)), markup=False, highlight=False)


@queue_app.command()
def show(folder: Path = QUEUE) -> None:
    """Every job, how far it is, and how long it took.

    Example: tacit bench queue show
    """
    from experiments.run_queue import Queue

    for job in Queue(folder).jobs():
        console.print(str(job), markup=False, highlight=False)


@queue_app.command()
def work(
    nice: int = typer.Option(10, min=0, max=19, help="How far to step back for other programs."),
    minutes: float = typer.Option(float("inf"), help="Begin no job after these."),
    folder: Path = QUEUE,
) -> None:
    """Run what waits, one at a time. Exit code 1 where a job failed; its log is beside it.

    Example: tacit bench queue work --minutes 90
    """
    import os
    import time

    from experiments.run_queue import FAILED, Queue

    os.nice(nice)
    failed = False
    for job in Queue(folder).work(time.time() + 60 * minutes):
        console.print(str(job), markup=False, highlight=False)
        failed |= job.state == FAILED
    raise typer.Exit(int(failed))
