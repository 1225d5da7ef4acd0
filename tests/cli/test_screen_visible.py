"""Names that a coordinator or a file chose cannot change what an operator sees."""

import io
from pathlib import Path
from types import SimpleNamespace

from rich.console import Console

from tacit.cli import runs, screen
from tacit.core.guarantee import Adjacency, Guarantee, Trust, Unit


def test_control_characters_of_others_are_shown_escaped(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(screen, "console", Console(file=shown, force_terminal=True, width=200))
    # Would erase its own line and the price above it, and write the rest from right to left.
    screen.show_rows(("job", "price", "run"), [("3f2a", "epsilon 5", "run\x1b[1A\x1b[2K\u202e0.1")])
    assert "run\\x1b[1A\\x1b[2K\\u202e0.1" in shown.getvalue()
    assert "epsilon 5" in shown.getvalue()
    assert "\x1b[1A" not in shown.getvalue()


def test_names_of_columns_and_classes_are_shown_escaped(monkeypatch):
    """A saved run may come from somebody else's file."""
    name = "age\x1b[1A\x1b[2K\nstudent    exact"
    claim = Guarantee(8, 0, Unit.person(name, 2), Adjacency.REPLACE_ONE, Trust.CENTRAL)
    said = {
        "method": "rknn", "trust": "central", "labels": {name: 3}, "public_samples": 3, "features": [name],
        "recipe": {"features": 1}, "payments": [], "versions": {"tacit": "0.1"},
        "student": {"kind": "logistic", "file": "student.skops"},
    }  # fmt: skip
    monkeypatch.setattr(runs, "found_record", lambda _: SimpleNamespace(claim=claim))
    monkeypatch.setattr("tacit.report.card.statement", lambda _: said)
    shown = io.StringIO()
    for module in (screen, runs):
        monkeypatch.setattr(module, "console", Console(file=shown, force_terminal=True, width=200, no_color=True))
    runs.show_command(Path("run"), as_json=False)
    assert "age\\x1b[1A\\x1b[2K" in shown.getvalue()
    assert "\x1b[1A" not in shown.getvalue()
    assert "\nstudent    exact" not in shown.getvalue()
