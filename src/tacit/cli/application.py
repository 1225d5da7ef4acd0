"""All commands together, and the one place where errors become exit codes."""

from __future__ import annotations

import errno
import sys

import typer
from rich.console import Console
from rich.text import Text

from tacit.cli.aloud import warnings_aloud
from tacit.cli.audit import audit
from tacit.cli.bench import app as bench
from tacit.cli.demo import demo
from tacit.cli.distill import distill
from tacit.cli.federation import app as federation
from tacit.cli.ledger import app as ledger
from tacit.cli.plan import plan
from tacit.cli.screen import flowing, speak_plainly
from tacit.core.errors import InvalidInput, TacitError
from tacit.version import __version__

__all__ = ["app", "main"]

WRONG_NAME = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.ELOOP)

app = typer.Typer(
    name="tacit",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help=flowing("""Pass on what records know without giving the records away.

Holders have labeled private records; you have unlabeled public data. Tacit labels the public data under a
differential-privacy guarantee and trains a student model on it.

Start with [bold]tacit demo[/bold]. Then, on your own files:

tacit distill --private records.csv --public samples.csv --label diagnosis --classes ill,well --epsilon 1

For a budget that survives runs and refuses when it is spent, open a ledger: [bold]tacit ledger open --help[/bold]."""),
    epilog="Exit codes: 0 done, 1 the run failed, 2 wrong use (a parameter, a file, a column).",
)
for command in (demo, distill, plan, audit):
    app.command(help=flowing(command.__doc__ or ""))(command)
app.add_typer(bench, name="bench")
app.add_typer(ledger, name="ledger")
app.add_typer(federation, name="federation")


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"tacit {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Options that stand before a command."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 a failed run, 2 wrong use; an error is one message, no traceback."""
    speak_plainly()
    try:
        with warnings_aloud():
            app(arguments)
    except InvalidInput as error:
        _fail(str(error), 2)
    except TacitError as error:
        _fail(str(error), 1)
    except OSError as error:
        # What no part of Tacit has explained: a name too long, a folder that may not be looked into.
        what = f"{error.filename}: " if error.filename is not None else ""
        _fail(f"{what}{error.strerror or error}", 2 if error.errno in WRONG_NAME else 1)
    except KeyboardInterrupt:
        _fail("stopped", 130)


def _fail(message: str, code: int) -> None:
    # Text, not markup: a file may be called [bold].
    Console(stderr=True, soft_wrap=True).print(Text.assemble(("error:", "bold red"), f" {message}"))
    sys.exit(code)
