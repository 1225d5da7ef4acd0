"""Whether released votes and sums notice that public samples differ from the records, and what is asked then."""

import numpy as np
import pytest

from tacit.methods.auto import teaching as taught
from tacit.methods.auto.coordinator import Block, SumFeatures, VoteFeatures, shifted, support
from tacit.methods.auto.plan import plan_auto
from tacit.methods.auto.teaching import AutoTeaching
from tacit.methods.class_sums.coordinator import Moments
from tacit.methods.rknn.wire import VoteAsk
from tacit.representations.scaled import Identity
from tests.methods.auto.given import clouds, planes, task

QUERIES, EACH = 20, 30


def votes(wrong=0, votes_each=200):
    """Votes for the first of two classes in even clusters and for the second in odd ones, and the public labels."""
    clusters = np.repeat(np.arange(QUERIES), EACH)
    right = np.eye(2)[clusters % 2]
    counts = np.where(np.eye(2, dtype=bool)[np.arange(QUERIES) % 2], 0.8, 0.2) * votes_each
    labels = right.copy()
    swapped = np.arange(len(labels)) % EACH < wrong
    labels[swapped] = labels[swapped, ::-1]
    features = VoteFeatures(Identity(1), np.zeros((QUERIES, 1), dtype=np.float32))
    return Block(features, np.eye(QUERIES)[clusters], None, counts.astype(np.int64)), right, labels


def test_votes_prefer_the_labels_that_are_common_near_a_sample():
    block, right, wrong = votes(wrong=3)
    # Every cluster has the same difference, so it is the root of their number in standard errors.
    assert support(block, right, wrong) == pytest.approx(np.sqrt(QUERIES))
    assert support(block, wrong, right) == pytest.approx(-np.sqrt(QUERIES))


def test_labelings_that_agree_and_clusters_without_votes_prefer_nothing():
    block, right, wrong = votes(wrong=3)
    assert support(block, right, 0.5 + right / 4) == 0
    empty = Block(block.features, block.public, None, np.full((QUERIES, 2), -5))
    assert support(empty, right, wrong) == 0


@pytest.mark.statistical(rate=1e-8)
def test_noise_alone_prefers_nothing():
    random = np.random.default_rng(3)
    found = []
    for _ in range(200):
        block, right, _ = votes()
        even = Block(block.features, block.public, None, random.normal(100, 10, (QUERIES, 2)).astype(np.int64))
        other = right.copy()
        swapped = random.random(len(right)) < 0.3
        other[swapped] = other[swapped, ::-1]
        found.append(support(even, right, other))
    assert abs(np.mean(found)) < 6 / np.sqrt(200)


def summed(labels, moved):
    """A block of sums that fits these labels, but for classes moved by this much of their distance from the mean."""
    points = np.repeat(np.linspace(-0.9, 0.9, QUERIES), EACH)[:, None] * np.array([[1.0, -0.5]])
    means = labels.T @ points / len(points)
    means = means + moved * np.array([[0.1, 0.1], [-0.1, -0.1]])
    return Block(
        SumFeatures(Identity(2), 1.0, 1, "l2"), points, Moments(means, labels.mean(axis=0), np.full((2, 2), 1e-6))
    )


@pytest.mark.parametrize(("moved", "preferred", "found"), [(1.0, True, True), (0.0, True, False), (1.0, False, False)])
def test_sums_mislead_if_labels_that_votes_prefer_contradict_them(moved, preferred, found):
    block, right, wrong = votes(wrong=3)
    network, before = (right, wrong) if preferred else (wrong, right)
    assert shifted([block, summed(network, moved)], before, network) is found


def test_without_votes_or_without_sums_nothing_is_said():
    block, right, wrong = votes(wrong=3)
    sums = summed(right, 1.0)
    assert not shifted([sums, sums], wrong, right)
    assert not shifted([block, block], wrong, right)


class Network:
    """Stands in for a trained network that knows the classes of the public samples."""

    classes_ = np.array(["a", "b", "c"])

    def __init__(self, labels):
        self.labels = labels

    def features(self, rows):
        return rows

    def predict_proba(self, rows):
        return np.eye(3)[self.labels]


def test_votes_in_the_network_refine_what_it_says(monkeypatch):
    public, truth = planes(150, 2)
    given = task(clouds(900, 1), public, kind="images")
    monkeypatch.setattr("tacit.methods.auto.plan.installed", lambda *_: True)
    teaching = AutoTeaching(given, plan_auto(given, "auto"))
    network = Network(truth)
    monkeypatch.setattr(AutoTeaching, "_taught", lambda self, chances, last=False: network)
    monkeypatch.setattr(AutoTeaching, "_view", lambda self, network: Identity(4))
    monkeypatch.setattr(taught, "shifted", lambda *_: True)
    first = teaching.choose(())
    counts = np.zeros(first.question.table_shape, dtype=np.int64)
    counts[:, :2] = 10
    blocks = [first.block(counts)]
    second = teaching.choose(blocks)
    blocks.append(second.block(np.zeros(second.question.table_shape, dtype=np.int64)))
    third = teaching.choose(blocks)
    assert isinstance(third.question, VoteAsk)
    counts = np.full(third.question.table_shape, 1, dtype=np.int64)
    counts[:, 1] = 10**6
    blocks.append(third.block(counts))
    assert blocks[-1].begun.argmax(axis=1).tolist() == truth.tolist()
    # All records near every query have the second class, whatever the network said.
    assert set(teaching.probabilities(blocks).argmax(axis=1).tolist()) == {1}
