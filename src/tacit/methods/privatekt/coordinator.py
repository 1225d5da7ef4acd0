"""The coordinator, which sees releases only: choose queries, estimate labels without bias, train the global model.

Everything here is post-processing of releases and public samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core import BudgetExceeded, Integers, InvalidInput, NoResponse, Reals, Release, Spend, gather
from tacit.core.randomness import SeededRandomness, permutations
from tacit.mechanisms.local.randomized_response import RandomizedLabels
from tacit.methods.privatekt.groups import Groups
from tacit.methods.privatekt.options import TARGETS, Teaching
from tacit.methods.privatekt.wire import LabelAsk

__all__ = [
    "Answered",
    "GlobalTrainer",
    "LabelCoordinator",
    "Lesson",
    "TaughtModel",
    "TransferState",
    "choose_uncertain",
    "entropies",
    "public_draw",
    "targets_of",
]


@dataclass(frozen=True)
class Answered:
    """One round's answers: the rows or groups asked about, unbiased label fractions, their variances, and counts."""

    rows: Integers  # (answers,)
    shares: Reals  # (answers, classes)
    variances: Reals  # (answers, classes)
    counts: Integers  # (answers, classes), how often each label was answered


@dataclass(frozen=True)
class Lesson:
    """Training data: samples, the class probabilities of each, and their weights."""

    samples: NDArray[Any]  # (n, *shape)
    targets: Reals  # (n, classes)
    weights: Reals  # (n,)

    def balanced(self) -> Lesson:
        """The same, with the same total weight for every class that it teaches.

        >>> lesson = Lesson(np.zeros((3, 1)), np.array([[1.0, 0], [1, 0], [0, 1]]), np.ones(3)).balanced()
        >>> lesson.weights.tolist()
        [0.75, 0.75, 1.5]
        """
        masses = self.targets * self.weights[:, None]
        each = masses.sum(axis=0)
        scaled = masses * np.where(each > 0, each.sum() / ((each > 0).sum() * np.where(each > 0, each, 1)), 0)
        weights = scaled.sum(axis=1)
        return Lesson(self.samples, scaled / np.where(weights > 0, weights, 1)[:, None], weights)

    def __add__(self, other: Lesson) -> Lesson:
        return Lesson(
            np.concatenate([self.samples, other.samples]),
            np.concatenate([self.targets, other.targets]),
            np.concatenate([self.weights, other.weights]),
        )


class GlobalTrainer(Protocol):
    """The coordinator's side of a model. A model is bytes, so that a run can be resumed, and the model sent."""

    @property
    def travels(self) -> bool:
        """Whether local models start from this one, so that it is sent to the holders."""
        ...

    def begin(self) -> bytes:
        """An untrained model."""
        ...

    def learn(self, model: bytes, lesson: Lesson, seed: int) -> bytes:
        """The model after training on a lesson."""
        ...

    def probabilities(self, model: bytes, samples: NDArray[Any]) -> Reals:
        """One row of class probabilities per sample."""
        ...

    def finished(self, model: bytes) -> Any:  # noqa: ANN401
        """The model as a classifier with scikit-learn's interface."""
        ...


def public_draw(seed: int, round_number: int, purpose: str) -> SeededRandomness:
    """Randomness for a public choice of one round: the same if the run is repeated or resumed.

    >>> int(public_draw(0, 3, "rows").words(1)[0]) == int(public_draw(0, 3, "rows").words(1)[0])
    True
    """
    digest = hashlib.sha256(f"{seed} {round_number} {purpose}".encode()).digest()
    return SeededRandomness(int.from_bytes(digest[:16], "little"))


def entropies(probabilities: Reals) -> Reals:
    """The entropy of each sample's predicted classes, in nats.

    >>> entropies(np.array([[1.0, 0.0], [0.5, 0.5]])).round(6).tolist()
    [0.0, 0.693147]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(probabilities > 0, probabilities * np.log(probabilities), 0.0)
    unsure: Reals = np.maximum(-terms.sum(axis=1), 0.0)
    return unsure


def choose_uncertain(entropy: Reals, count: int, randomness: SeededRandomness) -> Integers:
    """``count`` different samples, drawn one after another with probabilities proportional to e^entropy.

    Adding independent Gumbel noise to the exponents and taking the largest is the same draw (Gumbel-top-k). With equal
    entropies it is uniform.

    >>> len(set(choose_uncertain(np.zeros(5), 5, SeededRandomness(1)).tolist()))
    5
    """
    if not 1 <= count <= len(entropy):
        raise InvalidInput(f"answers must be between 1 and the {len(entropy)} public samples, got {count}")
    uniform = (randomness.words(len(entropy)).astype(np.float64) + 0.5) / 2.0**64
    # The largest words round up to 1 in float64; 2^-53 less keeps the logarithm finite and changes no order.
    gumbel = -np.log(-np.log(np.minimum(uniform, 1 - 2.0**-53)))
    return np.argsort(-(entropy + gumbel), kind="stable")[:count].astype(np.int64)


def targets_of(shares: Reals, variances: Reals, kind: str) -> tuple[Reals, Reals]:
    """Training targets and weights from unbiased label fractions, which may be negative.

    ``hard`` is the label with the largest fraction; ``soft`` the nearest probabilities; ``weighted`` the hard label
    with the weight 2Φ(lead/σ) − 1, where σ is the standard deviation of its lead over the second label: about 0 if
    noise explains the lead, about 1 if not.

    >>> targets_of(np.array([[1.2, -0.2, 0.0]]), np.full((1, 3), 0.01), "soft")[0].tolist()
    [[1.0, 0.0, 0.0]]
    """
    if kind not in TARGETS:
        raise InvalidInput(f"targets must be one of {', '.join(TARGETS)}, got {kind!r}")
    if kind == "soft":
        return _nearest_probabilities(shares), np.ones(len(shares))
    best = shares.argmax(axis=1)
    hard = np.eye(shares.shape[1])[best]
    if kind == "hard":
        return hard, np.ones(len(shares))
    from scipy.special import erf

    order = np.argsort(shares, axis=1)[:, -2:]
    (second, first), places = order.T, np.arange(len(shares))
    deviation = np.sqrt(variances[places, first] + variances[places, second])
    lead = shares[places, first] - shares[places, second]
    # 2Φ(x) − 1 = erf(x/√2).
    return hard, np.asarray(erf(lead / np.maximum(deviation, 1e-12) / np.sqrt(2.0)))


def _nearest_probabilities(shares: Reals) -> Reals:
    """The Euclidean projection of every row onto the probability simplex."""
    ordered = -np.sort(-shares, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, shares.shape[1] + 1)
    kept = (ordered > excess).sum(axis=1)
    nearest: Reals = np.maximum(shares - excess[np.arange(len(shares)), kept - 1][:, None], 0.0)
    return nearest


@dataclass(frozen=True)
class TransferState:
    """The state of a run between rounds."""

    model: bytes
    answered: tuple[Release[Answered], ...]  # one for every round with an answer
    round: int  # the number of rounds that are over
    participations: Integers  # (holders,), how often each has answered, or may have paid for a lost answer
    refused: NDArray[np.bool_]  # (holders,), whose accounts cannot pay


@dataclass(frozen=True)
class TaughtModel:
    """The result of a run: the global model, the number of rounds, and the participations of each holder.

    If no answer exceeds the noise, the model predicts the most frequent label, and ``learned`` is False.
    """

    model: bytes
    rounds: int
    participations: Integers  # (holders,)
    refused: NDArray[np.bool_]  # (holders,)
    learned: bool


class LabelCoordinator:
    """Asks ``invited`` of the holders in each of ``rounds`` rounds, no holder more than ``most`` times.

    Holders asked least often come first, in random order. A holder that refuses is not asked again, and the run
    continues with the others. A holder whose answer was lost is asked again, and its possible payment counts.
    ``mechanism`` determines the number of queries per round.
    """

    def __init__(
        self,
        public: NDArray[Any],
        trainer: GlobalTrainer,
        mechanism: RandomizedLabels,
        holders: int,
        invited: int,
        rounds: int,
        request: str,
        most: int | None = None,
        teaching: Teaching | None = None,
        purpose: str = "PrivateKT labels",
        seed: int = 0,
        groups: Groups | None = None,
    ) -> None:
        # What can be asked about: rows of answers name places here.
        self._questions = public if groups is None else groups.questions
        if mechanism.answers > len(self._questions):
            what = "public samples" if groups is None else "groups"
            raise InvalidInput(
                f"queries_per_round must be at most the {len(self._questions)} {what}, got {mechanism.answers}"
            )
        if not 1 <= invited <= holders:
            raise InvalidInput(f"invited must be between 1 and the {holders} holders, got {invited}")
        if rounds < 1:
            raise InvalidInput(f"rounds must be at least 1, got {rounds}")
        self._public = public
        self._trainer = trainer
        self._mechanism = mechanism
        self._holders = holders
        self._invited = invited
        self._rounds = rounds
        self._most = rounds if most is None else most
        self._request = request
        self._teaching = teaching or Teaching()
        self._purpose = purpose
        self._seed = seed
        self._groups = groups
        # The rows of the current round, cached because choosing them evaluates every public sample.
        self._picked: tuple[TransferState, Integers] | None = None

    def begin(self) -> TransferState:
        """An untrained model, before the first round."""
        return self._state(self._trainer.begin())

    def prices(self) -> list[dict[str, Spend]]:
        """The cost of each request for every holder, if all holders answer."""
        state, asked = self._state(b""), [dict[str, Spend]() for _ in range(self._holders)]
        while state.round < self._rounds and len(invited := self._sampled_holders(state)):
            participations = state.participations.copy()
            participations[invited] += 1
            for holder in invited.tolist():
                asked[holder][self._name(state.round)] = self._mechanism.spend
            state = replace(state, participations=participations, round=state.round + 1)
        return asked

    def ask(self, state: TransferState) -> LabelAsk | None:
        """The next round's question; None if the rounds are over or no holder is left."""
        invited = self._sampled_holders(state)
        if state.round >= self._rounds or not len(invited):
            return None
        return LabelAsk(
            samples=self._questions[self._rows(state)],
            weights=state.model if self._trainer.travels else None,
            mechanism=self._mechanism,
            invited=tuple(invited.tolist()),
            purpose=self._purpose,
            request=self._name(state.round),
        )

    def fold(self, state: TransferState, answers: Sequence[Release[Integers | NoResponse | None]]) -> TransferState:
        """The state after a round: who answered, and the model trained on the answers."""
        invited = self._sampled_holders(state)
        if len(answers) != len(invited):
            raise InvalidInput(f"{len(invited)} holders were asked, and there are {len(answers)} answers")
        unable = np.array([answer.value is None for answer in answers])
        given = np.array([answer.value is not None and answer.value is not NoResponse.LOST for answer in answers])
        participations, refused = state.participations.copy(), state.refused.copy()
        participations[invited[~unable]] += 1
        refused[invited[unable]] = True
        rows = self._rows(state)
        after = replace(state, participations=participations, refused=refused, round=state.round + 1)
        if given.any():
            round_answers = gather([answer for answer, kept in zip(answers, given, strict=True) if kept])
            answered = round_answers.map(lambda labels: self._answered(rows, np.array(labels)))
            after = replace(after, answered=(*after.answered, answered))
        # With groups the model is trained once, after the last round, whether or not anybody answered that one.
        learns = bool(given.any()) if self._groups is None else bool(after.answered)
        return replace(after, model=self._taught(after)) if learns and not self._waiting(after) else after

    def _answered(self, rows: Integers, sheets: Integers) -> Answered:
        classes = self._mechanism.classes
        counts = np.array([np.bincount(column, minlength=classes) for column in sheets.T])
        return Answered(rows, *self._mechanism.shares(sheets), counts)

    def _waiting(self, state: TransferState) -> bool:
        """Whether it is too early to train: too few rounds of answers, or groups that no model is needed to choose."""
        if self._groups is not None:
            return state.round < self._rounds
        return len(state.answered) < min(self._teaching.warmup_rounds, self._rounds)

    def result(self, state: TransferState) -> Release[TaughtModel]:
        """The global model with all receipts; a run that ends during warm-up trains on what it has."""
        if not state.answered and state.refused.any():
            raise BudgetExceeded(
                f"{state.refused.sum()} of {self._holders} holders cannot pay for a round, and no other answered"
            )

        def finished(answered: list[Answered]) -> TaughtModel:
            learned = any(targets_of(each.shares, each.variances, self._teaching.targets)[1].any() for each in answered)
            model = state.model
            if not learned:
                model = self._commonest(state, answered)
            elif self._waiting(state):
                model = self._taught(state)
            return TaughtModel(model, state.round, state.participations, state.refused, learned)

        return gather(state.answered).map(finished)

    def _commonest(self, state: TransferState, answered: list[Answered]) -> bytes:
        """A model that predicts the most frequent label of all answers."""
        if not answered:
            return state.model
        rows = np.concatenate([each.rows for each in answered])
        shares = np.sum([each.shares.sum(axis=0) for each in answered], axis=0)
        targets = np.tile(np.eye(len(shares))[shares.argmax()], (len(rows), 1))
        return self._trainer.learn(state.model, Lesson(self._questions[rows], targets, np.ones(len(rows))), self._seed)

    def _state(self, model: bytes) -> TransferState:
        nobody = np.zeros(self._holders, dtype=np.int64)
        return TransferState(model, (), 0, nobody, nobody.astype(bool))

    def _name(self, number: int) -> str:
        return f"{self._request} round {number}"

    def _sampled_holders(self, state: TransferState) -> Integers:
        """The holders of this round: those asked least often, in random order."""
        order = permutations(1, self._holders, public_draw(self._seed, state.round, "guests"))[0]
        able = order[~state.refused[order] & (state.participations[order] < self._most)]
        sampled: Integers = np.sort(able[np.argsort(state.participations[able], kind="stable")][: self._invited])
        return sampled

    def _pool(self, round_number: int, purpose: str) -> Integers:
        count = len(self._public)
        if self._teaching.pool is None or self._teaching.pool >= count:
            return np.arange(count)
        order = permutations(1, count, public_draw(self._seed, round_number, purpose))[0]
        drawn: Integers = order[: max(self._teaching.pool, self._mechanism.answers)]
        return drawn

    def _rows(self, state: TransferState) -> Integers:
        """The public samples of this round, or its groups."""
        if self._picked is None or self._picked[0] is not state:
            self._picked = state, self._chosen(state, public_draw(self._seed, state.round, "rows"))
        return self._picked[1]

    def _chosen(self, state: TransferState, draw: SeededRandomness) -> Integers:
        if self._groups is not None:
            counts = self._counts(self._groups, state)
            return self._groups.ask(counts, self._mechanism, self._teaching.importance, draw)
        pool = self._pool(state.round, "pool")
        unsure = np.zeros(len(pool))
        # The entropy of an untrained model means nothing.
        if self._teaching.importance and len(state.answered) >= self._teaching.warmup_rounds:
            unsure = entropies(self._trainer.probabilities(state.model, self._public[pool]))
        rows: Integers = pool[choose_uncertain(unsure, self._mechanism.answers, draw)]
        return rows

    def _taught(self, state: TransferState) -> bytes:
        """The model after training on the buffered answers and, with self-training, on its confident predictions."""
        plan = self._teaching
        lesson = self._lesson(state) if self._groups is None else self._group_lesson(self._groups, state)
        if plan.balanced:
            lesson = lesson.balanced()
        seed = int(public_draw(self._seed, state.round, "learning").words(1)[0] >> np.uint64(16))
        model = self._trainer.learn(state.model, lesson, seed)
        if not plan.self_training:
            return model
        pool = self._pool(state.round, "own guesses")
        guesses = self._trainer.probabilities(model, self._public[pool])
        sure = np.flatnonzero(guesses.max(axis=1) >= plan.confidence)
        if not len(sure):
            return model
        own = np.eye(guesses.shape[1])[guesses[sure].argmax(axis=1)]
        weight = plan.self_weight * lesson.weights.sum() / len(sure)
        more = Lesson(self._public[pool[sure]], own, np.full(len(sure), weight))
        return self._trainer.learn(model, lesson + more, seed + 1)

    def _lesson(self, state: TransferState) -> Lesson:
        """The samples of the buffered rounds."""
        plan = self._teaching
        kept = state.answered if plan.buffer is None else state.answered[-plan.buffer :]
        rows = np.concatenate([each.value.rows for each in kept])
        shares = np.concatenate([each.value.shares for each in kept])
        variances = np.concatenate([each.value.variances for each in kept])
        return Lesson(self._public[rows], *targets_of(shares, variances, plan.targets))

    def _counts(self, groups: Groups, state: TransferState) -> Reals:
        """The answers about each group so far."""
        counts = np.zeros((len(groups.questions), self._mechanism.classes))
        for each in state.answered:
            np.add.at(counts, each.value.rows, each.value.counts)
        return counts

    def _group_lesson(self, groups: Groups, state: TransferState) -> Lesson:
        """All public samples, each with the class probabilities that the answers about its group give it."""
        chances = groups.sample_chances(self._counts(groups, state), self._mechanism)
        if self._teaching.targets == "soft":
            return Lesson(self._public, chances, np.ones(len(chances)))
        ordered = np.sort(chances, axis=1)
        sure = np.ones(len(chances)) if self._teaching.targets == "hard" else ordered[:, -1] - ordered[:, -2]
        return Lesson(self._public, np.eye(chances.shape[1])[chances.argmax(axis=1)], sure)
