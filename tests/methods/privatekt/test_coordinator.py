"""What is asked, of whom, and what the answers teach; each helper on and off."""

import itertools

import numpy as np
import pytest

from tacit.core.account import Ceiling
from tacit.core.errors import BudgetExceeded, InvalidInput
from tacit.core.randomness import SeededRandomness
from tacit.core.release import no_response, refusal, restored
from tacit.mechanisms.local.randomized_response import RandomizedLabels
from tacit.methods.privatekt.coordinator import (
    LabelCoordinator,
    Lesson,
    Teaching,
    choose_uncertain,
    entropies,
    targets_of,
)
from tacit.runs.drive import drive

PUBLIC = np.arange(12.0)[:, None] % 3


class Listening:
    """A global model that only remembers its lessons, and is as sure of each sample as it is told to be."""

    travels = True

    def __init__(self, sure=None):
        self.lessons = []
        self.sure = np.full(len(PUBLIC), 0.4) if sure is None else sure

    def begin(self):
        return b"0"

    def learn(self, model, lesson, seed):
        self.lessons.append(lesson)
        return b"%d" % (int(model) + 1)

    def probabilities(self, model, samples):
        places = [int(np.flatnonzero((each == PUBLIC).all(axis=1))[0]) for each in samples]
        best = self.sure[places]
        return np.stack([best, (1 - best) / 2, (1 - best) / 2], axis=1)

    def finished(self, model):
        return model


def taught(**changes):
    """Lessons from the first round on."""
    return Teaching(**({"warmup_rounds": 1} | changes))


def coordinator(trainer=None, holders=4, invited=2, rounds=6, teaching=None, most=None, answers=2, epsilon=600, seed=0):
    return LabelCoordinator(
        PUBLIC, trainer or Listening(), RandomizedLabels(3, answers, epsilon), holders, invited, rounds, "run", most,
        teaching or taught(), seed=seed,
    )  # fmt: skip


def played(made, cohort):
    asks = []

    def exchange(ask):
        asks.append(ask)
        return cohort.answer(ask)

    return drive(made, exchange), asks


def test_everybody_is_asked_equally_often_and_never_more_than_allowed(make):
    cohort, _ = make.cohort([Ceiling(10**6)] * 4)
    release, asks = played(coordinator(), cohort)
    assert release.value.participations.tolist() == [3, 3, 3, 3]
    assert len(release.receipts) == 12
    assert len({ask.invited for ask in asks}) > 2
    assert all(len(ask.samples) == ask.mechanism.answers == 2 for ask in asks)
    release, asks = played(coordinator(most=1, rounds=6), make.cohort([Ceiling(10**6)] * 4)[0])
    assert (release.value.participations.tolist(), len(asks)) == ([1, 1, 1, 1], 2)


def test_the_run_goes_on_without_exhausted_holders(make):
    cohort, ledger = make.cohort([Ceiling(600), Ceiling(10**6), Ceiling(1), Ceiling(1200)])
    release, asks = played(coordinator(rounds=10), cohort)
    assert release.value.participations.tolist()[0] == 1
    assert release.value.participations.tolist()[2:] == [0, 2]
    assert release.value.refused.tolist() == [True, False, True, True]
    assert release.value.rounds == 10
    # Nobody is asked again after a refusal.
    assert sum(2 in ask.invited for ask in asks) == 1
    assert [ledger.balance(f"h{place}").payments for place in range(4)] == release.value.participations.tolist()


def test_the_run_ends_when_nobody_is_left(make):
    trainer = Listening()
    with pytest.raises(BudgetExceeded, match="4 of 4 holders cannot pay for a round"):
        played(coordinator(trainer), make.cohort([Ceiling(1)] * 4)[0])
    assert trainer.lessons == []
    # Who was lost says nothing of an account.
    release = drive(coordinator(trainer), lambda ask: [no_response() for _ in ask.invited])
    assert (release.receipts, trainer.lessons, release.value.learned) == ((), [], False)


def test_accounts_that_run_dry_before_the_first_lesson_have_not_paid_for_nothing(make):
    trainer = Listening()
    plan = taught(warmup_rounds=5, self_training=False)
    release, _ = played(coordinator(trainer, teaching=plan), make.cohort([Ceiling(600)] * 4)[0])
    assert (len(release.receipts), release.value.learned, release.value.model) == (4, True, b"1")
    assert [len(lesson.samples) for lesson in trainer.lessons] == [4]
    # Where there was a lesson in time there is none at the end.
    plan = taught(warmup_rounds=2, self_training=False)
    release, _ = played(coordinator(trainer, teaching=plan), make.cohort([Ceiling(600)] * 4)[0])
    assert release.value.model == b"1"


def test_answers_that_contradict_each_other_teach_the_commonest_label(make):
    trainer = Listening()
    made = coordinator(trainer, holders=2, rounds=3, teaching=taught(self_training=False))
    asked = []

    def disagreeing(ask):
        asked.append(ask.samples)
        # Two holders say 2 and 1 of every sample, but in the last round both say 1.
        said = (1, 1) if len(asked) == 3 else (2, 1)
        return [restored(np.full(2, label), []) for label in said]

    release = drive(made, disagreeing)
    assert release.value.learned
    asked.clear(), trainer.lessons.clear()
    release = drive(coordinator(trainer, holders=2, rounds=2, teaching=taught(self_training=False)), disagreeing)
    assert not release.value.learned
    last = trainer.lessons[-1]
    assert last.samples.tolist() == np.concatenate(asked).tolist()
    assert set(last.targets.argmax(axis=1)) <= {1, 2}
    assert (last.weights == 1).all()


def test_answers_teach_what_the_holders_say(make):
    trainer = Listening()
    played(
        coordinator(trainer, teaching=taught(targets="hard", self_training=False)),
        make.cohort([Ceiling(10**6)] * 4)[0],
    )
    lesson = trainer.lessons[-1]
    assert len(lesson.samples) == 12
    assert (lesson.targets.argmax(axis=1) == lesson.samples[:, 0]).all()
    assert (lesson.weights == 1).all()


@pytest.mark.parametrize(("buffer", "learned"), [(1, [2, 2, 2, 2]), (2, [2, 4, 4, 4]), (None, [2, 4, 6, 8])])
def test_the_buffer_keeps_the_last_rounds(make, buffer, learned):
    trainer = Listening()
    plan = taught(buffer=buffer, self_training=False)
    played(coordinator(trainer, rounds=4, teaching=plan), make.cohort([Ceiling(10**6)] * 4)[0])
    assert [len(lesson.samples) for lesson in trainer.lessons] == learned


@pytest.mark.parametrize(("warmup", "rounds", "learned"), [(3, 5, [6, 8, 10]), (9, 2, [4])])
def test_the_first_lesson_waits_for_some_answers(make, warmup, rounds, learned):
    trainer = Listening()
    plan = taught(warmup_rounds=warmup, self_training=False)
    played(coordinator(trainer, rounds=rounds, teaching=plan), make.cohort([Ceiling(10**6)] * 4)[0])
    assert [len(lesson.samples) for lesson in trainer.lessons] == learned


def test_self_training_adds_what_the_model_is_sure_of(make):
    sure = np.full(len(PUBLIC), 0.4)
    sure[0] = 0.95
    for on, lessons in ((True, 4), (False, 2)):
        trainer = Listening(sure)
        plan = taught(self_training=on, confidence=0.9, self_weight=2.0)
        played(coordinator(trainer, rounds=2, teaching=plan), make.cohort([Ceiling(10**6)] * 4)[0])
        assert len(trainer.lessons) == lessons
    trainer = Listening(sure)
    played(coordinator(trainer, rounds=1, teaching=taught(self_weight=2.0)), make.cohort([Ceiling(10**6)] * 4)[0])
    answers, both = trainer.lessons
    own = len(both.samples) - len(answers.samples)
    assert (both.samples[-own:] == 0).all()
    assert (both.targets[-own:].argmax(axis=1) == 0).all()
    assert both.weights[-own:].sum() == pytest.approx(2 * answers.weights.sum())
    # A model that is sure of nothing has nothing to teach itself.
    trainer = Listening()
    played(coordinator(trainer, rounds=2), make.cohort([Ceiling(10**6)] * 4)[0])
    assert len(trainer.lessons) == 2


def test_importance_asks_about_what_the_model_is_unsure_of(make):
    sure = np.where(PUBLIC[:, 0] == 2, 0.34, 1.0)
    asked = {}
    for on in (True, False):
        plan = taught(importance=on, self_training=False)
        made = coordinator(Listening(sure), rounds=200, answers=1, epsilon=300, teaching=plan)
        asks = played(made, make.cohort([Ceiling(10**9)] * 4)[0])[1]
        asked[on] = np.mean([ask.samples[0, 0] == 2 for ask in asks])
    # One third of the samples have entropy ln 3 and the others none: 3/(3 + 2) against 1/3.
    assert asked[True] == pytest.approx(0.6, abs=0.12)
    assert asked[False] == pytest.approx(1 / 3, abs=0.12)


def test_the_draw_follows_the_exponential_of_the_entropy():
    unsure = np.log(np.array([1.0, 2.0, 5.0]))
    drawn = [tuple(choose_uncertain(unsure, 2, SeededRandomness(seed))) for seed in range(4000)]
    for first, second in itertools.permutations(range(3), 2):
        weights = np.exp(unsure)
        true = weights[first] / 8 * weights[second] / (8 - weights[first])
        assert drawn.count((first, second)) / 4000 == pytest.approx(true, abs=0.04)
    assert entropies(np.array([[0.5, 0.25, 0.25]]))[0] == pytest.approx(1.5 * np.log(2))


def test_targets():
    shares, variances = np.array([[0.7, 0.5, -0.2], [0.4, 0.4, 0.2]]), np.full((2, 3), 0.02)
    hard, weights = targets_of(shares, variances, "hard")
    assert (hard.argmax(axis=1).tolist(), weights.tolist()) == ([0, 0], [1, 1])
    soft, _ = targets_of(shares, variances, "soft")
    assert soft == pytest.approx(np.array([[0.6, 0.4, 0.0], [0.4, 0.4, 0.2]]))
    _, weights = targets_of(shares, variances, "weighted")
    # A lead of one deviation happens by chance to 32 % of pairs; no lead says nothing.
    assert weights == pytest.approx([0.682689, 0.0], abs=1e-6)


@pytest.mark.parametrize("pool", [None, 3])
def test_the_same_seed_asks_the_same(make, pool):
    def once(seed):
        made = coordinator(seed=seed, teaching=taught(pool=pool))
        return [
            (ask.invited, ask.samples.tolist(), ask.question)
            for ask in played(made, make.cohort([Ceiling(10**6)] * 4)[0])[1]
        ]

    assert once(1) == once(1)
    assert once(1) != once(2)


def test_a_round_can_be_folded_by_another_coordinator_than_asked(make):
    first, second = coordinator(), coordinator()
    cohort, _ = make.cohort([Ceiling(10**6)] * 4)
    state = first.begin()
    answers = cohort.answer(first.ask(state))
    assert (
        second.fold(state, answers).answered[0].value.rows.tolist()
        == first.fold(state, answers).answered[0].value.rows.tolist()
    )


def test_answers_must_be_as_many_as_were_asked():
    made = coordinator()
    with pytest.raises(InvalidInput, match="2 holders were asked, and there are 1 answers"):
        made.fold(made.begin(), [refusal()])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"answers": 13}, "queries_per_round must be at most the 12 public samples"),
        ({"invited": 5}, "invited must be between 1 and the 4 holders"),
        ({"invited": 0}, "invited must be"),
        ({"rounds": 0}, "rounds must be at least 1"),
    ],
)
def test_bad_settings_are_named(change, named):
    with pytest.raises(InvalidInput, match=named):
        coordinator(**change)


@pytest.mark.parametrize(
    "change",
    [
        {"buffer": 0},
        {"confidence": 0.0},
        {"self_weight": -1.0},
        {"targets": "mixed"},
        {"pool": 0},
        {"warmup_rounds": 0},
    ],
)
def test_bad_teaching_is_named(change):
    with pytest.raises(InvalidInput, match=next(iter(change))):
        taught(**change)


def test_lessons_add_up():
    one = Lesson(np.zeros((1, 2)), np.eye(2)[:1], np.ones(1))
    assert (one + one).samples.shape == (2, 2)
    assert (one + one).targets.shape == (2, 2)
