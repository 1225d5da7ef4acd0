"""The side that sees releases only: pick samples to ask about, read the answers without bias, teach the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.core.randomness import permutations
from tacit.core.release import Release, Silence, gather
from tacit.mechanisms.local.answer_sheet import AnswerSheet
from tacit.methods.privatekt.knowledge import (
    TARGETS,
    Answered,
    Learner,
    Lesson,
    choose_uncertain,
    entropies,
    public_draw,
    targets_of,
)
from tacit.methods.privatekt.wire import LabelAsk

__all__ = ["LabelCoordinator", "Taught", "Teaching", "TransferState"]


@dataclass(frozen=True)
class Teaching:
    """How the global model learns from answers; each of the three helpers can be switched off.

    ``importance`` picks uncertain samples rather than any. ``buffer`` is for how many rounds answers are learned
    again (1 switches it off, None never forgets). ``self_training`` adds public samples of which the model is at
    least ``confidence`` sure, its own guess as the label; together they count ``trust`` times as much as the answers.
    ``targets`` are hard, soft or weighted. ``pool`` bounds how many public samples the model looks at in a round,
    drawn anew each time. ``waiting`` is how many rounds of answers are collected before the first lesson: a network
    that is taught two labels says nothing else any more, and so do the local ones that start from it.
    """

    importance: bool = True
    buffer: int | None = 25
    self_training: bool = True
    confidence: float = 0.9
    trust: float = 1.0
    targets: str = "weighted"
    pool: int | None = None
    waiting: int = 5

    def __post_init__(self) -> None:
        allowed = {
            "buffer": self.buffer is None or self.buffer >= 1,
            "confidence": 0 < self.confidence <= 1,
            "trust": 0 < self.trust < math.inf,
            "pool": self.pool is None or self.pool >= 1,
            "waiting": self.waiting >= 1,
        }
        for name, fine in allowed.items():
            if not fine:
                raise InvalidInput(f"{name} is out of range: {getattr(self, name)}")
        if self.targets not in TARGETS:
            raise InvalidInput(f"targets must be one of {', '.join(TARGETS)}, got {self.targets!r}")


@dataclass(frozen=True)
class TransferState:
    """All that a run remembers between rounds."""

    model: bytes
    answered: tuple[Release[Answered], ...]  # one for every round in which somebody answered
    turn: int  # rounds that are over
    taken: Integers  # (holders,), how often each has answered, or may have paid for an answer that was lost
    refused: NDArray[np.bool_]  # (holders,), whose accounts are spent


@dataclass(frozen=True)
class Taught:
    """What a run produced: the global model, how many rounds were asked, and how often each holder was and paid."""

    model: bytes
    rounds: int
    taken: Integers  # (holders,)
    refused: NDArray[np.bool_]  # (holders,)


class LabelCoordinator:
    """Asks ``rounds`` times, each time ``invited`` of the holders, nobody more than ``most`` times.

    Those asked least often so far come first, in random order. A holder that refuses is not asked again, and the run
    goes on with the others until none is left. One that is lost is asked again, and what it may have paid counts.
    ``sheet`` alone says how many samples a round asks about.
    """

    def __init__(
        self,
        public: NDArray[Any],
        learner: Learner,
        sheet: AnswerSheet,
        holders: int,
        invited: int,
        rounds: int,
        request: str,
        most: int | None = None,
        teaching: Teaching | None = None,
        purpose: str = "PrivateKT labels",
        seed: int = 0,
    ) -> None:
        if sheet.answers > len(public):
            raise InvalidInput(f"answers must be at most the {len(public)} public samples, got {sheet.answers}")
        if not 1 <= invited <= holders:
            raise InvalidInput(f"invited must be between 1 and the {holders} holders, got {invited}")
        if rounds < 1:
            raise InvalidInput(f"rounds must be at least 1, got {rounds}")
        self._public = public
        self._learner = learner
        self._sheet = sheet
        self._holders = holders
        self._invited = invited
        self._rounds = rounds
        self._most = rounds if most is None else most
        self._request = request
        self._teaching = teaching or Teaching()
        self._purpose = purpose
        self._seed = seed
        # The rows of the round that is being asked, kept because picking them looks at every public sample.
        self._picked: tuple[TransferState, Integers] | None = None

    def begin(self) -> TransferState:
        """An untrained model, and nothing asked."""
        nobody = np.zeros(self._holders, dtype=np.int64)
        return TransferState(self._learner.begin(), (), 0, nobody, nobody.astype(bool))

    def ask(self, state: TransferState) -> LabelAsk | None:
        """The next round's question, until the rounds are over or nobody is left to answer."""
        invited = self._guests(state)
        if state.turn >= self._rounds or not len(invited):
            return None
        return LabelAsk(
            samples=self._public[self._rows(state)],
            weights=state.model if self._learner.travels else None,
            sheet=self._sheet,
            invited=tuple(invited.tolist()),
            purpose=self._purpose,
            request=f"{self._request} round {state.turn}",
        )

    def fold(self, state: TransferState, answers: Sequence[Release[Integers | Silence | None]]) -> TransferState:
        """The state after a round: who answered, and a model that has learned from it."""
        invited = self._guests(state)
        if len(answers) != len(invited):
            raise InvalidInput(f"{len(invited)} holders were asked and {len(answers)} answers came")
        unable = np.array([answer.value is None for answer in answers])
        given = np.array([answer.value is not None and answer.value is not Silence.LOST for answer in answers])
        taken, refused = state.taken.copy(), state.refused.copy()
        taken[invited[~unable]] += 1
        refused[invited[unable]] = True
        rows = self._rows(state)
        after = replace(state, taken=taken, refused=refused, turn=state.turn + 1)
        if not given.any():
            return after
        round_answers = gather([answer for answer, kept in zip(answers, given, strict=True) if kept])
        answered = round_answers.map(lambda sheets: Answered(rows, *self._sheet.shares(np.array(sheets))))
        after = replace(after, answered=(*after.answered, answered))
        waiting = len(after.answered) < min(self._teaching.waiting, self._rounds)
        return after if waiting else replace(after, model=self._taught(after))

    def result(self, state: TransferState) -> Release[Taught]:
        """The global model, with every receipt that paid for it."""
        return gather(state.answered).map(lambda _: Taught(state.model, state.turn, state.taken, state.refused))

    def _guests(self, state: TransferState) -> Integers:
        """The holders of this round: those asked least often, in random order."""
        order = permutations(1, self._holders, public_draw(self._seed, state.turn, "guests"))[0]
        able = order[~state.refused[order] & (state.taken[order] < self._most)]
        guests: Integers = np.sort(able[np.argsort(state.taken[able], kind="stable")][: self._invited])
        return guests

    def _pool(self, turn: int, purpose: str) -> Integers:
        count = len(self._public)
        if self._teaching.pool is None or self._teaching.pool >= count:
            return np.arange(count)
        order = permutations(1, count, public_draw(self._seed, turn, purpose))[0]
        drawn: Integers = order[: max(self._teaching.pool, self._sheet.answers)]
        return drawn

    def _rows(self, state: TransferState) -> Integers:
        """The public samples of this round."""
        if self._picked is None or self._picked[0] is not state:
            pool = self._pool(state.turn, "pool")
            unsure = np.zeros(len(pool))
            # Before the first lesson the model knows nothing, and neither does its entropy.
            if self._teaching.importance and len(state.answered) >= self._teaching.waiting:
                unsure = entropies(self._learner.probabilities(state.model, self._public[pool]))
            draw = public_draw(self._seed, state.turn, "rows")
            self._picked = state, pool[choose_uncertain(unsure, self._sheet.answers, draw)]
        return self._picked[1]

    def _taught(self, state: TransferState) -> bytes:
        """The model after distilling the buffer and, if asked for, training itself on what it is sure of."""
        plan = self._teaching
        kept = state.answered if plan.buffer is None else state.answered[-plan.buffer :]
        rows = np.concatenate([each.value.rows for each in kept])
        shares = np.concatenate([each.value.shares for each in kept])
        variances = np.concatenate([each.value.variances for each in kept])
        lesson = Lesson(self._public[rows], *targets_of(shares, variances, plan.targets))
        seed = int(public_draw(self._seed, state.turn, "learning").words(1)[0] >> np.uint64(16))
        model = self._learner.learn(state.model, lesson, seed)
        if not plan.self_training:
            return model
        pool = self._pool(state.turn, "own guesses")
        guesses = self._learner.probabilities(model, self._public[pool])
        sure = np.flatnonzero(guesses.max(axis=1) >= plan.confidence)
        if not len(sure):
            return model
        own = np.eye(guesses.shape[1])[guesses[sure].argmax(axis=1)]
        weight = plan.trust * lesson.weights.sum() / len(sure)
        more = Lesson(self._public[pool[sure]], own, np.full(len(sure), weight))
        return self._learner.learn(model, lesson + more, seed + 1)
