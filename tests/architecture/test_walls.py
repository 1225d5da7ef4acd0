"""The walls are checked, and the checks are checked: each fails on a violation seeded into a copy of the tree."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tacit"


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--config", ROOT / "pyproject.toml"]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture
def tree(tmp_path):
    shutil.copytree(SOURCE, tmp_path / "tacit", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_import_contracts_hold(tree):
    result = lint_imports(tree)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("core/spend.py", "import tacit.ledger.sqlite", "Layers point one way"),
        ("mechanisms/exact.py", "import tacit.neighbors", "Layers point one way"),
        ("students/weighted.py", "import tacit.private.records", "Layers point one way"),
        ("students/weighted.py", "import tacit.representations.scaled", "Layers point one way"),
        ("representations/registry.py", "import tacit.private.records", "Layers point one way"),
        ("methods/rknn/coordinator.py", "import tacit.methods.rknn.holder", "Coordinators and wires"),
        ("methods/rknn/queries.py", "import tacit.ledger.memory", "Coordinators and wires"),
        ("methods/rknn/wire.py", "import tacit.private.gate", "Coordinators and wires"),
        ("methods/class_sums/wire.py", "import tacit.engines.records", "Coordinators and wires"),
        ("engines/counting.py", "import tacit.methods.encoding", "Layers point one way"),
        ("methods/privatekt/coordinator.py", "import tacit.methods.privatekt.holder", "Coordinators and wires"),
        ("methods/privatekt/coordinator.py", "import tacit.private.records", "Coordinators and wires"),
        ("report/charts.py", "import tacit.private.records", "Only holders, simulations and audits"),
        ("cli/demo.py", "import tacit.private.gate", "Only holders, simulations and audits"),
        ("federation/flower/server.py", "import tacit.federation.node.node", "The coordinator's end of an exchange"),
        (
            "federation/flower/summed.py",
            "import tacit.ledger.memory",
            "The coordinator's end of an exchange",
        ),
    ],
)
def test_import_contracts_fail_on_a_seeded_violation(tree, module, line, contract):
    file = tree / "tacit" / module
    file.write_text(file.read_text() + f"\n{line}\n")
    result = lint_imports(tree)
    assert result.returncode == 1
    assert f"{contract}" in result.stdout.split("Broken contracts")[1]


def import_without_private_side(tree: Path, *modules: str) -> subprocess.CompletedProcess[str]:
    program = f"""
import sys
class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("tacit.private") or name.endswith(".holder") or name.startswith("tacit.ledger"):
            raise ImportError("the private side is not here: " + name)
sys.meta_path.insert(0, Wall())
import {", ".join(modules)}
"""
    environment = os.environ | {"PYTHONPATH": str(tree)}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tree, capture_output=True, text=True, timeout=120
    )


def public_side() -> list[str]:
    files = [file for name in ("coordinator", "wire") for file in SOURCE.glob(f"methods/*/{name}.py")]
    return [".".join(file.relative_to(SOURCE.parent).with_suffix("").parts) for file in sorted(files)]


def test_the_public_side_imports_where_the_private_side_is_missing(tree):
    result = import_without_private_side(tree, *public_side())
    assert result.returncode == 0, result.stderr


def test_a_smuggled_import_is_found(tree):
    smuggler = tree / "tacit" / "methods" / "__init__.py"
    smuggler.write_text(smuggler.read_text() + "\nimport tacit.private.records\n")
    result = import_without_private_side(tree, "tacit.methods.rknn.coordinator")
    assert result.returncode == 1
    assert "the private side is not here" in result.stderr


# What starts often or many times on one machine, and what it must not load; an intake worker with scikit-learn takes
# three times the memory.
LEAN = {
    "tacit.cli": "numpy scipy sklearn pydantic",
    "tacit.ledger.sqlite": "numpy scipy sklearn pydantic typer rich dp_accounting",
    "tacit.federation.node.local_socket": "scipy sklearn pydantic typer rich",
    "tacit.cli.federation": "scipy sklearn pydantic starlette",
    "tacit.federation.intake.worker, tacit.federation.intake.store": "scipy sklearn pydantic typer rich",
    # What a question to devices is read with.
    "tacit.representations.chained, tacit.methods.rknn.wire, tacit.wire": "scipy sklearn pydantic",
}


@pytest.mark.parametrize("modules", LEAN)
def test_a_lean_start_loads_nothing_heavy(modules):
    program = f"import sys, {modules}; print([name for name in {LEAN[modules].split()} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert found.stdout.strip() == "[]"


RELEASE_MAKERS = {"core/release.py", "private/gate.py"}
# Ordinary generators are for public choices: simulated splits of a data set, starts of a fit on public samples,
# rehearsals with public samples as records; never noise.
ORDINARY_RANDOMNESS = {
    "core/randomness.py",
    "private/partition.py",
    "datasets/published.py",
    "methods/noisy_sgd/rehearsal.py",
    "methods/private_knn/rehearsal.py",
    "representations/groups.py",
    "representations/patches.py",
    "representations/random_features.py",
    "representations/transformed_kmeans.py",
    "runs/rehearsal.py",
}


def violations(source: str, module: str) -> list[str]:
    """What a module does that only others may do."""
    found = []
    tree = ast.parse(source)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="Release") | ast.Attribute(attr="Release")) if module not in RELEASE_MAKERS:
                found.append("makes a Release")
            case ast.Import(names=names):
                imported = [name.name for name in names]
            case ast.ImportFrom(module=str(origin)):
                imported = [origin]
            case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random") if module not in ORDINARY_RANDOMNESS:
                found.append("uses an ordinary generator")
        if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0):
            for name in imported:
                top = name.split(".")[0]
                if top in {"pickle", "cloudpickle", "joblib", "dill", "shelve", "marshal"}:
                    found.append("imports a pickle")
                if top == "random" or (name.startswith("numpy.random") and module not in ORDINARY_RANDOMNESS):
                    found.append("uses an ordinary generator")
                if top == "torch" and not module.split("/")[-1].startswith("torch_"):
                    found.append("imports torch")
                if top == "flwr" and not module.startswith("federation/flower/"):
                    found.append("imports flwr")
                if top in {"ray", "pyspark"} and not module.startswith("engines/"):
                    found.append("imports an engine")
                if top == "opendp":
                    found.append("imports opendp")
    return found


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda file: str(file.relative_to(SOURCE)))
def test_a_module_does_only_what_is_its_own(file):
    assert violations(file.read_text(), str(file.relative_to(SOURCE))) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("Release(1, ())", "makes a Release"),
        ("release.Release(1, ())", "makes a Release"),
        ("import pickle", "imports a pickle"),
        ("from joblib import dump", "imports a pickle"),
        ("import torch.nn as nn", "imports torch"),
        ("def f():\n    from flwr.app import Message", "imports flwr"),
        ("import ray.data", "imports an engine"),
        ("from pyspark.sql import SparkSession", "imports an engine"),
        ("noise = np.random.laplace()", "uses an ordinary generator"),
        ("import random", "uses an ordinary generator"),
        ("from numpy.random import laplace", "uses an ordinary generator"),
    ],
)
def test_the_module_check_fails_on_a_seeded_violation(source, found):
    assert violations(source, "methods/rknn/holder.py") == [found]
