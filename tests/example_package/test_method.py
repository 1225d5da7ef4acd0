"""A method of another package: run by its name in the library and by the estimator."""

import numpy as np
import pytest

import tacit
from tacit.core.errors import InvalidInput
from tests.example_package.installed import example  # noqa: F401

CLASSES = ("cat", "dog")
LABELS = np.array(["cat"] * 10 + ["dog"] * 40)
SAMPLES = np.arange(100.0).reshape(50, 2)
PUBLIC = SAMPLES[:12] + 0.5

pytestmark = pytest.mark.usefixtures("example")


def test_it_runs_through_the_one_entry_point_and_is_saved_and_loaded(tmp_path):
    run = tacit.distill((SAMPLES, LABELS), PUBLIC, 8, method="histogram", classes=CLASSES)
    assert run.labels.tolist() == ["dog"] * 12
    assert (run.guarantee.epsilon, len(run.receipts), run.recipe["options"]) == (8, 1, {"rank": 1})
    again = tacit.load(run.save(tmp_path / "run"))
    assert again.student.predict(PUBLIC).tolist() == run.labels.tolist()
    assert str(again.guarantee) == str(run.guarantee)


def test_its_options_are_given_by_name_or_as_an_object():
    from tacit_example.options import Histogram

    for given in ({"method": "histogram", "rank": 2}, {"method": Histogram(2)}):
        run = tacit.distill((SAMPLES, LABELS), PUBLIC, 8, classes=CLASSES, seed=1, **given)
        assert run.labels.tolist() == ["cat"] * 12
    estimator = tacit.PrivateDistiller(method="histogram", epsilon=8, classes=CLASSES, seed=1)
    assert set(estimator.fit(SAMPLES, LABELS, public=PUBLIC).predict(SAMPLES)) == {"dog"}
    with pytest.raises(InvalidInput, match="place is called rank now"):
        tacit.distill((SAMPLES, LABELS), PUBLIC, 8, method="histogram", classes=CLASSES, place=2)
    with pytest.raises(InvalidInput, match="rank must be at least 1"):
        tacit.distill((SAMPLES, LABELS), PUBLIC, 8, method="histogram", classes=CLASSES, rank=0)
