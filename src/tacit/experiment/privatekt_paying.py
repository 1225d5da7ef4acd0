"""What pays for a PrivateKT run: an account for every holder, in the user's ledger or in one of the run's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Ledger
from tacit.core.randomness import Randomness, SeededRandomness, SystemRandomness
from tacit.ledger.memory import Ceiling, MemoryLedger
from tacit.ledger.sqlite import SqliteLedger
from tacit.methods.privatekt.knowledge import public_draw

__all__ = ["ledger_for", "paying_holders", "randomness_of"]


def randomness_of(seed: int | None, turn: int) -> Randomness:
    """System randomness; in a simulation, draws that a run which goes on does not make a second time."""
    if seed is None:
        return SystemRandomness()
    return SeededRandomness(seed) if turn == 0 else public_draw(seed, turn, "simulated noise")


def ledger_for(
    ledger: Ledger | str | Path | None, keep: str | Path | None, simulated: bool
) -> Ledger | str | Path | None:
    """The ledger of a run: a simulation never pays from a real one, and a run that goes on forgets no payment."""
    if not simulated:
        if keep is not None and ledger is None:
            raise InvalidInput("a run that may go on later needs a ledger file, or its payments would be forgotten")
        return ledger
    if ledger is not None and not isinstance(ledger, MemoryLedger):
        raise InvalidInput(
            "a seed makes a simulation, which must not spend a real budget: leave out the seed, or the ledger"
        )
    return ledger if keep is None else Path(keep) / "simulation.ledger"


@contextmanager
def paying_holders(ledger: Ledger | str | Path | None, accounts: Sequence[str], ceiling: Ceiling) -> Iterator[Ledger]:
    """The ledger that the holders pay from: the user's own, or one with just this run's budget."""
    policy = dict.fromkeys(accounts, ceiling)
    if ledger is None:
        yield MemoryLedger(policy)
        return
    if isinstance(ledger, str | Path):
        opened = SqliteLedger(ledger) if Path(ledger).exists() else SqliteLedger.create(ledger, policy)
    with opened if isinstance(ledger, str | Path) else nullcontext(ledger) as book:
        yield book
