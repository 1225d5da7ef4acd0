"""The operator's policy file: the ceiling of each account and what a node answers. No job can change it.

Numbers are exact: ``epsilon = 0.1`` is one tenth, and ``"1/3"`` in quotes is a third.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from tacit.core import Ceiling, InvalidInput
from tacit.ledger.account import PolicyLimits, covered
from tacit.ledger.policy_file import ENCODER_FEATURES, ENCODER_KINDS, parsed

__all__ = [
    "Rules", "parse_policy", "parse_rules", "read_policy", "read_rules",
]  # fmt: skip

_T = TypeVar("_T")
NO_LIMITS = PolicyLimits()


@dataclass(frozen=True)
class Rules:
    """What a node answers: the methods, mechanisms and purposes it allows, and the least number of participants.

    A purpose includes its rounds: "labels" allows "labels, round 1 of 2" too. ``honest_others`` is the largest number
    of other honest nodes or devices that a guarantee may rely on, and ``noise_share`` the least share of the noise
    that this node adds itself; None is no requirement. With ``approval`` a person approves each job. Of other installed
    packages only the named ``representations`` are read. ``encoders`` are the kinds of encoders that a coordinator may
    send for raw rows, and ``encoder_features`` the most features that they may make of a record.
    """

    methods: tuple[str, ...]
    mechanisms: tuple[str, ...]
    purposes: tuple[str, ...]
    participants: int
    honest_others: int | None = None
    noise_share: Fraction | None = None
    limits: PolicyLimits = NO_LIMITS
    approval: bool = False
    representations: tuple[str, ...] = ()
    encoders: tuple[str, ...] = ENCODER_KINDS
    encoder_features: int = ENCODER_FEATURES

    def covers(self, purpose: str) -> bool:
        """Whether this purpose is allowed.

        >>> Rules(("rknn",), ("PermuteAndFlip",), ("labels",), 2).covers("labels, round 1 of 2")
        True
        """
        return any(covered(purpose, each) for each in self.purposes)


def parse_policy(text: str) -> dict[str, Ceiling]:
    """The ceiling of every account in a policy, or an error that names each wrong field.

    >>> from tacit.ledger.policy_file import POLICY_EXAMPLE
    >>> print(parse_policy(POLICY_EXAMPLE)["clinic"])
    epsilon 1, delta 1e-06 for one person (column "patient", at most 3 records each) (replace-one, adaptive)
    >>> parse_policy("[accounts.clinic]\\nepsilon = -1")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the policy is not valid. accounts.clinic.epsilon: epsilon must be above 0, got -1
    """
    return {name: account.ceiling() for name, account in parsed(text).accounts.items()}


def parse_rules(text: str) -> Rules:
    """What a policy allows a node to answer; a policy without [allow] allows nothing.

    >>> from tacit.ledger.policy_file import POLICY_EXAMPLE, RULES_EXAMPLE
    >>> parse_rules(POLICY_EXAMPLE + RULES_EXAMPLE).participants
    3
    >>> parse_rules(POLICY_EXAMPLE)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the policy has no section [allow]: a node answers only what its policy lists
    """
    policy = parsed(text)
    allowed = policy.allow
    if allowed is None:
        raise InvalidInput("the policy has no section [allow]: a node answers only what its policy lists")
    purposes = tuple(allowed.purposes)
    return Rules(
        methods=tuple(allowed.methods),
        mechanisms=tuple(allowed.mechanisms),
        purposes=purposes,
        participants=allowed.participants,
        honest_others=allowed.honest_others,
        noise_share=allowed.noise_share,
        limits=NO_LIMITS if policy.limits is None else policy.limits.limits(purposes),
        approval=allowed.approval,
        representations=tuple(allowed.representations),
        encoders=tuple(allowed.encoders),
        encoder_features=allowed.encoder_features,
    )


def parse_limits(text: str) -> PolicyLimits:
    """The limits of a policy, for a service that pays for others, as a curator does; without [limits], none.

    A limit per purpose needs the list of allowed purposes: a coordinator could name each question differently.

    >>> from tacit.ledger.policy_file import POLICY_EXAMPLE
    >>> parse_limits(POLICY_EXAMPLE + "[limits.day]\\nepsilon = 2").day.epsilon
    Fraction(2, 1)
    >>> parse_limits(POLICY_EXAMPLE + "[limits.purpose]\\nepsilon = 2")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: limits.purpose needs the purposes that the section [allow] names
    """
    policy = parsed(text)
    if policy.limits is None:
        return NO_LIMITS
    found = policy.limits.limits(() if policy.allow is None else tuple(policy.allow.purposes))
    if found.purpose is not None and not found.purposes:
        raise InvalidInput("limits.purpose needs the purposes that the section [allow] names")
    return found


def read_limits(path: str | Path) -> PolicyLimits:
    """The limits of the policy in a TOML file."""
    return _read(path, parse_limits)


def read_policy(path: str | Path) -> dict[str, Ceiling]:
    """The ceilings in a TOML file."""
    return _read(path, parse_policy)


def read_rules(path: str | Path) -> Rules:
    """What the policy in a TOML file allows a node to answer."""
    return _read(path, parse_rules)


def _read(path: str | Path, parse: Callable[[str], _T]) -> _T:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read the policy {path}: {getattr(error, 'strerror', None) or error}") from None
    try:
        return parse(text)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None
