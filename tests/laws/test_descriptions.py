"""Every part answers for itself, and nobody outside its folder asks what type it has."""

import ast
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli.method_options import flags
from tacit.core.randomness import SeededRandomness
from tacit.mechanisms import choices, registry
from tacit.mechanisms.description import Described, Inner
from tacit.methods.registry import METHODS
from tests.wire_samples import CENTRAL, LOCAL, OTHERS

SOURCES = Path(tacit.__file__).parent
# What is seen of these is audited packet by packet, in whole runs; Responses are the local mechanisms they repeat.
AUDITED_ELSEWHERE = {"distributed-laplace", "shuffled", "responses"}
EVERY = [*CENTRAL, *LOCAL, *OTHERS]


def descendants(kind):
    return {kind, *(each for child in kind.__subclasses__() for each in descendants(child))}


def test_names_are_taken_once_and_every_mechanism_is_audited():
    names = [kind.name for kind in registry.OWN]
    assert len(set(names)) == len(names)
    audited = [name for kind in registry.OWN for name in kind.audits()]
    assert len(set(audited)) == len(audited)
    assert {kind.name for kind in registry.OWN if not kind.audits()} == AUDITED_ELSEWHERE
    assert set(choices.RECORD_VOTES) <= set(registry.OWN)
    # Wrappers that a node puts around an answer itself are described, and never read from a question.
    wrappers = {
        kind.name for kind in descendants(Described) if kind.__module__.startswith("tacit.") and "name" in vars(kind)
    }
    assert wrappers - set(names) == {"masked-share", "sealed-messages", "sealed-table"}


@pytest.mark.parametrize("mechanism", EVERY, ids=lambda each: each.name)
def test_parameters_are_what_a_mechanism_is_made_of(mechanism):
    values = {name: getattr(mechanism, name) for name in type(mechanism).parameters}
    assert type(mechanism)(**values) == mechanism
    for name, how in type(mechanism).parameters.items():
        if isinstance(how, Inner):
            assert bool(how.kinds) != bool(how.statistic), name


@pytest.mark.parametrize("mechanism", CENTRAL, ids=lambda each: each.name)
def test_what_a_table_mechanism_releases_has_the_form_it_says(mechanism):
    released = mechanism.sample(np.array([[9, 0, 0]] * 4), SeededRandomness(1))
    mechanism.answer_form(4, 3, 9).require(released)
    kinds = {"labels": ("i", 1), "counts": ("i", 2), "flags": ("b", 1)}
    assert (released.dtype.kind, released.ndim) == kinds[mechanism.releases]
    assert (mechanism.noise_law is not None) == (mechanism.releases == "counts")


def compared_types(tree):
    """The names that an isinstance, a match or a comparison of types looks for."""
    for node in ast.walk(tree):
        looked_at = []
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            looked_at = node.args[1:]
        elif isinstance(node, ast.MatchClass):
            looked_at = [node.cls]
        elif isinstance(node, ast.Compare) and any(
            isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "type"
            for each in (node.left, *node.comparators)
        ):
            looked_at = [node.left, *node.comparators]
        for part in looked_at:
            for each in ast.walk(part):
                if isinstance(each, ast.Name | ast.Attribute):
                    yield each.id if isinstance(each, ast.Name) else each.attr


def test_the_search_finds_each_way_of_comparing_types():
    source = "isinstance(a, Collision | Other)\ntype(a) is m.Shuffled\nmatch a:\n    case Separation():\n        pass\n"
    assert {"Collision", "Shuffled", "Separation"} <= set(compared_types(ast.parse(source)))


# Folders of open sets: another package may add to each, and to the methods.
OPEN = ["mechanisms", "students", "representations", "encoders", *(f"methods/{name}" for name in METHODS)]
# Comparisons outside of the folder that have a reason.
CLOSED = {
    "mechanisms audit/auditor.py: Target": "an audit is of privacy or of estimates",
    "mechanisms audit/auditor.py: Estimator": "an audit is of privacy or of estimates",
    "mechanisms audit/mutants.py: Target": "an assertion for the type checker",
    "methods/fedmd runs/folders.py: Exposure": "a statement is a guarantee or an exposure, and no part adds a third",
}
# Torch's classes of the same names.
TORCH = {
    "representations students/torch_networks.py: Identity",
    "students methods/privatekt/torch_local.py: Flatten",
}


@cache
def classes_in(folder):
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in (SOURCES / folder).rglob("*.py"))
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


@cache
def compared_in_sources():
    return {
        path: set(compared_types(ast.parse(path.read_text(encoding="utf-8")))) for path in sorted(SOURCES.rglob("*.py"))
    }


def test_nobody_outside_its_folder_compares_types_of_a_part():
    found = {
        f"{folder} {path.relative_to(SOURCES)}: {name}"
        for folder in OPEN
        for path, compared in compared_in_sources().items()
        if SOURCES / folder not in path.parents
        for name in compared & classes_in(folder)
    }
    assert found == CLOSED.keys() | TORCH


def test_the_command_line_compares_no_option_by_its_name():
    tree = ast.parse((SOURCES / "cli" / "method_options.py").read_text(encoding="utf-8"))
    compared = {
        each.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for each in ast.walk(node)
        if isinstance(each, ast.Constant)
    }
    assert not compared & {name for method in METHODS.values() for name in flags(method.load_options())}
