"""The parties' models by name, and their training: first on own records, then per round on the consensus and on own.

Models are networks of several depths and widths, and scikit-learn classifiers. At a node every message may start a new
process: the consensus is public and stored on its disk, and the model is trained again from it.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from numpy.typing import NDArray

from tacit.core import Floats, Integers, InvalidInput, Release
from tacit.core.codec import decode_strict, encode
from tacit.core.options import check, option, with_renamed
from tacit.methods.fedmd.wire import Feedback, PredictAsk, PredictionForm, array_digest
from tacit.methods.question import QUESTION_BYTES
from tacit.students.weighted import takes_weights

__all__ = ["MODELS", "ConsensusStore", "PartyModel", "Schedule", "StartingModel", "Study", "model_name", "party_models"]

# In place of a round's number: the last round that the node has answered and paid in a run.
_ANSWERED = "answered"
_COMPONENTS = 50


class PartyModel(Protocol):
    """A model of any kind that can continue training. Labels are class indices."""

    @property
    def gives_scores(self) -> bool:
        """Whether it gives probabilities of classes, and not only a label."""
        ...

    def learn(self, samples: NDArray[Any], labels: Integers, epochs: int) -> None:
        """Train on the party's own labeled samples."""
        ...

    def fit_consensus(self, samples: NDArray[Any], targets: Floats, logits: bool, epochs: int) -> None:
        """Train on the consensus for public samples: probabilities or logits (n, classes)."""
        ...

    def logits(self, samples: NDArray[Any]) -> Floats:
        """One row of logits per sample."""
        ...

    def predict(self, samples: NDArray[Any]) -> Integers:
        """One class index per sample."""
        ...


@with_renamed
@dataclass(frozen=True)
class Schedule:
    """Epochs of the first training on own records, and of FedMD's digest and revisit in each round.

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
    """A model, the public samples, and the state of its training.

    Every step is done once: a question that is repeated, because its answer was lost, finds the model as it was.
    """

    def __init__(self, model: PartyModel, public: NDArray[Any], schedule: Schedule) -> None:
        self.model = model
        self._public = public
        self._digest = array_digest(public)
        self._schedule = schedule
        self._begun = False
        self._absorbed = -1

    def check(self, ask: PredictAsk) -> None:
        """Refuse a question that this model or these public samples cannot answer."""
        if ask.public != self._digest:
            raise InvalidInput("the question is about public samples that this party does not have")
        if ask.form.kind != "argmax" and not self.model.gives_scores:
            raise InvalidInput(
                f"the question is for {ask.form.kind}, and this party's model has no predict_proba; ask for argmax"
            )
        self._require_rows(ask.rows)
        if ask.feedback is not None:
            self.check_feedback(ask.feedback, ask.form.classes)

    def check_feedback(self, feedback: Feedback, classes: int) -> None:
        """Refuse a consensus on unknown samples or classes."""
        self._require_rows(feedback.rows)
        if feedback.targets.shape != (len(feedback.rows), classes):
            raise InvalidInput(
                f"the consensus must have one row per sample and one column for each of {classes} classes"
            )

    def _require_rows(self, rows: Integers) -> None:
        if len(rows) and not (rows.min() >= 0 and rows.max() < len(self._public)):
            raise InvalidInput(f"samples must be among the {len(self._public)} public ones")

    def begin(self, samples: NDArray[Any], labels: Integers) -> None:
        """Train on the party's own records, once."""
        if not self._begun:
            self.model.learn(samples, labels, self._schedule.own)
            self._begun = True

    def train_on_consensus(self, feedback: Feedback, samples: NDArray[Any], labels: Integers) -> None:
        """Train on a round's consensus, then on the party's own records again; each round once."""
        self.begin(samples, labels)
        if feedback.round > self._absorbed:
            if len(feedback.rows):
                shown = self._public[feedback.rows]
                self.model.fit_consensus(shown, feedback.targets, feedback.logits, self._schedule.digest)
            self.model.learn(samples, labels, self._schedule.revisit)
            self._absorbed = feedback.round

    def predictions(self, ask: PredictAsk, samples: NDArray[Any], labels: Integers) -> NDArray[Any]:
        """Labels (q,), or logits (q, classes), of the queries, after training on the question's feedback."""
        self.begin(samples, labels)
        if ask.feedback is not None:
            self.train_on_consensus(ask.feedback, samples, labels)
        return self.shown(ask.form, ask.rows)

    def shown(self, form: PredictionForm, rows: Integers) -> NDArray[Any]:
        """The model's predictions for public samples: labels, or logits if the form needs them."""
        samples = self._public[rows]
        return self.model.predict(samples) if form.kind == "argmax" else self.model.logits(samples)


class Storage(Protocol):
    """Named bytes that a node stores between messages."""

    def held(self, name: str) -> AbstractContextManager[None]:
        """A lock on this name."""
        ...

    def read(self, name: str) -> bytes | None:
        """The bytes under a name, or None."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Store bytes under a name."""
        ...


@dataclass(frozen=True)
class ConsensusStore:
    """What a node trains with: an untrained model, the public samples, and the stored consensus."""

    model: Callable[[], PartyModel]
    public: NDArray[Any]
    memory: Storage
    schedule: Schedule = Schedule()

    def study(self) -> Study:
        """A study with an untrained model."""
        return Study(self.model(), self.public, self.schedule)

    def answer(self, ask: PredictAsk, party: Callable[[PredictAsk, Sequence[Feedback]], Release[Any]]) -> Release[Any]:
        """The party's answer, after training again on the earlier rounds' consensus."""
        # The coordinator may name any round; only rounds up to the last paid one can be stored.
        most = min(ask.round - 1, self._answered(ask.request) + 1)
        found = [self.memory.read(_name(ask.request, number)) for number in range(most)]
        release = party(ask, [_read(kept) for kept in found if kept is not None])
        # Stored only after payment, so that nobody can fill this node's disk at no cost.
        self.keep(ask.request, ask.feedback)
        name = _name(ask.request, _ANSWERED)
        with self.memory.held(name):
            self.memory.write(name, str(max(ask.round, self._answered(ask.request))).encode())
        return release

    def _answered(self, request: str) -> int:
        kept = self.memory.read(_name(request, _ANSWERED))
        return -1 if kept is None else int(kept)

    def keep(self, request: str, feedback: Feedback | None) -> None:
        """Store the consensus of a round."""
        if feedback is not None:
            self.memory.write(_name(request, feedback.round), encode({"ask": feedback.name, **feedback.fields()}))

    def conclude(self, request: str, feedback: Feedback) -> None:
        """Store the consensus of a run's last round, if this node answered in that round.

        This message is not paid for, so rounds in which this node did not answer are refused: they could fill its disk.
        """
        if feedback.round > self._answered(request):
            raise InvalidInput("the consensus is of a round in which this node did not answer")
        self.keep(request, feedback)


def _read(kept: bytes) -> Feedback:
    fields = decode_strict(kept, QUESTION_BYTES, "feedback")
    fields.one_of("ask", [Feedback.name])
    feedback = Feedback.read(fields)
    fields.done()
    return feedback


def _name(request: str, number: int | str) -> str:
    # A coordinator names its requests "<run> round <number>".
    run = request.rsplit(" round ", 1)[0]
    return f"{hashlib.sha256(run.encode()).hexdigest()[:32]}-{number}.feedback"


@runtime_checkable
class StartingModel(PartyModel, Protocol):
    """A party's model before training on records."""

    def pretrain(self, samples: NDArray[Any], labels: Integers, classes: int, epochs: int) -> None:
        """Train on labeled public samples, whose classes may be different ones."""
        ...


def _forest() -> Any:  # noqa: ANN401
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=60, min_samples_leaf=2, random_state=0)


def _logistic(public: NDArray[Any]) -> Any:  # noqa: ANN401
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from tacit.students.wrapped import Projected

    # A party may have fewer records than components, so these are fitted on the public samples.
    seen = Projected.components(public, _COMPONENTS)
    return make_pipeline(seen, StandardScaler(), LogisticRegression(max_iter=500))


def _network(kind: str) -> Callable[[NDArray[Any], int, int], StartingModel]:
    def made(public: NDArray[Any], classes: int, seed: int) -> StartingModel:
        try:
            from tacit.students.torch_continued import ContinuedNetwork
        except ModuleNotFoundError as error:
            raise InvalidInput(f"neural parties need {error.name}: pip install 'tacit[torch]'") from None
        return ContinuedNetwork(kind, public, classes, seed=seed)

    return made


MODELS: Mapping[str, Callable[[NDArray[Any], int, int], StartingModel]] = {
    **{
        kind: _network(kind)
        for kind in (
            "two-narrow-convolutions",
            "two-convolutions",
            "two-wide-convolutions",
            "three-convolutions",
            "three-wide-convolutions",
            "perceptron",
        )
    },
    "forest": lambda public, classes, seed: _refitted(_forest(), classes),
    "logistic": lambda public, classes, seed: _refitted(_logistic(public), classes),
}


def _refitted(model: Any, classes: int) -> StartingModel:  # noqa: ANN401
    # Imported here, so that showing the options does not import scikit-learn.
    from tacit.students.wrapped import Refitted

    return Refitted(model, classes)


def model_name(model: Any) -> str:  # noqa: ANN401
    """The name of a model in a table.

    >>> model_name("perceptron")
    'perceptron'
    """
    return model if isinstance(model, str) else str(getattr(model, "kind", type(model).__name__))


def party_models(
    models: Sequence[Any],
    parties: int,
    public: NDArray[Any],
    classes: int,
    labels: Integers | None = None,
    label_classes: int = 0,
    epochs: int = 5,
    seed: int = 0,
) -> list[StartingModel]:
    """A model for every party: the given kinds in turn, each pretrained on the labeled public samples.

    Labels of ``label_classes`` different classes train the features only. A kind is a name in ``MODELS``, a
    scikit-learn classifier, or a ``StartingModel``. Parties of one kind start from the same pretrained model.

    >>> import numpy as np
    >>> made = party_models(["perceptron", "forest"], 3, np.zeros((4, 8, 8)), classes=2)
    >>> [type(each).__name__ for each in made]
    ['ContinuedNetwork', 'Refitted', 'ContinuedNetwork']
    """
    if not models:
        raise InvalidInput(f"models must name at least one of {', '.join(MODELS)}")
    prototypes: list[StartingModel] = []
    for model in models:
        if isinstance(model, str):
            if model not in MODELS:
                raise InvalidInput(f"unknown model {model!r}: choose from {', '.join(MODELS)}")
            made = MODELS[model](public, classes, seed)
        elif isinstance(model, StartingModel):
            made = copy.deepcopy(model)
        elif hasattr(model, "fit") and hasattr(model, "predict"):
            if not takes_weights(model):
                raise InvalidInput(f"{type(model).__name__} does not take sample_weight in fit; choose another model")
            made = _refitted(model, classes)
        else:
            raise InvalidInput(f"{type(model).__name__} is not a classifier: it needs fit and predict")
        if labels is not None:
            made.pretrain(public, labels, label_classes, epochs)
        prototypes.append(made)
    return [copy.deepcopy(prototypes[party % len(prototypes)]) for party in range(parties)]
