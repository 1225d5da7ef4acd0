"""Find the runs, running jobs, federations and ledgers of a folder, by their files. Nothing is changed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tacit.core import Guarantee, InvalidInput, TacitError
from tacit.core.places import LedgerUrl
from tacit.core.toml import read_toml
from tacit.federation.processes import exists
from tacit.ledger.sqlite_store import APPLICATION
from tacit.report.budget import Book, read_book
from tacit.report.card import statement
from tacit.runs.folders import Record, read_record
from tacit.runs.progress import PROGRESS, read_progress

__all__ = ["FoundFiles", "JobState", "WatchedFolder", "is_ledger", "job_states", "look"]

DEEPEST, MOST_FOLDERS, MOST_FOUND = 4, 2000, 200
UNREADABLE = "cannot be read"
MOST_WORDS = 300
TABLES = (".csv", ".tsv", ".jsonl", ".parquet", ".feather", ".arrow", ".npz", ".csv.gz", ".csv.xz", ".jsonl.gz")
LEDGERS = (".ledger", ".db", ".sqlite")


@dataclass(frozen=True)
class FoundFiles:
    """The files found, by their paths relative to the folder; only these names can be requested."""

    runs: Mapping[str, Path]
    jobs: Mapping[str, Path]
    journals: Mapping[str, Path]
    coordinators: Mapping[str, Path]
    ledgers: Mapping[str, Path | LedgerUrl]
    tables: Mapping[str, Path]


@dataclass(frozen=True)
class JobState:
    """A job's state from its own file; ``part`` is the completed fraction, None if unknown."""

    name: str
    kind: str
    state: str
    doing: str
    part: float | None


def look(folder: Path) -> FoundFiles:
    """Search the folder a few levels deep; hidden folders and links to folders are left out.

    >>> import tempfile
    >>> look(Path(tempfile.mkdtemp())).runs
    {}
    """
    found: dict[str, dict[str, Path]] = {name: {} for name in FoundFiles.__dataclass_fields__}
    private: set[Path] = set()
    for here, files in _folders(folder):
        name = here.relative_to(folder).as_posix()
        if "run.json" in files:
            found["runs"][name] = here
        if here.name.endswith(".journal") and "progress.json" in files:
            found["journals"][name] = here / "progress.json"
        if "coordinator.pem" in files and (here / "nodes").is_dir():
            found["coordinators"][name] = here
        for file in files:
            place = here / file
            if file.endswith(".toml"):
                private.update(_private_file(place))
            key = place.relative_to(folder).as_posix()
            if file.endswith(PROGRESS):
                found["jobs"][key] = place
            elif file.endswith(LEDGERS) and is_ledger(place):
                found["ledgers"][key] = place
            elif file.endswith(TABLES) and "run.json" not in files:
                found["tables"][key] = place
    found["tables"] = {key: place for key, place in found["tables"].items() if place.resolve() not in private}
    return FoundFiles(**{kind: dict(sorted(each.items())[:MOST_FOUND]) for kind, each in found.items()})


def _private_file(recipe: Path) -> list[Path]:
    """The file with private records that a recipe names, which is not offered as public samples."""
    try:
        return [(recipe.parent / read_toml(recipe)["data"]["private"]).resolve()]
    except (InvalidInput, OSError, ValueError, KeyError, TypeError):
        return []


def _folders(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    for seen, (here, inside, files) in enumerate(os.walk(folder)):
        place = Path(here)
        if seen > MOST_FOLDERS or len(place.relative_to(folder).parts) >= DEEPEST:
            inside.clear()
        inside[:] = sorted(each for each in inside if not each.startswith("."))
        yield place, sorted(each for each in files if not each.startswith("."))


def is_ledger(file: Path) -> bool:
    """Whether a file is a ledger, by its application id: no other database is opened.

    >>> is_ledger(Path("no-such-file"))
    False
    """
    try:
        with file.open("rb") as opened:
            head = opened.read(72)
    except OSError:
        return False
    return head[:16] == b"SQLite format 3\0" and int.from_bytes(head[68:72], "big") == APPLICATION


def job_states(found: FoundFiles) -> list[JobState]:
    """Every running or interrupted job, of single processes and of federations."""
    states = []
    for name, file in found.jobs.items():
        said = read_progress(file)
        if said is not None:
            rounds, over = said["rounds"], said["round"]
            told = f"{said['stage']}, round {over} of {rounds}" if rounds else said["stage"]
            alive = exists(said["process"])
            states.append(
                JobState(
                    name.removesuffix(PROGRESS), f"tacit distill, {str(said['method'])[:40]}",
                    "running" if alive else "stopped",
                    told if alive else "its process ended; run the same command again to resume",
                    over / rounds if rounds else None,
                )
            )  # fmt: skip
    for name, file in found.journals.items():
        said = _journal(file)
        if said is not None:
            running = said["state"] == "running"
            state = said["state"] if not running or exists(said["process"]) else "stopped"
            states.append(
                JobState(name.removesuffix(".journal"), "federation", state, said["message"][:MOST_WORDS],
                         1.0 if state == "done" else None)
            )  # fmt: skip
    return sorted(states, key=lambda each: (each.state != "running", each.name))


def _journal(file: Path) -> dict[str, Any] | None:
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        known = isinstance(said["message"], str) and said["state"] in ("running", "done", "failed")
        return dict(said) if known and isinstance(said["process"], int) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


@dataclass
class WatchedFolder:
    """A folder that is searched repeatedly; unchanged files are not read again."""

    folder: Path
    # Ledgers on servers, which are in no folder.
    ledgers: Sequence[LedgerUrl] = ()
    _known: dict[tuple[str, int, int], Any] = field(default_factory=dict)

    def found(self) -> FoundFiles:
        """The current content of the folder, and the ledgers on servers."""
        found = look(self.folder)
        return replace(found, ledgers={**found.ledgers, **{str(url): url for url in self.ledgers}})

    def run_row(self, name: str, file: Path) -> dict[str, str]:
        """A summary of a run, or that it cannot be read."""
        return self._once(file / "run.json", lambda: _row(read_record(file)), {"name": name, "claim": UNREADABLE})

    def book(self, file: Path | LedgerUrl) -> Book | None:
        """The current state of a ledger; None if it cannot be read."""
        try:
            return read_book(file)
        except (TacitError, OSError):
            return None

    def nodes(self, folder: Path) -> list[str]:
        """The names of the nodes that a coordinator admits."""
        return sorted(each.stem for each in (folder / "nodes").glob("*.pub"))[:MOST_FOUND]

    def _once(self, file: Path, read: Any, otherwise: dict[str, str]) -> dict[str, str]:  # noqa: ANN401
        try:
            state = file.stat()
            key = (str(file), state.st_mtime_ns, state.st_size)
            if key not in self._known:
                if len(self._known) > 5 * MOST_FOUND:
                    self._known.clear()
                self._known[key] = read()
            return dict(self._known[key])
        except (TacitError, OSError):
            return otherwise


def _row(record: Record) -> dict[str, str]:
    said, claim = statement(record), record.claim
    private = isinstance(claim, Guarantee)
    return {
        "method": str(said["method"]),
        "claim": "simulation" if said["simulation"] else "differential privacy" if private else "no guarantee",
        "epsilon": said["guarantee"]["epsilon"] if private else "",
        "delta": said["guarantee"]["delta"] if private else "",
        "protects": claim.unit.in_words if isinstance(claim, Guarantee) else "",
        "labels": f"{said['public_samples']:,} in {len(said['labels'])} classes",
    }
