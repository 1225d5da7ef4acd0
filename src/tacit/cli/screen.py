"""What commands print: the plan, the guarantee, progress and warnings. Failed output never stops a run."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tacit.core import Guarantee, InvalidInput, TacitError, TacitWarning, listed
from tacit.core.errors import shortened

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.runs.run import Run

__all__ = [
    "console",
    "counting",
    "flowing",
    "printed_warnings",
    "show_claim",
    "show_data",
    "show_error",
    "show_line",
    "show_plan",
    "show_reading",
    "show_rows",
    "tolerate_broken_pipe",
    "transliterate",
    "visible",
    "write_run",
]  # fmt: skip

console = Console()

SPELLED = {
    "ε": "epsilon", "δ": "delta", "α": "alpha", "σ": "sigma", "≤": "<=", "≥": ">=", "±": "+-", "−": "-", "–": "-",
    "—": "-", "…": "...", "×": "x", "·": "*", "é": "e", "’": "'", "“": '"', "”": '"', "│": "|", "─": "-",
}  # fmt: skip
# Padding between columns and around a table, and the least width of a wrapped column.
_GAP, EDGES, FOLDED = 3, 2, 10
# Where what is said about a title begins.
_TITLE = 11


def flowing(text: str) -> str:
    """Help text whose paragraphs flow: a line break in the source is only a space.

    >>> flowing("One\\n    paragraph.\\n\\n    Another.")
    'One paragraph.\\n\\nAnother.'
    """
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def visible(text: str) -> str:
    """The text with control characters escaped: names that another party chose must not change what a terminal shows.

    >>> visible("run\\x1b[2K") == "run\\\\x1b[2K"
    True
    """
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in text)


def transliterate() -> None:
    """Transliterate characters that the terminal's encoding cannot show, instead of failing."""
    codecs.register_error("tacit-spelled", _spelled)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="tacit-spelled")


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(SPELLED.get(each, "?") for each in error.object[error.start : error.end]), error.end


def show_data(lines: Sequence[str]) -> None:
    """Print the kind of data that was recognized in the public samples, and how it is encoded."""
    for title, said in zip(("data", *[""] * (len(lines) - 1)), lines, strict=True):
        show_line(title, said)


def show_plan(plan: Any) -> None:  # noqa: ANN401
    """Print the choices that were made before any record was read."""
    for title, said in plan.lines:
        show_line(title, said)


def show_reading(place: object) -> None:
    """Say at once what is read: the parts that read it may take seconds to load."""
    console.print(Text(f"reading {listed([str(place)])}", style="dim"), soft_wrap=True)


def show_error(message: str) -> None:
    """Print what a command ended with."""
    # Text, not markup: a file may be called [bold].
    said = Text.assemble(("error:", "bold red"), f" {shortened(message)}")
    Console(stderr=True, soft_wrap=True).print(said)


def show_line(title: str, said: str) -> None:
    """Print a title and what is said about it, whose further lines begin below the first."""
    begins = max(_TITLE, len(title) + 1)
    first, *more = textwrap.wrap(said, max(FOLDED, console.width - begins), break_long_words=False) or [""]
    console.print(Text.assemble((f"{title:{begins}}", "bold"), first), soft_wrap=True)
    for line in more:
        console.print(Text(f"{'':{begins}}{line}"), soft_wrap=True)


def show_claim(claim: Any) -> None:  # noqa: ANN401
    """Print the privacy statement in a box, red for a simulation or no guarantee, yellow for a weak one."""
    title, style = "NO GUARANTEE", "red"
    if isinstance(claim, Guarantee):
        title, style = "privacy statement", "yellow" if claim.weak else "green"
    if claim.simulation:
        title, style = "SIMULATION", "red"
    console.print(Panel(Text(visible(str(claim))), title=title, border_style=style, expand=False))


@contextmanager
def counting(records: int | None, what: str) -> Iterator[Callable[[int], None]]:
    """A progress bar over records, whose number may be unknown; it disappears when the work is done."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=records)
        yield lambda done: progress.update(task, completed=done)


def show_rows(names: Sequence[str], rows: Sequence[Sequence[str | Text]], folding: Sequence[str] = ()) -> None:
    """Print a table that never cuts a cell short: where the screen is too narrow for it, each row as a list.

    Only the columns named in ``folding`` are broken over lines.
    """
    cells = [[cell if isinstance(cell, Text) else Text(visible(cell)) for cell in row] for row in rows]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    width = EDGES - _GAP
    for index, name in enumerate(names):
        widest = max([cell_len(name), *(row[index].cell_len for row in cells)])
        width += _GAP + (min(widest, FOLDED) if name in folding else widest)
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
    run: Run,
    public: NDArray[Any] | None,
    folder: Path,
    dark_ink: bool = False,
    holder_models: bool = False,
    recipe: str | None = None,
) -> None:
    """Write the run folder, all or nothing, with its recipe, and a plot of the queries where one can be drawn. The run
    has been paid for, so a failure of the plot never prevents writing it.
    """
    from tacit.report.charts import draw_queries
    from tacit.runs.folders import new_folder

    with new_folder(folder) as partial:
        lost = run.write(partial, holder_models)
        if recipe is not None:
            (partial / "recipe.toml").write_text(recipe, encoding="utf-8")
        picture = partial / "queries.png"
        try:
            if public is not None and run.recipe.get("method") == "rknn" and run.labels.ndim == 1:
                draw_queries(run, public, picture, dark_ink)
        except Exception as error:
            picture.unlink(missing_ok=True)
            why = str(error) if isinstance(error, InvalidInput) else f"{type(error).__name__}: {error}"
            console.print(
                Text.assemble(("warning:", "yellow"), f" the plot of the queries could not be drawn: {why}"),
                soft_wrap=True,
            )
    for each in lost:
        console.print(Text.assemble(("warning:", "yellow"), f" not saved: {each}"), soft_wrap=True)
    written = ", ".join(sorted(file.name for file in folder.iterdir()))
    console.print(Text.assemble(("written", "bold"), f"    {folder}/: {written}"), soft_wrap=True)


@contextmanager
def printed_warnings() -> Iterator[None]:
    """Print Tacit's own warnings as they come, each time, in yellow; leave those of others as they are.

    They go to stderr, with the errors: a warning may contain what only the operator may know, and stdout has the report
    of a run, which may be redirected to a file and shared.
    """
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:  # noqa: ANN401
        if issubclass(category, TacitWarning):
            # A broken pipe does not stop the run.
            with suppress(OSError):
                Console(stderr=True).print(f"[yellow]warning:[/yellow] {escape(str(message))}.", soft_wrap=True)
        else:
            usual(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", TacitWarning)
        warnings.showwarning = show
        yield


@contextmanager
def tolerate_broken_pipe() -> Iterator[None]:
    """Continue after failed output: a closed pipe or a full disk behind stdout must not end a run that is paid for.

    A closed pipe is normal, as with ``head``; every other failure is reported once the work is done.
    """
    screen = Screen(sys.stdout)
    with redirect_stdout(screen):
        yield
        screen.flush()
    if screen.failed is not None and screen.failed.errno != errno.EPIPE:
        raise TacitError(f"the run was made and written, but what it printed was lost: {screen.failed.strerror}")


class Screen:
    """A text stream that stops writing at the first failure, and remembers it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.failed: OSError | None = None

    def write(self, text: str) -> int:
        """Write, or drop the text after a failure."""
        if self.failed is None:
            try:
                return self._stream.write(text)
            except OSError as error:
                self._fall_silent(error)
        return len(text)

    def flush(self) -> None:
        """Flush, or do nothing after a failure."""
        if self.failed is None:
            try:
                self._stream.flush()
            except OSError as error:
                self._fall_silent(error)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._stream, name)

    def _fall_silent(self, error: OSError) -> None:
        self.failed = error
        # Buffered output is flushed when Python exits, and would fail there again.
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
