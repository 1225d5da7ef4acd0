"""Recipes: written by looking at files, run, written back with every default, and gone on with after a kill."""

import json
import re
import signal
import tomllib
from pathlib import Path

import click
import numpy as np
import pytest

import tacit
import tacit.cli.distill
from tacit.cli import main
from tacit.cli.application import COMMANDS
from tacit.cli.method_options import flags
from tacit.cli.recipe import Recipe, read_recipe
from tacit.core.options import describe
from tacit.ledger import opened
from tacit.methods.registry import METHODS
from tests.cli.forked import ended, kill

SECRET = "pemphigus"


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(each) for each in arguments])
    return stopped.value.code


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, 200)
    records = draw.normal(size=(200, 2)) + 4 * labels[:, None]
    samples = draw.normal(size=(60, 2)) + 4 * draw.integers(0, 2, 60)[:, None]
    rows = [
        f"{a:.3f},{b:.3f},{i},{SECRET if y else 'none'}"
        for i, ((a, b), y) in enumerate(zip(records, labels, strict=True))
    ]
    (tmp_path / "records.csv").write_text("\n".join(["age,dose,patient,diagnosis", *rows]) + "\n")
    (tmp_path / "samples.csv").write_text("\n".join(["age,dose", *(f"{a:.3f},{b:.3f}" for a, b in samples)]) + "\n")
    (tmp_path / "policy.toml").write_text("[accounts.research]\nepsilon = 4\n")
    return tmp_path


def test_init_looks_at_files_and_writes_a_recipe_that_runs(files, capsys):
    # In the wrong order: the file with labels is the private one.
    assert run("init", "samples.csv", "records.csv") == 0
    told = capsys.readouterr().out
    text = (files / "recipe.toml").read_text()
    found = tomllib.loads(text)
    assert found["data"] | {"text": [], "category": []} == {
        "private": "records.csv", "public": "samples.csv", "label": "diagnosis", "data_kind": "table", "text": [],
        "category": [],
    }  # fmt: skip
    assert found["privacy"]["unit"] == "patient"
    # Only names of columns: no class, no cell.
    assert SECRET not in text + told
    assert run("run", "recipe.toml", "--dry-run") == 0
    assert "nothing was spent" in capsys.readouterr().out
    assert not (files / "tacit-run").exists()
    assert run("run", "recipe.toml", "--out", "first") == 0
    assert (files / "first/run.json").exists()


@pytest.mark.parametrize(("column", "unit"), [("patient_nbr", "patient_nbr"), ("MRN", "MRN"), ("student", None)])
def test_init_finds_the_person_in_a_column_that_both_files_have(files, column, unit):
    """Unless its name is that of a feature as well."""
    for name in ("records.csv", "samples.csv"):
        head, *rows = (files / name).read_text().splitlines()
        rows = [f"{row},{place % 2}" for place, row in enumerate(rows)]
        text = "\n".join([f"{head.replace('patient', 'dose2')},{column}", *rows]) + "\n"
        (files / name).write_text(text)
    assert run("init", "records.csv", "samples.csv", "--label", "diagnosis") == 0
    assert tomllib.loads((files / "recipe.toml").read_text())["privacy"].get("unit") == unit


def test_a_run_has_a_recipe_with_every_default_and_it_runs_again(files):
    base = ("distill", "--private", "records.csv", "--public", "samples.csv", "--label", "diagnosis", "--classes",
            f"none,{SECRET}", "--epsilon", "1", "--method", "rknn", "--neighbors", "2")  # fmt: skip
    assert run(*base, "--unit", "patient", "--out", "first") == 0
    found = tomllib.loads((files / "first/recipe.toml").read_text())
    assert found["method"] == "rknn"
    assert found["privacy"] == {
        "epsilon": 1.0, "delta": 0.0, "unit": "patient", "per_person": 1, "trust": "central", "adjacency": "replace-one"
    }  # fmt: skip
    own = flags(METHODS["rknn"].load_options())
    assert found["options"] == {
        name: 2 if name == "neighbors" else each.about.default
        for name, each in own.items()
        if each.about.default is not None
    } | {"queries": json.loads((files / "first/run.json").read_text())["recipe"]["queries"]}
    assert run("run", "first/recipe.toml", "--out", "second") == 0
    assert (files / "second/recipe.toml").read_text() == (files / "first/recipe.toml").read_text().replace(
        "../first", "../second"
    )


def test_defaults_of_every_method_can_be_read_back(files):
    from tacit.cli.recipe import recipe_text

    for method in METHODS:
        recipe = Recipe(files / "a.csv", files / "b.csv", method=method, epsilon=1.0, holders=3)
        (files / "r.toml").write_text(recipe_text(recipe, files, "all defaults"))
        again = read_recipe(files / "r.toml")
        assert again.chosen == method
        wanted = {name: each.about.default for name, each in flags(METHODS[method].load_options()).items()}
        assert again.options == {name: value for name, value in wanted.items() if value is not None}


def killed(*arguments):
    """A command that is killed when all is paid for, and before any of it is written."""
    code, said = ended(*arguments, first=lambda: setattr(tacit.cli.distill, "write_run", kill))
    assert code == -signal.SIGKILL, said


@pytest.mark.parametrize(
    "options",
    [
        'method = "rknn"\nout = "out"\n{data}{pay}[options]\niterations = 2\n',
        'method = "privatekt"\nout = "out"\n{data}[payment]\nledger = "homes.ledger"\n[holders]\nholders = 4\n'
        '[options]\nrounds = 6\nmodel = "logistic"\n',
    ],
)
def test_a_killed_run_goes_on_and_pays_nothing_twice(files, options, capsys):
    data = (
        '[data]\nprivate = "records.csv"\npublic = "samples.csv"\nlabel = "diagnosis"\n'
        f'classes = ["none", "{SECRET}"]\n[privacy]\nepsilon = 2\n'
    )
    records = (files / "records.csv").read_text().splitlines()
    (files / "records.csv").write_text("\n".join(",".join(np.delete(row.split(","), 2)) for row in records) + "\n")
    pay = '[payment]\nledger = "main.ledger"\naccount = "research"\n'
    assert run("ledger", "open", "main.ledger", "--policy", "policy.toml") == 0
    (files / "recipe.toml").write_text(options.format(data=data, pay=pay))
    killed("run", "recipe.toml")
    assert not (files / "out").exists()
    ledger = files / ("main.ledger" if "main.ledger" in options.format(data="", pay=pay) else "homes.ledger")
    before = _receipts(ledger)
    assert before
    capsys.readouterr()
    assert run("resume", "out") == 0
    assert "resuming" in capsys.readouterr().out
    assert _receipts(ledger) == before
    assert (files / "out/run.json").exists()
    assert not (files / "out.request").exists()
    assert run("resume", "out") == 2
    assert "finished" in capsys.readouterr().err


def _receipts(ledger):
    with opened(ledger) as book:
        return [(account, [each.request for each in book.receipts(account)]) for account in book.accounts()]


def test_resume_names_the_run_that_was_meant(files, capsys):
    (files / "first-run.request").write_text("{}")
    assert run("resume", "firstrun") == 2
    assert "no unfinished run here, there is no firstrun.request; did you mean first-run?" in capsys.readouterr().err
    assert run("resume", "first-run") == 2
    assert "contains no recipe" in capsys.readouterr().err


def test_resume_says_that_a_run_without_ledger_kept_nothing(files, capsys):
    base = ("distill", "--private", "records.csv", "--public", "samples.csv", "--label", "diagnosis", "--classes",
            f"none,{SECRET}", "--epsilon", "1", "--unit", "patient", "--out", "out")  # fmt: skip
    killed(*base)
    assert run("resume", "out") == 2
    assert "the run had no ledger, so nothing was stored" in capsys.readouterr().err


@pytest.mark.parametrize("method", METHODS)
def test_help_shows_one_method(method, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert run("distill", "--help", "--method", method) == 0
    said = capsys.readouterr().out
    own = flags(METHODS[method].load_options())
    others = {name for each in METHODS.values() for name in flags(each.load_options())} - own.keys()
    lines = [line.strip("│* ") for line in said.splitlines()]
    shown = {line.split()[0].removeprefix("--").partition("/")[0] for line in lines if line.startswith("--")}
    assert {name.replace("_", "-") for name in own} <= shown
    assert not {name.replace("_", "-") for name in others} & shown
    assert "--epsilon" in said


def commands(command, path):
    """The commands under a command, those of its groups among them, by what is typed."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        yield from commands(command.resolve_command(context, [name])[1], [*path, name])


def test_every_command_teaches_by_an_example():
    found = dict(each for name, entry in COMMANDS.items() for each in commands(entry.load(name), ["tacit", name]))
    assert len(found) > 40
    for typed, command in found.items():
        assert f"Example: {typed}" in " ".join((command.help or "").split()), typed


def test_every_run_folder_has_a_recipe_with_the_options_that_were_used(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draws = np.random.default_rng(0)
    samples, labels = draws.normal(size=(400, 3)), np.arange(400) % 2
    for delta, method in ((0, "rknn"), ("1e-6", "auto")):
        run = tacit.distill((samples, labels), samples[:150] + 0.5, 2.0, delta=delta, classes=[0, 1])
        run.save(f"saved-{method}")
        text = Path(f"saved-{method}/recipe.toml").read_text()
        found = tomllib.loads(text)
        assert found["method"] == method
        assert (found["privacy"]["epsilon"], found["privacy"]["delta"]) == (2.0, float(delta))
        options = {each.name for each in describe(METHODS[method].load_options()) if each.typed}
        assert options <= {*found["options"], *re.findall(r"^# (\w+) =$", text, re.MULTILINE)}
        if method == "rknn":
            # The plan's number, not the default.
            assert found["options"]["queries"] == run.recipe["queries"]
        else:
            assert f"components = {run.recipe['released'][0]['components']}" in text
            assert run.recipe["released"][0]["whitening"] == 0.125
        # It lacks nothing but the files.
        Path("again.toml").write_text(text.replace('# private = "records.csv"', 'private = "a.csv"')
                                      .replace('# public = "samples.csv"', 'public = "b.csv"'))  # fmt: skip
        assert read_recipe(Path("again.toml")).chosen == method
