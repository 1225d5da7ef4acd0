"""A run as one page for a person: the privacy statement first, then what was chosen, labeled, paid and made with.

The page is one file that opens offline: it asks nothing of any other place, runs no script, and prints. All of it is
post-processing of what the run folder holds, which was released; a chart always has its numbers in a table beside it.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.guarantee import TRUST_IN_WORDS, Guarantee, Trust
from tacit.report.card import NOT_COVERED, statement
from tacit.runs.folders import Record

__all__ = ["PRIORS", "odds_bound", "report_page"]

STYLE = (Path(__file__).with_name("page.css")).read_text(encoding="utf-8")
# How likely somebody held a guess beforehand.
PRIORS = (0.001, 0.01, 0.1, 0.5)
MOST_BARS, _MOST_ROWS = 40, 60
PICTURE = "queries.png"
WOULD = "None of this holds here: it is what the same run would have with system randomness."


def odds_bound(prior: float, epsilon: float) -> float:
    """How likely a guess about one unit can become at most, for who held it ``prior`` likely, by ε alone.

    >>> round(odds_bound(0.1, 1.0), 3), odds_bound(0.5, 0.0)
    (0.232, 0.5)
    """
    return 1 / (1 + (1 - prior) / prior * math.exp(-epsilon))


def report_page(record: Record) -> str:
    """The page of a saved run, as HTML."""
    said, arrays = statement(record), record.arrays()
    title = "SIMULATION: " if said["simulation"] else ""
    parts = [
        _privacy(record, said),
        _chosen(said["recipe"]),
        _labels(said),
        _certainty(arrays.get("probabilities"), arrays["labels"].ndim == 2),
        _queries(record, arrays),
        _payments(said["payments"]),
        _measured(said["metrics"]),
        _made(said),
    ]
    # Text inside a script element must not end it.
    machine = json.dumps(said, ensure_ascii=True).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        "style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}Tacit run report</title><style>{STYLE}</style></head><body><main>"
        f"<header><p class='kind'>Tacit run report</p><h1>{escape(title)}What this run tells about private records</h1>"
        f"<p>{said['public_samples']} public samples were labeled by <b>{escape(str(said['method']))}</b>, and a "
        f"student learned from them. {_audience(record, said)}</p></header>"
        f"{''.join(parts)}</main>"
        f'<script type="application/json" id="statement">{machine}</script></body></html>\n'
    )


def _audience(record: Record, said: dict[str, Any]) -> str:
    if said["simulation"] or not said["differential_privacy"]:
        return "<b>It protects nobody: do not publish this page, nor the run.</b>"
    if "not private" in record.written["metrics"]:
        return "This page may be published; run.json may not: it holds figures that were computed without noise."
    return "This page may be published with the run."


def _privacy(record: Record, said: dict[str, Any]) -> str:
    claim = record.claim
    kind = "simulation" if said["simulation"] else "none" if not isinstance(claim, Guarantee) else "holds"
    lines = "".join(f"<p>{escape(line)}</p>" for line in str(claim).splitlines())
    if not isinstance(claim, Guarantee):
        return _section("privacy", "The privacy statement", f"<div class='statement none'>{lines}</div>")
    trust = TRUST_IN_WORDS[Trust(claim.trust)]
    epsilon = float(claim.epsilon)
    rows = [(f"{prior:.1%}", f"{odds_bound(prior, epsilon):.1%}") for prior in PRIORS]
    delta = (
        "δ is 0: this holds always."
        if claim.delta == 0
        else f"δ = {float(claim.delta):g} is the probability with which this bound may fail altogether."
    )
    said_plainly = [
        ("Who is protected", claim.unit.in_words),
        ("Against whom", "anyone, with any side knowledge, forever"),
        ("Who sees the records", trust),
        ("Neighboring data sets", "one is replaced by another" if claim.adjacency == "replace-one" else
         "one is added or removed"),
        ("ε and δ", f"{said['guarantee']['epsilon']} and {said['guarantee']['delta']}, by {claim.accountant}"),
        ("Covers", "this run alone: what else is released about the same records adds to it"),
    ]  # fmt: skip
    caveats = [f"Public data: {claim.public_data}.", *(f"{each}." for each in claim.caveats)]
    weak = " weak" if claim.weak else ""
    return _section(
        "privacy", "The privacy statement",
        f"<div class='statement {kind}{weak}'>{lines}</div>"
        + (f"<p><b>{WOULD}</b></p>" if said["simulation"] else "")
        + _table(("", ""), said_plainly, "plain")
        + "<h3>What ε means for one of them</h3><p>Whatever somebody believes about one "
        f"{'holder' if claim.unit.holder else 'record' if claim.unit.column is None else 'person'}, all that this run "
        "publishes can multiply the odds of that belief by at most "
        f"e<sup>ε</sup> = {_factor(epsilon)}. {escape(delta)}</p>"
        + _table(("held likely before", "likely after, at most"), rows)
        + "<h3>What it rests on</h3>" + _list(caveats)
        + "<h3>What it does not protect</h3>" + _list(NOT_COVERED),
    )  # fmt: skip


def _factor(epsilon: float) -> str:
    return f"{math.exp(epsilon):,.3g}" if epsilon < 50 else "more than 10²¹, which is no protection"


def _chosen(recipe: dict[str, Any]) -> str:
    rows = [(name.replace("_", " "), _short(value)) for name, value in recipe.items() if name != "options"]
    options = [(name, _short(value)) for name, value in dict(recipe.get("options") or {}).items()]
    more = (
        f"<details><summary>every option</summary>{_table(('option', 'value'), options)}</details>" if options else ""
    )
    return _section("chosen", "What was chosen, and why", _table(("choice", "value"), rows) + more)


def _labels(said: dict[str, Any]) -> str:
    counts = list(said["labels"].items())
    several = said["several_labels_per_sample"]
    about = "How many public samples got each label" + ("; a sample may have several." if several else ".")
    return _section("labels", "The labels", f"<p>{about}</p>" + _bars(counts) + _numbers(("class", "samples"), counts))


def _certainty(probabilities: NDArray[np.float64] | None, several: bool) -> str:
    if probabilities is None:
        return _section(
            "certainty", "How certain the labels are",
            "<p>Labels alone were released, without probabilities: that buys more of them for the same ε. Soft labels "
            "(<code>labels=soft</code>) come with probabilities.</p>",
        )  # fmt: skip
    sure = np.maximum(probabilities, 1 - probabilities).ravel() if several else probabilities.max(axis=1)
    edges = np.linspace(0, 1, 11)
    found, _ = np.histogram(sure, edges)
    bins = [(f"{low:.0%} to {low + 0.1:.0%}", int(count)) for low, count in zip(edges[:-1], found, strict=True)]
    what = "label decisions" if several else "public samples"
    doubtful = int((sure < 0.5).sum())
    return _section(
        "certainty", "How certain the labels are",
        f"<p>{len(sure)} {what} by the probability of what was decided, as read from noisy counts. {doubtful} are less "
        "certain than one half.</p>" + _bars(bins) + _numbers(("probability", what), bins),
    )  # fmt: skip


def _queries(record: Record, arrays: dict[str, NDArray[Any]]) -> str:
    if "query_labels" not in arrays:
        return ""
    picture = record.folder / PICTURE
    shown = ""
    if picture.is_file():
        data = base64.b64encode(picture.read_bytes()).decode()
        shown = f"<img alt='queries and the labels they got' src='data:image/png;base64,{data}'>"
    labels = arrays["query_labels"]
    named = [", ".join(str(name) for name, yes in zip(arrays["classes"], row, strict=True) if yes) or "none" for row in
             labels] if labels.ndim == 2 else [str(each) for each in labels]  # fmt: skip
    members = np.bincount(arrays["membership"], minlength=len(labels)) if "membership" in arrays else None
    rows = [
        (str(place), label, "" if members is None else str(members[place]))
        for place, label in enumerate(named[:_MOST_ROWS])
    ]
    left = "" if len(named) <= _MOST_ROWS else f"<p>{len(named) - _MOST_ROWS} more are in arrays.npz.</p>"
    return _section(
        "queries", f"The {len(named)} queries, and what was released of each",
        shown + "<details><summary>as a table</summary>"
        + _table(("query", "released label", "public samples"), rows) + left + "</details>",
    )  # fmt: skip


def _payments(payments: Sequence[dict[str, Any]]) -> str:
    rows = [
        (each["account"], each["purpose"], _spend(each["spend"]), each["randomness"]) for each in payments[:_MOST_ROWS]
    ]
    left = "" if len(payments) <= _MOST_ROWS else f"<p>{len(payments) - _MOST_ROWS} more are in run.json.</p>"
    return _section(
        "payments", f"What was paid: {len(payments)} payment{'s' * (len(payments) != 1)}",
        _table(("account", "purpose", "spend: the known scale of the noise", "randomness"), rows) + left,
    )  # fmt: skip


def _spend(spend: dict[str, Any]) -> str:
    return f"{spend.get('kind')}: " + ", ".join(f"{name} = {value}" for name, value in spend.items() if name != "kind")


def _measured(metrics: dict[str, Any]) -> str:
    rows = [(name, _short(value)) for name, value in metrics.items()]
    return _section("measured", "What was measured", _table(("figure", "value"), rows)) if rows else ""


def _made(said: dict[str, Any]) -> str:
    rows = list(said["versions"].items())
    return _section("made", "Made with", _table(("package", "version"), rows))


def _section(name: str, title: str, body: str) -> str:
    return f"<section id='{name}'><h2>{escape(title)}</h2>{body}</section>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]], kind: str = "") -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    shown = f"<thead><tr>{head}</tr></thead>" if any(heads) else ""
    return f"<div class='wide'><table class='{kind}'>{shown}<tbody>{body}</tbody></table></div>"


def _numbers(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    return f"<details><summary>the numbers</summary>{_table(heads, rows)}</details>"


def _list(items: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(each[:1].upper() + each[1:])}</li>" for each in items) + "</ul>"


def _bars(rows: Sequence[tuple[str, int]]) -> str:
    """A bar per row, with its name before it and its number behind it."""
    most = max([1, *(count for _, count in rows)])
    bars = "".join(
        f"<div class='bar'><span class='name'>{escape(name[:40])}</span>"
        f"<span class='track'><span class='fill' style='width:{100 * count / most:.1f}%'></span></span>"
        f"<span class='count'>{count}</span></div>"
        for name, count in rows[:MOST_BARS]
    )
    left = f"<p>and {len(rows) - MOST_BARS} more in the table</p>" if len(rows) > MOST_BARS else ""
    return f"<div class='bars' role='img' aria-label='bar chart; the numbers are in the table'>{bars}</div>{left}"


def _short(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return "; ".join(", ".join(f"{name} {inner}" for name, inner in each.items()) for each in value)[:200]
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 200 else text[:199] + "…"
