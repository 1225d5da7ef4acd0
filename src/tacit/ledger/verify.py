"""Verification and export of a ledger: every entry in order, none changed, missing or added.

What each check detects: the hash chain, any entry that was edited, removed, reordered or inserted; the head record,
entries removed from the end. Somebody who can write the file can also compute a new chain and head, or restore an old
copy; only a digest stored elsewhere detects that, and every receipt carries one. Every account's state is recomputed
from its first entry on, and compared with the one in each entry.

For auditors and backups, a ledger is exported as lines of JSON, each with an entry's sequence, kind, body, previous
digest and digest. Payloads are not exported, only their digests: a stored release may contain more than what left the
holder (secretly sampled records, a message before masking).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from tacit.core import Ceiling, DamagedLedger, InvalidInput, LedgerError, spend_from_json
from tacit.core.files import is_there, new_file
from tacit.core.places import Place
from tacit.ledger import store as rows
from tacit.ledger.account import Standing, equal_states
from tacit.ledger.entries import LEDGER_FORMAT, ORIGIN, Entry, EntryKind, canonical, entry_digest, payload_digest
from tacit.ledger.places import connected, opened_store
from tacit.ledger.store import Store

__all__ = ["Problem", "acceptances", "entries", "export_to", "lines", "problems", "verify"]


@dataclass(frozen=True)
class Problem:
    """One finding, with the sequence of its entry if it belongs to one.

    >>> print(Problem(3, "it is missing"))
    entry 3: it is missing
    """

    sequence: int | None
    message: str

    def __str__(self) -> str:
        return self.message if self.sequence is None else f"entry {self.sequence}: {self.message}"


def verify(place: Place, head: str | None = None) -> list[Problem]:
    """All damage of a ledger, the first bad entry first; empty if there is none.

    ``head`` is a digest stored elsewhere, from a receipt or an export: it must be in the chain.

    >>> import tempfile
    >>> from tacit.ledger.sqlite import SqliteLedger
    >>> path = Path(tempfile.mkdtemp()) / "main.ledger"
    >>> SqliteLedger.create(path, {"clinic": Ceiling(1)}).close()
    >>> verify(path)
    []
    >>> print(*verify(path, head="0" * 64))
    the digest 000000... is not in this ledger: it was cut, rewritten or restored from an old copy
    """
    if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
        raise InvalidInput(f"head must be 64 hexadecimal digits in lower case, got {head!r}")
    with opened_store(place) as store:
        # One consistent view. Closing ends it: a COMMIT would fail on a damaged file and hide the findings.
        store.begin(write=False)
        return list(problems(store, head))


def problems(store: Store, head: str | None = None, form: int = LEDGER_FORMAT) -> Iterator[Problem]:
    """All damage of an open database of this format or, before a conversion, of the first one."""
    meaning = _Meaning(form)
    yield from _rows(store, head, meaning)
    if form == LEDGER_FORMAT:
        yield from _accounts(store, meaning)
    yield from _frame(store, form)


def entries(place: Place) -> Iterator[Entry]:
    """Every entry in order, as it is stored, unchecked."""
    with opened_store(place) as store, rows.transaction(store, write=False):
        yield from rows.read(store)


def acceptances(place: Place) -> list[Entry]:
    """The entries that record a decision to continue with a ledger that was restored, copied or forked."""
    with opened_store(place) as store, rows.transaction(store, write=False):
        return list(rows.read(store, "WHERE kind = 'acceptance' ORDER BY sequence"))


def lines(place: Place) -> Iterator[str]:
    """One JSON object per entry, in order.

    >>> import tempfile
    >>> from tacit.ledger.sqlite import SqliteLedger
    >>> ledger = Path(tempfile.mkdtemp()) / "main.ledger"
    >>> SqliteLedger.create(ledger, {"clinic": Ceiling(1)}).close()
    >>> [json.loads(line)["kind"] for line in lines(ledger)]
    ['genesis', 'account']
    """
    return map(_line, entries(place))


def _line(entry: Entry) -> str:
    chained = {"previous": entry.previous, "digest": entry.digest}
    return json.dumps({"sequence": entry.sequence, "kind": entry.kind, "body": entry.content, **chained})


def export_to(place: Place, out: Path) -> tuple[int, str]:
    """Write the lines to a new file, completely or not at all; returns their number and the last digest."""
    count, digest = 0, ORIGIN
    # A ledger that is not there is told before the file that would have been written.
    with connected(place, "Nothing was exported."):
        pass
    try:
        if is_there(out):
            what = "it is a folder" if out.is_dir() else "it exists already"
            raise InvalidInput(f"cannot write {out}: {what}; choose a new name")
        with new_file(out, private=True) as file:
            for count, entry in enumerate(entries(place), start=1):  # noqa: B007
                file.write(f"{_line(entry)}\n".encode("ascii"))
                digest = entry.digest
    except OSError as error:
        raise InvalidInput(f"cannot write {out}: {error.strerror}") from error
    return count, digest


def _rows(store: Store, head: str | None, meaning: _Meaning) -> Iterator[Problem]:
    """Check the chain from its first entry to its head."""
    sequence, last = 0, ORIGIN
    known = head is None
    unreadable: tuple[type[Exception], ...] = (*store.failures, DamagedLedger, OverflowError, MemoryError)
    try:
        for entry in rows.read(store):
            if entry.sequence <= sequence:
                yield Problem(entry.sequence, "it was inserted before the first entry")
            elif entry.sequence > sequence + 1:
                yield Problem(sequence + 1, "it is missing")
            if entry.previous != last:
                yield Problem(entry.sequence, "it does not follow the entry before it")
            if entry.digest != entry_digest(entry.previous, entry.sequence, entry.kind, entry.body):
                yield Problem(entry.sequence, "its content does not match its digest: it was edited")
            elif wrong := meaning.wrong(entry):
                yield Problem(entry.sequence, wrong)
            sequence, last = entry.sequence, entry.digest
            known = known or last == head
        yield from _head(store, sequence, last)
    except unreadable as error:
        yield Problem(sequence + 1, f"it cannot be read: {error}")
    if head is not None and not known:
        yield Problem(
            None,
            f"the digest {head[:6]}... is not in this ledger: it was cut, rewritten or restored from an old copy",
        )


def _head(store: Store, sequence: int, last: str) -> Iterator[Problem]:
    """Compare the head record with the end of the chain."""
    try:
        count, digest = rows.head(store)
    except LedgerError as error:
        yield Problem(None, str(error))
        return
    if count > sequence:
        yield Problem(sequence + 1, f"it is missing: the head record counts {count} entries, the end was cut off")
    elif count < sequence:
        yield Problem(count + 1, f"it was added past the head record, which counts {count} entries")
    elif digest != last:
        yield Problem(sequence, "it is not the one that the head record names")


def _accounts(store: Store, meaning: _Meaning) -> Iterator[Problem]:
    """Compare the table of each account's last entry with the entries."""
    try:
        noted = {row[0]: (row[1], row[2]) for row in store.execute("SELECT account, sequence, digest FROM accounts")}
    except store.failures as error:
        yield Problem(None, f"the accounts cannot be read: {error}")
        return
    for account in sorted(meaning.newest.keys() | noted.keys(), key=str):
        if noted.get(account) != meaning.newest.get(account):
            yield Problem(None, f"the last entry of account {account!r} is not the one that is noted for it")


def _frame(store: Store, form: int) -> Iterator[Problem]:
    """Check the database's own structures, and the triggers and indexes that keep it append-only."""
    try:
        for finding in chain(store.damage(), store.guards(form)):
            yield Problem(None, finding)
    except store.failures as error:
        yield Problem(None, f"the file is damaged: {error}")


class _Meaning:
    """Whether entries that are chained correctly are also consistent with the entries before them."""

    def __init__(self, form: int = LEDGER_FORMAT) -> None:
        self._form = form
        # Entries of the first format carry no state; a migration ends them.
        self._stateless = form == 1
        self._accounts: dict[str, Standing] = {}
        self.newest: dict[str, tuple[int, str]] = {}
        self._payments: set[int] = set()
        self._requests: set[tuple[str, str]] = set()
        self._released: set[int] = set()

    def wrong(self, entry: Entry) -> str | None:
        """What is wrong with the next entry, or None."""
        try:
            content = json.loads(entry.body)
            if entry.body != canonical(content):
                return "its body is not in canonical form"
            if (entry.sequence == 1) != (entry.kind == EntryKind.GENESIS):
                return "the genesis entry, and it alone, comes first"
            if (entry.payload is None) != (entry.kind != EntryKind.RELEASE):
                return "a release, and it alone, has a payload"
            if "account" in content:
                self.newest[content["account"]] = entry.sequence, entry.digest
            match entry.kind:
                case EntryKind.GENESIS:
                    self._stateless = content["format"] == 1
                    return None if content["format"] in (1, self._form) else f"it names format {content['format']}"
                case EntryKind.ACCOUNT:
                    return self._account(entry, content)
                case EntryKind.PAYMENT:
                    return self._payment(entry, content)
                case EntryKind.MIGRATION:
                    if not self._stateless or self._form == 1:
                        return "a migration comes once, in a ledger of the first format"
                    self._stateless = False
                    return None
                case EntryKind.ACCEPTANCE:
                    return None
                case EntryKind.RELEASE:
                    if content["sha256"] != payload_digest(content["salt"], entry.payload or b""):
                        return "its payload does not match its digest: it was edited"
                    return self._release(content["payment"])
                case _:
                    return f"its kind {entry.kind!r} is unknown"
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            return f"it does not hold what its kind needs ({error})"

    def _account(self, entry: Entry, content: dict[str, Any]) -> str | None:
        ceiling, account = Ceiling.from_json(content), content["account"]
        known = self._accounts.get(account) or Standing(account, ceiling, entry.sequence)
        return self._stands(entry, content, known.under(ceiling, entry.sequence))

    def _payment(self, entry: Entry, content: dict[str, Any]) -> str | None:
        account, request = content["account"], content["request"]
        spend = spend_from_json(content["spend"])
        if account not in self._accounts:
            return f"it charges account {account!r}, which was not opened before it"
        if (account, request) in self._requests:
            return f"request {request!r} of account {account!r} was paid before"
        self._requests.add((account, request))
        self._payments.add(entry.sequence)
        return self._stands(entry, content, self._accounts[account].paid(spend, keep_curve=True))

    def _stands(self, entry: Entry, content: dict[str, Any], standing: Standing) -> str | None:
        """Set the account's state as it must be after an entry, and compare it with the one in the entry."""
        self._accounts[standing.account] = standing
        if self._stateless:
            return "it has a state, which its format does not have" if "state" in content else None
        if not equal_states(content["state"], json.loads(canonical(standing.to_json()))):
            return "the state of its account is not the sum of the entries up to it"
        return None

    def _release(self, paid: int) -> str | None:
        if paid not in self._payments:
            return f"it releases for entry {paid}, which is no payment before it"
        if paid in self._released:
            return f"payment {paid} has a release already"
        self._released.add(paid)
        return None
