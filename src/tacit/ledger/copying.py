"""Moving a ledger to another place, from a file to a server or back, entry by entry with unchanged digests."""

from __future__ import annotations

from pathlib import Path

from tacit.core import DamagedLedger, InvalidInput, LedgerError, StaleLedger
from tacit.core.places import Place, ledger_place
from tacit.ledger import store as rows
from tacit.ledger.entries import EntryKind
from tacit.ledger.heads import HeadMemory, Heads
from tacit.ledger.places import occupied, opened_store
from tacit.ledger.store import Store
from tacit.ledger.verify import problems

__all__ = ["copy_ledger"]


def copy_ledger(source: Place, target: Place, heads: str | Path | None = None) -> tuple[int, str]:
    """Move a ledger to an empty place; returns the number of entries and the last digest.

    Source and copy are verified entirely before the copy is committed; a failure leaves nothing. The copy has one
    entry more, which says where it came from: it is the newer one, and the source is then refused as an older copy.

    >>> import tempfile
    >>> from tacit.core.account import Ceiling
    >>> from tacit.ledger import open_ledger
    >>> folder = Path(tempfile.mkdtemp())
    >>> open_ledger(folder / "main.ledger", {"clinic": Ceiling(1)}).close()
    >>> copy_ledger(folder / "main.ledger", folder / "moved.ledger")[0]
    3
    """
    where, memory = ledger_place(target), Heads(None if heads is None else Path(heads))
    there = (
        f"something is at {where} already: a ledger is copied to a new file or an empty database. Nothing was copied."
    )
    if occupied(where):
        raise InvalidInput(there)
    # Nobody pays from the source while it is copied.
    with opened_store(source, "Nothing was copied.") as origin, rows.transaction(origin):
        if wrong := next(iter(problems(origin)), None):
            raise DamagedLedger(f"the ledger {origin.name} is damaged: {wrong}. Nothing was copied. {rows.RESTORE}")
        if (found := HeadMemory(origin, memory).finding()) is not None:
            raise StaleLedger(
                f"the ledger {origin.name} is not the one that was last used here: {found[0]}. Nothing was copied. If "
                f"it is the one to go on with, decide it with `tacit ledger accept {origin.name}` first."
            )

        def fill(copy: Store) -> None:
            copy.make_tables()
            for entry in rows.read(origin):
                copy.insert(entry, entry.content.get("account"))
            before, after = rows.last(origin), rows.last(copy)
            wrong = next(iter(problems(copy)), None)
            if wrong is not None or before != after:
                raise LedgerError(
                    f"the copy is not what was copied: {wrong or 'it ends elsewhere'}. Nothing was copied."
                )
            came = {"finding": f"it was copied from {origin.place}", "reason": "tacit ledger copy"}
            rows.append(copy, EntryKind.ACCEPTANCE, {**came, "remembered": [*after]})

        if isinstance(where, Path):
            from tacit.ledger.sqlite import make_file

            memory.require_unused(str(where))
            make_file(where, fill)
        else:
            from tacit.ledger.postgres import make_database

            if not make_database(where, fill, memory):
                raise InvalidInput(there)
        # While the source is still locked: from here on the copy is the ledger that was last used.
        with opened_store(where) as made:
            HeadMemory(made, memory).remember()
            return rows.last(made)
