"""``tacit demo``: the main job on the digits of scikit-learn; and ``tacit bench``: the experiments of a checkout."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from tacit.cli.request import require_place
from tacit.cli.screen import console, counting, show_claim, show_line, show_plan, write_run
from tacit.core import InvalidInput, decimal

__all__ = ["bench_command", "demo_command"]


def demo_command(
    epsilon: float = typer.Option(1.0, help="The privacy budget: smaller is more private."),
    runs: int = typer.Option(1, min=1, help="Repeat the private part and show mean and spread."),
    seed: int | None = typer.Option(None, help="Replayable noise: a simulation, without a guarantee."),
    out: Path = typer.Option(Path("runs/demo"), help="Run folder; a number is added if it exists."),
) -> None:
    """Label 500 public digits from 1,000 private ones, and train a student.

    Nothing is downloaded: the digits come with scikit-learn. Private, public and test parts are fixed and
    disjoint. The student is compared with two figures that no privacy would allow: the same pipeline without
    noise, and the same student trained on the private records themselves.

    Example: tacit demo --epsilon 0.5
    """
    console.print("[dim]the main job on the digits of scikit-learn; the first run after an installation is slow[/dim]")
    from dataclasses import replace

    from tacit.datasets.published import digits
    from tacit.methods.rknn.plan import plan
    from tacit.report.measured import measure
    from tacit.report.page import report_page
    from tacit.runs.baselines import accuracy, train_directly, train_without_noise
    from tacit.runs.distill import distill
    from tacit.runs.folders import machine, read_record
    from tacit.runs.run import Run
    from tacit.students.registry import STUDENTS

    folder, parts = _free(out), digits()
    require_place(folder)
    show_line(
        "digits",
        f"{len(parts.private_samples)} private labeled records, {len(parts.public_samples)} public unlabeled, "
        f"{len(parts.test_samples)} for the test ({machine()})",
    )
    chosen = plan(parts.public_samples, len(parts.classes), len(parts.private_samples), epsilon)
    show_plan(chosen)
    finished: list[Run] = []
    with counting(runs, "labeling and training") as tell:
        for index in range(runs):
            finished.append(
                distill(
                    (parts.private_samples, parts.private_labels),
                    parts.public_samples,
                    epsilon,
                    classes=parts.classes,
                    seed=None if seed is None else seed + index,
                )
            )
            tell(index + 1)
    student = STUDENTS["map"]()
    exact_labels, exact_student = train_without_noise(parts, chosen, student)
    direct = train_directly(parts, student)
    measured: dict[str, list[float]] = {
        "label accuracy": [accuracy(run.labels, parts.public_labels) for run in finished],
        "test accuracy": [accuracy(run.student.predict(parts.test_samples), parts.test_labels) for run in finished],
        "label accuracy without noise": [accuracy(exact_labels, parts.public_labels)],
        "test accuracy without noise": [accuracy(exact_student.predict(parts.test_samples), parts.test_labels)],
        "test accuracy trained directly": [accuracy(direct.predict(parts.test_samples), parts.test_labels)],
    }

    table = Table("", "labels right", "test right", title=f"what the public data learned, ε = {epsilon:g}")
    table.add_row("private (this run)", _shown(measured["label accuracy"]), _shown(measured["test accuracy"]))
    table.add_row(
        "same pipeline, no noise [dim](not private)[/dim]",
        _shown(measured["label accuracy without noise"]),
        _shown(measured["test accuracy without noise"]),
    )
    table.add_row(
        "student on the records [dim](not private)[/dim]", "", _shown(measured["test accuracy trained directly"])
    )
    console.print(table)
    guarantee = finished[0].guarantee.with_caveat(
        "the figures under 'not private' in run.json were computed from the records without noise"
    )
    if runs > 1:
        guarantee = guarantee.with_caveat(
            f"{runs} runs were made on the same records, and their accuracies are kept: together they cost "
            f"epsilon = {decimal(runs * guarantee.epsilon)}"
        )
    show_claim(guarantee)
    metrics = {"label accuracy": measured["label accuracy"], "test accuracy": measured["test accuracy"]}
    secret = {name: values for name, values in measured.items() if name not in metrics}
    run = replace(finished[0], guarantee=guarantee, metrics={**metrics, "not private": secret, "machine": machine()})

    write_run(run, parts.public_samples.reshape(-1, 8, 8), folder, dark_ink=True)
    page = folder / "report.html"
    tested = measure(run.student, parts.test_samples, parts.test_labels.tolist(), run.classes, "the digits' test part")
    page.write_text(report_page(read_record(folder), tested), encoding="utf-8")
    picture = folder / "queries.png"
    if picture.exists():
        console.print(
            Text.assemble(("picture", "bold"), f"    {picture}: labels, their certainty, and doubtful ones marked"),
            soft_wrap=True,
        )
    console.print(
        Text.assemble(("report", "bold"), f"     {page}: open it in a browser, or see all runs with tacit ui"),
        soft_wrap=True,
    )


def _shown(values: list[float]) -> str:
    percent = 100 * np.array(values)
    return f"{percent.mean():.1f} %" + (
        f" ± {percent.std(ddof=1):.1f} ({len(percent)} runs)" if len(values) > 1 else ""
    )


def _free(folder: Path) -> Path:
    """The folder, or the first of folder-2, folder-3, … that does not exist yet."""
    number = 2
    free = folder
    while free.exists():
        free = folder.with_name(f"{folder.name}-{number}")
        number += 1
    return free


# Beside the folder ``src`` that this package is run from, where it is run from a checkout.
BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


def bench_command(context: typer.Context) -> None:
    """Repeat the experiments of the papers and of the documentation; in a checkout only.

    Example: tacit bench rknn --help
    """
    if not (BENCHMARKS / "experiments" / "commands.py").is_file():
        raise InvalidInput(
            "the experiments are not part of the installed package: take a checkout of Tacit's sources, run "
            "'make setup' there, and then '.venv/bin/tacit bench'"
        )
    if str(BENCHMARKS) not in sys.path:
        sys.path.append(str(BENCHMARKS))
    # They import most of what there is.
    console.print("[dim]the experiments of this checkout[/dim]")
    # Its errors are printed here, like those of every command.
    code = importlib.import_module("experiments.commands").app(
        context.args, prog_name="tacit bench", standalone_mode=False
    )
    if code:
        raise typer.Exit(code)
