"""Which models learn on either side: networks by name, or any scikit-learn classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.methods.privatekt.holder import LocalLearner
from tacit.methods.privatekt.knowledge import Learner
from tacit.methods.privatekt.sklearn_models import ClassifierLearner, ClassifierLocal

__all__ = ["Learning", "models"]


@dataclass(frozen=True)
class Learning:
    """How networks learn: steps, batch and learning rate of a lesson, and of local training in a round.

    ``local_layers`` says which layers local training changes: "dense", those after the convolutions, or "all".
    ``moved`` is how far images are shifted, zoomed and turned in lessons. ``pretext`` is for how many steps the global
    network learns to tell groups of public samples apart before the first round. ``shape`` is that of
    flat images, (height, width) or (height, width, channels).
    """

    steps: int = 20
    batch: int = 64
    rate: float = 0.02
    local_steps: int = 15
    local_batch: int = 32
    local_rate: float = 0.05
    local_layers: str = "dense"
    moved: float = 0.1
    pretext: int = 1500
    shape: tuple[int, ...] | None = None


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
        from tacit.methods.privatekt.torch_models import NetworkLearner, Training, architecture_for
        from tacit.methods.privatekt.torch_pretext import Pretext
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
