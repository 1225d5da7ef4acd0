"""The parties' models by name: networks of several depths and widths, and scikit-learn classifiers beside them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers
from tacit.methods.fedmd.study import PartyModel
from tacit.students.refitted import Refitted
from tacit.students.weighted import takes_weights

__all__ = ["MODELS", "StartingModel", "model_name", "party_models"]

COMPONENTS = 50


@runtime_checkable
class StartingModel(PartyModel, Protocol):
    """A party's model before it has seen a record."""

    def pretrain(self, samples: NDArray[Any], labels: Integers, classes: int, epochs: int) -> None:
        """Learn from labeled public samples, whose classes may be others."""
        ...


def _forest() -> Any:  # noqa: ANN401
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=60, min_samples_leaf=2, random_state=0)


def _logistic(public: NDArray[Any]) -> Any:  # noqa: ANN401
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from tacit.students.wrapped import Projected

    # A party may have fewer records than components, so they are found on the public samples and kept.
    seen = Projected.components(public, COMPONENTS)
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
    "forest": lambda public, classes, seed: Refitted(_forest(), classes),
    "logistic": lambda public, classes, seed: Refitted(_logistic(public), classes),
}


def model_name(model: Any) -> str:  # noqa: ANN401
    """What a model is called in a table.

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

    Labels of ``label_classes`` other classes teach features only. A kind is a name of ``MODELS``, a scikit-learn
    classifier, or a ``StartingModel`` that was made before. Parties of one kind start from the same pretrained model.

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
            made = Refitted(model, classes)
        else:
            raise InvalidInput(f"{type(model).__name__} is no classifier: it needs fit and predict")
        if labels is not None:
            made.pretrain(public, labels, label_classes, epochs)
        prototypes.append(made)
    return [copy.deepcopy(prototypes[party % len(prototypes)]) for party in range(parties)]
