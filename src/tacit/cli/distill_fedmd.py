"""``tacit distill --method fedmd``: parties with models of their own kinds learn from each other's predictions."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import typer
from rich.panel import Panel
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from tacit.cli.aloud import heard_or_not
from tacit.cli.distill_rknn import digest
from tacit.cli.request import requested, require_place
from tacit.cli.screen import console, show_guarantee
from tacit.core.errors import InvalidInput

if TYPE_CHECKING:
    from tacit.core.protocols import Integers
    from tacit.datasets.tables import Table
    from tacit.experiment.fedmd import Federation

__all__ = ["fedmd"]


def fedmd(
    private: Path = typer.Option(..., help="Labeled private records of all parties."),
    public: Path = typer.Option(..., help="Public samples with the same feature columns."),
    label: str = typer.Option(..., help="The label column (csv) or array (npz) of the private file."),
    holder: str | None = typer.Option(None, help="Column that says which holder has the record; or give --holders."),
    holders: int | None = typer.Option(None, min=1, help="Share the records out among so many holders, to try it."),
    alpha: float | None = typer.Option(None, help="With --holders: classes are shared out by Dirichlet draws."),
    by_class: bool = typer.Option(False, "--by-class", help="With --holders: each has one class, or two."),
    variant: str = typer.Option(
        "rknn",
        help="rknn: noisy votes. response, ldp: randomized predictions. nfdp: a subset of records, which is NOT "
        "differential privacy. np: NO PRIVACY.",
    ),
    epsilon: float | None = typer.Option(None, help="What a party may spend in all, for rknn, response and ldp."),
    delta: float = typer.Option(0.0, help="A small failure probability, e.g. 1e-6. 0 is pure."),
    subset: int | None = typer.Option(None, min=1, help="nfdp: how many of its records a party trains on (k)."),
    replacement: bool = typer.Option(True, help="nfdp: whether a record may be drawn more than once."),
    per_class: bool = typer.Option(False, "--per-class", help="nfdp: of every class its share of the subset."),
    mechanism: str = typer.Option("subset-selection", help="response: subset-selection or generalized-response."),
    models: str = typer.Option(
        "auto",
        help="Kinds of models, which the parties get in turn: perceptron,forest; or each party's own by its name: "
        "north=forest,south=perceptron.",
    ),
    rounds: int = typer.Option(20, min=1, help="How often the parties agree, digest and revisit."),
    queries: int | None = typer.Option(
        None, min=1, help="Public samples in each round; 5000, or as many as there are."
    ),
    vote_queries: int | None = typer.Option(
        None, min=1, help="rknn: queries that records vote for; chosen if left out."
    ),
    kind: str = typer.Option("argmax", help="What is sent of a prediction: argmax, softmax or logits."),
    weights: str = typer.Option("equal", help="equal, agreement, or a number for every party: 1,2,1."),
    own_epochs: int = typer.Option(20, "--own-epochs", min=1, help="Epochs on own records before the first round."),
    public_label: str | None = typer.Option(None, help="A label column of the public file; it pretrains the models."),
    classes: str | None = typer.Option(None, help="The classes, which must be public: a,b,c or a .txt or .json file."),
    representation: str = typer.Option("auto", help="rknn: where distances are taken; fitted on public data only."),
    ledgers: Path | None = typer.Option(None, help="A folder with a ledger for each party; made where it is missing."),
    seed: int | None = typer.Option(None, help="Replayable noise: a simulation, without a guarantee."),
    out: Path = typer.Option(Path("tacit-run"), help="The run folder to write; must not exist."),
) -> None:
    """Parties with models of their own kinds learn from each other's predictions on public samples."""
    from tacit.datasets.classes import class_indices, read_classes
    from tacit.datasets.tables import align, read_table
    from tacit.experiment.fedmd import federate
    from tacit.experiment.run import new_folder
    from tacit.methods.fedmd.study import Schedule

    require_place(out)
    if seed is not None and ledgers is not None:
        raise InvalidInput(
            "--seed makes a simulation, which must not spend a real budget: leave out --seed or --ledgers"
        )
    if (holder is None) == (holders is None):
        raise InvalidInput("give --holder, the column that says whose a record is, or --holders, a number of them")
    if holders is None and (alpha is not None or by_class):
        raise InvalidInput("--alpha and --by-class share records out among --holders; here a column does")
    if alpha is not None and by_class:
        raise InvalidInput("--alpha and --by-class are two ways to share records out; choose one")
    open_table = read_table(public, public_label)
    table = read_table(private, label, holder)
    if label in open_table.columns:
        raise InvalidInput(
            f"{public}: has the label column {label!r}; remove it, or name it by --public-label to pretrain on it"
        )
    table = align(table, open_table)
    assert table.labels is not None
    names = np.unique(table.labels) if classes is None else np.array(read_classes(classes))
    marks = class_indices(table.labels, names, str(private), table.rows)
    rows = _shared_out(marks, table, holders, alpha, by_class)
    parties = _names(table, len(rows))
    chosen = _models(models, parties, images=open_table.samples.ndim > 2)
    asked = min(5000, len(open_table.samples)) if queries is None else queries

    inputs = {
        "--private": digest(table),
        "--public": digest(open_table),
        "--classes": repr(None if classes is None else names.tolist()),
        "--ledgers": repr(None if ledgers is None else str(ledgers.resolve())),
    }
    settings = {
        "--label": label, "--holder": holder, "--holders": holders, "--alpha": alpha, "--by-class": by_class,
        "--variant": variant,
        "--epsilon": epsilon, "--delta": delta, "--subset": subset, "--replacement": replacement,
        "--per-class": per_class, "--mechanism": mechanism, "--models": chosen, "--rounds": rounds, "--queries": asked,
        "--vote-queries": vote_queries, "--kind": kind, "--weights": weights, "--own-epochs": own_epochs,
        "--public-label": public_label, "--representation": representation,
    }  # fmt: skip
    inputs |= {name: repr(value) for name, value in settings.items()}
    with heard_or_not(), requested(out, ledgers, None, inputs) as request:
        request.begin()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(f"{len(rows)} parties train on their own records", total=rounds + 1)

            def told(number: int, _: float | None) -> None:
                progress.update(task, completed=number + 1, description=f"round {number} of {rounds}")
                console.print(
                    f"[dim]{'trained on own records' if number == 0 else f'round {number} of {rounds}'}[/dim]"
                )

            run = federate(
                [(table.samples[each], table.labels[each]) for each in rows], open_table.samples, variant,
                classes=list(names), public_labels=open_table.labels, models=chosen, rounds=rounds, queries=asked,
                kind=kind, weights=_weights(weights), schedule=Schedule(own=own_epochs), subset=subset,
                replacement=replacement, per_class=per_class, epsilon=epsilon, delta=delta, mechanism=mechanism,
                vote_queries=vote_queries, representation=representation, ledgers=ledgers,
                names=parties,
                request=f"{request.name}-fedmd", seed=seed, progress=told,
            )  # fmt: skip
        run = _with_classes_read(run) if classes is None else run
        with new_folder(out) as partial:
            from tacit.experiment.fedmd_saved import write_federation

            images = open_table.samples.ndim > 2
            lost = write_federation(run, names, len(open_table.samples), parties, partial, images)
        request.done()
        for each in lost:
            console.print(Text.assemble(("warning:", "yellow"), f" not kept, {each}"), soft_wrap=True)
        _show(run, len(parties), out)


def _shared_out(
    marks: Integers, table: Table, holders: int | None, alpha: float | None, by_class: bool
) -> list[Integers]:
    from tacit.experiment.shared_out import split_rows

    if holders is None:
        assert table.persons is not None
        return split_rows(marks, table.persons)
    if alpha is not None:
        return split_rows(marks, holders, "dirichlet", alpha)
    return split_rows(marks, holders, "class" if by_class else "even")


def _names(table: Table, count: int) -> list[str]:
    from tacit.experiment.fedmd_variants import party_names

    return party_names(count, None if table.persons is None else [str(each) for each in np.unique(table.persons)])


def _models(text: str, parties: list[str], images: bool) -> list[str]:
    """The kinds of the parties' models in turn, or each party's own by its name."""
    from tacit.experiment.fedmd_models import FOR_TABLES, MIXED

    if text == "auto":
        kinds = MIXED if images else FOR_TABLES
        # What is chosen without being asked must be at hand.
        return list(kinds if find_spec("torch") else ("forest", "logistic"))
    given = [each.strip() for each in text.split(",")]
    if not any("=" in each for each in given):
        return given
    pairs = [each.rpartition("=") for each in given]
    named = {name: model for name, _, model in pairs}
    if strange := sorted(set(named) - set(parties)):
        raise InvalidInput(f"--models: {strange[0] or given[0]!r} is none of the parties ({', '.join(parties)})")
    if missing := [each for each in parties if each not in named]:
        raise InvalidInput(f"--models names no model for the party {missing[0]!r}")
    return [named[each] for each in parties]


def _weights(text: str) -> str | tuple[float, ...]:
    if text.isalpha():
        return text
    try:
        return tuple(float(each) for each in text.split(","))
    except ValueError:
        raise InvalidInput(
            f"--weights must be equal, agreement, or numbers with commas between them, got {text!r}"
        ) from None


def _with_classes_read(run: Federation) -> Federation:
    from dataclasses import replace

    from tacit.core.guarantee import Guarantee
    from tacit.experiment.distill import CLASSES_READ

    return replace(
        run,
        claims=tuple(each.with_caveat(CLASSES_READ) if isinstance(each, Guarantee) else each for each in run.claims),
    )


def _show(run: Federation, parties: int, out: Path) -> None:
    """What was written, what holds, and what it cost."""
    from tacit.core.guarantee import Guarantee

    written = ", ".join(sorted(file.name for file in out.iterdir()))
    console.print(Text.assemble(("parties", "bold"), f"    {parties}, models {', '.join(sorted(set(run.models)))}"))
    console.print(Text.assemble(("written", "bold"), f"    {out}/: {written}"), soft_wrap=True)
    console.print(
        Text.assemble(
            ("models", "bold"),
            "     the parties' own, trained on their records in the clear: hand each to its party and to nobody else",
        ),
        soft_wrap=True,
    )
    claim = run.claim
    if isinstance(claim, Guarantee):
        show_guarantee(claim)
    else:
        title = "SIMULATION" if claim.simulation else "NO GUARANTEE"
        console.print(Panel(Text(str(claim)), title=title, border_style="red", expand=False))
