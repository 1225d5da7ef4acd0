"""Options of FedMD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from tacit.core import InvalidInput, Representation
from tacit.core.options import check, option, with_renamed
from tacit.methods.fedmd.coordinator import Weights
from tacit.methods.fedmd.models import Schedule

__all__ = ["FOR_TABLES", "MIXED", "RESPONSES", "VARIANTS", "FedMD"]

VARIANTS = {
    "rknn": "FedMD on reverse k-NN votes",
    "response": "FedMD with randomized responses",
    "ldp": "FedMD-LDP: predictions with noise",
    "nfdp": "FedMD-NFDP: a fixed subset of records, no noise",
    "np": "FedMD-NP: no privacy, all records",
}
# Mechanisms for labels, the default first.
RESPONSES = ("subset-selection", "generalized-response")
USUAL_QUERIES = 5000
# The default model kinds of a federation, assigned to the holders in turn.
MIXED = ("two-convolutions", "three-convolutions", "perceptron", "two-wide-convolutions", "forest")
# The same for tables, which need no convolution.
FOR_TABLES = ("perceptron", "forest", "logistic")


def _models(typed: str) -> list[str] | dict[str, str] | None:
    """Kinds of models in turn, or one per holder by its name."""
    if typed == "auto":
        return None
    given = [each.strip() for each in typed.split(",")]
    if not any("=" in each for each in given):
        return given
    pairs = [each.rpartition("=") for each in given]
    return {name or "?": model for name, _, model in pairs}


def _weights(typed: str) -> Weights:
    """A rule by its name, or one number per holder."""
    if typed.isalpha():
        return typed
    try:
        return tuple(float(each) for each in typed.split(","))
    except ValueError:
        raise InvalidInput(f"must be comma-separated numbers, got {typed!r}") from None


@with_renamed
@dataclass(frozen=True)
class FedMD:
    """FedMD: holders with models of different kinds learn from each other's predictions on public samples.

    Each holder trains on its own records; then in each of ``rounds`` rounds the holders predict ``queries`` public
    samples, a coordinator averages, and each holder trains on the consensus and then on its own records again. ``kind``
    is the form in which predictions are sent: ``argmax``, ``softmax`` or ``logits``.

    Variants: ``rknn``, the default, releases reverse k-NN votes instead of predictions, ``response`` randomizes
    labels, ``ldp`` adds noise to predictions; these three keep every holder within a total of (ε, δ). ``nfdp`` trains
    on ``subset`` records per holder, drawn once (with or without ``replacement``, or ``per_class``); this is not
    ordinary differential privacy, and a warning says so. ``np`` protects nothing.
    """

    name: ClassVar[str] = "fedmd"
    renamed: ClassVar[Mapping[str, str]] = {}

    variant: str = option("rknn", "; ".join(f"{name}: {said}" for name, said in VARIANTS.items()) + ".",
                          choices=tuple(VARIANTS))  # fmt: skip
    models: Sequence[Any] | Mapping[str, Any] | None = option(
        None,
        "Kinds of models, assigned to the holders in turn: perceptron,forest; or one per holder by its name: "
        "north=forest,south=perceptron. By default chosen by the kind of samples.",
        read=_models,
    )
    rounds: int = option(20, "Number of rounds in which the holders learn from each other.", least=1)
    queries: int | None = option(
        None, "Public samples predicted per round; by default 5,000, or all if there are fewer.", least=1
    )
    kind: str = option("argmax", "The form in which predictions are sent: argmax, softmax or logits.")
    weights: Weights = option(
        "equal",
        "How the coordinator weights the holders: equal, agreement, or one number per holder: 1,2,1.",
        read=_weights,
    )
    subset: int | None = option(None, "nfdp: records that a holder trains on (k).")
    replacement: bool = option(True, "nfdp: draw the subset with replacement.")
    per_class: bool = option(False, "nfdp: draw the subset per class.")
    mechanism: str = option("subset-selection", "response: how labels are randomized.", choices=("auto", *RESPONSES))
    vote_queries: int | None = option(None, "rknn: number of queries; by default chosen from public numbers.")
    representation: str | Representation = option("auto", "rknn: as for the method rknn.")
    schedule: Schedule = option(Schedule(), "Epochs of training.", typed=False)
    pretrain: int = option(5, "Epochs of pretraining on labeled public samples, if there are any.", least=0)
    public_labels: ArrayLike | None = option(None, "Labels of the public samples, of any classes.", typed=False)
    student: Any = option("logistic", "The coordinator's own student, which is trained on the consensus.")

    def queries_of(self, public: int) -> int:
        """The number of public samples predicted per round.

        >>> FedMD().queries_of(700), FedMD(queries=40).queries_of(700)
        (700, 40)
        """
        return min(USUAL_QUERIES, public) if self.queries is None else self.queries

    def __post_init__(self) -> None:
        check(self)
        if self.mechanism == "auto":
            object.__setattr__(self, "mechanism", RESPONSES[0])
