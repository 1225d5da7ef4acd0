"""The settings of a policy file, and errors that name each wrong setting and suggest the right one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, InstanceOf, ValidationError

from tacit.core import Adjacency, Ceiling, InvalidInput, Rule, Unit, nearest, positive, probability
from tacit.core.toml import parse_toml
from tacit.ledger.account import Bound, PolicyLimits, covered

__all__ = [
    "ENCODER_FEATURES", "ENCODER_KINDS", "KNOWN_PURPOSES", "METHOD_NAMES", "POLICY_EXAMPLE", "RULES_EXAMPLE",
    "PolicyFile", "mechanism_names", "parsed",
]  # fmt: skip

POLICY_EXAMPLE = """\
[accounts.clinic]
epsilon = 1.0               # the largest total that may ever be spent
delta = 1e-6                # 0, the default, is pure differential privacy
rule = "adaptive"           # or "planned": all charges were fixed in advance
adjacency = "replace-one"   # or "add-remove"
# The default unit is one record. To protect a person with several records (or unit = "holder": all records):
unit = { column = "patient", records = 3 }
"""

RULES_EXAMPLE = """\
[allow]                       # what a node of a federation answers; everything else is refused
methods = ["rknn"]            # rknn, class_sums, privatekt, fedmd, pate, private_knn, noisy_sgd
mechanisms = ["DiscreteLaplaceNoise"]
purposes = ["reverse k-NN labels"]
participants = 3              # at least this many nodes take part
# honest_others = 2           # a guarantee relies on at most this many other honest nodes or devices
# noise_share = 0.25          # this node itself adds at least this share of the noise of a guarantee
# approval = true             # a person approves each job before its first answer: `tacit federation approve`
# representations = ["ranks"] # also read these from other installed packages; Tacit's own are always read
# encoders = ["table"]        # for a node of kind "mixed": table (numbers, categories, dates), text; [] for none
# encoder_features = 4096     # the most features that an encoder may make of a record

# [limits]                    # limits beside the ceiling; each may be omitted
# question = { epsilon = 0.5 }                 # delta: that of the account, if omitted
# purpose = { epsilon = 1.0, delta = 1e-6 }    # each purpose above, with all its rounds
# day = { epsilon = 0.5, questions = 10 }      # per day (UTC)
"""
# A method that nodes answer has a holder; its package is not imported here, below it.
METHOD_NAMES = tuple(sorted(each.parent.name for each in (Path(__file__).parents[1] / "methods").glob("*/holder.py")))
# What encoders that a coordinator sends may read, and by default the most features that they may make of a record:
# a few thousand records are encoded at a time, which takes 128 MiB at most.
ENCODER_KINDS, ENCODER_FEATURES = ("table", "text"), 4096
# Purposes are free text, and these are what Tacit's own coordinators write.
KNOWN_PURPOSES = (
    "FedMD predictions",
    "FedMD on reverse k-NN votes",
    "PATE votes",
    "Private k-NN votes",
    "PrivateKT labels",
    "class sums",
    "noisy SGD",
    "reverse k-NN labels",
)
# Statistics of mechanisms that a node uses alone, in shares, or with a shuffler; others are parts of these.
_ANSWERED = ("table", "electorate", "local", "labels", "shuffle", "share")
# A purpose this similar to a known one is taken for a typing error.
ALIKE = 0.85

_IN_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is not a setting of a policy",
    "model_type": 'must be a table, for example { column = "patient", records = 3 }',
}


def mechanism_names() -> tuple[str, ...]:
    """The mechanisms that a policy can name: this package's by class, those of others by their registered name.

    >>> "PermuteAndFlip" in mechanism_names(), "MultiMessageNoise" in mechanism_names()
    (True, False)
    """
    # Mechanisms are slow to import, and needed only for a policy with [allow].
    from tacit.mechanisms.registry import OWN, outside

    own = sorted(kind.__name__ for kind in OWN if kind.statistic in _ANSWERED)
    return (*own, *(name for name, kind in outside().items() if kind.statistic in _ANSWERED))


# Earlier names of mechanisms, which old policies contain.
_RENAMED = {
    "AnswerSheet": "RandomizedLabels",
    "BitResponse": "UnaryEncoding",
    "ConfidenceScreen": "ConfidentScreen",
    "FloodedMessages": "MultiMessageNoise",
    "GaussianVotes": "GNMax",
    "GeneralizedResponse": "GeneralizedRandomizedResponse",
    "LaplaceVotes": "LNMax",
    "SampledVotes": "SubsampledGNMax",
}


def _mechanism(value: str) -> str:
    if value in _RENAMED:
        raise ValueError(f"{value} is called {_RENAMED[value]} now")
    return _listed(mechanism_names())(value)


def _number(value: object) -> int | str | Decimal:
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        raise ValueError(f"must be a number, got {value!r}")
    return value


def _epsilon(value: object) -> Fraction:
    return positive(_number(value), "epsilon")


def _delta(value: object) -> Fraction:
    return probability(_number(value), "delta")


def _share(value: object) -> Fraction:
    share = positive(_number(value), "noise_share")
    if share > 1:
        raise ValueError(f"noise_share must be in (0, 1], got {value}")
    return share


class _Unit(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    column: Annotated[str, Field(min_length=1)]
    records: Annotated[int, Field(ge=1)]

    def protected(self) -> Unit:
        return Unit.person(self.column, self.records)


class _WholeHolder(_Unit):
    """All records of the holder; it has no person column."""

    column: str = ""
    records: int = 1

    def protected(self) -> Unit:
        return Unit.whole_holder()


def _holder_unit(value: object) -> object:
    if isinstance(value, str) and value != "holder":
        raise ValueError(
            f'must be "holder" or a table, for example {{ column = "patient", records = 3 }}, got {value!r}'
        )
    return _WholeHolder() if value == "holder" else value


class _Account(BaseModel):
    model_config = ConfigDict(extra="forbid")

    epsilon: Annotated[InstanceOf[Fraction], BeforeValidator(_epsilon)]
    delta: Annotated[InstanceOf[Fraction], BeforeValidator(_delta)] = Fraction(0)
    rule: Rule = Rule.ADAPTIVE
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    unit: Annotated[_Unit | None, BeforeValidator(_holder_unit)] = None

    def ceiling(self) -> Ceiling:
        unit = Unit() if self.unit is None else self.unit.protected()
        return Ceiling(self.epsilon, self.delta, self.rule, unit, self.adjacency)


def _listed(own: Sequence[str], group: str | None = None) -> Callable[[str], str]:
    """A check for names of this package or of installed packages; naming one in the policy is what allows it."""

    def check(value: str) -> str:
        known = own if group is None else (*own, *sorted(entry_points(group=group).names))
        if value not in known:
            raise ValueError(f"{value!r} is not known{_nearest(value, known)}. Known are {', '.join(known)}")
        return value

    return check


def _purpose(value: str) -> str:
    if any(covered(value, known) for known in KNOWN_PURPOSES):
        return value
    if slip := nearest(value, KNOWN_PURPOSES, ALIKE):
        raise ValueError(f"{value!r} is not a purpose that a coordinator writes; did you mean {slip!r}?")
    return value


def _nearest(value: str, known: Iterable[str]) -> str:
    """The most similar known name, as a question; empty if there is none.

    >>> _nearest("epsilom", ["delta", "epsilon"])
    "; did you mean 'epsilon'?"
    """
    found = nearest(value, known)
    return f"; did you mean {found!r}?" if found else ""


class _Allow(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    methods: Annotated[
        list[Annotated[str, AfterValidator(_listed(METHOD_NAMES, "tacit.methods"))]], Field(min_length=1)
    ]
    mechanisms: Annotated[list[Annotated[str, AfterValidator(_mechanism)]], Field(min_length=1)]
    purposes: Annotated[list[Annotated[str, Field(min_length=1), AfterValidator(_purpose)]], Field(min_length=1)]
    participants: Annotated[int, Field(ge=1)]
    honest_others: Annotated[int, Field(ge=0)] | None = None
    noise_share: Annotated[InstanceOf[Fraction], BeforeValidator(_share)] | None = None
    approval: bool = False
    representations: list[Annotated[str, Field(min_length=1)]] = []
    encoders: list[Annotated[str, AfterValidator(_listed(ENCODER_KINDS))]] = list(ENCODER_KINDS)
    encoder_features: Annotated[int, Field(ge=1)] = ENCODER_FEATURES


class _Bound(BaseModel):
    model_config = ConfigDict(extra="forbid")

    epsilon: Annotated[InstanceOf[Fraction], BeforeValidator(_epsilon)]
    delta: Annotated[InstanceOf[Fraction], BeforeValidator(_delta)] | None = None

    def bound(self) -> Bound:
        return Bound(self.epsilon, self.delta)


class _Day(BaseModel):
    model_config = ConfigDict(extra="forbid")

    epsilon: Annotated[InstanceOf[Fraction], BeforeValidator(_epsilon)] | None = None
    delta: Annotated[InstanceOf[Fraction], BeforeValidator(_delta)] | None = None
    questions: Annotated[int, Field(ge=0, strict=True)] | None = None


class _Limits(BaseModel):
    model_config = ConfigDict(extra="forbid")

    question: _Bound | None = None
    purpose: _Bound | None = None
    day: _Day | None = None

    def limits(self, purposes: tuple[str, ...]) -> PolicyLimits:
        day = self.day or _Day()
        if day.epsilon is None and day.delta is not None:
            raise InvalidInput("the policy is not valid. limits.day.delta: has no effect without an epsilon")
        return PolicyLimits(
            question=None if self.question is None else self.question.bound(),
            purpose=None if self.purpose is None else self.purpose.bound(),
            day=None if day.epsilon is None else Bound(day.epsilon, day.delta),
            questions=day.questions,
            purposes=purposes,
        )


class PolicyFile(BaseModel):
    """The settings of a policy file."""

    model_config = ConfigDict(extra="forbid")

    accounts: Annotated[dict[str, _Account], Field(min_length=1)]
    allow: _Allow | None = None
    limits: _Limits | None = None


# The settings of each section of a policy; a star is any name.
_SETTINGS: Mapping[tuple[str, ...], type[BaseModel]] = {
    (): PolicyFile,
    ("accounts", "*"): _Account,
    ("accounts", "*", "unit"): _Unit,
    ("allow",): _Allow,
    ("limits",): _Limits,
    ("limits", "question"): _Bound,
    ("limits", "purpose"): _Bound,
    ("limits", "day"): _Day,
}


def parsed(text: str) -> PolicyFile:
    """The settings of a policy, or an error that names each wrong one.

    >>> parsed("epsilom = 2")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the policy is not valid. accounts: is missing; epsilom: is not a setting of a policy
    """
    try:
        return PolicyFile.model_validate(parse_toml(text, "the policy", Decimal))
    except ValidationError as error:
        wrong = []
        for each in error.errors():
            said = _IN_WORDS.get(each["type"], each["msg"].removeprefix("Value error, "))
            if each["type"] == "extra_forbidden":
                said += _suggested(each["loc"])
            wrong.append(f"{'.'.join(map(str, each['loc']))}: {said}")
        raise InvalidInput(f"the policy is not valid. {'; '.join(wrong)}") from None


def _suggested(place: Sequence[int | str]) -> str:
    """The setting of the same section that is most similar to an unknown one."""
    *outer, name = map(str, place)
    for pattern, kind in _SETTINGS.items():
        if len(pattern) == len(outer) and all(one in ("*", other) for one, other in zip(pattern, outer, strict=True)):
            return _nearest(name, kind.model_fields)
    return ""
