"""Local and global models: networks trained together as they would be alone, and scikit-learn's."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Perceptron

from tacit.core.errors import InvalidInput
from tacit.datasets.published import digits
from tacit.methods.privatekt.coordinator import Lesson
from tacit.methods.privatekt.holder import ClassifierLocal, ClassifierTrainer, Learning, models
from tacit.students.weighted import logistic

torch = pytest.importorskip("torch")

from tacit.methods.privatekt.torch_local import NetworkLocal  # noqa: E402
from tacit.methods.privatekt.torch_models import (  # noqa: E402  # noqa: E402
    NetworkTrainer,
    Pretext,
    Training,
    architecture_for,
    moved,
    read_weights,
    shapes_of,
)

PARTS = digits()
IMAGES = PARTS.private_samples.reshape(-1, 8, 8)
LABELS = PARTS.private_labels.astype(np.int64)
NAMES = np.arange(10)


@pytest.fixture(params=["strided-convolutions", "perceptron"])
def network(request):
    architecture = architecture_for(IMAGES, request.param)
    trainer = NetworkTrainer(architecture, IMAGES[:200], NAMES, Training(10, 32, 0.05))
    return trainer, NetworkLocal(architecture, 10, Training(steps=40, batch=16, learning_rate=0.05))


def alone(trainer, prepared, rows, trained):
    """A holder's network trained by itself, the plain way."""
    model = trainer.finished(trainer.begin()).network_
    model.train()
    layers = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear | torch.nn.Conv2d)]
    changed = [each for each in layers if trained == "all" or isinstance(each, torch.nn.Linear)]
    weights = [weight for layer in changed for weight in layer.parameters()]
    optimizer = torch.optim.SGD(weights, 0.05, 0.9, weight_decay=1e-4)
    for each in rows:
        logits = model(prepared.samples[each]) + prepared.usual
        loss = torch.nn.functional.cross_entropy(logits, prepared.labels[each])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("trained", ["dense", "all"])
@pytest.mark.parametrize("name", ["strided-convolutions", "perceptron", "linear"])
def test_networks_trained_together_are_those_trained_alone(name, trained):
    architecture = architecture_for(IMAGES, name)
    trainer = NetworkTrainer(architecture, IMAGES[:200], NAMES, Training(10, 32, 0.05))
    local = NetworkLocal(architecture, 10, Training(steps=40, batch=16, learning_rate=0.05), trained)
    shares = [np.arange(90), np.arange(90, 210), np.arange(210, 300)]
    prepared = [local.prepare(IMAGES[rows], LABELS[rows]) for rows in shares]
    draws = [torch.randint(len(rows), (40, 16), generator=torch.Generator().manual_seed(3)) for rows in shares]
    models = [alone(trainer, each, rows, trained) for each, rows in zip(prepared, draws, strict=True)]
    # What the stacked networks come to, weight by weight.
    together = read_weights(local.averaged(prepared, trainer.begin(), 3), shapes_of(models[0]))
    for weight, tensor in together.items():
        mean = torch.stack([model.state_dict()[weight] for model in models]).mean(dim=0)
        assert torch.allclose(tensor, mean, atol=2e-5), weight
    said = local.labels(prepared, trainer.begin(), IMAGES[300:340], seed=3)
    with torch.no_grad():
        for model, labels in zip(models, said, strict=True):
            assert np.array_equal(model(architecture.tensor(IMAGES[300:340])).argmax(dim=1).numpy(), labels)
    longer = NetworkLocal(architecture, 10, Training(steps=200, batch=16, learning_rate=0.05), trained)
    for labels in longer.labels(prepared, trainer.begin(), IMAGES[300:700], seed=3):
        assert np.mean(labels == LABELS[300:700]) > 0.6


def test_one_holders_records_do_not_move_anothers_answers(network):
    trainer, local = network
    prepared = [local.prepare(IMAGES[rows], LABELS[rows]) for rows in np.array_split(np.arange(300), 3)]
    together = local.labels(prepared, trainer.begin(), IMAGES[300:340], seed=7)
    # Neither what another has, nor how much, nor whether it stands before or behind, decides anything.
    for place, size in ((2, 100), (0, 30), (1, 1)):
        changed = [*prepared]
        changed[place] = local.prepare(IMAGES[:size], (LABELS[:size] + 1) % 10)
        again = local.labels(changed, trainer.begin(), IMAGES[300:340], seed=7)
        for other in {0, 1, 2} - {place}:
            assert np.array_equal(again[other], together[other])
        assert not np.array_equal(again[place], together[place])


def test_a_skewed_holder_learns_to_tell_classes_apart_not_which_is_common():
    architecture = architecture_for(IMAGES, "linear")
    trainer = NetworkTrainer(architecture, IMAGES[:200], NAMES, Training(1, 1, 0.05))
    zeros, ones = np.flatnonzero(LABELS == 0), np.flatnonzero(LABELS == 1)
    rows = np.concatenate([zeros[:60], ones[:3]])
    local = NetworkLocal(architecture, 10, Training(60, 32, 0.05))
    said = local.labels([local.prepare(IMAGES[rows], LABELS[rows])], trainer.begin(), IMAGES[ones[3:43]], 0)[0]
    assert np.mean(said == 0) < 0.3
    assert np.mean(said == 1) > 0.5


def test_a_holder_with_one_class_answers(network):
    trainer, local = network
    rows = np.flatnonzero(LABELS == 4)[:20]
    said = local.labels([local.prepare(IMAGES[rows], LABELS[rows])], trainer.begin(), IMAGES[:5], 0)[0]
    assert said.shape == (5,)


def test_a_start_from_groups_of_public_samples_helps():
    architecture = architecture_for(IMAGES, "strided-convolutions")
    told = Pretext(groups=30, steps=300, moved=0.05)
    plain = NetworkTrainer(architecture, IMAGES[:500], NAMES, Training(1, 1, 0.05))
    begun = NetworkTrainer(architecture, IMAGES[:500], NAMES, Training(1, 1, 0.05), pretext=told)
    local = NetworkLocal(architecture, 10, Training(10, 32, 0.05))
    prepared = [local.prepare(IMAGES[500:700], LABELS[500:700])]
    right = [
        np.mean(local.labels(prepared, each.begin(), IMAGES[700:], 0)[0] == LABELS[700:]) for each in (plain, begun)
    ]
    assert right[1] > right[0] + 0.1
    assert (
        begun.begin() == NetworkTrainer(architecture, IMAGES[:500], NAMES, Training(1, 1, 0.05), pretext=told).begin()
    )
    # Too few samples to make groups of: a start like any other.
    few = NetworkTrainer(architecture, IMAGES[:9], NAMES, Training(1, 1, 0.05), pretext=told)
    assert few.begin() == NetworkTrainer(architecture, IMAGES[:9], NAMES, Training(1, 1, 0.05)).begin()
    with pytest.raises(InvalidInput, match="groups must be at least 2"):
        Pretext(groups=1)


def test_images_are_moved_a_little():
    generator = torch.Generator().manual_seed(0)
    image = torch.zeros(50, 1, 8, 8)
    image[:, :, 3:5, 3:5] = 1
    seen = moved(image, 0.1, generator)
    assert seen.shape == image.shape
    assert not torch.equal(seen[0], seen[1])
    assert float((seen - image).abs().mean()) < 0.1
    assert torch.equal(moved(image, 0.0, generator), image)
    assert torch.equal(moved(image.flatten(1), 0.1, generator), image.flatten(1))


def test_only_named_layers_are_trained_locally():
    with pytest.raises(InvalidInput, match="must be one of dense, all"):
        NetworkLocal(architecture_for(IMAGES, "linear"), 10, Training(1, 1, 0.1), "some")
    with pytest.raises(InvalidInput, match="cannot be trained together"):
        NetworkLocal(architecture_for(IMAGES, "small-convolutions"), 10, Training(1, 1, 0.1))


def test_more_holders_than_are_trained_in_one_go(network):
    trainer, local = network
    prepared = [local.prepare(IMAGES[rows], LABELS[rows]) for rows in np.array_split(np.arange(200), 21)]
    assert len(local.labels(prepared, trainer.begin(), IMAGES[:2], seed=0)) == 21


def test_a_lesson_is_learned_and_repeats_exactly(network):
    trainer, _ = network
    lesson = Lesson(IMAGES[:300], np.eye(10)[LABELS[:300]], np.ones(300))
    model = trainer.begin()
    for turn in range(12):
        model = trainer.learn(model, lesson, turn)
    assert np.mean(trainer.probabilities(model, IMAGES[300:500]).argmax(axis=1) == LABELS[300:500]) > 0.7
    assert trainer.learn(model, lesson, 3) == trainer.learn(model, lesson, 3)
    assert trainer.learn(model, Lesson(lesson.samples, lesson.targets, np.zeros(300)), 3) == model
    student = trainer.finished(model)
    assert np.array_equal(student.predict(IMAGES[:50]), trainer.probabilities(model, IMAGES[:50]).argmax(axis=1))


def test_averaging_is_the_mean_of_the_local_networks(network):
    trainer, local = network
    prepared = [local.prepare(IMAGES[rows], LABELS[rows]) for rows in np.array_split(np.arange(400), 4)]
    model = trainer.begin()
    for turn in range(6):
        model = local.averaged(prepared, model, turn)
    assert np.mean(trainer.probabilities(model, IMAGES[400:600]).argmax(axis=1) == LABELS[400:600]) > 0.8


@pytest.mark.parametrize("weights", [None, b"", b"not weights", "other"])
def test_weights_that_do_not_fit_are_refused(network, weights):
    _, local = network
    prepared = [local.prepare(IMAGES[:10], LABELS[:10])]
    if weights == "other":
        weights = NetworkTrainer(architecture_for(IMAGES, "linear"), IMAGES[:9], NAMES, Training(1, 1, 0.1)).begin()
    with pytest.raises(InvalidInput, match="weights"):
        local.labels(prepared, weights, IMAGES[:2], seed=0)


def test_networks_that_cannot_train_together_are_refused():
    with pytest.raises(InvalidInput, match="has batch normalization"):
        NetworkTrainer(architecture_for(IMAGES, "small-convolutions"), IMAGES[:9], NAMES, Training(1, 1, 0.1))
    with pytest.raises(InvalidInput, match="learning_rate is out of range"):
        Training(1, 1, 0.0)


def test_any_classifier_may_be_local():
    trainer, local = models("auto", Perceptron(), PARTS.private_samples, NAMES, Learning())
    assert not trainer.travels
    model = local.prepare(PARTS.private_samples[:300], LABELS[:300])
    right = local.labels([model], None, PARTS.private_samples[300:400], 0)[0] == LABELS[300:400]
    assert right.mean() > 0.7
    # A holder that knows one class only says that class.
    lonely = local.prepare(PARTS.private_samples[:3], np.array([4, 4, 4]))
    assert local.labels([lonely], None, PARTS.private_samples[:2], 0)[0].tolist() == [4, 4]


@pytest.mark.parametrize("soft", [False, True])
def test_any_classifier_with_probabilities_may_be_global(soft):
    names = np.array([f"digit {name}" for name in NAMES])
    trainer = ClassifierTrainer(logistic(), names)
    assert trainer.probabilities(trainer.begin(), PARTS.private_samples[:2]) == pytest.approx(0.1)
    targets = np.eye(10)[LABELS[:200]] * (0.9 if soft else 1.0) + (0.01 if soft else 0.0)
    rows = LABELS[:200] != 3
    model = trainer.learn(b"", Lesson(PARTS.private_samples[:200], targets, rows.astype(float)), 0)
    chances = trainer.probabilities(model, PARTS.private_samples[200:300])
    assert chances.shape == (100, 10)
    assert np.mean(chances.argmax(axis=1) == LABELS[200:300]) > 0.7
    assert set(trainer.finished(model).predict(PARTS.private_samples[:20])) <= set(names)
    assert trainer.learn(model, Lesson(PARTS.private_samples[:2], np.eye(10)[:2], np.zeros(2)), 0) == model


@pytest.mark.parametrize(
    ("model", "local", "named"),
    [
        (Perceptron(), None, "no predict_proba"),
        (LogisticRegression(), "perceptron", "start from a global network"),
        ("perceptron", "linear", "local must be 'perceptron' too"),
        ("auto", 3, "not a classifier"),
        ("oracle", None, "unknown network"),
    ],
)
def test_models_that_do_not_fit_are_named(model, local, named):
    with pytest.raises(InvalidInput, match=named):
        models(model, local, PARTS.private_samples, NAMES, Learning())


def test_classifiers_are_adjusted_for_the_frequencies_of_classes_only_if_asked():
    rows = np.random.default_rng(5).normal(size=(400, 1))
    labels = np.int64(np.random.default_rng(6).random(400) < 0.1 + 0.1 * (rows[:, 0] > 0))
    plain, adjusted = (
        models(LogisticRegression(), None, rows, np.array(["common", "rare"]), Learning(adjusted=each))[1]
        for each in (False, True)
    )
    rare = [each.labels([each.prepare(rows, labels)], None, rows, 0)[0].mean() for each in (plain, adjusted)]
    assert rare[0] == 0
    assert 0.3 < rare[1] < 0.7


def test_local_classifiers_need_to_classify():
    with pytest.raises(InvalidInput, match="is not a classifier"):
        ClassifierLocal(object(), 3)
