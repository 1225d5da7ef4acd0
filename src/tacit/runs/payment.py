"""The accounts that pay for a run, and the guarantee that follows from its receipts.

A run is paid from accounts of the user's ledger or from a budget of its own; a run that cannot be paid is refused
before its first payment. One function computes the guarantee from receipts, for every method, with or without nodes.
"""

from __future__ import annotations

import hashlib
import math
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.accounting.compose import least_total
from tacit.accounting.parts import group
from tacit.core import Adjacency, Guarantee, Ledger, Number, Pure, Receipt, Spend, Trust, Unit, exact, whole
from tacit.core.errors import BudgetExceeded, InvalidInput, warn_user
from tacit.core.files import is_there
from tacit.core.places import SCHEME, LedgerUrl, Place
from tacit.ledger import open_ledger, opened

if TYPE_CHECKING:  # a run that is shown is not one that is planned
    from tacit.methods.task import Account

__all__ = [
    "CLASSES_READ", "NODES_BOUND_PERSONS", "SEVERAL_NODES", "Payers", "by_account", "file_name", "group_guarantee",
    "guarantees_from", "look_ahead", "paying", "weakest",
]  # fmt: skip

Payers = list[tuple[Ledger, str]]
RUN_ACCOUNT = "this run"
_SIMULATED = "a seed makes a simulation, which must not spend a real budget: leave out the seed, or the ledger"


@contextmanager
def paying(
    ledger: Ledger | Place | None,
    account: str | None,
    accounts: Sequence[Account],
    unit: Unit,
    adjacency: Adjacency,
    simulated: bool,
) -> Iterator[Payers]:
    """The ledger and account of every payer: the user's ledger, or a new one with exactly the run's budget.

    If every holder has its own account, it is named "<account> <holder>". The ledger is a file, which is created if it
    does not exist, or a folder with one ledger per holder. An account that cannot pay for the whole run is refused
    here, before anything is paid; the gate checks again.
    """
    several = accounts[0].holder is not None
    names = [f"{account or 'holder'} {each.holder}" for each in accounts] if several else [account or RUN_ACCOUNT]
    if ledger is None and account is not None and not several:
        raise InvalidInput("an account needs a ledger: give the ledger, too")
    if ledger is not None and account is None and not several:
        raise InvalidInput("name the account of the ledger that pays")
    if ledger is not None:
        if not isinstance(ledger, str | Path | LedgerUrl) and not callable(getattr(ledger, "charge", None)):
            raise InvalidInput(f"ledger must be a ledger, a path or a URL, got {ledger!r}")
        if simulated and (isinstance(ledger, str | Path | LedgerUrl) or ledger.durable):
            raise InvalidInput(_SIMULATED)
    ceilings = {name: each.ceiling for name, each in zip(names, accounts, strict=True) if each.ceiling is not None}
    if not ceilings:
        if ledger is not None:
            raise InvalidInput("this variant protects nothing and pays nothing: leave out the ledger")
        yield [(book, name) for book in [open_ledger("unlimited:")] for name in names]
        return
    if ledger is None:
        yield [(book, name) for book in [open_ledger("memory:", ceilings)] for name in names]
        return
    with ExitStack() as books:
        payers: Payers
        if several and isinstance(ledger, str | Path) and _is_folder(ledger):
            Path(ledger).mkdir(parents=True, exist_ok=True)
            payers = [
                (books.enter_context(opened(Path(ledger) / f"{file_name(each)}.ledger", {each: ceilings[each]})), each)
                for each in names
            ]
        else:
            # Accounts per holder are created with a new ledger; a single account must exist.
            book = books.enter_context(opened(ledger, ceilings if several else None))
            payers = [(book, name) for name in names]
        _preflight(payers, accounts, unit, adjacency)
        yield payers


def look_ahead(
    ledger: Ledger | Place,
    account: str,
    unit: Unit,
    adjacency: str,
    epsilon: Number | None,
    delta: Number = 0,
    options: Any = None,  # noqa: ANN401
    trust: str | None = None,
) -> None:
    """Refuse early what an existing account cannot pay; it is checked again once prices are known.

    A curator's method whose ``options`` have ``price_lists`` is refused here if the account can pay none of them, every
    other one only if the account's δ is 0, since a run then costs exactly its ε. A missing ledger or account is an
    error later.

    >>> from tacit.core.account import Ceiling
    >>> ledger = open_ledger("memory:", {"clinic": Ceiling(1)})
    >>> look_ahead(ledger, "clinic", Unit(), Adjacency.REPLACE_ONE, 2)
    Traceback (most recent call last):
        ...
    tacit.core.errors.BudgetExceeded: account 'clinic' cannot pay: it would reach epsilon 2 ...
    """
    if not isinstance(ledger, str | Path | LedgerUrl):
        if not callable(getattr(ledger, "charge", None)):
            return
    elif not isinstance(ledger, LedgerUrl) and not SCHEME.match(str(ledger)) and not is_there(ledger):
        return
    with opened(ledger) as book:
        if account not in book.accounts():
            return
        _require_unit(book, account, unit, adjacency)
        if epsilon is None:
            return
        lists: list[list[Spend]] = []
        if hasattr(options, "price_lists") and trust in (None, Trust.CENTRAL):
            lists = options.price_lists(exact(epsilon, "epsilon"), exact(delta, "delta"))
        if not lists and book.balance(account).ceiling.delta == 0:
            lists = [[Pure(epsilon)]]
        _require_any(book, account, lists)


def _require_any(book: Ledger, account: str, lists: Sequence[Sequence[Spend]]) -> None:
    """Refuse a run if the account can pay none of the lists of prices that it may have."""
    refused = []
    for prices in lists:
        try:
            return book.preflight(account, {f"ahead {uuid.uuid4().hex}": each for each in prices})
        except BudgetExceeded as error:
            refused.append(error)
    if refused:
        raise refused[0]


def _is_folder(place: Place) -> bool:
    """Whether a path is a folder with one ledger per holder, which may not exist yet."""
    if isinstance(place, LedgerUrl) or (isinstance(place, str) and ":" in place):
        return False
    return Path(place).is_dir() or not (Path(place).exists() or Path(place).suffix)


def _preflight(payers: Payers, accounts: Sequence[Account], unit: Unit, adjacency: Adjacency) -> None:
    """Refuse a run that an account cannot pay completely, or whose unit differs from the account's.

    Of many holders that may run out of budget on the way, one that can pay for the whole run is enough.
    """
    short: list[tuple[str, BudgetExceeded]] = []
    for (book, name), each in zip(payers, accounts, strict=True):
        _require_unit(book, name, unit, adjacency)
        try:
            book.preflight(name, each.prices)
        except BudgetExceeded as error:
            if not each.may_run_dry:
                raise
            short.append((name, error))
    if short and len(short) == len(payers):
        raise short[0][1]
    if short:
        listed = ", ".join(name for name, _ in short[:10]) + (", ..." if len(short) > 10 else "")
        warn_user(f"{len(short)} of {len(payers)} holders cannot pay for all rounds and will drop out: {listed}")


def _require_unit(book: Ledger, name: str, unit: Unit, adjacency: str) -> None:
    protected = book.privacy_unit(name)
    if protected != (unit, adjacency):
        raise InvalidInput(
            f"account {name!r} protects {protected[0].in_words} under {protected[1]}, this run protects "
            f"{unit.in_words} under {adjacency}; choose the unit and adjacency of the account"
        )


def file_name(account: str) -> str:
    """A file name for an account that is valid on every system; different accounts get different names.

    >>> file_name("holder 3"), file_name("north/west")
    ('holder-3', 'north-west-d2c4fcc3')
    """
    plain = account.replace(" ", "-")
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", plain)[:80]
    return safe if safe == plain and "--" not in plain else f"{safe}-{hashlib.sha256(account.encode()).hexdigest()[:8]}"


CLASSES_READ = (
    "the list of classes was read from the private labels, so the existence of a class is not protected; declare the "
    "classes to avoid this"
)
SEVERAL_NODES = (
    "it holds for the records of one node: if the same record or person is at several nodes, the costs add up"
)

NODES_BOUND_PERSONS = (
    "it holds for persons at nodes whose own accounts protect persons with the same number of records: nodes do not "
    "send what their accounts protect"
)


def by_account(receipts: Sequence[Receipt]) -> dict[str, list[Receipt]]:
    """The receipts by account. An account belongs to one holder, and pays for the records of that holder only."""
    paid: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        paid.setdefault(receipt.account, []).append(receipt)
    return paid


def guarantees_from(
    receipts: Sequence[Receipt],
    *,
    delta: Fraction,
    unit: Unit,
    adjacency: Adjacency,
    trust: Trust,
    caveats: tuple[str, ...] = (),
) -> dict[str, Guarantee]:
    """The guarantee of each paying account, from all its receipts.

    A pure guarantee is stated as pure, even if a δ was allowed.

    >>> from tacit.core.spend import Pure
    >>> paid = [Receipt("ada", f"r-{n}", "labels", Pure("1/4"), "system", n, "") for n in range(2)]
    >>> given = {"unit": Unit(), "adjacency": Adjacency.REPLACE_ONE, "trust": Trust.CENTRAL}
    >>> guarantees_from(paid, delta=Fraction(0), **given)["ada"].epsilon
    Fraction(1, 2)
    """
    found = {}
    for account, own in by_account(receipts).items():
        spent = least_total([receipt.spend for receipt in own], delta)
        found[account] = Guarantee(
            epsilon=Fraction(spent.epsilon),
            delta=spent.delta,
            unit=unit,
            adjacency=adjacency,
            trust=trust,
            accountant=spent.accountant,
            caveats=caveats,
            simulation=any(receipt.simulated for receipt in own),
        )
    return found


def group_guarantee(claim: Guarantee, receipts: Sequence[Receipt], size: int) -> Guarantee:
    """Group privacy: the guarantee for any ``size`` units together, such as a family, of the account that paid most.

    >>> from tacit.core.spend import Pure
    >>> paid = [Receipt("ada", "r", "labels", Pure("1/4"), "system", 1, "")]
    >>> given = {"unit": Unit(), "adjacency": Adjacency.REPLACE_ONE, "trust": Trust.CENTRAL}
    >>> group_guarantee(guarantees_from(paid, delta=Fraction(0), **given)["ada"], paid, 3).epsilon
    Fraction(3, 4)
    """
    count = whole(size, "size")
    totals = [
        least_total([group(receipt.spend, count) for receipt in own], claim.delta)
        for own in by_account(receipts).values()
    ]
    spent = max(totals, key=lambda each: (each.epsilon, each.delta))
    if spent.epsilon == math.inf:
        raise InvalidInput(f"no epsilon is proven for {count} together at delta = {claim.delta}: allow a larger delta")
    grouped = replace(claim, epsilon=Fraction(spent.epsilon), delta=spent.delta, accountant=spent.accountant)
    return grouped.with_caveat(f"epsilon and delta are for any {count} of those protected together")


def weakest(claims: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """The weakest of the accounts' guarantees; without differential privacy, the largest probability of exposure."""
    return max(claims.values(), key=lambda each: (getattr(each, "epsilon", each.delta), each.delta))
