"""All mechanisms by name, Tacit's own and those of other packages; and how they are written and read.

A holder builds a mechanism from its own code: a question contains a name and numbers and nothing else. Other packages
register mechanisms as entry points of the group ``tacit.mechanisms``. Those are loaded when they are first needed, must
use the spends of ``tacit.core.spend``, and are allowed at a node only if its operator's policy names them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from tacit.core import InvalidInput, spend_from_json, spend_to_json
from tacit.core.codec import StrictReader
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.estimated_votes import EstimatedGNMax
from tacit.mechanisms.central.pate import ConfidentScreen, GNMax, LNMax
from tacit.mechanisms.central.private_knn import SubsampledGNMax, SubsampledScreen
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.mechanisms.central.sampling import StratifiedSample, SubsetSample
from tacit.mechanisms.central.selection import ExponentialMechanism, PermuteAndFlip
from tacit.mechanisms.central.tested_votes import TestedGNMax
from tacit.mechanisms.description import Checks, Described, Inner, Parameter
from tacit.mechanisms.local.bucket_labels import Concatenation, Separation
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse, RandomizedLabels, Responses
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.unary_encoding import LocalLaplace, UnaryEncoding
from tacit.mechanisms.masked.distributed_gaussian import DistributedGaussian
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.mechanisms.shuffle.multi_message_noise import MultiMessageNoise
from tacit.mechanisms.shuffle.single_message import Shuffled, SingleMessage

__all__ = [
    "MECHANISM_GROUP",
    "OWN",
    "audits",
    "described",
    "mechanism_fields",
    "outside",
    "policy_name",
    "read_mechanism",
    "registered",
]

MECHANISM_GROUP = "tacit.mechanisms"
_T = TypeVar("_T")
_log = logging.getLogger("tacit.mechanisms")

OWN: tuple[type[Described], ...] = (
    PermuteAndFlip,
    ExponentialMechanism,
    DiscreteLaplaceNoise,
    DiscreteGaussianNoise,
    RoundedGaussianNoise,
    LNMax,
    GNMax,
    ConfidentScreen,
    TestedGNMax,
    EstimatedGNMax,
    SubsampledGNMax,
    SubsampledScreen,
    UnaryEncoding,
    GeneralizedRandomizedResponse,
    SubsetSelection,
    Collision,
    LinearHashing,
    Separation,
    Concatenation,
    LocalLaplace,
    RandomizedLabels,
    Responses,
    SingleMessage,
    MultiMessageNoise,
    Shuffled,
    DistributedLaplace,
    DistributedGaussian,
    SubsetSample,
    StratifiedSample,
)
TRAVELING: Mapping[str, type[Described]] = {each.name: each for each in OWN if each.parameters is not None}


def registered() -> dict[str, type[Described]]:
    """Every mechanism that can be sent, by name.

    >>> registered()["permute-and-flip"].__name__
    'PermuteAndFlip'
    """
    return {**TRAVELING, **outside()}


@lru_cache(maxsize=1)
def outside() -> Mapping[str, type[Described]]:
    """The mechanisms of other installed packages, by name; invalid ones are left out, with a warning."""
    found: dict[str, type[Described]] = {}
    for entry in entry_points(group=MECHANISM_GROUP):
        try:
            found[entry.name] = _offered(entry, found)
        except Exception as error:
            # An error in another package must not keep a node from answering; the operator sees the warning.
            _log.warning("the mechanism %r of %s is left out: %s", entry.name, entry.value, error)
    return found


def _offered(entry: EntryPoint, before: Mapping[str, type[Described]]) -> type[Described]:
    kind = entry.load()
    if not isinstance(kind, type) or not issubclass(kind, Described) or not is_dataclass(kind):
        raise InvalidInput("it is not a frozen dataclass that describes itself")
    taken = {*before, *(each.name for each in OWN), *(each.__name__ for each in OWN)}
    if kind.name != entry.name or entry.name in taken:
        raise InvalidInput("its name is taken, or is not that of the entry point")
    if kind.parameters is None or not all(isinstance(each, Parameter | Inner) for each in kind.parameters.values()):
        raise InvalidInput("its parameters are not described")
    return kind


def described(mechanism: Any) -> Described:  # noqa: ANN401
    """The mechanism, refused unless its class is registered and its spend is one of core's.

    >>> described("permute-and-flip")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: str is no registered mechanism
    """
    kind = type(mechanism)
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or (TRAVELING.get(name) is not kind and outside().get(name) is not kind):
        raise InvalidInput(f"{kind.__name__} is no registered mechanism")
    made: Described = mechanism
    if kind not in OWN:
        _require_closed_spend(made)
    return made


def audits() -> dict[str, Checks]:
    """The audits of all mechanisms, by name.

    >>> [check.claimed for check in audits()["generalized-response"](1, 0)]
    ['ε = 1', 'unbiased']
    """
    return {name: checks for kind in (*OWN, *outside().values()) for name, checks in kind.audits().items()}


def policy_name(mechanism: Any) -> str:  # noqa: ANN401
    """A mechanism's name in a policy: the class of Tacit's own ones, the registered name of any other.

    So no class of another package can be taken for one of Tacit's own.

    >>> policy_name(PermuteAndFlip(1, 2))
    'PermuteAndFlip'
    """
    kind = type(mechanism)
    return kind.__name__ if kind in OWN else str(getattr(kind, "name", kind.__name__))


def mechanism_fields(mechanism: Any) -> dict[str, Any]:  # noqa: ANN401
    """The mechanism's name and parameters, as values that can be encoded.

    >>> mechanism_fields(PermuteAndFlip("1/4", 2))
    {'kind': 'permute-and-flip', 'rate': '1/4', 'row_range': 2}
    """
    return _written(mechanism, TRAVELING if type(mechanism) in OWN else registered())


def read_mechanism(fields: StrictReader, kinds: Iterable[type[_T]] | None = None) -> _T:
    """The mechanism that ``mechanism_fields`` wrote; unknown names and invalid numbers are refused.

    ``kinds`` are the allowed classes; by default all registered ones.

    >>> read_mechanism(StrictReader(mechanism_fields(PermuteAndFlip("1/4", 2)), "mechanism"))
    PermuteAndFlip(rate=Fraction(1, 4), row_range=2)
    """
    known: Mapping[str, type[Any]] = registered() if kinds is None else _named(kinds)
    made: _T = _read(fields, known)
    return made


def _named(kinds: Iterable[type[Any]]) -> dict[str, type[Any]]:
    return {kind.name: kind for kind in kinds}


def _inside(inner: Inner) -> dict[str, type[Any]]:
    """The classes that such a parameter may have."""
    if inner.statistic is None:
        return _named(inner.kinds)
    return {name: kind for name, kind in registered().items() if kind.statistic == inner.statistic}


def _written(value: Any, known: Mapping[str, type[Any]]) -> dict[str, Any]:  # noqa: ANN401
    kind = type(value)
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or known.get(name) is not kind:
        raise InvalidInput(f"{kind.__name__} cannot be sent as a mechanism here; these can: {', '.join(known)}")
    written: dict[str, Any] = {"kind": name}
    for part, how in kind.parameters.items():
        own = getattr(value, part)
        written[part] = _written(own, _inside(how)) if isinstance(how, Inner) else how.write(own)
    return {part: each for part, each in written.items() if each is not None}


def _read(fields: StrictReader, known: Mapping[str, type[Any]]) -> Any:  # noqa: ANN401
    kind = known[fields.one_of("kind", known)]
    values = {}
    for part, how in kind.parameters.items():
        if isinstance(how, Inner):
            values[part] = _read(fields.nested(part), _inside(how))
            how.check(values[part])
        else:
            values[part] = how.read(fields, part)
    fields.done()
    try:
        made = kind(**values)
    except (ArithmeticError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"the {fields.what} has invalid parameters") from None
    if issubclass(kind, Described) and kind not in OWN:
        _require_closed_spend(made)
    return made


def _require_closed_spend(mechanism: Any) -> None:  # noqa: ANN401
    """Refuse a spend that is not one of core's: a class of another package could claim anything."""
    try:
        closed = spend_from_json(spend_to_json(mechanism.spend)) == mechanism.spend
    except Exception:
        closed = False
    if not closed:
        raise InvalidInput(f"the spend of {type(mechanism).__name__} is not one that the accountants know")
