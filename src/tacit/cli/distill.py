"""``tacit distill``, ``run`` and ``resume``: run a recipe from options, from a file, or from an unfinished run."""

from __future__ import annotations

import inspect
import typing
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

from tacit.cli.inputs import RunInputs, inputs_digest, read_inputs, read_source, rehearse, require_account
from tacit.cli.method_options import flags, read_options, renamed_flags, with_options
from tacit.cli.recipe import Recipe, absolute, from_fields, read_recipe, recipe_text
from tacit.cli.request import RunRequest, requested, require_place, unfinished
from tacit.cli.screen import (
    console,
    counting,
    show_claim,
    show_data,
    show_line,
    show_plan,
    tolerate_broken_pipe,
    write_run,
)
from tacit.core import InvalidInput, listed
from tacit.core.guarantee import read_terms
from tacit.core.places import LedgerUrl
from tacit.methods.registry import AUTO, METHODS, automatic, method_named
from tacit.runs.recipe_file import auto_lines, used_options

if TYPE_CHECKING:
    from tacit.runs.run import Run

__all__ = ["distill_command", "resume_command", "run_command"]

# Public samples that PrivateKT's model scores per round: enough to find some that it is unsure of.
POOL = 2000
_PANELS = {"data": "Data", "privacy": "Privacy", "holders": "Holders", "payment": "Payment"}
_LEAST = {"per_person": 1, "holders": 1, "workers": 1}
_HEAD = "The recipe of this run, with every default. Run it again: tacit run recipe.toml --out ANOTHER"
_DRY_RUN = typer.Option(
    False, "--dry-run", help="Check files, columns, account, delta and cost; spend nothing and write nothing."
)


def _settings() -> list[inspect.Parameter]:
    """The recipe's settings as options of a command."""
    hints, found = typing.get_type_hints(Recipe), []
    for name, each in Recipe.settings().items():
        default = ... if name in ("private", "public") else [] if each.default == () else each.default
        panel = _PANELS.get(each.metadata["section"])
        names = [f"--{name.replace('_', '-')}"] if default is False else []
        # Path would merge the slashes of a URL.
        kind = str | None if name == "ledger" else hints[name]
        info = typer.Option(default, *names, help=each.metadata["help"], min=_LEAST.get(name), rich_help_panel=panel)
        found.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=info, annotation=kind))
    kept = inspect.Parameter("dry_run", inspect.Parameter.KEYWORD_ONLY, default=_DRY_RUN, annotation=bool)
    return [*found, kept]


@with_options(  # type: ignore[untyped-decorator]
    _settings(),
    {name: each.metadata["used_by"] for name, each in Recipe.settings().items()},
)
def distill_command(context: typer.Context, dry_run: bool, **given: Any) -> None:  # noqa: ANN401
    """Label public samples from private records, and train a student on them.

    What is written was computed from private records through the privacy mechanism alone; warnings on your screen may
    reveal more, and are for you only. With --ledger an interrupted run can be resumed: 'tacit resume OUT', or the same
    command again, pays nothing twice. This help lists the options of --method auto; for another method: tacit distill
    --method rknn --help.

    Example: tacit distill --private records.csv --public samples.csv --label diagnosis --classes ill,well
    --epsilon 1 --out first-run

    Example: tacit distill --method privatekt --private records.csv --public samples.csv --label diagnosis
    --classes ill,well --holder clinic --epsilon 10 --ledger clinics.ledger
    """
    own: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in given.items()}
    options = {name: own.pop(name) for name in given if name not in Recipe.settings()}
    typed = _typed(context, options)
    chosen = method_named(automatic(typed) if own["method"] == AUTO else own["method"]).name
    execute(Recipe(**{**own, "method": chosen}, options=_given(chosen, typed)), dry_run)


def run_command(
    recipe: Path = typer.Argument(..., help="A recipe, as 'tacit init' writes it.", show_default=False),
    out: Path | None = typer.Option(None, help="A run folder other than the recipe's."),
    dry_run: bool = _DRY_RUN,
) -> None:
    """Run a recipe: a file with the options of 'tacit distill'.

    The recipe, with every default, is written into the run folder.

    Example: tacit run recipe.toml --dry-run

    Example: tacit run recipe.toml --out second-run
    """
    found = read_recipe(recipe)
    execute(found if out is None else replace(found, out=out), dry_run)


def resume_command(
    run: Path = typer.Argument(..., help="The run folder that was to be written.", show_default=False),
) -> None:
    """Resume a run that was killed or interrupted, and pay nothing twice.

    What was paid for is stored in the ledger, and the request beside the run folder, in RUN.request. Records and
    samples must not have changed.

    Example: tacit resume first-run
    """
    execute(replace(from_fields(unfinished(run), f"{run}.request"), out=run), dry_run=False)


def execute(recipe: Recipe, dry_run: bool) -> None:
    """Check, read, plan, pay, run and write; or with ``dry_run`` everything up to the payment."""
    chosen, out, ledger, account = recipe.chosen, recipe.out, recipe.ledger, recipe.account
    require_place(out)
    if recipe.per_person > 1 and recipe.unit is None:
        raise InvalidInput("--per-person needs --unit: name the column that identifies persons")
    if recipe.seed is not None and ledger is not None:
        raise InvalidInput(
            "--seed makes a simulation, which must not spend a real budget: leave out --seed or --ledger"
        )
    spends = not method_named(chosen).holders_pay or (
        chosen == "fedmd" and recipe.options.get("variant") not in ("np", "nfdp")
    )
    if recipe.epsilon is None and spends:
        # How much is spent is the user's decision, so the command line has no default for it.
        raise InvalidInput(f"--method {chosen} needs --epsilon, the budget of this run; 1 is a good start")
    _require_holders(recipe)
    # Before a file is read: a run that cannot pay is refused at once.
    read_terms(recipe.epsilon, recipe.slack, recipe.adjacency, recipe.trust)
    settings = read_options(chosen, recipe.options, {})
    require_account(recipe, settings, resuming=_left(out))
    if recipe.public_label is not None and chosen != "fedmd":
        raise InvalidInput(f"--public-label is an option of --method fedmd, not of {chosen}")
    mixed = bool(recipe.text or recipe.category or recipe.data_kind in ("mixed", "text"))
    # Large files take a while to read: show at once that the command is running.
    with suppress(OSError):
        # A broken pipe does not stop the run; that later output was lost is reported at the end.
        files = [escape(listed([str(each)])) for each in (recipe.private, recipe.public)]
        console.print(f"[dim]reading {files[0]} and {files[1]}[/dim]", soft_wrap=True)
    engine = _engine(recipe)
    if engine is None:
        inputs = read_inputs(
            recipe.private, recipe.public, recipe.label, recipe.holder or recipe.unit, recipe.classes,
            recipe.public_label, mixed,
        )  # fmt: skip
    else:
        inputs = read_source(recipe.private, recipe.public, recipe.label, recipe.unit, recipe.classes)
    if recipe.public_label is not None:
        settings = read_options(chosen, recipe.options, {"public_labels": inputs.public.labels})
    if chosen == "privatekt":
        settings = _bounded(settings)
    common = {
        "epsilon": recipe.epsilon, "delta": recipe.delta,
        "classes": None if recipe.classes is None else list(inputs.classes),
        "holders": _holders(inputs.persons, recipe),
        "persons": None if recipe.unit is None else inputs.persons,
        "engine": engine,
        "unit": None if recipe.unit is None else recipe.protected, "adjacency": recipe.adjacency,
        "trust": recipe.trust, "ledger": ledger, "account": account,
        "seed": recipe.seed, "data_kind": recipe.data_kind, "text": list(recipe.text) or None,
        "categories": list(recipe.category),
    }  # fmt: skip
    _run(recipe, settings, inputs, _decides(recipe, settings, inputs), common, dry_run)


def _decides(recipe: Recipe, settings: Any, inputs: RunInputs) -> dict[str, str]:  # noqa: ANN401
    """All inputs that determine the labels. The last student is not one of them: paid labels may train another one."""
    late = {"student"} if getattr(settings, "iterations", 1) == 1 else set()
    # Every engine counts the same table.
    engine = ("engine", "address", "workers")
    apart = ("private", "public", "classes", "ledger", "seed", "out", "save_holder_models", *engine)
    said = {name: getattr(recipe, name) for name in Recipe.settings() if name not in apart}
    said |= {"method": recipe.chosen, "text": list(recipe.text), "category": list(recipe.category)}
    options = {
        name: recipe.options.get(name, flag.about.default)
        for name, flag in flags(method_named(recipe.chosen).load_options()).items()
        if name not in late
    }
    return {
        "--private": inputs_digest(inputs.private),
        "--public": inputs_digest(inputs.public),
        "--classes": repr(None if recipe.classes is None else inputs.classes.tolist()),
        "--ledger": repr(
            str(recipe.ledger.resolve()) if isinstance(recipe.ledger, Path) else recipe.ledger and str(recipe.ledger)
        ),
        **{_flag(name): repr(value) for name, value in {**said, **options}.items()},
    }


def _left(out: Path) -> bool:
    """Whether an interrupted run left its request here: what it paid for is not paid for again."""
    return out.with_name(out.name + ".request").exists()


def _run(
    recipe: Recipe,
    settings: Any,  # noqa: ANN401
    inputs: RunInputs,
    decides: Mapping[str, str],
    common: Mapping[str, Any],
    dry_run: bool,
) -> None:
    from tacit.methods.task import Observer
    from tacit.runs.distill import distill as run_distillation
    from tacit.runs.progress import watched_run

    out, ledger = recipe.out, recipe.ledger
    paying = None if method_named(recipe.chosen).holders_pay else recipe.account
    if dry_run:
        return rehearse(settings, inputs, RunRequest(out, ledger, paying, decides), common, paying)
    written = absolute(recipe, Path.cwd())
    steps = getattr(settings, "rounds", None)
    with (
        tolerate_broken_pipe(),
        requested(out, ledger, paying, decides, written.fields()) as request,
        watched_run(out, recipe.chosen, steps) as watched,
    ):

        def announce(plan: Any) -> None:  # noqa: ANN401
            show_plan(plan)
            request.begin()

        _, public = inputs.samples
        size = None if inputs.labels is None else len(np.asarray(inputs.labels))
        with counting(steps or size, "rounds" if steps else "at work") as tell:

            def stage(doing: str) -> None:
                console.print(f"[dim]{doing}[/dim]")
                watched.stage(doing)

            def progress(done: int) -> None:
                tell(done)
                watched.round(done)
                # Without a terminal, log lines show the progress.
                if steps is not None and done and done % max(1, steps // 10) == 0:
                    console.print(f"[dim]round {done} of {steps}[/dim]")

            finished = run_distillation(
                inputs.given, public, method=settings, request=request.name,
                observer=Observer(announce, stage, progress, show_data),
                **common,
            )  # fmt: skip
        watched.stage("writing")
        # What was paid for is on disk before anything is printed.
        models = recipe.save_holder_models
        text = recipe_text(_with_defaults(written, finished), written.out, _HEAD, asked=auto_lines(finished.recipe))
        write_run(finished, _drawn(finished, public), out, holder_models=models, recipe=text)
        request.done()
        _tell(finished, ledger, paying, models)


def _with_defaults(recipe: Recipe, finished: Run) -> Recipe:
    """The recipe with the method that was chosen, and every option with the value that was used."""
    said = finished.recipe
    chosen = str(said["method"])
    used = {each.flag or each.name: value for each, value in used_options(said) if value is not None}
    own = flags(method_named(chosen).load_options())
    kept = {name: used[name] for name in own if name in used and isinstance(used[name], bool | int | float | str)}
    return replace(
        recipe,
        method=chosen,
        options={**{name: value for name, value in recipe.options.items() if name in own}, **kept},
        delta=float(recipe.slack),
        trust=recipe.trust or str(said["trust"]),
        data_kind=recipe.data_kind or said["data_kind"],
    )


def _drawn(run: Run, public: Any) -> Any:  # noqa: ANN401
    """The public samples as numbers, for a plot; texts are not encoded again for one."""
    if run.encoder is None:
        return np.asarray(public)
    return None if "tfidf" in run.encoder.blocks else run.encoder.encode(public)


def _tell(run: Run, ledger: Path | LedgerUrl | None, account: str | None, models: bool) -> None:
    """Print the guarantee and the cost."""
    if len(run.guarantees) > 1:
        dry = run.metrics.get("exhausted")
        said = f"    {len(run.guarantees)} answered" + (
            f"; {dry} spent their budget and stopped answering" if dry else ""
        )
        console.print(
            Text.assemble(("holders", "bold"), f"{said}; the statement above is that of the holder that paid most")
        )
    if models:
        console.print(
            Text.assemble(
                ("models", "bold"),
                "     the holders' own, trained on records without noise: give each to its holder only",
            ),
            soft_wrap=True,
        )
    for name, value in run.metrics.items():
        if "epsilon" in name:
            show_line(name.replace("epsilon", "ε"), f"{value:.3g}")
    show_claim(run.guarantee)
    if ledger is not None and account is not None:
        from tacit.ledger import opened

        with opened(ledger) as book:
            show_line("account", f"{account} has {book.balance(account).in_words}")


def _given(method: str, given: dict[str, Any]) -> dict[str, Any]:
    """The method's options that were typed; one that belongs to another method, or has a new name, is refused."""
    options = method_named(method).load_options()
    # This method's renamed options come first: another method may have an option of that name now.
    own, renamed = flags(options), {**renamed_flags(), **options.renamed}
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


def _require_holders(recipe: Recipe) -> None:
    """Require exactly one assignment of records to holders if every holder pays."""
    divided = recipe.alpha is not None or recipe.by_class
    if recipe.holder is not None and recipe.holders is not None:
        raise InvalidInput("--holder and --holders both assign records to holders: leave one out")
    if method_named(recipe.chosen).holders_pay and recipe.holder is None and recipe.holders is None:
        raise InvalidInput(
            "assign the records to holders: --holder with a column of the private file, or --holders with a number"
        )
    if recipe.holders is None and divided:
        raise InvalidInput("--alpha and --by-class divide records among --holders; give their number")
    if recipe.alpha is not None and recipe.by_class:
        raise InvalidInput("--alpha and --by-class are two ways to divide records; choose one")
    if recipe.holder is not None and recipe.unit is not None:
        raise InvalidInput("--holder and --unit both name a column that says whom a record belongs to; leave one out")


def _engine(recipe: Recipe) -> Any:  # noqa: ANN401
    """The engine that counts the records in place; None if they are read into memory."""
    from tacit.engines.engine import Engine
    from tacit.engines.source import is_pattern

    if recipe.engine is None and not is_pattern(recipe.private):
        for name in ("address", "workers"):
            if getattr(recipe, name) is not None:
                raise InvalidInput(f"--{name} is about an engine: name it with --engine")
        return None
    if recipe.holder is not None:
        raise InvalidInput("--engine counts one holder's records: leave out --holder")
    return Engine(recipe.engine or "threads", recipe.workers, recipe.address)


def _holders(owners: Any, recipe: Recipe) -> Any:  # noqa: ANN401
    from tacit.runs.task import Partition

    if recipe.holder is not None:
        return owners
    number = recipe.holders or 1
    if recipe.alpha is not None:
        return Partition(number, "dirichlet", recipe.alpha)
    return Partition(number, "class") if recipe.by_class else number


def _bounded(settings: Any) -> Any:  # noqa: ANN401
    """PrivateKT that scores a part of the public samples per round, where there are very many."""
    teaching = settings.teaching
    return replace(settings, teaching=replace(teaching, pool=POOL)) if teaching.pool is None else settings
