"""A method's options as command-line options: generated from the options classes, so that there is one list of them."""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import typer
from typer.models import OptionInfo

from tacit.core.errors import InvalidInput
from tacit.core.options import OptionField, Options, build, describe
from tacit.core.rational import Number
from tacit.methods.registry import METHODS

__all__ = ["Flag", "flags", "read_options", "renamed_flags", "with_options"]


@dataclasses.dataclass(frozen=True)
class Flag:
    """One option of one or more methods: where it belongs, and of what kind it is on a command line."""

    about: OptionField
    hint: Any
    path: tuple[str, ...]  # from the options object to the field

    @property
    def name(self) -> str:
        """The parameter's name."""
        return self.about.flag or self.about.name

    @property
    def kind(self) -> Any:  # noqa: ANN401
        """The type that the command line reads."""
        kinds = _kinds(self.hint)
        if bool in kinds:
            return bool
        if kinds == {int}:
            return int | None if self.about.default is None else int
        if kinds == {float}:
            return float | None if self.about.default is None else float
        return str | None if self.about.default is None else str

    def read(self, given: Any) -> Any:  # noqa: ANN401
        """The value that text stands for: numbers with commas between them, a shape, or a model for each name."""
        kinds = _kinds(self.hint)
        if not isinstance(given, str):
            # A buffer of 0 rounds, as people type it, forgets nothing.
            return None if given == 0 and self.name == "buffer" else given
        if self.name == "shape":
            return _shape(given)
        if self.name == "models":
            return _models(given)
        if self.name == "weights" and not given.isalpha():
            return tuple(float(each) for each in _numbers(given, self.name, float))
        if int in kinds and Sequence in kinds:
            found = _numbers(given, self.name, int)
            return found[0] if len(found) == 1 else found
        if Sequence in kinds and Fraction in kinds:
            return _numbers(given, self.name, Fraction)
        if Fraction in kinds:
            return _numbers(given, self.name, Fraction)[0]
        if len(kinds) == 1 and kinds <= {int, float}:
            # Another method's option of the same name takes several, so that it came as text.
            several = _numbers(given, self.name, *kinds)
            return several[0] if len(several) == 1 else several
        return Path(given) if Path in kinds else given


@cache
def flags(options: type[Options]) -> dict[str, Flag]:
    """The command-line options of a method, those of its nested options among them."""
    found = {}
    hints = typing.get_type_hints(options)
    for each in describe(options):
        hint = hints[each.name]
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            inner = typing.get_type_hints(hint)
            for nested in describe(hint):  # type: ignore[arg-type]
                flag = Flag(nested, inner[nested.name], (each.name, nested.name))
                found[flag.name] = flag
        elif each.typed:
            found[each.flag or each.name] = Flag(each, hint, (each.name,))
    return found


def read_options(method: str, given: Mapping[str, Any], more: Mapping[str, Any]) -> Options:
    """The method's options from what was typed; ``more`` are objects that no text stands for."""
    options = METHODS[method].load_options()
    plain: dict[str, Any] = dict(more)
    nested: dict[str, dict[str, Any]] = {}
    for name, flag in flags(options).items():
        if name not in given:
            continue
        value = flag.read(given[name])
        if len(flag.path) == 1:
            plain[flag.path[0]] = value
        else:
            nested.setdefault(flag.path[0], {})[flag.path[1]] = value
    for name, values in nested.items():
        plain[name] = dataclasses.replace(getattr(options, name), **values)
    return build(options, plain)


def renamed_flags() -> dict[str, str]:
    """Options that had another name, and what they are called now."""
    found = {"ledgers": "ledger", "queries_each": "queries", "save_party_models": "save_holder_models"}
    for method in METHODS.values():
        own = flags(method.load_options())
        for old, new in method.load_options().renamed.items():
            if old not in own and not any(old in flags(each.load_options()) for each in METHODS.values()):
                found[old] = new
    return found


def with_options(function: Any) -> Any:  # noqa: ANN401
    """The command with every method's options beside its own, each under the method that has it."""
    signature = inspect.signature(function, eval_str=True)
    parameters = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    known = {each.name for each in parameters}
    owners: dict[str, list[str]] = {}
    every: dict[str, Flag] = {}
    for method in METHODS.values():
        for name, flag in flags(method.load_options()).items():
            owners.setdefault(name, []).append(method.name)
            every.setdefault(name, flag)
    for name, flag in every.items():
        if name in known:
            raise TypeError(f"{name} is an option of a method and of the command")
        panel = f"Options of {' and '.join(owners[name])}"
        default = flag.about.default
        # A switch that is off needs no second name to turn it off.
        names = ["--" + name.replace("_", "-")] if default is False else []
        info: OptionInfo = typer.Option(default, *names, help=flag.about.help, rich_help_panel=panel)
        usual = {each: str(flags(METHODS[each].load_options())[name].about.default) for each in owners[name]}
        if len(set(usual.values())) > 1:
            info.show_default = ", ".join(f"{each} {value}" for each, value in usual.items())
        parameters.append(_parameter(name, info, flag.kind))
    switches = {each.name for each in parameters if each.annotation is bool}
    for name, new in renamed_flags().items():
        # A switch takes no value, under its old name neither.
        kind, default = (bool, False) if new in switches else (str | None, None)
        parameters.append(_parameter(name, typer.Option(default, "--" + name.replace("_", "-"), hidden=True), kind))
    function.__signature__ = inspect.Signature(parameters)
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    return function


def _parameter(name: str, info: OptionInfo, kind: Any) -> inspect.Parameter:  # noqa: ANN401
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=info, annotation=kind)


def _kinds(hint: Any) -> set[Any]:  # noqa: ANN401
    """The types that a hint is made of, without None; a number may be written as a fraction.

    >>> sorted(kind.__name__ for kind in _kinds(int | None))
    ['int']
    """
    if hint is Number or hint == Number:
        return {Fraction}
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        found: set[Any] = set()
        for each in typing.get_args(hint):
            found |= _kinds(each)
        found.discard(type(None))
        # A union that a Number is part of was flattened.
        return {Fraction} | (found & {Sequence}) if Fraction in found and int in found else found
    if isinstance(origin, type) and issubclass(origin, Sequence) and origin is not str:
        inner: set[Any] = set()
        for each in typing.get_args(hint):
            inner |= _kinds(each) if each is not Ellipsis else set()
        return {Sequence} | inner
    return {hint}


def _numbers(text: str, option: str, kind: Any) -> list[Any]:  # noqa: ANN401
    try:
        return [kind(each.strip()) for each in text.split(",")]
    except (ValueError, ZeroDivisionError):
        flag = "--" + option.replace("_", "-")
        raise InvalidInput(f"{flag} must be numbers with commas between them, got {text!r}") from None


def _shape(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*(x[1-9]\d*)?", text):
        raise InvalidInput(f"--shape must be like 28x28 or 32x32x3, got {text!r}")
    return tuple(int(side) for side in text.split("x"))


def _models(text: str) -> list[str] | dict[str, str] | None:
    """Kinds of models in turn, or one for each holder by its name."""
    if text == "auto":
        return None
    given = [each.strip() for each in text.split(",")]
    if not any("=" in each for each in given):
        return given
    pairs = [each.rpartition("=") for each in given]
    return {name or "?": model for name, _, model in pairs}
