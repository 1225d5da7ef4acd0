"""``tacit plan`` with a public file: a table, bars, a chart in a file, and JSON."""

import json
import re

import numpy as np
import pytest

from tacit.cli import main


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(each) for each in arguments])
    return stopped.value.code


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    truth = draw.integers(0, 2, 120)
    rows = draw.normal(size=(120, 2)) + 4 * truth[:, None]
    known = [str(each) if place < 60 else "" for place, each in enumerate(np.where(truth, "ill", "well"))]
    text = [f"{a:.2f},{b:.2f},{label}" for (a, b), label in zip(rows, known, strict=True)]
    (tmp_path / "known.csv").write_text("\n".join(["age,dose,outcome", *text]) + "\n")
    (tmp_path / "samples.csv").write_text("\n".join(["age,dose", *(each.rpartition(",")[0] for each in text)]) + "\n")
    return tmp_path


def test_methods_stand_side_by_side_within_eighty_columns(place, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    base = ("plan", "--records", 500, "--classes", "ill,well", "--public", "samples.csv")
    assert run(*base, "--method", "rknn", "--method", "pate", "--accuracy", 0.9, "--chart", "plan.svg") == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines()[:12])) <= 80
    for word in ("central", "local", "pate", "ε for 90%", "0 %", "90 % interval", "No record was read"):
        assert word in said
    assert (place / "plan.svg").read_text().startswith("<?xml")


def test_some_labels_are_a_column_of_the_public_file(place, capsys):
    base = ("plan", "--records", 500, "--classes", "ill,well", "--method", "rknn", "--json")
    widths = []
    for more in (("--public", "samples.csv"), ("--public", "known.csv", "--public-label", "outcome")):
        assert run(*base, *more) == 0
        found = json.loads(capsys.readouterr().out)
        central = next(each for each in found["prospects"] if each["trust"] == "central")
        widths.append(central["high"] - central["low"])
    assert "60 labeled public samples" in found["basis"]
    assert widths[1] < widths[0]


def test_one_record_and_one_query_are_forecast_and_counted_in_the_singular(capsys):
    assert run("plan", "--records", 1, "--classes", 2, "--queries", 1, "--method", "rknn") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "rknn (central)" not in said
    assert "rknn (local)" not in said
    assert not re.search(r"\b1 (queries|votes|records)\b|\(s\)", said)
