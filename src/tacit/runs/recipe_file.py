"""A run's recipe as TOML, which every run folder has: its method, privacy, and every option with its value."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from tacit.core.options import OptionField, describe
from tacit.methods.registry import find_method

__all__ = ["auto_lines", "recipe_file", "toml_value", "used_options"]

_WIDTH = 100


def recipe_file(recipe: Mapping[str, Any], claim: Any) -> str:  # noqa: ANN401
    """The recipe of a run whose data were given as objects: it can be run once [data] names the files.

    >>> from tacit.core.guarantee import Adjacency, Guarantee, Trust, Unit
    >>> from fractions import Fraction
    >>> claim = Guarantee(Fraction(1), Fraction(0), Unit(), Adjacency.REPLACE_ONE, Trust.CENTRAL, "pure composition")
    >>> text = recipe_file({"method": "auto", "options": {"releases": "auto", "student": "auto"}}, claim)
    >>> text.splitlines()[3], text.splitlines()[-1]
    ('method = "auto"', 'student = "auto"')
    """
    method, unit = str(recipe["method"]), getattr(claim, "unit", None)
    lines = [
        "# The recipe of this run, with every option. Its data were given as objects, not as files: name the files",
        "# with private and public (and label) in [data], and run it again: tacit run recipe.toml --out ANOTHER",
        "",
        f"method = {toml_value(method)}",
        "",
        "[data]",
        '# private = "records.csv"',
        '# public = "samples.csv"',
    ]
    if getattr(claim, "simulation", False):
        lines.insert(2, "# That run was a simulation: its noise came from a seed, and protected nobody.")
    if recipe.get("data_kind") is not None:
        lines.append(f"data_kind = {toml_value(recipe['data_kind'])}")
    lines += ["", "[privacy]"]
    asked = {"epsilon": getattr(claim, "epsilon", None), "delta": claim.delta} | dict(recipe.get("asked") or {})
    lines += [f"{name} = {toml_value(float(value))}" for name, value in asked.items() if value is not None]
    if unit is not None and unit.column is not None:
        lines += [f"unit = {toml_value(unit.column)}", f"per_person = {unit.records}"]
    for name in ("adjacency", "trust"):
        if getattr(claim, name, None) is not None:
            lines.append(f"{name} = {toml_value(str(getattr(claim, name)))}")
    lines += ["", "[options]", f"# Options of the method {method}.", *auto_lines(recipe)]
    for each, value in used_options(recipe):
        name = each.flag or each.name
        lines += ["", *(f"# {line}" for line in textwrap.wrap(each.help, _WIDTH))]
        lines.append(f"# {name} =" if value is None else f"{name} = {toml_value(value)}")
    return "\n".join(lines) + "\n"


def used_options(recipe: Mapping[str, Any]) -> Iterator[tuple[OptionField, Any]]:
    """Every option of the run's method that text can express, with the value that was used.

    >>> found = used_options({"method": "rknn", "options": {"queries": None, "neighbors": 1}, "queries": 40})
    >>> {each.name: value for each, value in found if each.name in ("queries", "neighbors")}
    {'queries': 40, 'neighbors': 1}
    """
    found = find_method(str(recipe["method"]))
    if found is None or not found.options:
        return
    given = dict(recipe.get("options") or {})
    for each in describe(found.load_options()):
        value = given.get(each.name)
        inner: Any = type(each.default)
        if dataclasses.is_dataclass(inner) and isinstance(value, Mapping):
            for nested in describe(inner):  # type: ignore[arg-type]
                yield nested, value.get(nested.name)
        elif each.typed:
            yield each, _chosen(recipe, each.name) if value is None else value


def _chosen(recipe: Mapping[str, Any], name: str) -> int | float | None:
    """The number that the plan chose for an option that was left to it; of several rounds each has its own."""
    value = recipe.get(name)
    several = len(recipe.get("rounds") or ()) > 1 if isinstance(recipe.get("rounds"), list) else False
    return value if isinstance(value, int | float) and not isinstance(value, bool) and not several else None


def auto_lines(recipe: Mapping[str, Any]) -> list[str]:
    """What each question of the default was, with the choices behind it, as comments."""
    lines = []
    for number, each in enumerate(recipe.get("released") or (), start=1):
        told = f"Question {number}: " + "; ".join(f"{name} = {value}" for name, value in each.items())
        lines += textwrap.wrap(told, _WIDTH, initial_indent="# ", subsequent_indent="#   ")
    return lines


def toml_value(value: Any) -> str:  # noqa: ANN401
    """A value as TOML.

    >>> toml_value(True), toml_value(["a", 1.5])
    ('true', '["a", 1.5]')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
