"""The parts of every page: one HTML file that opens offline, loads nothing from the network, and prints well."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

__all__ = ["POLICY", "STYLE", "Markup", "bullets", "cards", "document", "pair", "section", "short", "table"]

STYLE = (Path(__file__).with_name("page.css")).read_text(encoding="utf-8")
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def document(title: str, header: str, parts: Sequence[tuple[str, str, str]], statement: dict[str, Any]) -> str:
    """A whole page: a header, sections of (name, title, content), and the statement as JSON for programs.

    >>> page = document("Tacit", "<h1>A run</h1>", [("made", "Made with", "<p>numpy</p>")], {"format": "x"})
    >>> page.startswith("<!doctype html>"), "<section id='made'>" in page
    (True, True)
    """
    # Text inside a script element must not end it.
    machine = json.dumps(statement, ensure_ascii=True).replace("<", "\\u003c")
    links = "".join(f"<a href='#{name}'>{escape(shown)}</a>" for name, shown, _ in parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        f"<header class='top'><div>{header}</div></header><main><nav aria-label='contents'>{links}</nav><div>"
        f"{''.join(section(*each) for each in parts)}</div></main>"
        f'<script type="application/json" id="statement">{machine}</script></body></html>\n'
    )


def section(name: str, title: str, content: str) -> str:
    """A part of a page, with an anchor.

    >>> section("made", "Made with", "<p>numpy</p>")
    "<section id='made'><h2>Made with</h2><p>numpy</p></section>"
    """
    return f"<section id='{name}'><h2>{escape(title)}</h2>{content}</section>"


def cards(facts: Sequence[tuple[str, str, str]]) -> str:
    """The most important facts as cards: a name, a value, and an explanation.

    >>> cards([("ε", "1", "smaller is more private")]).count("<b>1</b>")
    1
    """
    shown = "".join(
        f"<div class='card'><span>{escape(name)}</span><b>{escape(value)}</b><small>{escape(about)}</small></div>"
        for name, value, about in facts
    )
    return f"<div class='cards'>{shown}</div>"


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]], kind: str = "") -> str:
    """A table of text; a cell that is ``Markup`` is not escaped.

    >>> table(("class", "samples"), [("a<b", 3000)])
    "<div class='wide'><table class=''><thead><tr><th>class</th><th>samples</th></tr></thead><tbody>\
<tr><td>a&lt;b</td><td class='short'>3,000</td></tr></tbody></table></div>"
    """
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    shown = f"<thead><tr>{head}</tr></thead>" if any(heads) else ""
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return f"<div class='wide'><table class='{kind}'>{shown}<tbody>{body}</tbody></table></div>"


# Characters of a cell that is not broken, and of the longest value of a recipe.
_SHORT, _LONGEST = 16, 600
# Of four digits and more: fewer are not broken.
_NUMBER = re.compile(r"\d[\d.,]{3,}%?")


class Markup(str):
    """HTML made by this package from escaped text."""

    __slots__ = ()


def _cell(value: Any) -> str:  # noqa: ANN401
    """A cell; one with little in it, such as 1e-05, and a number stay on one line."""
    if isinstance(value, Markup):
        return f"<td>{value}</td>"
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    little = (" " in text or "-" in text or _NUMBER.fullmatch(text)) and len(text) <= _SHORT
    short = " class='short'" if little else ""
    return f"<td{short}>{escape(text)}</td>"


def pair(chart: str, numbers: str, caption: str) -> str:
    """A chart with its numbers beside it.

    >>> pair("<svg></svg>", "<table></table>", "samples per class").count("figcaption")
    2
    """
    return f"<div class='pair'><figure>{chart}<figcaption>{escape(caption)}</figcaption></figure>{numbers}</div>"


def bullets(items: Sequence[str]) -> str:
    """A list of sentences.

    >>> bullets(["one thing"])
    '<ul><li>One thing</li></ul>'
    """
    return "<ul>" + "".join(f"<li>{escape(each[:1].upper() + each[1:])}</li>" for each in items) + "</ul>"


def short(value: Any) -> str:  # noqa: ANN401
    """A value of a recipe on one line, shortened after a whole part of it.

    >>> short(0.123456), short([{"queries": 3, "count_weight": 0.5}]), short([0.946]), short(True)
    ('0.1235', 'queries 3, count weight 0.5', '0.946', 'yes')
    """
    if isinstance(value, dict):
        text = ", ".join(f"{str(name).replace('_', ' ')} {short(inner)}" for name, inner in value.items())
    elif isinstance(value, list):
        text = ("; " if any(isinstance(each, dict) for each in value) else ", ").join(map(short, value))
    elif isinstance(value, bool) or value is None:
        text = "yes" if value else "no"
    else:
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else (text[:_LONGEST].rpartition(", ")[0] or text[:_LONGEST]) + " …"
