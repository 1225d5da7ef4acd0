"""A test file lies in the folder of what it tests, and has the name of its module unless it tests several."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src" / "tacit"
# Folders of tests of the whole, or of what is no part of the package.
OF_THE_WHOLE = {
    "architecture", "benchmarks", "deploy", "docs", "example_package", "faults", "golden", "laws", "mutants",
}  # fmt: skip
# Files about all commands, about a folder's parts through another entry, or about an optional component.
SUBJECTS = {
    "cli/test_commands.py", "cli/test_method_from_outside.py", "cli/test_user_review.py", "cli/test_wrong_use.py",
    "engines/test_clusters.py", "ledger/test_open.py", "mechanisms/test_frozen_draws.py", "runs/test_not_over_nodes.py",
}  # fmt: skip


def files_of_tests() -> list[Path]:
    found = (file.relative_to(TESTS) for file in TESTS.rglob("test_*.py"))
    return sorted(file for file in found if len(file.parts) > 1 and file.parts[0] not in OF_THE_WHOLE)


def modules(folder: Path) -> set[str]:
    return {each.stem for each in folder.iterdir() if each.suffix == ".py" or each.is_dir()}


@pytest.mark.parametrize("file", files_of_tests(), ids=str)
def test_it_is_named_after_its_module_or_tests_several(file):
    folder = SOURCE / file.parent
    assert folder.is_dir()
    name = file.stem.removeprefix("test_")
    # Tests of a module that needs torch are beside those of the others.
    known = {each.removeprefix("torch_") for each in modules(folder)} | modules(folder)
    named = any(name == each or name.startswith(f"{each}_") for each in known)
    package = ".".join(("tacit", *file.parent.parts))
    imported = re.findall(rf"from {re.escape(package)}\.([\w.]+) import", (TESTS / file).read_text(encoding="utf-8"))
    assert named or len(set(imported)) > 1 or file.as_posix() in SUBJECTS


def test_every_exception_is_there():
    assert {each for each in SUBJECTS if not (TESTS / each).exists()} == set()
