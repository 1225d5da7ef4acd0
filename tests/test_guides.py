"""Every block of the guides runs as it is shown: Python in one program after another, commands as they are typed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
GUIDES = {"guide-tables.md": "mixed", "guide-text.md": "bones", "guide-images.md": "disc"}


@pytest.mark.parametrize("guide", GUIDES)
def test_the_guide_runs_as_it_is_shown(guide, tmp_path):
    if guide == "guide-images.md":
        pytest.importorskip("PIL")
    said = ""
    for kind, block in re.findall(r"```(python)?\n(.*?)```", (DOCS / guide).read_text(), re.DOTALL):
        command = [sys.executable, "-c", block]
        if kind != "python":
            program, *arguments = block.split()
            assert program == "tacit"
            command = [sys.executable, "-c", "from tacit.cli import main; main()", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr
        said = done.stdout
    assert GUIDES[guide] in said
