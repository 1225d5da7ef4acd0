"""How a party's model learns: first its own records, then in every round the consensus (digest) and its own again.

A study knows nothing of where the records come from or what may leave; the holder that owns it does. At a node every
message may be a new process: what was agreed on is public and kept on its disk, and the model is made anew from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from numpy.typing import NDArray

from tacit.core.codec import encode
from tacit.core.errors import InvalidInput
from tacit.core.options import check, option
from tacit.core.protocols import Floats, Integers
from tacit.core.release import Release
from tacit.core.strict_reader import decode_strict
from tacit.methods.fedmd.form import PredictionForm
from tacit.methods.fedmd.wire import Feedback, PredictAsk, array_digest
from tacit.methods.question import QUESTION_BYTES

__all__ = ["ConsensusStore", "PartyModel", "Schedule", "Study"]

# In place of a round's number: up to which one the node has answered in a run, and was paid for.
ANSWERED = "answered"


class PartyModel(Protocol):
    """A model of any kind that can go on learning. Labels are class indices."""

    @property
    def gives_scores(self) -> bool:
        """Whether it says how likely each class is, and not only which one it is."""
        ...

    def learn(self, samples: NDArray[Any], labels: Integers, epochs: int) -> None:
        """Learn from labeled samples of the party's own."""
        ...

    def digest(self, samples: NDArray[Any], targets: Floats, logits: bool, epochs: int) -> None:
        """Move towards the consensus on public samples: probabilities or logits (n, classes)."""
        ...

    def logits(self, samples: NDArray[Any]) -> Floats:
        """One row of logits a sample."""
        ...

    def predict(self, samples: NDArray[Any]) -> Integers:
        """One class index per sample."""
        ...


@dataclass(frozen=True)
class Schedule:
    """Epochs of the first training on own records, and of each round's digest and revisit.

    >>> Schedule()
    Schedule(own=20, digest=2, revisit=1)
    """

    renamed: ClassVar[Mapping[str, str]] = {}

    own: int = option(20, "Epochs on own records before the first round.", least=1, flag="own_epochs")
    digest: int = option(2, "Epochs on the consensus in each round.", least=1, flag="digest_epochs")
    revisit: int = option(1, "Epochs on own records in each round.", least=1, flag="revisit_epochs")

    def __post_init__(self) -> None:
        check(self)


class Study:
    """A model, the public samples, and how far they have come together.

    Every step is taken once: a question that comes again, because its answer was lost on the way, finds the model
    where the first one left it.
    """

    def __init__(self, model: PartyModel, public: NDArray[Any], schedule: Schedule) -> None:
        self.model = model
        self._public = public
        self._digest = array_digest(public)
        self._schedule = schedule
        self._begun = False
        self._absorbed = -1

    def check(self, ask: PredictAsk) -> None:
        """Refuse a question that this model or these public samples cannot answer, before anything is done."""
        if ask.public != self._digest:
            raise InvalidInput("the question is about other public samples than this party has")
        if ask.form.kind != "argmax" and not self.model.gives_scores:
            raise InvalidInput(
                f"{ask.form.kind} was asked for, and this party's model has no predict_proba; ask for argmax"
            )
        self._require_rows(ask.rows)
        if ask.feedback is not None:
            self.check_feedback(ask.feedback, ask.form.classes)

    def check_feedback(self, feedback: Feedback, classes: int) -> None:
        """Refuse an agreement on samples or classes that there are not."""
        self._require_rows(feedback.rows)
        if feedback.targets.shape != (len(feedback.rows), classes):
            raise InvalidInput(
                f"what was agreed on must have a row per sample and a column for each of {classes} classes"
            )

    def _require_rows(self, rows: Integers) -> None:
        if len(rows) and not (rows.min() >= 0 and rows.max() < len(self._public)):
            raise InvalidInput(f"samples must be among the {len(self._public)} public ones")

    def begin(self, samples: NDArray[Any], labels: Integers) -> None:
        """Train on the party's own records, the first time only."""
        if not self._begun:
            self.model.learn(samples, labels, self._schedule.own)
            self._begun = True

    def train_on_consensus(self, feedback: Feedback, samples: NDArray[Any], labels: Integers) -> None:
        """Digest a round's consensus, then revisit the party's own records; each round once."""
        self.begin(samples, labels)
        if feedback.round > self._absorbed:
            if len(feedback.rows):
                shown = self._public[feedback.rows]
                self.model.digest(shown, feedback.targets, feedback.logits, self._schedule.digest)
            self.model.learn(samples, labels, self._schedule.revisit)
            self._absorbed = feedback.round

    def predictions(self, ask: PredictAsk, samples: NDArray[Any], labels: Integers) -> NDArray[Any]:
        """Labels (q,), or logits (q, classes), of the samples that are asked about, after learning what came along."""
        self.begin(samples, labels)
        if ask.feedback is not None:
            self.train_on_consensus(ask.feedback, samples, labels)
        return self.shown(ask.form, ask.rows)

    def shown(self, form: PredictionForm, rows: Integers) -> NDArray[Any]:
        """What the model says of public samples: labels, or logits where the form needs them."""
        samples = self._public[rows]
        return self.model.predict(samples) if form.kind == "argmax" else self.model.logits(samples)


class Storage(Protocol):
    """Bytes under names that a node keeps between messages."""

    def held(self, name: str) -> AbstractContextManager[None]:
        """Nobody else reads or writes what has this name meanwhile."""
        ...

    def read(self, name: str) -> bytes | None:
        """What was written under a name."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write something down."""
        ...


@dataclass(frozen=True)
class ConsensusStore:
    """What a node learns with: an untrained model, the public samples, and a memory of what was agreed on."""

    model: Callable[[], PartyModel]
    public: NDArray[Any]
    memory: Storage
    schedule: Schedule = Schedule()

    def study(self) -> Study:
        """A study that has learned nothing yet."""
        return Study(self.model(), self.public, self.schedule)

    def answer(self, ask: PredictAsk, party: Callable[[PredictAsk, Sequence[Feedback]], Release[Any]]) -> Release[Any]:
        """The party's answer, after it has learned again what was agreed on before."""
        found = [self.memory.read(_name(ask.request, number)) for number in range(ask.round - 1)]
        release = party(ask, [_read(kept) for kept in found if kept is not None])
        # Kept once it is paid for: nobody fills this node's disk for nothing.
        self.keep(ask.request, ask.feedback)
        name = _name(ask.request, ANSWERED)
        with self.memory.held(name):
            self.memory.write(name, str(max(ask.round, self._answered(ask.request))).encode())
        return release

    def _answered(self, request: str) -> int:
        kept = self.memory.read(_name(request, ANSWERED))
        return -1 if kept is None else int(kept)

    def keep(self, request: str, feedback: Feedback | None) -> None:
        """Write down what was agreed on in a round."""
        if feedback is not None:
            self.memory.write(_name(request, feedback.round), encode({"ask": feedback.name, **feedback.fields()}))

    def conclude(self, request: str, feedback: Feedback) -> None:
        """Write down what the last round of a run came to, if this node answered in that round.

        Nothing is asked and nothing paid for it, so nobody may fill this node's disk with rounds that there were not.
        """
        if feedback.round > self._answered(request):
            raise InvalidInput("what was agreed on is of a round in which this node took no part")
        self.keep(request, feedback)


def _read(kept: bytes) -> Feedback:
    fields = decode_strict(kept, QUESTION_BYTES, "feedback")
    fields.one_of("ask", [Feedback.name])
    feedback = Feedback.read(fields)
    fields.done()
    return feedback


def _name(request: str, number: int | str) -> str:
    # A coordinator names its requests "<run> round <number>"; what belongs to one run lies together.
    run = request.rsplit(" round ", 1)[0]
    return f"{hashlib.sha256(run.encode()).hexdigest()[:32]}-{number}.feedback"
