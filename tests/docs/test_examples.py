"""Each script of the gallery runs as it is, and the gallery lists each of them."""

import runpy
import warnings

import pytest

from tests.docs.pages import DOCS

SCRIPTS = sorted(script.name for script in (DOCS / "examples").glob("*.py"))
NEEDS = {"table.py": "pandas", "images.py": "PIL", "federation.py": "cryptography"}
SAYS = {
    "compare_pate.py": "class_sums",
    "federation.py": "left at each node: ['0', '0', '0', '0']",
    "images.py": "images ['bar' 'disc']",
    "ledger.py": "refused: account 'research' cannot pay",
    "one_record_holders.py": "Trust (local)",
    "multilabel.py": "whole sets right",
    "persons.py": "a family of three: 12",
    "pipeline.py": "Differential privacy: epsilon = 1",
    "table.py": "Run of auto",
    "texts.py": "text accuracy",
    "files.py": "",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_script_runs(script, tmp_path, monkeypatch, capsys, brief_networks):
    if script in NEEDS:
        pytest.importorskip(NEEDS[script])
    if script == "images.py":  # says what its networks predict
        monkeypatch.setattr("tacit.methods.auto.teaching.image_network", brief_networks)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TACIT_STATE", str(tmp_path / "state"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(DOCS / "examples" / script), run_name="__main__")
    assert SAYS[script] in capsys.readouterr().out


def test_the_gallery_lists_and_shows_every_script():
    gallery = (DOCS / "examples" / "index.md").read_text(encoding="utf-8")
    for script in SCRIPTS:
        assert f"[{script}]({script})" in gallery, script
        assert script == "files.py" or f"<!-- file: {script} -->" in gallery, script
