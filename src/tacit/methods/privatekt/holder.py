"""The holder, which sees records: train a local model, label the queries, and answer through the gate only.

Models are trained after their answers are paid. A holder whose model cannot be trained or evaluated answers at random,
which the sensitivity covers, since any answers may be replaced by any others. Local and global models are networks by
name or scikit-learn classifiers; of a local model only randomized labels are released.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core import BudgetExceeded, Integers, InvalidInput, Randomness, Reals, Release, refusal, uniform_below
from tacit.datasets.table import class_indices
from tacit.mechanisms.choices import allowed_for_labels
from tacit.methods.privatekt.coordinator import GlobalTrainer, Lesson
from tacit.methods.privatekt.options import Learning
from tacit.methods.privatekt.wire import LabelAsk
from tacit.private.gate import Gate
from tacit.private.node_side import NodeContext, NodeSide
from tacit.private.records import Private, Records, combine, redact_errors, schema_of
from tacit.students.registry import load_student, save_student
from tacit.students.weighted import ESTIMATORS, fit_hard, fit_soft

__all__ = [
    "AT_NODE",
    "LABELS",
    "ClassifierLocal",
    "ClassifierTrainer",
    "LabelCohort",
    "LabelHolder",
    "LocalTrainer",
    "models",
]

LABELS = allowed_for_labels("a holder of labels")


class LocalTrainer(Protocol):
    """The holders' side of a model."""

    @property
    def classes(self) -> int:
        """The number of classes."""
        ...

    def prepare(self, samples: NDArray[Any], labels: Integers) -> Any:  # noqa: ANN401
        """What is stored between rounds: the holder's records ready for training, or a trained model."""
        ...

    def labels(self, prepared: Sequence[Any], weights: bytes | None, asked: NDArray[Any], seed: int) -> list[Integers]:
        """The labels of the queries by the local models of these holders."""
        ...


class LabelHolder:
    """One holder with its records, its account and its trainer.

    All its answers are randomized together, so a change of any number of its records is protected. Its model stays
    private.
    """

    def __init__(self, records: Private[Records], gate: Gate, trainer: LocalTrainer) -> None:
        self.shape = schema_of(records).shape
        self.trainer = trainer
        # Computed when the first question is paid, and stored between rounds.
        self.prepared = records.map(partial(_prepared, trainer))
        self._gate = gate

    def answer(self, ask: LabelAsk) -> Release[Integers | None]:
        """Pay, and return randomized labels; a refusal if the account cannot pay."""
        return answer_together([self], ask)[0]

    def release(self, labels: Private[Integers | None], ask: LabelAsk) -> Release[Integers | None]:
        """The randomized labels, or a refusal, in which case nothing was charged or sampled."""

        def empty() -> Integers:
            return made_up_labels(ask, self._gate.randomness)

        known = labels.map(lambda own: empty() if own is None else own)
        try:
            sensitivity = ask.sensitivity(self._gate.unit, self._gate.adjacency)
            return self._gate.release(known, empty, sensitivity, ask.mechanism, ask.purpose, ask.request, ask.question)
        except BudgetExceeded:
            return refusal()


class LabelCohort:
    """Many holders in one process, each with its own records and account, whose models train together.

    Only the computation is batched: every model is trained on its own holder's records alone.
    """

    def __init__(self, holders: Sequence[LabelHolder]) -> None:
        if not holders:
            raise InvalidInput("a cohort needs at least one holder")
        if any(each.trainer is not holders[0].trainer for each in holders):
            raise InvalidInput("holders whose models are trained together need the same local model")
        self._holders = list(holders)

    def answer(self, ask: LabelAsk) -> list[Release[Integers | None]]:
        """The answers of the invited holders, in their order."""
        return answer_together([self._holders[place] for place in ask.invited], ask)


def answer_together(holders: Sequence[LabelHolder], ask: LabelAsk) -> list[Release[Integers | None]]:
    """Each holder pays and randomizes its own answers; all local models train together when the first has paid."""
    trainer = holders[0].trainer
    require_mechanism(ask, trainer.classes)
    if any(holder.shape != ask.samples.shape[1:] for holder in holders):
        raise InvalidInput("the question is about samples of a different shape than the records; nothing was charged")
    labels = combine([holder.prepared for holder in holders], partial(_labels, trainer, ask))
    return [holder.release(labels.map(partial(_one, place)), ask) for place, holder in enumerate(holders)]


@redact_errors
def _prepared(trainer: LocalTrainer, records: Records) -> Any:  # noqa: ANN401
    """The records as the trainer stores them; None if that fails."""
    return trainer.prepare(records.samples, records.labels)


def _labels(trainer: LocalTrainer, ask: LabelAsk, prepared: list[Any]) -> list[Integers | None]:
    """The labels of each local model; None for one that fails, without an effect on the others.

    A holder that fails is replaced by a made-up one while the models train, so that the others compute the same numbers
    with and without it.
    """
    said = _trained_together(trainer, ask, prepared)
    if said is None:
        return [None] if len(prepared) == 1 else [_labels(trainer, ask, [each])[0] for each in prepared]
    return [None if own is None else labels for own, labels in zip(prepared, said, strict=True)]


@redact_errors
def _trained_together(trainer: LocalTrainer, ask: LabelAsk, prepared: list[Any]) -> Sequence[Integers]:
    if any(each is None for each in prepared):
        blank = np.zeros((1, *ask.samples.shape[1:]), dtype=ask.samples.dtype)
        stand_in = trainer.prepare(blank, np.zeros(1, dtype=np.int64))
        prepared = [stand_in if each is None else each for each in prepared]
    return trainer.labels(prepared, ask.weights, ask.samples, ask.seed)


def _one(place: int, labels: list[Integers | None]) -> Integers | None:
    return labels[place]


def made_up_labels(ask: LabelAsk, randomness: Randomness) -> Integers:
    """Uniformly drawn labels, for a holder that has none."""
    return uniform_below(ask.mechanism.classes, ask.mechanism.answers, randomness)


def require_mechanism(ask: LabelAsk, classes: int) -> None:
    """Refuse a mechanism that is not allowed, or is for another number of answers or classes.

    The coordinator could otherwise choose a mechanism that claims to cost nothing.
    """
    LABELS.require(ask.mechanism)
    if len(ask.samples) != ask.mechanism.answers:
        raise InvalidInput(
            f"the mechanism is for {ask.mechanism.answers} answers, and {len(ask.samples)} samples are asked about; "
            "nothing was charged"
        )
    if ask.mechanism.classes != classes:
        raise InvalidInput(f"the mechanism has {ask.mechanism.classes} classes, and this holder has {classes}")


def answer_at_node(ask: LabelAsk, context: NodeContext) -> Release[Integers | None]:
    """The answer of a node with its local model: a classifier by name, or the network whose weights were sent."""
    from tacit.methods.privatekt.options import Learning

    model = ESTIMATORS[context.model]() if context.model in ESTIMATORS else context.model
    trainer = models(model, None, ask.samples, np.array(context.classes), Learning())[1]
    return LabelHolder(context.records, context.gate, trainer).answer(ask)


AT_NODE = NodeSide(answer_at_node, {LabelAsk: {"answer": LABELS}})


def _flat(samples: NDArray[Any]) -> NDArray[Any]:
    return samples.reshape(len(samples), -1)


class ClassifierLocal:
    """Any scikit-learn classifier as the local model, trained once on the holder's records.

    A holder whose records are all of one class answers with that class. If ``adjusted``, predicted probabilities are
    divided by the frequencies of the classes at the holder: it names the class that its records of this kind are most
    unusually often of, not the one that it has most of. That suits holders with different classes; where a class is
    rare at all of them, it is then answered far too often.

    >>> from tacit.students.weighted import logistic
    >>> local = ClassifierLocal(logistic(), classes=2)
    >>> model = local.prepare(np.array([[0.0], [1.0]]), np.array([0, 1]))
    >>> local.labels([model], None, np.array([[2.0]]), seed=0)
    [array([1])]
    """

    def __init__(self, estimator: Any, classes: int, adjusted: bool = False) -> None:  # noqa: ANN401
        if not hasattr(estimator, "fit") or not hasattr(estimator, "predict"):
            raise InvalidInput(f"{type(estimator).__name__} is not a classifier: it has no fit or no predict")
        self.estimator = estimator
        self.classes = classes
        self.adjusted = adjusted

    def prepare(self, samples: NDArray[Any], labels: Integers) -> Any:  # noqa: ANN401
        """The classifier trained on the records."""
        from sklearn.base import clone
        from sklearn.dummy import DummyClassifier

        if len(np.unique(labels)) < 2:
            return DummyClassifier(strategy="most_frequent").fit(_flat(samples), labels)
        trained = clone(self.estimator).fit(_flat(samples), labels)
        return Adjusted(trained, labels) if self.adjusted else trained

    def labels(self, prepared: Sequence[Any], weights: bytes | None, asked: NDArray[Any], seed: int) -> list[Integers]:
        """The labels of the samples by each classifier."""
        return [np.asarray(model.predict(_flat(asked)), dtype=np.int64) for model in prepared]


class Adjusted:
    """A trained classifier that predicts as if all classes of its records had been equally frequent.

    >>> from tacit.students.weighted import logistic
    >>> rows, labels = np.array([[0.0], [0.0], [0.0], [1.0]]), np.array([0, 0, 0, 1])
    >>> model = logistic().fit(rows, labels)
    >>> model.predict([[0.2], [0.4]]).tolist(), Adjusted(model, labels).predict(np.array([[0.2], [0.4]])).tolist()
    ([0, 0], [0, 1])
    """

    def __init__(self, classifier: Any, labels: Integers) -> None:  # noqa: ANN401
        self.classifier = classifier
        self.frequencies = np.unique(labels, return_counts=True)[1] / len(labels)

    def predict(self, samples: NDArray[Any]) -> Integers:
        """The class of each sample; a classifier without probabilities is taken at its word."""
        if not hasattr(self.classifier, "predict_proba"):
            return np.asarray(self.classifier.predict(samples), dtype=np.int64)
        odds = self.classifier.predict_proba(samples) / self.frequencies
        return np.asarray(self.classifier.classes_[odds.argmax(axis=1)], dtype=np.int64)


class ClassifierTrainer:
    """Any scikit-learn classifier as the global model, trained again on every lesson. It is not sent to holders.

    >>> from tacit.students.weighted import logistic
    >>> trainer = ClassifierTrainer(logistic(), np.array(["no", "yes"]))
    >>> lesson = Lesson(np.array([[0.0], [1.0]]), np.eye(2), np.ones(2))
    >>> model = trainer.learn(trainer.begin(), lesson, seed=0)
    >>> int(trainer.probabilities(model, np.array([[3.0]])).argmax())
    1
    """

    travels = False

    def __init__(self, estimator: Any, names: NDArray[Any]) -> None:  # noqa: ANN401
        if not hasattr(estimator, "predict_proba"):
            raise InvalidInput(f"{type(estimator).__name__} has no predict_proba, which the global model needs")
        self.estimator = estimator
        self.names = names

    def begin(self) -> bytes:
        """An untrained model: all classes are equally likely."""
        return b""

    def learn(self, model: bytes, lesson: Lesson, seed: int) -> bytes:
        """A classifier trained on the lesson alone."""
        rows = _flat(lesson.samples)
        wanted = lesson.targets * lesson.weights[:, None]
        counted = np.flatnonzero(wanted.max(axis=1) > 0)
        if not len(counted):
            return model
        if ((lesson.targets == 0) | (lesson.targets == 1)).all():
            labels = self.names[lesson.targets[counted].argmax(axis=1)]
            return _written(fit_hard(self.estimator, rows[counted], labels, lesson.weights[counted]))
        return _written(fit_soft(self.estimator, rows[counted], self.names, wanted[counted]))

    def probabilities(self, model: bytes, samples: NDArray[Any]) -> Reals:
        """One row of class probabilities per sample; 0 for classes that were never seen."""
        if not model:
            return np.full((len(samples), len(self.names)), 1 / len(self.names))
        classifier = _read(model)
        result = np.zeros((len(samples), len(self.names)))
        result[:, class_indices(classifier.classes_, self.names)] = classifier.predict_proba(_flat(samples))
        return result

    def finished(self, model: bytes) -> Any:  # noqa: ANN401
        """The classifier itself."""
        return _read(model)


def _written(classifier: Any) -> bytes:  # noqa: ANN401
    with TemporaryDirectory() as folder:
        return (Path(folder) / save_student(classifier, Path(folder))).read_bytes()


@lru_cache(maxsize=2)
def _read(model: bytes) -> Any:  # noqa: ANN401
    with TemporaryDirectory() as folder:
        file = Path(folder) / "student.skops"
        file.write_bytes(model)
        return load_student(file)


def models(
    model: Any,  # noqa: ANN401
    local: Any,  # noqa: ANN401
    public: NDArray[Any],
    names: NDArray[Any],
    learning: Learning,
    seed: int = 0,
) -> tuple[GlobalTrainer, LocalTrainer]:
    """The global model and the holders' local model. Weights are sent only if both are the same network.

    >>> import numpy as np
    >>> from tacit.students.weighted import logistic
    >>> trainer, local = models(logistic(), None, np.zeros((4, 2)), np.array(["a", "b"]), Learning())
    >>> trainer.travels, local.classes
    (False, 2)
    """
    if not isinstance(model, str):
        if isinstance(local, str):
            raise InvalidInput("local networks start from a global network: name one as the model")
        own = ClassifierLocal(model if local is None else local, len(names), learning.adjusted)
        return ClassifierTrainer(model, names), own
    if isinstance(local, str) and local != model:
        raise InvalidInput(f"local networks start from the global one: local must be {model!r} too, got {local!r}")
    try:
        from tacit.methods.privatekt.torch_local import NetworkLocal
        from tacit.methods.privatekt.torch_models import NetworkTrainer, Pretext, Training, architecture_for
    except ModuleNotFoundError as error:
        raise InvalidInput(f"neural models need {error.name}: pip install 'tacit[torch]'") from None

    architecture = architecture_for(public, model, learning.shape)
    alone = local is not None and not isinstance(local, str)
    teaching = Training(learning.steps, learning.batch, learning.rate, moved=learning.moved)
    pretext = Pretext(steps=learning.pretext, moved=learning.moved)
    trainer = NetworkTrainer(architecture, public, names, teaching, seed, not alone, pretext)
    if alone:
        return trainer, ClassifierLocal(local, len(names), learning.adjusted)
    training = Training(learning.local_steps, learning.local_batch, learning.local_rate)
    return trainer, NetworkLocal(architecture, len(names), training, learning.local_layers)
