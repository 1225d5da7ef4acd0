"""All commands together, and the one place where errors become exit codes.

A command is imported when it is called: the help that lists all commands imports none of them.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import click
import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from tacit.cli.screen import flowing, printed_warnings, show_error, transliterate
from tacit.core import InvalidInput, TacitError
from tacit.core.errors import shortened
from tacit.version import __version__

__all__ = ["COMMANDS", "CommandEntry", "app", "lazy_group", "main"]


@contextmanager
def _shortening() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        told = error.format_message()
        if shortened(told) == told:
            raise
        raise click.UsageError(shortened(told), error.ctx) from None


@dataclass(frozen=True)
class CommandEntry:
    """A command: where it is found, as ``module:attribute``, what it does in one line, and its own settings."""

    place: str
    line: str
    settings: dict[str, Any] = field(default_factory=dict)

    def load(self, name: str) -> click.Command:
        """The command itself: its module is imported here and not before."""
        module, _, attribute = self.place.partition(":")
        found = getattr(import_module(module), attribute)
        if isinstance(found, typer.Typer):
            command: click.Command = get_group(found)
        else:
            alone = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
            kind = getattr(found, "command_class", None)
            alone.command(name=name, cls=kind, help=flowing(found.__doc__ or ""), **self.settings)(found)
            command = get_command(alone)
        command.name = name
        return command


def lazy_group(entries: dict[str, CommandEntry]) -> type[TyperGroup]:
    """A group of these commands, in this order.

    >>> group = lazy_group({"plan": CommandEntry("tacit.cli.plan:plan_command", "Say what to expect.")})(name="tacit")
    >>> group.get_command(None, "plan").get_short_help_str()
    'Say what to expect.'
    """

    class Lazy(TyperGroup):
        """Knows its commands by name; loads the one that is called."""

        def list_commands(self, ctx: click.Context | None) -> list[str]:
            """The names of all commands."""
            return list(entries)

        def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:
            """The command as it is shown in the list of commands."""
            return click.Command(cmd_name, help=entries[cmd_name].line) if cmd_name in entries else None

        def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
            """Parse the options before a command; errors show at most one line of what was typed."""
            with _shortening():
                return super().parse_args(ctx, args)

        def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401
            """Run the command; errors show at most one line of what was typed."""
            with _shortening():
                return super().invoke(ctx)

        def resolve_command(
            self, ctx: click.Context, args: list[str]
        ) -> tuple[str | None, click.Command | None, list[str]]:
            """The command that is called, or the error that suggests the nearest."""
            name = args[0]
            if name in entries:
                return name, entries[name].load(name), args[1:]
            if not ctx.resilient_parsing:
                from tacit.core import nearest

                meant = f" Did you mean '{close}'?" if (close := nearest(name, entries)) else ""
                ctx.fail(f"No such command '{name[:80]}'.{meant}")
            return None, None, args

    return Lazy


WRONG_NAME = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.ELOOP)

# In the order in which a new user needs them.
COMMANDS = {
    "demo": CommandEntry(
        "tacit.cli.demo:demo_command", "Label 500 public digits from 1,000 private ones, and train a student."
    ),
    "doctor": CommandEntry(
        "tacit.cli.doctor:doctor_command", "Show which parts and services are installed, and how to get the others."
    ),
    "plan": CommandEntry(
        "tacit.cli.plan:plan_command", "Forecast how many labels will be right, from public information only."
    ),
    "distill": CommandEntry(
        "tacit.cli.distill:distill_command",
        "Label public samples from private records, and train a student on them.",
    ),
    "init": CommandEntry("tacit.cli.init:init_command", "Look at your files, and write a commented recipe for them."),
    "run": CommandEntry("tacit.cli.distill:run_command", "Run a recipe: a file with the options of 'tacit distill'."),
    "resume": CommandEntry(
        "tacit.cli.distill:resume_command", "Resume a run that was killed or interrupted, and pay nothing twice."
    ),
    "show": CommandEntry(
        "tacit.cli.runs:show_command",
        "Describe a saved run: what was labeled, by which method, and what is guaranteed.",
    ),
    "report": CommandEntry(
        "tacit.cli.report:report_command",
        "Write a run or a ledger as one HTML page, the privacy statement first.",
    ),
    "ui": CommandEntry(
        "tacit.cli.report:ui_command", "Show runs, running jobs, ledgers and a planning form in your browser."
    ),
    "predict": CommandEntry("tacit.cli.runs:predict_command", "Label the samples of a file with a saved student."),
    "export": CommandEntry("tacit.cli.runs:export_command", "Export a student or the labels to other formats."),
    "ledger": CommandEntry(
        "tacit.cli.ledger:ledger_app",
        "Budgets that survive runs: accounts that pay for releases, up to a ceiling that no job can raise.",
    ),
    "federation": CommandEntry(
        "tacit.cli.federation:federation_app",
        "Distill over a federation: each node keeps its records, policy and ledger.",
    ),
    "audit": CommandEntry(
        "tacit.cli.audit:audit_command",
        "Estimate a mechanism's privacy loss from samples, and compare it with its claim.",
    ),
    # The experiments parse everything after this name themselves, --help included.
    "bench": CommandEntry(
        "tacit.cli.demo:bench_command",
        "Repeat the experiments of the papers and of the documentation; in a checkout only.",
        {"add_help_option": False, "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True}},
    ),
}

app = typer.Typer(
    name="tacit",
    cls=lazy_group(COMMANDS),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help=flowing("""Label public data from private records, with differential privacy.

Holders have labeled private records; you have unlabeled public data. Tacit labels the public data under a
differential-privacy guarantee and trains a student model on it.

Start with [bold]tacit demo[/bold]. Then, on your own files:

tacit distill --private records.csv --public samples.csv --label diagnosis --classes ill,well --epsilon 1

For a budget that survives runs and refuses when it is spent, open a ledger: [bold]tacit ledger open --help[/bold]."""),
    epilog="Exit codes: 0 done, 1 the run failed, 2 wrong use (a parameter, a file, a column).",
)


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
    transliterate()
    try:
        with printed_warnings():
            app(arguments)
    except InvalidInput as error:
        _fail(str(error), 2)
    except TacitError as error:
        _fail(str(error), 1)
    except OSError as error:
        # Errors without a message of Tacit's own: a name too long, a folder without read permission.
        what = f"{error.filename}: " if error.filename is not None else ""
        _fail(f"{what}{error.strerror or error}", 2 if error.errno in WRONG_NAME else 1)
    except KeyboardInterrupt:
        _fail("stopped", 130)


def _fail(message: str, code: int) -> None:
    show_error(message)
    sys.exit(code)
