"""The student that is the regression itself: saved, loaded, and with scikit-learn's manners."""

import dataclasses
import warnings
from fractions import Fraction

import numpy as np
import pytest

import tacit
from tacit.methods.auto.coordinator import SumFeatures, VoteFeatures
from tacit.methods.auto.plan import plan_auto
from tacit.methods.auto.teaching import AutoTeaching, ReleasedFeatures, regression_student
from tacit.methods.class_sums.coordinator import LinearOdds
from tacit.representations.scaled import Identity
from tacit.students.registry import load_student, save_student
from tests.methods.auto.given import clouds, planes, task

pytestmark = pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")
rng = np.random.default_rng(4)

VOTES = VoteFeatures(Identity(2), np.array([[0.0, 0], [9, 9]], dtype=np.float32))
SUMS = SumFeatures(Identity(2), 1.0, 10, "l2")
POINTS = rng.normal(size=(40, 2)) * 6


def test_features_are_those_of_all_releases_side_by_side():
    together = ReleasedFeatures.of([VOTES, SUMS], (2,)).transform(POINTS)
    assert together.tolist() == np.concatenate([VOTES.points(POINTS), SUMS.points(POINTS)], axis=1).tolist()


@pytest.mark.parametrize("classes", [("a", "b", "c"), ("z", "m", "a"), (2, 0, 1), ("late", "early")])
def test_the_student_says_the_odds_in_the_order_of_its_classes(classes):
    odds = LinearOdds(rng.normal(size=(4, len(classes))), rng.normal(size=len(classes)))
    student = regression_student([VOTES, SUMS], odds, np.array(classes), (2,))
    points = np.concatenate([VOTES.points(POINTS), SUMS.points(POINTS)], axis=1)
    wanted = odds.probabilities(points)[:, np.argsort(np.array(classes), kind="stable")]
    assert student.classes_.tolist() == sorted(classes)
    said = student.predict_proba(POINTS)
    assert said == pytest.approx(wanted)
    assert said.sum(axis=1) == pytest.approx(np.ones(40))
    assert student.predict(POINTS).tolist() == np.array(classes)[odds.probabilities(points).argmax(axis=1)].tolist()


def test_it_is_saved_without_code_and_says_the_same_afterwards(tmp_path):
    odds = LinearOdds(rng.normal(size=(4, 3)), rng.normal(size=3))
    student = regression_student([VOTES, SUMS], odds, np.array(["a", "b", "c"]), (2,))
    again = load_student(tmp_path / save_student(student, tmp_path))
    assert again.predict_proba(POINTS).tolist() == student.predict_proba(POINTS).tolist()


def test_images_without_a_network_have_a_perceptron_on_gradients(tmp_path):
    """A map of pixels was right for five points less than the labels that it learned from."""
    parts = tacit.digits()
    large = {name: np.kron(getattr(parts, name).reshape(-1, 8, 8), np.ones((3, 3))).reshape(-1, 576)
             for name in ("public_samples", "test_samples")}  # fmt: skip
    there = task(
        (large["public_samples"][:1], np.zeros(1, dtype=int)),
        large["public_samples"],
        classes=np.arange(10),
        kind="images",
    )
    plan = dataclasses.replace(plan_auto(there, "votes"), network=False)
    assert plan.representation == "gradients"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        student = AutoTeaching(there, plan)._taught(np.eye(10)[parts.public_labels], last=True)
    said = student.predict(large["test_samples"])
    assert (said == parts.test_labels).mean() > 0.95
    again = load_student(tmp_path / save_student(student, tmp_path))
    assert (again.predict(large["test_samples"]) == said).all()


CASES = {
    "a table": (planes, {}, ("a", "b", "c")),
    "classes in another order": (planes, {}, ("z", "m", "a")),
    "images, the core alone": (planes, {"data_kind": "images"}, ("a", "b", "c")),
    "images with a network's features": (planes, {"data_kind": "images"}, ("a", "b", "c")),
    "clusters with a network": (clouds, {"data_kind": "images"}, ("a", "b", "c")),
    "a pure mixed table": (planes, {"data_kind": "mixed", "delta": 0}, ("a", "b", "c")),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_is_loaded_and_predicts_as_before(case, tmp_path, monkeypatch):
    made, given, classes = CASES[case]
    if "network" in case:
        pytest.importorskip("torch", reason="needs tacit[torch]")
        pytest.importorskip("safetensors", reason="needs tacit[torch]")
    else:
        monkeypatch.setattr("tacit.methods.auto.plan.installed", lambda *_: False)
    samples, labels = made(900, 1)
    given = {"delta": Fraction(1, 10**5)} | given
    run = tacit.distill((samples, np.array(classes)[labels]), made(150, 2)[0], 8, classes=classes, seed=2, **given)
    again = tacit.load(run.save(tmp_path / "run"))
    test, _ = made(60, 5)
    assert again.student.predict(test).tolist() == run.student.predict(test).tolist()
    odds = run.student.predict_proba(test)
    assert again.student.predict_proba(test).tolist() == odds.tolist()
    assert odds.sum(axis=1) == pytest.approx(np.ones(60))
    assert run.student.predict(test).tolist() == run.student.classes_[odds.argmax(axis=1)].tolist()
    assert run.probabilities.shape == (150, 3)
    assert run.labels.tolist() == np.array(classes)[run.probabilities.argmax(axis=1)].tolist()


def test_two_classes_are_told_apart_whichever_is_named_first():
    samples, labels = planes(3000, 1)
    test, true = planes(500, 5)
    for classes in (("no", "yes"), ("yes", "no")):
        names = np.where(labels == 0, "no", "yes")
        run = tacit.distill((samples, names), planes(200, 2)[0], 4, delta="1e-5", classes=classes, seed=2)
        right = run.student.predict(test) == np.where(true == 0, "no", "yes")
        assert right.mean() > 0.9
        assert run.student.predict_proba(test)[:, 1] @ (true > 0) > run.student.predict_proba(test)[:, 0] @ (true > 0)
