"""Whether released votes and sums notice that public samples differ from the records, and what is asked then."""

from dataclasses import replace

import numpy as np
import pytest

from tacit.methods.auto import teaching as taught
from tacit.methods.auto.coordinator import Block, SumFeatures, VoteFeatures, contradiction, shifted, vote_misfit
from tacit.methods.auto.plan import plan_auto
from tacit.methods.auto.teaching import AutoTeaching
from tacit.methods.class_sums.coordinator import Moments
from tacit.methods.rknn.wire import VoteAsk
from tacit.representations.scaled import Identity
from tests.methods.auto.given import clouds, planes, task

QUERIES, EACH, NOISE = 20, 30, 5.0


def votes(wrong=0, votes_each=200, drawn=None):
    """Votes for the first of two classes in even clusters and for the second in odd ones, and the public labels."""
    clusters = np.repeat(np.arange(QUERIES), EACH)
    right = np.eye(2)[clusters % 2]
    counts = np.where(np.eye(2, dtype=bool)[np.arange(QUERIES) % 2], 1.0, 0.0) * votes_each
    if drawn is not None:
        counts = counts + drawn.normal(0, NOISE, counts.shape)
    labels = right.copy()
    swapped = np.arange(len(labels)) % EACH < wrong
    labels[swapped] = labels[swapped, ::-1]
    features = VoteFeatures(Identity(1), np.zeros((QUERIES, 1), dtype=np.float32))
    size = QUERIES * votes_each
    known = Moments(counts.T / size, np.full(2, 0.5), np.full((2, QUERIES), (NOISE / size) ** 2))
    return Block(features, np.eye(QUERIES)[clusters], known, np.rint(counts).astype(np.int64), size), right, labels


def test_votes_fit_the_labels_that_are_common_near_a_sample():
    block, right, wrong = votes(wrong=3)
    assert vote_misfit(block, right) == 0
    # A tenth of 200 votes in both classes of every cluster; labels of 30 samples are drawn, and votes have noise.
    drawn = 0.1 * 0.9 * 200**2 / EACH
    assert vote_misfit(block, wrong) == pytest.approx(20**2 / (NOISE**2 + drawn))


def test_clusters_without_public_samples_say_nothing():
    block, right, wrong = votes(wrong=3)
    public = np.column_stack([block.public, np.zeros(len(right))])
    counts = np.vstack([block.counts, [[900, 0]]])
    known = Moments(
        np.column_stack([block.moments.means, np.ones(2)]), np.full(2, 0.5),
        np.column_stack([block.moments.variances, block.moments.variances[:, :1]]),
    )  # fmt: skip
    more = Block(block.features, public, known, counts, block.size)
    assert vote_misfit(more, wrong) == pytest.approx(vote_misfit(block, wrong))


@pytest.mark.statistical(rate=1e-8)
def test_the_misfit_of_noise_alone_is_one():
    random = np.random.default_rng(3)
    found = []
    for _ in range(200):
        block, right, _ = votes(drawn=random)
        found.append(vote_misfit(block, right))
    # In a cluster of one class both cells are off by the noise of the other class: 4,000 squares.
    assert abs(np.mean(found) - 1) < 7 * np.sqrt(2 / 4000)


def summed(labels, moved):
    """A block of sums that fits these labels, but for classes moved by this much of their distance from the mean."""
    points = np.repeat(np.linspace(-0.9, 0.9, QUERIES), EACH)[:, None] * np.array([[1.0, -0.5]])
    means = labels.T @ points / len(points)
    means = means + moved * np.array([[0.1, 0.1], [-0.1, -0.1]])
    return Block(
        SumFeatures(Identity(2), 1.0, 1, "l2"), points, Moments(means, labels.mean(axis=0), np.full((2, 2), 1e-6))
    )


@pytest.mark.parametrize(("moved", "preferred", "found"), [(1.0, True, True), (0.0, True, False), (1.0, False, False)])
def test_sums_mislead_if_labels_that_votes_fit_better_contradict_them(moved, preferred, found):
    block, right, wrong = votes(wrong=3)
    network, before = (right, wrong) if preferred else (wrong, right)
    assert shifted([block, summed(network, moved)], before, network) is found


@pytest.mark.parametrize("variance", [1e-6, 1e-3])
def test_what_contradicts_is_a_part_of_the_signal_and_must_exceed_the_noise(variance):
    _, right, _ = votes()
    sums = summed(right, 1.0)
    sums = replace(sums, moments=replace(sums.moments, variances=np.full((2, 2), variance)))
    part, errors = contradiction(sums, right)
    exact = contradiction(summed(right, 1.0), right)[0]
    # The same part of the signal whatever the noise is, but certain only where noise is small.
    assert part == pytest.approx(exact, rel=0.5)
    assert errors > contradiction(summed(right, 0.0), right)[1]
    assert (errors > 50) is (variance < 1e-5)


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
    monkeypatch.setattr(AutoTeaching, "_taught", lambda self, chances, last=False, seed=0: network)
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
