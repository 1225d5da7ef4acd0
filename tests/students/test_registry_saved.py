import pickle
import zipfile

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from tacit.core.errors import InvalidInput
from tacit.students.registry import STUDENTS, TENSOR_FORMATS, load_student, reader_of, save_student
from tacit.students.weighted import fit_hard, fit_soft, takes_weights
from tacit.students.wrapped import Projected, for_images

X = np.random.default_rng(0).normal(size=(60, 3)) + np.repeat([[0.0], [3.0]], 30, axis=0)
Y = np.repeat(["no", "yes"], 30)


@pytest.mark.parametrize("name", ["forest", "logistic", "network"])
def test_every_student_with_a_name_learns_weights_and_survives_the_disk(name, tmp_path):
    student = fit_hard(STUDENTS[name](), X, Y, np.ones(60))
    assert (student.predict(X) == Y).mean() > 0.9
    file = save_student(student, tmp_path)
    loaded = load_student(tmp_path / file)
    assert np.array_equal(loaded.predict(X), student.predict(X))
    assert np.allclose(loaded.predict_proba(X), student.predict_proba(X))


@pytest.mark.parametrize("name", ["forest", "logistic", "network"])
def test_weights_matter(name):
    # Half of the labels are wrong; weights say which.
    wrong = np.where(np.arange(60) % 2 == 0, Y, Y[::-1])
    weights = np.where(wrong == Y, 1.0, 1e-6)
    assert (fit_hard(STUDENTS[name](), X, wrong, weights).predict(X) == Y).mean() > 0.9


def test_soft_labels_train_like_the_probabilities_say():
    soft = np.where(Y[:, None] == np.array(["no", "yes"]), 0.8, 0.2)
    student = fit_soft(LogisticRegression(C=100), X, np.array(["no", "yes"]), soft)
    assert (student.predict(X) == Y).mean() > 0.9
    assert abs(student.predict_proba(X).max(axis=1).mean() - 0.8) < 0.05


def test_a_student_without_weights_is_refused():
    assert not takes_weights(KNeighborsClassifier())
    with pytest.raises(InvalidInput, match="KNeighborsClassifier does not take sample weights"):
        fit_hard(KNeighborsClassifier(), X, Y, np.ones(60))


def test_one_label_for_all_makes_a_student_that_always_says_it(tmp_path):
    student = fit_hard(STUDENTS["logistic"](), X, np.full(60, "no"), np.ones(60))
    assert set(student.predict(X)) == {"no"}
    assert set(load_student(tmp_path / save_student(student, tmp_path)).predict(X)) == {"no"}


def test_soft_labels_of_many_classes_keep_their_best_ones():
    flat = np.full((60, 150), 1 / 150)
    flat[np.arange(60), np.arange(60) % 2] += 0.001
    assert fit_soft(LogisticRegression(max_iter=20), X, np.arange(150), flat).classes_.tolist() == list(range(150))


class Homemade:
    """Not of scikit-learn: reading it back would need this code."""

    def predict(self, X):
        return X


def test_what_cannot_be_read_back_safely_is_not_written(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be saved"):
        save_student(Homemade(), tmp_path)
    assert list(tmp_path.iterdir()) == []


class Bomb:
    def __reduce__(self):
        return (print, ("boom",))


def test_a_pickle_is_refused_unread(tmp_path, capsys):
    for name in ("student.pkl", "student.skops", "student.safetensors"):
        (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(InvalidInput, match=name):
            load_student(tmp_path / name)
    assert "boom" not in capsys.readouterr().out


def test_a_skops_file_with_foreign_types_is_refused(tmp_path):
    import skops.io

    skops.io.dump(Homemade(), tmp_path / "student.skops")
    with pytest.raises(InvalidInput, match="unknown types"):
        load_student(tmp_path / "student.skops")


def test_a_tree_that_points_outside_itself_is_refused(tmp_path, monkeypatch):
    """Such a tree would read foreign memory when it predicts."""
    student = fit_hard(STUDENTS["forest"](), X, Y, np.ones(60))
    student.estimators_[3].tree_.children_left[0] = 10_000
    save_student(student, tmp_path)
    with pytest.raises(InvalidInput, match="damaged tree"):
        load_student(tmp_path / "student.skops")


def test_tensors_of_another_kind_are_refused(tmp_path):
    import torch
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, tmp_path / "student.safetensors")
    with pytest.raises(InvalidInput, match="not a student of this kind"):
        load_student(tmp_path / "student.safetensors")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInput, match="no such file"):
        load_student(tmp_path / "student.skops")


def test_without_torch_a_neural_student_says_what_to_install(tmp_path, monkeypatch):
    import sys

    (tmp_path / "student.safetensors").write_bytes(b"")
    for name in [each for each in sys.modules if each.startswith("tacit.students.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InvalidInput, match=r"pip install 'tacit\[torch\]'"):
        STUDENTS["network"]()
    with pytest.raises(InvalidInput, match=r"pip install 'tacit\[torch\]'"):
        load_student(tmp_path / "student.safetensors")


@pytest.mark.parametrize(
    "step", ["flattened.Flatten", "projected.Projected", "neighbor_map.NeighborMap", "maps.NeighborMap"]
)
def test_a_student_saved_before_its_steps_moved_is_read(step, tmp_path):
    if step.startswith("flattened"):
        student = for_images(fit_hard(STUDENTS["logistic"](), X, Y, np.ones(60)))
    elif step.startswith("projected"):
        student = make_pipeline(Projected.components(X, 2), *(each for _, each in STUDENTS["logistic"]().steps)).fit(
            X, Y
        )
    else:
        student = fit_hard(STUDENTS["map"](), X, Y, np.ones(60))
    file = tmp_path / save_student(student, tmp_path)
    module, name = step.split(".")
    folder = "representations" if name == "NeighborMap" else "students"
    now = "representations.student_features" if name == "NeighborMap" else "students.wrapped"
    with zipfile.ZipFile(file) as archive:
        parts = {each: archive.read(each) for each in archive.namelist()}
    written = parts["schema.json"]
    parts["schema.json"] = written.replace(f"tacit.{now}".encode(), f"tacit.{folder}.{module}".encode())
    assert parts["schema.json"] != written
    with zipfile.ZipFile(file, "w") as archive:
        for each, content in parts.items():
            archive.writestr(each, content)
    assert np.array_equal(load_student(file).predict(X), student.predict(X))


@pytest.mark.parametrize("kind", TENSOR_FORMATS.own)
def test_every_kind_of_tensors_is_read_by_the_class_that_writes_it(kind):
    assert reader_of(kind).format == kind
