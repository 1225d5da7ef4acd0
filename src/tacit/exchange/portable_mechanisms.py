"""Mechanisms as they travel: a name and exact parameters, rebuilt from a closed list.

A holder builds the mechanism itself, from its own code: whoever asks chooses a name and numbers and nothing else.
Limits on the numbers keep a question from costing the holder more time or memory than an honest one would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tacit.core.errors import InvalidInput
from tacit.exchange.fields import Fields
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.exponential_mechanism import ExponentialMechanism
from tacit.mechanisms.central.pate import ConfidenceScreen, GaussianVotes, LaplaceVotes, SampledVotes
from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.local.answer_sheet import AnswerSheet
from tacit.mechanisms.local.bit_response import BitResponse
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.concatenation import Concatenation
from tacit.mechanisms.local.generalized_response import GeneralizedResponse
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.local_laplace import LocalLaplace
from tacit.mechanisms.local.separation import Separation
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.vote_shape import VoteShape
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.mechanisms.shuffle.flooded_messages import FloodedMessages
from tacit.mechanisms.shuffle.negative_binomial import NegativeBinomial
from tacit.mechanisms.shuffle.shuffled import Shuffled
from tacit.mechanisms.shuffle.single_message import SingleMessage
from tacit.methods.fedmd.responses import Responses

__all__ = ["MECHANISMS", "mechanism_fields", "read_mechanism"]

LARGEST = 10**9
LARGEST_DOMAIN = 10**7
# Adding up how messages of so many clients hide each other takes a minute or so; beyond, it takes hours.
MOST_CLIENTS = 10**7
# The mean of a flood is a message count a cell; how long its law takes to add up grows with it.
LARGEST_FLOOD = 10**6


@dataclass(frozen=True)
class Part:
    """How one parameter is written and read."""

    write: Callable[[Any], Any]
    read: Callable[[Fields, str], Any]


def _inner(*names: str) -> Part:
    """A parameter that is itself one of the named kinds."""
    return Part(lambda value: _written(value, names), lambda fields, name: _read(fields.nested(name), names))


EXACT = Part(str, lambda fields, name: fields.fraction(name))
COUNT = Part(int, lambda fields, name: fields.integer(name, 1, LARGEST))
CLIENTS = Part(int, lambda fields, name: fields.integer(name, 1, MOST_CLIENTS))
CELLS = Part(int, lambda fields, name: fields.integer(name, 1, LARGEST_DOMAIN))
WHOLE = Part(int, lambda fields, name: fields.integer(name, -LARGEST, LARGEST))
FLAG = Part(bool, lambda fields, name: fields.flag(name))
LENGTHS = Part(list, lambda fields, name: fields.integers(name, 2, 2, LARGEST_DOMAIN))


@dataclass(frozen=True)
class Kind:
    """A class, its parameters, and where those that are not attributes of the same name are found."""

    made: type
    parts: Mapping[str, Part]
    found: Mapping[str, Callable[[Any], Any]]
    check: Callable[[Any], None]

    def __init__(
        self,
        made: type,
        parts: Mapping[str, Part],
        found: Mapping[str, Callable[[Any], Any]] | None = None,
        check: Callable[[Any], None] = lambda _: None,
    ) -> None:
        object.__setattr__(self, "made", made)
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "found", found or {})
        object.__setattr__(self, "check", check)


def _affordable(flood: NegativeBinomial) -> None:
    if flood.shape / flood.epsilon > LARGEST_FLOOD:
        raise InvalidInput(f"the flood must have a mean of at most {LARGEST_FLOOD} messages a cell")


DOMAIN = {"cells": CELLS, "ones": CELLS, "epsilon": EXACT}
LOCAL = (
    "bit-response",
    "collision",
    "concatenation",
    "generalized-response",
    "linear-hashing",
    "local-laplace",
    "separation",
    "subset-selection",
)
PARTS_ONLY = ("negative-binomial", "vote-shape")
KINDS: Mapping[str, Kind] = {
    "permute-and-flip": Kind(PermuteAndFlip, {"rate": EXACT, "row_range": COUNT}),
    "exponential-mechanism": Kind(ExponentialMechanism, {"rate": EXACT, "row_range": COUNT}),
    "discrete-laplace": Kind(DiscreteLaplaceNoise, {"scale": EXACT, "l1": COUNT}),
    "discrete-gaussian": Kind(DiscreteGaussianNoise, {"sigma": EXACT, "squared_shift": COUNT, "unit_steps": FLAG}),
    "laplace-votes": Kind(LaplaceVotes, {"gamma": EXACT, "queries": COUNT}),
    "gaussian-votes": Kind(GaussianVotes, {"sigma": EXACT, "queries": COUNT}),
    "confidence-screen": Kind(ConfidenceScreen, {"sigma": EXACT, "threshold": WHOLE, "queries": COUNT}),
    "sampled-votes": Kind(SampledVotes, {"rate": EXACT, "sigma": EXACT, "queries": COUNT, "squared_shift": COUNT}),
    "bit-response": Kind(BitResponse, {**DOMAIN, "symmetric": FLAG}),
    "collision": Kind(Collision, {**DOMAIN, "length": CELLS}),
    "concatenation": Kind(
        Concatenation,
        {"shape": _inner("vote-shape"), "epsilon": EXACT, "corrected": FLAG, "length": CELLS},
        {"length": lambda made: made.both.length},
    ),
    "generalized-response": Kind(GeneralizedResponse, DOMAIN),
    "linear-hashing": Kind(LinearHashing, {**DOMAIN, "size": CELLS}),
    "local-laplace": Kind(LocalLaplace, DOMAIN),
    "separation": Kind(
        Separation,
        {"shape": _inner("vote-shape"), "epsilon": EXACT, "lengths": LENGTHS},
        {"lengths": lambda made: [made.buckets.length, made.labels.length]},
    ),
    "subset-selection": Kind(SubsetSelection, {**DOMAIN, "size": CELLS}),
    "answer-sheet": Kind(AnswerSheet, {"classes": CELLS, "answers": CELLS, "epsilon": EXACT}),
    "responses": Kind(Responses, {"local": _inner("generalized-response", "subset-selection"), "count": CELLS}),
    "vote-shape": Kind(VoteShape, {"queries": CELLS, "classes": CELLS, "neighbors": CELLS, "labels": CELLS}),
    "negative-binomial": Kind(NegativeBinomial, {"shape": EXACT, "epsilon": EXACT}, check=_affordable),
    "flooded-messages": Kind(
        FloodedMessages,
        {
            "cells": CELLS,
            "ones": CELLS,
            "participants": CLIENTS,
            "epsilon_noise": EXACT,
            "epsilon_margin": EXACT,
            "flood": _inner("negative-binomial"),
            "share": EXACT,
        },
    ),
    "single-message": Kind(SingleMessage, {"mechanism": _inner(*LOCAL), "participants": CLIENTS, "delta": EXACT}),
    "distributed-laplace": Kind(
        DistributedLaplace,
        {
            "scale": EXACT,
            "l1": COUNT,
            "holders": COUNT,
            "threshold": COUNT,
            "honest": COUNT,
            "most": Part(int, lambda fields, name: fields.integer(name, 1, 2**40)),
            "bits": COUNT,
        },
    ),
    "shuffled": Kind(Shuffled, {"inner": _inner("flooded-messages", "single-message"), "participants": CLIENTS}),
}
MECHANISMS = tuple(name for name in KINDS if name not in PARTS_ONLY)
NAMES = {kind.made: name for name, kind in KINDS.items()}


def mechanism_fields(mechanism: Any) -> dict[str, Any]:  # noqa: ANN401
    """The mechanism's name and parameters, as values that can be encoded.

    >>> mechanism_fields(PermuteAndFlip("1/4", 2))
    {'kind': 'permute-and-flip', 'rate': '1/4', 'row_range': 2}
    """
    return _written(mechanism, MECHANISMS)


def read_mechanism(fields: Fields) -> Any:  # noqa: ANN401
    """The mechanism that such values stand for; any other name or number is refused.

    >>> read_mechanism(Fields(mechanism_fields(PermuteAndFlip("1/4", 2)), "mechanism"))
    PermuteAndFlip(rate=Fraction(1, 4), row_range=2)
    """
    return _read(fields, MECHANISMS)


def _written(value: Any, names: tuple[str, ...]) -> dict[str, Any]:  # noqa: ANN401
    name = NAMES.get(type(value))
    if name is None or name not in names:
        raise InvalidInput(f"{type(value).__name__} cannot travel as a mechanism here; what can is {', '.join(names)}")
    kind = KINDS[name]
    written: dict[str, Any] = {"kind": name}
    for part, how in kind.parts.items():
        written[part] = how.write(kind.found.get(part, lambda made, part=part: getattr(made, part))(value))
    return written


def _read(fields: Fields, names: tuple[str, ...]) -> Any:  # noqa: ANN401
    kind = KINDS[fields.one_of("kind", names)]
    values = {part: how.read(fields, part) for part, how in kind.parts.items()}
    fields.done()
    try:
        made = kind.made(**values)
    except (ArithmeticError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"the {fields.what} has numbers that no such mechanism can have") from None
    kind.check(made)
    return made
