"""``tacit plan``: forecasts for every method before any record is read."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from tacit.cli.screen import console
from tacit.core import InvalidInput, listed

if TYPE_CHECKING:
    from tacit.runs.planning import Forecast, Prospect

__all__ = ["plan_command"]

_BAR, _LEVELS = 32, "▁▂▃▄▅▆▇█"
_PICTURES = (".png", ".svg")


def plan_command(
    records: int = typer.Option(
        ..., min=1, help="Number of private records; where persons are protected, number of persons."
    ),
    classes: str = typer.Option(..., help="Number of classes, or their names: a,b,c."),
    epsilon: float = typer.Option(1.0, help="The privacy budget."),
    delta: float | None = typer.Option(None, help="The failure probability; each method's default if left out."),
    public: Path | None = typer.Option(
        None, help="Your public samples, as for 'tacit distill': forecasts are based on them."
    ),
    public_label: str | None = typer.Option(
        None, help="A column of the public file with the labels of some rows: narrows the forecast. 100 labels suffice."
    ),
    rehearse: bool = typer.Option(
        False,
        "--rehearse",
        help="With --public-label: run the methods on public samples as records. Closer, and slower.",
    ),
    method: list[str] = typer.Option([], help="Only this method; may be given several times. All if left out."),
    accuracy: float | None = typer.Option(
        None, help="Find the epsilon that reaches this fraction of right labels: 0.9."
    ),
    holders: int = typer.Option(10, min=1, help="Number of holders, for methods with several."),
    chart: Path | None = typer.Option(None, help="Draw accuracy over epsilon: a new .png or .svg file."),
    as_json: bool = typer.Option(False, "--json", help="Print the forecast as JSON, for programs."),
    queries: int | None = typer.Option(None, min=1, help="rknn: number of queries; several are compared if left out."),
    neighbors: int = typer.Option(1, min=1, help="rknn: number of queries that one record votes for (k)."),
    per_person: int = typer.Option(1, min=1, help="The most records used per person."),
    purity: float | None = typer.Option(
        None, help="Purity: the fraction of a query's voters that agree, if you know it; 0.9 without public samples."
    ),
) -> None:
    """Forecast how many labels will be right, from public information only.

    No record is read and nothing is spent. With --public every method is compared: the expected fraction of right
    labels with a 90 % interval, the best numbers of queries and neighbors, messages and time. How far labels follow the
    public samples' structure is a guess with wide bounds unless some of them are labeled (--public-label). Where
    persons are protected, give their number as --records.

    Example: tacit plan --records 20000 --classes 5 --epsilon 0.5

    Example: tacit plan --records 20000 --classes ill,well --public samples.csv --accuracy 0.9 --chart plan.svg
    """
    names = _classes(classes)
    from tacit.methods.registry import method_named

    # What is mistyped is said before anything is printed.
    method = [method_named(each).name for each in method]
    if accuracy is not None and not 1 / len(names) < accuracy < 1:
        raise InvalidInput(f"accuracy must be between {1 / len(names):.2g} and 1, got {accuracy}")
    if chart is not None:
        _require_chart(chart)
    if public is None and public_label is not None:
        raise InvalidInput("--public-label names a column of the public file: give --public, too")
    if rehearse and public_label is None:
        raise InvalidInput("--rehearse needs labels of some public samples: give --public and --public-label")
    if public is not None and purity is not None and public_label is not None:
        raise InvalidInput("--purity and --public-label both set how far labels agree: leave one out")
    if public is None and not as_json:
        console.print("[dim]forecast of reverse k-NN votes, without files[/dim]")
        _votes(records, len(names), epsilon, queries, neighbors, per_person, 0.9 if purity is None else purity)
        if accuracy is None and chart is None and delta is None and not method:
            return
    elif not as_json:
        console.print(f"[dim]looking at {listed([str(public)])}[/dim]", soft_wrap=True)
    found = _forecast(
        public, public_label, names, records, epsilon, delta, method, accuracy, holders, per_person, purity, queries,
        neighbors, curves=not as_json or chart is not None, rehearse=rehearse,
    )  # fmt: skip
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2, default=str).replace("NaN", "null"))
    else:
        _show(found)
    if chart is not None:
        _draw(found, chart)


def _forecast(
    public: Path | None, public_label: str | None, names: list[str], records: int, epsilon: float,
    delta: float | None, methods: list[str], accuracy: float | None, holders: int, per_person: int,
    purity: float | None, queries: int | None, neighbors: int, curves: bool, rehearse: bool,
) -> Forecast:  # fmt: skip
    from tacit.core import Unit
    from tacit.datasets.table import Table as Rows
    from tacit.methods.registry import METHODS
    from tacit.methods.rknn.options import ReverseKNN
    from tacit.runs.planning import forecast

    found, labels = (None, None) if public is None else _some_labels(public, public_label)
    asked: list[Any] = list(methods)
    asked = asked or ([name for name, each in METHODS.items() if each.forecast] if public is not None else ["rknn"])
    votes = ReverseKNN(queries=queries, neighbors=neighbors)
    return forecast(
        found.frame if isinstance(found, Rows) else found, records=records, classes=names, epsilon=epsilon, delta=delta,
        methods=[votes if each == "rknn" else each for each in asked], holders=holders,
        unit=Unit() if per_person == 1 else Unit.person("person", per_person), public_labels=labels, purity=purity,
        accuracy=accuracy, curves=curves, rehearse=rehearse,
    )  # fmt: skip


def _some_labels(public: Path, label: str | None) -> tuple[Any, Any]:
    """The public samples, and the labels of those that have one."""
    from tacit.datasets.frame import Frame
    from tacit.datasets.tables import read_data

    whole = read_data(public)
    if label is not None and isinstance(whole, Frame):
        rest, labels, _ = whole.apart(label)
        return rest, labels
    found = whole if label is None else read_data(public, label)
    return found, found.labels


def _show(found: Forecast) -> None:
    """The table, a chart of intervals, and one of ε."""
    here = [each for each in found.prospects if not each.refused]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("method", "trust", "right", "90 % interval", "queries", "k", "messages", "time"):
        table.add_column(name, no_wrap=True, justify="left" if name in ("method", "trust") else "right")
    if found.wanted is not None:
        table.add_column(f"ε for {found.wanted:.0%}", justify="right", no_wrap=True)
    for each in here:
        line = [
            each.method, each.trust, f"{each.accuracy:.0%}", f"{each.low:.0%}-{each.high:.0%}",
            "" if each.queries is None else str(each.queries), "" if each.neighbors is None else str(each.neighbors),
            f"{each.messages:,}", f"{math.ceil(each.seconds)} s",
        ]  # fmt: skip
        if found.wanted is not None:
            line.append(f"{each.needed:.2g}" if each.needed is not None else "> 20")
        table.add_row(*line)
    if here:
        console.print(table)
        if [each.accuracy for each in here] != sorted((each.accuracy for each in here), reverse=True):
            console.print("Where intervals overlap, methods are in the order in which they were measured.")
        _bars(here)
        _sparks(found)
    for each in found.prospects:
        if each.refused:
            console.print(Text(f"{each.method} ({each.trust}): {each.refused}", style="dim"), soft_wrap=True)
    console.print(f"The forecast is based {found.basis}. No record was read and nothing was spent.", soft_wrap=True)


def _bars(here: list[Prospect]) -> None:
    """Intervals as bars from 0 to 100 %."""
    width = max(len(f"{each.method} {each.trust}") for each in here)
    for each in here:
        low, middle, high = (min(_BAR - 1, int(_BAR * value)) for value in (each.low, each.accuracy, each.high))
        marks = "".join("●" if place == middle else "─" if low <= place <= high else "·" for place in range(_BAR))
        console.print(Text(f"{f'{each.method} {each.trust}':{width}}  0 % {marks} 100 %"))
    console.print()


def _sparks(found: Forecast) -> None:
    """Expected accuracy over a range of ε, one line per method."""
    if not found.curves:
        return
    width = max(len(name) for name, _ in found.curves)
    ends = found.curves[0][1]
    if ends:
        console.print(Text(f"{'labels right by epsilon':{width}}  {ends[0][0]:g} ... {ends[-1][0]:g}", style="bold"))
    for name, points in found.curves:
        marks = "".join(_LEVELS[min(len(_LEVELS) - 1, int(len(_LEVELS) * each))] for _, each in points)
        if points:
            console.print(Text(f"{name:{width}}  {marks}  {points[0][1]:.0%} ... {points[-1][1]:.0%}"))
    console.print()


def _draw(found: Forecast, file: Path) -> None:
    from tacit.report.charts import Chart, Panel, draw_chart

    places = sorted({epsilon for _, points in found.curves for epsilon, _ in points})
    curves: dict[str, list[float | None]] = {
        name: [100 * known[each] if each in known else None for each in places]
        for name, points in found.curves
        if (known := dict(points))
    }
    if not curves:
        raise InvalidInput("there is no chart to draw: no method has a forecast")
    panel = Panel("Expected before spending", "epsilon", "labels right, %", places, curves, log_across=True)
    draw_chart(Chart(file.stem, "", [panel]), file)
    console.print(Text.assemble(("written", "bold"), f"    {file}"), soft_wrap=True)


def _require_chart(file: Path) -> None:
    shown = listed([str(file)])
    if file.suffix.lower() not in _PICTURES:
        raise InvalidInput(f"{shown}: a chart is written as .png or .svg")
    if file.exists():
        raise InvalidInput(f"{shown}: exists already; choose another file")
    if not file.absolute().parent.is_dir():
        raise InvalidInput(f"{shown}: there is no such folder")


def _classes(text: str) -> list[str]:
    """The names of the classes, or made-up ones for a number.

    >>> _classes("3"), _classes("ill,well")
    (['0', '1', '2'], ['ill', 'well'])
    """
    from tacit.datasets.table import read_classes

    if not text.strip().lstrip("-").isdigit():
        return read_classes(text)
    if int(text) < 2:
        raise InvalidInput(f"classes must be at least 2, got {int(text)}")
    return [str(each) for each in range(int(text))]


def _votes(
    records: int, classes: int, epsilon: float, queries: int | None, neighbors: int, per_person: int, purity: float
) -> None:
    """Forecast of votes without a file: the least fraction of right labels if queries get equal numbers of votes."""
    from fractions import Fraction

    from tacit.core import Unit, positive
    from tacit.mechanisms.accuracy import at_least, expected_label_accuracy
    from tacit.methods.rknn.choice import choose_mechanism
    from tacit.methods.rknn.wire import table_sensitivity

    budget = positive(epsilon, "epsilon")
    asked = (
        [queries] if queries else sorted({max(classes, neighbors, records // votes) for votes in (25, 50, 100, 400)})
    )
    table = Table("queries", "votes per query", "lead needed", "queries right", "samples right")
    for number in asked:
        sensitivity = table_sensitivity(number, classes, neighbors, Unit.person("person", per_person))
        choice = choose_mechanism(sensitivity, classes, budget, Fraction(0))
        expected = expected_label_accuracy(records, number, classes, budget / per_person, neighbors, purity)
        table.add_row(
            str(number),
            f"{expected.votes:.0f}",
            f"{choice.gap:.1f}",
            f"at least {at_least(expected.queries_right)}",
            f"at least {at_least(expected.samples_right)}",
        )
    console.print(table)
    if per_person > 1:
        console.print(
            f"The {per_person} records of a person share the budget: each is as noisy as at epsilon = {epsilon:g} / "
            f"{per_person}."
        )
    console.print(expected.in_words)
    console.print(
        f"The purity of {purity:.0%} (how many of a query's voters agree) is an assumption (--purity). No file was "
        "read: where voters agree less, fewer labels are right. With --public FILE it is estimated."
    )
