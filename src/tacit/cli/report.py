"""``tacit report``: a run or a ledger as one HTML page, and the run's statement for programs and registries.

``tacit ui`` is a live view of a folder in one's own browser.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from tacit.cli.runs import found_record, samples_for
from tacit.cli.screen import console, show_reading
from tacit.core import InvalidInput, TacitError, listed
from tacit.core.places import LedgerUrl, ledger_place

if TYPE_CHECKING:
    from tacit.report.measured import Measured
    from tacit.runs.folders import Record

__all__ = ["report_command", "ui_command"]

LEDGER_START = b"SQLite format 3\0"


def report_command(
    place: str = typer.Argument(
        ...,
        help="A run folder, as 'tacit distill' writes it, or a ledger: a file, or postgresql://…",
        show_default=False,
        metavar="RUN|LEDGER",
    ),
    out: Path | None = typer.Option(
        None, help="The page to write; report.html in the run folder, or LEDGER.html, if left out."
    ),
    test: Path | None = typer.Option(
        None, help="Samples with known labels: confusion and reliability of the student. Computed without noise."
    ),
    label: str | None = typer.Option(
        None, help="With --test: the column with the true labels. Folders of images have none."
    ),
    ledger: str | None = typer.Option(None, help="The ledger that paid: also show what its accounts have left."),
    statement: Path | None = typer.Option(None, help="Also write the statement for programs: .json."),
    nist: Path | None = typer.Option(None, help="Also write answers to the questions of NIST SP 800-226: .md."),
    registry: Path | None = typer.Option(
        None, help="Also write an entry for the public registry of deployments: .json; a draft to be completed."
    ),
) -> None:
    """Write a run or a ledger as one HTML page, the privacy statement first.

    The page opens offline, loads nothing from the network, and contains its statement as JSON. A run's page has
    released values only, so that it may be published with the run; figures of --test are marked, since they are
    computed without noise. A ledger's page is for its operator.

    Example: tacit report first-run

    Example: tacit report first-run --test tested.csv --label diagnosis --out tested.html

    Example: tacit report first-run --statement first.json --nist first.md --registry entry.json

    Example: tacit report main.ledger --out site.html
    """
    where = ledger_place(place)
    if isinstance(where, LedgerUrl) or _is_ledger(where):
        _report_ledger(where, out, {"--test": test, "--label": label, "--ledger": ledger, "--statement": statement,
                                    "--nist": nist, "--registry": registry})  # fmt: skip
        return
    record = found_record(where)
    page = _page(where / "report.html", out)
    extra = [
        (file, kind)
        for file, kind in ((statement, ".json"), (nist, ".md"), (registry, ".json"))
        if file is not None and _new(file, kind)
    ]
    if len({file.absolute() for file, _ in extra}) < len(extra):
        raise InvalidInput("--statement, --nist and --registry name the same file: choose different ones")
    if label is not None and test is None:
        raise InvalidInput("--label names a column of --test: give --test, too")
    show_reading(place)
    from tacit.report.budget import read_book, require_payer
    from tacit.report.card import statement as stated
    from tacit.report.exports import nist_answers, registry_entry
    from tacit.report.page import report_page

    said: dict[str, Any] = stated(record)
    files: list[tuple[Path, str]] = []
    if statement is not None:
        files.append((statement, _as_json(said)))
    if nist is not None:
        files.append((nist, nist_answers(said)))
    if registry is not None:
        files.append((registry, _as_json(registry_entry(said))))
    measured = None if test is None else _measured(record, test, label)
    book = None if ledger is None else read_book(ledger)
    if book is not None:
        require_payer(book, record)
    _write([(page, report_page(record, measured, book)), *files])


def _report_ledger(place: Path | LedgerUrl, out: Path | None, given: dict[str, object]) -> None:
    if wrong := [name for name, value in given.items() if value is not None]:
        raise InvalidInput(f"{wrong[0]} is about a run, and {listed([str(place)])} is a ledger: leave it out")
    if isinstance(place, LedgerUrl) and out is None:
        raise InvalidInput("a ledger on a server has no folder for its page: give --out")
    page = _page(place.with_name(place.name + ".html") if isinstance(place, Path) else Path(), out)
    show_reading(place)
    from tacit.report.budget import ledger_page, read_book

    _write([(page, ledger_page(read_book(place)))])


def _is_ledger(place: Path) -> bool:
    try:
        with place.open("rb") as opened:
            return opened.read(len(LEDGER_START)) == LEDGER_START
    except OSError:
        return False


def _page(default: Path, out: Path | None) -> Path:
    """The page's path: the default one may be overwritten, any other must be new."""
    if out is not None:
        _new(out, ".html")
    return default if out is None else out


def _new(file: Path, kind: str) -> bool:
    shown = listed([str(file)])
    if file.suffix.lower() != kind:
        what = {".html": "a page", ".json": "it", ".md": "it"}[kind]
        raise InvalidInput(f"{shown}: {what} is written as {kind}")
    if file.exists():
        raise InvalidInput(f"{shown}: exists already; choose another file")
    if not file.absolute().parent.is_dir():
        raise InvalidInput(f"{shown}: there is no such folder")
    return True


def _write(files: list[tuple[Path, str]]) -> None:
    from tacit.core.files import write_file

    for file, content in files:
        write_file(file, content.encode())
        about = ": open it in a browser" if file.suffix == ".html" else ""
        console.print(Text.assemble(("written", "bold"), f"    {file}{about}"), soft_wrap=True)


def _as_json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _measured(record: Record, test: Path, label: str | None) -> Measured:
    """The student's performance on samples with known labels."""
    from tacit.report.measured import measure
    from tacit.runs.run import load

    # Folders of images are named after the classes.
    samples, truth = samples_for(record, test, label, labeled=test.is_dir())
    if truth is None:
        raise InvalidInput(f"{listed([str(test)])}: name the column with the true labels by --label")
    finished = load(record.folder)
    if finished.labels.ndim == 2:
        raise InvalidInput("--test needs samples with one label each, and this run is multi-label")
    return measure(finished.student, samples, truth.tolist(), finished.classes, test.name[:80])


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
