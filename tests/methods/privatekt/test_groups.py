"""Questions about groups: what is asked, what answers are worth, and what all of a group learns."""

import math

import numpy as np
import pytest

import tacit
from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness
from tacit.core.release import no_response, refusal, restored
from tacit.mechanisms.local.randomized_response import RandomizedLabels
from tacit.methods.privatekt.coordinator import LabelCoordinator
from tacit.methods.privatekt.groups import (
    HOLDERS_DOUBT,
    Groups,
    answer_information,
    checked_beliefs,
    log_odds,
    suggest_rounds,
)
from tacit.methods.privatekt.options import PrivateKT, Teaching
from tacit.runs.drive import drive

EVEN = np.full((6, 3), 1 / 3)
# Three groups of one, two and three samples.
PUBLIC = np.array([[0.0], [10.0], [11.0], [20.0], [21.0], [22.0]])
CLEAR = RandomizedLabels(3, 1, 50)


def made(beliefs=EVEN, public=PUBLIC):
    return Groups.of(public, 3, checked_beliefs(beliefs, len(public), 3))


def sizes_of(groups, rows):
    return groups.sizes[rows].tolist()


def test_rows_are_asked_about_by_their_mean_and_images_by_their_middle():
    assert sorted(made().questions.ravel().tolist()) == [0.0, 10.5, 21.0]
    images = made(public=PUBLIC.reshape(6, 1, 1))
    assert images.questions.shape == (3, 1, 1)
    assert set(images.questions.ravel()) < set(PUBLIC.ravel())
    assert 21.0 in images.questions


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int64])
def test_rows_whose_mean_would_be_rounded_are_asked_about_by_their_middle(kind):
    rows = np.array([[0, 1], [0, 1], [1, 1], [1, 0]]).astype(kind)
    questions = Groups.of(rows, 1, checked_beliefs(None, 4, 2)).questions
    assert questions.dtype == kind
    assert questions.tolist() in rows[:, None].tolist()


def test_log_odds_are_those_of_the_law():
    mechanism = RandomizedLabels(4, 2, 6)
    response = mechanism.response.rates
    # By enumeration: the label is right, or one of four with the same probability, and then it is randomized.
    wrong = 0.3 / 4
    right_label = 0.7 + wrong
    answered = right_label * response.one + 3 * wrong * response.zero
    other = right_label * response.zero + wrong * response.one + 2 * wrong * response.zero
    assert log_odds(mechanism, 0.3) == pytest.approx(math.log(answered / other))
    assert log_odds(mechanism, 0.0) == pytest.approx(3.0)


def test_information_is_the_mutual_information_of_the_channel():
    mechanism, doubt = RandomizedLabels(3, 1, 2), 0.25
    rates = mechanism.response.rates
    channel = np.full((3, 3), (1 - doubt) * rates.zero + doubt / 3)
    np.fill_diagonal(channel, (1 - doubt) * rates.one + doubt / 3)
    assert channel.sum(axis=1) == pytest.approx(1)
    expected = (channel / 3 * np.log(channel * 3)).sum()
    assert answer_information(mechanism, doubt) == pytest.approx(expected)


def test_more_answers_are_planned_until_noise_drowns_each():
    rounds = suggest_rounds(5, 10, "1e-5")

    def said(count):
        return count * answer_information(RandomizedLabels.for_total(5, 1, 10, "1e-5", count))

    assert said(rounds) > max(said(rounds - 1), said(rounds + 1))


def test_importance_asks_about_large_groups_first_and_not_about_known_ones():
    groups, draw = made(), SeededRandomness(0)
    nothing = np.zeros((3, 3))
    assert sizes_of(groups, groups.ask(nothing, CLEAR, True, draw)) == [3]
    largest = int(groups.sizes.argmax())
    known = nothing.copy()
    known[largest, 1] = 8
    assert sizes_of(groups, groups.ask(known, CLEAR, True, draw)) == [2]
    # Without importance those asked about least often, however sure their labels are.
    known[:, 0] += 1
    known[groups.sizes.argmin(), 0] = 0
    assert sizes_of(groups, groups.ask(known, CLEAR, False, draw)) == [1]


def test_doubt_follows_how_well_the_answers_agree():
    groups = made()
    assert groups.doubt(np.zeros((3, 3)), CLEAR) == pytest.approx(HOLDERS_DOUBT, abs=0.051)
    agreeing, contradicting = np.diag([30.0, 30.0, 30.0]), np.full((3, 3), 10.0)
    assert groups.doubt(agreeing, CLEAR) < 0.1
    assert groups.doubt(contradicting, CLEAR) > 0.7
    # Answers that agree as little as their noise lets them say nothing against the holders.
    noisy = RandomizedLabels(3, 1, 1)
    share = noisy.response.rates
    expected = 300 * np.where(np.eye(3) == 1, share.one, share.zero)
    assert groups.doubt(expected, noisy) < 0.15


def test_beliefs_are_moved_by_answers_and_never_certain():
    beliefs = np.tile([1.0, 0.0, 0.0], (6, 1))
    groups = made(beliefs)
    assert groups.sample_chances(np.zeros((3, 3)), CLEAR).argmax(axis=1).tolist() == [0] * 6
    counts = np.zeros((3, 3))
    counts[groups.membership[0], 2] = 12
    assert groups.sample_chances(counts, CLEAR).argmax(axis=1).tolist() == [2, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "beliefs",
    [EVEN[:5], EVEN[:, 0], EVEN[:, :2], EVEN[:, :1], -EVEN, np.zeros((6, 3)), np.full((6, 3), np.nan), "hello"],
    ids=str,
)
def test_beliefs_that_are_no_probabilities_are_refused(beliefs):
    with pytest.raises(InvalidInput, match="beliefs must"):
        made(beliefs)


class Remembering:
    """A global model that remembers its lessons."""

    travels = False

    def __init__(self):
        self.lessons = []

    def begin(self):
        return b""

    def learn(self, model, lesson, seed):
        self.lessons.append(lesson)
        return b"taught"


def coordinator(trainer, rounds, answers=1, teaching=None, groups=None):
    plan = teaching or Teaching(self_training=False)
    return LabelCoordinator(
        PUBLIC, trainer, RandomizedLabels(3, answers, 50 * answers), 2, 1, rounds, "run", None, plan,
        groups=groups or made(),
    )  # fmt: skip


def by_place(ask):
    """Holders who know: 0 below 5, 1 below 15, 2 above."""
    labels = np.digitize(ask.samples.ravel(), [5, 15])
    return [restored(labels, []) for _ in ask.invited]


def test_all_of_a_group_learns_the_answer_once_at_the_end():
    trainer = Remembering()
    release = drive(coordinator(trainer, rounds=3, teaching=Teaching(self_training=False, targets="hard")), by_place)
    assert release.value.learned
    (lesson,) = trainer.lessons
    assert lesson.samples.tolist() == PUBLIC.tolist()
    assert lesson.targets.argmax(axis=1).tolist() == [0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("lost", [no_response, refusal])
def test_a_last_round_without_an_answer_loses_none_of_those_before(lost):
    trainer = Remembering()

    def some(ask):
        return by_place(ask) if ask.request.endswith(("round 0", "round 1")) else [lost() for _ in ask.invited]

    release = drive(coordinator(trainer, rounds=3, teaching=Teaching(self_training=False, targets="hard")), some)
    assert release.value.learned
    assert release.value.model == b"taught"
    assert len(trainer.lessons) == 1


def test_nobody_who_answers_is_no_lesson():
    trainer = Remembering()
    drive(coordinator(trainer, rounds=2), lambda ask: [no_response() for _ in ask.invited])
    assert not trainer.lessons


@pytest.mark.parametrize("more", [{"beliefs": np.ones((4, 2))}, {"beliefs": "hello"}, {"representation": "pca"}])
def test_what_is_for_groups_is_refused_without_them(more):
    with pytest.raises(InvalidInput, match="is for questions about groups"):
        PrivateKT(**more)
    PrivateKT(groups=0, **more)


def test_a_class_that_few_public_samples_have_is_taught_with_the_same_weight():
    trainer = Remembering()
    plan = Teaching(self_training=False, targets="hard", balanced=True)
    drive(coordinator(trainer, rounds=3, teaching=plan), by_place)
    assert trainer.lessons[0].weights.tolist() == pytest.approx([2, 1, 1, 2 / 3, 2 / 3, 2 / 3])


def test_soft_targets_are_the_chances_and_weighted_ones_have_their_lead():
    soft, weighted = Remembering(), Remembering()
    drive(coordinator(soft, rounds=1, teaching=Teaching(self_training=False, targets="soft")), by_place)
    drive(coordinator(weighted, rounds=1), by_place)
    chances = np.sort(soft.lessons[0].targets, axis=1)
    assert chances.sum(axis=1) == pytest.approx(1)
    assert weighted.lessons[0].weights == pytest.approx(chances[:, -1] - chances[:, -2])
    assert np.count_nonzero(weighted.lessons[0].weights > 1e-9) == 3  # the largest group was asked about


def test_more_questions_than_groups_are_refused():
    with pytest.raises(InvalidInput, match="at most the 3 groups, got 4"):
        coordinator(Remembering(), rounds=1, answers=4)


def test_a_run_costs_what_its_answers_cost_and_learns_more_from_them_than_single_samples():
    parts = tacit.digits()
    settings = {
        "method": "privatekt", "model": "logistic", "rounds": 20, "participation": 0.1, "queries_per_round": 1,
        "holders": 40, "classes": range(10), "seed": 3, "delta": "1e-5",
    }  # fmt: skip
    private = (parts.private_samples, parts.private_labels)
    grouped = tacit.distill(private, parts.public_samples, 10, **settings, groups=0)
    single = tacit.distill(private, parts.public_samples, 10, **settings)
    assert float(grouped.guarantee.epsilon) <= 10
    assert grouped.guarantee.epsilon == single.guarantee.epsilon
    right = [np.mean(run.student.predict(parts.test_samples) == parts.test_labels) for run in (grouped, single)]
    assert right[0] > right[1] + 0.15
    assert grouped.recipe["groups"] == 12
