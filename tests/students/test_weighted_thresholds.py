"""When a label is predicted: thresholds from probabilities alone, saved, exported and read from older files."""

import io
import zipfile

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.runs.export import onnx_predictions, student_to_onnx
from tacit.students.registry import load_student, save_student
from tacit.students.weighted import BinaryRelevance, fit_by_label, label_thresholds, logistic

RNG = np.random.default_rng(0)
SAMPLES = RNG.normal(size=(200, 3))
CHANCES = 1 / (1 + np.exp(2 - SAMPLES @ RNG.normal(size=(3, 4))))


def expected_f1(chances, predicted):
    return 2 * chances[predicted].sum() / (predicted.sum() + chances.sum())


@pytest.mark.parametrize("seed", range(5))
def test_no_other_common_threshold_has_a_better_expected_f1(seed):
    chances = np.random.default_rng(seed).beta(0.5, 2, size=(30, 4))
    found = np.array(label_thresholds("f1", chances))
    assert len(set(found)) == 1
    best = expected_f1(chances, chances >= found)
    assert best >= max(expected_f1(chances, chances >= each) for each in np.unique(chances)) - 1e-12
    # Lipton et al.: for calibrated probabilities it is half of the F1 that is reached.
    assert found[0] <= 0.5
    near = np.sort(chances.ravel())
    below, above = near[near < best / 2][-1:], near[near >= best / 2][:1]
    assert below.size == 0 or found[0] >= below[0]
    assert found[0] <= above[0]


def test_thresholds_are_for_the_scores_and_the_truth_is_what_was_released():
    """A student whose scores are too small by a factor predicts the same as one whose scores are right."""
    for rule in ("f1", "frequency"):
        shrunk = label_thresholds(rule, CHANCES, CHANCES / 3)
        assert np.array_equal(shrunk <= CHANCES / 3, label_thresholds(rule, CHANCES) <= CHANCES)


def test_by_frequency_a_label_is_predicted_as_often_as_it_is_expected():
    predicted = label_thresholds("frequency", CHANCES) <= CHANCES
    assert abs(predicted.sum(axis=0) - CHANCES.sum(axis=0)).max() <= 0.5
    never, always = np.zeros((5, 1)), np.ones((5, 1))
    assert not (label_thresholds("frequency", never) <= never).any()
    assert (label_thresholds("frequency", always) <= always).all()


def test_where_nothing_is_known_every_label_is_predicted():
    same = np.full((10, 3), 0.2)
    assert (label_thresholds("f1", same) <= same).all()


def test_a_student_without_probabilities_decides_by_itself():
    from sklearn.svm import LinearSVC

    student = fit_by_label(LinearSVC(), SAMPLES, CHANCES, "f1")
    assert student.thresholds is None
    assert student.predict(SAMPLES).shape == CHANCES.shape


@pytest.mark.parametrize("rule", ["f1", "frequency", "half"])
def test_thresholds_survive_the_disk_and_onnx(rule, tmp_path):
    student = fit_by_label(logistic(), SAMPLES, CHANCES, rule)
    predicted = student.predict(SAMPLES)
    loaded = load_student(tmp_path / save_student(student, tmp_path))
    assert loaded.thresholds == student.thresholds
    assert np.array_equal(loaded.predict(SAMPLES), predicted)
    pytest.importorskip("skl2onnx")
    labels, _ = onnx_predictions(student_to_onnx(student, 3, {}), SAMPLES)
    assert (labels == predicted).mean() > 0.995  # 32-bit floats


def test_students_are_read_under_the_name_that_they_had(tmp_path):
    student = BinaryRelevance(fit_by_label(logistic(), SAMPLES, CHANCES).students)
    file = tmp_path / save_student(student, tmp_path)
    older = io.BytesIO()
    with zipfile.ZipFile(file) as now, zipfile.ZipFile(older, "w") as before:
        for name in now.namelist():
            content = now.read(name)
            if name == "schema.json":
                assert b'"BinaryRelevance"' in content
                content = content.replace(b'"BinaryRelevance"', b'"OneEachLabel"')
                content = content.replace(b"thresholds", b"thresholdz")  # which older files do not have
            before.writestr(name, content)
    file.write_bytes(older.getvalue())
    loaded = load_student(file)
    assert isinstance(loaded, BinaryRelevance)
    assert loaded.thresholds is None
    assert np.array_equal(loaded.predict(SAMPLES), student.predict(SAMPLES))


def test_another_rule_is_refused_by_the_options():
    import tacit

    for options in (tacit.ReverseKNN, tacit.ClassSums, tacit.Auto):
        with pytest.raises(InvalidInput, match="f1, frequency"):
            options(thresholds="best")
