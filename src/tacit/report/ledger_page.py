"""A ledger as one page for its operator: the ceiling, spent and remaining budget of each account, and its payments.

Nothing in it depends on a record: a charge is known before anything is drawn. It is still for the operator only,
because it contains purposes and request ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from tacit.core.account import Balance, Rule
from tacit.core.guarantee import decimal
from tacit.core.spend import spend_to_json
from tacit.ledger.entries import Payment
from tacit.report import svg
from tacit.report.budget import Book, account_rows, running_totals
from tacit.report.html import cards, document, pair, table

__all__ = ["ledger_page", "ledger_statement"]

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

    >>> page = ledger_page(Book("site.ledger", {}, {}, 1, "c0ffee", None))
    >>> "site.ledger" in page, "<section id='accounts'>" in page
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
            _spend(each),
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


def _spend(payment: Payment) -> str:
    spend = spend_to_json(payment.receipt.spend)
    return f"{spend['kind']}: " + ", ".join(f"{name} {value}" for name, value in spend.items() if name != "kind")
