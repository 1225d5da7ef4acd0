"""How a node takes part in FedMD where every message is a new process: what was agreed on is kept, and learned again.

A party's model follows from its records and from what was agreed on in every round so far. The agreements are public
and are kept on the node's disk; the model is made anew from them, and never leaves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.release import Release
from tacit.exchange.node_masking import FolderMemory, Memory
from tacit.exchange.portable import ask_to_bytes, read_ask
from tacit.methods.fedmd.holder import RandomizedParty
from tacit.methods.fedmd.study import PartyModel, Schedule, Study
from tacit.methods.fedmd.wire import Feedback, PredictAsk

__all__ = ["StudyRoom"]

# In place of a round's number: that the node took part in the first one.
BEGUN = "begun"


@dataclass(frozen=True)
class StudyRoom:
    """What a node learns with: an untrained model, the public samples, and a memory of what was agreed on."""

    model: Callable[[], PartyModel]
    public: NDArray[Any]
    memory: Memory | FolderMemory
    schedule: Schedule = Schedule()  # noqa: RUF009

    def study(self) -> Study:
        """A study that has learned nothing yet."""
        return Study(self.model(), self.public, self.schedule)

    def answer(self, ask: PredictAsk, party: RandomizedParty) -> Release[Any]:
        """The party's answer, after it has learned again what was agreed on before."""
        self.keep(ask.request, ask.feedback)
        for number in range(ask.round - 1):
            kept = self.memory.read(_name(ask.request, number))
            if kept is not None:
                party.learn(read_ask(kept))
        release = party.answer(ask)
        if not ask.round:
            self.memory.write(_name(ask.request, BEGUN), b"")
        return release

    def keep(self, request: str, feedback: Feedback | None) -> None:
        """Write down what was agreed on in a round."""
        if feedback is not None:
            self.memory.write(_name(request, feedback.round), ask_to_bytes(feedback))

    def conclude(self, request: str, feedback: Feedback) -> None:
        """Write down what the last round of a run came to, if this node took part in the run.

        Nothing is asked and nothing paid for it, so nobody else may fill this node's disk with it.
        """
        before = BEGUN if not feedback.round else feedback.round - 1
        if self.memory.read(_name(request, before)) is None:
            raise InvalidInput("what was agreed on is of a run in which this node took no part")
        self.keep(request, feedback)


def _name(request: str, number: int | str) -> str:
    # A coordinator names its requests "<run> round <number>"; what belongs to one run lies together.
    run = request.rsplit(" round ", 1)[0]
    return f"{hashlib.sha256(run.encode()).hexdigest()[:32]}-{number}.feedback"
