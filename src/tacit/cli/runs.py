"""``tacit show``, ``predict`` and ``export``: describe, use and export a saved run."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from tacit.cli.screen import console, show_claim, show_reading, visible
from tacit.core import InvalidInput, listed, nearest, warn_user
from tacit.core.errors import plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.runs.folders import Record
    from tacit.runs.run import Run

__all__ = ["export_command", "found_record", "predict_command", "samples_for", "show_command"]

_RUN = typer.Argument(..., help="A run folder, as 'tacit distill' writes it.", show_default=False)
_CLOSE = 1e-5


def show_command(
    run: Path = _RUN,
    as_json: bool = typer.Option(False, "--json", help="Print the run's statement as JSON, for programs."),
) -> None:
    """Describe a saved run: what was labeled, by which method, and what is guaranteed.

    The claim is checked against the run's receipts first. Nothing is spent and the student is not loaded.

    Example: tacit show first-run

    Example: tacit show first-run --json
    """
    record = found_record(run)
    from tacit.report.card import statement, summary_lines

    said = statement(record)
    if as_json:
        typer.echo(json.dumps(said, indent=2, ensure_ascii=False))
        return
    for title, line in summary_lines(said):
        # Names of columns and classes come from a file: they neither move the cursor nor start a line.
        shown = visible(line.replace("\n", " "))
        console.print(Text.assemble((title, "bold"), f"{'':{max(1, 11 - len(title))}}{shown}"), soft_wrap=True)
    show_claim(record.claim)


def predict_command(
    run: Path = _RUN,
    file: Path = typer.Argument(
        ..., help="Samples with the columns that the student was trained on.", show_default=False
    ),
    out: Path = typer.Option(..., help="The table to write, .csv or .parquet; must not exist."),
    probabilities: bool = typer.Option(False, "--probabilities", help="Also write the probability of each class."),
    label: str | None = typer.Option(
        None, help="A column with the true labels: it is not a feature, and the accuracy is printed."
    ),
) -> None:
    """Label the samples of a file with a saved student.

    The file is read as the public one was; its columns are matched by name, and other columns are refused. Nothing is
    spent: the student is a release. The guarantee does not cover the file's rows.

    Example: tacit predict first-run new.csv --out labels.csv --probabilities
    """
    record = found_record(run)
    show_reading(file)
    from tacit.runs.export import label_columns, require_new_table, write_columns

    require_new_table(out)
    samples, truth = samples_for(record, file, label)
    console.print(f"[dim]{len(samples)} sample{'s' * (len(samples) != 1)} read[/dim]")
    finished = _loaded(record)
    student: Any = finished.student
    if probabilities and not hasattr(student, "predict_proba"):
        raise InvalidInput("this student has no probabilities: leave out --probabilities")
    found = student.predict(samples)
    chances = _chances(finished, samples) if probabilities else None
    simulation = bool(record.claim.simulation)
    write_columns(out, label_columns(found, chances, finished.classes, simulation, row="row"))
    console.print(Text.assemble(("written", "bold"), f"    {out}: {plural(len(found), 'prediction')}"), soft_wrap=True)
    if truth is not None:
        right = sum(str(one) == str(other) for one, other in zip(found.tolist(), truth.tolist(), strict=True))
        console.print(f"{right / len(found):.1%} right; computed from the file without noise, for you only")
    if simulation:
        warn_user("the student was trained in a simulation, whose noise anyone can replay: no guarantee covers it")


def export_command(
    run: Path = _RUN,
    onnx: bool = typer.Option(False, "--onnx", help="As an ONNX model: rows in, labels and probabilities out."),
    skops: bool = typer.Option(False, "--skops", help="As a skops file: scikit-learn students."),
    safetensors: bool = typer.Option(False, "--safetensors", help="As safetensors: networks."),
    out: Path | None = typer.Option(None, help="The folder to write the student and its model card into; new."),
    labels: Path | None = typer.Option(None, help="Write the labels of the public samples: .csv or .parquet."),
    mlflow: str | None = typer.Option(None, help="Log the run to this MLflow experiment, with its privacy statement."),
    check: Path | None = typer.Option(
        None, help="With --onnx: samples on which the model must predict the same as the student."
    ),
) -> None:
    """Export a student or the labels to other formats.

    A model card with the guarantee, what it does not cover, the columns and the classes is written beside the student.

    Example: tacit export first-run --onnx --out model --check new.csv

    Example: tacit export first-run --labels labels.parquet
    """
    record = found_record(run)
    kinds = [name for name, given in (("onnx", onnx), ("skops", skops), ("safetensors", safetensors)) if given]
    if len(kinds) > 1:
        raise InvalidInput(f"--{kinds[0]} and --{kinds[1]} are two formats: choose one, and export again")
    if not kinds and labels is None and mlflow is None:
        raise InvalidInput(
            "choose what to export: --onnx, --skops or --safetensors with --out, or --labels, or --mlflow"
        )
    if bool(kinds) != (out is not None):
        raise InvalidInput(
            "a student is exported with a format and a folder: --onnx, --skops or --safetensors, and --out"
        )
    if check is not None and kinds != ["onnx"]:
        raise InvalidInput("--check compares an ONNX model with the student: give --onnx, too")
    saved = record.student.suffix.removeprefix(".")
    if kinds and kinds[0] not in ("onnx", saved):
        raise InvalidInput(f"this student is saved as {saved}: give --{saved} or --onnx")
    show_reading(run)
    from tacit.runs.export import label_columns, require_new_table, write_columns

    if labels is not None:
        require_new_table(labels)
    if out is not None:
        from tacit.cli.request import require_place

        require_place(out)
    if labels is not None:
        arrays, simulation = record.arrays(), bool(record.claim.simulation)
        known = (arrays["labels"], arrays.get("probabilities"), arrays["classes"])
        write_columns(labels, label_columns(*known, simulation))
        console.print(
            Text.assemble(("written", "bold"), f"    {labels}: {plural(len(arrays['labels']), 'label')}"),
            soft_wrap=True,
        )
    if out is not None:
        _export_student(record, kinds[0], out, check)
    if mlflow is not None:
        from tacit.report.exports import log_to_mlflow

        logged = log_to_mlflow(run, mlflow)
        console.print(Text.assemble(("logged", "bold"), f"     to MLflow experiment {listed([mlflow])}: run {logged}"))


def _export_student(record: Record, kind: str, out: Path, check: Path | None) -> None:
    from tacit.report.card import model_card, statement
    from tacit.runs.folders import new_folder
    from tacit.students.registry import TYPES

    said = statement(record)
    name = f"{record.student.stem}.{kind}"
    content = _as_onnx(record, said, check) if kind == "onnx" else record.student.read_bytes()
    with new_folder(out) as folder:
        (folder / name).write_bytes(content)
        if record.encoder is not None:
            (folder / record.encoder.name).write_bytes(record.encoder.read_bytes())
        (folder / "MODEL_CARD.md").write_text(model_card(said, kind, name, TYPES), encoding="utf-8")
        (folder / "statement.json").write_text(json.dumps(said, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    written = ", ".join(sorted(file.name for file in out.iterdir()))
    console.print(Text.assemble(("written", "bold"), f"    {out}/: {written}"), soft_wrap=True)


def _as_onnx(record: Record, said: dict[str, Any], check: Path | None) -> bytes:
    import numpy as np

    from tacit.runs.export import onnx_predictions, student_to_onnx

    samples = None if check is None else samples_for(record, check, None)[0]
    finished = _loaded(record)
    notes = {
        "guarantee": record.claim.to_json()["statement"],
        "features": json.dumps(said["features"]),
        "tacit": said["versions"].get("tacit", ""),
    }
    if finished.labels.ndim == 2:
        notes["classes"] = json.dumps([str(name) for name in finished.classes])
    model = student_to_onnx(finished.student, int(finished.recipe["features"]), notes)
    if samples is not None:
        labels, chances = onnx_predictions(model, _numbers(finished, samples))
        same = np.mean(labels.astype(str) == np.asarray(finished.student.predict(samples)).astype(str))
        apart = float(np.abs(chances - finished.student.predict_proba(samples)).max())
        console.print(
            f"{same:.1%} of {len(labels)} labels are the student's; probabilities differ by at most {apart:.1g}"
        )
        if same < 1 or apart > _CLOSE:
            raise InvalidInput("the ONNX model's predictions differ from the student's; nothing was written")
    return model


def found_record(folder: Path) -> Record:
    """The run's record; the nearest name is suggested where there is no such run."""
    from tacit.runs.folders import read_record

    try:
        there = (folder / "run.json").is_file()
    except OSError:
        there = False
    if not there:
        shown = listed([str(folder)])
        beside = (
            [each.parent.name for each in folder.absolute().parent.glob("*/run.json")] if len(str(folder)) < 200 else []
        )
        meant = f"; did you mean {listed([close])}?" if (close := nearest(folder.name, beside)) else ""
        raise InvalidInput(f"{shown}: not a run folder, it has no run.json{meant}")
    return read_record(folder)


def _loaded(record: Record) -> Run:
    from tacit.runs.run import load

    return load(record.folder)


def samples_for(
    record: Record, file: Path, label: str | None, labeled: bool = False
) -> tuple[Any, NDArray[Any] | None]:
    """The file's samples, which must have the features that the student was trained on, and the labels if a column is
    named, or of a folder of images that is ``labeled``. The run's encoder, if there is one, checks the columns itself.
    """
    from tacit.core.samples import match_names
    from tacit.datasets.frame import Frame
    from tacit.datasets.table import Table
    from tacit.datasets.tables import read_data

    found = read_data(file, label, labeled=labeled)
    if isinstance(found, Frame):
        # Columns that the run did not use may be in this file, too.
        unused = _left_out(record)
        found = found.take([name for name in found.columns if name not in unused])
    wanted, shown, names = record.written["recipe"].get("features"), listed([str(file)]), record.features
    columns: tuple[str, ...] | None = getattr(found, "columns", None)
    placed = isinstance(found, Table) and not found.named
    if columns is not None and names is not None and not placed:
        try:
            match_names(columns, names, shown, "the run")
        except InvalidInput as error:
            more = [name for name in columns if name not in names]
            one = f": --label {shlex.quote(more[0][:80])}" if len(more) == 1 else ""
            hint = f"; a column with true labels is named by --label{one}" if set(names) < set(columns) else ""
            raise InvalidInput(f"{error}{hint}") from None
    elif columns is not None and record.encoder is None and len(columns) != wanted:
        raise InvalidInput(f"{shown}: has {len(columns)} features, the run's samples have {wanted}")
    elif names is not None and placed:
        warn_user("the file has no column names and the run does: columns are matched by position")
    return found.frame if isinstance(found, Table) else found, found.labels


def _left_out(record: Record) -> set[str]:
    """Columns of the run's files that are not features: left out by the encoder, or identifying persons."""
    said = record.written["recipe"].get("encoding") or []
    unit = getattr(record.claim, "unit", None)
    named = {match[1] for line in said if (match := re.match(r"column '(.+)' is left out", str(line)))}
    return named | ({unit.column} if unit is not None and unit.column is not None else set())


def _numbers(run: Run, samples: Any) -> Any:  # noqa: ANN401
    """The rows of numbers that are the student's input."""
    import numpy as np

    from tacit.core.samples import in_order

    if run.encoder is not None:
        return run.encoder.encode(samples)
    return np.asarray(in_order(samples, run.features, "samples", "the run"), dtype=np.float64)


def _chances(run: Run, samples: Any) -> Any:  # noqa: ANN401
    from tacit.runs.export import for_classes

    found = run.student.predict_proba(samples)
    return found if run.labels.ndim == 2 else for_classes(found, run.student.classes_, run.classes)
