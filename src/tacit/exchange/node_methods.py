"""Which holder answers which question at a node: one place that knows every method's words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tacit.core.errors import InvalidInput
from tacit.core.release import Release
from tacit.exchange.node_study import StudyRoom
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.methods.fedmd import wire as fedmd
from tacit.methods.fedmd.holder import RandomizedParty, VotingParty
from tacit.methods.pate.holder import TeacherHolder
from tacit.methods.pate.wire import TeacherAsk
from tacit.methods.privatekt import wire as privatekt
from tacit.methods.privatekt.holder import LabelHolder, LocalLearner
from tacit.methods.privatekt.models import Learning, models
from tacit.methods.rknn import wire as rknn
from tacit.methods.rknn.holder import CURATOR_MECHANISMS, VoteCrowd, VoteHolder
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.students.weighted import forest, logistic

__all__ = ["METHODS", "Desk", "answer_of", "fewest", "mechanism_of", "method_of", "names_of"]

METHODS: dict[type, str] = {
    rknn.VoteAsk: "rknn",
    privatekt.LabelAsk: "privatekt",
    fedmd.PredictAsk: "fedmd",
    fedmd.VoteAsk: "fedmd",
    TeacherAsk: "pate",
}
ESTIMATORS: dict[str, Callable[[], Any]] = {"logistic": logistic, "forest": forest}


@dataclass(frozen=True)
class Desk:
    """All that a node answers one question from: its classes, its records, a gate of its own, and how it learns."""

    classes: tuple[str, ...]
    records: Private[Records]
    gate: Gate
    model: Any = "logistic"
    room: StudyRoom | None = None


def method_of(ask: Any) -> str:  # noqa: ANN401
    """The method that a question belongs to."""
    found = METHODS.get(type(ask))
    if found is None:
        raise InvalidInput(f"a {type(ask).__name__} is no question of a known method")
    return found


def mechanism_of(ask: Any) -> str:  # noqa: ANN401
    """The name of the mechanism that a question wants its answer to go through."""
    return type(ask.sheet if isinstance(ask, privatekt.LabelAsk) else ask.mechanism).__name__


def fewest(ask: Any, participants: int) -> int:  # noqa: ANN401
    """Among how many an answer is hidden at least: a masked sum is opened with its threshold already."""
    mechanism = getattr(ask, "mechanism", None)
    return min(participants, mechanism.threshold) if isinstance(mechanism, DistributedLaplace) else participants


def names_of(ask: Any) -> tuple[str, ...] | None:  # noqa: ANN401
    """The classes that a question names; nothing where it only counts them."""
    return ask.names if isinstance(ask, rknn.VoteAsk | TeacherAsk) else None


def answer_of(ask: Any, desk: Desk) -> Release[Any]:  # noqa: ANN401
    """The answer of this node's own holder for the question's method."""
    match ask:
        case rknn.VoteAsk():
            side = VoteHolder if isinstance(ask.mechanism, CURATOR_MECHANISMS) else VoteCrowd
            return side([desk.records], desk.gate).answer(ask)
        case TeacherAsk():
            return TeacherHolder([desk.records], desk.gate, _estimator(desk)).answer(ask)
        case privatekt.LabelAsk():
            return LabelHolder(desk.records, desk.gate, _learner(ask, desk)).answer(ask)
        case fedmd.VoteAsk():
            _require_classes(ask.classes, desk)
            return VotingParty(desk.records, desk.gate, _room(desk).study()).answer(ask)
        case fedmd.PredictAsk():
            _require_classes(ask.form.classes, desk)
            room = _room(desk)
            return room.answer(ask, RandomizedParty(desk.records, desk.gate, room.study()))
        case _:
            raise InvalidInput("no question of a known method")


def _estimator(desk: Desk) -> Callable[[], Any]:
    if desk.model not in ESTIMATORS:
        raise InvalidInput(f"a teacher is one of {', '.join(ESTIMATORS)}; this node is set to {desk.model!r}")
    return ESTIMATORS[desk.model]


def _learner(ask: privatekt.LabelAsk, desk: Desk) -> LocalLearner:
    """The local model: a classifier by its name, or the network whose weights came with the question."""
    import numpy as np

    model = ESTIMATORS[desk.model]() if desk.model in ESTIMATORS else desk.model
    return models(model, None, ask.samples, np.array(desk.classes), Learning())[1]


def _room(desk: Desk) -> StudyRoom:
    if desk.room is None:
        raise InvalidInput("this node has no public samples to take part in FedMD with")
    return desk.room


def _require_classes(count: int, desk: Desk) -> None:
    if count != len(desk.classes):
        raise InvalidInput(f"the question is about {count} classes, this node knows {len(desk.classes)}")
