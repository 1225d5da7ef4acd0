"""Names that a coordinator chose cannot change what a node's operator sees."""

import io

from rich.console import Console

from tacit.cli import screen


def test_control_characters_of_others_are_shown_escaped(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(screen, "console", Console(file=shown, force_terminal=True, width=200))
    # Would erase its own line and the price above it, and write the rest from right to left.
    screen.show_rows(("job", "price", "run"), [("3f2a", "epsilon 5", "run\x1b[1A\x1b[2K\u202e0.1")])
    assert "run\\x1b[1A\\x1b[2K\\u202e0.1" in shown.getvalue()
    assert "epsilon 5" in shown.getvalue()
    assert "\x1b[1A" not in shown.getvalue()
