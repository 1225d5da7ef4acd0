"""A ledger in a file of JSON lines, opened as ``jsonl:PATH``: small rather than fast, it reads all lines every time."""

import json
import os
import threading
from contextlib import contextmanager
from pathlib import Path

from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput
from tacit.core.files import locked
from tacit.core.spend import spend_from_json
from tacit.ledger.base import LedgerBase
from tacit.ledger.entries import ORIGIN, Entry, EntryKind, following, genesis


class JsonLinesLedger(LedgerBase):
    """As an entry point it takes what stands after ``jsonl:``, and the policy of a ledger that is not there yet."""

    durable = True

    def __init__(self, place, policy=None):
        self._path, self._thread = Path(place), threading.Lock()
        if policy is None and not self._path.exists():
            raise InvalidInput(f"there is no ledger at {place}")
        with self._transaction(True):
            if not self._entries:
                self._append(EntryKind.GENESIS, genesis())
        if policy is not None and not self.accounts():
            self.apply(policy)

    @contextmanager
    def _transaction(self, write, outcome=""):
        with self._thread, locked(self._path.with_suffix(".lock")), self._path.open("ab+") as file:
            self._entries, self._standings, self._paid, self._releases = [], {}, {}, {}
            file.seek(0)
            *lines, cut_off = file.read().split(b"\n")
            for line in lines:
                self._take(Entry(*json.loads(line)[:-1]), bytes.fromhex(json.loads(line)[-1]))
            known = len(self._entries)
            yield
            if written := [json.dumps(line) + "\n" for line in self._entries[known:]]:
                file.truncate(file.tell() - len(cut_off))  # nobody has counted on what a crash cut off
                file.write("".join(written).encode())
                file.flush()
                os.fsync(file.fileno())

    def _take(self, entry, payload):
        content = entry.content  # refused where it is not what its digest says
        account = content.get("account")
        if entry.kind == EntryKind.ACCOUNT:
            self._standings[account] = self._recomputed(account, Ceiling.from_json(content), entry.sequence)
        elif entry.kind == EntryKind.PAYMENT:
            self._standings[account] = self._standings[account].paid(spend_from_json(content["spend"]))
            self._paid[account, content["request"]] = entry
        elif entry.kind == EntryKind.RELEASE:
            self._releases[content["payment"]] = payload
        if entry.previous != self._head()[1]:
            raise InvalidInput(f"entry {entry.sequence} does not follow the one before it")
        self._entries.append([entry.sequence, entry.kind, entry.body, entry.previous, entry.digest, payload.hex()])
        return entry

    def _append(self, kind, content, standing=None, payload=None):
        return self._take(following(*self._head(), kind, content), payload or b"")

    def _head(self):
        return (self._entries[-1][0], self._entries[-1][4]) if self._entries else (0, ORIGIN)

    def _names(self):
        return list(self._standings)

    def _account(self, account):
        return self._standings.get(account)

    def _payment(self, account, request):
        return self._paid.get((account, request))

    def _payments(self, account):
        return [entry for (name, _), entry in self._paid.items() if name == account]

    def _release(self, paid):
        return self._releases.get(paid.sequence)
