"""Hostile questions: every kind that a node can be asked, with the numbers that an attacker would choose."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, Randomness, SeededRandomness, Sensitivity, Unit, uniform_below
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.pate import GNMax, LNMax
from tacit.mechanisms.central.private_knn import SubsampledGNMax, SubsampledScreen
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse, RandomizedLabels, Responses
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.unary_encoding import LocalLaplace, UnaryEncoding
from tacit.mechanisms.masked.distributed_gaussian import DistributedGaussian
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.mechanisms.shuffle.multi_message_noise import plan_noise_messages
from tacit.mechanisms.shuffle.single_message import Shuffled, SingleMessage
from tacit.methods.class_sums.wire import SumAsk, set_sensitivity, sum_sensitivity
from tacit.methods.fedmd import wire as fedmd
from tacit.methods.fedmd.wire import PredictionForm
from tacit.methods.noisy_sgd.wire import GradientAsk, gradient_sensitivity
from tacit.methods.pate.wire import TeacherAsk
from tacit.methods.private_knn.wire import NeighborAsk
from tacit.methods.privatekt.wire import LabelAsk
from tacit.methods.rknn.wire import VoteAsk
from tacit.representations.chained import Chained
from tacit.representations.groups import ClusteringHead, MixtureShares
from tacit.representations.image_features import Deskewed, EvenWidth, OrientedGradients
from tacit.representations.maps import Interpolated
from tacit.representations.random_features import RandomFeatures
from tacit.representations.scaled import Directions, Identity, PrincipalComponents, Standardized
from tacit.wire import ask_to_bytes, read_ask

__all__ = [
    "AUDIT_CLASSES", "AUDIT_PURPOSE", "HOSTILE", "NODES", "QUESTION_KINDS", "RECORDS", "SECRET_ROW", "NumberSource",
    "hostile_numbers", "private_samples", "public_samples", "question",
]  # fmt: skip

AUDIT_CLASSES = ("a", "b", "c")
SIDE, RECORDS = 4, 12
_WIDTH = SIDE * SIDE
_QUERIES = 4
NODES = 3
AUDIT_PURPOSE = "audit"
# The attacked record, in which neighboring data sets differ.
SECRET_ROW = 3
# Zeros of both signs, the smallest numbers, ends of ranges, infinities and NaN.
HOSTILE = (
    *(0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1e-300, 1e-45, 1e-38, 1e-30, 1e-9, 0.25, 0.5, 1.0, -1.0),
    *(1.0000000000000002, 3.0, 255.0, 1e9, 1e18, -1e18, 1e30, -1e30, 3.4e38, 1e39, 1e300, 1.7976931348623157e308),
    *(float("nan"), float("inf"), float("-inf")),
)

NumberSource = Callable[[], float]


def hostile_numbers(randomness: Randomness) -> NumberSource:
    """A source of numbers for questions: a quarter of them hostile, an eighth any 64 bits, the rest harmless.

    With more hostile numbers hardly any question could be read.

    >>> numbers = hostile_numbers(SeededRandomness(1))
    >>> [isinstance(numbers(), float) for _ in range(3)]
    [True, True, True]
    """

    def draw() -> float:
        match int(uniform_below(8, 1, randomness)[0]):
            case 0 | 1:
                return HOSTILE[int(uniform_below(len(HOSTILE), 1, randomness)[0])]
            case 2:
                return float(randomness.words(1).view(np.float64)[0])
            case _:
                return float(uniform_below(4, 1, randomness)[0])

    return draw


def public_samples() -> NDArray[np.float64]:
    """The public samples: small images with integer levels."""
    return _levels(5, 8)


def private_samples() -> NDArray[np.float64]:
    """The samples of the attacked data set."""
    return _levels(7, RECORDS)


def _levels(seed: int, rows: int) -> NDArray[np.float64]:
    return uniform_below(4, rows * _WIDTH, SeededRandomness(seed)).reshape(rows, _WIDTH).astype(np.float64)


def _table(numbers: NumberSource, *shape: int, kind: type = np.float64) -> NDArray[Any]:
    """An array of numbers of which few are hostile; with more, no question could be answered."""
    made: NDArray[Any] = 1 + uniform_below(4, math.prod(shape), SeededRandomness(11)).reshape(shape).astype(kind)
    flat = made.reshape(-1)
    with np.errstate(all="ignore"):
        for place in (0, len(flat) // 2, len(flat) - 1):
            flat[place] = numbers()
    return made


def _near_a_record(numbers: NumberSource) -> PrincipalComponents:
    """A projection that is 0, or nearly 0, on one guessed record only."""
    directions = np.eye(_WIDTH)
    directions[0, 0] = numbers()
    return PrincipalComponents(private_samples()[SECRET_ROW], directions)


def _dark(numbers: NumberSource) -> dict[str, Any]:
    return {"shape": (SIDE, SIDE, 1), "dark": numbers(), "bright": numbers()}


_REPRESENTATIONS: Mapping[str, Callable[[NumberSource], Any]] = {
    "identity": lambda numbers: Identity(_WIDTH),
    "directions": lambda numbers: Directions(_WIDTH),
    "standardized": lambda numbers: Standardized(_table(numbers, _WIDTH), _table(numbers, _WIDTH)),
    "principal": lambda numbers: PrincipalComponents(_table(numbers, _WIDTH), _table(numbers, 3, _WIDTH)),
    "random-features": lambda numbers: RandomFeatures(
        _table(numbers, _WIDTH), numbers(), _table(numbers, _WIDTH, 3), _table(numbers, 3)
    ),
    "deskewed": lambda numbers: Deskewed(**_dark(numbers)),
    "even-width": lambda numbers: EvenWidth((SIDE, SIDE, 1), numbers()),
    "gradients": lambda numbers: OrientedGradients(**_dark(numbers), cell=2, bins=4),
    "interpolated": lambda numbers: Interpolated(
        _table(numbers, 5, _WIDTH, kind=np.float32), _table(numbers, 5, 2, kind=np.float32), 2
    ),
    "mixture": lambda numbers: MixtureShares(
        _table(numbers, 2, _WIDTH), _table(numbers, 2, _WIDTH, _WIDTH), _table(numbers, 2)
    ),
    "head": lambda numbers: ClusteringHead(_table(numbers, 3, _WIDTH), _table(numbers, 3)),
    # The chain of the attack that once revealed a whole record: the guessed record becomes 0, which a range of zero
    # width turned into NaN.
    "targeted": lambda numbers: Chained((_near_a_record(numbers), Deskewed(**_dark(numbers)))),
    "targeted gradients": lambda numbers: Chained(
        (_near_a_record(numbers), OrientedGradients(**_dark(numbers), cell=2, bins=4))
    ),
    "targeted scale": lambda numbers: Chained(
        (_near_a_record(numbers), Standardized(_table(numbers, _WIDTH), _table(numbers, _WIDTH)))
    ),
}
_WIDTHS = {
    "principal": 3, "random-features": _WIDTH + 3,
    "interpolated": 2, "mixture": 2, "head": 3, "gradients": 16, "targeted gradients": 16,
}  # fmt: skip
# The largest change of the votes of a person with two records and two labels each, so that every account may answer.
_MOVES = 36
_TABLES = {
    "permute-and-flip": PermuteAndFlip.for_epsilon(1, _MOVES),
    "laplace": DiscreteLaplaceNoise.for_epsilon(1, _MOVES),
    "gaussian": DiscreteGaussianNoise(25, 2 * _MOVES, unit_steps=False),
}
_CELLS = _QUERIES * len(AUDIT_CLASSES)
ONE_RECORD_MECHANISMS = {
    "bits": UnaryEncoding(_CELLS, 1, 1),
    "collision": Collision(_CELLS, 1, 1),
    "response": GeneralizedRandomizedResponse(_CELLS, 1, 1),
    "hashing": LinearHashing(_CELLS, 1, 1),
    "local laplace": LocalLaplace(_CELLS, 1, 1),
    "subset": SubsetSelection(_CELLS, 1, 1),
}
_CLIENTS = NODES * RECORDS
SHUFFLED = {
    "one message": Shuffled(SingleMessage(GeneralizedRandomizedResponse(_CELLS, 1, 1), _CLIENTS, "1/1000"), _CLIENTS),
    "many messages": Shuffled(plan_noise_messages(2, "1/100", _CELLS, _CLIENTS, prefer="1/2"), _CLIENTS),
}
MASKED = DistributedLaplace(_MOVES, _MOVES, NODES, NODES, NODES, most=50, colluding=0)


def _noises(steps: int, longest: Sensitivity) -> tuple[dict[str, Any], DistributedGaussian]:
    """The mechanisms of a curator's sums that change as far as this, and the one of sums over nodes."""
    squared = int(longest.l2_squared)
    curated = {
        "rounded gaussian": RoundedGaussianNoise(40 * steps, squared),
        "gaussian": DiscreteGaussianNoise(40 * steps, squared, unit_steps=False),
        "laplace": DiscreteLaplaceNoise.for_epsilon(1, int(longest.l1)),
    }
    cells = len(AUDIT_CLASSES) * (max(_WIDTH, *_WIDTHS.values()) + 1)
    return curated, DistributedGaussian(40 * steps, squared, cells, NODES, NODES, NODES, 50 * steps, colluding=0)


# The sums of a person with two records change twice as much; replace-one is the largest of all adjacencies.
_STEPS = 64
_LONGEST = sum_sensitivity(_WIDTH, _STEPS, _STEPS // 2, unit=Unit.person("patient", 2))
_SUMS, _SHARES = _noises(_STEPS, _LONGEST)
_WIDEST = set_sensitivity(_WIDTH, _STEPS, _STEPS // 2, len(AUDIT_CLASSES), 2, unit=Unit.person("patient", 2))
_SET_SUMS, _SET_SHARES = _noises(_STEPS, _WIDEST)
# A bound on the gradients of three classes and one more feature than a record has, for every account.
_RADIUS = 2**12
_STEEPEST = gradient_sensitivity(len(AUDIT_CLASSES) * (_WIDTH + 1), _RADIUS, unit=Unit.person("patient", 2))
_GRADIENTS, _GRADIENT_SHARES = _noises(_RADIUS, _STEEPEST)
# Two records of a person change two votes each.
_SAMPLED = {
    "votes": SubsampledGNMax("1/2", 40, _QUERIES, 8, replace_one=True),
    "screen": SubsampledScreen("1/2", 40, 1, _QUERIES, 4, replace_one=True),
}
_requests = count()


def _votes(mechanism: Any, encoder: str, numbers: NumberSource) -> VoteAsk:  # noqa: ANN401
    queries = _table(numbers, _QUERIES, _WIDTHS.get(encoder, _WIDTH), kind=np.float32)
    return VoteAsk(
        queries,
        _REPRESENTATIONS[encoder](numbers),
        1,
        AUDIT_CLASSES,
        "c0ffee",
        mechanism,
        AUDIT_PURPOSE,
        f"r-{next(_requests)}",
    )


def _set_votes(mechanism: Any, encoder: str, numbers: NumberSource) -> VoteAsk:  # noqa: ANN401
    return replace(_votes(mechanism, encoder, numbers), labels=2)


def _raised_votes(mechanism: Any, numbers: NumberSource) -> VoteAsk:  # noqa: ANN401
    return replace(_votes(mechanism, "identity", numbers), query_offsets=_table(numbers, _QUERIES, kind=np.float32))


def _party_votes(mechanism: Any, encoder: str, numbers: NumberSource) -> fedmd.PartyVoteAsk:  # noqa: ANN401
    asked = _votes(mechanism, encoder, numbers)
    return fedmd.PartyVoteAsk(
        asked.queries, asked.representation, len(AUDIT_CLASSES), asked.mechanism, "c0ffee", AUDIT_PURPOSE, asked.request
    )


def _teacher(mechanism: Any, numbers: NumberSource) -> TeacherAsk:  # noqa: ANN401
    return TeacherAsk(
        _table(numbers, _QUERIES, _WIDTH), AUDIT_CLASSES, mechanism, AUDIT_PURPOSE, f"r-{next(_requests)}"
    )


def _sums(mechanism: Any, encoder: str, numbers: NumberSource, labels: int | None = None) -> SumAsk:  # noqa: ANN401
    return SumAsk(
        representation=_REPRESENTATIONS[encoder](numbers),
        components=_WIDTHS.get(encoder, _WIDTH),
        scale=numbers(),
        radius=_STEPS,
        norm="l2",
        count=_STEPS // 2,
        class_names=AUDIT_CLASSES,
        space="c0ffee",
        mechanism=mechanism,
        purpose=AUDIT_PURPOSE,
        request=f"r-{next(_requests)}",
        labels=labels,
    )


def _gradient(mechanism: Any, encoder: str, numbers: NumberSource) -> GradientAsk:  # noqa: ANN401
    return GradientAsk(
        representation=_REPRESENTATIONS[encoder](numbers),
        scale=numbers(),
        length=_STEPS,
        offset=_STEPS // 2,
        weights=_whole(numbers, _WIDTHS.get(encoder, _WIDTH) + 1, len(AUDIT_CLASSES)),
        radius=_RADIUS,
        norm="l2",
        class_names=AUDIT_CLASSES,
        space="c0ffee",
        mechanism=mechanism,
        purpose=AUDIT_PURPOSE,
        request=f"r-{next(_requests)}",
    )


def _whole(numbers: NumberSource, *shape: int) -> NDArray[np.int64]:
    """Integers of which few are hostile."""
    found = np.nan_to_num(_table(numbers, *shape), posinf=2.0**62, neginf=-(2.0**62))
    whole: NDArray[np.int64] = np.clip(found, -(2.0**62), 2.0**62).astype(np.int64)
    return whole


def _neighbors(mechanism: Any, encoder: str, numbers: NumberSource) -> NeighborAsk:  # noqa: ANN401
    queries = _table(numbers, _QUERIES, _WIDTHS.get(encoder, _WIDTH), kind=np.float32)
    return NeighborAsk(
        queries,
        _REPRESENTATIONS[encoder](numbers),
        2,
        AUDIT_CLASSES,
        "c0ffee",
        mechanism,
        AUDIT_PURPOSE,
        f"r-{next(_requests)}",
    )


def _reached(mechanism: Any, numbers: NumberSource) -> NeighborAsk:  # noqa: ANN401
    reach = _table(numbers, _QUERIES, kind=np.float32)
    return replace(_neighbors(mechanism, "identity", numbers), reach=reach)


def _labels(numbers: NumberSource) -> LabelAsk:
    sheet = RandomizedLabels(len(AUDIT_CLASSES), 2, 1)
    return LabelAsk(_table(numbers, 2, _WIDTH), None, sheet, (0,), AUDIT_PURPOSE, f"r-{next(_requests)}")


def _predictions(kind: str, numbers: NumberSource) -> fedmd.PredictAsk:
    form, rows = PredictionForm(kind, len(AUDIT_CLASSES)), np.array([0, 3, 7])
    mechanism: Any = Responses(GeneralizedRandomizedResponse(len(AUDIT_CLASSES), 1, 1), len(rows))
    if kind != "argmax":
        mechanism = DiscreteLaplaceNoise.for_epsilon(1, int(form.sensitivity(len(rows)).l1))
    return fedmd.PredictAsk(
        round=1,
        rows=rows,
        form=form,
        mechanism=mechanism,
        public=fedmd.array_digest(public_samples()),
        feedback=fedmd.Feedback(
            0, rows, _table(numbers, 3, len(AUDIT_CLASSES), kind=np.float32), logits=kind == "logits"
        ),
        purpose=AUDIT_PURPOSE,
        request=f"r {next(_requests)} round 1",
    )


@dataclass(frozen=True)
class Kind:
    """One kind of question: how it is made, its protocol, and whether records are multi-label."""

    make: Callable[[NumberSource], Any]
    protocol: str = "answer"
    sets: bool = False


def _kinds() -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    for encoder in _REPRESENTATIONS:
        for name, made in {**_TABLES, **ONE_RECORD_MECHANISMS}.items():
            kinds[f"rknn {name}, {encoder}"] = Kind(partial(_votes, made, encoder))
        kinds[f"rknn sets laplace, {encoder}"] = Kind(partial(_set_votes, _TABLES["laplace"], encoder), sets=True)
        kinds[f"fedmd votes, {encoder}"] = Kind(partial(_party_votes, _TABLES["laplace"], encoder))
        kinds[f"rknn masked, {encoder}"] = Kind(partial(_votes, MASKED, encoder), "masked")
        for name, shuffled in SHUFFLED.items():
            kinds[f"rknn {name}, {encoder}"] = Kind(partial(_votes, shuffled, encoder), "shuffled")
        for name, made in _TABLES.items():
            kinds[f"rknn curated {name}, {encoder}"] = Kind(partial(_votes, made, encoder), "curated")
        for name, noise in _SUMS.items():
            kinds[f"class sums {name}, {encoder}"] = Kind(partial(_sums, noise, encoder))
            kinds[f"class sums curated {name}, {encoder}"] = Kind(partial(_sums, noise, encoder), "curated")
        for name, noise in _SET_SUMS.items():
            kinds[f"class sums sets {name}, {encoder}"] = Kind(partial(_sums, noise, encoder, labels=2), sets=True)
        for name, sampled in _SAMPLED.items():
            kinds[f"private k-NN {name}, {encoder}"] = Kind(partial(_neighbors, sampled, encoder))
        kinds[f"class sums masked, {encoder}"] = Kind(partial(_sums, _SHARES, encoder), "masked")
        for name, noise in _GRADIENTS.items():
            kinds[f"noisy sgd {name}, {encoder}"] = Kind(partial(_gradient, noise, encoder))
            kinds[f"noisy sgd curated {name}, {encoder}"] = Kind(partial(_gradient, noise, encoder), "curated")
        kinds[f"noisy sgd masked, {encoder}"] = Kind(partial(_gradient, _GRADIENT_SHARES, encoder), "masked")
    for kind in ("argmax", "softmax", "logits"):
        kinds[f"fedmd {kind}"] = Kind(partial(_predictions, kind))
    pate = {
        "lnmax": LNMax(1, _QUERIES),
        "gnmax": GNMax(40, _QUERIES),
        "permute-and-flip": PermuteAndFlip.for_epsilon(1, 2 * _QUERIES),
    }
    for name, votes in pate.items():
        kinds[f"pate {name}"] = Kind(partial(_teacher, votes))
        kinds[f"pate curated {name}"] = Kind(partial(_teacher, votes), "curated")
    return kinds | {
        "private k-NN votes, reach": Kind(partial(_reached, _SAMPLED["votes"])),
        "rknn laplace, heights": Kind(partial(_raised_votes, _TABLES["laplace"])),
        "rknn sets response": Kind(
            partial(_set_votes, GeneralizedRandomizedResponse(_QUERIES * (len(AUDIT_CLASSES) + 2), 2, 1), "identity"),
            sets=True,
        ),
        "rknn sets curated laplace": Kind(partial(_set_votes, _TABLES["laplace"], "identity"), "curated", sets=True),
        "rknn sets masked": Kind(partial(_set_votes, MASKED, "identity"), "masked", sets=True),
        "class sums sets masked": Kind(partial(_sums, _SET_SHARES, "identity", labels=2), "masked", sets=True),
        "fedmd votes masked": Kind(partial(_party_votes, MASKED, "identity"), "masked"),
        "fedmd votes curated": Kind(partial(_party_votes, _TABLES["laplace"], "identity"), "curated"),
        "pate masked": Kind(partial(_teacher, MASKED), "masked"),
        "privatekt": Kind(_labels),
    }


QUESTION_KINDS: Mapping[str, Kind] = _kinds()


def question(kind: str, numbers: NumberSource) -> Any | None:  # noqa: ANN401
    """A question of this kind with hostile numbers, as a node reads it; None if it cannot be encoded.

    >>> question("privatekt", lambda: 1.0) is None
    False
    """
    try:
        return read_ask(ask_to_bytes(QUESTION_KINDS[kind].make(numbers)))
    except InvalidInput:
        return None
