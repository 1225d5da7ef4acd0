"""Who pays for a run: an account of the user's ledger, or one of the run alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tacit.accounting.compose import Rule
from tacit.core.errors import InvalidInput
from tacit.core.protocols import Ledger
from tacit.core.rational import Number
from tacit.experiment.planning import Plan
from tacit.ledger.memory import Ceiling, MemoryLedger
from tacit.ledger.sqlite import SqliteLedger
from tacit.methods.rknn.coordinator import round_requests

__all__ = ["paying"]

MEMORY_ACCOUNT = "this run"


@contextmanager
def paying(
    ledger: Ledger | str | Path | None,
    account: str | None,
    epsilon: Number,
    delta: Number,
    chosen: Plan,
    request: str,
    simulated: bool,
) -> Iterator[tuple[Ledger, str]]:
    """The ledger and the account that pay: the user's own, or one of this run alone with just its budget.

    An account that cannot pay is found out here, before a record is counted; the gate asks it again.
    """
    if ledger is None:
        if account is not None:
            raise InvalidInput("an account needs a ledger: give the ledger's file too")
        ceiling = Ceiling(epsilon, delta, Rule.PLANNED, chosen.unit, chosen.adjacency)
        yield MemoryLedger({MEMORY_ACCOUNT: ceiling}), MEMORY_ACCOUNT
        return
    if account is None:
        raise InvalidInput("say which account of the ledger pays")
    if simulated and not isinstance(ledger, MemoryLedger):
        raise InvalidInput(
            "a seed makes a simulation, which must not spend a real budget: leave out the seed, or the ledger"
        )
    if not isinstance(ledger, str | Path) and not callable(getattr(ledger, "charge", None)):
        raise InvalidInput(f"ledger must be a ledger or the name of its file, got {ledger!r}")
    with SqliteLedger(ledger) if isinstance(ledger, str | Path) else nullcontext(ledger) as book:
        unit, adjacency = book.protects(account)
        if (unit, adjacency) != (chosen.unit, chosen.adjacency):
            raise InvalidInput(
                f"account {account!r} counts for {unit.in_words} under {adjacency}, this run protects "
                f"{chosen.unit.in_words} under {chosen.adjacency}; ask for what the account protects"
            )
        if isinstance(book, MemoryLedger | SqliteLedger):
            names = round_requests(request, len(chosen.rounds))
            spends = [each.choice.mechanism.spend for each in chosen.rounds]
            book.foresee(account, dict(zip(names, spends, strict=True)))
        yield book, account
