"""``tacit distill --method privatekt``: many holders answer a few questions a round, and a global model learns."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from tacit.cli.aloud import heard_or_not
from tacit.cli.distill_rknn import digest
from tacit.cli.inputs import read_inputs
from tacit.cli.request import Request, requested, require_place
from tacit.cli.screen import console, show_guarantee
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import decimal

if TYPE_CHECKING:
    from tacit.datasets.tables import Table
    from tacit.experiment.privatekt_plan import TransferPlan
    from tacit.experiment.privatekt_result import Transfer

__all__ = ["privatekt"]


def privatekt(
    private: Path = typer.Option(
        ..., help="Labeled private records: a .csv with a header, or an .npz with an array X (or file.npz:array)."
    ),
    public: Path = typer.Option(..., help="Unlabeled public samples with the same feature columns."),
    label: str = typer.Option(..., help="The label column (csv) or array (npz) of the private file."),
    epsilon: float | None = typer.Option(
        None, help="The total of one holder over all rounds; or give --round-epsilon."
    ),
    round_epsilon: float | None = typer.Option(
        None, "--round-epsilon", help="What a round costs a holder; the total is told before anybody is asked."
    ),
    delta: float = typer.Option(1e-5, help="A small failure probability; below one over the number of holders."),
    classes: str | None = typer.Option(
        None, help="The classes, which must be public: a,b,c or a .txt or .json file. Read off the labels if left out."
    ),
    holder: str | None = typer.Option(None, help="Column that says which holder has the record; or give --holders."),
    holders: int | None = typer.Option(None, min=1, help="Share the records out among so many holders, to try it."),
    alpha: float | None = typer.Option(None, help="With --holders: classes are shared out by Dirichlet draws."),
    rounds: int = typer.Option(100, min=1, help="How many rounds are asked."),
    answers: int = typer.Option(2, min=1, help="How many public samples a round asks about (K)."),
    participation: float = typer.Option(0.5, help="The share of the holders that is asked in a round."),
    most: int | None = typer.Option(None, min=1, help="The most rounds that one holder is asked in."),
    model: str = typer.Option(
        "auto", help="A network (auto, strided-convolutions, perceptron, linear) or logistic or forest."
    ),
    shape: str | None = typer.Option(None, help="Flat rows are images of this shape: 28x28 or 32x32x3."),
    buffer: int = typer.Option(25, min=0, help="Answers of so many rounds are learned again; 0 never forgets."),
    importance: bool = typer.Option(True, help="Ask about samples that the model is unsure of first."),
    self_training: bool = typer.Option(True, help="Learn from public samples that the model is sure of, too."),
    targets: str = typer.Option("weighted", help="What answers become: hard, soft or weighted labels."),
    ledger: Path | None = typer.Option(None, help="A ledger file that pays; made for this run where there is none."),
    account: str | None = typer.Option(
        None, help="Holders pay from 'ACCOUNT <holder>' of the ledger; 'holder <holder>' if left out."
    ),
    seed: int | None = typer.Option(None, help="Replayable noise: a simulation, without a guarantee."),
    out: Path = typer.Option(Path("tacit-run"), help="The run folder to write; must not exist."),
) -> None:
    """Teach a global model by randomized answers of many holders, each with an account of its own."""
    from tacit.experiment.privatekt import transfer
    from tacit.experiment.privatekt_plan import plan_transfer
    from tacit.methods.privatekt.coordinator import Teaching
    from tacit.methods.privatekt.models import Learning

    require_place(out)
    if (holder is None) == (holders is None):
        raise InvalidInput("say who holds what: --holder with a column of the private file, or --holders with a number")
    if alpha is not None and holder is not None:
        raise InvalidInput("--alpha shares records out among --holders; with --holder the file says who has what")
    if (epsilon is None) == (round_epsilon is None):
        raise InvalidInput("give either --epsilon, the total of a holder, or --round-epsilon, what a round costs it")
    if seed is not None and ledger is not None:
        raise InvalidInput(
            "--seed makes a simulation, which must not spend a real budget: leave out --seed or --ledger"
        )
    teaching = Teaching(
        importance=importance, buffer=buffer or None, self_training=self_training, targets=targets, pool=POOL
    )
    learning, student = Learning(shape=None if shape is None else _shape(shape)), _model(model)
    table, open_table, names = read_inputs(private, public, label, holder, classes)
    assert table.labels is not None
    owners: Any = holders if table.persons is None else table.persons
    count = len(np.unique(table.persons)) if table.persons is not None else int(holders or 0)
    plan = plan_transfer(
        len(names), count, epsilon, delta, round_epsilon=round_epsilon, rounds=rounds, answers=answers,
        participation=participation, most=most,
    )  # fmt: skip
    settings: dict[str, Any] = {
        "--label": label, "--epsilon": epsilon, "--round-epsilon": round_epsilon, "--delta": delta,
        "--holder": holder, "--holders": holders, "--alpha": alpha, "--rounds": rounds, "--answers": answers,
        "--participation": participation, "--most": most, "--model": model, "--shape": shape, "--buffer": buffer,
        "--importance": importance, "--self-training": self_training, "--targets": targets, "--account": account,
    }  # fmt: skip
    inputs = _inputs(table, open_table, ledger) | {"--classes": repr(None if classes is None else names.tolist())}
    inputs |= {name: repr(value) for name, value in settings.items()}
    with heard_or_not(), requested(out, ledger, None, inputs) as request:
        _show(plan)
        with _kept(out, request) as kept, _rounds(plan.rounds) as tell:
            run = transfer(
                (table.samples, table.labels), open_table.samples, epsilon, delta=delta, round_epsilon=round_epsilon,
                rounds=rounds, answers=answers, holders=owners, alpha=alpha, participation=participation, most=most,
                model=student, learning=learning, teaching=teaching,
                classes=None if classes is None else list(names), ledger=ledger, account=account or "holder",
                request=request.name, keep=None if ledger is None else kept, seed=seed, progress=tell,
            )  # fmt: skip
        run.save(out)
        request.done()
        shutil.rmtree(kept, ignore_errors=True)
        _tell(run, out)


# Public samples that the model looks at in a round: enough to find some that it is unsure of.
POOL = 2000


def _shape(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*(x[1-9]\d*)?", text):
        raise InvalidInput(f"--shape must be like 28x28 or 32x32x3, got {text!r}")
    return tuple(int(side) for side in text.split("x"))


def _model(name: str) -> Any:  # noqa: ANN401
    """A network goes by its name, anything else is a classifier of the catalog."""
    from tacit.catalog import STUDENTS

    return STUDENTS[name]() if name in ("logistic", "forest") else name


def _inputs(table: Table, public: Table, ledger: Path | None) -> dict[str, str]:
    return {
        "--private": digest(table),
        "--public": digest(public),
        "--ledger": repr(None if ledger is None else str(ledger.resolve())),
    }


def _show(plan: TransferPlan) -> None:
    """Say what the run will cost before anybody is asked."""
    sheet = plan.sheet
    console.print(
        Text.assemble(
            ("asking", "bold"),
            f"     {plan.rounds} rounds, {plan.invited} of {plan.holders} holders in each, {sheet.answers} samples; "
            f"nobody more than {plan.most} times",
        )
    )
    console.print(
        Text.assemble(
            ("price", "bold"),
            f"      epsilon {decimal(sheet.epsilon)} a round, "
            f"in total {decimal(plan.total.epsilon)} for a holder asked {plan.most} times",
        )
    )


@contextmanager
def _kept(out: Path, request: Request) -> Iterator[Path]:
    """The folder beside the run folder in which every round is kept until the run is written."""
    kept = out.with_name(out.name + ".rounds")
    if not request.file.exists():
        # Left by a run whose request was given up.
        shutil.rmtree(kept, ignore_errors=True)
    request.begin()
    try:
        yield kept
    except BaseException:
        if request.paid() is False:
            shutil.rmtree(kept, ignore_errors=True)
        raise


@contextmanager
def _rounds(rounds: int) -> Iterator[Callable[[int], None]]:
    """A bar that counts the rounds; it disappears when they are over."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("rounds", total=rounds)

        def tell(done: int) -> None:
            progress.update(task, completed=done)
            # Where nobody watches a bar, a log shows that the run is alive.
            if done % max(1, rounds // 10) == 0:
                console.print(f"[dim]round {done} of {rounds}[/dim]")

        yield tell


def _tell(run: Transfer, out: Path) -> None:
    written = ", ".join(sorted(file.name for file in out.iterdir()))
    console.print(Text.assemble(("written", "bold"), f"    {out}/: {written}"), soft_wrap=True)
    spent = f"; {run.exhausted} ran dry and stopped answering" if run.exhausted else ""
    console.print(Text.assemble(("holders", "bold"), f"    {len(run.guarantees)} answered{spent}"))
    show_guarantee(run.guarantee)
    console.print(
        Text.assemble(
            ("per round", "bold"),
            f"  epsilon {decimal(run.plan.sheet.epsilon)}; the box is about the holder that paid most, over all rounds",
        )
    )
