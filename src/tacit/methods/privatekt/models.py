"""Which models learn on either side, the holders' and the global one: networks by name, or scikit-learn classifiers.

Of a holder's classifier only labels leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.datasets.classes import class_indices
from tacit.methods.privatekt.holder import LocalLearner
from tacit.methods.privatekt.knowledge import Learner, Lesson, Reals
from tacit.methods.privatekt.options import Learning
from tacit.students.saved import load_student, save_student
from tacit.students.weighted import fit_hard, fit_soft

__all__ = ["ClassifierLearner", "ClassifierLocal", "models"]


def _flat(samples: NDArray[Any]) -> NDArray[Any]:
    return samples.reshape(len(samples), -1)


class ClassifierLocal:
    """Any scikit-learn classifier as the local model: trained once on the holder's records, then asked.

    A holder whose records are all of one class answers with that class.

    >>> from tacit.students.weighted import logistic
    >>> local = ClassifierLocal(logistic(), classes=2)
    >>> model = local.prepare(np.array([[0.0], [1.0]]), np.array([0, 1]))
    >>> local.labels([model], None, np.array([[2.0]]), seed=0)
    [array([1])]
    """

    def __init__(self, estimator: Any, classes: int) -> None:  # noqa: ANN401
        if not hasattr(estimator, "fit") or not hasattr(estimator, "predict"):
            raise InvalidInput(f"{type(estimator).__name__} is no classifier: it has no fit or no predict")
        self.estimator = estimator
        self.classes = classes

    def prepare(self, samples: NDArray[Any], labels: Integers) -> Any:  # noqa: ANN401
        """The classifier trained on the records."""
        from sklearn.base import clone
        from sklearn.dummy import DummyClassifier

        if len(np.unique(labels)) < 2:
            return DummyClassifier(strategy="most_frequent").fit(_flat(samples), labels)
        return clone(self.estimator).fit(_flat(samples), labels)

    def labels(self, prepared: Sequence[Any], weights: bytes | None, asked: NDArray[Any], seed: int) -> list[Integers]:
        """What each classifier says of the samples."""
        return [np.asarray(model.predict(_flat(asked)), dtype=np.int64) for model in prepared]


class ClassifierLearner:
    """Any scikit-learn classifier as the global model, trained afresh on every lesson. It stays where it is.

    >>> from tacit.students.weighted import logistic
    >>> learner = ClassifierLearner(logistic(), np.array(["no", "yes"]))
    >>> lesson = Lesson(np.array([[0.0], [1.0]]), np.eye(2), np.ones(2))
    >>> model = learner.learn(learner.begin(), lesson, seed=0)
    >>> int(learner.probabilities(model, np.array([[3.0]])).argmax())
    1
    """

    travels = False

    def __init__(self, estimator: Any, names: NDArray[Any]) -> None:  # noqa: ANN401
        if not hasattr(estimator, "predict_proba"):
            raise InvalidInput(
                f"{type(estimator).__name__} has no predict_proba: the global model must say how sure it is"
            )
        self.estimator = estimator
        self.names = names

    def begin(self) -> bytes:
        """Nothing learned: every class is as likely as any other."""
        return b""

    def learn(self, model: bytes, lesson: Lesson, seed: int) -> bytes:
        """A classifier trained on the lesson; what an earlier one knew is in the lesson too, or is forgotten."""
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
        """One row of class probabilities a sample; classes that were never seen have none."""
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
) -> tuple[Learner, LocalLearner]:
    """The global model and the holders' own. Weights travel only where both are the same network.

    >>> import numpy as np
    >>> from tacit.students.weighted import logistic
    >>> learner, local = models(logistic(), None, np.zeros((4, 2)), np.array(["a", "b"]), Learning())
    >>> learner.travels, local.classes
    (False, 2)
    """
    if not isinstance(model, str):
        if isinstance(local, str):
            raise InvalidInput("local networks start from a global network: name one as the model")
        return ClassifierLearner(model, names), ClassifierLocal(model if local is None else local, len(names))
    if isinstance(local, str) and local != model:
        raise InvalidInput(f"local networks start from the global one, so local must be {model!r} too, got {local!r}")
    try:
        from tacit.methods.privatekt.torch_local import NetworkLocal
        from tacit.methods.privatekt.torch_models import NetworkLearner, Pretext, Training, architecture_for
    except ModuleNotFoundError as error:
        raise InvalidInput(f"neural models need {error.name}: pip install 'tacit[torch]'") from None

    architecture = architecture_for(public, model, learning.shape)
    alone = local is not None and not isinstance(local, str)
    teaching = Training(learning.steps, learning.batch, learning.rate, moved=learning.moved)
    pretext = Pretext(steps=learning.pretext, moved=learning.moved)
    learner = NetworkLearner(architecture, public, names, teaching, seed, not alone, pretext)
    if alone:
        return learner, ClassifierLocal(local, len(names))
    training = Training(learning.local_steps, learning.local_batch, learning.local_rate)
    return learner, NetworkLocal(architecture, len(names), training, learning.local_layers)
