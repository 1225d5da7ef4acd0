"""What is installed: the core brings neither torch nor Flower, and wheel and sdist work in a clean environment."""

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# What an extra brings, and the core must not.
HEAVY = {"torch", "flwr", "ray", "grpcio", "onnx", "onnxruntime", "umap-learn", "numba", "matplotlib", "pandas"}


def name_of(requirement):
    return re.match(r"[A-Za-z0-9._-]+", requirement)[0].lower().replace("_", "-")


def core(*extras):
    """Every package that an installation with these extras brings, by what the installed packages say they need."""
    requirements = pytest.importorskip("packaging.requirements", reason="packaging is not installed")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    waiting = [
        *project["dependencies"],
        *(each for extra in extras for each in project["optional-dependencies"][extra]),
    ]
    found = set()
    while waiting:
        requirement = requirements.Requirement(waiting.pop())
        wanted = [requirement.marker is None or requirement.marker.evaluate({"extra": each})
                  for each in ("", *requirement.extras)]  # fmt: skip
        if any(wanted) and name_of(requirement.name) not in found:
            found.add(name_of(requirement.name))
            waiting += [each for each in metadata.requires(requirement.name) or [] if "extra ==" not in each]
    return found


def test_the_core_brings_neither_torch_nor_flower():
    brought = core()
    assert {"numpy", "scikit-learn", "typer"} <= brought
    assert not brought & HEAVY
    assert len(brought) < 45


def test_the_demo_needs_no_more_than_what_its_make_command_installs():
    """Imports what the demo imports where every other package is not there, as in an environment of ``make demo``."""
    extras = re.search(
        r"'\.\[([a-z,]+)\]'|\"\.\[([a-z,]+)\]\"", (ROOT / "Makefile").read_text().split("DEMO_STAMP):")[1]
    )
    named = (extras[1] or extras[2]).split(",")
    brought = core(*named) | {"tacit"}
    absent = [module for module, owners in metadata.packages_distributions().items()
              if not brought & {name_of(owner) for owner in owners}]  # fmt: skip
    tree = ast.parse((ROOT / "src/tacit/cli/demo.py").read_text())
    modules = sorted({each.module for each in ast.walk(tree) if isinstance(each, ast.ImportFrom) and each.module})
    assert "tacit.runs.distill" in modules
    assert "torch" in absent or "torch" not in metadata.packages_distributions()
    program = (
        "import importlib, sys\n"
        f"absent = set({absent!r})\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in absent:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        f"for name in {[*modules, 'tacit.methods.auto.method', 'tacit.report.charts', 'tacit.ui.service']!r}:\n"
        "    importlib.import_module(name)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-500:]


def test_the_extras_that_the_doctor_knows_are_those_of_the_package():
    from tacit.cli.doctor import EXTRAS

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(extras) - {"all"}


def test_every_package_of_an_extra_has_a_tested_version():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    tested = {name_of(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if line[:1].isalpha()}
    for extra, requirements in extras.items():
        for each in requirements:
            assert name_of(each) in tested | {"tacit"}, (extra, each)


def run(*command, folder):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_wheel_and_sdist_work_in_a_clean_environment(tmp_path):
    built = tmp_path / "dist"
    try:
        run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", tmp_path / "there",
            "hatchling", folder=tmp_path)  # fmt: skip
    except AssertionError:
        pytest.skip("no package index can be reached")
    run(sys.executable, "-m", "venv", tmp_path / "clean", folder=tmp_path)
    python = tmp_path / "clean" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "hatchling", "build", folder=tmp_path)
    run(python, "-m", "build", "--no-isolation", "--outdir", built, ROOT, folder=tmp_path)
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert "tacit/py.typed" in names or any(name.endswith("__init__.pyi") for name in names)
        assert not any(name.startswith(("tests/", "benchmarks/")) for name in names)
    place = tmp_path / "installed"
    run(sys.executable, "-m", "venv", place, folder=tmp_path)
    install = (place / "bin" / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt")
    # The sdist takes the wheel's place, in the environment that the wheel alone has filled.
    for package, more in ((wheel, ()), (sdist, ("--no-deps", "--force-reinstall"))):
        run(*install, *more, package, folder=tmp_path)
        run(place / "bin" / "python", "-m", "pip", "check", folder=tmp_path)
        assert run(place / "bin" / "tacit", "--version", folder=tmp_path).startswith("tacit ")
        doctor = run(place / "bin" / "tacit", "doctor", folder=tmp_path)
        assert "pip install 'tacit[torch]'" in " ".join(doctor.split())
        installed = run(place / "bin" / "python", "-m", "pip", "list", folder=tmp_path).lower()
        assert not any(re.search(rf"^{heavy}\s", installed, re.MULTILINE) for heavy in HEAVY)
        example = "import tacit; p = tacit.digits(); print(tacit.distill((p.private_samples, p.private_labels), " \
                  "p.public_samples, 1.0, classes=range(10)).guarantee)"  # fmt: skip
        assert "epsilon = 1" in run(place / "bin" / "python", "-c", example, folder=tmp_path)
