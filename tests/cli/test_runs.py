"""What is done with a saved run: shown, used on new files, taken elsewhere; and wrong uses of all of it."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.core.samples import Named

PARTS = tacit.digits()
NAMES = tuple(f"p{column}" for column in range(64))
MANY = "x" * 5000


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs with named columns, of images, with sets of labels, and a simulation, with files to predict."""
    folder = tmp_path_factory.mktemp("runs")
    private, public = Named(PARTS.private_samples, NAMES), Named(PARTS.public_samples, NAMES)
    words = np.array([f"digit {each}" for each in PARTS.private_labels])
    classes = [f"digit {each}" for each in range(10)]
    tacit.distill((private, words), public, 1.0, classes=classes).save(folder / "named")
    tacit.distill((private, words), public, 1.0, classes=classes, seed=1, student="logistic").save(folder / "simulated")
    images = [each.reshape(-1, 8, 8) for each in (PARTS.private_samples, PARTS.public_samples)]
    tacit.distill((images[0], PARTS.private_labels), images[1], 1.0, classes=range(10)).save(folder / "images")
    sets = np.stack([PARTS.private_labels % 2, PARTS.private_labels // 5], axis=1)
    tacit.distill((PARTS.private_samples, sets), PARTS.public_samples, 2.0, max_labels=2).save(folder / "sets")
    write(folder / "new.csv", NAMES, PARTS.test_samples)
    write(folder / "turned.csv", NAMES[::-1], PARTS.test_samples[:, ::-1])
    write(folder / "few.csv", NAMES[:-1], PARTS.test_samples[:, :-1])
    truth = np.array([f"digit {each}" for each in PARTS.test_labels])
    write(folder / "labeled.csv", (*NAMES, "truth"), np.column_stack([PARTS.test_samples.astype(str), truth]))
    np.savez(folder / "images.npz", X=PARTS.test_samples.reshape(-1, 8, 8))
    np.savez(folder / "plain.npz", X=PARTS.test_samples)
    return folder


@pytest.fixture
def here(runs, tmp_path, monkeypatch):
    """A folder of one's own with the runs and files in it."""
    for each in runs.iterdir():
        (tmp_path / each.name).symlink_to(each)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def write(file, names, rows):
    file.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]) + "\n")


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(each) for each in arguments])
    return stopped.value.code


def predicted(file):
    lines = Path(file).read_text().splitlines()
    return lines[0].split(","), [line.split(",") for line in lines[1:]]


def test_show_is_short_and_says_what_is_guaranteed(here, capsys):
    assert run("show", "named") == 0
    shown = capsys.readouterr().out
    assert "500 public samples: digit 0 " in shown
    assert "Differential privacy: epsilon = 1, delta = 0 (pure)." in shown
    assert len(shown.splitlines()) < 20


def test_show_as_json_is_a_statement_with_a_version(here, capsys):
    assert run("show", "simulated", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["format"] == "tacit run statement 1"
    assert said["simulation"] is True
    assert said["guarantee"]["epsilon"] == "1"
    assert sum(said["labels"].values()) == said["public_samples"] == 500
    assert said["features"] == list(NAMES)


def test_figures_that_are_not_private_stay_out_of_a_statement(here, capsys, tmp_path):
    shutil.copytree(here / "named", tmp_path / "told")
    record = json.loads((tmp_path / "told/run.json").read_text())
    record["metrics"] = {"not private": {"accuracy": [0.971234]}, "test accuracy": [0.9]}
    (tmp_path / "told/run.json").write_text(json.dumps(record))
    assert run("show", "told", "--json") == 0
    shown = capsys.readouterr().out
    assert "0.971234" not in shown
    assert json.loads(shown)["metrics"] == {"test accuracy": [0.9]}


def test_an_edited_claim_is_not_shown(here, capsys, tmp_path):
    shutil.copytree(here / "named", tmp_path / "edited")
    record = (tmp_path / "edited/run.json").read_text()
    (tmp_path / "edited/run.json").write_text(record.replace('"epsilon": "1"', '"epsilon": "0.1"'))
    assert run("show", "edited") == 2
    assert "it was edited" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["new.csv", "turned.csv"])
def test_predictions_are_the_students_whatever_the_order_of_columns(here, file):
    assert run("predict", "named", file, "--out", "out.csv", "--probabilities") == 0
    head, rows = predicted("out.csv")
    student = tacit.load("named").student
    samples = Named(PARTS.test_samples, NAMES)
    assert head == ["row", "label", *(f"probability of digit {each}" for each in range(10))]
    assert [row[1] for row in rows] == student.predict(samples).tolist()
    np.testing.assert_allclose(np.array([row[2:] for row in rows], float), student.predict_proba(samples), atol=1e-6)


def test_true_labels_are_left_out_and_compared_on_the_screen(here, capsys):
    assert run("predict", "named", "labeled.csv", "--label", "truth", "--out", "out.csv") == 0
    right = np.mean(tacit.load("named").student.predict(Named(PARTS.test_samples, NAMES)) ==
                    np.array([f"digit {each}" for each in PARTS.test_labels]))  # fmt: skip
    assert f"{right:.1%} right" in capsys.readouterr().out
    assert predicted("out.csv")[0] == ["row", "label"]


def test_images_and_sets_of_labels(here):
    assert run("predict", "images", "images.npz", "--out", "one.csv") == 0
    assert [row[1] for row in predicted("one.csv")[1]] == [
        str(each) for each in tacit.load("images").student.predict(PARTS.test_samples.reshape(-1, 8, 8))
    ]
    assert run("predict", "sets", "plain.npz", "--out", "two.csv", "--probabilities") == 0
    head, rows = predicted("two.csv")
    assert head == ["row", "label 0", "label 1", "probability of 0", "probability of 1"]
    least = min(float(row[3]) for row in rows if row[1] == "1")
    assert all((float(row[3]) >= least) == (row[1] == "1") for row in rows)


def test_what_a_simulation_says_is_called_so(here, capsys):
    assert run("predict", "simulated", "new.csv", "--out", "out.csv") == 0
    assert predicted("out.csv")[0] == ["row", "simulated label"]
    assert "no guarantee covers it" in capsys.readouterr().err


def test_parquet_of_labels_and_predictions(here):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    assert run("predict", "named", "new.csv", "--out", "out.parquet", "--probabilities") == 0
    table = parquet.read_table("out.parquet")
    assert table.column("label").to_pylist() == tacit.load("named").student.predict(PARTS.test_samples).tolist()
    assert run("export", "named", "--labels", "labels.parquet") == 0
    labels = parquet.read_table("labels.parquet")
    assert labels.column("label").to_pylist() == tacit.load("named").labels.tolist()


def test_labels_as_csv_are_those_of_the_run(here):
    assert run("export", "named", "--labels", "labels.csv") == 0
    assert Path("labels.csv").read_text() == Path("named/labels.csv").read_text()


@pytest.mark.parametrize("which", ["named", "simulated", "images"])
def test_an_onnx_model_says_what_the_student_says(here, capsys, which):
    onnx = pytest.importorskip("onnx", reason="tacit[export] is not installed")
    pytest.importorskip("skl2onnx", reason="tacit[export] is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="tacit[export] is not installed")
    file = "images.npz" if which == "images" else "turned.csv"
    assert run("export", which, "--onnx", "--out", "model", "--check", file) == 0
    assert "100.0% of 297 labels are the student's" in capsys.readouterr().out
    name = "simulated-student.onnx" if which == "simulated" else "student.onnx"
    session = runtime.InferenceSession(f"model/{name}", providers=["CPUExecutionProvider"])
    labels, chances = session.run(["label", "probabilities"], {"X": PARTS.test_samples.astype(np.float32)})
    student = tacit.load(which).student
    samples = PARTS.test_samples.reshape(-1, 8, 8) if which == "images" else PARTS.test_samples
    np.testing.assert_array_equal(labels, student.predict(samples))
    np.testing.assert_allclose(chances, student.predict_proba(samples), atol=1e-5)
    notes = {each.key: each.value for each in onnx.load(f"model/{name}").metadata_props}
    assert "epsilon = 1" in notes["guarantee"]
    card = Path("model/MODEL_CARD.md").read_text()
    assert "epsilon = 1" in card
    assert ("SIMULATION, NO PRIVACY GUARANTEE" in card) == (which == "simulated")
    assert json.loads(Path("model/statement.json").read_text())["format"] == "tacit run statement 1"


def test_an_onnx_model_of_sets_says_what_the_students_of_all_labels_say(here, capsys):
    onnx = pytest.importorskip("onnx", reason="tacit[export] is not installed")
    pytest.importorskip("skl2onnx", reason="tacit[export] is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="tacit[export] is not installed")
    assert run("export", "sets", "--onnx", "--out", "model", "--check", "plain.npz") == 0
    assert "100.0% of 297 labels are the student's" in capsys.readouterr().out
    saved = tacit.load("sets")
    session = runtime.InferenceSession("model/student.onnx", providers=["CPUExecutionProvider"])
    labels, chances = session.run(["label", "probabilities"], {"X": PARTS.test_samples.astype(np.float32)})
    assert labels.shape == (297, len(saved.classes))
    np.testing.assert_array_equal(labels, saved.student.predict(PARTS.test_samples))
    np.testing.assert_allclose(chances, saved.student.predict_proba(PARTS.test_samples), atol=1e-5)
    notes = {each.key: each.value for each in onnx.load("model/student.onnx").metadata_props}
    assert json.loads(notes["classes"]) == [str(each) for each in saved.classes]


def test_a_label_that_all_samples_have_or_none_is_the_same_in_onnx(here):
    pytest.importorskip("skl2onnx", reason="tacit[export] is not installed")
    pytest.importorskip("onnxruntime", reason="tacit[export] is not installed")
    from tacit.runs.export import onnx_predictions, student_to_onnx
    from tacit.students.weighted import ESTIMATORS, fit_by_label

    even = (PARTS.public_labels % 2 == 0).astype(float)
    sure = np.column_stack([np.zeros(len(even)), even, np.ones(len(even))])
    student = fit_by_label(ESTIMATORS["logistic"](), PARTS.public_samples, sure)
    labels, chances = onnx_predictions(student_to_onnx(student, 64, {}), PARTS.test_samples)
    np.testing.assert_array_equal(labels, student.predict(PARTS.test_samples))
    np.testing.assert_allclose(chances, student.predict_proba(PARTS.test_samples), atol=1e-5)
    assert labels[:, 2].all()
    assert not labels[:, 0].any()


def test_a_network_as_onnx_and_as_safetensors(here, capsys, tmp_path):
    pytest.importorskip("torch", reason="tacit[torch] is not installed")
    pytest.importorskip("onnxscript", reason="tacit[export] is not installed")
    tacit.distill(
        (PARTS.private_samples, PARTS.private_labels), PARTS.public_samples, 1.0, classes=range(10),
        student=tacit.students.registry.STUDENTS["network"](epochs=5),
    ).save(tmp_path / "network")  # fmt: skip
    assert run("export", "network", "--onnx", "--out", "model", "--check", "plain.npz") == 0
    assert "100.0% of 297 labels are the student's" in capsys.readouterr().out
    assert run("export", "network", "--safetensors", "--out", "tensors") == 0
    assert Path("tensors/student.safetensors").read_bytes() == Path("network/student.safetensors").read_bytes()
    assert run("export", "network", "--skops", "--out", "other") == 2
    assert "saved as safetensors" in capsys.readouterr().err


@pytest.mark.parametrize("student", [["--student", "logistic"], []])
def test_a_mixed_table_is_predicted_and_exported_with_its_encoder(here, capsys, student):
    """Words and gaps in the file, as they went in; the encoder comes from the run and goes with the export."""
    pytest.importorskip("skl2onnx", reason="tacit[export] is not installed")
    random = np.random.default_rng(0)

    def rows(count, labels):
        ill = random.random(count) < 0.5
        age = np.where(ill, 70, 30) + random.normal(0, 5, count)
        sex = np.where(ill ^ (random.random(count) < 0.1), "f", "m")
        return [
            [*(f"{each:.2f}" if random.random() > 0.05 else "" for each in (age[row],)), sex[row],
             *(["ill" if ill[row] else "well"] if labels else [])]
            for row in range(count)
        ]  # fmt: skip

    write(Path("private.csv"), ("age", "sex", "state"), rows(800, True))
    write(Path("open.csv"), ("age", "sex"), rows(300, False))
    write(Path("later.csv"), ("sex", "age", "state"), [[row[1], row[0], row[2]] for row in rows(200, True)])
    write(Path("plain.csv"), ("sex", "age"), [[row[1], row[0]] for row in rows(50, False)])
    assert run("distill", "--private", "private.csv", "--public", "open.csv", "--label", "state", "--classes",
               "ill,well", "--epsilon", "2", *student, "--out", "mixed") == 0  # fmt: skip
    assert Path("mixed/encoder.tacit").is_file()
    capsys.readouterr()
    assert run("predict", "mixed", "later.csv", "--label", "state", "--out", "out.csv", "--probabilities") == 0
    assert float(re.search(r"([\d.]+)% right", capsys.readouterr().out)[1]) > 85
    assert run("export", "mixed", "--onnx", "--out", "model", "--check", "plain.csv") == 0
    assert "100.0% of 50 labels are the student's" in capsys.readouterr().out
    assert Path("model/encoder.tacit").read_bytes() == Path("mixed/encoder.tacit").read_bytes()
    card = Path("model/MODEL_CARD.md").read_text()
    assert "read_encoder" in card
    assert "numbers, as `encoder.tacit` makes them of the columns" in card
    with contextlib.chdir("model"):
        seen = {"samples": pytest.importorskip("pandas", reason="pandas is not installed").read_csv("../plain.csv")}
        exec(card.split("```python\n")[1].split("```")[0], seen)
    np.testing.assert_array_equal(seen["labels"], tacit.load("mixed").student.predict("plain.csv"))
    assert run("predict", "mixed", "new.csv", "--out", "no.csv") == 2
    assert "missing age, sex" in capsys.readouterr().err
    assert run("report", "mixed", "--out", "mixed.html") == 0
    assert run("show", "mixed") == 0


def test_a_skops_file_with_its_card(here):
    assert run("export", "simulated", "--skops", "--out", "model") == 0
    import skops.io

    card = Path("model/MODEL_CARD.md").read_text()
    example = card.split("```python\n")[1].split("```")[0]
    seen = {"rows": PARTS.test_samples}
    os.chdir("model")
    exec(example, seen)
    assert skops.io is not None
    np.testing.assert_array_equal(
        seen["labels"], tacit.load("../simulated").student.predict(Named(PARTS.test_samples, NAMES))
    )


def test_a_model_that_differs_from_its_student_is_not_written(here, monkeypatch, capsys):
    pytest.importorskip("skl2onnx", reason="tacit[export] is not installed")
    import tacit.runs.export

    exact = tacit.runs.export.onnx_predictions

    def off(model, samples):
        labels, chances = exact(model, samples)
        return np.roll(labels, 1), chances

    monkeypatch.setattr("tacit.runs.export.onnx_predictions", off)
    assert run("export", "named", "--onnx", "--out", "model", "--check", "new.csv") == 2
    assert "the ONNX model's predictions differ" in capsys.readouterr().err
    assert not Path("model").exists()


WRONG = {
    "no run": (("show", "nowhere"), "nowhere: not a run folder"),
    "a mistyped run": (("show", "namd"), "did you mean named?"),
    "a file as a run": (("show", "new.csv"), "not a run folder"),
    "a very long name": (("show", MANY), "not a run folder"),
    "predict without a run": (("predict", "nmed", "new.csv", "--out", "o.csv"), "did you mean named?"),
    "predict no file": (("predict", "named", "other.csv", "--out", "o.csv"), "no such file"),
    "predict into a spreadsheet": (("predict", "named", "new.csv", "--out", "o.xlsx"), "written as .csv or .parquet"),
    "predict over a file": (("predict", "named", "new.csv", "--out", "new.csv"), "exists already"),
    "predict into no folder": (("predict", "named", "new.csv", "--out", "no/o.csv"), "no such folder"),
    "a column less": (("predict", "named", "few.csv", "--out", "o.csv"), "missing p63"),
    "a column more": (("predict", "named", "labeled.csv", "--out", "o.csv"), "is named by --label"),
    "other features": (("predict", "sets", "few.csv", "--out", "o.csv"), "has 63 features, the run's samples have 64"),
    "a label that is not one": (("predict", "named", "labeled.csv", "--label", "trut", "--out", "o.csv"), "truth"),
    "export nothing": (("export", "named"), "choose what to export"),
    "export without a place": (("export", "named", "--onnx"), "and --out"),
    "export without a format": (("export", "named", "--out", "m"), "choose what to export"),
    "two formats": (("export", "named", "--onnx", "--skops", "--out", "m"), "choose one"),
    "the other format": (("export", "named", "--safetensors", "--out", "m"), "saved as skops"),
    "over a folder": (("export", "named", "--skops", "--out", "named"), "exists already"),
    "check without onnx": (("export", "named", "--skops", "--out", "m", "--check", "new.csv"), "give --onnx"),
    "check on other columns": (("export", "named", "--onnx", "--out", "m", "--check", "few.csv"), "missing p63"),
    "no such command": (("shwo", "named"), "Did you mean 'show'?"),
    "a very long command": ((MANY,), "No such command"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_told_in_a_line_and_nothing_is_written(here, capsys, case):
    arguments, message = WRONG[case]
    before = sorted(each.name for each in here.iterdir())
    assert run(*arguments) == 2
    told = capsys.readouterr().err
    assert message in told.replace("\n", " ").replace("│", " ").replace("  ", " ")
    assert "Traceback" not in told
    assert len(told) < 900
    assert "x" * 81 not in told
    assert sorted(each.name for each in here.iterdir()) == before


def test_show_answers_at_once(here):
    """Half a second of a processor, of which numpy and rich are most: the student is not loaded."""
    program = "import resource; from tacit.cli import main\ntry: main()\nexcept SystemExit: pass\n" \
              "import sys; print('sklearn' in sys.modules, 'scipy' in sys.modules)"  # fmt: skip
    shown = subprocess.run(
        [sys.executable, "-c", program, "show", "named"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert shown.splitlines()[-1] == "False False"


def test_a_file_may_have_the_columns_that_the_run_left_out_and_no_others(tmp_path):
    """The same raw table as went in is taken, with the column of persons and those that the encoder did not use."""
    from types import SimpleNamespace

    from tacit.cli.runs import samples_for
    from tacit.core.errors import InvalidInput
    from tacit.core.guarantee import Unit

    record = SimpleNamespace(
        written={"recipe": {"features": 3, "encoding": ["1 number", "column 'visit' is left out: all differ"]}},
        features=("age", "sex"), encoder=Path("encoder.tacit"), claim=SimpleNamespace(unit=Unit.person("patient", 2)),
    )  # fmt: skip
    write(
        tmp_path / "raw.csv",
        ("visit", "patient", "sex", "age", "state"),
        [[1, 7, "f", 30, "ill"], [2, 7, "m", 40, "well"]],
    )
    samples, truth = samples_for(record, tmp_path / "raw.csv", "state")
    assert set(samples.columns) == {"age", "sex"}
    assert truth.tolist() == ["ill", "well"]
    write(tmp_path / "other.csv", ("visit", "sex", "age", "weight"), [[1, "f", 30, 60]])
    with pytest.raises(InvalidInput, match="unknown weight"):
        samples_for(record, tmp_path / "other.csv", None)
