"""``tacit doctor``: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import typer
from rich.text import Text

from tacit.cli.screen import show_rows
from tacit.version import __version__

__all__ = ["PartFinding", "doctor_command", "part_findings"]

# What each extra is for; what it needs is read from the installed package.
EXTRAS = {
    "torch": "networks as students, encoders for images",
    "federated": "nodes, shuffler and curator on machines of their own",
    "features": "UMAP, EfficientNet and MiniLM encoders",
    "tables": "Parquet, Arrow and Feather files",
    "images": "folders of image files",
    "export": "students as ONNX models",
    "mlflow": "runs in MLflow, with their statement",
    "fast": "faster counting of votes",
    "report": "pictures of queries",
    "ui": "the live view in a browser",
    "postgres": "a ledger on a PostgreSQL server",
    "ray": "records counted on a Ray cluster",
    "spark": "records counted on a Spark cluster",
    "services": "a PostgreSQL server for tests",
    "compare": "noisy SGD, to compare with",
    "dev": "tests, lint, types, docs",
}
PYTHON = (3, 11)
# Below this a run folder and a ledger may not fit.
LEAST_SPACE = 100 * 2**20
NAME = re.compile(r"[A-Za-z0-9._-]+")
EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")


@dataclass(frozen=True)
class PartFinding:
    """One check: ``here``, ``missing`` (an extra that is not installed) or ``wrong``."""

    what: str
    kind: str
    state: str
    said: str


def doctor_command(
    as_json: bool = typer.Option(False, "--json", help="Print what was found as JSON."),
    ledger: list[str] = typer.Option([], help="Also check this ledger: a file, or postgresql://…"),
) -> None:
    """Show which parts and services are installed, and how to get the others.

    Checks the core, every extra and its packages, the demo's data, the random generator, the folder with the heads of
    ledgers, and the programs that a federation starts. Reads no record, and opens no connection except to the given
    ledgers. The exit code is 1 if something is wrong; a missing extra is not wrong.

    Example: tacit doctor

    Example: tacit doctor --ledger postgresql://node@db.clinic.example/budget
    """
    found = [*part_findings(), *map(_ledger, ledger)]
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found], indent=2))
    else:
        style = {"here": "green", "missing": "yellow", "wrong": "bold red"}
        show_rows(
            ("what", "state", "said"),
            [(each.what, Text(each.state, style[each.state]), each.said) for each in found],
            folding=("said",),
        )
    if any(each.state == "wrong" for each in found):
        raise typer.Exit(1)


def part_findings() -> list[PartFinding]:
    """All findings that need no import of a part and no connection.

    >>> [each.what for each in part_findings()][:2]
    ['python', 'core']
    """
    needs = _needs()
    return [
        _python(),
        _packages("core", "core", "what every run needs", needs.get("", [])),
        *(_packages(extra, "extra", said, needs.get(extra, [])) for extra, said in EXTRAS.items()),
        _digits(),
        _benchmarks(),
        _randomness(),
        _state(),
        _space(),
        _program("flower", ("flower-superlink", "flower-supernode"), "starts a federation"),
        _program("chromium", ("chromium", "chromium-browser", "google-chrome"), "opens pages in tests"),
    ]


def _needs() -> dict[str, list[str]]:
    """The packages of every extra; those of the core under an empty name."""
    found: dict[str, list[str]] = {}
    for line in metadata.requires("tacit") or []:
        name, extra = NAME.match(line), EXTRA.search(line)
        if name is not None:
            found.setdefault(extra[1] if extra else "", []).append(name[0])
    return found


def _packages(what: str, kind: str, said: str, names: list[str]) -> PartFinding:
    versions, missing = [], []
    for name in sorted(set(names)):
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    if not names:
        return PartFinding(what, kind, "missing", f"{said}; this installation of Tacit does not know it")
    if not missing:
        return PartFinding(what, kind, "here", f"{said}: {', '.join(versions)}")
    get = "pip install tacit" if kind == "core" else f"pip install 'tacit[{what}]'"
    state = "wrong" if kind == "core" else "missing"
    return PartFinding(what, kind, state, f"{said}; not installed: {', '.join(missing)}. Get it by {get}")


def _python() -> PartFinding:
    said = f"Python {sys.version.split()[0]}, tacit {__version__}"
    if sys.version_info >= PYTHON:
        return PartFinding("python", "core", "here", said)
    return PartFinding("python", "core", "wrong", f"{said}; Tacit needs Python {PYTHON[0]}.{PYTHON[1]} or newer")


def _digits() -> PartFinding:
    try:
        there = any(file.name == "digits.csv.gz" for file in metadata.files("scikit-learn") or [])
    except metadata.PackageNotFoundError:
        there = False
    if there:
        return PartFinding("digits", "data", "here", "the demo's data, part of scikit-learn")
    return PartFinding(
        "digits", "data", "wrong", "the demo's data are not among scikit-learn's files; install it again"
    )


def _benchmarks() -> PartFinding:
    from tacit.cli.demo import BENCHMARKS

    if (BENCHMARKS / "experiments").is_dir():
        return PartFinding("benchmarks", "data", "here", "the experiments, which 'tacit bench' runs")
    return PartFinding("benchmarks", "data", "missing", "the experiments are in a checkout of Tacit's sources")


def _randomness() -> PartFinding:
    from tacit.core import SystemRandomness

    try:
        SystemRandomness().words(1)
    except (OSError, NotImplementedError) as error:
        return PartFinding("randomness", "service", "wrong", f"the system's random generator fails ({error})")
    return PartFinding("randomness", "service", "here", "the system's cryptographic random generator works")


def _state() -> PartFinding:
    from tacit.core import TacitError
    from tacit.ledger.heads import state_folder

    try:
        place = state_folder()
    except TacitError as error:
        return PartFinding("state", "service", "wrong", str(error)[:200])
    there = next(each for each in (place, *place.parents) if each.exists())
    if _writable(there):
        return PartFinding("state", "service", "here", f"ledgers keep their heads in {place} (TACIT_STATE)")
    return PartFinding("state", "service", "wrong", f"{there} cannot be written to; choose a folder by TACIT_STATE")


def _ledger(place: str) -> PartFinding:
    from tacit.core import TacitError
    from tacit.core.errors import plural
    from tacit.core.places import ledger_place
    from tacit.ledger import inspected

    try:
        with inspected(place) as book:
            doubt, said = book.stale_reason(), f"{book.name} answers, with {plural(len(book.accounts()), 'account')}"
    except TacitError as error:
        return PartFinding("ledger", "service", "wrong", str(error)[:300])
    if doubt is not None:
        return PartFinding("ledger", "service", "wrong", f"{ledger_place(place)}: {doubt}"[:300])
    return PartFinding("ledger", "service", "here", said)


def _writable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _space() -> PartFinding:
    free = shutil.disk_usage(Path.cwd()).free
    said = f"{free / 2**30:.1f} GiB free in this folder"
    return PartFinding("space", "service", "here" if free >= LEAST_SPACE else "wrong", said)


def _program(what: str, names: tuple[str, ...], said: str) -> PartFinding:
    beside = Path(sys.executable).parent
    found = [name for name in names if shutil.which(name) or (beside / name).exists()]
    if found:
        return PartFinding(what, "service", "here", f"{said}: {', '.join(found)}")
    return PartFinding(what, "service", "missing", f"{said}; not found: {', '.join(names)}")
