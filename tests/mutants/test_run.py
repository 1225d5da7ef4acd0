"""The runner tells killed from survived, from a hang and from a mutant that proves nothing, and imports the copy."""

import dataclasses
import queue

import pytest

from tests.mutants import run
from tests.mutants.mutants import Mutant

TESTS = ("tests/core/test_rational.py",)
KILLED = Mutant(
    "accounting", "killed", "core/rational.py", "    return inside", "    return outside", "a search", TESTS
)


@pytest.fixture
def copies(tmp_path):
    waiting = queue.Queue()
    waiting.put(run.Copy(tmp_path / "copy"))
    return waiting


def test_verdicts(copies, monkeypatch):
    outcome = run.tried(KILLED, copies)
    assert outcome.verdict == "killed"
    assert outcome.by.startswith("tests/core/test_rational.py::")
    # The copy is whole again, and the next mutant is judged by itself.
    same = dataclasses.replace(KILLED, find="_HALVINGS = 200", replace="_HALVINGS = 201")
    assert run.tried(same, copies).verdict == "survived"
    broken = dataclasses.replace(KILLED, find="_HALVINGS = 200", replace="_HALVINGS = nowhere")
    assert run.tried(broken, copies).verdict == "error"
    monkeypatch.setattr(run, "SECONDS", 2.0)
    hanging = dataclasses.replace(KILLED, find="_HALVINGS = 200", replace="while True: pass")
    assert run.tried(hanging, copies).verdict == "killed by timeout"


def test_tests_that_import_something_else_than_the_copy_prove_nothing(copies, monkeypatch):
    copy = copies.get()
    monkeypatch.setattr(copy, "folder", copy.folder.parent)
    (copy.folder / "imported_copy.py").write_text((copy.folder / "copy" / "imported_copy.py").read_text())
    # This folder has no sources, so what is installed is imported.
    code, output = copy.test(list(TESTS), 60)
    assert code not in (0, 1)
    assert "not imported from the mutated copy" in output
