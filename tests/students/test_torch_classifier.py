import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402

from tacit.core.errors import InvalidInput  # noqa: E402
from tacit.datasets.published import digits  # noqa: E402
from tacit.students import torch_classifier  # noqa: E402
from tacit.students.torch_classifier import TorchClassifier  # noqa: E402
from tacit.students.torch_networks import (  # noqa: E402  # noqa: E402
    ARCHITECTURES,
    IMAGE_ARCHITECTURES,
    build_network,
    kind_of,
    read_tensors,
    write_tensors,
)
from tacit.students.weighted import fit_soft  # noqa: E402

PARTS = digits()
X, Y = PARTS.public_samples[:200], PARTS.public_labels[:200]


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(("network", "augmentation"), [("perceptron", "none"), ("small-convolutions", "handwriting")])
def test_digits_are_learned(network, augmentation):
    student = TorchClassifier(network, epochs=20, batch=32, augmentation=augmentation).fit(X, Y)
    assert student.score(PARTS.test_samples, PARTS.test_labels) > 0.85


def test_soft_labels_are_learned_as_probabilities():
    samples = np.repeat([[0.0], [1.0]], 40, axis=0)
    soft = np.where(samples == 0, [[0.7, 0.3]], [[0.1, 0.9]])
    student = TorchClassifier("linear", epochs=150, batch=40, learning_rate=0.05)
    student.fit_probabilities(samples, np.array(["a", "b"]), soft)
    assert np.allclose(student.predict_proba(np.array([[0.0], [1.0]])), [[0.7, 0.3], [0.1, 0.9]], atol=0.03)
    assert student.predict(np.array([[0.0]])).tolist() == ["a"]


def test_soft_labels_are_taught_once_a_sample_and_not_once_a_class(monkeypatch):
    seen = []
    monkeypatch.setattr(torch_classifier, "train", lambda network, lesson, *_: seen.append(lesson) or network)
    soft = np.tile([[0.7, 0.3], [0.2, 0.8]], (3, 1))
    fit_soft(TorchClassifier(), np.arange(6.0)[:, None], np.array(["a", "b"]), soft)
    assert seen[0].targets.numpy() == pytest.approx(soft)


def test_label_smoothing_makes_a_student_less_sure():
    samples, labels = np.repeat([[0.0], [1.0]], 20, axis=0), np.repeat([0, 1], 20)
    options = {"network": "linear", "epochs": 200, "learning_rate": 0.1, "weight_decay": 0.0}
    sure = TorchClassifier(**options).fit(samples, labels).predict_proba(samples).max()
    smooth = TorchClassifier(**options, label_smoothing=0.4).fit(samples, labels).predict_proba(samples).max()
    assert sure > 0.97
    assert abs(smooth - 0.8) < 0.03


def test_an_image_is_predicted_at_five_places_and_so_it_is_after_loading(tmp_path):
    options = {"network": "small-convolutions", "epochs": 2, "shape": (8, 8, 1)}
    plain, moved = TorchClassifier(**options).fit(X, Y), TorchClassifier(**options, shifts=1).fit(X, Y)
    # Training, features and weights are the same.
    assert plain.digest == moved.digest
    assert plain.features(X).tolist() == moved.features(X).tolist()
    around = np.pad(X.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)), mode="edge")
    places = [(1, 1), (0, 1), (2, 1), (1, 0), (1, 2)]
    logits = [np.log(plain.predict_proba(around[:, a : a + 8, b : b + 8].reshape(len(X), -1))) for a, b in places]
    powers = np.exp(np.mean(logits, axis=0))
    assert moved.predict_proba(X) == pytest.approx(powers / powers.sum(axis=1, keepdims=True), abs=1e-4)
    moved.save_tensors(tmp_path / "moved")
    assert TorchClassifier.load_tensors(tmp_path / "moved").predict_proba(X).tolist() == moved.predict_proba(X).tolist()


def test_unlabeled_samples_help_only_through_consistency():
    """With consistency, samples of weight 0 are learned from by the student's own sure guesses."""
    weights = np.where(np.arange(200) < 60, 1.0, 0.0)
    options = {"network": "perceptron", "epochs": 3, "confidence": 0.3}
    plain = TorchClassifier(**options).fit(X, Y, weights)
    assert plain.digest == TorchClassifier(**options).fit(X[:60], Y[:60]).digest
    learned = TorchClassifier(**options, consistency=1.0).fit(X, Y, weights)
    # Their samples count, their labels do not.
    other = X.copy()
    other[60:] = X[60:][::-1] / 2
    wrong = np.where(weights > 0, Y, (Y + 1) % 10)
    assert TorchClassifier(**options, consistency=1.0).fit(X, wrong, weights).digest == learned.digest
    assert TorchClassifier(**options, consistency=1.0).fit(other, Y, weights).digest != learned.digest


def test_early_stopping_looks_only_at_labeled_samples_it_was_given_and_does_not_learn_from(monkeypatch):
    seen = {}

    def looking(network, lesson, schedule, held_back, state, name):
        seen.update(lesson=lesson, held_back=held_back)
        return network.eval()

    monkeypatch.setattr(torch_classifier, "train", looking)
    weights = np.where(np.arange(200) < 120, 0.5, 0.0)
    TorchClassifier("linear", patience=2, held_back=0.25).fit(X, Y, weights)
    held = {row.tobytes() for row in seen["held_back"].samples.numpy()}
    learned = {row.tobytes() for row in seen["lesson"].samples[seen["lesson"].weights > 0].numpy()}
    given = {row.astype(np.float32).tobytes() for row in X[:120]}
    assert len(seen["held_back"].samples) == 30
    assert held | learned == given
    assert not held & learned
    assert (seen["held_back"].weights == 0.5).all()
    TorchClassifier("linear").fit(X, Y, weights)
    assert seen["held_back"] is None


def test_early_stopping_stops_when_labels_are_noise(monkeypatch):
    from tacit.students import torch_training

    epochs = []
    learn = torch_training._Trainee.learn
    monkeypatch.setattr(torch_training._Trainee, "learn", lambda *given: (epochs.append(1), learn(*given)))
    noise = np.random.default_rng(0).integers(0, 10, size=200)
    TorchClassifier("perceptron", epochs=60, patience=2, held_back=0.3, batch=16).fit(X, noise)
    assert len(epochs) < 40


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": Y[:-1]}, "as many labels"),
        ({"sample_weight": np.ones(3)}, "as many labels and weights"),
        ({"sample_weight": np.full(200, np.nan)}, "finite"),
        ({"sample_weight": -np.ones(200)}, "no weight below 0"),
        ({"sample_weight": np.zeros(200)}, "at least two labeled samples"),
        ({"X": X[:0], "y": Y[:0]}, "at least two labeled samples"),
        ({"X": X.astype(object)}, "must be numbers"),
    ],
)
def test_bad_lessons_are_refused(change, message):
    with pytest.raises(InvalidInput, match=message):
        TorchClassifier("linear", epochs=1).fit(**{"X": X, "y": Y} | change)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("epochs", 0),
        ("batch", 1),
        ("learning_rate", 0.0),
        ("weight_decay", -1.0),
        ("label_smoothing", 1.0),
        ("average", 1.0),
        ("consistency", float("inf")),
        ("confidence", 0.0),
        ("patience", 0),
        ("augmentation", "sharpies"),
        ("network", "oracle"),
        ("shifts", -1),
        ("shifts", 1),  # of rows that are no images
        ("shifts", 0.5),
    ],
)
def test_bad_parameters_are_named(parameter, value):
    with pytest.raises(InvalidInput, match=parameter):
        TorchClassifier(**{parameter: value}).fit(X, Y)


def test_a_share_held_back_that_leaves_nothing_is_refused():
    for share in (0.0, 1.0):
        with pytest.raises(InvalidInput, match="held_back"):
            TorchClassifier("linear", patience=1, held_back=share).fit(X, Y)


class Own(nn.Module):
    """A module of the user's that shows its features."""

    def __init__(self, shape, classes):
        super().__init__()
        self.hidden, self.last = nn.Linear(shape[0], 6), nn.Linear(6, classes)

    def features(self, batch):
        return torch.relu(self.hidden(batch))

    def forward(self, batch):
        return self.last(self.features(batch))


def test_a_module_of_the_users_own_works_but_is_not_saved(tmp_path):
    student = TorchClassifier(Own, epochs=2).fit(X, Y)
    assert student.features(X).shape == (200, 6)
    assert np.array_equal(student.features(X[:3]), student.features(X)[:3])
    with pytest.raises(InvalidInput, match="known by name"):
        student.save_tensors(tmp_path / "student.safetensors")
    with pytest.raises(InvalidInput, match="known by name"):
        TorchClassifier(Own, epochs=2, checkpoint=tmp_path).fit(X, Y)
    silent = TorchClassifier(lambda shape, classes: nn.Linear(shape[0], classes), epochs=1).fit(X, Y)
    with pytest.raises(InvalidInput, match="method 'features'"):
        silent.features(X)


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_every_architecture_makes_logits_of_its_shape(name):
    shape = (3, 21, 21) if name in IMAGE_ARCHITECTURES else (12,)
    network = build_network(name, shape, 4).eval()
    with torch.no_grad():
        assert network(torch.zeros(2, *shape)).shape == (2, 4)
        assert network.features(torch.zeros(2, *shape)).flatten(1).shape[1] == network.head.in_features


def test_the_published_network_is_five_convolutions_from_32_to_160():
    convolutions = [
        each for each in build_network("five-convolutions", (1, 28, 28), 10).modules() if isinstance(each, nn.Conv2d)
    ]
    assert [each.out_channels for each in convolutions] == [32, 64, 96, 128, 160]
    assert {each.kernel_size for each in convolutions} == {(5, 5)}
    with pytest.raises(InvalidInput, match="21x21"):
        build_network("five-convolutions", (1, 8, 8), 10)


def test_known_networks_have_their_published_sizes():
    def size(name, shape, classes):
        return sum(each.numel() for each in build_network(name, shape, classes).parameters())

    # WRN-28-2 has 1.47 million parameters, DenseNet-121 with ten classes 6.96 million.
    assert 1.45e6 < size("wide-resnet-28-2", (3, 32, 32), 10) < 1.5e6
    assert 6.9e6 < size("densenet-121", (3, 32, 32), 10) < 7.0e6


def test_tensors_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    import os

    file = tmp_path / "kept.safetensors"
    write_tensors(file, "kind", {"a": torch.arange(4)}, {"n": 1})

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_tensors(file, "kind", {"a": torch.zeros(4)}, {"n": 2})
    assert list(tmp_path.iterdir()) == [file]
    tensors, words = read_tensors(file, "kind", "thing")
    assert words == {"n": 1}
    assert torch.equal(tensors["a"], torch.arange(4))


def test_equal_tensors_are_equal_files(tmp_path):
    # With two entries in its head the library wrote one of two orders: all equal once in 2 ** 19 times.
    files = [tmp_path / f"{each}.safetensors" for each in range(20)]
    for file in files:
        write_tensors(file, "kind", {"b": torch.ones(2), "a": torch.arange(4)}, {"n": 1, "m": "x"})
    assert len({file.read_bytes() for file in files}) == 1


def test_a_file_of_the_first_stage_is_still_read(tmp_path):
    from safetensors.torch import save_file

    file = tmp_path / "old.safetensors"
    save_file({"a": torch.arange(4)}, file, metadata={"format": "kind", "words": '{"n": 1}'})
    assert kind_of(file) == "kind"
    assert read_tensors(file, "kind", "thing")[1] == {"n": 1}


@pytest.mark.parametrize("entry", ["[]", "no JSON", "{}", '{"format": "kind"}'])
def test_a_head_that_is_no_head_is_told(tmp_path, entry):
    from safetensors.torch import save_file

    file = tmp_path / "odd.safetensors"
    save_file({"a": torch.arange(4)}, file, metadata={"tacit": entry})
    with pytest.raises(InvalidInput, match="not a thing"):
        read_tensors(file, "kind", "thing")


@pytest.mark.parametrize("damage", ["kind", "cut", "missing", "words"])
def test_tensors_that_are_not_ours_are_refused(damage, tmp_path):
    from safetensors.torch import save_file

    file = tmp_path / "kept.safetensors"
    write_tensors(file, "other" if damage == "kind" else "kind", {"a": torch.arange(4)}, {})
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-3])
    elif damage == "missing":
        file.unlink()
    elif damage == "words":
        save_file({"a": torch.arange(4)}, file, metadata={"format": "kind", "words": "{"})
    with pytest.raises(InvalidInput, match=r"kept\.safetensors: not a thing"):
        read_tensors(file, "kind", "thing")


def test_a_student_with_weights_of_another_shape_is_refused(tmp_path):
    file = tmp_path / "student.safetensors"
    TorchClassifier("linear", epochs=1).fit(X, Y).save_tensors(file)
    tensors, words = read_tensors(file, TorchClassifier.format, "student")
    write_tensors(file, TorchClassifier.format, tensors, words | {"classes": [1, 2]})
    with pytest.raises(InvalidInput, match="not a student that can be read"):
        TorchClassifier.load_tensors(file)
    write_tensors(file, TorchClassifier.format, tensors, words | {"parameters": {"oracle": 1}})
    with pytest.raises(InvalidInput, match="not a student that can be read"):
        TorchClassifier.load_tensors(file)
