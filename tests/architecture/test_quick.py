"""``make quick`` finds what to run for every module, and nothing that takes minutes."""

from pathlib import Path

import pytest

from tests.quick import ALONE, CORE, LONG, targets


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])


def test_every_module_has_something_to_run():
    for module in sorted(Path("src/tacit").rglob("*.py")):
        first, *tests = targets([module])
        assert first == str(module)
        for file in " ".join(tests).split():
            assert Path(file).is_file(), (module, file)


def test_a_module_without_a_test_of_its_own_takes_those_of_its_folder_but_for_the_long_ones():
    (_, tests) = targets([Path("src/tacit/engines/threads.py")])
    assert "tests/engines/test_counting.py" in tests.split()
    assert not ALONE & set(tests.split())
    assert all(map(Path.is_file, map(Path, ALONE)))
    assert targets([Path("src/tacit/version.py")]) == ["src/tacit/version.py"]
    assert all(Path("tests", name).is_dir() for name in LONG)


def test_where_nothing_changed_it_is_the_core():
    assert targets([]) == list(CORE)
