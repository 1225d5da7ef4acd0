"""Commands that are imported when they are called: help that lists them reads one line for each, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import click
import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from tacit.cli.screen import flowing

__all__ = ["Entry", "lazy_group"]


@dataclass(frozen=True)
class Entry:
    """A command: where it is found, as ``module:attribute``, what it does in a line, and its own settings."""

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
            alone.command(name=name, help=flowing(found.__doc__ or ""), **self.settings)(found)
            command = get_command(alone)
        command.name = name
        return command


def lazy_group(entries: dict[str, Entry]) -> type[TyperGroup]:
    """A group of these commands, in this order.

    >>> group = lazy_group({"plan": Entry("tacit.cli.plan:plan", "Say what to expect.")})(name="tacit")
    >>> group.get_command(None, "plan").get_short_help_str()
    'Say what to expect.'
    """

    class Lazy(TyperGroup):
        """Knows its commands by name; loads the one that is called."""

        def list_commands(self, ctx: click.Context | None) -> list[str]:
            """Every name."""
            return list(entries)

        def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:
            """What a list of commands shows of one."""
            return click.Command(cmd_name, help=entries[cmd_name].line) if cmd_name in entries else None

        def resolve_command(
            self, ctx: click.Context, args: list[str]
        ) -> tuple[str | None, click.Command | None, list[str]]:
            """The command that is called, or the error that suggests the nearest."""
            name = args[0]
            if name in entries:
                return name, entries[name].load(name), args[1:]
            if not ctx.resilient_parsing:
                from tacit.core.errors import nearest

                meant = f" Did you mean '{close}'?" if (close := nearest(name, entries)) else ""
                ctx.fail(f"No such command '{name[:80]}'.{meant}")
            return None, None, args

    return Lazy
