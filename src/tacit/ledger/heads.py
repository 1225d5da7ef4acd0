"""The head of every ledger in a second place, so that a restored, copied or forked ledger is detected.

After each commit the ledger's sequence and last digest are written into a small file in the *state folder*, apart from
the ledger: ``TACIT_STATE`` names the folder, by default ``tacit`` in the user's state folder. The file is signed (HMAC)
with a key in the same folder; only the owner can read either. The signature detects damage and files of other folders.
It does not stop somebody who can write the folder.

The ledger commits first. After a crash between the two, the ledger is ahead of the file and contains the head in the
file, so nothing is wrong. A ledger that does not contain that head was restored or forked, and a person must decide
whether to continue with it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from tacit.core import DamagedLedger, InvalidInput, LedgerError, StaleLedger
from tacit.core.files import locked, write_file
from tacit.core.places import Place
from tacit.ledger import store as rows
from tacit.ledger.entries import Entry, EntryKind, canonical, text
from tacit.ledger.places import opened_store
from tacit.ledger.store import Store
from tacit.ledger.verify import problems

__all__ = ["VARIABLE", "Head", "HeadMemory", "Heads", "accept_head", "state_folder"]

VARIABLE = "TACIT_STATE"
KEY_FILE = "heads.key"
KEY_FORM = re.compile(b"[0-9a-f]{64}")


def state_folder() -> Path:
    """The default folder of heads.

    >>> state_folder().is_absolute()
    True
    """
    if named := os.environ.get(VARIABLE):
        return Path(named).absolute()
    home = Path(os.environ.get("XDG_STATE_HOME", ""))
    # The XDG specification says to ignore a relative path.
    if home.is_absolute():
        return home / "tacit"
    try:
        return Path.home() / ".local" / "state" / "tacit"
    except RuntimeError:
        raise InvalidInput(
            f"this user has no home folder for the heads of ledgers; name a folder with {VARIABLE}"
        ) from None


@dataclass(frozen=True)
class Head:
    """A ledger's state when it was last used: its id, number of entries, last digest, path, and the time."""

    ledger: str
    sequence: int
    digest: str
    path: str = ""
    at: str = ""


class Heads:
    """The heads in one state folder.

    >>> import tempfile
    >>> heads = Heads(Path(tempfile.mkdtemp()) / "state")
    >>> heads.remember(Head("c0ffee", 7, "00ff", "main.ledger"))
    >>> heads.remembered("c0ffee").sequence
    7
    >>> heads.remembered("decaf") is None
    True
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = state_folder() if folder is None else folder.absolute()

    def file(self, ledger: str) -> Path:
        """The file of one ledger's head."""
        return self.folder / f"{ledger}.head"

    def remembered(self, ledger: str) -> Head | None:
        """The head of a ledger as it was last written here, or None."""
        try:
            text = self.file(ledger).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerError(f"cannot read the ledger's head {self.file(ledger)}: {error.strerror}") from error
        try:
            signed, _, signature = text.rstrip(b"\n").rpartition(b"\n")
            if not hmac.compare_digest(signature, self._signature(signed)):
                raise ValueError("signature")
            head = Head(**json.loads(signed))
            if head.ledger != ledger:
                raise ValueError("another ledger's")
            return head
        except (ValueError, TypeError):
            raise StaleLedger(
                f"the ledger's head {self.file(ledger)} is damaged, or was signed with another key than the one in "
                f"{self.folder}"
            ) from None

    def require_unused(self, place: str) -> None:
        """Refuse a new ledger where a used one is missing: its payments would be forgotten.

        >>> import tempfile
        >>> Heads(Path(tempfile.mkdtemp())).require_unused("main.ledger")
        """
        for file in sorted(self.folder.glob("*.head")):
            try:
                head = self.remembered(file.stem)
            except StaleLedger:
                # Nobody knows where the ledger of a damaged head was.
                continue
            if head is not None and _same(head.path, place):
                raise StaleLedger(
                    f"there was a ledger at {place}, last used at {head.at} with {_counted(head.sequence)}, and it is "
                    "gone: a new one would give back what it has spent. Nothing was created. Restore its newest copy; "
                    f"if a person decides that the accounts start anew here, remove {file}."
                )

    def remember(self, head: Head, replace: bool = False) -> None:
        """Write a head unless a later one is stored; with ``replace``, a person's decision, write it in any case."""
        stamped = Head(**{**asdict(head), "at": datetime.now(UTC).isoformat(timespec="seconds")})
        try:
            with self._locked():
                # Two processes may arrive here in the opposite order of their commits.
                known = None if replace else self.remembered(head.ledger)
                if known is None or known.sequence < head.sequence:
                    signed = canonical(asdict(stamped)).encode()
                    content = signed + b"\n" + self._signature(signed) + b"\n"
                    write_file(self.file(head.ledger), content, private=True)
        except OSError as error:
            raise LedgerError(
                f"cannot write the ledger's head into the folder {self.folder}: {error.strerror}. Send the same "
                f"request again, it is paid at most once. {VARIABLE} names another folder."
            ) from error

    def _signature(self, signed: bytes) -> bytes:
        return hmac.new(self._key(), signed, hashlib.sha256).hexdigest().encode()

    def _key(self) -> bytes:
        """The key; a missing or damaged one is a ``ValueError``: no signature can be verified."""
        try:
            text = (self.folder / KEY_FILE).read_bytes()
        except FileNotFoundError:
            text = b""
        except OSError as error:
            raise LedgerError(f"cannot read the key {self.folder / KEY_FILE}: {error.strerror}") from error
        if not KEY_FORM.fullmatch(text):
            raise ValueError("key")
        return bytes.fromhex(text.decode())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the key file for one process at a time; a missing key is created.

        A damaged key is replaced: its signatures are refused anyway, until a person accepts each ledger.
        """
        if not self.folder.is_dir():
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
        with locked(self.folder / KEY_FILE) as key:
            if not KEY_FORM.fullmatch(os.pread(key, 65, 0)):
                os.ftruncate(key, 0)
                os.pwrite(key, secrets.token_hex(32).encode(), 0)
                os.fsync(key)
            yield


class HeadMemory:
    """The head of one open ledger, compared with the one stored in the state folder."""

    def __init__(self, store: Store, heads: Heads) -> None:
        self._store = store
        self._heads = heads
        first = next(rows.read(store, "WHERE sequence = 1"), None)
        if first is None or first.kind != EntryKind.GENESIS:
            raise DamagedLedger(f"the ledger {store.name} has lost its first entry. {rows.RESTORE}")
        self.ledger: str = first.content["ledger"]
        self._written: tuple[int, str] | None = None

    def finding(self) -> tuple[str, Head | None] | None:
        """Why the ledger is stale, in words, and the stored head; None if it is not stale."""
        try:
            head = self._heads.remembered(self.ledger)
        except StaleLedger as error:
            return str(error), None
        count, digest = rows.last(self._store)
        if head is None:
            if not self._has_payments():
                return None
            return (
                f"it has payments, and the state folder {self._heads.folder} has never seen it: it was copied from "
                f"another machine or user, that folder was lost, or {VARIABLE} names another one",
                None,
            )
        if (head.sequence, head.digest) == (count, digest):
            return None
        last = f"it was last used as {head.path} at {head.at} with {_counted(head.sequence)}"
        if count < head.sequence:
            return f"it has {_counted(count)}; {last}: an older copy was restored", head
        entry = next(rows.read(self._store, "WHERE sequence = ?", (head.sequence,)), None)
        if entry is None or entry.digest != head.digest:
            return f"{last}, and entry {head.sequence} was another one: two copies of it were used", head
        entry.require_whole()
        return None

    def require_at_start(self) -> None:
        """Refuse a ledger that was restored, copied or forked when it is opened."""
        with rows.transaction(self._store, write=False):
            fine = self.finding() is None
        if not fine:
            # Another process may have paid between the two reads; check again while nobody else can write.
            with rows.transaction(self._store):
                self._require(self.finding())

    def require(self) -> None:
        """Refuse a stale ledger before a write, under its lock; before the first payment store its head."""
        self._require(self.finding())
        if self._heads.remembered(self.ledger) is None:
            self.remember()

    def _require(self, found: tuple[str, Head | None] | None) -> None:
        if found is not None:
            raise StaleLedger(
                f"the ledger {self._store.place} is not the one that was last used here: {found[0]}. Nothing was "
                "charged. Budget may have been spent that this one does not know of. Find the newest copy; to "
                f"continue with this one, use `tacit ledger accept {self._store.place}`, which is recorded in the "
                "ledger."
            )

    def remember(self, present: tuple[int, str] | None = None, replace: bool = False) -> None:
        """Store the head that is given, or the present one, in the state folder if it is not there yet."""
        if present is None and self._store.in_transaction:
            present = rows.last(self._store)
        elif present is None:
            # Head record and last entry in one transaction: between two reads another process may pay.
            with rows.transaction(self._store, write=False):
                present = rows.last(self._store)
        if present != self._written or replace:
            self._heads.remember(Head(self.ledger, *present, self._store.place), replace)
            self._written = present

    def _has_payments(self) -> bool:
        indexed = self._store.indexed("payments_by_request")
        query = f"SELECT EXISTS (SELECT 1 FROM entries {indexed} WHERE kind = 'payment')"  # noqa: S608
        row = self._store.execute(query).fetchone()
        return row is not None and bool(row[0])


def accept_head(place: Place, reason: str, heads: str | Path | None = None) -> Entry:
    """Record a person's decision to continue with a ledger that was restored, copied or forked.

    The ledger must verify. A new entry records the finding, the stored head and the reason.
    """
    reason = text(reason, "reason")
    with opened_store(place, "Nothing was written.") as store:
        memory = HeadMemory(store, Heads(None if heads is None else Path(heads)))
        with rows.transaction(store):
            if wrong := next(iter(problems(store)), None):
                raise DamagedLedger(
                    f"the ledger {store.name} is damaged: {wrong}. Nothing was accepted. {rows.RESTORE}"
                )
            found = memory.finding()
            if found is None:
                raise InvalidInput(
                    f"there is nothing to accept: the ledger {store.name} is the one that was last used here"
                )
            finding, head = found
            content = {
                "finding": finding,
                "reason": reason,
                "remembered": None if head is None else [head.sequence, head.digest],
            }
            entry = rows.append(store, EntryKind.ACCEPTANCE, content)
        memory.remember(replace=True)
    return entry


def _same(one: str, other: str) -> bool:
    """Whether two places are the same: URLs by their text, files after following links."""
    return one == other if "://" in other else os.path.realpath(one) == os.path.realpath(other)


def _counted(entries: int) -> str:
    return f"{entries} {'entry' if entries == 1 else 'entries'}"
