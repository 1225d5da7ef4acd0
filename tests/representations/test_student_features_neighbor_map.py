import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.representations.student_features import NeighborMap
from tacit.students.registry import STUDENTS, load_student, save_student
from tacit.students.weighted import fit_hard, fit_soft, logistic


def rings(count=120):
    """Two rings, one inside the other: no plane separates them, and their neighbor graph does."""
    angles = np.linspace(0, 2 * np.pi, count, endpoint=False)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    return np.concatenate([circle, 3 * circle]), np.repeat([0, 1], count)


def test_a_linear_student_on_the_map_separates_what_no_plane_does():
    rows, labels = rings()
    weights = np.ones(len(rows))
    turned = rows @ np.array([[np.cos(0.01), -np.sin(0.01)], [np.sin(0.01), np.cos(0.01)]])
    mapped = fit_hard(STUDENTS["map"](), rows, labels, weights)
    plain = fit_hard(logistic(), rows, labels, weights)
    assert (mapped.predict(turned) == labels).all()
    assert (plain.predict(turned) == labels).mean() < 0.8


def test_it_is_saved_and_loaded_without_running_code(tmp_path):
    rows, labels = rings()
    student = fit_hard(STUDENTS["map"](), rows, labels, np.ones(len(rows)))
    loaded = load_student(tmp_path / save_student(student, tmp_path))
    np.testing.assert_array_equal(loaded.predict_proba(rows), student.predict_proba(rows))


def test_samples_that_come_twice_for_soft_labels_are_drawn_once():
    rows, labels = rings(40)
    soft = np.where(np.eye(2)[labels] > 0, 0.8, 0.2)
    student = fit_soft(STUDENTS["map"](), rows, np.array([0, 1]), soft)
    assert len(student.named_steps["map"].anchors_) == len(rows)
    assert (student.predict(rows) == labels).all()


def test_a_place_does_not_depend_on_the_other_samples():
    rows, _ = rings(40)
    drawn = NeighborMap(6).fit(rows)
    np.testing.assert_array_equal(drawn.transform(rows + 0.01)[5:6], drawn.transform(rows[5:6] + 0.01))


def test_too_few_samples_are_refused():
    with pytest.raises(InvalidInput, match="more than 11 different samples, got 3"):
        NeighborMap().fit(np.eye(3))
