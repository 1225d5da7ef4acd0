"""The side that sees records: train a local model, label what is asked, and answer through the gate only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from numpy.typing import NDArray

from tacit.core.errors import BudgetExceeded, InvalidInput
from tacit.core.protocols import Integers
from tacit.core.release import Release, refusal
from tacit.core.sensitivity import ANYTHING
from tacit.mechanisms.local.answer_sheet import AnswerSheet
from tacit.methods.privatekt.wire import LabelAsk
from tacit.private.gate import Gate
from tacit.private.records import Private, Records, combine

__all__ = ["LabelCohort", "LabelHolder", "LocalLearner"]


class LocalLearner(Protocol):
    """The holders' side of a model."""

    @property
    def classes(self) -> int:
        """How many classes there are."""
        ...

    def prepare(self, samples: NDArray[Any], labels: Integers) -> Any:  # noqa: ANN401
        """What is kept of a holder's records between rounds: the records ready for training, or a trained model."""
        ...

    def labels(self, prepared: Sequence[Any], weights: bytes | None, asked: NDArray[Any], seed: int) -> list[Integers]:
        """The labels that the local models of these holders give the samples asked about."""
        ...


class LabelHolder:
    """One holder with its records, its account and its way to learn.

    Its answers are randomized as a whole, so the account is protected against any change of the holder's records,
    not only of one of them. What it trains never leaves it.
    """

    def __init__(self, records: Private[Records], gate: Gate, learner: LocalLearner) -> None:
        require_labeled(records, learner.classes)
        self._records = records
        self._gate = gate
        self._learner = learner
        self._prepared: Private[Any] | None = None

    def answer(self, ask: LabelAsk) -> Release[Integers | None]:
        """Randomized labels, paid for; a refusal when the account cannot pay."""
        return answer_together([self], ask)[0]

    @property
    def learner(self) -> LocalLearner:
        """How this holder learns."""
        return self._learner

    def prepared(self) -> Private[Any]:
        """The records in the form its learner keeps them, made at the first question."""
        if self._prepared is None:
            self._prepared = self._records.map(lambda each: self._learner.prepare(each.samples, each.labels))
        return self._prepared

    def release(self, labels: Private[Integers], ask: LabelAsk) -> Release[Integers | None]:
        """What the sheet makes of the labels, or a refusal: nothing was charged then, and nothing sampled."""
        try:
            return self._gate.release(labels, ANYTHING, ask.sheet, ask.purpose, ask.request, ask.question)
        except BudgetExceeded:
            return refusal()


class LabelCohort:
    """Many holders in one process, each with records and an account of its own, whose models train together.

    Only the arithmetic is shared: every holder's model sees that holder's records alone.
    """

    def __init__(self, holders: Sequence[LabelHolder]) -> None:
        if not holders:
            raise InvalidInput("a cohort needs at least one holder")
        if any(each.learner is not holders[0].learner for each in holders):
            raise InvalidInput("holders whose models train together need the same learner")
        self._holders = list(holders)

    def answer(self, ask: LabelAsk) -> list[Release[Integers | None]]:
        """The answers of those who are invited, in that order."""
        return answer_together([self._holders[place] for place in ask.invited], ask)


def answer_together(holders: Sequence[LabelHolder], ask: LabelAsk) -> list[Release[Integers | None]]:
    """Train all local models at once, then let each holder pay for and randomize its own answers."""
    learner = holders[0].learner
    require_sheet(ask, learner.classes)
    with telling_nothing():
        prepared = [holder.prepared() for holder in holders]
        labels = combine(prepared, lambda parts: learner.labels(parts, ask.weights, ask.samples, ask.seed))
    return [holder.release(labels.map(partial(_one, place)), ask) for place, holder in enumerate(holders)]


def _one(place: int, labels: list[Integers]) -> Integers:
    return labels[place]


def require_sheet(ask: LabelAsk, classes: int) -> None:
    """Refuse a question whose noise was not made for it: another number of answers, of classes, or another mechanism.

    Whoever asks could bring a mechanism that claims to cost nothing.
    """
    if type(ask.sheet) is not AnswerSheet:
        raise InvalidInput(f"this holder answers through AnswerSheet only, not {type(ask.sheet).__name__}")
    if len(ask.samples) != ask.sheet.answers:
        raise InvalidInput(
            f"the noise is for {ask.sheet.answers} answers and {len(ask.samples)} samples are asked about; "
            "nothing was charged"
        )
    if ask.sheet.classes != classes:
        raise InvalidInput(f"the sheet has {ask.sheet.classes} classes, this holder's records {classes}")


def require_labeled(records: Private[Records], classes: int) -> None:
    """Refuse records that cannot teach a model. The holder's owner reads this, not who asks."""

    def check(each: Records) -> None:
        if not len(each.samples):
            raise InvalidInput("a holder without records has nothing to answer from; leave it out")
        if each.labels.min() < 0 or each.labels.max() >= classes:
            raise InvalidInput(f"labels must be class indices in [0, {classes - 1}]")

    records.map(check)


@contextmanager
def telling_nothing() -> Iterator[None]:
    """Work on records whose failure must not say what was in them: an error is a message to whoever asked."""
    try:
        yield
    except Exception:
        raise InvalidInput(
            "the records do not fit the question (its features, its weights or its size); nothing was charged"
        ) from None
