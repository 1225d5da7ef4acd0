"""``tacit distill --engine`` as a user gives it."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from tacit.cli import main
from tacit.runs.run import load

BASE = ["distill", "--private", "records/*.parquet", "--public", "public.csv", "--label", "outcome", "--epsilon", "2",
        "--classes", "ill,well", "--method", "rknn", "--queries", "10"]  # fmt: skip


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(1)
    labels = generator.integers(0, 2, 900)
    columns = {name: generator.normal(size=900) + 2 * labels for name in ("age", "dose")}
    table = pa.table({**columns, "outcome": np.where(labels == 1, "ill", "well"), "who": np.arange(900) // 2})
    (tmp_path / "records").mkdir()
    for number in range(2):
        pa.parquet.write_table(table.slice(450 * number, 450), f"records/{number}.parquet")
    pa.csv.write_csv(table.select(["age", "dose"]).slice(0, 100), "public.csv")


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([*BASE, *arguments])
    return ended.value.code


def test_a_pattern_is_streamed_and_its_recipe_runs_again(files, capsys):
    assert run("--engine", "threads", "--workers", "2", "--unit", "who", "--out", "first") == 0
    assert "one person" in capsys.readouterr().out
    assert load("first").recipe["queries"] == 10
    with pytest.raises(SystemExit) as ended:
        main(["run", "first/recipe.toml", "--out", "second", "--dry-run"])
    assert ended.value.code == 0


def test_a_rehearsal_spends_and_writes_nothing(files, capsys, tmp_path):
    assert run("--dry-run") == 0
    assert "nothing was spent" in capsys.readouterr().out
    assert not (tmp_path / "tacit-run").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--engine", "sparc"], "did you mean spark"),
        (["--engine", "threads", "--address", "host:1"], "leave out the address"),
        (["--private", "records/0.parquet", "--workers", "2"], "name it with --engine"),
        (["--engine", "threads", "--private", "nowhere/*.parquet"], "there is no file that can be streamed"),
        (["--engine", "threads", "--label", "outcom"], "did you mean 'outcome'"),
        (["--engine", "threads", "--unit", "whom"], "did you mean 'who'"),
    ],
)
def test_wrong_use_is_told(arguments, words, files, capsys):
    assert run(*arguments) == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_classes_must_be_public_knowledge(files, capsys):
    with pytest.raises(SystemExit) as ended:
        main([each for each in BASE if each not in ("--classes", "ill,well")])
    assert ended.value.code == 2
    assert "--classes must be given" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs tacit[ray]")
def test_ray_gives_the_labels_of_threads(files, tmp_path):
    # In a process of its own: Ray's daemons end with it. A seed makes it a simulation, whose labels can be compared.
    assert run("--engine", "threads", "--seed", "3", "--out", "threads") == 0
    command = [sys.executable, "-c", "from tacit.cli import main; main()", *BASE, "--seed", "3"]
    environment = os.environ | {"RAY_TMPDIR": "/tmp", "RAY_worker_niceness": "0"}
    done = subprocess.run(
        [*command, "--engine", "ray", "--workers", "1", "--out", "ray"],
        capture_output=True, text=True, env=environment, timeout=560,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ray" / "labels.csv").read_bytes() == (tmp_path / "threads" / "labels.csv").read_bytes()
