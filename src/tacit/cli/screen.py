"""What commands print: the plan, the guarantee, and progress."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Guarantee

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.runs.run import Run

__all__ = [
    "console",
    "counting",
    "flowing",
    "show_claim",
    "show_data",
    "show_plan",
    "show_rows",
    "transliterate",
    "write_run",
]

console = Console()

SPELLED = {
    "ε": "epsilon", "δ": "delta", "α": "alpha", "σ": "sigma", "≤": "<=", "≥": ">=", "±": "+-", "−": "-", "–": "-",
    "—": "-", "…": "...", "×": "x", "·": "*", "é": "e", "’": "'", "“": '"', "”": '"', "│": "|", "─": "-",
}  # fmt: skip
# What a table has between two columns and around them all, and the least that a column is folded to.
GAP, EDGES, FOLDED = 3, 2, 10


def flowing(text: str) -> str:
    """Help text whose paragraphs flow: a line break in the source is only a space.

    >>> flowing("One\\n    paragraph.\\n\\n    Another.")
    'One paragraph.\\n\\nAnother.'
    """
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def transliterate() -> None:
    """Let output that a terminal's encoding cannot show be spelled out, never end the program."""
    codecs.register_error("tacit-spelled", _spelled)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="tacit-spelled")


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(SPELLED.get(each, "?") for each in error.object[error.start : error.end]), error.end


def show_data(lines: Sequence[str]) -> None:
    """Print what kind of data the public samples were taken for, and what is done with it."""
    first, *more = lines
    console.print(Text.assemble(("data", "bold"), f"       {first}"))
    for line in more:
        console.print(Text(f"           {line}"))


def show_plan(plan: Any) -> None:  # noqa: ANN401
    """Print the choices that were made before any record was looked at."""
    for title, said in plan.lines:
        console.print(Text.assemble((title, "bold"), f"{'':{max(1, 11 - len(title))}}{said}"))


def show_claim(claim: Any) -> None:  # noqa: ANN401
    """Print the privacy statement in a box, red where it is a simulation or none, yellow where it promises little."""
    title, style = "NO GUARANTEE", "red"
    if isinstance(claim, Guarantee):
        title, style = "privacy statement", "yellow" if claim.weak else "green"
    if claim.simulation:
        title, style = "SIMULATION", "red"
    console.print(Panel(Text(str(claim)), title=title, border_style=style, expand=False))


@contextmanager
def counting(records: int, what: str) -> Iterator[Callable[[int], None]]:
    """A progress bar that is told how many records are done; it disappears when the work is."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=records)
        yield lambda done: progress.update(task, completed=done)


def show_rows(names: Sequence[str], rows: Sequence[Sequence[str | Text]], folding: Sequence[str] = ()) -> None:
    """Print a table that never cuts a cell short: where the screen is too narrow for it, each row as a list.

    Only the columns named in ``folding`` are broken over lines.
    """
    cells = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    width = EDGES - GAP
    for index, name in enumerate(names):
        widest = max([cell_len(name), *(row[index].cell_len for row in cells)])
        width += GAP + (min(widest, FOLDED) if name in folding else widest)
        table.add_column(name, overflow="fold", no_wrap=name not in folding, min_width=min(widest, FOLDED))
    if width <= console.width:
        for row in cells:
            table.add_row(*row)
        console.print(table)
        return
    for row in cells:
        console.print()
        for name, cell in zip(names, row, strict=True):
            console.print(Text.assemble((f"{name}: ", "bold"), cell), overflow="fold")
    console.print()


def write_run(
    run: Run, public: NDArray[Any] | None, folder: Path, dark_ink: bool = False, holder_models: bool = False
) -> None:
    """Write the run folder, all or nothing, with a picture of the queries where one can be drawn.

    What is written has been paid for, so no failure of the picture may keep it from being written.
    """
    from tacit.report.picture import draw_queries
    from tacit.runs.folders import new_folder

    with new_folder(folder) as partial:
        lost = run.write(partial, holder_models)
        picture = partial / "queries.png"
        try:
            if public is not None and run.recipe.get("method") == "rknn" and run.labels.ndim == 1:
                draw_queries(run, public, picture, dark_ink)
        except Exception as error:
            picture.unlink(missing_ok=True)
            why = str(error) if isinstance(error, InvalidInput) else f"{type(error).__name__}: {error}"
            console.print(
                Text.assemble(("warning:", "yellow"), f" the picture of the queries could not be drawn: {why}"),
                soft_wrap=True,
            )
    for each in lost:
        console.print(Text.assemble(("warning:", "yellow"), f" not kept, {each}"), soft_wrap=True)
    written = ", ".join(sorted(file.name for file in folder.iterdir()))
    console.print(Text.assemble(("written", "bold"), f"    {folder}/: {written}"), soft_wrap=True)
