"""A method's options as command-line options: generated from the options classes, so that there is one list of them."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import click
import typer
from typer.core import TyperCommand
from typer.main import get_click_param
from typer.models import OptionInfo, ParamMeta

from tacit.core import InvalidInput, Number, listed
from tacit.core.options import OptionField, Options, build, describe
from tacit.methods.registry import AUTO, METHODS, Method, find_method, method_named

__all__ = ["Flag", "flag_value", "flags", "read_options", "renamed_flags", "with_options"]

# The context's key for the method whose help is shown.
_METHOD = "tacit.method"


@dataclasses.dataclass(frozen=True)
class Flag:
    """One option of one or more methods: the field it sets, and its type on the command line."""

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
        """Parse what was typed: by the option's own function, or by its type."""
        if self.about.read is not None:
            try:
                return self.about.read(given)
            except InvalidInput as error:
                raise InvalidInput(f"--{self.name.replace('_', '-')} {error}") from None
        kinds = _kinds(self.hint)
        if not isinstance(given, str):
            return given
        if int in kinds and Sequence in kinds:
            found = _numbers(given, self.name, int)
            return found[0] if len(found) == 1 else found
        if Sequence in kinds and Fraction in kinds:
            return _numbers(given, self.name, Fraction)
        if Fraction in kinds:
            return _numbers(given, self.name, Fraction)[0]
        if len(kinds) == 1 and kinds <= {int, float}:
            # Another method's option of the same name takes several values, so it came as text.
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
    """The method's options from what was typed; ``more`` are objects that text cannot express."""
    options = method_named(method).load_options()
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


def with_options(own: Sequence[inspect.Parameter], used_by: Mapping[str, Callable[[Method], bool]]) -> Any:  # noqa: ANN401
    """A command with these own parameters and every method's options; those of another package's when it is named.

    ``used_by`` says of each of the command's own parameters which methods use it. Help shows one method's options.
    """
    every: dict[str, Flag] = {}
    for method in METHODS.values():
        for name, flag in flags(method.load_options()).items():
            every.setdefault(name, flag)
    parameters = [*own, *_parameters(every, renamed_flags())]

    def decorate(function: Any) -> Any:  # noqa: ANN401
        context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        function.__signature__ = inspect.Signature([context, *parameters])
        function.__annotations__ = {each.name: each.annotation for each in (context, *parameters)}
        function.command_class = _method_command(used_by, set(every))
        return function

    if both := every.keys() & {each.name for each in own}:
        raise TypeError(f"{', '.join(both)}: an option of a method and of the command")
    return decorate


def _parameters(every: Mapping[str, Flag], renamed: Mapping[str, str]) -> list[inspect.Parameter]:
    """The parameters of these flags, and hidden ones of their old names."""
    parameters = []
    for name, flag in every.items():
        default = flag.about.default
        # A switch that is off by default needs no --no- form.
        names = ["--" + name.replace("_", "-")] if default is False else []
        parameters.append(_parameter(name, typer.Option(default, *names, help=flag.about.help), flag.kind))
    switches = {each.name for each in parameters if each.annotation is bool}
    for name, new in renamed.items():
        # A switch takes no value, nor does its old name.
        kind, default = (bool, False) if new in switches else (str | None, None)
        parameters.append(_parameter(name, typer.Option(default, "--" + name.replace("_", "-"), hidden=True), kind))
    return parameters


def _method_command(used_by: Mapping[str, Callable[[Method], bool]], options: set[str]) -> type[TyperCommand]:
    """A command whose help shows the common options and those of the method that is named, wherever it is named."""

    class MethodCommand(TyperCommand):
        """Shows the help of one method."""

        def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
            """Remember the method that was typed, before or after --help; one of another package adds its options."""
            ctx.meta[_METHOD] = typed = _typed_method(args)
            found = find_method(typed)
            if found is not None and found.options and typed not in METHODS:
                own, known = found.load_options(), {each.name for each in self.params}
                if both := flags(own).keys() & used_by.keys():
                    raise InvalidInput(f"method {typed}: {listed(sorted(both))} is an option of the command already")
                added = _parameters(flags(own), {old: new for old, new in own.renamed.items() if old not in flags(own)})
                self.params += [_click_option(each) for each in added if each.name not in known]
            return super().parse_args(ctx, args)

        def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            """Help for one method, with its own texts and defaults."""
            method = method_named(ctx.meta.get(_METHOD, AUTO))
            own = flags(method.load_options())
            shown = []
            for each in self.params:
                name = each.name or ""
                if name in own and isinstance(each, click.Option):
                    each.help, each.default = own[name].about.help, own[name].about.default
                    each.rich_help_panel = f"Options of {method.name}"  # type: ignore[attr-defined]
                elif name in options or (name in used_by and not used_by[name](method)):
                    continue
                shown.append(each)
            self.params = shown
            super().format_help(ctx, formatter)

    return MethodCommand


def _click_option(parameter: inspect.Parameter) -> click.Parameter:
    made, _ = get_click_param(
        ParamMeta(name=parameter.name, default=parameter.default, annotation=parameter.annotation)
    )
    return made


def _typed_method(args: Sequence[str]) -> str:
    """The method that arguments name, by --method NAME or --method=NAME.

    >>> _typed_method(["--help", "--method", "pate"]), _typed_method(["--method=rknn"]), _typed_method([])
    ('pate', 'rknn', 'auto')
    """
    for place, each in enumerate(args):
        if each == "--method" and place + 1 < len(args):
            return args[place + 1]
        if each.startswith("--method="):
            return each.partition("=")[2]
    return AUTO


def flag_value(flag: Flag, value: Any, where: str) -> Any:  # noqa: ANN401
    """An option's value in a file, as the command line would have given it.

    >>> from tacit.methods.rknn.options import ReverseKNN
    >>> known = flags(ReverseKNN)
    >>> flag_value(known["queries"], [300, 100], "recipe.toml"), flag_value(known["neighbors"], 2, "recipe.toml")
    ('300,100', 2)
    >>> flag_value(known["neighbors"], "two", "recipe.toml")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: recipe.toml: neighbors must be a whole number
    """
    wanted = {bool: "true or false", int: "a whole number", float: "a number"}
    kind = next((each for each in wanted if each in {flag.kind, *typing.get_args(flag.kind)}), str)
    if kind is str:
        if isinstance(value, list):
            value = ",".join(map(str, value))
        elif isinstance(value, dict):
            value = ",".join(f"{name}={each}" for name, each in value.items())
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InvalidInput(f"{where}: {flag.name} must be text, a number or a list of them")
        return str(value)
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    if not (isinstance(value, bool) if kind is bool else numeric and (kind is float or isinstance(value, int))):
        raise InvalidInput(f"{where}: {flag.name} must be {wanted[kind]}")
    return float(value) if kind is float else value


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
        # A union with Number in it was flattened.
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
        raise InvalidInput(f"{flag} must be comma-separated numbers, got {text!r}") from None
