"""A saved student tells what it learned, and nothing of the process that trained it."""

import zipfile

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from tacit.students.registry import load_student, save_student
from tacit.students.weighted import logistic

SAMPLES, LABELS = np.arange(20.0).reshape(10, 2), np.arange(10) % 2


@pytest.mark.parametrize("make", [logistic, lambda: RandomForestClassifier(3, random_state=1)])
def test_the_same_student_is_the_same_bytes_wherever_it_lay_in_memory(tmp_path, make):
    held, written = [], []
    for name in ("one", "other"):
        folder = tmp_path / name
        folder.mkdir()
        student = make().fit(SAMPLES, LABELS)
        file = folder / save_student(student, folder)
        # Students stay in memory, so the next one has other addresses.
        held.append(student)
        written.append(file.read_bytes())
        assert load_student(file).predict(SAMPLES).tolist() == student.predict(SAMPLES).tolist()
        with zipfile.ZipFile(file) as archive:
            assert {part.date_time for part in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert written[0] == written[1]
