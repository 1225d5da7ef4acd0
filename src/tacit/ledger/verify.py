"""Whether a ledger is still what was written: every entry, in order, none changed, missing or added.

What each check can catch: the chain finds any entry that was edited, removed, reordered or inserted. The head
record finds entries cut off the end. Somebody who can write the file can also compute a whole new chain and head,
or put back an old copy of the file; only a digest kept elsewhere finds that, and every receipt carries one.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tacit.core.errors import InvalidInput, LedgerError
from tacit.core.spend import spend_from_json
from tacit.ledger import database
from tacit.ledger.account import Ceiling
from tacit.ledger.entries import FORMAT, ORIGIN, Entry, Kind, canonical, digest_of, payload_digest

__all__ = ["Problem", "entries", "verify"]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, at an entry when it can be placed.

    >>> print(Problem(3, "it is missing"))
    entry 3: it is missing
    """

    sequence: int | None
    message: str

    def __str__(self) -> str:
        return self.message if self.sequence is None else f"entry {self.sequence}: {self.message}"


def verify(path: str | Path, head: str | None = None) -> list[Problem]:
    """Everything that is wrong with a ledger, the first bad entry first; empty when it is whole.

    ``head`` is a digest that was kept elsewhere, from a receipt or an export: it must be in the chain.

    >>> import tempfile
    >>> from tacit.ledger.sqlite import SqliteLedger
    >>> path = Path(tempfile.mkdtemp()) / "site.ledger"
    >>> SqliteLedger.create(path, {"clinic": Ceiling(1)}).close()
    >>> verify(path)
    []
    >>> print(*verify(path, head="0" * 64))
    the digest 000000... is not in this ledger: it was cut, rewritten or put back from an old copy
    """
    if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
        raise InvalidInput(f"head must be 64 hexadecimal digits in lower case, got {head!r}")
    with database.opened(Path(path)) as connection:
        # All reads see one moment. Closing ends it: a COMMIT would fail on a damaged file and hide the findings.
        connection.execute("BEGIN DEFERRED")
        # Bytes that are no longer text must end in a wrong digest, not in a failure to read.
        connection.text_factory = lambda raw: raw.decode(errors="replace")
        return [*_rows(connection, head), *_frame(connection)]


def entries(path: str | Path) -> Iterator[Entry]:
    """Every entry in order, as it is stored, without checking it."""
    with database.opened(Path(path)) as connection, database.transaction(connection, "DEFERRED"):
        yield from database.read(connection)


def _rows(connection: sqlite3.Connection, head: str | None) -> Iterator[Problem]:
    """Walk the chain from its origin to its head."""
    sequence, last = 0, ORIGIN
    meaning = _Meaning()
    known = head is None
    try:
        for entry in database.read(connection):
            if entry.sequence <= sequence:
                yield Problem(entry.sequence, "it was inserted before the first entry")
            elif entry.sequence > sequence + 1:
                yield Problem(sequence + 1, "it is missing")
            if entry.previous != last:
                yield Problem(entry.sequence, "it does not follow the entry before it")
            if entry.digest != digest_of(entry.previous, entry.sequence, entry.kind, entry.body):
                yield Problem(entry.sequence, "its content is not what its digest says: it was edited")
            elif wrong := meaning.wrong(entry):
                yield Problem(entry.sequence, wrong)
            sequence, last = entry.sequence, entry.digest
            known = known or last == head
        yield from _head(connection, sequence, last)
    except sqlite3.DatabaseError as error:
        yield Problem(sequence + 1, f"it cannot be read: {error}")
    if head is not None and not known:
        yield Problem(
            None,
            f"the digest {head[:6]}... is not in this ledger: it was cut, rewritten or put back from an old copy",
        )


def _head(connection: sqlite3.Connection, sequence: int, last: str) -> Iterator[Problem]:
    """Compare the head record with where the chain ended."""
    try:
        count, digest = database.head(connection)
    except LedgerError as error:
        yield Problem(None, str(error))
        return
    if count > sequence:
        yield Problem(sequence + 1, f"it is missing: the head record counts {count} entries, the end was cut off")
    elif count < sequence:
        yield Problem(count + 1, f"it was added past the head record, which counts {count} entries")
    elif digest != last:
        yield Problem(sequence, "it is not the one that the head record names")


def _frame(connection: sqlite3.Connection) -> Iterator[Problem]:
    """Check what holds the rows: SQLite's own structures, and the triggers and indexes that guard appending."""
    try:
        for (finding,) in connection.execute("PRAGMA integrity_check"):
            if finding != "ok":
                yield Problem(None, f"the file is damaged: {finding}")
        statements = {row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    except sqlite3.DatabaseError as error:
        yield Problem(None, f"the file is damaged: {error}")
        return
    for statement in sorted(statements.symmetric_difference(database.SCHEMA)):
        change = "added" if statement in statements else "removed"
        yield Problem(None, f"a definition was {change} by hand: {' '.join(statement.split())}")


class _Meaning:
    """Whether entries that are chained correctly also make sense after one another."""

    def __init__(self) -> None:
        self._accounts: set[str] = set()
        self._payments: set[int] = set()
        self._requests: set[tuple[str, str]] = set()
        self._released: set[int] = set()

    def wrong(self, entry: Entry) -> str | None:
        """What is wrong with the next entry, if anything."""
        try:
            content = json.loads(entry.body)
            if entry.body != canonical(content):
                return "its body is not in canonical form"
            if (entry.sequence == 1) != (entry.kind == Kind.GENESIS):
                return "the genesis entry, and it alone, comes first"
            if (entry.payload is None) != (entry.kind != Kind.RELEASE):
                return "a release, and it alone, has a payload"
            match entry.kind:
                case Kind.GENESIS:
                    return None if content["format"] == FORMAT else f"it names format {content['format']}"
                case Kind.ACCOUNT:
                    Ceiling.from_json(content)
                    self._accounts.add(content["account"])
                    return None
                case Kind.PAYMENT:
                    return self._payment(entry.sequence, content["account"], content["request"], content["spend"])
                case Kind.RELEASE:
                    if content["sha256"] != payload_digest(content["salt"], entry.payload or b""):
                        return "its payload is not what its digest says: it was edited"
                    return self._release(content["payment"])
                case _:
                    return f"its kind {entry.kind!r} is unknown"
        except (KeyError, TypeError, ValueError) as error:
            return f"it does not hold what its kind needs ({error})"

    def _payment(self, sequence: int, account: str, request: str, spend: dict[str, str]) -> str | None:
        spend_from_json(spend)
        if account not in self._accounts:
            return f"it charges account {account!r}, which was not opened before it"
        if (account, request) in self._requests:
            return f"request {request!r} of account {account!r} was paid before"
        self._requests.add((account, request))
        self._payments.add(sequence)
        return None

    def _release(self, paid: int) -> str | None:
        if paid not in self._payments:
            return f"it releases for entry {paid}, which is no payment before it"
        if paid in self._released:
            return f"payment {paid} has a release already"
        self._released.add(paid)
        return None
