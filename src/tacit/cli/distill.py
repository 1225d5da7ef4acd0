"""``tacit distill``: the main job on the user's own files."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import typer

from tacit.cli.screen import console, counting, show_guarantee, show_plan, write_run
from tacit.core.errors import InvalidInput, RequestConflict

__all__ = ["distill"]


def distill(
    private: Path = typer.Option(
        ..., help="Labeled private records: a .csv with a header, or an .npz with an array X."
    ),
    public: Path = typer.Option(..., help="Unlabeled public samples with the same feature columns."),
    label: str = typer.Option(..., help="The label column (csv) or array (npz) of the private file."),
    epsilon: float = typer.Option(
        ..., help="The privacy budget of this run: smaller is more private; 1 is a good start."
    ),
    delta: float = typer.Option(0.0, help="A small failure probability, e.g. 1e-6, allows Gaussian noise. 0 is pure."),
    classes: str | None = typer.Option(
        None, help="The classes, which must be public: a,b,c or a .txt or .json file. Read off the labels if left out."
    ),
    unit: str | None = typer.Option(None, help="Column that says whose record it is; protects persons, not records."),
    per_person: int = typer.Option(1, "--per-person", min=1, help="With --unit: records used of a person, at most."),
    labels: str = typer.Option("hard", help="hard: one label a query. soft: counts are paid for, students get odds."),
    mechanism: str = typer.Option("auto", help="auto, or by name: permute-and-flip, laplace, gaussian."),
    queries: int | None = typer.Option(None, min=1, help="How many questions; chosen from public figures if left out."),
    neighbors: int = typer.Option(1, min=1, help="How many queries a record votes for (k)."),
    representation: str = typer.Option(
        "auto", help="auto, identity, standardised, pca or spectral; fitted on public data only."
    ),
    student: str = typer.Option("logistic", help="logistic, forest, or network (needs torch)."),
    trust: str = typer.Option("central", help="central (a curator), or local or shuffle: one record a holder."),
    adjacency: str = typer.Option("replace-one", help="replace-one, or add-remove (then give --queries)."),
    ledger: Path | None = typer.Option(None, help="A ledger file that pays, opened with 'tacit ledger open'."),
    account: str | None = typer.Option(None, help="The ledger's account that pays."),
    seed: int | None = typer.Option(None, help="Replayable noise: a simulation, without a guarantee."),
    out: Path = typer.Option(Path("tacit-run"), help="The run folder to write; must not exist."),
) -> None:
    """Label public samples with what private records know, and train a student on them.

    The private file never leaves this machine, and what is written was computed from it through the privacy
    mechanism alone; warnings on your screen may tell more, they are for your eyes. Scaling, encoding and the number
    of queries come from public figures.

    With --ledger a run that was interrupted can be started again with the same --out: it takes up the same
    request, gets the labels that were already paid for, and pays nothing twice.

    Example: tacit distill --private records.csv --public samples.csv --label diagnosis --classes ill,well
    --epsilon 1 --unit patient --per-person 3 --out first-run
    """
    from tacit.datasets.classes import class_indices, read_classes
    from tacit.datasets.tables import align, read_table, rows_in_common
    from tacit.experiment.distill import Plan
    from tacit.experiment.distill import distill as run_distillation
    from tacit.ledger.sqlite import SqliteLedger

    if out.exists():
        raise InvalidInput(f"{out}: exists already; choose another --out")
    if not writable(out):
        raise InvalidInput(f"{out}: cannot be written there; choose another --out")
    if per_person > 1 and unit is None:
        raise InvalidInput("--per-person needs --unit: say which column tells persons apart")
    open_table = read_table(public)
    table = read_table(private, label, unit)
    if label in open_table.columns:
        raise InvalidInput(f"{public}: has the label column {label!r}; remove it, public samples are unlabeled")
    table = align(table, open_table)
    assert table.labels is not None
    names = np.unique(table.labels) if classes is None else np.array(read_classes(classes))
    class_indices(table.labels, names, str(private), table.first_row)
    if copies := rows_in_common(table.samples, open_table.samples):
        console.print(
            f"[yellow]warning:[/yellow] {copies} public rows are exact copies of private ones. What is in the public "
            "file is not protected; remove them unless they are public anyway."
        )

    request = Request(out, ledger is not None)

    def announce(chosen: Plan) -> None:
        show_plan(chosen)
        request.begin()

    with request.explained(), counting(len(table.samples), "counting votes") as tell:
        run = run_distillation(
            (table.samples, table.labels), open_table.samples, epsilon, delta=delta,
            classes=None if classes is None else list(names), labels=labels, mechanism=mechanism,
            queries=queries, neighbors=neighbors, representation=representation, student=student,
            persons=table.persons, person_column=unit or "person", records_per_person=per_person,
            trust=trust, adjacency=adjacency, ledger=ledger, account=account, request=request.name, seed=seed,
            announce=announce, progress=tell,
        )  # fmt: skip
    show_guarantee(run.guarantee)
    write_run(run, open_table.samples, out)
    request.done()
    if ledger is not None and account is not None:
        with SqliteLedger(ledger) as book:
            console.print(f"[bold]account[/bold]    {account} has {book.balance(account).in_words}")


def writable(folder: Path) -> bool:
    """Whether a folder can be made there: asked before anything is paid for.

    >>> writable(Path("runs/first"))
    True
    """
    existing = next(each for each in folder.absolute().parents if each.exists())
    return existing.is_dir() and os.access(existing, os.W_OK)


class Request:
    """The name of a paid request, kept beside the run folder until the run is written.

    An interrupted run finds it again and takes up the same request, so that nothing is paid twice.
    """

    def __init__(self, out: Path, durable: bool) -> None:
        self._file = out.with_name(out.name + ".request") if durable else None
        self.name = uuid.uuid4().hex
        if self._file is not None and self._file.exists():
            self.name = self._file.read_text(encoding="utf-8").strip()
            console.print(f"[bold]resuming[/bold]   request {self.name} of an interrupted run")

    def begin(self) -> None:
        """Write the name down: from here on the request may be paid for."""
        if self._file is not None and not self._file.exists():
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(self.name + "\n", encoding="utf-8")

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say what to do where a resumed request turns out to be for something else."""
        try:
            yield
        except RequestConflict as error:
            raise RequestConflict(
                f"{error} The request comes from {self._file}, which an unfinished run left: run that command again "
                "as it was, or remove the file to make and pay a new request."
            ) from None

    def done(self) -> None:
        """Forget the request: its run is written."""
        if self._file is not None:
            self._file.unlink()
