"""A run in MLflow: what is logged and what is not, by a stand-in that needs no package, and then by MLflow itself."""

import json
import os
import subprocess
import sys
import types
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

import tacit
from tacit.core.errors import InvalidInput
from tacit.report.exports import log_to_mlflow

PARTS = tacit.digits()


@pytest.fixture
def folder(tmp_path):
    run = tacit.distill(
        (PARTS.private_samples, PARTS.private_labels), PARTS.public_samples, 1.0, classes=range(10), student="logistic"
    )
    secret = {"label accuracy": [0.9, 0.8], "not private": {"test accuracy": 0.987654}}
    return replace(run, metrics=secret).save(tmp_path / "first")


@pytest.fixture
def mlflow(monkeypatch):
    logged = types.ModuleType("mlflow")
    logged.params, logged.metrics, logged.tags, logged.texts, logged.files = {}, {}, {}, {}, []

    @contextmanager
    def start_run(run_name):
        logged.name = run_name
        yield types.SimpleNamespace(info=types.SimpleNamespace(run_id="r-1"))

    logged.start_run = start_run
    logged.set_experiment = lambda name: setattr(logged, "experiment", name)
    logged.log_params, logged.log_metrics, logged.set_tags = (
        logged.params.update, logged.metrics.update, logged.tags.update,
    )  # fmt: skip
    logged.log_text = lambda text, name: logged.texts.update({name: text})
    logged.log_artifact = logged.files.append
    monkeypatch.setitem(sys.modules, "mlflow", logged)
    return logged


def test_a_run_is_logged_with_its_statement(folder, mlflow):
    assert log_to_mlflow(folder, "wards") == "r-1"
    assert (mlflow.experiment, mlflow.name) == ("wards", "first")
    assert mlflow.params["method"] == "rknn"
    assert mlflow.params["recipe.options.neighbors"] == "1"
    assert mlflow.metrics["epsilon"] == 1.0
    assert mlflow.metrics["label_accuracy"] == 0.8
    assert mlflow.tags["tacit.differential_privacy"] == "true"
    assert json.loads(mlflow.texts["statement.json"])["format"].startswith("tacit run statement")
    assert "epsilon = 1" in mlflow.texts["MODEL_CARD.md"]
    assert sorted(each.rpartition("/")[2] for each in mlflow.files) == ["labels.csv", "student.skops"]
    # What was computed in the clear is not handed on.
    assert "0.987654" not in json.dumps([mlflow.params, mlflow.metrics, mlflow.tags, mlflow.texts])


def test_without_the_extra_it_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(InvalidInput, match="pip install 'tacit\\[mlflow\\]'"):
        log_to_mlflow(folder)


def test_a_store_that_refuses_is_told_in_words(folder, mlflow, capsys):
    from tacit.cli import main

    def refuse(_):
        raise RuntimeError("the store is in maintenance mode.\nChoose another.")

    mlflow.set_experiment = refuse
    with pytest.raises(SystemExit) as stopped:
        main(["export", str(folder), "--mlflow", "wards"])
    assert stopped.value.code == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "MLflow did not accept the run" in said
    assert said.endswith("the store is in maintenance mode. Choose another.")


def test_the_command_logs_it(folder, mlflow, capsys):
    from tacit.cli import main

    with pytest.raises(SystemExit) as stopped:
        main(["export", str(folder), "--mlflow", "wards"])
    assert stopped.value.code == 0
    assert mlflow.experiment == "wards"
    assert "r-1" in capsys.readouterr().out


REAL = """
import json, sys
from mlflow import MlflowClient, artifacts
from tacit.cli import main

folder, store = sys.argv[1:]
try:
    main(["export", folder, "--mlflow", "wards"])
except SystemExit as stopped:
    assert stopped.code == 0, stopped.code
client = MlflowClient(store)
(run,) = client.search_runs([client.get_experiment_by_name("wards").experiment_id])
print(json.dumps({
    "id": run.info.run_id, "name": run.info.run_name, "status": run.info.status, "params": run.data.params,
    "metrics": run.data.metrics, "tags": run.data.tags,
    "files": artifacts.download_artifacts(run_id=run.info.run_id, tracking_uri=store),
}))
"""


@pytest.mark.skipif(
    not all(map(find_spec, ("mlflow", "alembic", "sqlalchemy"))), reason="needs pip install 'tacit[mlflow]'"
)
def test_mlflow_itself_has_the_run_and_its_files(folder, tmp_path):
    """A new database as MLflow makes it, in a process of its own: what MLflow imports and sets does not stay here."""
    store = f"sqlite:///{tmp_path / 'mlflow.db'}"
    done = subprocess.run(
        [sys.executable, "-c", REAL, str(folder), store], capture_output=True, text=True, cwd=tmp_path,
        env=os.environ | {"MLFLOW_TRACKING_URI": store, "MLFLOW_DISABLE_TELEMETRY": "true"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown, found = done.stdout.rpartition('{"id"')[0], json.loads(done.stdout.splitlines()[-1])
    assert found["id"] in shown
    assert (found["name"], found["status"]) == ("first", "FINISHED")
    assert (found["params"]["method"], found["params"]["recipe.options.neighbors"]) == ("rknn", "1")
    assert (found["metrics"]["epsilon"], found["metrics"]["label_accuracy"]) == (1.0, 0.8)
    assert found["tags"]["tacit.differential_privacy"] == "true"
    files = {each.name: each for each in Path(found["files"]).rglob("*") if each.is_file()}
    assert sorted(files) == ["MODEL_CARD.md", "labels.csv", "statement.json", "student.skops"]
    for name in ("labels.csv", "student.skops"):
        assert files[name].read_bytes() == (folder / name).read_bytes()
    assert "epsilon = 1" in files["MODEL_CARD.md"].read_text()
    assert json.loads(files["statement.json"].read_text())["guarantee"]["epsilon"] == "1"
    stored = b"".join(each.read_bytes() for each in (*files.values(), tmp_path / "mlflow.db"))
    assert b"0.987654" not in stored
