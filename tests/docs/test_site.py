"""The site is built with every warning an error, its menu has five parts, and nothing on it comes from elsewhere."""

import os
import re
import subprocess
import sys

import pytest
import yaml

from tests.docs.pages import ROOT

pytest.importorskip("material")
pytest.importorskip("mkdocstrings_handlers")


def test_the_site_is_whole(tmp_path):
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr[-3000:]
    assert "WARNING" not in built.stderr
    python = (tmp_path / "site" / "reference" / "python.html").read_text()
    for name in ("distill", "PrivateDistiller", "BudgetExceeded"):
        assert f">{name}<" in re.sub(r"<span[^>]*>|</span>", "", python) or f"{name}</span>" in python, name
    commands = (tmp_path / "site" / "reference" / "commands.html").read_text()
    assert "tacit federation nodes renew" in commands
    results = (tmp_path / "site" / "results" / "index.html").read_text()
    assert "rknn-svhn-table1.html" in results
    assert "every result" not in results
    outside = re.compile(r"""<(?:script|link|img)[^>]+(?:src|href)=["']https?://[^"']+""")
    for page in (tmp_path / "site").rglob("*.html"):
        found = [each for each in outside.findall(page.read_text()) if 'rel="canonical"' not in each]
        assert not found, (page.name, found[:3])


def test_the_menu_has_five_parts():
    # The file names no Python objects, so a plain reader reads it.
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert [next(iter(part)) for part in menu] == ["Start", "How-to", "Methods", "Reference", "Results and decisions"]


def test_a_dead_link_ends_the_build():
    """What strict is for: validation warns of dead links and anchors, and no option makes it quiet."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert settings["strict"] is True
    assert set(settings["validation"]["links"].values()) == {"warn"}
    recipe = re.search(r"^docs:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "--strict" in recipe[1]
    assert "--quiet" not in recipe[1]
    assert "-q" not in recipe[1].split()
