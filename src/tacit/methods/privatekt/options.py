"""Options of PrivateKT."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tacit.core import InvalidInput, Number, Representation
from tacit.core.options import check, option, with_renamed

__all__ = ["TARGETS", "Learning", "PrivateKT", "Teaching"]

# How answers become targets.
TARGETS = ("hard", "soft", "weighted")


def _rounds(typed: int) -> int | None:
    return typed or None


def _shape(typed: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*(x[1-9]\d*)?", typed):
        raise InvalidInput(f"must be like 28x28 or 32x32x3, got {typed!r}")
    return tuple(int(side) for side in typed.split("x"))


@with_renamed
@dataclass(frozen=True)
class Teaching:
    """How the global model learns from answers; each of three techniques can be switched off.

    ``importance`` chooses uncertain samples instead of random ones. ``buffer`` is the number of rounds whose answers
    are used for training (1 switches it off, None uses all). ``self_training`` adds public samples that the model
    predicts with at least ``confidence``, with its prediction as the label; together they have ``self_weight`` times
    the weight of the answers. ``balanced`` gives every class the same total weight. ``pool`` limits how many random
    public samples the model scores per round. ``warmup_rounds`` is the number of rounds before the first training: a
    network trained on two labels would predict only these, and so would the local ones that start from it.
    """

    renamed: ClassVar[Mapping[str, str]] = {"waiting": "warmup_rounds", "trust": "self_weight"}

    importance: bool = option(True, "Ask about samples of which the global model is uncertain, not random ones.")
    buffer: int | None = option(25, "Rounds of answers kept for training; 0 keeps all.", least=1, read=_rounds)
    self_training: bool = option(True, "Self-training: also train on the global model's own confident predictions.")
    confidence: float = option(
        0.9, "Self-training: the least confidence of a prediction that is used.", least=0.0, most=1
    )
    self_weight: float = option(
        1.0, "Self-training: total weight of the model's own predictions relative to the answers.", least=0.0
    )
    targets: str = option("weighted", "How answers become targets: hard, soft or weighted.", choices=TARGETS)
    pool: int | None = option(None, "Public samples scored per round; by default all.", least=1)
    balanced: bool = option(
        False, "Teach all classes with the same total weight: they may be otherwise frequent where the model is used."
    )
    warmup_rounds: int = option(5, "Rounds of answers collected before the first training.", least=1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class Learning:
    """How networks are trained: steps, batch size and learning rate, of the global and of the local training per round.

    ``local_layers`` are the layers that local training changes: "dense", those after the convolutions, or "all".
    ``moved`` is how much images are shifted, zoomed and rotated (augmentation). ``pretext`` is the number of steps of
    pretraining, in which the global network learns to classify clusters of public samples. ``shape`` is that of flat
    images, (height, width) or (height, width, channels). ``adjusted`` is for holders whose classes differ: their
    classifiers answer as if all classes of their records were equally frequent, as local networks always do.
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
    shape: tuple[int, ...] | None = option(None, "Flat rows are images of this shape: 28x28 or 32x32x3.", read=_shape)
    adjusted: bool = option(
        False, "Holders have different classes: their classifiers answer as if theirs were equally frequent."
    )


@with_renamed
@dataclass(frozen=True)
class PrivateKT:
    """PrivateKT: each holder answers a few queries per round by randomized response; a global model learns from them.

    ``epsilon`` of a run is the total of one holder over all its rounds; ``round_epsilon`` sets the cost of one round
    instead. With ``groups`` each question is about a group of public samples that are alike (in ``representation``),
    and the model is trained once, at the end, on all of them. ``model`` is a network by name (``auto`` chooses by the
    samples) or any scikit-learn classifier; ``local`` is the holders' model if it is a different one.
    """

    name: ClassVar[str] = "privatekt"
    renamed: ClassVar[Mapping[str, str]] = {
        "answers": "queries_per_round",
        "most": "max_participations",
        "every": "eval_every",
        "student": "model",
    }

    rounds: int = option(100, "Number of rounds.", least=1)
    queries_per_round: int = option(2, "Public samples that a holder labels in one round.", least=1)
    round_epsilon: Number | None = option(None, "The epsilon of one round for a holder, instead of a total epsilon.")
    participation: float = option(0.5, "The fraction of the holders asked in each round.", least=0.0, most=1)
    max_participations: int | None = option(
        None, "The most rounds that one holder takes part in; by default its equal share."
    )
    model: Any = option(
        "auto", "The global model: auto, two-convolutions, three-convolutions, perceptron; logistic, forest."
    )
    local: Any = option(None, "The holders' local model, if it differs from the global one.", typed=False)
    teaching: Teaching = option(Teaching(), "How the global model learns from answers.", typed=False)
    learning: Learning = option(Learning(), "How networks are trained.", typed=False)
    groups: int | None = option(
        None,
        "Ask about groups of public samples that are alike, and teach all of a group: this many groups, 0 for a "
        "number that suits the answers; by default single samples are asked about.",
        least=0,
    )
    representation: str | Representation = option(
        "auto",
        "With groups: the space they are formed in: auto; identity, standardized, pca, spectral, umap; for images "
        "gradients, handwriting. Fitted on public data only.",
    )
    beliefs: Any = option(
        None,
        "With groups: class probabilities of each public sample from public knowledge, such as a text's likeness to "
        "the classes' names.",
        typed=False,
    )
    eval_every: int = option(10, "Rounds between two measurements on the test set, if there is one.", least=1)

    def __post_init__(self) -> None:
        check(self)
        for name, given in (("beliefs", self.beliefs), ("representation", self.representation)):
            if self.groups is None and not (given is None or (isinstance(given, str) and given == "auto")):
                raise InvalidInput(f"{name} is for questions about groups: give groups too, 0 for a suitable number")
