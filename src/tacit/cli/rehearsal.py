"""What is looked at before a run spends anything: the account at once, and with ``--dry-run`` all the rest."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tacit.cli.screen import console, show_data, show_plan
from tacit.core.errors import InvalidInput, listed, nearest
from tacit.core.guarantee import Unit
from tacit.methods.registry import METHODS

if TYPE_CHECKING:
    from tacit.cli.inputs import Inputs
    from tacit.cli.request import RunRequest

__all__ = ["rehearse", "require_account"]


class _Enough(Exception):
    """The plan is made and the account can pay it: here the real run would begin to pay."""


def require_account(
    method: str,
    ledger: Path | None,
    account: str | None,
    unit: Unit,
    adjacency: str,
    epsilon: float | None,
    resuming: bool,
) -> None:
    """Refuse an account that is not there, counts for another unit or cannot pay, where one account pays for all."""
    if METHODS[method].holders_pay:
        return
    if ledger is None and account is not None:
        raise InvalidInput("an account needs a ledger: give the ledger's file too, with --ledger")
    if ledger is not None and account is None:
        raise InvalidInput("say which account of the ledger pays: give --account")
    if ledger is None or account is None:
        return
    if not ledger.is_file():
        hint = "open it with 'tacit ledger open'"
        raise InvalidInput(f"{listed([str(ledger)])}: no such ledger; {hint}")
    from tacit.ledger import opened
    from tacit.runs.payment import look_ahead

    with opened(ledger) as book:
        known = list(book.accounts())
    if account not in known:
        meant = f"; is {listed([close])} meant?" if (close := nearest(account, known)) else ""
        raise InvalidInput(f"{ledger}: no account {listed([account])!r}; it has {listed(known)}{meant}")
    look_ahead(ledger, account, unit, adjacency, None if resuming else epsilon)


def rehearse(
    settings: Any,  # noqa: ANN401
    inputs: Inputs,
    request: RunRequest,
    common: Mapping[str, Any],
    account: str | None,
) -> None:
    """Everything up to the first payment: nothing is spent, drawn or written."""
    from tacit.methods.task import Observer
    from tacit.runs.distill import distill

    ledger = common["ledger"]
    # Accounts of one holder each would be opened by the run; a rehearsal opens none.
    there = ledger is not None and ledger.is_file()

    def stop(plan: Any) -> None:  # noqa: ANN401
        show_plan(plan)
        raise _Enough

    private, public = inputs.samples
    with closing(request), suppress(_Enough):
        distill(
            (private, inputs.labels), public, method=settings, request=request.name,
            observer=Observer(stop, lambda doing: console.print(f"[dim]{doing}[/dim]"), data=show_data),
            **{**common, "ledger": ledger if there else None, "account": common["account"] if there else None},
        )  # fmt: skip
    # How many records there are may be private, and this stream may be handed on.
    columns = getattr(inputs.public, "columns", None)
    matching = "" if columns is None else f", {len(columns)} feature columns match"
    _say("files", f"both can be read: {len(public)} public samples{matching}")
    epsilon, delta = common["epsilon"], common["delta"]
    asked = "what the method's options say" if epsilon is None else f"epsilon = {epsilon:g}"
    _say("price", asked + ("" if not delta else f", delta = {delta:g}"))
    if there and account is not None:
        from tacit.ledger import opened

        with opened(ledger) as book:
            _say("account", f"{account} can pay: it has {book.balance(account).in_words}")
    elif ledger is not None:
        _say("account", f"accounts of the holders are opened in {ledger} by the run; their budgets were not looked at")
    else:
        _say("account", "none: the run has a budget of its own, which no later run knows of")
    console.print("[bold green]dry run[/bold green]    nothing was spent, and nothing was written")


def _say(title: str, text: str) -> None:
    console.print(Text.assemble((title, "bold"), f"{'':{max(1, 11 - len(title))}}{text}"), soft_wrap=True)
