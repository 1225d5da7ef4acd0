"""Local and global models: networks trained together as they would be alone, and scikit-learn's."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Perceptron

from tacit.core.errors import InvalidInput
from tacit.datasets.digits import digits
from tacit.methods.privatekt.knowledge import Lesson
from tacit.methods.privatekt.models import Learning, models
from tacit.methods.privatekt.sklearn_models import ClassifierLearner, ClassifierLocal
from tacit.students.weighted import logistic

torch = pytest.importorskip("torch")

from tacit.methods.privatekt.torch_models import (  # noqa: E402
    NetworkLearner,
    NetworkLocal,
    Training,
    architecture_for,
)

PARTS = digits()
IMAGES = PARTS.private_samples.reshape(-1, 8, 8)
LABELS = PARTS.private_labels.astype(np.int64)
NAMES = np.arange(10)


@pytest.fixture(params=["strided-convolutions", "perceptron"])
def network(request):
    architecture = architecture_for(IMAGES, request.param)
    learner = NetworkLearner(architecture, IMAGES[:200], NAMES, Training(10, 32, 0.05))
    return learner, NetworkLocal(architecture, 10, Training(steps=40, batch=16, learning_rate=0.05))


def test_networks_trained_together_are_those_trained_alone(network):
    learner, local = network
    shares = np.array_split(np.arange(300), 3)
    prepared = [local.prepare(IMAGES[rows], LABELS[rows]) for rows in shares]
    together = local.labels(prepared, learner.begin(), IMAGES[300:340], seed=7)
    # Alone, with the batches that the second of them had.
    generator = torch.Generator().manual_seed(7)
    draws = [[torch.randint(100, (16,), generator=generator) for _ in range(3)][1] for _ in range(40)]
    model = learner.finished(learner.begin()).network_
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, 0.9, weight_decay=1e-4)
    for rows in draws:
        loss = torch.nn.functional.cross_entropy(model(prepared[1][0][rows]), prepared[1][1][rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        alone = model(local.architecture.tensor(IMAGES[300:340])).argmax(dim=1).numpy()
    assert np.mean(alone == together[1]) > 0.95
    assert np.mean(together[1] == LABELS[300:340]) > 0.6
    # One holder's records do not move another's answers.
    changed = [prepared[0], prepared[1], local.prepare(IMAGES[:100], (LABELS[:100] + 1) % 10)]
    again = local.labels(changed, learner.begin(), IMAGES[300:340], seed=7)
    assert np.array_equal(again[0], together[0])
    assert np.array_equal(again[1], together[1])
    assert not np.array_equal(again[2], together[2])


def test_more_holders_than_are_trained_in_one_go(network):
    learner, local = network
    prepared = [local.prepare(IMAGES[rows], LABELS[rows]) for rows in np.array_split(np.arange(200), 21)]
    assert len(local.labels(prepared, learner.begin(), IMAGES[:2], seed=0)) == 21


def test_a_lesson_is_learned_and_repeats_exactly(network):
    learner, _ = network
    lesson = Lesson(IMAGES[:300], np.eye(10)[LABELS[:300]], np.ones(300))
    model = learner.begin()
    for turn in range(12):
        model = learner.learn(model, lesson, turn)
    assert np.mean(learner.probabilities(model, IMAGES[300:500]).argmax(axis=1) == LABELS[300:500]) > 0.7
    assert learner.learn(model, lesson, 3) == learner.learn(model, lesson, 3)
    assert learner.learn(model, Lesson(lesson.samples, lesson.targets, np.zeros(300)), 3) == model
    student = learner.finished(model)
    assert np.array_equal(student.predict(IMAGES[:50]), learner.probabilities(model, IMAGES[:50]).argmax(axis=1))


def test_averaging_is_the_mean_of_the_local_networks(network):
    learner, local = network
    prepared = [local.prepare(IMAGES[rows], LABELS[rows]) for rows in np.array_split(np.arange(400), 4)]
    model = learner.begin()
    for turn in range(4):
        model = local.averaged(prepared, model, turn)
    assert np.mean(learner.probabilities(model, IMAGES[400:600]).argmax(axis=1) == LABELS[400:600]) > 0.8


@pytest.mark.parametrize("weights", [None, b"", b"not weights", "other"])
def test_weights_that_do_not_fit_are_refused(network, weights):
    _, local = network
    prepared = [local.prepare(IMAGES[:10], LABELS[:10])]
    if weights == "other":
        weights = NetworkLearner(architecture_for(IMAGES, "linear"), IMAGES[:9], NAMES, Training(1, 1, 0.1)).begin()
    with pytest.raises(InvalidInput, match="weights"):
        local.labels(prepared, weights, IMAGES[:2], seed=0)


def test_networks_that_cannot_train_together_are_refused():
    with pytest.raises(InvalidInput, match="normalises over batches"):
        NetworkLearner(architecture_for(IMAGES, "small-convolutions"), IMAGES[:9], NAMES, Training(1, 1, 0.1))
    with pytest.raises(InvalidInput, match="learning_rate is out of range"):
        Training(1, 1, 0.0)


def test_any_classifier_may_be_local():
    learner, local = models("auto", Perceptron(), PARTS.private_samples, NAMES, Learning())
    assert not learner.travels
    model = local.prepare(PARTS.private_samples[:300], LABELS[:300])
    right = local.labels([model], None, PARTS.private_samples[300:400], 0)[0] == LABELS[300:400]
    assert right.mean() > 0.7
    # A holder that knows one class only says that class.
    lonely = local.prepare(PARTS.private_samples[:3], np.array([4, 4, 4]))
    assert local.labels([lonely], None, PARTS.private_samples[:2], 0)[0].tolist() == [4, 4]


@pytest.mark.parametrize("soft", [False, True])
def test_any_classifier_with_probabilities_may_be_global(soft):
    names = np.array([f"digit {name}" for name in NAMES])
    learner = ClassifierLearner(logistic(), names)
    assert learner.probabilities(learner.begin(), PARTS.private_samples[:2]) == pytest.approx(0.1)
    targets = np.eye(10)[LABELS[:200]] * (0.9 if soft else 1.0) + (0.01 if soft else 0.0)
    rows = LABELS[:200] != 3
    model = learner.learn(b"", Lesson(PARTS.private_samples[:200], targets, rows.astype(float)), 0)
    chances = learner.probabilities(model, PARTS.private_samples[200:300])
    assert chances.shape == (100, 10)
    assert np.mean(chances.argmax(axis=1) == LABELS[200:300]) > 0.7
    assert set(learner.finished(model).predict(PARTS.private_samples[:20])) <= set(names)
    assert learner.learn(model, Lesson(PARTS.private_samples[:2], np.eye(10)[:2], np.zeros(2)), 0) == model
    with pytest.raises(InvalidInput, match="nobody answered"):
        learner.finished(b"")


@pytest.mark.parametrize(
    ("model", "local", "named"),
    [
        (Perceptron(), None, "no predict_proba"),
        (LogisticRegression(), "perceptron", "start from a global network"),
        ("perceptron", "linear", "local must be 'perceptron' too"),
        ("auto", 3, "no classifier"),
        ("oracle", None, "unknown network"),
    ],
)
def test_models_that_do_not_fit_are_named(model, local, named):
    with pytest.raises(InvalidInput, match=named):
        models(model, local, PARTS.private_samples, NAMES, Learning())


def test_local_classifiers_need_to_classify():
    with pytest.raises(InvalidInput, match="is no classifier"):
        ClassifierLocal(object(), 3)
