"""Votes alone: of one-record holders, and where there are too few images to divide the budget."""

from fractions import Fraction

import numpy as np
import pytest

import tacit
from tacit.core.guarantee import Trust
from tacit.methods.auto.method import prepare
from tacit.methods.auto.options import Auto
from tacit.methods.task import Nodes
from tacit.wire import ask_to_bytes, read_ask
from tests.methods.auto.given import CLASSES, clouds, task

pytestmark = pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")


def pictures(size, seed):
    """Images of 16 by 16 with a bar at one of three places, a class each, and noise."""
    drawn = np.random.default_rng(seed)
    labels = drawn.integers(0, 3, size)
    images = drawn.uniform(0, 60, size=(size, 16, 16))
    for label, image in zip(labels, images, strict=True):
        image[:, 2 + 5 * label : 4 + 5 * label] += 180
    return np.round(images), labels


def distilled(trust, **more):
    samples, labels = pictures(600, 1)
    return tacit.distill((samples, np.array(CLASSES)[labels]), pictures(160, 2)[0], 4, classes=CLASSES, trust=trust,
                         **more)  # fmt: skip


@pytest.mark.parametrize(("trust", "delta"), [("local", 0), ("shuffle", "1e-5")])
@pytest.mark.parametrize("torch", [True, False])
def test_one_record_holders_vote_on_shapes_and_its_students_learn_every_public_image(trust, delta, torch, monkeypatch):
    if torch:
        pytest.importorskip("torch", reason="needs tacit[torch]")
        pytest.importorskip("safetensors", reason="needs tacit[torch]")
    else:
        monkeypatch.setattr("tacit.methods.auto.plan.installed", lambda *_: False)
    run = distilled(trust, delta=delta, seed=1)
    assert run.recipe["representation"] == "gradients"
    plan = dict(line.split(": ", 1) for line in run.recipe["plan"])
    assert "no curator has all records" in plan["release"]
    assert ("networks" if torch else "perceptron") in plan["student"]
    test, labels = pictures(200, 3)
    assert ("AveragedStudent" in run.recipe["student"]) == torch
    if not torch:
        assert (run.student.predict(test) == np.array(CLASSES)[labels]).mean() > 0.9


def test_the_tip_of_a_shuffler_is_for_those_who_have_none():
    for trust, delta, said in ((Trust.LOCAL, 0, True), (Trust.SHUFFLE, "1e-5", False)):
        whole = task(pictures(600, 1), pictures(160, 2)[0], kind="images", trust=trust, delta=Fraction(delta))
        lines = prepare(whole, Auto()).plan.lines
        assert any("shuffler" in words for title, words in lines if title == "tip") is said
        assert [title for title, _ in lines][-2:] == ["mechanism", "questions"]


def test_the_question_can_be_sent_to_nodes():
    nodes = Nodes(None, 3, 200)
    job = prepare(task(pictures(600, 1), pictures(160, 2)[0], kind="images", delta=Fraction(0), nodes=nodes), Auto())
    ask = job.coordinator.ask(job.coordinator.begin())
    sent = read_ask(ask_to_bytes(ask))
    images = pictures(20, 3)[0]
    assert (sent.representation.encode(images) == ask.representation.encode(images)).all()
    assert job.recipe["representation"] == "gradients"


def test_a_student_that_was_asked_for_is_what_is_trained():
    run = distilled("local", delta=0, student="logistic")
    assert run.recipe["student"].endswith("LogisticRegression")


def test_small_images_and_tables_are_left_to_the_plan_of_votes():
    for kind, public in (("images", clouds(150, 2)[0]), ("table", clouds(150, 2)[0])):
        whole = task(clouds(600, 1), public, kind=kind, trust=Trust.LOCAL, delta=Fraction(0))
        assert prepare(whole, Auto()).recipe["representation"] != "gradients"


def test_where_labels_alone_are_released_they_are_nearly_certain():
    """A curator with few images and δ = 0 releases the label of each query and no counts."""
    samples, labels = pictures(60, 1)
    run = tacit.distill((samples, np.array(CLASSES)[labels]), pictures(40, 2)[0], "1/2", classes=CLASSES, seed=1)
    assert "votes" in run.recipe["votes because"]
    assert run.student.predict_proba(pictures(5, 3)[0]).shape == (5, 3)
