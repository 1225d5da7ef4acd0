"""Options of a method: a frozen dataclass, from which the command line, job file, recipe and estimator are generated.

Each field has its help text and its limits, so that all of these check and name it in the same way.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from tacit.core.errors import InvalidInput, nearest
from tacit.core.rational import whole

__all__ = [
    "OptionField",
    "Options",
    "build",
    "check",
    "describe",
    "option",
    "refuse_renamed",
    "to_recipe",
    "with_renamed",
]


class Options(Protocol):
    """A method's options: a frozen dataclass whose fields are made by ``option``."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    # Old names of fields, so that an error can give the new one.
    renamed: ClassVar[Mapping[str, str]]


Made = TypeVar("Made", bound=Options)
Class = TypeVar("Class", bound=type)


@dataclass(frozen=True)
class OptionField:
    """One field of the options: its name, default, help and limits. ``typed``: whether text can express its value."""

    name: str
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    typed: bool = True
    flag: str = ""  # what a command line calls it, where the name alone says too little
    read: Callable[[Any], Any] | None = None  # from what was typed, where its type alone does not say how


def option(
    default: Any,  # noqa: ANN401
    help: str,
    *,
    choices: tuple[str, ...] = (),
    least: float | None = None,
    most: float | None = None,
    typed: bool = True,
    flag: str = "",
    read: Callable[[Any], Any] | None = None,
) -> Any:  # noqa: ANN401
    """A field of an options class. ``typed=False`` is for objects that text cannot express.

    An integer ``least`` means integers from ``least`` on; any other, or none, means numbers above it. ``read`` is the
    function from typed text or a number to the value; it raises ``InvalidInput`` with what the value must be.
    """
    about = {
        "help": help, "choices": choices, "least": least, "most": most, "typed": typed, "flag": flag, "read": read,
    }  # fmt: skip
    return dataclasses.field(default=default, metadata=about)


def refuse_renamed(names: Iterable[str], renamed: Mapping[str, str], where: str = "") -> None:
    """Refuse an option's old name, with its new one.

    >>> refuse_renamed(["turns"], {"turns": "rounds"})
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: turns is called rounds now
    """
    for name in names:
        if name in renamed:
            raise InvalidInput(f"{where}{name} is called {renamed[name]} now")


def with_renamed(options: Class) -> Class:
    """An options class whose constructor refuses the old names of its fields with their new ones.

    >>> @with_renamed
    ... @dataclass(frozen=True)
    ... class Mean:
    ...     renamed = {"turns": "rounds"}
    ...     rounds: int = option(3, "How often to ask.", least=1)
    >>> Mean(turns=2)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: turns is called rounds now
    """
    own: Any = options
    made, renamed = own.__init__, own.renamed

    @wraps(made)
    def checked(self: Any, *given: Any, **named: Any) -> None:  # noqa: ANN401
        refuse_renamed(named, renamed)
        made(self, *given, **named)

    own.__init__ = checked
    return options


def describe(options: type[Options]) -> list[OptionField]:
    """Every field of an options class, in order.

    >>> @dataclass(frozen=True)
    ... class Mean:
    ...     renamed = {}
    ...     rounds: int = option(3, "How often to ask.", least=1)
    >>> describe(Mean)[0].help
    'How often to ask.'
    """
    return [
        OptionField(each.name, each.default, **each.metadata) for each in dataclasses.fields(options) if each.metadata
    ]


def check(options: Options) -> None:
    """Refuse a field that is out of its limits; called by ``__post_init__`` of every options class.

    >>> @dataclass(frozen=True)
    ... class Mean:
    ...     renamed = {}
    ...     rounds: int = option(3, "How often to ask.", least=1)
    ...     def __post_init__(self): check(self)
    >>> Mean(0)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: rounds must be at least 1, got 0
    """
    for each in describe(type(options)):
        value = getattr(options, each.name)
        allowed = (each.default, *each.choices)
        if _is_group(each.default) and not isinstance(value, type(each.default)):
            raise InvalidInput(f"{each.name} must be a {type(each.default).__name__}, got {type(value).__name__}")
        if each.choices and not (isinstance(value, str | None) and value in allowed):
            raise InvalidInput(f"{each.name} must be one of {', '.join(each.choices)}, got {value!r}")
        if value is None or (each.least is None and each.most is None):
            continue
        if isinstance(each.least, int):
            for number in np.asarray(value).reshape(-1).tolist():
                if whole(number, each.name, each.least) > (math.inf if each.most is None else each.most):
                    raise InvalidInput(f"{each.name} must be at most {each.most}, got {number}")
        elif isinstance(value, bool) or not isinstance(value, numbers.Real) or not _within(value, each):
            low = "" if each.least is None else f"above {each.least:g}"
            high = "" if each.most is None else f"at most {each.most:g}"
            raise InvalidInput(f"{each.name} must be {' and '.join(filter(None, (low, high)))}, got {value!r}")


def _is_group(value: Any) -> bool:  # noqa: ANN401
    """Whether it is an object of options, inside of a method's."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _within(value: numbers.Real, each: OptionField) -> bool:
    number = float(value)
    above = -math.inf if each.least is None else each.least
    return above < number <= (math.inf if each.most is None else each.most)


def build(made: type[Made], given: Mapping[str, Any], where: str = "") -> Made:
    """The options with these values; an unknown name is refused and the nearest one suggested.

    A mapping stands for the options inside of an option, such as PrivateKT's ``teaching``.

    >>> @dataclass(frozen=True)
    ... class Mean:
    ...     renamed = {"turns": "rounds"}
    ...     rounds: int = option(3, "How often to ask.", least=1)
    >>> build(Mean, {"turns": 2})
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: turns is called rounds now
    >>> build(Mean, {"round": 2})
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: unknown option 'round' of Mean; did you mean 'rounds'?
    """
    known = [each.name for each in dataclasses.fields(made)]
    refuse_renamed(given, getattr(made, "renamed", {}), where)
    for name in given:
        if name not in known:
            close = nearest(name, known)
            meant = f"; did you mean {close!r}?" if close else f": it has {', '.join(known)}"
            raise InvalidInput(f"{where}unknown option {name!r} of {made.__name__}{meant}")

    def read(name: str, value: Any) -> Any:  # noqa: ANN401
        default: Any = getattr(made, name, None)
        group = isinstance(value, Mapping) and _is_group(default)
        return build(type(default), value, f"{where}{name}: ") if group else value

    return made(**{name: read(name, value) for name, value in given.items()})


def to_recipe(options: Options) -> dict[str, Any]:
    """The options as JSON values, for the recipe of a run; objects by the name of their class.

    >>> @dataclass(frozen=True)
    ... class Mean:
    ...     renamed = {}
    ...     rounds: int = option(3, "How often to ask.", least=1)
    >>> to_recipe(Mean())
    {'rounds': 3}
    """
    return {each.name: _plain(getattr(options, each.name)) for each in dataclasses.fields(options)}


def _plain(value: Any) -> Any:  # noqa: ANN401
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.integer | np.floating):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if _is_group(value):
        return {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    return str(value) if isinstance(value, numbers.Number) else type(value).__name__
