"""The HTML pages of the live view: running jobs, runs, ledgers, federations, and the planning form."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tacit.core import InvalidInput, listed
from tacit.methods.registry import METHODS
from tacit.report import svg
from tacit.report.budget import account_rows
from tacit.report.html import Markup, bullets, table
from tacit.runs.planning import Forecast, forecast
from tacit.ui.folder import FoundFiles, JobState, WatchedFolder, job_states

if TYPE_CHECKING:
    from tacit.runs.fleet import Fleet

__all__ = ["FIELDS", "fleet_page", "message_page", "overview_page", "plan_page", "planned", "state", "way_up"]

BADGES = {"running": "good", "done": "good", "stopped": "fair", "failed": "bad"}
CLAIMS = {"differential privacy": "good", "simulation": "bad", "no guarantee": "bad", "cannot be read": "fair"}


def overview_page(watched: WatchedFolder, found: FoundFiles) -> str:
    """Everything in the folder on one page; a script updates the jobs."""
    parts = [
        _part("jobs", "Running", f"<div id='jobs-list'>{jobs_list(job_states(found))}</div>"),
        _part("runs", f"Runs ({len(found.runs)})", _runs(watched, found)),
        _part("ledgers", f"Ledgers ({len(found.ledgers)})", _ledgers(watched, found)),
    ]
    if found.coordinators:
        parts.append(_part("federations", f"Federations ({len(found.coordinators)})", _federations(watched, found)))
    return _page("Overview", watched.folder.name or "/", "overview", "".join(parts), live=True)


def state(found: FoundFiles) -> dict[str, str | int]:
    """The data for the script: the list of jobs, and the numbers of runs and ledgers."""
    return {"jobs": jobs_list(job_states(found)), "runs": len(found.runs), "ledgers": len(found.ledgers)}


def jobs_list(states: Sequence[JobState]) -> str:
    """A card per job: its kind, its current stage, and its progress.

    >>> "counting votes" in jobs_list([JobState("first", "tacit distill, rknn", "running", "counting votes", None)])
    True
    """
    if not states:
        return "<p class='empty'>No job is running. <code>tacit distill</code> is shown here while it runs.</p>"
    shown = []
    for each in states:
        bar = (
            ""
            if each.part is None
            else f"<progress max='1' value='{each.part:.3f}'>{each.part:.0%}</progress><small>{each.part:.0%}</small>"
        )
        spin = "<span class='pulse' aria-hidden='true'></span>" if each.state == "running" else ""
        shown.append(
            f"<div class='job {BADGES[each.state]}'><div>{spin}<b>{escape(each.name)}</b> "
            f"<span class='badge {BADGES[each.state]}'>{each.state}</span> <small>{escape(each.kind)}</small></div>"
            f"<p>{escape(each.doing)}</p><div class='bar'>{bar}</div></div>"
        )
    return "".join(shown)


def plan_page(given: Mapping[str, str], found: FoundFiles) -> str:
    """The planning form, and the forecast once it is filled in."""
    fields = "".join(
        f"<label for='{name}'>{escape(about)}</label>{_input(name, given.get(name, example), 'required')}"
        for name, about, example, _ in FIELDS
    )
    offered = "".join(
        f"<option{' selected' * (given.get('public') == name)} value='{escape(name, quote=True)}'>{escape(name)}"
        "</option>"
        for name in found.tables
    )
    form = (
        f"<form method='get' action='plan'>{fields}"
        "<label for='public'>public samples, from which purity is estimated</label>"
        f"<select id='public' name='public'><option value=''>none</option>{offered}</select>"
        "<label for='label'>their column with the labels of some rows, if any</label>"
        f"{_input('label', given.get('label', ''))}"
        "<label for='purity'>without samples: fraction of a query's voters that agree, an assumption</label>"
        f"{_input('purity', given.get('purity', '0.9'))}<button type='submit'>Plan</button></form>"
    )
    about = (
        "<p>From public information only: do not choose a file with private records. Files that a recipe here names as "
        "private are not offered. Nothing is spent.</p>"
    )
    return _page("Plan", "forecast before anything is spent", "plan", about + form + _forecast(given, found))


def _input(name: str, value: str, more: str = "") -> str:
    return (
        f"<input id='{name}' name='{name}' {more} autocomplete='off' maxlength='80' "
        f"value='{escape(value[:80], quote=True)}'>"
    )


def _forecast(given: Mapping[str, str], found: FoundFiles) -> str:
    if not given:
        return ""
    try:
        expected = planned(given, found.tables)
    except InvalidInput as error:
        return f"<p class='warning' role='alert'>{escape(str(error))}</p>"
    here = [each for each in expected.prospects if not each.refused]
    rows = [
        (each.method, each.trust, f"{each.accuracy:.0%}", f"{each.low:.0%} to {each.high:.0%}",
         "" if each.queries is None else each.queries, f"{each.messages:,}", f"{math.ceil(each.seconds)} s", each.said)
        for each in here
    ]  # fmt: skip
    heads = ("method", "trust", "labels right", "90 % interval", "queries", "messages", "time", "why")
    chart = svg.intervals(
        [(f"{each.method}, {each.trust}", each.low, each.accuracy, each.high) for each in here], "labels right"
    )
    refused = [each for each in expected.prospects if each.refused]
    rest = bullets([f"method {each.method} ({each.trust}): {each.refused}" for each in refused])
    return (
        "<h2>What to expect</h2>"
        f"<figure>{chart}<figcaption>The expected fraction of public samples with the right label, and its 90 % "
        "interval.</figcaption></figure>"
        + table(heads, rows)
        + (f"<h3>Not forecast</h3>{rest}" if rest != bullets([]) else "")
        + f"<p>The forecast is based {escape(expected.basis)}.</p>"
    )


def fleet_page(name: str, fleet: Fleet) -> str:
    """All nodes of a federation: rounds, refusals by reason, and payments, as known to its coordinator."""
    nodes = [
        (each.name, each.state, f"{each.answered} of {each.asked}", each.lost,
         ", ".join(f"{count} {reason}" for reason, count in sorted(each.refusals.items())), each.payments, each.paid,
         each.told, each.last_answer)
        for each in fleet.nodes
    ]  # fmt: skip
    heads = (
        "node",
        "state",
        "rounds answered",
        "lost",
        "refusals",
        "payments",
        "paid at least",
        "budget told",
        "last answer",
    )
    shown = table(heads, nodes) if nodes else "<p class='empty'>No node is listed yet.</p>"
    jobs = [(each.name, each.state, each.rounds, each.message) for each in fleet.jobs]
    parts = [
        _part("nodes", f"Nodes ({len(fleet.nodes)})", shown),
        _part("rounds", f"Jobs ({len(jobs)})", table(("job", "state", "rounds", "says"), jobs) if jobs
              else "<p class='empty'>No job has started here.</p>"),
        _part("reasons", "Refusals by reason", table(("reason", "times"), list(fleet.refusals.items()))
              if fleet.refusals else "<p class='empty'>No node refused.</p>"),
    ]  # fmt: skip
    about = "<p>As known to this coordinator. A node states its remaining budget only if its operator lets it.</p>"
    return _page("Fleet", name, "overview", about + "".join(parts), up=way_up(name))


def message_page(title: str, said: str, up: str = "./") -> str:
    """A page that says why something cannot be shown; ``up`` is the way from it to the overview.

    >>> "it is gone" in message_page("Run", "it is gone")
    True
    """
    return _page(title, "", "", f"<p class='warning' role='alert'>{escape(said)}</p>", up=up)


def _runs(watched: WatchedFolder, found: FoundFiles) -> str:
    if not found.runs:
        return "<p class='empty'>No run is here yet. <code>tacit demo</code> creates one in half a minute.</p>"
    rows = []
    newest = sorted(found.runs.items(), key=lambda each: (-_changed(each[1]), each[0]))
    for name, file in newest:
        row = watched.run_row(name, file)
        claim = row["claim"]
        rows.append(
            (
                Markup(f"<a href='run/{quote(name)}'>{escape(name)}</a>"),
                Markup(f"<span class='badge {CLAIMS[claim]}'>{escape(claim)}</span>"),
                row.get("epsilon", ""), row.get("delta", ""), row.get("method", ""), row.get("protects", ""),
                row.get("labels", ""), time.strftime("%Y-%m-%d %H:%M", time.localtime(_changed(file))),
            )
        )  # fmt: skip
    return table(("run", "claim", "ε", "δ", "method", "protects", "labels", "written"), rows, "runs")


def _changed(run: Path) -> float:
    try:
        return (run / "run.json").stat().st_mtime
    except OSError:
        return 0.0


def _ledgers(watched: WatchedFolder, found: FoundFiles) -> str:
    if not found.ledgers:
        return "<p class='empty'>No ledger is here. <code>tacit ledger open</code> creates one from a policy.</p>"
    shown = []
    heads = ("account", "ceiling ε", "at δ", "spent ε", "left ε", "", "payments", "protects")
    for name, file in found.ledgers.items():
        book = watched.book(file)
        link = f"<h3><a href='ledger/{quote(name)}'>{escape(name)}</a></h3>"
        if book is None:
            shown.append(
                link + "<p class='warning'>This ledger cannot be read: see <code>tacit ledger verify</code>.</p>"
            )
            continue
        doubt = (
            "" if book.doubt is None else "<p class='warning'>A copy: it is not the ledger that was last used here.</p>"
        )
        shown.append(link + doubt + table(heads, account_rows(book)))
    return "".join(shown)


def _federations(watched: WatchedFolder, found: FoundFiles) -> str:
    rows = []
    for name, folder in found.coordinators.items():
        nodes = watched.nodes(folder)
        jobs = [each for each in job_states(found) if each.kind == "federation" and _inside(each.name, name)]
        said = "; ".join(f"{each.name}: {each.state}, {each.doing}" for each in jobs) or "no job has started here"
        link = Markup(f"<a href='fleet/{quote(name)}'>{escape(name)}</a>")
        rows.append((link, len(nodes), ", ".join(nodes[:20]) or "none is listed yet", said))
    return table(("coordinator", "nodes", "admitted", "jobs"), rows)


def _inside(job: str, folder: str) -> bool:
    return folder == "." or job.startswith(f"{folder}/")


def _part(name: str, title: str, content: str) -> str:
    return f"<section id='{name}'><h2>{escape(title)}</h2>{content}</section>"


def way_up(name: str) -> str:
    """The way from the page of a run, ledger or federation of this name to the overview.

    >>> way_up("first-run"), way_up("runs/first")
    ('../', '../../')
    """
    return "../" * (name.count("/") + 1)


def _page(title: str, about: str, here: str, content: str, live: bool = False, up: str = "./") -> str:
    # Links are relative: the path of all pages begins with a part that is drawn when the service starts.
    links = "".join(
        f"<a href='{place}'{' aria-current=page' if name == here else ''}>{shown}</a>"
        for name, place, shown in (("overview", up, "Overview"), ("plan", f"{up}plan", "Plan"))
    )
    script = "<script src='ui.js' defer></script>" if live else ""
    dot = "<span id='live' class='live' role='status'>live</span>" if live else ""
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'><link rel='icon' href='data:,'>"
        f"<title>{escape(title)} · Tacit</title><link rel='stylesheet' href='{up}ui.css'>{script}</head><body>"
        f"<header class='bar-top'><div><b class='name'>Tacit</b><nav class='menu' aria-label='pages'>{links}</nav>{dot}"
        f"</div></header><main class='one'><h1>{escape(title)}</h1><p class='kind'>{escape(about)}</p>{content}</main>"
        "</body></html>\n"
    )


# The fields: name, description, example, and bounds.
FIELDS = (
    ("records", "number of private records, or persons", "20000", (1, 10**9)),
    ("classes", "classes", "5", (2, 10**4)),
    ("epsilon", "privacy budget ε", "1", (1e-6, 1000)),
    ("delta", "failure probability δ (0: pure methods only)", "1e-6", (0, 0.1)),
    ("holders", "holders, where a method has several", "10", (1, 10**5)),
)
_PURITY = (0.01, 1)


def planned(given: Mapping[str, str], files: Mapping[str, Path]) -> Forecast:
    """The forecast for a filled-in form; ``files`` may be chosen as public samples. Errors name the field.

    Without a public file the purity is taken from the form.

    >>> given = {"records": "20000", "classes": "5", "epsilon": "0.5", "delta": "1e-6", "holders": "4", "purity": "0.9"}
    >>> planned(given, {}).best.accuracy > 0.8
    True
    >>> planned({**given, "records": "many"}, {})
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: records: must be a whole number between 1 and 1e+09
    """
    whole = ("records", "classes", "holders")
    said = {name: _number(given, name, bounds, name in whole) for name, _, _, bounds in FIELDS}
    name, classes = given.get("public", ""), int(said["classes"])
    more: dict[str, Any] = {}
    known: Any = classes
    if not name:
        more["purity"] = _number(given, "purity", _PURITY)
    else:
        if name not in files:
            raise InvalidInput("public: this file no longer exists")
        more["public"], more["public_labels"], names = _samples(files[name], given.get("label", "").strip())
        if names is not None:
            if len(names) != classes:
                raise InvalidInput(f"label: the column has {len(names)} different labels, and classes is {classes}")
            known = names
    return forecast(
        records=int(said["records"]), classes=known, epsilon=str(said["epsilon"]), delta=str(said["delta"]),
        methods=[each for each in METHODS if METHODS[each].forecast], holders=int(said["holders"]), **more,
    )  # fmt: skip


def _samples(file: Path, label: str) -> tuple[Any, Any, list[str] | None]:
    """The public samples, the labels of those that have one, and the different labels."""
    from tacit.datasets.frame import Frame
    from tacit.datasets.table import Table
    from tacit.datasets.tables import read_data

    found = read_data(file)
    if not label:
        return found.frame if isinstance(found, Table) else found, None, None
    if not isinstance(found, Frame):
        raise InvalidInput(f"label: {listed([file.name])} has no columns with names")
    rest, labels, _ = found.apart(label)
    assert labels is not None
    return rest, labels, sorted({str(each) for each in labels if each not in (None, "")})


def _number(given: Mapping[str, str], name: str, bounds: tuple[float, float], whole: bool = False) -> float:
    least, most = bounds
    text = given.get(name, "").strip()
    try:
        found = float(text) if len(text) <= 20 else math.nan
    except ValueError:
        found = math.nan
    if not least <= found <= most or (whole and found != int(found)):
        kind = "a whole number" if whole else "a number"
        raise InvalidInput(f"{name}: must be {kind} between {least:g} and {most:g}")
    return found
