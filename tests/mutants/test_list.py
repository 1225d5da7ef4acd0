"""The list of mutants fits the tree: it cannot rot without being noticed."""

import pytest

from tests.mutants.mutants import AREAS, ROOT, Mutant, WrongMutant, read

LISTED = read()
COUNTED = [mutant for mutant in LISTED if not mutant.equivalent]


@pytest.mark.parametrize("mutant", LISTED, ids=lambda mutant: mutant.title)
def test_a_mutant_changes_one_line_that_is_there(mutant):
    text = (ROOT / "src" / "tacit" / mutant.file).read_text(encoding="utf-8")
    mutated = mutant.applied(text)
    assert mutated != text
    before, after = text.splitlines(), mutated.splitlines()
    same = sum(1 for one, two in zip(before, after, strict=False) if one == two)
    assert len(before) == len(after)
    assert len(before) - same == 1


@pytest.mark.parametrize("mutant", COUNTED, ids=lambda mutant: mutant.title)
def test_the_tests_that_kill_it_are_there(mutant):
    assert mutant.tests
    assert mutant.breaks
    for test in mutant.tests:
        file, *names = test.split("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not names or f"def {names[-1].split('[')[0]}(" in text


def test_there_are_enough_of_every_kind():
    assert len({mutant.title for mutant in LISTED}) == len(LISTED)
    assert len(COUNTED) >= 80
    for area in AREAS:
        assert sum(mutant.area == area for mutant in COUNTED) >= 8, area


def test_a_text_that_is_not_there_or_there_twice_is_told_by_name():
    mutant = Mutant("gate", "x", "private/gate.py", "a = 1", "a = 2", "nothing", ())
    for text in ("b = 1", "a = 1\na = 1"):
        with pytest.raises(WrongMutant, match="gate/x"):
            mutant.applied(text)
    later = Mutant("gate", "x", "private/gate.py", "a = 1", "a = 2", "nothing", (), after="b = 0")
    assert later.applied("a = 1\nb = 0\na = 1\na = 1\n") == "a = 1\nb = 0\na = 2\na = 1\n"
    with pytest.raises(WrongMutant, match="gate/x"):
        later.applied("a = 1\n")
