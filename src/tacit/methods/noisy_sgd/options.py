"""Options of noisy SGD."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tacit.core import Representation
from tacit.core.options import check, option, with_renamed

__all__ = ["_MODELS", "NoisySGD"]

_MODELS = ("linear", "hidden", "finetuned")


@with_renamed
@dataclass(frozen=True)
class NoisySGD:
    """Noisy SGD (DP-SGD): a model trained on the records themselves, by clipped gradients with noise.

    ``linear`` is a softmax regression on the public ``representation``. All records take part in each of a few steps; a
    step asks for the sum of their clipped gradients, in integers with exact noise. Settings that are not given are
    tuned on public samples with made-up labels. ``hidden`` has two layers on the representation and is trained by
    Opacus on Poisson samples, in one process, with a delta and under add-remove adjacency: its noise is floating-point
    and not from a cryptographic generator, and the guarantee says so. ``finetuned`` is the same network, whose
    first layer has learned clusters of the public samples before both are trained on records.
    """

    name: ClassVar[str] = "noisy_sgd"
    renamed: ClassVar[Mapping[str, str]] = {}

    model: str = option(
        "linear",
        "linear, a softmax regression with exact integer noise; hidden, two layers by Opacus; finetuned, the same, "
        "pretrained on clusters of the public samples.",
        choices=_MODELS,
    )
    representation: str | Representation = option(
        "auto",
        "auto, identity, standardized; for images gradients, handwriting, patches, imagenet. Fitted on public data "
        "only, and followed by components.",
    )
    components: int | None = option(
        None, "Number of principal components that the model uses; fewer for a smaller epsilon.", least=1
    )
    whitening: float = option(
        0.25, "How much the components are whitened: from 0, not at all, to 0.5, fully.", most=0.5
    )
    steps: int = option(
        8, "Gradient steps of the linear model; each is one question to all records.", least=1, most=10_000
    )
    rate: float | None = option(None, "Learning rate, relative to the step without noise.", least=0.001)
    clip: float | None = option(
        None, "Clipping norm of a record's gradient; 1 is an error of 1 times features of norm 1.", least=0.001, most=2
    )
    damping: float | None = option(
        None,
        "Preconditioning: damping of steps along components of small variance; 1 is the mean variance.",
        least=1e-6,
    )
    records: int | None = option(
        None, "Approximate number of records; needed under add-remove, where the number is private.", least=1
    )

    width: int = option(32, "Units of the hidden layer of models hidden and finetuned.", least=1, most=4096)
    epochs: int = option(
        10,
        "Epochs of models hidden and finetuned: the expected number of times that each record is used.",
        least=1,
        most=10_000,
    )

    def __post_init__(self) -> None:
        check(self)
