"""``tacit ledger``: open a holder's accounts, show their payments, and check that no entry was altered."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import typer
from rich.markup import escape
from rich.text import Text

from tacit.cli.screen import console, show_rows
from tacit.core import Change, InvalidInput, decimal, spend_in_words
from tacit.core.places import LedgerUrl, ledger_place
from tacit.ledger import inspected, open_ledger
from tacit.ledger.copying import copy_ledger
from tacit.ledger.entries import Entry
from tacit.ledger.heads import accept_head
from tacit.ledger.places import occupied
from tacit.ledger.policy import read_policy
from tacit.ledger.policy_file import POLICY_EXAMPLE
from tacit.ledger.sqlite import migrate
from tacit.ledger.stored import StoredLedger
from tacit.ledger.verify import acceptances, export_to, lines, verify

__all__ = ["ledger_app"]

ledger_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""Budgets that survive runs: accounts that pay for releases, up to a ceiling that no job can raise.

An operator writes a policy and opens a ledger with it; jobs name the ledger and an account. Each release is paid for \
before it is drawn. A repeated request gets the release that it paid for, and pays nothing.""",
)

LEDGER = typer.Argument(..., help="The ledger: a file, or postgresql://…", show_default=False)


@ledger_app.command(
    "open",
    help=f"""Create a ledger from the operator's policy, or apply a changed policy to one that exists.

A policy file looks like this:

\b
{escape(POLICY_EXAMPLE)}
Always list every account. Changes are appended to the ledger and shown. A ceiling may be changed here and \
nowhere else; unit and adjacency are fixed by an account's first payment. With delta above 0 and rule adaptive an \
account's ceiling can be lowered but not raised after its first payment: open a new account instead.

Keep the ledger where only the operator may write: whoever can write the file can replace it. Its head is kept in the \
state folder (TACIT_STATE, by default ~/.local/state/tacit), so that a restored older copy is detected. A \
ledger of an earlier format is verified and converted.

Example: tacit ledger open main.ledger --policy policy.toml""",
)
def open_ledger_command(
    ledger: str = LEDGER,
    policy: Path = typer.Option(..., "--policy", help="The policy, a TOML file.", show_default=False),
) -> None:
    """Create a ledger, or apply a changed policy."""
    ceilings, where = read_policy(policy), ledger_place(ledger)
    if occupied(where):
        if isinstance(where, Path) and migrate(where):
            console.print(Text.assemble(("converted", "bold"), f"  {where} to the present format"), soft_wrap=True)
        with closing(open_ledger(where)) as book:
            _show_changes(book.apply(ceilings))
    else:
        open_ledger(where, ceilings).close()
        console.print(Text.assemble(("created", "bold"), f"  {where}"), soft_wrap=True)
        _show_changes([(account, None, ceiling) for account, ceiling in ceilings.items()])


@ledger_app.command(
    "show",
    help="""What each account may spend, has spent and has left, and by which accountant.

With an account's name, its payments too. Reading changes nothing and costs nothing.

Example: tacit ledger show main.ledger clinic""",
)
def show_ledger(
    ledger: str = LEDGER,
    account: str | None = typer.Argument(None, help="Only this account, with its payments.", show_default=False),
) -> None:
    """Show the accounts, or one account's payments."""
    with inspected(ledger) as book:
        _show_doubt(book)
        if account is not None:
            _show_account(book, account)
            return
        columns = ("account", "ceiling ε", "at δ", "spent ε", "left ε", "payments", "accountant")
        rows = []
        for name in book.accounts():
            balance = book.balance(name)
            ceiling = (decimal(balance.ceiling.epsilon), decimal(balance.ceiling.delta))
            spent = (balance.spent_shown, balance.remaining_shown, str(balance.payments), balance.spent.accountant)
            rows.append((name, *ceiling, *spent))
        show_rows(columns, rows, folding=("account", "accountant"))


@ledger_app.command(
    "verify",
    help="""Check that no entry was edited, removed, reordered or inserted, from the first to the last.

This finds what was changed in the file, cut off its end, or damaged. Whoever can write the file could also make a \
whole new one or restore an old copy; only a digest kept elsewhere finds that. Every receipt carries one, and so does \
the last line of an export: give it with --head, and the ledger must still contain it. A copy that is intact but \
not the one last used here is reported, with exit code 1.

Example: tacit ledger verify main.ledger --head DIGEST""",
)
def verify_ledger(
    ledger: str = LEDGER,
    head: str | None = typer.Option(None, "--head", help="A digest kept elsewhere.", show_default=False),
) -> None:
    """Check the chain; exit 1 and name the first bad entry if it is broken."""
    problems = verify(ledger, head)
    if problems:
        for problem in problems:
            console.print(Text.assemble(("altered", "bold red"), f"  {problem}"), soft_wrap=True)
        raise typer.Exit(1)
    for entry in acceptances(ledger):
        console.print(Text.assemble(("accepted", "bold"), f"  {_decision(entry)}"), soft_wrap=True)
    with inspected(ledger) as book:
        count, digest = book.head()
        console.print(
            Text.assemble(("whole", "bold green"), f"  {count} entries, head digest {digest}"), soft_wrap=True
        )
        if _show_doubt(book):
            raise typer.Exit(1)


@ledger_app.command(
    "accept",
    help="""Continue with a ledger that was restored, copied or forked, after a person has checked it.

After each payment the ledger's head is also written into the state folder (TACIT_STATE, by default \
~/.local/state/tacit). A ledger that does not contain that head is refused: budget may have been spent that this file \
does not know of. Find the newest copy: show and verify read every copy and say which one it is. To continue with \
this one, stop the jobs, accept it, and lower its ceilings with tacit ledger open by what the lost payments may have \
been; the decision, its reason and what was found become an entry of the ledger.

Example: tacit ledger accept main.ledger --reason "disk replaced, copy of last night\"""",
)
def accept_ledger(
    ledger: str = LEDGER,
    reason: str = typer.Option(..., "--reason", help="Why the ledger continues with this copy.", show_default=False),
) -> None:
    """Record a person's decision in the ledger."""
    console.print(Text.assemble(("accepted", "bold"), f"  {_decision(accept_head(ledger, reason))}"), soft_wrap=True)


@ledger_app.command(
    "export",
    help="""Write every entry as a line of JSON: for an auditor, or to keep its last digest elsewhere.

An entry's digest is SHA-256 over the previous digest, its sequence, kind and body, joined by newlines, the body as \
JSON with sorted keys and no spaces. Released values are not exported, only their digests.

Example: tacit ledger export main.ledger --out site.jsonl""",
)
def export_ledger(
    ledger: str = LEDGER,
    out: Path | None = typer.Option(None, "--out", help="A new file instead of the screen.", show_default=False),
) -> None:
    """Export the entries."""
    if out is None:
        for line in lines(ledger):
            typer.echo(line)
        return
    count, digest = export_to(ledger, out)
    console.print(Text.assemble(("written", "bold"), f"  {out}: {count} entries, head digest {digest}"), soft_wrap=True)


@ledger_app.command(
    "copy",
    help="""Move a ledger to another place, a file or a PostgreSQL server; every entry and digest stays as it is.

The source and the copy are verified completely, and a failure leaves nothing. An existing target is not overwritten. \
An entry of the copy names its source, so the copy is the newer one and the source pays no more on this machine: \
otherwise two ledgers could spend one budget. For a backup, copy the file or use the server's own tools.

Example: tacit ledger copy main.ledger postgresql://owner@db.clinic.example/budget""",
)
def copy_ledger_command(
    source: str = typer.Argument(..., help="The ledger: a file, or postgresql://…", show_default=False),
    target: str = typer.Argument(..., help="Where it goes: a new file, or an empty database.", show_default=False),
) -> None:
    """Move a ledger to another place."""
    count, digest = copy_ledger(source, target)
    line = f"  {ledger_place(target)}: {count} entries, head digest {digest}"
    console.print(Text.assemble(("copied", "bold"), line), soft_wrap=True)


@ledger_app.command(
    "roles",
    help="""Make an owner, a writer and a reader of a ledger on a PostgreSQL server, and give the ledger to the owner.

The writer adds payments and releases; the server refuses it every change of what is written, every removal, and every \
ceiling. The owner changes ceilings and accepts copies. The reader reads. None of them logs in: grant a role to the \
user of each node or person (GRANT tacit_budget_writer TO node_north). Run it as a user who may create roles.

Example: tacit ledger roles postgresql://postgres@db.clinic.example/budget --print""",
)
def roles_command(
    ledger: str = typer.Argument(..., help="The ledger: postgresql://…", show_default=False),
    prefix: str | None = typer.Option(None, help="What the roles' names begin with; tacit_DATABASE if left out."),
    only_print: bool = typer.Option(False, "--print", help="Print the SQL and change nothing."),
) -> None:
    """Make the roles of a ledger on a server."""
    where = ledger_place(ledger)
    if not isinstance(where, LedgerUrl):
        raise InvalidInput(f"{str(where)[:80]}: a file has its permissions; roles are for a ledger on a server")
    from tacit.ledger.postgres import make_roles

    for statement in make_roles(where, prefix, only_print):
        typer.echo(f"{statement};")


def _decision(entry: Entry) -> str:
    content = entry.content
    return f"entry {entry.sequence}, {content['at'][:16].replace('T', ' ')}: {content['reason']} ({content['finding']})"


def _show_doubt(book: StoredLedger) -> bool:
    """Report that a copy cannot pay, and why."""
    doubt = book.stale_reason()
    if doubt is not None:
        line = (
            f"  not the ledger that was last used here, so jobs are refused: {doubt}. To continue with it, use `tacit "
            f"ledger accept {book.name}`"
        )
        console.print(Text.assemble(("copy", "bold yellow"), line), soft_wrap=True)
    return doubt is not None


def _show_changes(changes: Sequence[Change]) -> None:
    if not changes:
        console.print("the policy is already in force; nothing changed")
    for account, before, after in changes:
        if before is None:
            line = Text.assemble(("opened", "bold"), f"   {account}: {after}")
        else:
            line = Text.assemble(("changed", "bold"), f"  {account}: {after} (was {before})")
        console.print(line, soft_wrap=True)


def _show_account(book: StoredLedger, account: str) -> None:
    balance = book.balance(account)
    for name, words in (("ceiling", str(balance.ceiling)), ("balance", balance.in_words)):
        console.print(Text.assemble((name, "bold"), f"  {words}"), soft_wrap=True)
    rows = []
    for payment in book.payments(account):
        receipt = payment.receipt
        # The date and the minute; the export has the second.
        time = payment.at[:16].replace("T", " ")
        what = (receipt.request, receipt.purpose, spend_in_words(receipt.spend), receipt.randomness)
        rows.append((str(receipt.sequence), time, *what, "yes" if payment.kept else "no"))
    columns = ("entry", "time", "request", "purpose", "spend", "randomness", "kept")
    show_rows(columns, rows, folding=("request", "purpose", "spend"))
