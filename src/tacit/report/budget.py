"""What was spent and what is left: of a run from its receipts, of a ledger from its accounts and their payments.

A ledger is one page for its operator. Nothing in it depends on a record: a charge is known before anything is drawn. It
is still the operator's page, for purposes and names of requests are in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Any

from tacit.accounting.compose import least_total, total
from tacit.core import Balance, Guarantee, InvalidInput, Rule, Spend, decimal, spend_in_words
from tacit.core.places import Place, ledger_place
from tacit.ledger import inspected
from tacit.ledger.entries import Payment
from tacit.report import svg
from tacit.report.html import Markup, cards, document, pair, table
from tacit.runs.folders import Record
from tacit.runs.payment import by_account

__all__ = [
    "Book",
    "account_rows",
    "ledger_page",
    "ledger_statement",
    "read_book",
    "require_payer",
    "running_totals",
    "spent_section",
]

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
    >>> file = Path(tempfile.mkdtemp()) / "main.ledger"
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
            count, digest, ledger.stale_reason(),
        )  # fmt: skip


def require_payer(book: Book, record: Record) -> None:
    """Refuse a ledger that paid nothing of a run; where every holder has a ledger, one of them is enough."""
    for account, receipts in by_account(record.receipts).items():
        paid = {each.receipt.request for each in book.payments.get(account, ())}
        if not paid.isdisjoint(each.request for each in receipts):
            return
    raise InvalidInput(f"{book.name}: did not pay for this run; give the ledger that did")


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
    dates = {} if book is None else {each.receipt.request: each.at for each in book.payments.get(most, ())}
    days = [dates.get(each.request, "")[:16].replace("T", " ") for each in paid[most]]
    rows = [(place, f"{spent:.6g}", days[place - 1]) if any(days) else (place, f"{spent:.6g}")
            for place, spent in running]  # fmt: skip
    whom = f"account “{most}”" + ("" if len(paid) == 1 else f", which paid most of {len(paid)}")
    spent = f"ε = {decimal(claim.epsilon)} at δ = {decimal(claim.delta)}, by {claim.accountant}"
    shown = f"<p>This run spent {escape(spent)}, of {escape(whom)}.</p>"
    # One payment needs no chart of its own.
    if len(running) > 1 or ceiling is not None:
        shown += pair(
            svg.steps([spent for _, spent in running], ceiling, "payments", "ε spent"),
            table(("after payment", "ε spent", *(("paid at (UTC)",) if any(days) else ())), rows),
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


_FORMAT = "tacit ledger statement 1"
_MOST_ACCOUNTS, _MOST_PAYMENTS = 30, 200
_HEADS = ("account", "ceiling ε", "at δ", "spent ε", "left ε", "", "payments", "protects")


def ledger_statement(book: Book) -> dict[str, Any]:
    """A ledger as JSON values: every account with its ceiling, spent and remaining budget. Versioned."""
    return {
        "format": _FORMAT,
        "ledger": book.name,
        "entries": book.entries,
        "head": book.digest,
        "may_pay": book.doubt is None,
        "accounts": {
            name: {
                "ceiling": balance.ceiling.to_json(),
                "spent_epsilon": balance.spent_shown,
                "left_epsilon": balance.remaining_shown,
                "accountant": balance.spent.accountant,
                "payments": balance.payments,
            }
            for name, balance in book.balances.items()
        },
    }


def ledger_page(book: Book) -> str:
    """The page of a ledger, as HTML.

    >>> page = ledger_page(Book("main.ledger", {}, {}, 1, "c0ffee", None))
    >>> "main.ledger" in page, "<section id='accounts'>" in page
    (True, True)
    """
    payments = sum(balance.payments for balance in book.balances.values())
    doubt = (
        ""
        if book.doubt is None
        else f"<p class='warning'>This is not the ledger that was last used here, so jobs are refused: "
        f"{escape(book.doubt)}.</p>"
    )
    header = (
        f"<p class='kind'>Tacit ledger report</p><h1>{escape(book.name)}</h1>"
        "<p>What may be spent on private records, what was spent, and what is left. For the operator: it contains "
        "purposes and names of requests.</p>"
        + doubt
        + cards(
            [
                ("Accounts", str(len(book.balances)), "each with a ceiling that no job can raise"),
                ("Payments", f"{payments:,}", "each before anything was drawn"),
                ("Entries", f"{book.entries:,}", "in a chain of digests"),
                ("Head", book.digest[:12], "store it elsewhere: it authenticates all entries before it"),
            ]
        )
    )
    parts = [("accounts", "Accounts", _accounts(book))]
    shown = list(book.balances.items())[:_MOST_ACCOUNTS]
    parts += [
        (f"account-{place}", name, _account(balance, book.payments[name]))
        for place, (name, balance) in enumerate(shown, start=1)
        if balance.payments
    ]
    return document(f"Tacit ledger report: {book.name}", header, parts, ledger_statement(book))


def _accounts(book: Book) -> str:
    left = len(book.balances) - _MOST_ACCOUNTS
    more = f"<p>The payments of {left} more are shown by <code>tacit ledger show</code>.</p>" if left > 0 else ""
    return table(_HEADS, account_rows(book)) + more


def _account(balance: Balance, payments: Sequence[Payment]) -> str:
    ceiling = balance.ceiling
    running = running_totals(
        [each.receipt.spend for each in payments], ceiling.delta, planned=ceiling.rule is Rule.PLANNED
    )
    rows = [
        (
            each.receipt.sequence,
            each.at[:16].replace("T", " "),
            each.receipt.purpose,
            spend_in_words(each.receipt.spend),
            each.receipt.request,
        )
        for each in payments[-_MOST_PAYMENTS:]
    ]
    left = len(payments) - _MOST_PAYMENTS
    earlier = f"<p>{left} earlier ones are in <code>tacit ledger export</code>.</p>" if left > 0 else ""
    numbers = table(
        ("after payment", "on", "ε spent"),
        [(place, payments[place - 1].at[:10], f"{spent:.6g}") for place, spent in running],
    )
    return (
        f"<p>{escape(balance.in_words[:1].upper() + balance.in_words[1:])}. Ceiling: {escape(str(ceiling))}.</p>"
        + pair(
            svg.steps([spent for _, spent in running], float(ceiling.epsilon), "payments", "ε spent"), numbers,
            f"Spent after each payment, at δ = {decimal(ceiling.delta)}; the dashed line is the ceiling.",
        )
        + table(("entry", "time (UTC)", "purpose", "spend", "request"), rows) + earlier
    )  # fmt: skip
