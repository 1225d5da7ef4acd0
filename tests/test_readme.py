"""What the README shows works as shown."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_library_example_runs(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    shown = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True
    ).stdout
    assert "Differential privacy: epsilon = 1, delta = 0 (pure)." in shown
    assert "Pure(epsilon=Fraction(1, 1))" in shown
    assert (tmp_path / "first-run" / "run.json").is_file()


def test_every_file_the_readme_links_to_is_there():
    for target in re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / target).exists(), target
