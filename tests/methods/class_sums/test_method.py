"""Class sums from records to a student: what is released, for whom, under which trust, and what is refused."""

import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import tacit
from tacit.core.account import Ceiling, Rule
from tacit.core.errors import InvalidInput, ToleranceExceeded
from tacit.core.guarantee import Adjacency, Trust, Unit
from tacit.core.randomness import SeededRandomness
from tacit.core.spend import Gaussian, Pure
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.methods.class_sums.coordinator import (
    ReleasedSums,
    SumCoordinator,
    moments,
    public_probabilities,
    read_logistic,
    read_squares,
)
from tacit.methods.class_sums.holder import SumHolder, class_sums
from tacit.methods.class_sums.method import prepare
from tacit.methods.class_sums.options import ClassSums
from tacit.methods.class_sums.plan import RADIUS, plan_sums, suggest_components, sum_representation
from tacit.methods.class_sums.wire import SumAsk
from tacit.methods.task import Nodes, Task
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.representations.scaled import Identity

rng = np.random.default_rng(5)
CLASSES = ("a", "b", "c")
CENTERS = np.array([[2.0, 0, 0, 0, 0], [0, 2.0, 0, 0, 0], [0, 0, 2.0, 0, 0]])


def mixture(size, seed):
    drawn = np.random.default_rng(seed)
    labels = drawn.integers(0, 3, size)
    return CENTERS[labels] + drawn.normal(size=(size, 5)), np.array(CLASSES)[labels]


PRIVATE, PUBLIC, TEST = mixture(3000, 1), mixture(500, 2)[0], mixture(1500, 3)


def asked(mechanism=None, **more):
    values = {
        "representation": Identity(2), "components": 2, "scale": 1.0, "radius": 10, "norm": "l2", "count": 5,
        "class_names": ("a", "b"), "space": "c0ffee", "mechanism": mechanism or RoundedGaussianNoise(40, 1600),
        "purpose": "class sums", "request": "r-1",
    }  # fmt: skip
    return SumAsk(**values | more)


def task(**more):
    values = {
        "public": PUBLIC, "classes": np.array(CLASSES), "epsilon": Fraction(1), "delta": Fraction(1, 10**5),
        "unit": Unit(), "adjacency": Adjacency.REPLACE_ONE, "trust": None, "units": 3000, "request": "r",
    }  # fmt: skip
    return Task(**values | more)


@pytest.mark.parametrize("fit", ["logistic", "least-squares"])
@pytest.mark.parametrize("delta", ["1e-5", 0])
def test_a_student_learns_from_the_sums_and_says_how_likely_each_class_is(fit, delta):
    run = tacit.distill(PRIVATE, PUBLIC, 2, delta=delta, method="class_sums", fit=fit, classes=CLASSES, seed=1)
    right = (run.student.predict(TEST[0]) == TEST[1]).mean()
    # Of three clouds this far apart a perfect linear rule gets about 78 % right.
    assert right > 0.73
    odds = run.student.predict_proba(TEST[0])
    assert odds.shape == (1500, 3)
    assert odds.sum(axis=1) == pytest.approx(np.ones(1500))
    assert run.probabilities.sum(axis=1) == pytest.approx(np.ones(500))
    assert (run.labels == np.array(CLASSES)[run.probabilities.argmax(axis=1)]).all()
    assert run.arrays["sums"].shape == (3, run.recipe["components"] + 1)
    assert type(run.receipts[0].spend) is (Gaussian if delta else Pure)
    assert run.guarantee.epsilon <= 2


def test_the_odds_are_calibrated_and_noise_makes_them_careful():
    """Of what is likely with probability p, about p is so; with hopeless noise nothing is said to be sure."""
    run = tacit.distill(PRIVATE, PUBLIC, 4, delta="1e-5", method="class_sums", classes=CLASSES, seed=1)
    odds = run.student.predict_proba(TEST[0])
    sure, right = odds.max(axis=1), run.student.predict(TEST[0]) == TEST[1]
    assert abs(sure.mean() - right.mean()) < 0.06
    with pytest.warns(tacit.TacitWarning, match="the labels will be mostly noise"):
        noisy = tacit.distill(PRIVATE, PUBLIC, "1/1000", delta="1e-5", method="class_sums", classes=CLASSES, seed=1)
    assert noisy.probabilities.max() < 0.75


def test_centered_sums_are_paid_for_as_such():
    """A mechanism that hides plain sums is refused; the plan's own noise hides the centered ones."""
    ask = asked(RoundedGaussianNoise(40, 4 * 10**2), centered=True, count=0)
    assert ask.sensitivity(Unit(), Adjacency.REPLACE_ONE).l2_squared == 8 * 10**2
    assert not ask.sensitivity(Unit(), Adjacency.REPLACE_ONE).within(ask.mechanism.max_sensitivity)
    assert ask.question != asked(RoundedGaussianNoise(40, 4 * 10**2), count=0).question


def test_centered_sums_tell_what_plain_ones_tell_with_less_noise():
    samples, labels = PRIVATE[0], np.searchsorted(CLASSES, PRIVATE[1])
    plain = asked(representation=Identity(5), components=5, scale=10.0, radius=100, count=50, class_names=CLASSES)
    centered = replace(plain, centered=True)
    public = np.clip(PUBLIC / 10, -1, 1)
    told = [
        moments(ReleasedSums(class_sums(each, Records(samples, labels))), each, 1000.0, public, len(labels))
        for each in (plain, centered)
    ]
    assert told[0].means == pytest.approx(told[1].means)
    assert told[0].shares == pytest.approx(told[1].shares, abs=1e-3)
    assert (told[1].variances < told[0].variances).all()


def test_sums_are_centered_where_the_number_of_records_is_public_and_noise_is_gaussian():
    person = Unit.person("p", 1)
    for more, centered in (
        ({}, True),
        ({"unit": person}, True),
        ({"unit": Unit.person("p", 3)}, False),
        ({"delta": Fraction(0)}, False),
    ):
        assert plan_sums(task(**more), ClassSums(), Trust.CENTRAL).question.centered is centered
    added = task(adjacency=Adjacency.ADD_REMOVE)
    assert not plan_sums(added, ClassSums(components=2), Trust.CENTRAL).question.centered


def test_fewer_components_are_summed_where_there_is_more_noise():
    spread = rng.normal(size=(1000, 40)) / np.sqrt(np.arange(1, 41))
    chosen = [suggest_components(spread, noise, 20_000, 2, "l2")[0] for noise in (1e-5, 1e-4, 1e-3, 1e-2, 1, 10)]
    assert chosen == sorted(chosen, reverse=True)
    assert chosen[0] == 40
    assert chosen[-1] == 1


def test_a_few_components_are_summed_while_their_strongest_signal_exceeds_the_noise():
    flat = rng.normal(size=(1000, 60))
    # One component of so many equal ones has hardly any of the signal, if all have the same part of it.
    assert suggest_components(flat, 0.05, 2_000, 3, "l2")[0] == 6
    assert suggest_components(flat, 5.0, 2_000, 3, "l2")[0] == 1


def test_components_in_l1_are_at_most_those_in_l2():
    spread = rng.normal(size=(1000, 40)) / np.sqrt(np.arange(1, 41))
    assert suggest_components(spread, 1e-3, 20_000, 2, "l1")[0] <= suggest_components(spread, 1e-3, 20_000, 2, "l2")[0]


def test_the_plan_knows_no_record_and_the_noise_fits_the_sums():
    for more in ({}, {"delta": Fraction(0)}, {"unit": Unit.person("p", 3)}):
        given = task(**more)
        ask = plan_sums(given, ClassSums(), Trust.CENTRAL).question
        moves = ask.sensitivity(given.unit, given.adjacency)
        assert moves.within(ask.mechanism.max_sensitivity)
        # Of what the mechanism was made for nothing is wasted.
        limit = ask.mechanism.max_sensitivity
        assert limit.l1 == moves.l1 or limit.l2_squared == moves.l2_squared
    # As much as counts may weigh for nothing: beyond, another label would move farther than the same one.
    weighed = plan_sums(task(), ClassSums(), Trust.CENTRAL).question.count
    assert weighed**2 <= RADIUS**2 * (1 - 2 / len(CLASSES)) < (weighed + 1) ** 2


def test_under_add_remove_the_number_of_components_must_be_said_and_counts_weigh_less():
    added = task(adjacency=Adjacency.ADD_REMOVE)
    with pytest.raises(InvalidInput, match="give components"):
        plan_sums(added, ClassSums(), Trust.CENTRAL)
    ask = plan_sums(added, ClassSums(components=3), Trust.CENTRAL).question
    assert (ask.components, ask.count) == (3, RADIUS // 4)
    assert ask.mechanism.squared_shift == RADIUS**2 + (RADIUS // 4) ** 2
    run = tacit.distill(
        PRIVATE, PUBLIC, 2, delta="1e-5", method="class_sums", components=4, adjacency="add-remove", classes=CLASSES,
        seed=1,
    )  # fmt: skip
    assert (run.student.predict(TEST[0]) == TEST[1]).mean() > 0.73


def test_persons_pay_for_all_their_records_and_are_cut_down_to_them():
    persons = np.arange(3000) // 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tacit.TacitWarning)
        run = tacit.distill(
            PRIVATE, PUBLIC, 4, delta="1e-5", method="class_sums", classes=CLASSES, persons=persons,
            unit=Unit.person("patient", 2), seed=1,
        )  # fmt: skip
    assert run.guarantee.unit == Unit.person("patient", 2)
    assert (run.student.predict(TEST[0]) == TEST[1]).mean() > 0.7


def holder(records, ceiling=None, **more):
    ledger = MemoryLedger({"site": ceiling or Ceiling(10**6, "1/100", Rule.PLANNED, **more)})
    return SumHolder([Private(records)], Gate(ledger, "site", SeededRandomness(1))), ledger


def test_of_a_person_no_more_records_are_added_than_the_unit_has():
    # Noise that is 0 but for a probability of a millionth: the exact sums can be read off.
    noise = RoundedGaussianNoise("1/10", 1600)
    rows = Records(np.full((30, 2), 3.0), np.zeros(30, dtype=np.int64), np.repeat("ada", 30))
    one, _ = holder(rows, unit=Unit.person("patient", 2))
    table = one.answer(asked(noise)).value
    assert table.tolist() == [[6, 6, 10], [0, 0, 0]]


def test_noise_that_was_made_for_less_is_refused_and_nothing_is_charged():
    rows = Records(np.ones((4, 2)), np.zeros(4, dtype=np.int64))
    for noise, account in (
        (RoundedGaussianNoise(40, 399), {}),
        (DiscreteLaplaceNoise(10, 37), {}),
        (RoundedGaussianNoise(40, 124), {"adjacency": Adjacency.ADD_REMOVE}),
    ):
        one, ledger = holder(rows, **account)
        with pytest.raises(ToleranceExceeded, match="not calibrated"):
            one.answer(asked(noise))
        assert ledger.balance("site").payments == 0
    persons = Records(rows.samples, rows.labels, np.array(["p"] * 4))
    one, ledger = holder(persons, unit=Unit.person("patient", 2))
    with pytest.raises(ToleranceExceeded, match="l2_squared changes by 1600, and the mechanism allows 400"):
        one.answer(asked(RoundedGaussianNoise(40, 400)))


def test_a_question_for_other_records_is_refused_before_it_is_paid_for():
    rows = Records(np.ones((4, 3)), np.zeros(4, dtype=np.int64))
    one, ledger = holder(rows)
    with pytest.raises(InvalidInput, match="nothing was charged"):
        one.answer(asked())
    sets, _ = holder(Records(np.ones((4, 2)), np.ones((4, 2), dtype=np.bool_)))
    with pytest.raises(InvalidInput, match="sets of labels"):
        sets.answer(asked())
    assert ledger.balance("site").payments == 0


class Spiteful:
    """Fails on a record with a 7 in it, in whatever way."""

    def encode(self, samples):
        if (samples == 7).any():
            raise RuntimeError("a private value")
        return samples.astype(np.float32)


def test_a_record_that_cannot_be_encoded_adds_nothing_and_the_others_all_they_have():
    rows = Records(np.array([[1.0, 1], [7, 0], [2, 2]]), np.array([0, 0, 1]))
    assert class_sums(asked(representation=Spiteful()), rows).tolist() == [[1, 1, 5], [2, 2, 5]]


def test_the_table_does_not_depend_on_how_records_are_spread():
    samples = rng.normal(size=(20_000, 2)) * 9
    labels = rng.integers(0, 2, 20_000)
    whole = class_sums(asked(), Records(samples, labels))
    order = rng.permutation(20_000)
    parts = sum(class_sums(asked(), Records(samples[rows], labels[rows])) for rows in np.array_split(order, 7))
    assert np.array_equal(whole, parts)


@pytest.mark.parametrize("trust", ["local", "shuffle"])
def test_a_crowd_is_told_what_to_use_instead(trust):
    with pytest.raises(InvalidInput, match=f"class sums have no {trust} mechanism.*method rknn"):
        tacit.distill(PRIVATE, PUBLIC, 1, method="class_sums", trust=trust, classes=CLASSES)
    devices = Nodes(None, 10, 10, holders="records")
    with pytest.raises(InvalidInput, match="which need many records per node"):
        prepare(task(nodes=devices), ClassSums())


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10**5)])
def test_masked_noise_is_in_shares_and_masks_are_wide_enough(delta):
    nodes = Nodes(None, 9, 3000)
    job = prepare(task(nodes=nodes, delta=delta), ClassSums(components=3))
    plan = job.plan.question.mechanism
    assert type(plan).__name__ == ("DistributedGaussian" if delta else "DistributedLaplace")
    assert plan.most == 3000 * RADIUS
    assert 2 ** (plan.bits - 1) > 9 * 3000 * RADIUS
    assert "of those at least 4 must be honest" in job.caveats[0]
    assert job.trust is Trust.MASKED
    assert job.plan.question.sensitivity(Unit(), Adjacency.REPLACE_ONE).within(plan.max_sensitivity)


def test_answers_of_several_holders_are_added_up_and_their_noises_counted():
    from tacit.core.release import restored

    coordinator = SumCoordinator(asked())
    table = np.ones((2, 3), dtype=np.int64)
    state = coordinator.fold(coordinator.begin(), [restored(table, []), restored(table, [])])
    assert coordinator.ask(state) is None
    assert coordinator.result(state).value.table.tolist() == [[2, 2, 2], [2, 2, 2]]
    assert coordinator.result(state).value.answers == 2
    with pytest.raises(InvalidInput, match="a different shape than the question"):
        coordinator.fold(coordinator.begin(), [restored(np.ones((2, 2), dtype=np.int64), [])])
    with pytest.raises(InvalidInput, match="no holder answered"):
        coordinator.fold(coordinator.begin(), [])


def test_without_noise_the_moments_are_those_of_a_logistic_regression():
    """The regression that is fitted to sums and public samples is the one that true labels would give."""
    from sklearn.linear_model import LogisticRegression

    samples, labels = mixture(4000, 9)
    codes = np.searchsorted(CLASSES, labels)
    noise = RoundedGaussianNoise("1/1000", 1)
    ask = SumAsk(Identity(5), 5, 2.0**17, 2**20, "l2", 2**20, CLASSES, "c0ffee", noise, "sums", "r-1")
    table = class_sums(ask, Records(samples, codes))
    points = samples / 8
    found = moments(ReleasedSums(table), ask, 1e-6, points, 4000)
    assert found.shares == pytest.approx(np.bincount(codes) / 4000)
    odds = read_logistic(found, points).probabilities(points)
    reference = LogisticRegression(C=1e6, max_iter=1000).fit(samples, codes).predict_proba(samples)
    assert np.abs(odds - reference).max() < 0.05
    squares = read_squares(found, points).probabilities(points)
    assert (squares.argmax(axis=1) == reference.argmax(axis=1)).mean() > 0.95


@pytest.mark.parametrize("scale", [0.0, -10.0, 1e9])
def test_whatever_is_released_gives_odds(scale):
    """Noise may make counts negative and sums larger than records can: still every sample gets odds that add up."""
    ask = asked()
    public = rng.normal(size=(30, 2))
    table = (scale * rng.normal(size=(2, 3))).astype(np.int64)
    for records in (None, 50):
        for fit in ("logistic", "least-squares"):
            odds = public_probabilities(ReleasedSums(table), ask, public, records, fit)
            assert np.isfinite(odds).all()
            assert odds.sum(axis=1) == pytest.approx(np.ones(30))
    blind = public_probabilities(ReleasedSums(table), asked(count=0), public, 50)
    assert np.isfinite(blind).all()


def test_a_rare_category_does_not_decide_how_much_is_clipped():
    table = np.zeros((500, 2))
    table[:, 0] = np.arange(500)
    table[:3, 1] = 1
    name, fitted = sum_representation("auto", table, 2)
    assert name == "standardized"
    assert np.ptp(fitted.encode(table)[:, 1]) == pytest.approx(1)
    assert fitted.encode(table)[:, 0].std() == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"components": 0}, "components must be at least 1"),
        ({"count_weight": 0}, "count_weight must be above 0"),
        ({"count_weight": 1.5}, "count_weight must be above 0 and at most 1"),
        ({"fit": "magic"}, "fit must be one of logistic, least-squares"),
        ({"representation": "magic"}, "magic"),
        ({"representation": Identity}, "representation must be auto"),
        ({"student": "magic"}, "magic"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(InvalidInput, match=message):
        tacit.distill(PRIVATE, PUBLIC, 1, method="class_sums", classes=CLASSES, **options)


def test_wrong_tasks_are_named():
    with pytest.raises(InvalidInput, match="all equal"):
        tacit.distill(PRIVATE, np.ones((20, 5)), 1, method="class_sums", classes=CLASSES)
    with pytest.raises(InvalidInput, match="delta must be 0, or in"):
        tacit.distill(PRIVATE, PUBLIC, 1, delta="1e-40", method="class_sums", classes=CLASSES)
    with pytest.raises(InvalidInput, match="multi-label data must be a table"):
        tacit.distill(PRIVATE, PUBLIC, 1, method=tacit.Auto(releases="sums", max_labels=2), classes=CLASSES)


@pytest.mark.parametrize(
    "wrong",
    [
        {"scale": float("nan")}, {"scale": float("inf")}, {"scale": 0.0}, {"scale": 1e19}, {"radius": 0},
        {"radius": 2**21}, {"norm": "l3"}, {"count": -1}, {"class_names": ("a",)},
    ],
)  # fmt: skip
def test_a_hostile_number_makes_no_question(wrong):
    with pytest.raises(InvalidInput):
        asked(**wrong)
