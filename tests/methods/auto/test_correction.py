"""The gradient after class sums: what it costs, and that it undoes what public samples got wrong."""

from fractions import Fraction

import numpy as np
import pytest

import tacit
from tacit.core.guarantee import Adjacency, Unit
from tacit.methods.auto.coordinator import Block, SumFeatures, current, joint_odds
from tacit.methods.auto.correction import (
    corrected_block,
    correction_ask,
    correction_mechanism,
    expected_length,
    gradient_radius,
    moved_block,
)
from tacit.methods.auto.plan import plan_auto
from tacit.methods.class_sums.coordinator import LinearOdds, Moments, read_logistic
from tacit.methods.noisy_sgd.holder import record_gradients
from tacit.representations.scaled import Identity
from tests.methods.auto.given import clouds, task

pytestmark = pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")

LONG = 2**12


def labeled(size, seed, low=-2.0):
    """Samples on a line within the radius, whose log-odds are twice their place."""
    drawn = np.random.default_rng(seed)
    samples = np.clip(drawn.uniform(low, 2.0, size=(size, 1)), -2, 2) / 2
    return samples, (drawn.random(size) < 1 / (1 + np.exp(-4 * samples[:, 0]))).astype(np.int64)


def sums_of(public, samples, labels):
    """A block of the exact sums of these records, read as the default reads them: with the public mean."""
    means = np.stack([samples[labels == each].sum(axis=0) for each in (0, 1)]) / len(samples)
    means = means + (public.mean(axis=0) - means.sum(axis=0)) / 2
    shares = np.bincount(labels, minlength=2) / len(samples)
    told = Moments(means, shares, np.full((2, 1), 1e-7))
    return Block(SumFeatures(Identity(1), float(LONG), LONG, "l2"), public, told, size=float(len(samples)))


@pytest.mark.parametrize("low", [-2.0, -1.5, 0.0])
def test_public_samples_that_are_unlike_the_records_mislead_sums_and_not_the_gradient(low):
    """Some of the left of the records may be missing among public samples, up to all of it. There is no noise here."""
    samples, labels = labeled(40_000, 1)
    public = labeled(5_000, 2, low)[0]
    given = task((samples, labels), public, classes=np.array(["no", "yes"]), epsilon=Fraction(50))
    before = sums_of(public, samples, labels)
    ask = correction_ask(given, before, joint_odds([before]))
    after = corrected_block(ask, record_gradients(ask, [(samples.astype(np.float32), labels)]), before)
    assert after.refines
    assert after.moments.shares.sum() == pytest.approx(1)
    assert after.moments.means.sum(axis=0) == pytest.approx(public.mean(axis=0))
    first, then = (abs(float(np.diff(joint_odds(some).weights[0])[0]) - 4) for some in ([before], [before, after]))
    assert then < 0.1 + first / 2
    assert then < {-2.0: 0.25, -1.5: 1.5, 0.0: 8.0}[low]


def test_odds_that_are_right_are_left_as_they_are():
    samples, labels = labeled(60_000, 1)
    given = task((samples, labels), samples[:4000], classes=np.array(["no", "yes"]))
    before = sums_of(samples[:4000], samples, labels)
    right = LinearOdds(np.array([[0.0, 4.0]]), np.zeros(2))
    ask = correction_ask(given, before, right)
    table = record_gradients(ask, [(samples.astype(np.float32), labels)])
    # What is left of the errors is chance: of 60,000 errors of at most 1 and features of at most 1.
    assert np.abs(table).max() / (256 * ask.length * 60_000) < 5 / np.sqrt(60_000)


def slope(odds):
    return float(np.diff(odds.weights[0])[0])


def test_odds_that_are_half_as_sure_as_they_should_be_are_moved_to_those_of_the_records():
    samples, labels = labeled(40_000, 1)
    public = labeled(3000, 2)[0]
    given = task((samples, labels), public, classes=np.array(["no", "yes"]), epsilon=Fraction(50))
    before = sums_of(public, samples, labels)
    ask = correction_ask(given, before, LinearOdds(np.array([[0.0, 2.0]]), np.zeros(2)))
    after = moved_block(ask, record_gradients(ask, [(samples.astype(np.float32), labels)]), before)
    # Not quite to 4: the longest gradients were clipped, by what odds that were too even expected of them.
    assert 3.2 < slope(after.odds) < 4.25
    # It contains all that was asked before it.
    assert current([before, before, after]) == [after]
    assert joint_odds([before, before, after]) is after.odds


def test_a_gradient_that_is_noise_leaves_learned_odds_about_as_they_are():
    """Of 60 weights the noise says nothing: what follows from it is far less than what it would be unshrunk."""
    drawn = np.random.default_rng(3)
    points = drawn.normal(size=(2000, 20)) / np.sqrt(20)
    learned_odds = LinearOdds(3 * drawn.normal(size=(20, 3)), np.zeros(3))
    likely = learned_odds.probabilities(points)
    means = likely.T @ points / 2000
    for noise in (1e-3, 1e-1):
        noisy = Moments(
            means + noise * drawn.normal(size=means.shape), likely.mean(axis=0), np.full(means.shape, noise**2)
        )
        after = read_logistic(noisy, points, learned_odds)
        assert (after.probabilities(points).argmax(axis=1) == likely.argmax(axis=1)).mean() > 0.95
        # Toward 0 and not toward these odds the same noise leaves much less.
        assert (
            noise < 0.1
            or (read_logistic(noisy, points).probabilities(points).argmax(axis=1) == likely.argmax(axis=1)).mean() < 0.8
        )


@pytest.mark.parametrize("records", [1, 3, 50, 2**19])
def test_the_price_is_known_before_anything_was_released(records):
    """The gradient's radius is the same whatever the odds are, so noise and price are."""
    unit = Unit() if records == 1 else Unit.person("patient", records)
    given = task(clouds(300, 1), clouds(90, 2)[0], unit=unit, classes=np.array(["a", "b", "c"]))
    block = Block(SumFeatures(Identity(4), 1.0, LONG, "l2"), np.eye(4) / 2, None, size=300.0)
    asks = [
        correction_ask(given, block, LinearOdds(np.full((4, 3), weight) * np.arange(3), np.zeros(3)))
        for weight in (0.0, 1.0, 300.0)
    ]
    assert {ask.mechanism for ask in asks} == {correction_mechanism(given, 1)}
    assert len({ask.length for ask in asks}) > 1 or records > 1000
    for ask in asks:
        moves = ask.sensitivity(unit, Adjacency.REPLACE_ONE)
        assert ask.radius == gradient_radius(records)
        assert ask.mechanism.squared_shift == moves.l2_squared == (2 * records * ask.radius) ** 2 <= 2**40


def test_sure_odds_do_not_clip_their_mistakes_away():
    sure = np.tile([1.0, 0.0], (100, 1))
    assert expected_length(np.full((100, 1), 0.8), sure) == pytest.approx(0.1)


def test_a_gradient_is_asked_for_where_it_can_be_learned_from():
    samples, labels = labeled(3000, 1)
    classes = np.array(["no", "yes"])
    for epsilon, delta, corrects in ((1, "1e-5", True), ("1/1000", "1e-5", False), (1, 0, False)):
        given = task(
            (samples, labels), samples[:200], classes=classes, kind="mixed", epsilon=Fraction(epsilon),
            delta=Fraction(delta),
        )  # fmt: skip
        plan = plan_auto(given, "auto")
        assert plan.corrects is corrects
        assert len(plan.tasks) == 1 + corrects
    assert not plan_auto(task((samples, labels), samples[:200], classes=classes), "sums").corrects


def test_persons_are_corrected_at_their_own_number_of_records():
    """With several records per person how many there are is private: the noisy counts of the sums say it."""
    samples, labels = labeled(6000, 1)
    run = tacit.distill(
        (np.column_stack([samples, samples**2]), labels), np.column_stack([samples, samples**2])[:500], 5, delta="1e-5",
        classes=(0, 1), persons=np.arange(6000) // 2, unit=Unit.person("patient", 2), seed=1,
    )  # fmt: skip
    assert run.recipe["chosen"] == "sums, then a gradient"
    found = run.student.predict(np.array([[-0.9, 0.81], [0.9, 0.81]]))
    assert found.tolist() == [0, 1]
