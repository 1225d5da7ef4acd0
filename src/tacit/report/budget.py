"""Spent and remaining budget: of a run from its receipts, of a ledger from its accounts and payments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from pathlib import Path

from tacit.accounting.compose import least_total, total
from tacit.core.account import Balance
from tacit.core.guarantee import Guarantee, decimal
from tacit.core.places import Place, ledger_place
from tacit.core.spend import Spend
from tacit.ledger import inspected
from tacit.ledger.entries import Payment
from tacit.report import svg
from tacit.report.html import Markup, pair, table
from tacit.runs.folders import Record
from tacit.runs.payment import by_account

__all__ = ["Book", "account_rows", "read_book", "running_totals", "spent_section"]

# Composition takes a while, and a chart with more steps shows nothing more.
_MOST_STEPS, _MOST_ACCOUNTS = 12, 40


@dataclass(frozen=True)
class Book:
    """A snapshot of a ledger: every account's balance and payments, its head, and whether it may pay."""

    name: str
    balances: Mapping[str, Balance]
    payments: Mapping[str, Sequence[Payment]]
    entries: int
    digest: str
    doubt: str | None


def read_book(place: Place) -> Book:
    """A snapshot of a ledger, also of a copy that cannot pay. Nothing is changed.

    >>> import tempfile
    >>> from tacit.core.account import Ceiling
    >>> file = Path(tempfile.mkdtemp()) / "site.ledger"
    >>> from tacit.ledger import open_ledger
    >>> open_ledger(file, {"clinic": Ceiling(1)}).close()
    >>> read_book(file).balances["clinic"].remaining_shown
    '1'
    """
    where = ledger_place(place)
    with inspected(where) as ledger:
        names = list(ledger.accounts())
        count, digest = ledger.head()
        return Book(
            where.name if isinstance(where, Path) else str(where),
            {name: ledger.balance(name) for name in names}, {name: ledger.payments(name) for name in names},
            count, digest, ledger.doubt(),
        )  # fmt: skip


def running_totals(spends: Sequence[Spend], delta: Fraction, planned: bool) -> list[tuple[int, float]]:
    """The total spent after some numbers of payments: at most twelve, including the last.

    >>> from tacit.core.spend import Pure
    >>> running_totals([Pure("1/2"), Pure("1/4")], Fraction(0), planned=True)
    [(1, 0.5), (2, 0.75)]
    """
    count = len(spends)
    places = sorted({math.ceil(count * part / _MOST_STEPS) for part in range(1, _MOST_STEPS + 1)}) if count else []
    compose = least_total if planned else total
    return [(place, float(compose(spends[:place], delta).epsilon)) for place in places if place]


def account_rows(book: Book) -> list[tuple[object, ...]]:
    """A row per account: its ceiling, spent and remaining budget, a bar, payments, and the unit of privacy."""
    rows: list[tuple[object, ...]] = []
    for name, balance in book.balances.items():
        ceiling = balance.ceiling
        spent = float(balance.spent.epsilon)
        bar = Markup(svg.share(min(spent, float(ceiling.epsilon)), float(ceiling.epsilon)))
        rows.append(
            (name, decimal(ceiling.epsilon), decimal(ceiling.delta), balance.spent_shown, balance.remaining_shown, bar,
             balance.payments, f"{ceiling.unit.in_words}, {ceiling.adjacency}")
        )  # fmt: skip
    return rows


def spent_section(record: Record, book: Book | None) -> str:
    """What this run spent, payment by payment, and the remaining budget if its ledger is given."""
    claims = {name: each for name, each in record.claims.items() if isinstance(each, Guarantee)}
    paid = {name: own for name, own in by_account(record.receipts).items() if name in claims}
    if not paid:
        return "<p>No budget of differential privacy was spent: this run has no such guarantee.</p>"
    most = max(paid, key=lambda name: (claims[name].epsilon, name))
    claim = claims[most]
    running = running_totals([each.spend for each in paid[most]], claim.delta, planned=True)
    ceiling = None if book is None or most not in book.balances else float(book.balances[most].ceiling.epsilon)
    rows = [(place, f"{spent:.6g}") for place, spent in running]
    whom = f"account “{most}”" + ("" if len(paid) == 1 else f", which paid most of {len(paid)}")
    spent = f"ε = {decimal(claim.epsilon)} at δ = {decimal(claim.delta)}, by {claim.accountant}"
    shown = f"<p>This run spent {escape(spent)}, of {escape(whom)}.</p>"
    # One payment needs no chart of its own.
    if len(running) > 1 or ceiling is not None:
        shown += pair(
            svg.steps([spent for _, spent in running], ceiling, "payments", "ε spent"),
            table(("after payment", "ε spent"), rows),
            "Total spent by this run after each payment.",
        )
    others = ""
    if len(paid) > 1:
        listed = [(name, decimal(claims[name].epsilon), len(own)) for name, own in list(paid.items())[:_MOST_ACCOUNTS]]
        left = "" if len(paid) <= _MOST_ACCOUNTS else f"<p>{len(paid) - _MOST_ACCOUNTS} more are in run.json.</p>"
        others = (
            f"<details><summary>every account</summary>{table(('account', 'ε', 'payments'), listed)}{left}</details>"
        )
    return shown + others + _left(book, paid)


def _left(book: Book | None, paid: Mapping[str, object]) -> str:
    if book is None:
        return (
            "<p>What is left of an account is in its ledger: <code>tacit report LEDGER</code>, or "
            "<code>tacit report RUN --ledger LEDGER</code>.</p>"
        )
    own = [row for row in account_rows(book) if row[0] in paid]
    heads = ("account", "ceiling ε", "at δ", "spent ε", "left ε", "", "payments", "protects")
    return "<h3>What is left now</h3>" + table(heads, own)
