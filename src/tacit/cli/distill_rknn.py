"""``tacit distill --method rknn``: the main job on the user's own files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import typer
from rich.text import Text

from tacit.cli.aloud import heard_or_not
from tacit.cli.inputs import read_inputs
from tacit.cli.request import requested, require_place
from tacit.cli.screen import console, counting, show_guarantee, show_plan, write_run
from tacit.core.errors import InvalidInput

if TYPE_CHECKING:
    from tacit.datasets.tables import Table

__all__ = ["digest", "rknn"]

Number = TypeVar("Number", int, Fraction)


def rknn(
    private: Path = typer.Option(
        ..., help="Labeled private records: a .csv with a header, or an .npz with an array X (or file.npz:array)."
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
    labels: str = typer.Option(
        "hard",
        help="hard: one label a query. soft: counts are paid for, students get odds. proportions: of the classes in "
        "each cluster, from the same counts; best where clusters are mixed.",
    ),
    mechanism: str = typer.Option("auto", help="auto, or by name: permute-and-flip, laplace, gaussian."),
    queries: int | None = typer.Option(None, min=1, help="How many questions; chosen from public figures if left out."),
    neighbors: int = typer.Option(1, min=1, help="How many queries a record votes for (k)."),
    representation: str = typer.Option(
        "auto",
        help="auto; identity, standardised, pca, spectral, umap; groups, where classes are about equally frequent: one "
        "query a class; for images gradients, handwriting, patches, imagenet. "
        "Fitted on public data only.",
    ),
    student: str = typer.Option(
        "auto", help="auto; logistic, map, forest; with torch network, or for images handwriting, photographs."
    ),
    iterations: int = typer.Option(
        1, min=1, help="Ask again, in the view of a student that learned from the answers; the budget is split."
    ),
    queries_each: str | None = typer.Option(
        None, help="With --iterations: how many queries each one has, like 300,100; instead of --queries."
    ),
    shares: str | None = typer.Option(
        None, help="With --iterations: what each one spends of the budget, like 4,6; evenly if left out."
    ),
    selection: str = typer.Option(
        "diverse",
        help="Where later iterations ask: diverse (clusters, finer where the student is unsure), clusters, or the "
        "samples it is least sure of by entropy or margin.",
    ),
    view: str = typer.Option(
        "student",
        help="Where later votes are cast: student (its features), 'student map' (a map of them), or same (as before).",
    ),
    connections: str = typer.Option("nearest", help="A record votes for the nearest queries, or for balanced ones."),
    one_to_one: bool = typer.Option(
        False, "--one-to-one", help="With a query a class: every class is given one query, which noise disturbs less."
    ),
    spread: str = typer.Option("clusters", help="Labels go to a query's cluster, or on over the neighbour 'graph'."),
    keep: float = typer.Option(1.0, help="The share of the surest labels that are taught; the others abstain."),
    trust: str = typer.Option("central", help="central (a curator), or local or shuffle: one record a holder."),
    adjacency: str = typer.Option("replace-one", help="replace-one, or add-remove (then give --queries)."),
    private_cache: Path | None = typer.Option(
        None, help="A folder to keep encodings of the records in, for slow encoders; as private as the records."
    ),
    ledger: Path | None = typer.Option(None, help="A ledger file that pays, opened with 'tacit ledger open'."),
    account: str | None = typer.Option(None, help="The ledger's account that pays."),
    seed: int | None = typer.Option(None, help="Replayable noise: a simulation, without a guarantee."),
    out: Path = typer.Option(Path("tacit-run"), help="The run folder to write; must not exist."),
) -> None:
    """Label public samples with what private records know, and train a student on them."""
    from tacit.experiment.distill import Plan
    from tacit.experiment.distill import distill as run_distillation
    from tacit.ledger.sqlite import SqliteLedger

    require_place(out)
    if per_person > 1 and unit is None:
        raise InvalidInput("--per-person needs --unit: say which column tells persons apart")
    if seed is not None and ledger is not None:
        raise InvalidInput(
            "--seed makes a simulation, which must not spend a real budget: leave out --seed or --ledger"
        )
    if queries is not None and queries_each is not None:
        raise InvalidInput("--queries and --queries-each both say how many: leave one out")
    asked = queries if queries_each is None else _numbers(queries_each, "--queries-each", int)
    parts = None if shares is None else _numbers(shares, "--shares", Fraction)
    table, open_table, names = read_inputs(private, public, label, unit, classes)
    assert table.labels is not None

    # All that decides the labels. The last student is not among it: labels that are paid for may teach another one.
    inputs = {
        "--private": digest(table),
        "--public": digest(open_table),
        "--classes": repr(None if classes is None else names.tolist()),
        "--ledger": repr(None if ledger is None else str(ledger.resolve())),
    }
    settings = {
        "--label": label, "--unit": unit, "--per-person": per_person, "--epsilon": epsilon, "--delta": delta,
        "--labels": labels, "--mechanism": mechanism, "--queries": asked, "--neighbors": neighbors,
        "--representation": representation, "--iterations": iterations, "--spread": spread, "--keep": keep,
        "--trust": trust, "--adjacency": adjacency, "--account": account, "--connections": connections,
        "--one-to-one": one_to_one,
    }  # fmt: skip
    if iterations > 1:
        # A student chooses what is asked next.
        settings |= {"--student": student, "--shares": shares, "--selection": selection, "--view": view}
    inputs |= {name: repr(value) for name, value in settings.items()}
    with heard_or_not(), requested(out, ledger, account, inputs) as request:

        def announce(chosen: Plan) -> None:
            show_plan(chosen)
            request.begin()

        with counting(len(table.samples), "at work") as tell:
            run = run_distillation(
                (table.samples, table.labels), open_table.samples, epsilon, delta=delta,
                classes=None if classes is None else list(names), labels=labels, mechanism=mechanism,
                queries=asked, neighbors=neighbors, representation=representation, student=student,
                persons=table.persons, person_column=unit or "person", records_per_person=per_person,
                iterations=iterations, shares=parts, selection=selection, view=view, connections=connections,
                one_to_one=one_to_one, spread=spread, keep=keep, private_cache=private_cache,
                trust=trust, adjacency=adjacency, ledger=ledger, account=account, request=request.name, seed=seed,
                announce=announce, progress=tell, stage=lambda doing: console.print(f"[dim]{doing}[/dim]"),
            )  # fmt: skip
        # What was paid for is on disk before anything is said about it.
        write_run(run, open_table.samples, out)
        request.done()
        show_guarantee(run.guarantee)
        if ledger is not None and account is not None:
            with SqliteLedger(ledger) as book:
                balance = f"    {account} has {book.balance(account).in_words}"
                console.print(Text.assemble(("account", "bold"), balance))


def _numbers(text: str, option: str, kind: Callable[[str], Number]) -> list[Number]:
    try:
        return [kind(each.strip()) for each in text.split(",")]
    except (ValueError, ZeroDivisionError):
        raise InvalidInput(f"{option} must be numbers with commas between them, got {text!r}") from None


def digest(table: Table) -> str:
    """A name for a table's content: it changes with any of its columns, values, labels or persons.

    >>> from tacit.datasets.tables import Table
    >>> first, other = (Table("a.csv", ("x",), np.array([[value]])) for value in (1.0, 2.0))
    >>> digest(first) == digest(first), digest(first) == digest(other)
    (True, False)
    """
    content = hashlib.sha256(repr(table.columns).encode())
    for array in (table.samples, table.labels, table.persons):
        if array is not None:
            content.update(f"{array.dtype}{array.shape}".encode())
            content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()
