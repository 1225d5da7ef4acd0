"""What commands print: the plan, the guarantee, and progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Guarantee

if TYPE_CHECKING:
    from tacit.experiment.distill import Plan
    from tacit.experiment.run import Run

__all__ = ["console", "counting", "flowing", "show_guarantee", "show_plan", "write_run"]

console = Console()


def flowing(text: str) -> str:
    """Help text whose paragraphs flow: a line break in the source is only a space.

    >>> flowing("One\\n    paragraph.\\n\\n    Another.")
    'One paragraph.\\n\\nAnother.'
    """
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def show_plan(plan: Plan) -> None:
    """Print the choices that were made before any record was looked at."""
    console.print(f"[bold]mechanism[/bold]  {plan.choice.name}: {plan.choice.reason}")
    console.print(
        f"[bold]asking[/bold]     {plan.queries} queries, each record votes for its {plan.neighbors} nearest, "
        f"distances by {plan.representation}"
    )


def show_guarantee(guarantee: Guarantee) -> None:
    """Print the privacy statement in a box, red where it is a simulation."""
    title, style = ("SIMULATION", "red") if guarantee.simulation else ("privacy statement", "green")
    console.print(Panel(Text(str(guarantee)), title=title, border_style=style, expand=False))


@contextmanager
def counting(records: int, what: str) -> Iterator[Callable[[int], None]]:
    """A progress bar that is told how many records are done; it disappears when the work is."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=records)
        yield lambda done: progress.update(task, completed=done)


def write_run(run: Run, public: NDArray[Any], folder: Path) -> None:
    """Write the run folder, all or nothing, with a picture of the queries where pictures can be made."""
    from tacit.experiment.run import new_folder
    from tacit.report.picture import draw_queries

    with new_folder(folder) as partial:
        run.write(partial)
        try:
            draw_queries(run, public, partial / "queries.png")
        except InvalidInput as error:
            console.print(f"[dim]no picture: {error}[/dim]")
    console.print(f"[bold]written[/bold]    {folder}/: {', '.join(sorted(file.name for file in folder.iterdir()))}")
