"""What the README shows works as shown."""

import re
from pathlib import Path

import numpy as np

import tacit
from tacit.cli.method_options import renamed_flags
from tacit.core.account import Ceiling
from tacit.core.randomness import SeededRandomness
from tacit.core.sensitivity import Sensitivity
from tacit.ledger import open_ledger
from tacit.methods.registry import METHODS
from tacit.private.gate import Gate
from tacit.private.records import Private
from tests.docs.pages import run_page

ROOT = Path(__file__).parents[1]


def test_a_new_user_walks_it_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TACIT_STATE", str(tmp_path / "state"))
    run_page("README.md", tmp_path)
    shown = " ".join(re.sub("[│╭╮╰╯─]", " ", capsys.readouterr().out).split())
    assert "dry run nothing was spent, and nothing was written" in shown
    assert 'Protects: one person (column "patient", at most 3 records each)' in shown
    assert "Differential privacy: epsilon = 1, delta = 0 (pure)." in shown  # the library's own run
    assert "Pure(epsilon=Fraction(1, 1))" in shown
    assert (tmp_path / "digits-run" / "run.json").is_file()
    assert "The privacy statement" in (tmp_path / "first-run" / "report.html").read_text()
    assert (tmp_path / "labels.csv").read_text().startswith("row,label,probability of ill")
    assert "Differential privacy" in (tmp_path / "model" / "MODEL_CARD.md").read_text()
    left = tacit.open_ledger(tmp_path / "main.ledger").balance("research")
    assert 0.5 < float(left.remaining_shown) < 1.5  # of 2


def test_every_file_the_readme_links_to_is_there():
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text()):
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
