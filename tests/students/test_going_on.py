"""Models that go on learning: networks that take more steps, classifiers that are fitted again."""

import copy

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness
from tacit.core.samples import Named
from tacit.methods.fedmd.models import party_models
from tacit.students.registry import load_student, save_student
from tacit.students.torch_continued import CONTINUED, ContinuedNetwork
from tacit.students.weighted import logistic
from tacit.students.wrapped import NamedStudent, Refitted
from tests.sampled import sampled


def images(count, seed=1):
    """Bright on the left is class 0, bright on the right class 1."""
    noise = (SeededRandomness(seed).words(count * 64) % 50).astype(np.float64).reshape(count, 8, 8)
    labels = np.arange(count) % 2
    noise[labels == 0, :, :4] += 100
    noise[labels == 1, :, 4:] += 100
    return noise, labels


@pytest.mark.parametrize("kind", sampled(CONTINUED, 2))
def test_every_network_learns_digests_and_is_the_same_again(kind):
    X, y = images(60)
    found = []
    for _ in range(2):
        model = ContinuedNetwork(kind, X, classes=2, seed=3)
        model.learn(X, y, epochs=8)
        assert (model.predict(X) == y).mean() > 0.95
        model.fit_consensus(X, np.eye(2, dtype=np.float32)[1 - y], logits=False, epochs=40)
        # It has moved to a consensus that says the opposite.
        assert (model.predict(X) == 1 - y).mean() > 0.95
        found.append(model.logits(X))
    assert (found[0] == found[1]).all()
    other = ContinuedNetwork(kind, X, classes=2, seed=4)
    assert (other.logits(X) != ContinuedNetwork(kind, X, classes=2, seed=3).logits(X)).any()


def test_the_networks_differ():
    X, _ = images(4)
    sizes = {
        kind: sum(each.numel() for each in ContinuedNetwork(kind, X, 2)._network.parameters()) for kind in CONTINUED
    }
    assert len(set(sizes.values())) == len(sizes) >= 5


def test_logits_are_digested_up_to_a_constant():
    X, y = images(60)
    model = ContinuedNetwork("perceptron", X, classes=2)
    wanted = np.where(np.eye(2)[y] == 1, 53.0, 50.0).astype(np.float32)
    model.fit_consensus(X, wanted, logits=True, epochs=40)
    found = model.logits(X)
    assert np.abs((found - found.mean(axis=1, keepdims=True)) - (wanted - 51.5)).mean() < 0.5


def test_pretraining_on_other_classes_keeps_the_head_and_moves_the_features():
    X, y = images(60)
    model = ContinuedNetwork("two-convolutions", X, classes=4)
    before = copy.deepcopy(model._network.state_dict())
    model.pretrain(X, y, classes=2, epochs=2)
    after = model._network.state_dict()
    assert all((before[name] == after[name]).all() for name in before if name.startswith("head"))
    assert any((before[name] != after[name]).any() for name in before if name.startswith("body"))
    assert model.logits(X).shape == (60, 4)
    same = ContinuedNetwork("two-convolutions", X, classes=2)
    same.pretrain(X, y, classes=2, epochs=20)
    assert (same.predict(X) == y).mean() > 0.95


def test_private_samples_do_not_scale_the_input():
    X, _ = images(20)
    one, other = (ContinuedNetwork("perceptron", X, 2, seed=1) for _ in range(2))
    other.learn(1000 * X, np.zeros(20, dtype=np.int64), epochs=1)
    assert (one._network.mean == other._network.mean).all()
    assert (one._network.spread == other._network.spread).all()


def test_networks_refuse_what_makes_no_sense():
    X, _ = images(4)
    with pytest.raises(InvalidInput, match="unknown network"):
        ContinuedNetwork("transformer", X, 2)
    with pytest.raises(InvalidInput, match="learning_rate"):
        ContinuedNetwork("perceptron", X, 2, learning_rate=0)


def test_a_classifier_is_fitted_on_its_own_samples_and_the_latest_consensus():
    X, y = images(40)
    model = Refitted(logistic(), classes=3)
    model.learn(X, y, epochs=1)
    assert (model.predict(X) == y).all()
    # The consensus brings a class that the party has never seen, soft labels too.
    strange = np.full((10, 8, 8), 300.0)
    model.fit_consensus(strange, np.tile([0.1, 0.1, 0.8], (10, 1)).astype(np.float32), logits=False, epochs=1)
    assert (model.predict(strange) == 2).all()
    assert (model.predict(X) == y).all()
    # The next consensus replaces it.
    model.fit_consensus(strange, np.tile([5.0, 0.0, -5.0], (10, 1)).astype(np.float32), logits=True, epochs=1)
    assert (model.predict(strange) == 0).all()
    assert model.logits(X).shape == (40, 3)


def test_pretraining_counts_until_the_first_consensus_and_only_for_the_same_classes():
    X, y = images(40)
    model = Refitted(logistic(), classes=2)
    model.pretrain(X, y, classes=2, epochs=1)
    model.learn(X[:2], y[:2], epochs=1)
    assert (model.predict(X) == y).all()
    model.fit_consensus(X, np.eye(2, dtype=np.float32)[1 - y], logits=False, epochs=1)
    assert (model.predict(X[4:]) == 1 - y[4:]).all()
    other = Refitted(logistic(), classes=3)
    other.pretrain(X, y, classes=2, epochs=1)
    other.learn(X[:1], y[:1], epochs=1)
    assert (other.predict(X) == y[0]).all()


def test_a_classifier_with_one_class_and_one_without_probabilities():
    X, y = images(10)
    single = Refitted(logistic(), classes=2)
    single.learn(X[:3], np.zeros(3, dtype=np.int64), epochs=1)
    assert single.predict(X).tolist() == [0] * 10
    assert single.logits(X).argmax(axis=1).tolist() == [0] * 10
    mute = Refitted(LinearSVC(), classes=2)
    mute.learn(X, y, epochs=1)
    assert not mute.gives_scores
    assert (mute.predict(X) == y).all()


@pytest.mark.parametrize("kind", ["three-convolutions", "perceptron"])
def test_a_network_is_saved_and_read_without_running_code(kind, tmp_path):
    X, y = images(60)
    model = ContinuedNetwork(kind, X, classes=2)
    model.learn(X, y, epochs=2)
    name = save_student(model, tmp_path)
    assert (load_student(tmp_path / name).logits(X) == model.logits(X)).all()


def test_a_perceptron_learns_tables_whose_columns_have_scales_of_their_own(tmp_path):
    noise = (SeededRandomness(3).words(400) % 100).astype(np.float64).reshape(200, 2)
    y = (noise[:, 0] > 50).astype(np.int64)
    X = noise * [1e-4, 1e5]
    X = np.column_stack([X, np.full(200, 7.0)])
    model = ContinuedNetwork("perceptron", X, classes=2)
    model.learn(X, y, epochs=30)
    assert (model.predict(X) == y).mean() > 0.95
    name = save_student(model, tmp_path)
    assert (load_student(tmp_path / name).logits(X) == model.logits(X)).all()


def test_a_refitted_pipeline_of_public_components_is_saved(tmp_path):
    X, y = images(60)
    model = party_models(["logistic"], 1, X, 2)[0]
    model.learn(X, y, epochs=1)
    name = save_student(model.fitted, tmp_path)
    assert (load_student(tmp_path / name).predict(X.reshape(60, -1)) == model.predict(X)).all()


def test_a_student_with_column_names_orders_the_samples_of_a_consensus_and_shows_its_digest():
    model = NamedStudent(Refitted(logistic(), classes=2), ("dose", "age"))
    model.learn(Named(np.array([[9.0, 0.0], [9.0, 1.0]]), ("age", "dose")), np.array([0, 1]), epochs=1)
    public = Named(np.array([[9.0, 5.0], [9.0, 6.0]]), ("age", "dose"))
    model.fit_consensus(public, np.array([[1, 0], [1, 0]], dtype=np.float32), False, epochs=1)
    assert model.predict(np.array([[6.0, 9.0]])).tolist() == [0]
    with pytest.raises(InvalidInput, match="columns"):
        model.fit_consensus(Named(np.zeros((1, 2)), ("age", "weight")), np.eye(2)[:1], False, epochs=1)

    class Trained:
        digest = "c0ffee"

    assert NamedStudent(Trained(), ("age",)).digest == "c0ffee"
