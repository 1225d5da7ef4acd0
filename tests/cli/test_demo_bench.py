"""``tacit bench``: what is computed is written, wrong use is named before anything is measured, a wheel says so."""

import json

import pytest

from tacit.cli import main


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "fedmd", *map(str, arguments)])
    return stopped.value.code


def test_what_is_computed_needs_no_data(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    assert run("--figure", "privacy,noise", "--out", "results") == 0
    assert "NOT differential privacy" in " ".join(capsys.readouterr().out.split())
    names = [f"fedmd-{figure}.{kind}" for figure in ("noise", "privacy") for kind in ("json", "md", "png")]
    assert sorted(file.name for file in (tmp_path / "results").iterdir()) == names
    written = (tmp_path / "results" / "fedmd-privacy.json").read_text()
    curves = json.loads(written)["rows"][0]["runs"][0]
    assert len(curves["over k"]) == 100
    assert [row["parties"] for row in curves["over parties, CIFAR"]] == [2, 4, 6, 8, 10]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--figure", "table9"), "unknown figure 'table9'"),
        (("--figure", "subsets"), "give --data, and --folder"),
        (("--figure", "subsets", "--data", "letters", "--folder", "."), "unknown data set 'letters'"),
        (("--figure", "subsets", "--data", "cifar10", "--folder", "nowhere"), "nowhere"),
    ],
)
def test_wrong_use_is_named(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_without_a_checkout_it_is_said_where_the_experiments_are(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tacit.cli.demo.BENCHMARKS", tmp_path / "benchmarks")
    assert run("--figure", "privacy") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "not part of the installed package" in said
    assert "checkout" in said


def test_help_is_the_experiments_own(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("rknn", "privatekt", "fedmd"))
