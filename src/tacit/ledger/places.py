"""Connections to the database at a ledger's place, and whether there is one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.core import InvalidInput
from tacit.core.files import is_there
from tacit.core.places import Place, ledger_place

if TYPE_CHECKING:
    from tacit.ledger.store import Store

__all__ = ["connected", "occupied", "opened_store"]

_POSTGRES = ("postgresql", "postgres")


@contextmanager
def connected(place: Place, outcome: str = "Nothing was read.") -> Iterator[Store]:
    """A connection to the database at a place, whatever it contains; ``outcome`` ends the message of an error."""
    where = ledger_place(place)
    # Back ends are imported when one is opened: importing this module stays fast.
    if isinstance(where, Path):
        from tacit.ledger import sqlite_store

        with sqlite_store.explained(where, outcome), closing(sqlite_store.connect_sqlite(where)) as file:
            yield file
    elif where.scheme in _POSTGRES:
        from tacit.ledger import postgres_store

        with closing(postgres_store.connect_postgres(where)) as server, server.explained(outcome):
            yield server
    else:
        raise InvalidInput(f"{where}: this works on ledgers in files and on PostgreSQL servers")


@contextmanager
def opened_store(place: Place, outcome: str = "Nothing was read.") -> Iterator[Store]:
    """A connection to a ledger that exists and has this format, closed at the end."""
    with connected(place, outcome) as store:
        store.require_format()
        yield store


def occupied(place: Place) -> bool:
    """Whether something exists at a place, so that no ledger can be created there.

    >>> occupied("no-such.ledger")
    False
    """
    where = ledger_place(place)
    if isinstance(where, Path) and not is_there(where):
        return False
    with connected(where) as store:
        return not store.vacant()
