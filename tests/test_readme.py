"""What the README shows works as shown."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from tacit.cli.method_options import renamed_flags
from tacit.core.account import Ceiling
from tacit.core.randomness import SeededRandomness
from tacit.core.sensitivity import Sensitivity
from tacit.ledger import open_ledger
from tacit.methods.registry import METHODS
from tacit.private.gate import Gate
from tacit.private.records import Private

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


def test_every_threat_has_a_test_that_is_there():
    page = (ROOT / "docs" / "security.md").read_text()
    assert [int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)] == list(range(1, 16))
    named = re.findall(r"`((?:tests|benchmarks)/[\w/.]+)`", page)
    assert len(named) > 25
    for file in named:
        assert (ROOT / file).is_file(), file


def test_the_migration_page_has_an_example_that_runs_and_names_every_renamed_option():
    page = (ROOT / "docs" / "migration.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(example, {})
    for method in METHODS.values():
        for old, new in method.load_options().renamed.items():
            if new.isidentifier():
                assert f"| `{method.name}` | `{old}` | `{new}` |" in page, old
    for old in renamed_flags():
        assert old in page or old.replace("_", "-") in page, old


def test_the_tutorial_adds_a_mechanism_that_goes_through_the_gate():
    page = (ROOT / "docs" / "adding-a-mechanism.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    made: dict[str, object] = {}
    exec(example, made)
    presence = made["Presence"]("1/2")
    gate = Gate(open_ledger("memory:", {"site": Ceiling(1)}), "site", SeededRandomness(1))
    release = gate.release(
        Private(np.array([[9, 0]])), lambda: np.zeros((1, 2), dtype=np.int64), Sensitivity(l1=2, row_range=2),
        presence, "votes", "r-1", "which?",
    )  # fmt: skip
    assert release.value.shape == (1, 2)
    assert release.receipts[0].spend == presence.spend
