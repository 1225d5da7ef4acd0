"""A public name of a module (a function, a class or a constant without an underscore) exists once in the package."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "tacit"
# The names by which the registry and a node find the parts of every method, whichever it is.
INTERFACE = {
    "prepare": "a method's job from a task and options: the registry loads it by name",
    "forecast": "what a method may be expected to do: the registry loads it by name, and tacit.forecast asks each",
    "AT_NODE": "what a node may run of a method",
    "answer_at_node": "how a node's records answer a question of a method",
}


def public_names(source: str) -> set[str]:
    """The names without an underscore that a module's top level defines."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Assign(targets=targets):
                found |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return {name for name in found if not name.startswith("_")}


def places() -> dict[str, list[str]]:
    found = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        for name in public_names(file.read_text(encoding="utf-8")):
            found[name].append(file.relative_to(SOURCE).as_posix())
    return found


def test_a_public_name_exists_once():
    assert {name: files for name, files in places().items() if len(files) > 1 and name not in INTERFACE} == {}


def test_every_exception_is_an_interface_of_methods():
    found = places()
    for name in INTERFACE:
        assert sum(file.startswith("methods/") for file in found[name]) > 2, name


@pytest.mark.parametrize(
    "source",
    ["def name(): ...", "async def name(): ...", "class name: ...", "name = 1", "_other, name = 1, 2", "name: int = 1"],
)
def test_a_public_name_is_found(source):
    assert public_names(f"{source}\n_private = 2\n\ndef _f():\n    inner = 1\n") == {"name"}
