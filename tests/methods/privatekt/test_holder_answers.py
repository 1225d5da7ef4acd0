"""The sheet: its law, its price, its unbiased estimate; and one object that owns K."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting.compose import total
from tacit.core.account import Ceiling, Rule
from tacit.core.errors import InvalidInput, RequestConflict
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.core.sensitivity import ANYTHING
from tacit.core.spend import RandomizedResponse, Repeated
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.local.randomized_response import RandomizedLabels
from tacit.methods.privatekt.holder import LabelCohort
from tacit.private.records import Private, Records, require_usable


@pytest.mark.parametrize(
    ("epsilon", "answers", "keeping"), [(5, 1, 0.936472910), (5, 10, 0.060920110), (2, 20, 0.010407634)]
)
def test_how_often_a_label_is_kept(epsilon, answers, keeping):
    sheet = RandomizedLabels(10, answers, epsilon)
    assert sheet.keeping == pytest.approx(keeping, rel=1e-7)
    # Keeping or drawing anew is the same law as the response's own.
    rates = sheet.response.rates
    assert rates.one == pytest.approx(sheet.keeping + (1 - sheet.keeping) / 10)
    assert rates.zero == pytest.approx((1 - sheet.keeping) / 10)


def probability(sheet, labels, answers):
    """The probability of the answers, by the exact law of each."""
    laws = [sheet.response.law([label]).probabilities for label in labels]
    return math.prod(law[answer] for law, answer in zip(laws, answers, strict=True))


def test_no_two_sheets_differ_by_more_than_epsilon_and_some_reach_it():
    sheet = RandomizedLabels(3, 2, Fraction(3, 2))
    everything = list(itertools.product(range(3), repeat=2))
    ratios = [
        probability(sheet, one, seen) / probability(sheet, other, seen)
        for one in everything
        for other in everything
        for seen in everything
    ]
    assert math.log(max(ratios)) == pytest.approx(1.5, rel=1e-12)
    # The mutant whose noise is for one answer less spends more than it says.
    mutant = RandomizedLabels(3, 2, Fraction(3, 2) * 2)
    assert math.log(probability(mutant, (0, 0), (0, 0)) / probability(mutant, (1, 1), (0, 0))) > 1.5
    assert sheet.spend == Repeated(RandomizedResponse(Fraction(3, 4), 3), 2)
    assert sheet.max_sensitivity == ANYTHING
    assert total([sheet.spend], Fraction(0)).epsilon == Fraction(3, 2)


@pytest.mark.parametrize("labels", [((0, 1), (0, 2)), ((0, 0), (0, 0)), ((2, 1), (1, 0))])
def test_shares_are_unbiased_by_enumeration(labels):
    sheet = RandomizedLabels(3, 2, 1)
    mean, square = np.zeros((2, 3)), np.zeros((2, 3))
    pairs = list(itertools.product(range(3), repeat=2))
    for first, second in itertools.product(pairs, repeat=2):
        chance = float(probability(sheet, labels[0], first) * probability(sheet, labels[1], second))
        shares, _ = sheet.shares(np.array([first, second]))
        mean += chance * shares
        square += chance * shares**2
    truth = np.array([[np.mean([own[place] == label for own in labels]) for label in range(3)] for place in range(2)])
    assert mean == pytest.approx(truth, abs=1e-12)
    # The coordinate error of mathematics 8: [f·P₁(1−P₁) + (1−f)·P₀(1−P₀)] / (N·β²).
    beta = sheet.keeping
    one, zero = beta + (1 - beta) / 3, (1 - beta) / 3
    error = (truth * one * (1 - one) + (1 - truth) * zero * (1 - zero)) / (2 * beta**2)
    assert square - mean**2 == pytest.approx(error, abs=1e-12)


def test_shares_add_up_and_may_be_negative():
    shares, variances = RandomizedLabels(4, 2, 2).shares(np.array([[0, 1], [0, 1], [0, 3]]))
    assert shares.sum(axis=1) == pytest.approx([1, 1])
    assert shares.min() < 0
    assert (variances > 0).all()


@pytest.mark.parametrize("rounds", [1, 4, 100])
def test_epsilon_a_round_is_solved_from_the_total(rounds):
    sheet = RandomizedLabels.for_total(10, 2, 8, "1e-5", rounds)
    spent = total([sheet.spend] * rounds, Fraction(1, 10**5), Rule.PLANNED).epsilon
    assert Fraction(7999, 1000) < spent <= 8
    assert sheet.epsilon >= Fraction(8, rounds)
    assert RandomizedLabels.for_total(10, 2, 8, 0, rounds).epsilon == Fraction(8, rounds)


@pytest.mark.statistical(rate=1e-9)
def test_the_sampler_follows_the_law():
    sheet, count = RandomizedLabels(3, 2, 1), 20_000

    def worst(filled):
        seen = np.array([[np.mean(filled[:, place] == label) for label in range(3)] for place in range(2)])
        true = np.array([[float(each) for each in sheet.response.law([label]).probabilities] for label in (0, 2)])
        return np.abs((seen - true) / np.sqrt(true * (1 - true) / count)).max()

    labels = np.tile([0, 2], (count, 1))
    # Six normal coordinates beyond 6.6 deviations: less than 1e-9.
    assert worst(sheet.fill(labels, SystemRandomness())) < 6.6
    # The mutant gives each answer the whole budget.
    assert worst(RandomizedLabels(3, 2, 2).fill(labels, SystemRandomness())) > 6.6


def test_the_sheet_owns_the_number_of_answers(make):
    sheet = RandomizedLabels(3, 2, 2)
    for labels in ([0], [0, 1, 2], [[0, 1]]):
        with pytest.raises(InvalidInput, match="mechanism is for 2 answers"):
            sheet.sample(np.array(labels), SeededRandomness(1))
    # A loop that asks one sample more than the noise was made for is refused, and nothing is charged.
    cohort, ledger = make.cohort([Ceiling(100)])
    for samples in (make.samples, make.samples[:1]):
        with pytest.raises(InvalidInput, match="mechanism is for 2 answers"):
            cohort.answer(make.ask(answers=2, samples=samples))
    assert ledger.balance("h0").payments == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((1, 1, 1), "cells must be"), ((3, 0, 1), "answers must be at least 1"), ((3, 1, 0), "epsilon must be above 0")],
)
def test_bad_sheets_are_named(arguments, named):
    with pytest.raises(InvalidInput, match=named):
        RandomizedLabels(*arguments)


def test_bad_answers_are_refused():
    with pytest.raises(InvalidInput, match="answers must be rows of 2 answers"):
        RandomizedLabels(3, 2, 1).shares(np.zeros((0, 2), dtype=np.int64))
    with pytest.raises(InvalidInput, match="messages must name cells"):
        RandomizedLabels(3, 2, 1).shares(np.array([[0, 3]]))
    with pytest.raises(InvalidInput, match="rounds must be at least 1"):
        RandomizedLabels.for_total(3, 2, 1, "1e-5", 0)


def test_a_holder_pays_epsilon_for_all_answers_and_a_retry_is_free(make):
    cohort, ledger = make.cohort([Ceiling(100)])
    first = cohort.answer(make.ask(epsilon=6))[0]
    again = cohort.answer(make.ask(epsilon=6))[0]
    assert np.array_equal(first.value, again.value)
    assert first.receipts == again.receipts
    assert first.receipts[0].spend == Repeated(RandomizedResponse(2, 3), 3)
    assert ledger.balance("h0").spent.epsilon == 6
    with pytest.raises(RequestConflict):
        cohort.answer(make.ask(epsilon=6, samples=make.samples[::-1].copy()))
    with pytest.raises(RequestConflict):
        cohort.answer(make.ask(epsilon=6, weights=b"other weights"))


def test_a_holder_that_cannot_pay_refuses_without_data(make):
    cohort, ledger = make.cohort([Ceiling(6), Ceiling(100)])
    both = [cohort.answer(make.ask(epsilon=4, request=f"r-{n}", invited=(0, 1))) for n in range(2)]
    assert [[answer.value is None for answer in answers] for answers in both] == [[False, False], [True, False]]
    assert both[1][0].receipts == ()
    assert ledger.balance("h0").spent.epsilon == 4
    # What was paid for is still answered when it is asked for again.
    assert cohort.answer(make.ask(epsilon=4, request="r-0"))[0].value is not None


def test_with_noise_that_vanishes_the_labels_are_the_local_models(make):
    one = make.holder((2, 0, 1)).answer(make.ask(epsilon=900))
    assert one.value.tolist() == [2, 0, 1]


def test_mechanisms_and_classes_that_are_not_known_are_refused(make):
    asked = replace(make.ask(), mechanism=object())
    with pytest.raises(InvalidInput, match="it knows RandomizedLabels"):
        make.holder().answer(asked)

    class Cheap(RandomizedLabels):
        spend = RandomizedResponse("1e-6", 3)

    with pytest.raises(InvalidInput, match="through Cheap; it knows RandomizedLabels"):
        make.holder().answer(replace(make.ask(), mechanism=Cheap(3, 3, 6)))
    with pytest.raises(InvalidInput, match="the mechanism has 4 classes"):
        make.holder().answer(make.ask(classes=4))


@pytest.mark.parametrize("step", ["prepare", "labels"])
def test_a_model_that_cannot_be_trained_answers_at_random_and_pays_as_any_other(make, step, caplog):
    class Blurting(type(make.trainer)):
        def prepare(self, samples, labels):
            if step == "prepare" and labels[0] == 2:
                raise ValueError(f"secret {labels}")
            return super().prepare(samples, labels)

        def labels(self, prepared, weights, asked, seed):
            if step == "labels" and any(labels[0] == 2 for _, labels in prepared):
                raise ValueError("secret")
            return super().labels(prepared, weights, asked, seed)

    trainer = Blurting()
    ledger = MemoryLedger({f"h{place}": Ceiling(10**6) for place in range(3)})
    made = [
        make.holder(labels, trainer=trainer, ledger=ledger, account=f"h{place}")
        for place, labels in enumerate([(0, 1, 2), (2, 1, 0), (1, 1, 1)])
    ]
    said = LabelCohort(made).answer(make.ask(epsilon=300, invited=(0, 1, 2)))
    # Those beside it say what they know; it says something, and paid the same.
    assert said[0].value.tolist() == [0, 1, 2]
    assert said[2].value.tolist() == [1, 1, 1]
    assert said[1].value.shape == (3,)
    assert {ledger.balance(f"h{place}").spent.epsilon for place in range(3)} == {300}
    assert "secret" not in caplog.text


def test_samples_of_another_shape_are_refused_before_payment(make):
    ledger = MemoryLedger({"clinic": Ceiling(10**6)})
    with pytest.raises(InvalidInput, match="a different shape than the records; nothing was charged"):
        make.holder(ledger=ledger).answer(make.ask(samples=np.zeros((3, 2))))
    assert ledger.balance("clinic").payments == 0


@pytest.mark.parametrize(("labels", "named"), [((), "there are no records"), ((0, 3), "not one of the 3 classes")])
def test_holders_without_usable_records_are_refused(make, labels, named):
    records = Private(Records(make.samples[: len(labels)], np.array(labels, dtype=np.int64)))
    with pytest.raises(InvalidInput, match=named):
        require_usable(records, 3)


def test_holders_that_train_together_share_a_learner(make):
    with pytest.raises(InvalidInput, match="same local model"):
        LabelCohort([make.holder(), make.holder(trainer=type(make.trainer)())])
    with pytest.raises(InvalidInput, match="at least one holder"):
        LabelCohort([])
