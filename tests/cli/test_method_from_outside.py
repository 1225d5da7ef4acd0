"""A method of another package on the command line: it adds its options when it is named, and crashes nothing."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

import tacit
from tacit.cli import main
from tacit.core.errors import InvalidInput
from tacit.methods import registry
from tests.example_package.installed import example  # noqa: F401
from tests.example_package.test_method import CLASSES, LABELS, PUBLIC, SAMPLES

pytestmark = pytest.mark.usefixtures("example")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [[*x, y] for x, y in zip(SAMPLES, LABELS, strict=True)]
    for name, table in (("records", [["u", "v", "pet"], *rows]), ("public", [["u", "v"], *PUBLIC])):
        with Path(f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(table)


def command(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code


FILES = ("--private", "records.csv", "--public", "public.csv", "--label", "pet", "--classes", "cat,dog")
DISTILL = ("distill", "--method", "histogram", *FILES)


def test_the_command_runs_it_and_its_recipe_runs_again(files, capsys):
    assert command(*DISTILL, "--epsilon", "8", "--rank", "2", "--dry-run") == 0
    assert not Path("first").exists()
    assert command(*DISTILL, "--epsilon", "8", "--rank", "2", "--out", "first") == 0
    assert "one count per class with noise of scale 0.25" in " ".join(capsys.readouterr().out.split())
    assert tacit.load("first").labels.tolist() == ["cat"] * 12
    recipe = Path("first/recipe.toml").read_text()
    assert 'method = "histogram"' in recipe
    assert "rank = 2" in recipe
    assert command("run", "first/recipe.toml", "--out", "second") == 0
    assert tacit.load("second").recipe == tacit.load("first").recipe


def test_help_lists_its_options_and_those_of_no_other_method(capsys):
    assert command("distill", "--method", "histogram", "--help") == 0
    said = capsys.readouterr().out
    assert "--rank" in said
    assert "Options of histogram" in said
    assert "--student" not in said
    assert "--workers" not in said
    # Not before it is named.
    assert command("distill", "--help") == 0
    assert "--rank" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--place", "2"), "--place is called --rank now"),
        (("--queries", "9"), "--queries is an option of --method rknn"),
        (("--rank", "3"), "rank must be at most the number of classes, 2, got 3"),
    ],
)
def test_wrong_options_are_told_as_for_any_other_method(files, capsys, given, told):
    assert command(*DISTILL, "--epsilon", "1", *given) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert told in said


def test_without_a_forecast_the_plan_says_so(files, capsys):
    found = tacit.forecast(PUBLIC, records=100, classes=2, methods=["histogram"])
    assert found.best.refused == "method histogram has no forecast"
    plan = ("plan", "--records", "100", "--classes", "2", "--public", "public.csv", "--method", "histogram")
    assert command(*plan) == 0
    assert "method histogram has no forecast" in " ".join(capsys.readouterr().out.split())
    assert command(*plan, "--json") == 0
    assert json.loads(capsys.readouterr().out)["prospects"][0]["refused"] == "method histogram has no forecast"


def test_a_wrong_name_is_told_with_the_installed_ones():
    with pytest.raises(InvalidInput, match=r"choose one of rknn, .*, histogram; did you mean 'histogram'\?"):
        registry.method_named("histogramm")


def test_one_without_options_is_told_as_such(monkeypatch):
    from tacit_example import method

    monkeypatch.setattr(method, "METHOD", replace(method.METHOD, options="", prepare=""))
    with pytest.raises(InvalidInput, match="histogram has no options and no prepare"):
        tacit.distill((SAMPLES, LABELS), PUBLIC, 8, method="histogram", classes=CLASSES)
