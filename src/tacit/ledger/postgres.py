"""The ledger on a PostgreSQL server, shared by the processes of many machines: opening, creating and retrying.

An interrupted step is retried where that is safe. A charge and a release have the request as their key: the second
attempt finds the first or makes it. A changed policy has no such key, and is retried only if certainly nothing was
written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self, TypeVar

from tacit.core import Ceiling, Change, LedgerError, Limits, Receipt, Spend
from tacit.core.places import LedgerUrl, Place, ledger_place
from tacit.ledger import store as rows
from tacit.ledger.base import named_accounts
from tacit.ledger.heads import Heads
from tacit.ledger.postgres_schema import default_prefix, role_statements
from tacit.ledger.postgres_store import Conflict, LostConnection, PostgresStore, ServerUnreachable, connect_postgres
from tacit.ledger.stored import StoredLedger
from tacit.ledger.verify import problems

__all__ = ["PostgresLedger", "make_database", "make_roles"]

# Retries of a step: one after a lost connection; of two transactions in conflict only one fails each time.
RECONNECTS, CONFLICTS = 1, 20

Found = TypeVar("Found")


class PostgresLedger(StoredLedger):
    """Accounts in a database of a server. Make it with ``create``, then open it by its URL in every process."""

    _store: PostgresStore

    def __init__(self, url: Place, heads: str | Path | None = None, *, allow_stale: bool = False) -> None:
        """Open it; with ``allow_stale`` also a restored, copied or forked ledger, which cannot pay."""
        place = ledger_place(url)
        self._url = place if isinstance(place, LedgerUrl) else LedgerUrl(str(place))
        memory = Heads(None if heads is None else Path(heads))
        super().__init__(connect_postgres(self._url), memory, allow_stale=allow_stale)

    @classmethod
    def create(
        cls, url: Place, policy: Mapping[str, Ceiling], heads: str | Path | None = None, *, existing: bool = False
    ) -> Self:
        """A new ledger with the policy's accounts, or with ``existing`` the one that exists already.

        A failure leaves nothing, and the call can be repeated. Refused where a used ledger is missing.
        """
        place = ledger_place(url)
        accounts = named_accounts(policy)
        made = make_database(
            place if isinstance(place, LedgerUrl) else LedgerUrl(str(place)),
            lambda store: rows.fill(store, accounts),
            Heads(None if heads is None else Path(heads)),
        )
        if not made and not existing:
            raise LedgerError(f"{place} exists. Apply a policy to it with `tacit ledger open`.")
        return cls(url, heads)

    def charge(
        self,
        account: str,
        spend: Spend,
        purpose: str,
        randomness: str,
        request: str,
        question: str,
        limits: Limits | None = None,
    ) -> Receipt:
        """Pay once for a request; the same request and question again returns the first receipt and pays nothing."""
        step = super().charge
        return self._again(lambda: step(account, spend, purpose, randomness, request, question, limits))

    def store_release(self, receipt: Receipt, payload: bytes) -> bytes:
        """Store the release of a payment, and return what is stored: the first one always wins."""
        step = super().store_release
        return self._again(lambda: step(receipt, payload))

    def stored_release(self, receipt: Receipt) -> bytes | None:
        """The release of this payment, if one was stored."""
        step = super().stored_release
        return self._again(lambda: step(receipt))

    def apply(self, policy: Mapping[str, Ceiling]) -> list[Change]:
        """Append the accounts and ceilings of a new or changed policy, for the operator; returns before and after."""
        step = super().apply
        return self._again(lambda: step(policy), reconnects=0)

    def verify(self) -> list[str]:
        """All damage of the ledger, the first bad entry first; empty if there is none."""
        with self._transaction(False):
            return [str(each) for each in problems(self._store)]

    def _again(self, step: Callable[[], Found], reconnects: int = RECONNECTS) -> Found:
        """The result of an idempotent step, retried after an interruption."""
        conflicts = 0
        lost: LostConnection | None = None
        while True:
            try:
                return step()
            except Conflict:
                conflicts += 1
                if conflicts == CONFLICTS:
                    raise
            except (LostConnection, ServerUnreachable) as error:
                if lost is not None and not error.may_be_written:
                    # Whether the first attempt was written is still unknown.
                    raise lost from error
                if reconnects == 0 or isinstance(error, ServerUnreachable):
                    raise
                reconnects, lost = reconnects - 1, error

    def _ready(self) -> None:
        """Replace a lost connection by a new one to the same ledger, with the same checks."""
        if not self._store.idle_alive():
            self._store.close()
            store = connect_postgres(self._url)
            try:
                with store.explained("Nothing was read."):
                    self._attach(store)
            except BaseException:
                store.close()
                raise


def make_database(url: LedgerUrl, fill: Callable[[rows.Store], None], heads: Heads) -> bool:
    """Make a ledger in an empty database, in one transaction; False if one exists already."""
    store = connect_postgres(url)
    try:
        with store.explained("Nothing was created."):
            if not store.vacant():
                return False
            heads.require_unused(store.place)
            store.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
            try:
                fill(store)
                store.commit()
            except BaseException:
                if store.in_transaction:
                    store.rollback()
                raise
    finally:
        store.close()
    return True


def make_roles(url: LedgerUrl, prefix: str | None = None, only_say: bool = False) -> list[str]:
    """Make the roles owner, writer and reader of a ledger in one transaction; returns the statements."""
    store = connect_postgres(url)
    try:
        with store.explained("Nothing was changed."):
            store.require_format()
            statements = role_statements(store.database, prefix or default_prefix(store.database))
            if only_say:
                return statements
            with rows.transaction(store):
                for statement in statements:
                    store.execute(statement)
    finally:
        store.close()
    return statements
