"""``tacit init``: read the column names of both files and the public contents, and write a recipe for them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from tacit.cli.recipe import Recipe, absolute, recipe_text
from tacit.cli.screen import console
from tacit.core import InvalidInput, listed, nearest

__all__ = ["init_command"]

# Usual names of columns that identify the person of a record, and its holder. Where the public file has the column as
# well, it may be a feature ("student": yes or no), unless it has a number's name.
_SOMEBODY = "(person|patient|user|subject|customer|client|member|employee|student)"
_NUMBER = "_?(id|number|num|no|nr|nbr)"
_PERSON = re.compile(f"{_SOMEBODY}({_NUMBER})?$|(uid|mrn|ssn|id)$", re.IGNORECASE)
_NUMBERED = re.compile(f"({_SOMEBODY}{_NUMBER}|uid|mrn|ssn)$", re.IGNORECASE)
_HOLDER = re.compile(
    r"(clinic|hospital|site|center|centre|branch|school|bank|holder|device|node|region)(_?id)?$", re.IGNORECASE
)
_HEAD = """A recipe for tacit. Check it without spending anything: tacit run {name} --dry-run
Then run it: tacit run {name}
A key is an option of 'tacit distill' without its dashes. Text after # is a comment, or a key that is left out."""


@dataclass(frozen=True)
class _Compared:
    """Two files compared: which columns match, and which only the private one has."""

    private: Path
    public: Path
    label: str | None = None
    person: str | None = None
    holder: str | None = None
    others: tuple[str, ...] = ()


def init_command(
    files: list[Path] = typer.Argument(
        ..., help="The private file, with labels, and the public one.", show_default=False
    ),
    label: str | None = typer.Option(None, help="The label column; guessed if only the private file has it."),
    out: Path = typer.Option(Path("recipe.toml"), help="The recipe to write; must not exist."),
) -> None:
    """Look at your files, and write a commented recipe for them.

    Of the private file only the column names are read. The kind of data is recognized from the public one. Nothing is
    spent.

    Example: tacit init records.csv samples.csv

    Example: tacit init scans-with-labels scans --out scans.toml
    """
    if len(files) != 2:
        got = "1 file" if len(files) == 1 else f"{len(files)} files"
        raise InvalidInput(f"give two files, private records and public samples; got {got}")
    if out.exists():
        raise InvalidInput(f"{listed([str(out)])}: exists already; choose another --out")
    if not out.absolute().parent.is_dir():
        raise InvalidInput(f"{listed([str(out)])}: there is no such folder")
    console.print("[dim]looking at the public file, and at the names of columns[/dim]")
    found = _compare(files[0], files[1], label)
    kind, lines = _kind(found.public)
    recipe = Recipe(
        private=found.private, public=found.public, label=found.label, data_kind=kind, epsilon=1.0, unit=found.person,
        method="auto",
    )  # fmt: skip
    notes = {
        "label": f"Only the private file has: {listed([*filter(None, (found.label, *found.others))])}.",
        "data_kind": f"The public file looks like {lines[0]}.",
        "classes": "The list of classes must be public knowledge. If left out, it is read from the private labels, and "
        "the privacy statement says so: better list them.",
        "unit": "This column seems to identify persons; remove the line to protect single records."
        if found.person
        else "Where a person may have several records, name the column.",
    }
    if found.holder is not None:
        notes["method"] = (
            f"The column {found.holder!r} may name the holder of a record: see --method privatekt or fedmd."
        )
    written = absolute(replace(recipe, out=Path("tacit-run")), Path.cwd())
    content = recipe_text(
        replace(written, out=out.absolute().parent / "tacit-run"), out.absolute().parent, _HEAD.format(name=out), notes
    )
    try:
        out.write_text(content, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{listed([str(out)])}: cannot be written ({error.strerror})") from None
    for title, said in (
        ("private", str(found.private)),
        ("public", f"{found.public}: {lines[0]}"),
        ("label", found.label or "the folders' names"),
        *((("unit", f"{found.person}, one record of a person"),) if found.person else ()),
        ("written", f"{out}: look it over, then try 'tacit run {out} --dry-run'"),
    ):
        console.print(Text.assemble((title, "bold"), f"{'':{max(1, 11 - len(title))}}{said}"), soft_wrap=True)


def _compare(first: Path, second: Path, label: str | None) -> _Compared:
    """Which file is the private one: the one with additional columns."""
    if first.is_dir() and second.is_dir():
        return _Compared(first, second)
    columns = [_columns(each) for each in (first, second)]
    if columns[0] is None or columns[1] is None:
        # Arrays have no names to compare.
        return _Compared(first, second, label or ("y" if first.suffix.lower() == ".npz" else None))
    more = [[name for name in columns[0] if name not in columns[1]], [n for n in columns[1] if n not in columns[0]]]
    if all(more):
        raise InvalidInput(
            f"columns differ: only {listed([str(first)])} has {listed(more[0])}, only {listed([str(second)])} has "
            f"{listed(more[1])}; the private file should have all columns of the public one"
        )
    private, public, extra = (first, second, more[0]) if not more[1] else (second, first, more[1])
    shared = [name for name in columns[0] if name in columns[1]]
    if label is not None and label not in extra:
        close = nearest(label, extra)
        meant = f"; did you mean {close!r}?" if close else ""
        raise InvalidInput(f"no column {listed([label])!r} that only {listed([str(private)])} has{meant}")
    if not extra:
        raise InvalidInput(
            f"{listed([str(private)])}: has no column besides the public ones; the private file needs a label column"
        )
    likely = [name for name in extra if _PERSON.match(name)] + [name for name in shared if _NUMBERED.match(name)]
    person = next((name for name in likely if name != label), None)
    holder = next((name for name in extra if _HOLDER.match(name) and name != label), None)
    # Otherwise the last one left: labels are usually at the end.
    rest = [name for name in extra if name not in (person, holder)]
    chosen = label or (rest[-1] if rest else None)
    if chosen is None:
        raise InvalidInput(f"name the label column with --label; it may be {listed(extra)}")
    others = tuple(name for name in extra if name != chosen)
    unknown = [name for name in others if name not in (person, holder)]
    if label is None and unknown:
        raise InvalidInput(
            f"only {listed([str(private)])} has {listed(extra)}: name the label with --label, and remove columns that "
            "are neither label nor owner, or add them to the public file"
        )
    return _Compared(private, public, chosen, person, holder, others)


def _columns(file: Path) -> list[str] | None:
    """The names of a table's columns."""
    from tacit.datasets.tables import read_data

    columns: Any = getattr(read_data(file), "columns", None)
    named = file.suffix.lower() not in (".npz", ".npy")
    return list(columns) if named and columns is not None else None


def _kind(public: Path) -> tuple[str, tuple[str, ...]]:
    from tacit.datasets.table import Table
    from tacit.datasets.tables import read_data
    from tacit.encoders.kinds import KINDS, photographic, recognize

    found = read_data(public)
    samples = found.samples if isinstance(found, Table) else found
    seen = recognize(samples)
    if seen.kind == "images" and photographic(samples):
        # Not encoded here: the network takes minutes.
        return "photographs", (KINDS["photographs"], *seen.lines[1:])
    return seen.kind, seen.lines
