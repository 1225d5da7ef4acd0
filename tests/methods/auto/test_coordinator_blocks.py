"""What releases tell, as blocks of one regression: by hand, without noise, under noise, and of nothing at all."""

from dataclasses import replace

import numpy as np
import pytest

from tacit.methods.auto.coordinator import Block, VoteFeatures, current, joint_odds, joint_points, purity
from tacit.methods.auto.options import Auto
from tacit.methods.auto.plan import plan_auto
from tacit.methods.auto.teaching import AutoTeaching
from tacit.methods.class_sums.coordinator import Moments, read_calibrated, read_logistic
from tacit.representations.scaled import Identity
from tests.methods.auto.given import clouds, planes, task

rng = np.random.default_rng(3)


def test_a_block_of_votes_has_the_moments_of_its_counts():
    given = task(clouds(100, 1), clouds(60, 2)[0], kind="images")
    teaching = AutoTeaching(given, plan_auto(given, Auto().releases))
    ask = teaching.choose(()).question
    queries = len(ask.queries)
    counts = np.zeros((queries, 3), dtype=np.int64)
    counts[0] = [40, 10, 0]
    counts[1] = [0, 20, 30]
    block = teaching._vote_block(ask, None, counts)
    there = np.bincount(block.features.points(given.public).argmax(axis=1), minlength=queries) / 60
    # Of 100 records: the counts' shares, and of what they lack of the public samples' a third for each class.
    for query in range(queries):
        lacking = there[query] - counts[query].sum() / 100
        assert block.moments.means[:, query] == pytest.approx(counts[query] / 100 + lacking / 3)
    assert block.moments.means.sum(axis=0) == pytest.approx(there)
    assert block.moments.shares == pytest.approx([0.4, 0.3, 0.3])
    noise = ask.mechanism.noise_law.variance * 2 / 3 / 100**2
    drawn = np.outer([0.4 * 0.6, 0.3 * 0.7, 0.3 * 0.7], there) / 100
    assert block.moments.variances == pytest.approx(noise + drawn)
    assert block.counts.tolist() == counts.tolist()


def test_a_sample_votes_for_its_nearest_query_and_for_no_other():
    features = VoteFeatures(Identity(2), np.array([[0.0, 0], [5, 5], [9, 0]], dtype=np.float32))
    samples = rng.normal(size=(50, 2)) * 5
    points = features.points(samples)
    nearest = np.square(samples[:, None] - features.queries[None]).sum(axis=2).argmin(axis=1)
    assert points.sum(axis=1).tolist() == [1.0] * 50
    assert points.argmax(axis=1).tolist() == nearest.tolist()


def exact(points, odds, records):
    """The moments of records at these points whose classes are drawn with these odds, without noise."""
    means = odds.T @ points / len(points)
    return Moments(means, odds.mean(axis=0), np.full(means.shape, 1e-12 / records))


def softmax(scores):
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def ball(size, width):
    points = rng.normal(size=(size, width))
    return points / np.maximum(1, np.linalg.norm(points, axis=1, keepdims=True))


def in_blocks(points, odds, *parts, records=10**6):
    whole = exact(points, odds, records)
    return [
        Block(None, points[:, part], Moments(whole.means[:, part], whole.shares, whole.variances[:, part]))
        for part in parts
    ]


def test_blocks_together_give_back_the_linear_model_that_made_them():
    points = ball(3000, 4)
    weights = np.array([[2.0, -2.0], [-3.0, 3.0], [1.0, -1.0], [0.5, -0.5]])
    true = softmax(points @ weights + np.array([0.3, -0.3]))
    told = in_blocks(points, true, slice(0, 2), slice(2, 4))
    found = joint_odds(told)
    assert joint_points(told).shape == (3000, 4)
    assert np.abs(found.probabilities(points) - true).max() < 0.01
    assert np.abs((found.weights[:, 0] - found.weights[:, 1]) - (weights[:, 0] - weights[:, 1])).max() < 0.1


def test_votes_are_left_out_where_sums_were_asked_for_twice():
    points = np.random.default_rng(9).normal(size=(60, 4)) / 4
    true = softmax(points[:, :3])
    first, second = in_blocks(points, true, slice(0, 2), slice(2, 4))
    votes = replace(first, counts=np.ones((2, 3)))
    assert current([votes, first, second]) == [first, second]
    assert current([votes, first]) == [votes, first]
    assert current([votes, votes]) == [votes, votes]
    assert joint_points([votes, first, second]).shape == (60, 4)


def test_of_three_classes_the_likeliest_is_that_of_the_model():
    points = ball(3000, 4)
    true = softmax(4 * points @ rng.normal(size=(4, 3)))
    found = joint_odds(in_blocks(points, true, slice(0, 1), slice(1, 4))).probabilities(points)
    assert (found.argmax(axis=1) == true.argmax(axis=1)).mean() > 0.93
    assert found.mean(axis=0) == pytest.approx(true.mean(axis=0), abs=0.01)


@pytest.mark.parametrize(("noise", "careful"), [(1e-8, 0.05), (1e-5, 0.05), (1e-3, 0.25)])
def test_calibrated_odds_are_calibrated(noise, careful):
    """Of what is said with probability p, p is so: at most .05 less on the average, and .12 in every well-filled tenth.

    Under heavy noise odds are rather too flat than too steep, and more is right than is said. The points are drawn
    once and the classes by a known law, so the error is that of the reading alone.
    """
    points = ball(4000, 5)
    true = softmax(5 * points @ rng.normal(size=(5, 3)))
    told = exact(points, true, 10**6)
    noisy = Moments(
        told.means + rng.normal(size=told.means.shape) * np.sqrt(noise), told.shares, np.full(told.means.shape, noise)
    )
    found = read_calibrated(noisy, points).probabilities(points)
    said, so = found.max(axis=1), np.take_along_axis(true, found.argmax(axis=1)[:, None], axis=1)[:, 0]
    assert -careful < said.mean() - so.mean() < 0.05
    for low in np.arange(0.3, 1, 0.1):
        there = (said >= low) & (said < low + 0.1)
        if there.sum() >= 200:
            assert said[there].mean() - so[there].mean() < 0.12


def degenerate(case):
    points, shares = ball(300, 3), np.full(3, 1 / 3)
    variances = np.full((3, 3), 1e-4)
    means = rng.normal(size=(3, 3)) * 0.05
    if case == "a class is absent":
        shares = np.array([0.5, 0.5 - 1e-6, 1e-6])
        means[2] = 0
    if case == "constant features":
        points = np.full((300, 3), 0.5)
    if case == "no features but zero":
        points = np.zeros((300, 3))
    if case == "two public rows":
        points = points[:2]
    if case == "one public row":
        points = points[:1]
    if case == "huge noise":
        means, variances = rng.normal(size=(3, 3)) * 1e6, np.full((3, 3), 1e12)
    if case == "no noise at all":
        variances = np.full((3, 3), 1e-300)
    return Moments(means, shares, variances), points


@pytest.mark.parametrize("read", [read_calibrated, read_logistic])
@pytest.mark.parametrize(
    "case",
    ["a class is absent", "constant features", "no features but zero", "two public rows", "one public row",
     "huge noise", "no noise at all"],
)  # fmt: skip
def test_odds_are_numbers_whatever_was_released(read, case):
    found, points = degenerate(case)
    odds = read(found, points).probabilities(points)
    assert np.isfinite(odds).all()
    assert odds.sum(axis=1) == pytest.approx(np.ones(len(points)))


def test_huge_noise_says_no_more_than_the_shares():
    found, points = degenerate("huge noise")
    odds = read_calibrated(found, points).probabilities(points)
    assert odds.max() < 0.5
    assert odds.mean(axis=0) == pytest.approx(found.shares, abs=0.01)


def test_purity_is_the_part_of_the_leading_classes_and_noise_makes_nothing_of_it():
    assert purity(np.array([[10, 0], [0, 30]])) == 1.0
    assert purity(np.array([[5, 5], [10, 20]])) == 0.625
    assert np.isfinite(purity(np.zeros((3, 2))))
    assert np.isfinite(purity(np.array([[-5, -9], [-1, -2]])))


@pytest.mark.parametrize(("made", "pure"), [(clouds, True), (planes, False)])
def test_first_votes_tell_clusters_from_mixtures(made, pure):
    private = made(3000, 1)
    given = task(private, made(300, 2)[0], kind="images")
    teaching = AutoTeaching(given, plan_auto(given, "auto"))
    step = teaching.choose(())
    near = VoteFeatures(step.question.representation, step.question.queries).points(private[0])
    block = step.read((near.T @ np.eye(3)[private[1]]).astype(np.int64))
    assert teaching.clustered([block]) is pure
    assert type(teaching.choose([block]).question).__name__ == ("VoteAsk" if pure else "SumAsk")
