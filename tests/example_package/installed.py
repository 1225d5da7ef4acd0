"""The example package as if it were installed: its folder and its entry points are found for as long as a test runs."""

import sys
import tomllib
from pathlib import Path

import pytest

from tacit.methods import registry

FOLDER = Path(__file__).parent


def describe(folder):
    """Write what an installer writes beside a package, from its pyproject.toml."""
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))


def make_visible(folder, monkeypatch):
    """Put the package, and what an installer writes of it, on the path of this process."""
    describe(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.syspath_prepend(str(FOLDER))


def forget():
    """Let the package be found and imported anew."""
    registry._installed.cache_clear()
    for name in [each for each in sys.modules if each.split(".")[0] == "tacit_example"]:
        del sys.modules[name]


@pytest.fixture
def example(tmp_path_factory, monkeypatch):
    """Both on the path of this process; the folders are returned for the path of another."""
    folder = tmp_path_factory.mktemp("site")
    make_visible(folder, monkeypatch)
    forget()
    yield f"{folder}:{FOLDER}"
    forget()
