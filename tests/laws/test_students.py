"""One suite for every network: what students owe to whoever votes in their space, trains, stops and saves them."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tacit.core.errors import InvalidInput  # noqa: E402
from tacit.datasets.published import digits  # noqa: E402
from tacit.representations.student_features import StudentFeatures  # noqa: E402
from tacit.students import torch_classifier  # noqa: E402
from tacit.students.registry import load_student, save_student  # noqa: E402
from tacit.students.torch_classifier import TorchClassifier  # noqa: E402
from tacit.students.torch_networks import ARCHITECTURES  # noqa: E402

PARTS = digits()
SMALL = PARTS.public_samples[:48].reshape(-1, 8, 8)
# The published network needs 21 pixels a side.
LARGE = np.kron(SMALL, np.ones((3, 3)))[:, :21, :21]
LABELS = PARTS.public_labels[:48] % 3
# Deep networks take seconds per batch on a slow machine: for them only what can differ between networks is tested.
LIGHT = ["linear", "perceptron", "small-convolutions"]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """One thread, and batches small enough for deep networks; a batch still has more rows than some tests give."""
    monkeypatch.setattr(torch_classifier, "INFERENCE_BATCH", 8)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def samples(name):
    return LARGE if name == "five-convolutions" else SMALL


def student(name, **options):
    return TorchClassifier(name, **{"epochs": 3, "batch": 8} | options)


@pytest.fixture(scope="module")
def trained():
    torch.set_num_threads(1)
    return {name: student(name, epochs=1).fit(samples(name)[:16], LABELS[:16]) for name in ARCHITECTURES}


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_what_a_network_sees_of_a_sample_does_not_depend_on_others(trained, name):
    X = samples(name)[:10]  # a whole batch and a part of one
    see = StudentFeatures(trained[name]).encode
    whole = see(X)
    assert whole.dtype == np.float32
    assert np.isfinite(whole).all()
    assert np.array_equal(whole[[0, 3, 9]], np.concatenate([see(X[[row]]) for row in (0, 3, 9)]))
    assert np.array_equal(whole[::-1], see(X[::-1]))
    assert np.array_equal(whole[3:8], see(X[3:8]))
    assert see(X[:0]).shape == (0, whole.shape[1])
    probabilities = trained[name].predict_proba(X)
    assert np.array_equal(probabilities[:2], trained[name].predict_proba(X[:2]))
    assert np.allclose(probabilities.sum(axis=1), 1)


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_a_saved_network_is_the_same_when_it_is_read(trained, name, tmp_path):
    file = tmp_path / save_student(trained[name], tmp_path)
    assert file.name == "student.safetensors"
    loaded = load_student(file)
    X = samples(name)[:5]
    assert loaded.digest == trained[name].digest
    assert loaded.get_params() == trained[name].get_params()
    assert np.array_equal(loaded.predict_proba(X), trained[name].predict_proba(X))
    assert np.array_equal(loaded.classes_, trained[name].classes_)


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_bad_samples_are_refused(trained, name):
    X = samples(name)[:4].copy()
    with pytest.raises(InvalidInput, match="not images of shape"):
        trained[name].predict(X[:, :-1])
    X[2, 0, 0] = np.nan
    with pytest.raises(InvalidInput, match="sample 2 has a value that is not a finite number"):
        trained[name].predict(X)
    with pytest.raises(InvalidInput, match="sample 2"):
        student(name).fit(X, LABELS[:4])


@pytest.mark.parametrize("name", LIGHT)
def test_the_same_seed_gives_the_same_network_and_another_one_another(name):
    torch.manual_seed(5)
    first = student(name).fit(SMALL, LABELS)
    torch.manual_seed(6)  # the world's own generator neither matters nor moves
    before = torch.get_rng_state()
    again = student(name).fit(SMALL.copy(), LABELS.copy())
    assert torch.equal(before, torch.get_rng_state())
    assert first.digest == again.digest
    assert first.digest != student(name, seed=1).fit(SMALL, LABELS).digest
    assert first.digest != student(name).fit(SMALL, (LABELS + 1) % 3).digest
    assert first.digest != student(name).fit(SMALL, LABELS.astype(str)).digest


@pytest.mark.parametrize("name", LIGHT)
def test_samples_of_weight_zero_are_ignored(name):
    weights = np.where(np.arange(48) < 32, 1.0, 0.0)
    expected = student(name).fit(SMALL[:32], LABELS[:32])
    assert student(name).fit(SMALL, LABELS, weights).digest == expected.digest
    wild = np.concatenate([SMALL[:32], SMALL[32:] * 100])
    assert student(name).fit(wild, LABELS[::-1][(np.arange(48) + 16) % 48], weights).digest != expected.digest
    assert student(name).fit(wild, np.where(weights > 0, LABELS, 0), weights).digest == expected.digest


@pytest.mark.parametrize("name", LIGHT)
def test_weights_say_which_of_two_labels_counts(name):
    twice, both = np.concatenate([SMALL, SMALL]), np.concatenate([LABELS, (LABELS + 1) % 3])
    sure = np.repeat([1.0, 0.01], 48)
    fitted = student(name, epochs=15, batch=16, learning_rate=0.01).fit(twice, both, sure)
    assert (fitted.predict(SMALL) == LABELS).mean() > 0.8
    fitted = student(name, epochs=15, batch=16, learning_rate=0.01).fit(twice, both, sure[::-1])
    assert (fitted.predict(SMALL) == (LABELS + 1) % 3).mean() > 0.8


class Stop(Exception):
    pass


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("perceptron", {}),
        ("small-convolutions", {"augmentation": "handwriting", "consistency": 1.0, "confidence": 0.4}),
        ("small-convolutions", {"patience": 3, "held_back": 0.25, "label_smoothing": 0.1}),
    ],
)
def test_interrupted_training_ends_in_the_same_network_to_the_last_bit(name, options, tmp_path, monkeypatch):
    from tacit.students import torch_training

    options = {"epochs": 5} | options
    weights = np.where(np.arange(48) < 36, 1.0, 0.0)
    expected = student(name, **options).fit(SMALL, LABELS, weights)
    written = torch_training.write_tensors
    for stop_after in (1, 2):
        epochs = []

        def stopping(*arguments, epochs=epochs, stop_after=stop_after):
            written(*arguments)
            epochs.append(arguments)
            if len(epochs) == stop_after:
                raise Stop

        monkeypatch.setattr(torch_training, "write_tensors", stopping)
        with pytest.raises(Stop):
            student(name, checkpoint=tmp_path, **options).fit(SMALL, LABELS, weights)
    monkeypatch.setattr(torch_training, "write_tensors", written)
    resumed = student(name, checkpoint=tmp_path, **options).fit(SMALL, LABELS, weights)
    assert resumed.digest == expected.digest
    # And a finished training is not done again.
    monkeypatch.setattr(torch_training._Trainee, "learn", None)
    assert student(name, checkpoint=tmp_path, **options).fit(SMALL, LABELS, weights).digest == expected.digest


def test_another_training_does_not_take_up_a_state(tmp_path):
    student("linear", checkpoint=tmp_path).fit(SMALL, LABELS)
    for options, X, y in (({"seed": 1}, SMALL, LABELS), ({}, SMALL + 1, LABELS), ({}, SMALL, LABELS[::-1])):
        expected = student("linear", **options).fit(X, y).digest
        assert student("linear", checkpoint=tmp_path, **options).fit(X, y).digest == expected
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("damage", ["cut", "other"])
def test_a_damaged_state_is_named_and_refused(damage, tmp_path):
    student("linear", checkpoint=tmp_path).fit(SMALL, LABELS)
    (file,) = tmp_path.iterdir()
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-10])
    else:
        other = tmp_path / "elsewhere"
        student("linear", checkpoint=other, seed=1).fit(SMALL, LABELS)
        file.write_bytes(next(other.iterdir()).read_bytes())
    with pytest.raises(InvalidInput, match=file.name):
        student("linear", checkpoint=tmp_path).fit(SMALL, LABELS)
