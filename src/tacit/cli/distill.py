"""``tacit distill``: one command for every method; what the methods can be told is generated from their options."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from click.core import ParameterSource
from rich.markup import escape
from rich.text import Text

from tacit.cli.inputs import RunInputs, inputs_digest, read_inputs, rehearse, require_account
from tacit.cli.method_options import flags, read_options, renamed_flags, with_options
from tacit.cli.request import RunRequest, requested, require_place
from tacit.cli.screen import console, counting, show_claim, show_data, show_plan, tolerate_broken_pipe, write_run
from tacit.core.errors import InvalidInput, listed
from tacit.core.guarantee import Unit
from tacit.methods.registry import AUTO, METHODS, automatic, method_named

if TYPE_CHECKING:
    from tacit.runs.run import Run

__all__ = ["distill_command"]

# Public samples that PrivateKT's model looks at in a round: enough to find some that it is unsure of.
POOL = 2000
# Methods whose records are all behind one gate, which one account pays for.


@with_options
def distill_command(
    context: typer.Context,
    private: Path = typer.Option(
        ...,
        help="Labeled private records: .csv, .tsv, .jsonl (also .gz, .xz, .bz2), .parquet, .arrow, .feather, .npz (or "
        "file.npz:array), .npy, a folder of images with a folder per class, or a published set (svhn:FILE).",
    ),
    public: Path = typer.Option(
        ..., help="Unlabeled public samples with the same feature columns, or a folder of images."
    ),
    label: str | None = typer.Option(
        None,
        help="The label column, or array (npz), or file (npy) of the private records. Folders of images have none.",
    ),
    data_kind: str | None = typer.Option(
        None,
        help="What the data is: images, text, mixed, table, embedding. Recognized from the public file if left out.",
    ),
    text: list[str] = typer.Option([], help="A column of texts; may be given several times."),
    category: list[str] = typer.Option(
        [], help="A column of categories, if it looks like numbers; may be given several times."
    ),
    method: str = typer.Option(AUTO, help=f"One of {', '.join(METHODS)}; auto plans by the data."),
    epsilon: float | None = typer.Option(
        None, help="The privacy budget of this run: smaller is more private; 1 is a good start."
    ),
    delta: float | None = typer.Option(
        None, help="A small failure probability, e.g. 1e-6, allows Gaussian noise. 0 is pure; privatekt has 1e-5."
    ),
    classes: str | None = typer.Option(
        None, help="The classes, which must be public: a,b,c or a .txt or .json file. Read off the labels if left out."
    ),
    unit: str | None = typer.Option(None, help="Column that says whose record it is; protects persons, not records."),
    per_person: int = typer.Option(1, "--per-person", min=1, help="With --unit: records used of a person, at most."),
    holder: str | None = typer.Option(None, help="Column that says which holder has the record."),
    holders: int | None = typer.Option(None, min=1, help="Split the records among N simulated holders."),
    alpha: float | None = typer.Option(None, help="With --holders: divide classes by Dirichlet draws."),
    by_class: bool = typer.Option(False, "--by-class", help="With --holders: each has one class, or two."),
    trust: str | None = typer.Option(
        None, help="Who may see what: central (a curator), or local or shuffle: one record per holder."
    ),
    adjacency: str = typer.Option("replace-one", help="replace-one, or add-remove (then give --queries)."),
    ledger: Path | None = typer.Option(
        None,
        help="A ledger file that pays, opened with 'tacit ledger open'. Where every holder pays: a file or a folder "
        "with one ledger per holder, made where there is none.",
    ),
    account: str | None = typer.Option(
        None, help="The ledger's account that pays; where every holder does, 'ACCOUNT <holder>'."
    ),
    public_label: str | None = typer.Option(
        None, help="fedmd: a label column of the public file; it pretrains the models."
    ),
    save_holder_models: bool = typer.Option(
        False,
        "--save-holder-models",
        help="fedmd: write each holder's own model as well. It was trained on records in the clear: NO guarantee "
        "covers it.",
    ),
    seed: int | None = typer.Option(None, help="Replayable noise: a simulation, without a guarantee."),
    out: Path = typer.Option(Path("tacit-run"), help="The run folder to write; must not exist."),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Check files, columns, account, delta and price; spend nothing and write nothing."
    ),
    **options: Any,  # noqa: ANN401
) -> None:
    """Label public samples with what private records know, and train a student on them.

    The private file never leaves this machine, and what is written was computed from it through the privacy
    mechanism alone; warnings on your screen may tell more, they are for your eyes. Scaling, encoding and the number
    of queries come from public figures.

    With --ledger a run that was interrupted can be started again with the same --out: it takes up the same
    request, gets the labels that were already paid for, and pays nothing twice. What it needs for that is kept in
    OUT.request until the run is written.

    Example: tacit distill --private records.csv --public samples.csv --label diagnosis --classes ill,well
    --epsilon 1 --unit patient --per-person 3 --out first-run

    Of many holders, none of whom shows a record to anybody: tacit distill --method privatekt --private records.csv
    --public samples.csv --label diagnosis --classes ill,well --holder clinic --epsilon 10 --ledger clinics.ledger
    """
    chosen = method_named(automatic(_typed(context, options)) if method == AUTO else method).name
    given = _given(context, chosen, options)
    require_place(out)
    if per_person > 1 and unit is None:
        raise InvalidInput("--per-person needs --unit: say which column tells persons apart")
    if seed is not None and ledger is not None:
        raise InvalidInput(
            "--seed makes a simulation, which must not spend a real budget: leave out --seed or --ledger"
        )
    spends = not METHODS[chosen].holders_pay or (chosen == "fedmd" and given.get("variant") not in ("np", "nfdp"))
    if epsilon is None and spends:
        # What is spent is the user's own decision, and the command line makes none for it.
        raise InvalidInput(f"--method {chosen} needs --epsilon: what this run may spend; 1 is a good start")
    _require_holders(chosen, holder, holders, alpha, by_class, unit)
    protected = None if unit is None else Unit.person(unit, per_person)
    # Before a file is read: whoever cannot pay need not wait.
    require_account(chosen, ledger, account, protected or Unit(), adjacency, epsilon, resuming=_left(out))
    if public_label is not None and chosen != "fedmd":
        raise InvalidInput(f"--public-label is an option of --method fedmd, not of {chosen}")
    mixed = bool(text or category or data_kind in ("mixed", "text"))
    # Large files take a while, and so does what reads them: say at once that it goes on.
    with suppress(OSError):
        # Where nobody can read it, the run goes on; what it prints later is told to be lost.
        console.print(
            f"[dim]reading {escape(listed([str(private)]))} and {escape(listed([str(public)]))}[/dim]", soft_wrap=True
        )
    inputs = read_inputs(private, public, label, holder or unit, classes, public_label, mixed)
    settings = read_options(chosen, given, {} if public_label is None else {"public_labels": inputs.public.labels})
    if chosen == "privatekt":
        settings = _bounded(settings)
    decides = {
        "--private": inputs_digest(inputs.private),
        "--public": inputs_digest(inputs.public),
        "--classes": repr(None if classes is None else inputs.classes.tolist()),
        "--ledger": repr(None if ledger is None else str(ledger.resolve())),
    }
    common = {
        "--method": chosen, "--label": label, "--unit": unit, "--per-person": per_person, "--epsilon": epsilon,
        "--delta": delta, "--holder": holder, "--holders": holders, "--alpha": alpha, "--by-class": by_class,
        "--trust": trust, "--adjacency": adjacency, "--account": account, "--public-label": public_label,
        "--data-kind": data_kind, "--text": text, "--category": category,
    }  # fmt: skip
    # All that decides the labels. The last student is not among it: labels that are paid for may teach another one.
    late = {"student"} if getattr(settings, "iterations", 1) == 1 else set()
    typed = {f"--{name.replace('_', '-')}": options[name] for name in flags(type(settings)) if name not in late}
    decides |= {name: repr(value) for name, value in {**common, **typed}.items()}
    _run(
        chosen, settings, inputs, out, decides,
        {
            "epsilon": epsilon, "delta": delta, "classes": None if classes is None else list(inputs.classes),
            "holders": _holders(inputs.private.persons, holder, holders, alpha, by_class),
            "persons": None if unit is None else inputs.private.persons,
            "unit": protected, "adjacency": adjacency,
            "trust": trust, "ledger": ledger, "account": account, "seed": seed, "data_kind": data_kind,
            "text": text or None, "categories": category,
        },
        save_holder_models, dry_run,
    )  # fmt: skip


def _left(out: Path) -> bool:
    """Whether a run that was interrupted left its request here: what it paid for is not paid for again."""
    return out.with_name(out.name + ".request").exists()


def _run(
    method: str,
    settings: Any,  # noqa: ANN401
    inputs: RunInputs,
    out: Path,
    decides: Mapping[str, str],
    common: Mapping[str, Any],
    save_holder_models: bool,
    dry_run: bool,
) -> None:
    from tacit.methods.task import Observer
    from tacit.runs.distill import distill as run_distillation
    from tacit.runs.progress import watched_run

    ledger, account = common["ledger"], common["account"]
    paying = None if METHODS[method].holders_pay else account
    if dry_run:
        return rehearse(settings, inputs, RunRequest(out, ledger, paying, decides), common, paying)
    steps = getattr(settings, "rounds", None)
    with (
        tolerate_broken_pipe(),
        requested(out, ledger, paying, decides) as request,
        watched_run(out, method, steps) as watched,
    ):

        def announce(plan: Any) -> None:  # noqa: ANN401
            show_plan(plan)
            request.begin()

        private, public = inputs.samples
        with counting(steps or len(inputs.labels), "rounds" if steps else "at work") as tell:

            def stage(doing: str) -> None:
                console.print(f"[dim]{doing}[/dim]")
                watched.stage(doing)

            def progress(done: int) -> None:
                tell(done)
                watched.round(done)
                # Where nobody watches a bar, a log shows that the run is alive.
                if steps is not None and done and done % max(1, steps // 10) == 0:
                    console.print(f"[dim]round {done} of {steps}[/dim]")

            run = run_distillation(
                (private, inputs.labels), public, method=settings, request=request.name,
                observer=Observer(announce, stage, progress, show_data),
                **common,
            )  # fmt: skip
        watched.stage("writing")
        # What was paid for is on disk before anything is said about it.
        write_run(run, _drawn(run, public), out, holder_models=save_holder_models)
        request.done()
        _tell(run, ledger, paying, save_holder_models)


def _drawn(run: Run, public: Any) -> Any:  # noqa: ANN401
    """The public samples as numbers, for a picture; texts are not encoded again for one."""
    if run.encoder is None:
        return np.asarray(public)
    return None if "tfidf" in run.encoder.blocks else run.encoder.encode(public)


def _tell(run: Run, ledger: Path | None, account: str | None, models: bool) -> None:
    """What holds, and what it cost."""
    if len(run.guarantees) > 1:
        dry = run.metrics.get("exhausted")
        said = f"    {len(run.guarantees)} answered" + (f"; {dry} ran dry and stopped answering" if dry else "")
        console.print(Text.assemble(("holders", "bold"), f"{said}; the box is about the one that paid most"))
    if models:
        console.print(
            Text.assemble(
                ("models", "bold"),
                "     the holders' own, trained on records in the clear: hand each to its holder and to nobody else",
            ),
            soft_wrap=True,
        )
    show_claim(run.guarantee)
    if ledger is not None and account is not None:
        from tacit.ledger import opened

        with opened(ledger) as book:
            balance = f"    {account} has {book.balance(account).in_words}"
            console.print(Text.assemble(("account", "bold"), balance))


def _given(context: typer.Context, method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The method's options that were typed; one that belongs to another method, or has a new name, is refused."""
    own, renamed = flags(METHODS[method].load_options()), renamed_flags()
    given = _typed(context, options)
    for name in given:
        if name in renamed:
            raise InvalidInput(f"{_flag(name)} is called {_flag(renamed[name])} now")
        if name not in own:
            others = [each.name for each in METHODS.values() if name in flags(each.load_options())]
            raise InvalidInput(f"{_flag(name)} is an option of --method {' and '.join(others)}, not of {method}")
    return given


def _typed(context: typer.Context, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were typed."""
    left = (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
    return {name: value for name, value in options.items() if context.get_parameter_source(name) not in left}


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _require_holders(
    method: str, holder: str | None, holders: int | None, alpha: float | None, by_class: bool, unit: str | None
) -> None:
    """Who holds what must be said where every holder pays, and said once."""
    if holder is not None and holders is not None:
        raise InvalidInput("--holder and --holders both say who holds what: leave one out")
    if method in ("privatekt", "fedmd") and holder is None and holders is None:
        raise InvalidInput("say who holds what: --holder with a column of the private file, or --holders with a number")
    if holders is None and (alpha is not None or by_class):
        raise InvalidInput("--alpha and --by-class divide records among --holders; give their number")
    if alpha is not None and by_class:
        raise InvalidInput("--alpha and --by-class are two ways to divide records; choose one")
    if holder is not None and unit is not None:
        raise InvalidInput("--holder and --unit both name a column that says whose a record is; leave one out")


def _holders(owners: Any, holder: str | None, holders: int | None, alpha: float | None, by_class: bool) -> Any:  # noqa: ANN401
    from tacit.runs.task import Partition

    if holder is not None:
        return owners
    if alpha is not None:
        return Partition(int(holders or 1), "dirichlet", alpha)
    return Partition(int(holders or 1), "class") if by_class else int(holders or 1)


def _bounded(settings: Any) -> Any:  # noqa: ANN401
    """PrivateKT that looks at some public samples per round, where there are very many."""
    teaching = settings.teaching
    return replace(settings, teaching=replace(teaching, pool=POOL)) if teaching.pool is None else settings
