"""How a party's model learns: first its own records, then in every round the consensus (digest) and its own again.

A study knows nothing of where the records come from or what may leave; the holder that owns it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats, Integers
from tacit.methods.fedmd.form import Form
from tacit.methods.fedmd.wire import Feedback, PredictAsk, digest_of

__all__ = ["PartyModel", "Schedule", "Study"]


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
        """One class index a sample."""
        ...


@dataclass(frozen=True)
class Schedule:
    """Epochs of the first training on own records, and of each round's digest and revisit.

    >>> Schedule()
    Schedule(own=20, digest=2, revisit=1)
    """

    own: int = 20
    digest: int = 2
    revisit: int = 1

    def __post_init__(self) -> None:
        for name in ("own", "digest", "revisit"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} epochs must be at least 1, got {getattr(self, name)}")


class Study:
    """A model, the public samples, and how far they have come together.

    Every step is taken once: a question that comes again, because its answer was lost on the way, finds the model
    where the first one left it.
    """

    def __init__(self, model: PartyModel, public: NDArray[Any], schedule: Schedule) -> None:
        self.model = model
        self._public = public
        self._digest = digest_of(public)
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

    def begin(self, samples: NDArray[Any], labels: Integers) -> None:
        """Train on the party's own records, the first time only."""
        if not self._begun:
            self.model.learn(samples, labels, self._schedule.own)
            self._begun = True

    def absorb(self, feedback: Feedback, samples: NDArray[Any], labels: Integers) -> None:
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
            self.absorb(ask.feedback, samples, labels)
        return self.shown(ask.form, ask.rows)

    def shown(self, form: Form, rows: Integers) -> NDArray[Any]:
        """What the model says of public samples: labels, or logits where the form needs them."""
        samples = self._public[rows]
        return self.model.predict(samples) if form.kind == "argmax" else self.model.logits(samples)
