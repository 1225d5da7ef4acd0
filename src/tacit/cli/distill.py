"""``tacit distill``: one command, and a method to choose.

Each method is a function with options of its own, in a module of its own; to add one, write it down in ``METHODS``.
Here their options are put together. An option that the chosen method does not have is refused rather than ignored:
who gives it believes that it does something.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from copy import copy
from pathlib import Path
from typing import Any

import typer
from click.core import ParameterSource
from typer.models import OptionInfo

from tacit.cli.distill_fedmd import fedmd
from tacit.cli.distill_privatekt import privatekt
from tacit.cli.distill_rknn import rknn
from tacit.core.errors import InvalidInput

__all__ = ["METHODS", "distill"]

Method = Callable[..., None]
# The first is the method where none is named.
METHODS: Mapping[str, Method] = {"rknn": rknn, "privatekt": privatekt, "fedmd": fedmd}
PANELS = {"rknn": "Options of rknn", "privatekt": "Options of privatekt", "fedmd": "Options of fedmd"}


def distill(context: typer.Context, method: str, **options: Any) -> None:  # noqa: ANN401
    """Label public samples with what private records know, and train a student on them.

    The private file never leaves this machine, and what is written was computed from it through the privacy
    mechanism alone; warnings on your screen may tell more, they are for your eyes. Scaling, encoding and the number
    of queries come from public figures.

    With --ledger a run that was interrupted can be started again with the same --out: it takes up the same
    request, gets the labels that were already paid for, and pays nothing twice. What it needs for that is kept in
    OUT.request until the run is written.

    Example: tacit distill --private records.csv --public samples.csv --label diagnosis --classes ill,well
    --epsilon 1 --unit patient --per-person 3 --out first-run

    Of many holders, none of whom shows a record to anybody: tacit distill --method privatekt --private records.csv
    --public samples.csv --label diagnosis --classes ill,well --holder clinic --epsilon 10 --ledger clinics.ledger
    """
    if method not in METHODS:
        raise InvalidInput(f"unknown method {method!r}: choose one of {', '.join(METHODS)}")
    own = _options(METHODS[method])
    given = {
        name: value
        for name, value in options.items()
        if context.get_parameter_source(name) not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
    }
    for name in given:
        if name not in own:
            others = [each for each, other in METHODS.items() if name in _options(other)]
            raise InvalidInput(f"{_flag(name)} is an option of --method {' and '.join(others)}, not of {method}")
    missing = [_flag(name) for name, option in own.items() if option.default is ... and name not in given]
    if missing:
        raise InvalidInput(f"--method {method} needs {', '.join(missing)}")
    METHODS[method](**{name: given.get(name, option.default) for name, option in own.items()})


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _options(method: Method) -> dict[str, OptionInfo]:
    return {name: each.default for name, each in inspect.signature(method).parameters.items()}


def _together() -> tuple[inspect.Signature, dict[str, Any]]:
    """The options of all methods: shared ones as the first method that has them says, the others under its name."""
    kinds: dict[str, Any] = {"context": typer.Context, "method": str}
    chosen = typer.Option(next(iter(METHODS)), help="How knowledge is passed on: " + ", ".join(METHODS) + ".")
    found: dict[str, Any] = {"context": inspect.Parameter.empty, "method": chosen}
    for method, function in METHODS.items():
        hints = typing.get_type_hints(function, {"Path": Path})
        for name, option in _options(function).items():
            if name in found:
                continue
            option = copy(option)
            owners = [each for each in METHODS.values() if name in _options(each)]
            if len(owners) == 1 and len(METHODS) > 1:
                option.rich_help_panel = PANELS[method]
            defaults = {
                each: str(_options(METHODS[each])[name].default) for each in METHODS if name in _options(METHODS[each])
            }
            if len(set(defaults.values())) > 1 and "Ellipsis" not in defaults.values():
                option.show_default = ", ".join(f"{each} {default}" for each, default in defaults.items())
            kinds[name] = hints[name]
            if option.default is ... and any(_optional(each, name) for each in METHODS.values()):
                option.default, kinds[name] = None, hints[name] | None
            found[name] = option
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, kind, default=each, annotation=kinds[name]) for name, each in found.items()]
    return inspect.Signature(parameters), kinds


def _optional(method: Method, name: str) -> bool:
    """Whether a method can do without an option."""
    option = _options(method).get(name)
    return option is None or option.default is not ...


# What the command line reads off a function: all the options, each with its kind.
distill.__signature__, distill.__annotations__ = _together()  # type: ignore[attr-defined]
