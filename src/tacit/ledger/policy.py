"""The site's policy file: who may spend how much, on whose behalf. Jobs read it at most; none can change it.

Numbers are taken as they are written: ``epsilon = 0.1`` is one tenth, and ``"1/3"`` in quotes is a third.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, InstanceOf, ValidationError

from tacit.accounting.compose import Rule
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.rational import positive, probability
from tacit.ledger.account import Ceiling

__all__ = ["EXAMPLE", "RULES_EXAMPLE", "Rules", "parse_policy", "parse_rules", "read_policy", "read_rules"]

T = TypeVar("T")

EXAMPLE = """\
[accounts.clinic]
epsilon = 1.0               # the most that may ever be spent
delta = 1e-6                # 0, the default, is pure differential privacy
rule = "adaptive"           # or "planned": all charges were fixed in advance
adjacency = "replace-one"   # or "add-remove"
# Protects one record. To protect a person with several of them (or, with unit = "holder", all records at once):
unit = { column = "patient", records = 3 }
"""

RULES_EXAMPLE = """\
[allow]                       # what a node of a federation answers; nothing else
methods = ["rknn"]            # rknn, privatekt, fedmd
mechanisms = ["DiscreteLaplaceNoise"]
purposes = ["reverse k-NN labels"]
participants = 3              # at least so many nodes take part
"""

IN_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is not a setting of a policy",
    "model_type": 'must be a table, for example { column = "patient", records = 3 }',
}


def _number(value: object) -> int | str | Decimal:
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        raise ValueError(f"must be a number, got {value!r}")
    return value


def _epsilon(value: object) -> Fraction:
    return positive(_number(value), "epsilon")


def _delta(value: object) -> Fraction:
    return probability(_number(value), "delta")


class _Unit(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    column: Annotated[str, Field(min_length=1)]
    records: Annotated[int, Field(ge=1)]

    def protected(self) -> Unit:
        return Unit.person(self.column, self.records)


class _WholeHolder(_Unit):
    """All records of the holder: no column tells them apart."""

    column: str = ""
    records: int = 1

    def protected(self) -> Unit:
        return Unit.whole_holder()


def _whole(value: object) -> object:
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
    unit: Annotated[_Unit | None, BeforeValidator(_whole)] = None

    def ceiling(self) -> Ceiling:
        unit = Unit() if self.unit is None else self.unit.protected()
        return Ceiling(self.epsilon, self.delta, self.rule, unit, self.adjacency)


class _Allow(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    methods: Annotated[list[str], Field(min_length=1)]
    mechanisms: Annotated[list[str], Field(min_length=1)]
    purposes: Annotated[list[str], Field(min_length=1)]
    participants: Annotated[int, Field(ge=1)]


class _Policy(BaseModel):
    model_config = ConfigDict(extra="forbid")

    accounts: Annotated[dict[str, _Account], Field(min_length=1)]
    allow: _Allow | None = None


@dataclass(frozen=True)
class Rules:
    """What a site answers at all: by which methods, through which mechanisms, for which purposes, among how many.

    A purpose covers the rounds of it: "labels" allows "labels, round 1 of 2" too.
    """

    methods: tuple[str, ...]
    mechanisms: tuple[str, ...]
    purposes: tuple[str, ...]
    participants: int

    def covers(self, purpose: str) -> bool:
        """Whether this purpose is one of those.

        >>> Rules(("rknn",), ("PermuteAndFlip",), ("labels",), 2).covers("labels, round 1 of 2")
        True
        """
        return any(purpose == each or purpose.startswith(f"{each}, ") for each in self.purposes)


def parse_policy(text: str) -> dict[str, Ceiling]:
    """The ceiling of every account in a policy, or an error that names each wrong field.

    >>> print(parse_policy(EXAMPLE)["clinic"])
    epsilon 1, delta 1e-06 for one person (column "patient", at most 3 records each) (replace-one, adaptive)
    >>> parse_policy("[accounts.clinic]\\nepsilon = -1")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the policy is not valid. accounts.clinic.epsilon: epsilon must be above 0, got -1
    """
    return {name: account.ceiling() for name, account in _parsed(text).accounts.items()}


def parse_rules(text: str) -> Rules:
    """What a policy allows a node to answer; a policy that says nothing of it allows nothing.

    >>> parse_rules(EXAMPLE + RULES_EXAMPLE).participants
    3
    >>> parse_rules(EXAMPLE)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the policy has no section [allow]: a node answers only what its policy names
    """
    allowed = _parsed(text).allow
    if allowed is None:
        raise InvalidInput("the policy has no section [allow]: a node answers only what its policy names")
    return Rules(
        tuple(allowed.methods), tuple(allowed.mechanisms), tuple(allowed.purposes), participants=allowed.participants
    )


def _parsed(text: str) -> _Policy:
    try:
        return _Policy.model_validate(tomllib.loads(text, parse_float=Decimal))
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"the policy is not valid TOML: {error}") from None
    except ValidationError as error:
        wrong = []
        for each in error.errors():
            said = IN_WORDS.get(each["type"], each["msg"].removeprefix("Value error, "))
            wrong.append(f"{'.'.join(map(str, each['loc']))}: {said}")
        raise InvalidInput(f"the policy is not valid. {'; '.join(wrong)}") from None


def read_policy(path: str | Path) -> dict[str, Ceiling]:
    """The ceilings in a TOML file."""
    return _read(path, parse_policy)


def read_rules(path: str | Path) -> Rules:
    """What the policy in a TOML file allows a node to answer."""
    return _read(path, parse_rules)


def _read(path: str | Path, parse: Callable[[str], T]) -> T:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read the policy {path}: {getattr(error, 'strerror', None) or error}") from None
    try:
        return parse(text)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None
