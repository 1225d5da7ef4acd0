"""``tacit ui``: a live view of a folder in one's own browser."""

from __future__ import annotations

import secrets
from pathlib import Path

import typer
from rich.text import Text

from tacit.cli.screen import console
from tacit.core.errors import InvalidInput, TacitError, listed
from tacit.core.places import LedgerUrl, ledger_place

__all__ = ["ui_command"]


def ui_command(
    folder: Path = typer.Argument(Path(), help="The folder with runs and ledgers.", show_default="this one"),
    port: int = typer.Option(0, min=0, max=65535, help="The port on this machine; 0 for a free one."),
    ledger: list[str] = typer.Option([], help="A ledger on a server to show as well: postgresql://…"),
) -> None:
    """Show runs, running jobs, ledgers and a planning form in your browser.

    It listens on this machine only, and changes nothing. The printed address contains a random token: only who has the
    address can see the folder's runs and ledgers. Stop it with Ctrl-C.

    Example: tacit ui runs
    """
    if not folder.is_dir():
        raise InvalidInput(f"{listed([str(folder)])}: no such folder")
    places = [ledger_place(each) for each in ledger]
    urls = [each for each in places if isinstance(each, LedgerUrl)]
    if files := [str(each) for each in places if not isinstance(each, LedgerUrl)]:
        raise InvalidInput(
            f"{listed(files)}: a ledger in a file is shown by its folder; --ledger names one on a server"
        )
    console.print(f"[dim]looking into {folder.absolute().name or '/'}/[/dim]")
    try:
        from tacit.ui.service import HOST, listening, serve_view
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise InvalidInput("the live view needs an extra: pip install 'tacit[ui]'") from None
    try:
        opened = listening(port)
    except OSError as error:
        raise TacitError(f"port {port} cannot be used ({error.strerror}); choose another with --port") from None
    token = secrets.token_urlsafe(32)
    with opened:
        address = f"http://{HOST}:{opened.getsockname()[1]}/?token={token}"
        console.print(Text.assemble(("open", "bold"), f"       {address}"), soft_wrap=True)
        console.print(f"[dim]shows {folder.absolute().name or '/'}/ to this machine only; Ctrl-C ends it[/dim]")
        serve_view(folder.absolute(), opened, token, urls)
