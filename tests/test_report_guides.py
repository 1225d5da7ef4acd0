"""The pages about the report and the live view run as they are shown; a server is started and ended."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.cli import main

DOCS = Path(__file__).parents[1] / "docs"
# Not run here: it would change the environment that runs the tests.
LISTED = {"pip install 'tacit[ui]'"}


def blocks(page):
    return re.findall(r"```(python)?\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def command(line):
    with pytest.raises(SystemExit) as stopped:
        main(line.split()[1:])
    assert stopped.value.code == 0, line


def test_the_page_about_reports(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind, block in blocks("report.md"):
        if kind == "python":
            exec(compile(block, "report.md", "exec"), {})
        else:
            for line in block.splitlines():
                command(line)
    written = {each.name for each in tmp_path.iterdir()}
    assert {"with-budget.html", "tested.html", "site.ledger.html", "answers.md", "entry.json"} <= written
    assert "confusion matrix" in Path("tested.html").read_text()


def test_the_page_about_the_live_view(tmp_path):
    pytest.importorskip("tacit.ui.service", reason="tacit[ui] is not installed")
    (tmp_path / "runs").mkdir()
    shown = [line for _, block in blocks("live-view.md") for line in block.splitlines() if line not in LISTED]
    assert shown
    for line in shown:
        program, *arguments = line.split()
        assert program == "tacit"
        # The port on the page may be taken here.
        arguments = [
            "0" if before == "--port" else each for before, each in zip(["", *arguments], arguments, strict=False)
        ]
        running = subprocess.Popen(
            [sys.executable, "-c", "from tacit.cli import main; main()", *arguments], cwd=tmp_path,
            stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"},
        )  # fmt: skip
        try:
            assert "http://127.0.0.1:" in running.stdout.readline()
        finally:
            running.terminate()
            running.communicate(timeout=60)
