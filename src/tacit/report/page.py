"""A run's report as one page: the privacy statement first, then the choices, labels, payments and versions.

All of it is post-processing of the run folder, which contains releases only; every chart has its numbers in a table
beside it. Figures of a test set are marked: they are computed without noise.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import spend_from_json, spend_in_words
from tacit.core.errors import plural
from tacit.core.guarantee import TRUST_IN_WORDS, Guarantee, Trust
from tacit.report import svg
from tacit.report.budget import Book, spent_section
from tacit.report.card import NOT_COVERED, statement
from tacit.report.html import bullets, cards, document, pair, short, table
from tacit.report.measured import Measured
from tacit.runs.folders import Record
from tacit.runs.shown import query_certainty

__all__ = ["PRIORS", "odds_bound", "report_page"]

# Prior probabilities of a guess.
PRIORS = (0.001, 0.01, 0.1, 0.5)
_MOST_BARS, _MOST_ROWS, _MOST_COLUMNS, _MOST_COMPONENTS = 30, 60, 12, 7
PICTURE = "queries.png"
WOULD = "None of this holds here: it is what the same run would have with system randomness."
_DOUBT, _DOUBT_OF_TWO = 0.5, 0.7  # the likelier of two is never below one half
# Explanations of the recipe's keys.
_ABOUT = {
    "method": "the method that asks for labels",
    "trust": "the trust model: who may see what",
    "chosen": "what the default chose, from public data",
    "asked": "the ε and δ that were asked for",
    "kind": "the kind of data that the plan is for",
    "plan": "what is asked, and why",
    "budgets": "ε of each question",
    "votes because": "why the default asked for votes",
    "gradients because": "why the default asked for gradients",
    "mechanism": "the mechanism that adds noise",
    "why": "the reason for the mechanism",
    "noise": "the law of the noise on each released number",
    "sensitivity": "how far one unit can change what is released, before noise",
    "released": "each release, and the law of its noise",
    "queries": "number of queries, each about a group of public samples",
    "rounds": "the queries of each round",
    "neighbors": "number of nearest neighbors: queries of a record, or with Private k-NN records of a query",
    "representation": "how samples are compared; fitted on public samples",
    "student": "the model that was trained on the labels",
    "public_samples": "number of labeled samples",
    "features": "numbers per sample",
    "data_kind": "the kind of data that was recognized",
    "encoding": "how columns became numbers",
    "randomness": "where the noise came from",
    "teachers": "number of models that voted, each trained on its own records",
    "components": "number of directions that were summed per class",
    "norm": "how the length of a record's features is measured",
    "radius": "grid steps in the longest record; longer ones are shortened to it",
    "count": "grid steps that a record adds to the count of its class",
    "steps": "number of noisy gradients",
    "rate": "size of a step, or the fraction of records in a sample",
    "clip": "longest gradient of one record; longer ones are shortened to it",
    "damping": "what keeps the weights small",
    "noise_multiplier": "deviation of the noise, in the longest gradient of one record",
    "sigma": "deviation of the noise on each count",
    "answers": "number of queries that were paid for",
    "agreed": "number of public samples with an agreed label",
}


def odds_bound(prior: float, epsilon: float) -> float:
    """The largest posterior probability of a guess about one unit with this prior probability, by ε alone.

    >>> round(odds_bound(0.1, 1.0), 3), odds_bound(0.5, 0.0)
    (0.232, 0.5)
    """
    return 1 / (1 + (1 - prior) / prior * math.exp(-epsilon))


def report_page(record: Record, measured: Measured | None = None, book: Book | None = None) -> str:
    """The HTML report of a saved run; optionally with the results on a test set and the ledger that paid."""
    said, arrays = statement(record), record.arrays()
    title = "SIMULATION: " if said["simulation"] else ""
    parts = [
        ("privacy", "The privacy statement", _privacy(record, said)),
        ("budget", "The budget", spent_section(record, book)),
        ("chosen", "What was chosen, and why", _chosen(said["recipe"])),
        ("labels", "The labels", _labels(said)),
        ("certainty", "How certain the labels are", _certainty(arrays, str(said["recipe"].get("chosen", "")))),
        ("test", "How right the student is", "" if measured is None else _tested(measured)),
        ("queries", "What was asked", _queries(record, arrays)),
        ("released", "What was released, with its noise", _released(said, arrays)),
        ("measured", "What the run measured", _measured(said["metrics"])),
        ("timing", "How long it took", _timing(said["timing"])),
        ("made", "Made with", _made(said)),
    ]
    header = (
        f"<p class='kind'>Tacit run report</p><h1>{escape(title)}What this run reveals about private records</h1>"
        f"<p>{said['public_samples']:,} public samples were labeled by <b>{escape(str(said['method']))}</b>, and a "
        f"student was trained on them. {_audience(record, said, measured)}</p>{_facts(record, said)}"
    )
    return document(f"{title}Tacit run report", header, [each for each in parts if each[2]], said)


def _audience(record: Record, said: dict[str, Any], measured: Measured | None) -> str:
    if said["simulation"] or not said["differential_privacy"]:
        return "<b>It protects nobody: do not publish this page, nor the run.</b>"
    noted = "not private" in record.written["metrics"]
    run = "run.json may not: it contains figures that were computed without noise"
    if measured is not None:
        page = "Publish this page only if the test samples are public: its test figures were computed without noise."
        return f"{page} As for the run, {run}." if noted else page
    return f"This page may be published; {run}." if noted else "This page may be published with the run."


def _facts(record: Record, said: dict[str, Any]) -> str:
    claim = record.claim
    labels = ("Labels", f"{said['public_samples']:,}", f"{len(said['labels'])} classes")
    if not isinstance(claim, Guarantee):
        return cards([("Guarantee", "none", "no differential privacy"), labels])
    would = "would be, with system randomness" if said["simulation"] else "smaller is more private"
    return cards(
        [
            ("Privacy loss ε", said["guarantee"]["epsilon"], would),
            ("Failure probability δ", said["guarantee"]["delta"], "0: never" if claim.delta == 0 else "at most"),
            ("Protects", _whom(claim), _neighbors(claim)),
            ("Trust", str(claim.trust), TRUST_IN_WORDS[Trust(claim.trust)]),
            labels,
        ]
    )


def _whom(claim: Guarantee) -> str:
    return "one holder" if claim.unit.holder else "one record" if claim.unit.column is None else "one person"


def _neighbors(claim: Guarantee) -> str:
    return "one is replaced by another" if claim.adjacency == "replace-one" else "one is added or removed"


def _privacy(record: Record, said: dict[str, Any]) -> str:
    claim = record.claim
    kind = "simulation" if said["simulation"] else "none" if not isinstance(claim, Guarantee) else "holds"
    lines = "".join(f"<p>{escape(line)}</p>" for line in str(claim).splitlines())
    if not isinstance(claim, Guarantee):
        return f"<div class='statement none'>{lines}</div>"
    epsilon = float(claim.epsilon)
    likely = [(prior, odds_bound(prior, epsilon)) for prior in PRIORS]
    delta = (
        "δ is 0: this holds always."
        if claim.delta == 0
        else f"This is for δ = 0; with δ = {float(claim.delta):g} the probability of any outcome may differ by δ more."
    )
    said_plainly = [
        ("Who is protected", claim.unit.in_words),
        ("Against whom", "anyone, with any side knowledge, forever"),
        ("Who sees the records", TRUST_IN_WORDS[Trust(claim.trust)]),
        ("Neighboring data sets", _neighbors(claim)),
        ("ε and δ", f"{said['guarantee']['epsilon']} and {said['guarantee']['delta']}, by {claim.accountant}"),
        ("Covers", "this run alone: what else is released about the same records adds to it"),
    ]
    caveats = [f"Public data: {claim.public_data}.", *(f"{each}." for each in claim.caveats)]
    steps = [each / 50 for each in range(1, 50)]
    chart = svg.unit_curve(
        [(0.0, 0.0), *((each, odds_bound(each, epsilon)) for each in steps), (1.0, 1.0)], likely,
        "likely before", "likely after, at most",
    )  # fmt: skip
    rows = [(f"{prior:.1%}", f"{after:.1%}") for prior, after in likely]
    return (
        f"<div class='statement {kind}{' weak' if claim.weak else ''}'>{lines}</div>"
        + (f"<p><b>{WOULD}</b></p>" if said["simulation"] else "")
        + table(("", ""), said_plainly, "plain")
        + f"<h3>What ε means for {escape(_whom(claim))}</h3><p>Whatever somebody believes about "
        f"{escape(_whom(claim))}, all that this run publishes can multiply the odds of that belief by at most "
        f"e<sup>ε</sup> = {_factor(epsilon)}. {escape(delta)}</p>"
        + pair(
            chart, table(("likely before", "likely after, at most"), rows),
            "How far a belief can change at most: on the dashed line nothing is learned.",
        )
        + "<h3>What it depends on</h3>" + bullets(caveats)
        + "<h3>What it does not protect</h3>" + bullets(NOT_COVERED)
    )  # fmt: skip


def _factor(epsilon: float) -> str:
    return f"{math.exp(epsilon):,.3g}" if epsilon < 50 else "more than 10²¹, which is no protection"


def _chosen(recipe: dict[str, Any]) -> str:
    rows = [(name.replace("_", " "), short(value), _ABOUT.get(name, "")) for name, value in recipe.items()
            if name != "options" and value is not None]  # fmt: skip
    options = [(name, short(value)) for name, value in dict(recipe.get("options") or {}).items()]
    more = f"<details><summary>every option</summary>{table(('option', 'value'), options)}</details>" if options else ""
    return (
        "<p>Every choice was made from public figures and from what had been released by then.</p>"
        + table(("choice", "value", "what it is"), rows, "choices") + more
    )  # fmt: skip


def _labels(said: dict[str, Any]) -> str:
    counts = list(said["labels"].items())
    several = "; a sample may have several" if said["several_labels_per_sample"] else ""
    left = f", the first {_MOST_BARS} of {len(counts)} classes" if len(counts) > _MOST_BARS else ""
    total = max(1, said["public_samples"])
    rows = [(name, count, f"{count / total:.1%}") for name, count in counts]
    return pair(
        svg.bars(counts[:_MOST_BARS], "public samples per label"), table(("label", "samples", "share"), rows),
        f"How many public samples got each label{several}{left}.",
    )  # fmt: skip


def _certainty(arrays: dict[str, NDArray[Any]], chosen: str) -> str:
    probabilities, several = arrays.get("probabilities"), arrays["labels"].ndim == 2
    counted = "counts" in arrays or "votes" in arrays or "votes" in chosen
    doubt = _DOUBT if arrays["classes"].size > 2 and not several else _DOUBT_OF_TWO
    if probabilities is not None:
        sure = np.maximum(probabilities, 1 - probabilities).ravel() if several else probabilities.max(axis=1)
        how = "as read from noisy counts" if counted else "as computed from noisy sums"
    elif "certainty" in arrays:
        sure = arrays["certainty"]
        how = "as the student predicts it, which may be confident of a wrong label that it learned" + (
            "" if counted else ": only labels were released, which allows more of them for the same ε"
        )
    elif counted:
        return "<p>Labels are those with the most noisy votes; no probabilities were computed from them.</p>"
    else:
        return (
            "<p>Only labels were released, without probabilities: that allows more of them for the same ε. Soft labels "
            "(<code>labels=soft</code>) come with probabilities.</p>"
        )
    edges = np.linspace(0, 1, 11)
    found, _ = np.histogram(sure, edges)
    bins = [(f"{low:.0%} to {low + 0.1:.0%}", int(count)) for low, count in zip(edges[:-1], found, strict=True)]
    what = "label decisions" if several else "public samples"
    doubtful, limit = int((sure < doubt).sum()), "one half" if doubt == _DOUBT else f"{doubt:.0%}"
    return (
        f"<p>{len(sure):,} {what} by the probability of what was decided, {how}. {doubtful:,} "
        f"{'is' if doubtful == 1 else 'are'} less certain than {limit}.</p>"
        + pair(
            svg.columns(bins, "probability of the label", what, marked=round(10 * doubt)),
            table(("probability", what), bins),
            f"Doubtful ones, less certain than {limit}, are orange.",
        )
    )  # fmt: skip


def _tested(found: Measured) -> str:
    rows = [(name, count, f"{recall:.1%}", f"{precision:.1%}") for name, count, recall, precision in found.by_class()]
    counts = table(("true class", "samples", "recall", "precision"), rows[:_MOST_ROWS])
    body = (
        f"<p class='warning'>These figures come from {found.samples:,} samples of {escape(found.source)} without "
        "noise. No guarantee covers those samples: publish the figures only if the samples are public.</p>"
        f"<p><b>{found.accuracy:.1%}</b> are right, give or take {found.margin:.1%} (two standard errors).</p>"
        + pair(svg.matrix(found.confusion, found.classes), counts, "One row per true class; confusions are red.")
    )
    error = found.calibration_error
    if error is None:
        return body + "<p>This student has no probabilities, so there is no reliability diagram.</p>"
    bins = [(f"{likely:.1%}", f"{right:.1%}", count) for likely, right, count in found.bins]
    return (
        body + f"<h3>Is it calibrated?</h3><p>Confidence and accuracy are {error:.1%} apart on average.</p>"
        + pair(
            svg.reliability(found.bins), table(("confidence", "right", "samples"), bins),
            "Reliability diagram: below the dashed line the student is overconfident, above it underconfident.",
        )
    )  # fmt: skip


def _queries(record: Record, arrays: dict[str, NDArray[Any]]) -> str:
    if "query_labels" not in arrays:
        return ""
    picture, shown = record.folder / PICTURE, ""
    if picture.is_file():
        data = base64.b64encode(picture.read_bytes()).decode()
        shown = f"<img alt='queries and the labels they got' src='data:image/png;base64,{data}'>"
    labels, examples = arrays["query_labels"], arrays.get("query_examples")
    named = [", ".join(str(name) for name, yes in zip(arrays["classes"], row, strict=True) if yes) or "none" for row in
             labels] if labels.ndim == 2 else [str(each) for each in labels]  # fmt: skip
    asked = arrays["membership"][arrays["membership"] >= 0] if "membership" in arrays else None
    members = None if asked is None else np.bincount(asked, minlength=len(labels))
    sure = query_certainty(arrays)
    columns: list[tuple[str, Sequence[Any]]] = [("query", range(len(named))), ("released label", named)]
    if members is not None:
        columns.append(("public samples", members.tolist()))
    if sure is not None:
        columns.append(("certainty, mean", [f"{each:.0%}" if np.isfinite(each) else "" for each in sure]))
    if examples is not None:
        columns.append(("one of them", examples.tolist()))
    heads, rows = [name for name, _ in columns], list(zip(*(values for _, values in columns), strict=True))[:_MOST_ROWS]
    left = "" if len(named) <= _MOST_ROWS else f"<p>{len(named) - _MOST_ROWS} more are in arrays.npz.</p>"
    return (
        f"<p>{plural(len(named), 'query', 'queries')}, each a group of public samples that look alike, and the label "
        "each got.</p>"
        + shown + table(heads, rows) + left
    )  # fmt: skip


def _released(said: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> str:
    payments = said["payments"]
    rows = [
        (each["account"], each["purpose"], spend_in_words(spend_from_json(each["spend"])), each["randomness"])
        for each in payments
    ]
    left = "" if len(rows) <= _MOST_ROWS else f"<p>{len(rows) - _MOST_ROWS} more are in run.json.</p>"
    paid = table(("account", "purpose", "spend: the known scale of the noise", "randomness"), rows[:_MOST_ROWS]) + left
    return _numbers(said["recipe"], arrays) + f"<h3>{len(rows)} payment{'s' * (len(rows) != 1)}</h3>" + paid


def _numbers(recipe: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> str:
    """The released noisy tables, each with the law and scale of its noise."""
    kept: Sequence[str] = [name for name in ("counts", "votes", "sums") if name in arrays][:1]
    tables: list[tuple[str, Any, Any]] = [(name, name, recipe.get("noise")) for name in kept]
    # The default asks several questions, and records what each of them released.
    for number, each in enumerate(recipe.get("released") or (), start=1):
        tables.append((f"release_{number}", each.get("what"), each.get("noise")))
    shown = [_table(str(what), noise, arrays[name], arrays["classes"]) for name, what, noise in tables
             if name in arrays and arrays[name].ndim == 2]  # fmt: skip
    if shown:
        return "".join(shown)
    if "noise_multiplier" in recipe:
        return "<p>A model whose training had noise in every step was released; no counts or sums left the gate.</p>"
    # Gradients, which are sums over the records, are not kept; nor were the default's tables in earlier versions.
    chosen = str(recipe.get("chosen") or "")
    sums = "sums" in chosen or recipe.get("method") in ("class_sums", "noisy_sgd")
    if sums or "votes" in chosen:
        what = " and ".join(["counts of votes"] * ("votes" in chosen) + ["sums"] * sums).capitalize()
        law = f"the noise on each number is {short(noise)}" if (noise := recipe.get("noise")) else (
            "the payments below give the scale of their noise")  # fmt: skip
        return (
            f"<p>{what} with noise in them were released, which the student and the labels are made of; {escape(law)}. "
            "They are not kept as a table.</p>"
        )
    return "<p>Labels or probabilities alone were released; no counts left the gate.</p>"


def _table(what: str, noise: Any, numbers: NDArray[Any], classes: NDArray[Any]) -> str:  # noqa: ANN401
    names = [str(each) for each in classes]
    heads, aside = (("query", *names), [str(each) for each in range(len(numbers))])
    if numbers.shape[1] != len(names) or what == "sums":
        heads = ("class", "component 1", *(str(place + 1) for place in range(1, numbers.shape[1])))
        aside = names if len(names) == len(numbers) else aside
    # Sums have up to eight digits, and a page of paper has an end.
    wide = min(_MOST_COLUMNS if heads[0] == "query" else _MOST_COMPONENTS, numbers.shape[1])
    rows = [(aside[place], *row[:wide]) for place, row in enumerate(numbers[:_MOST_ROWS].tolist())]
    cut = numbers.shape[1] > wide or len(numbers) > _MOST_ROWS
    part = f" A part of {len(numbers)} × {numbers.shape[1]}; all are in arrays.npz." if cut else ""
    law = f"The noise on each of them: {short(noise)}." if noise else "The spends below give the scale of their noise."
    named = {"a gradient": "numbers of a gradient"}.get(what, what)
    return (
        f"<p>These {escape(named)} were released with noise, so some are below 0 or too large; the true ones are in no "
        f"file. {escape(law)}{part}</p>" + table(heads[: wide + 1], rows)
    )


def _measured(metrics: dict[str, Any]) -> str:
    rows: Sequence[Any] = [(name, short(value)) for name, value in metrics.items()]
    return table(("figure", "value"), rows) if rows else ""


def _timing(timing: dict[str, int]) -> str:
    """The time of the public steps; the time of steps that touch records would depend on them, and is not stored."""
    why = (
        "<p>Only steps that saw public samples and releases have a time, in whole seconds. How long records were read, "
        "encoded and counted depends on the records and no noise covers it, so it is written nowhere, nor how long the "
        "run took in all. A ledger has the time of each payment.</p>"
    )
    if not timing:
        return why
    numbers = table(
        ("step without records", "seconds"), [(step, spent or "less than 1") for step, spent in timing.items()]
    )
    if not any(timing.values()):
        return numbers + why
    chart = svg.bars(list(timing.items()), "seconds of the public steps")
    return pair(chart, numbers, "Seconds of the steps that saw no record.") + why


def _made(said: dict[str, Any]) -> str:
    return table(("package", "version"), list(said["versions"].items()))
