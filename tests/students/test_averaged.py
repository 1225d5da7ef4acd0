"""The mean of students: probabilities, classes that one of them never met, and saving without code."""

import numpy as np
import pytest
from sklearn.pipeline import Pipeline

from tacit.core.errors import InvalidInput
from tacit.students.averaged import AveragedStudent, StoredNetwork, network_bytes, network_of
from tacit.students.registry import load_student, save_student
from tacit.students.weighted import logistic

ROWS = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.0]])
NAMES = np.array(["a", "b", "c", "a"])


def test_probabilities_are_the_mean():
    parts = [logistic().fit(ROWS, NAMES), logistic().fit(ROWS[::-1], NAMES)]
    mean = (parts[0].predict_proba(ROWS) + parts[1].predict_proba(ROWS)) / 2
    averaged = AveragedStudent(parts)
    # As a run keeps it: a pipeline asks whether its last step is an estimator.
    assert Pipeline([("student", averaged)]).predict(ROWS).shape == averaged.predict(ROWS).shape
    assert averaged.predict_proba(ROWS).tolist() == mean.tolist()
    assert averaged.predict(ROWS).tolist() == np.array(["a", "b", "c"])[mean.argmax(axis=1)].tolist()


def test_a_class_that_one_student_never_met_counts_as_0_there():
    all_of_them, two = logistic().fit(ROWS, NAMES), logistic().fit(ROWS[1:3], NAMES[1:3])
    chances = AveragedStudent([all_of_them, two]).predict_proba(ROWS)
    assert chances[:, 0].tolist() == (all_of_them.predict_proba(ROWS)[:, 0] / 2).tolist()
    assert chances.sum(axis=1) == pytest.approx(np.ones(4))


def test_a_network_is_saved_with_the_others_and_predicts_the_same_bits(tmp_path):
    pytest.importorskip("torch", reason="needs tacit[torch]")
    from tacit.students.torch_classifier import TorchClassifier

    network = TorchClassifier(network="linear", epochs=1).fit(ROWS, NAMES)
    averaged = AveragedStudent([logistic().fit(ROWS, NAMES), StoredNetwork.of(network)])
    before = averaged.predict_proba(ROWS)
    assert before[:, 0] == pytest.approx(
        (averaged.students[0].predict_proba(ROWS) + network.predict_proba(ROWS))[:, 0] / 2
    )
    written = save_student(averaged, tmp_path)
    assert written == "student.skops"
    again = load_student(tmp_path / written)
    assert again.predict_proba(ROWS).tolist() == before.tolist()
    assert again.students[1].predict(ROWS).tolist() == network.predict(ROWS).tolist()


def test_what_is_no_network_is_neither_written_nor_read():
    with pytest.raises(InvalidInput, match="Pipeline is not a network"):
        network_bytes(logistic().fit(ROWS, NAMES))
    pytest.importorskip("torch", reason="needs tacit[torch]")
    for content in (b"", b"\x08" + b"\0" * 30, b"not tensors at all"):
        with pytest.raises(InvalidInput, match="cannot be read"):
            network_of(content)
