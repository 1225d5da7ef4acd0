"""What all ledgers have in common: payment, refusal and replay, independent of how entries are stored.

A back end implements the storage primitives of ``LedgerBase``: a transaction, six reads and one append. ``LedgerBase``
builds the whole ``Ledger`` protocol on them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, ClassVar, Self

from tacit.core import Adjacency, InvalidInput, LedgerError, Receipt, Spend, Unit, spend_from_json
from tacit.core.account import Balance, Ceiling, Change, Limits, Paid, Rule, Total
from tacit.core.errors import not_one_of
from tacit.ledger.account import Standing
from tacit.ledger.entries import Entry, EntryKind, payment, receipt_of, release, replayed, text

__all__ = ["LedgerBase", "named_accounts"]


class LedgerBase(ABC):
    """The ``Ledger`` protocol over a store of entries."""

    durable: ClassVar[bool]

    # What a back end supplies. All but the first two are called inside a transaction.

    @abstractmethod
    def _transaction(self, write: bool, outcome: str = "Nothing was read.") -> AbstractContextManager[None]:
        """A consistent view of the ledger; with ``write``, exclusive, and all appended entries are stored or none.

        They are on disk, if there is one, when the block ends. ``outcome`` ends an error: it says what did not happen.
        """

    def close(self) -> None:  # noqa: B027
        """Close connections and files, if there are any."""

    @abstractmethod
    def _head(self) -> tuple[int, str]:
        """The number of entries and the last digest."""

    @abstractmethod
    def _names(self) -> Iterable[str]:
        """Every account in the order they were opened."""

    @abstractmethod
    def _account(self, account: str) -> Standing | None:
        """The account after its last entry, or None if there is no such account."""

    @abstractmethod
    def _payment(self, account: str, request: str) -> Entry | None:
        """The payment for a request, or None."""

    @abstractmethod
    def _payments(self, account: str) -> Iterable[Entry]:
        """The account's payments in the order they were made."""

    @abstractmethod
    def _release(self, paid: Entry) -> bytes | None:
        """The release that was stored for a payment, or None."""

    @abstractmethod
    def _append(
        self,
        kind: EntryKind,
        content: Mapping[str, Any],
        standing: Standing | None = None,
        payload: bytes | None = None,
    ) -> Entry:
        """Store the next entry: a payment or a ceiling with the account's new state, a release with its payload."""

    # The contract.

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
        wanted = payment(account, spend, purpose, randomness, request, question)
        composed: tuple[Standing, Total | None] | None = None
        while True:
            with self._transaction(True, "Nothing was charged."):
                standing = self._standing(account)
                if first := self._payment(account, request):
                    return replayed(first, wanted)
                # Composing planned charges takes seconds, so it is done without the lock, and again after another
                # payment.
                if standing.ceiling.rule is Rule.ADAPTIVE:
                    composed = standing, standing.excess(spend)
                if composed is not None and composed[0] == standing:
                    standing.refuse(composed[1])
                    if limits is not None:
                        limits.require(spend, purpose, standing.ceiling.delta, lambda: self._paid_before(account))
                    return receipt_of(self._append(EntryKind.PAYMENT, wanted, standing.paid(spend)))
            composed = standing, standing.excess(spend)

    def preflight(self, account: str, spends: Mapping[str, Spend]) -> None:
        """Refuse now if charges for these requests would be refused, before any work; nothing is written."""
        with self._transaction(False):
            standing = self._standing(account)
            coming = [spend for request, spend in spends.items() if not self._payment(account, request)]
        standing.require_all(coming)

    def stored_release(self, receipt: Receipt) -> bytes | None:
        """The release of this payment, if one was stored."""
        with self._transaction(False):
            return self._release(self._paid_with(receipt))

    def store_release(self, receipt: Receipt, payload: bytes) -> bytes:
        """Store the release of a payment, and return what is stored: the first one always wins."""
        with self._transaction(True, "The payment stands, and nothing was stored or released."):
            first = self._release(self._paid_with(receipt))
            if first is None:
                first = bytes(payload)
                self._append(EntryKind.RELEASE, release(receipt.sequence, first), payload=first)
        return first

    def privacy_unit(self, account: str) -> tuple[Unit, Adjacency]:
        """The unit and adjacency that the account's budget protects."""
        with self._transaction(False):
            ceiling = self._standing(account).ceiling
        return ceiling.unit, ceiling.adjacency

    def balance(self, account: str) -> Balance:
        """What the account has spent and what remains; a read that changes nothing."""
        with self._transaction(False):
            standing = self._standing(account)
        return standing.balance

    def accounts(self) -> dict[str, Ceiling]:
        """Every account and its present ceiling, in the order they were opened."""
        with self._transaction(False):
            return {account: self._standing(account).ceiling for account in self._names()}

    def receipts(self, account: str) -> list[Receipt]:
        """The receipts of all payments of an account, in order."""
        with self._transaction(False):
            self._standing(account)
            return list(map(receipt_of, self._payments(account)))

    def verify(self) -> list[str]:
        """Descriptions of damage in what is stored; empty for a store that no other process can write."""
        return []

    def apply(self, policy: Mapping[str, Ceiling]) -> list[Change]:
        """Append the accounts and ceilings of a new or changed policy, for the operator; returns before and after.

        The unit and adjacency of an account are fixed from its first payment on, and charges cannot be declared
        planned afterwards. A ceiling is raised only where that is sound. The account's state is recomputed from all its
        payments, for the RDP orders that the new ceiling needs.
        """
        named = named_accounts(policy)
        changes: list[Change] = []
        with self._transaction(True, "The policy was not changed."):
            if missing := [account for account in self._names() if account not in named]:
                raise InvalidInput(
                    f"the policy leaves out account {missing[0]!r}, which this ledger contains. List every account; to "
                    "stop an account, give it an epsilon below what it has spent."
                )
            for account, ceiling in named.items():
                before = self._account(account)
                if before is None or ceiling != before.ceiling:
                    if before is not None:
                        before.require_change(ceiling)
                    changes.append((account, before.ceiling if before else None, ceiling))
            for account, _, ceiling in changes:
                after = self._recomputed(account, ceiling, self._head()[0] + 1)
                self._append(EntryKind.ACCOUNT, {"account": account, **ceiling.to_json()}, after)
        return changes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _standing(self, account: str) -> Standing:
        standing = self._account(account)
        if standing is None:
            raise not_one_of("account", self._names() or ["none"], account)
        return standing

    def _paid_with(self, receipt: Receipt) -> Entry:
        paid = self._payment(receipt.account, receipt.request)
        if paid is None or receipt_of(paid) != receipt:
            raise LedgerError(f"the receipt for request {receipt.request!r} was not written by this ledger")
        return paid

    def _paid_before(self, account: str) -> list[Paid]:
        """The account's payments; equal payments of one purpose and day are one group, the first payment first."""
        groups: dict[tuple[str, str, str], int] = {}
        for entry in self._payments(account):
            content = entry.content
            group = content["purpose"], content["at"][:10], json.dumps(content["spend"], sort_keys=True)
            groups[group] = groups.get(group, 0) + 1
        return [
            Paid(purpose, day, spend_from_json(json.loads(spend)), count)
            for (purpose, day, spend), count in groups.items()
        ]

    def _recomputed(self, account: str, ceiling: Ceiling, ceiling_entry: int) -> Standing:
        """The account under a new ceiling, with its state recomputed from every payment."""
        before, after = self._account(account), Standing(account, ceiling, ceiling_entry)
        for entry in self._payments(account):
            after = after.paid(spend_from_json(entry.content["spend"]))
        return after if before is None else replace(after, claim=before.claim)


def named_accounts(policy: Mapping[str, Ceiling]) -> dict[str, Ceiling]:
    """The policy, if it has an account and all names of accounts are printable.

    >>> named_accounts({"": Ceiling(1)})
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: account must be printable text on one line and not empty, got ''
    """
    if not policy:
        raise InvalidInput("the policy must name at least one account")
    return {text(account, "account"): ceiling for account, ceiling in policy.items()}
