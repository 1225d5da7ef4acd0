"""A run as one file: all options of ``tacit distill``, read from TOML and written back with every default.

The settings are declared here once: the command line's options, the recipe's keys and their comments are generated from
them. Paths in a recipe are relative to the recipe's own folder.
"""

from __future__ import annotations

import dataclasses
import os
import re
import textwrap
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

from tacit.cli.method_options import flag_value, flags
from tacit.core import InvalidInput, Number, Unit, listed, nearest
from tacit.core.places import LedgerUrl, ledger_place
from tacit.core.toml import read_toml
from tacit.methods.registry import AUTO, DEFAULT, METHODS, Method, automatic, method_named
from tacit.runs.recipe_file import toml_value

__all__ = ["SECTIONS", "Recipe", "absolute", "from_fields", "read_recipe", "recipe_text"]

# In the order of the file; "" is the part before the first section.
SECTIONS = {
    "": "",
    "data": "The files. Private values leave this machine through the privacy mechanism only.",
    "privacy": "The budget, and whom it protects.",
    "holders": "The holders of the records, where there are several.",
    "payment": "The ledger that pays: its budget survives runs, and a killed run can be resumed.",
    "options": "",
}
_OPTIONS = "options"
_WIDTH = 100
# A published set is named by its format before the file.
_PREFIXED = re.compile(r"(?P<format>[a-z0-9]+):(?P<file>[^/\\].*|/.*)")
# Whether a method uses a setting.
Uses = Callable[[Method], bool]
_STREAMING: Uses = attrgetter("streams")
_HOLDERS: Uses = attrgetter("divided")


def setting(default: Any, section: str, help: str, used_by: Uses = lambda _: True, example: str = "") -> Any:  # noqa: ANN401
    """A field of a recipe: its section, its help, the methods that use it, and an example."""
    about = {"section": section, "help": help, "used_by": used_by, "example": example}
    return field(metadata=about) if default is ... else field(default=default, metadata=about)


@dataclass(frozen=True)
class Recipe:
    """All settings of a run. ``options`` are the method's options that were given, as its flags take them."""

    private: Path = setting(
        ...,
        "data",
        "Labeled private records: .csv, .tsv, .jsonl (also .gz, .xz, .bz2), .parquet, .arrow, .feather, .npz (or "
        "file.npz:array), .npy, a folder of images with a folder per class, or a published set (svhn:FILE). With "
        "--engine also a folder or a pattern, such as 'records/*.parquet'.",
    )
    public: Path = setting(
        ..., "data", "Unlabeled public samples with the same feature columns, or a folder of images."
    )
    label: str | None = setting(
        None,
        "data",
        "The label column, or array (npz), or file (npy) of the private records. Folders of images have none.",
        example='"diagnosis"',
    )
    data_kind: str | None = setting(
        None,
        "data",
        "Kind of data: images, photographs, text, mixed, table, embedding. Recognized from public data if left out.",
        example='"mixed"',
    )
    text: list[str] = setting((), "data", "A text column; may be given several times.")
    category: list[str] = setting(
        (), "data", "A categorical column that looks like numbers; may be given several times."
    )
    method: str = setting(
        AUTO, "", f"One of {', '.join(METHODS)}; auto plans by the data. '--method NAME --help' lists its options."
    )
    engine: str | None = setting(
        None,
        "data",
        "Count records in place, batch by batch, instead of reading them into memory: threads, ray or spark.",
        _STREAMING,
        example='"threads"',
    )
    address: str | None = setting(
        None,
        "data",
        "With --engine: a cluster's address, such as spark://host:7077; this machine if left out.",
        _STREAMING,
        example='"spark://host:7077"',
    )
    workers: int | None = setting(None, "data", "With --engine: number of simultaneous tasks.", _STREAMING, example="4")
    epsilon: float | None = setting(
        None, "privacy", "The privacy budget of this run: smaller is more private; 1 is a good start.", example="1.0"
    )
    delta: float | None = setting(
        None,
        "privacy",
        "A small failure probability, e.g. 1e-6, allows Gaussian noise. 0 is pure; privatekt has 1e-5.",
        example="1e-6",
    )
    classes: str | None = setting(
        None,
        "data",
        "The classes, which must be public: a,b,c or a .txt or .json file. Read from the private labels if left out.",
        example='["ill", "well"]',
    )
    unit: str | None = setting(
        None,
        "privacy",
        "Column that identifies the person of a record; protects persons instead of records.",
        example='"patient"',
    )
    per_person: int = setting(1, "privacy", "With --unit: the most records used per person.")
    holder: str | None = setting(
        None, "holders", "Column that names the holder of a record.", _HOLDERS, example='"clinic"'
    )
    holders: int | None = setting(
        None, "holders", "Split the records among N simulated holders.", _HOLDERS, example="10"
    )
    alpha: float | None = setting(
        None, "holders", "With --holders: a Dirichlet partition by class with this alpha.", _HOLDERS, example="0.5"
    )
    by_class: bool = setting(False, "holders", "With --holders: one class per holder, or two.", _HOLDERS)
    trust: str | None = setting(
        None,
        "privacy",
        "Trust model: central (a curator), or local or shuffle (one record per holder). The method's own if left out.",
        example='"central"',
    )
    adjacency: str = setting("replace-one", "privacy", "replace-one, or add-remove (then give --queries).")
    ledger: Path | LedgerUrl | None = setting(
        None,
        "payment",
        "The ledger that pays, opened with 'tacit ledger open': a file, or postgresql://… for one on a server. Where "
        "every holder pays: also a folder with one ledger per holder; created if it does not exist.",
        example='"budget.ledger"',
    )
    account: str | None = setting(
        None,
        "payment",
        "The ledger's account that pays; where every holder does, 'ACCOUNT <holder>'.",
        example='"research"',
    )
    public_label: str | None = setting(
        None,
        "data",
        "A label column of the public file, to pretrain the models.",
        lambda method: method.name == "fedmd",
        example='"topic"',
    )
    save_holder_models: bool = setting(
        False,
        "holders",
        "Write each holder's own model as well. It was trained on records without noise: NO guarantee covers it.",
        lambda method: method.name == "fedmd",
    )
    seed: int | None = setting(None, "", "Replayable noise: a simulation, without a guarantee.", example="0")
    out: Path = setting(Path("tacit-run"), "", "The run folder to write; must not exist.")
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.ledger, str):
            object.__setattr__(self, "ledger", ledger_place(self.ledger))

    @property
    def chosen(self) -> str:
        """The method that runs; ``auto`` becomes ``rknn`` if one of its options is given."""
        return method_named(automatic(self.options) if self.method == AUTO else self.method).name

    @property
    def slack(self) -> Number:
        """The δ of the run, by default that of the method."""
        return method_named(self.chosen).delta if self.delta is None else self.delta

    @property
    def protected(self) -> Unit:
        """Whom the guarantee protects."""
        return Unit() if self.unit is None else Unit.person(self.unit, self.per_person)

    @classmethod
    def settings(cls) -> dict[str, dataclasses.Field[Any]]:
        """Every field but the method's options, by its name."""
        return {each.name: each for each in dataclasses.fields(cls) if each.metadata}

    def fields(self) -> dict[str, Any]:
        """The recipe as JSON values, to be read again by ``from_fields``."""
        kept = {name: getattr(self, name) for name in self.settings()}
        return {
            name: str(value)
            if isinstance(value, Path | LedgerUrl)
            else list(value)
            if isinstance(value, tuple)
            else value
            for name, value in kept.items()
            if value is not None
        } | {_OPTIONS: dict(self.options)}


def read_recipe(file: Path) -> Recipe:
    """The recipe in a file; an unknown key is an error that suggests the nearest one.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "recipe.toml"
    >>> _ = file.write_text('[data]\\nprivate = "a.csv"\\npublic = "b.csv"\\n[privacy]\\nepsilon = 1\\n')
    >>> read_recipe(file).private == file.parent / "a.csv"
    True
    >>> _ = file.write_text('[privacy]\\nepsilonn = 1\\n')
    >>> read_recipe(file)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: ...: unknown key 'epsilonn' in [privacy]; did you mean 'epsilon'?
    """
    shown = listed([str(file)])
    try:
        if not file.is_file():
            what = "a folder, not a recipe" if file.is_dir() else "no such recipe; write one with 'tacit init'"
            raise InvalidInput(f"{shown}: {what}")
    except OSError as error:
        raise InvalidInput(f"cannot read {shown}: {error.strerror}") from None
    found = read_toml(file)
    flat: dict[str, Any] = {}
    for name, value in found.items():
        if isinstance(value, dict) and name in SECTIONS:
            for key, inner in value.items():
                flat[key if name != _OPTIONS else f"{_OPTIONS}.{key}"] = inner
                if name != _OPTIONS:
                    _require_key(shown, key, name)
        else:
            _require_key(shown, name, "")
            flat[name] = value
    options = {key.partition(".")[2]: value for key, value in flat.items() if key.startswith(f"{_OPTIONS}.")}
    given = {key: value for key, value in flat.items() if not key.startswith(f"{_OPTIONS}.")}
    return absolute(from_fields({**given, _OPTIONS: options}, shown), file.parent)


def from_fields(found: Mapping[str, Any], where: str) -> Recipe:
    """A recipe from its values by name; a value of a wrong type is an error that names it."""
    hints, settings = typing.get_type_hints(Recipe), Recipe.settings()
    given: dict[str, Any] = {}
    for name in settings:
        if name in found:
            given[name] = _typed(found[name], hints[name], name, where)
    for name in ("private", "public"):
        if name not in given:
            raise InvalidInput(f"{where}: {name} is missing: name the file in [data]")
    made = Recipe(**given)
    options = dict(found.get(_OPTIONS, {}))
    own = flags(method_named(automatic(options) if made.method == AUTO else made.method).load_options())
    for name in options:
        if name not in own:
            _refuse_option(name, made.method, where)
    return dataclasses.replace(made, options={name: flag_value(own[name], options[name], where) for name in options})


def absolute(recipe: Recipe, home: Path) -> Recipe:
    """The recipe with every path made absolute, from ``home``."""
    moved: dict[str, Any] = {
        name: Path(_moved(str(value), lambda each: os.path.normpath(home / each)))
        for name in ("private", "public", "ledger", "out")
        if isinstance(value := getattr(recipe, name), Path)
    }
    for name in ("label", "classes"):
        if _names_file(recipe, name):
            moved[name] = os.path.normpath(home / getattr(recipe, name))
    return dataclasses.replace(recipe, **moved)


def recipe_text(
    recipe: Recipe, home: Path, head: str, notes: Mapping[str, str] | None = None, asked: Sequence[str] = ()
) -> str:
    """The recipe as commented TOML: all settings, defaults, and keys that could be set, for its method.

    Paths are written relative to ``home``, where the file will be. ``notes`` are comments on a key, and ``asked`` on
    the options.
    """
    lines, notes, method = [f"# {line}" for line in head.splitlines()], notes or {}, recipe.chosen
    for section, about in SECTIONS.items():
        body = _option_lines(recipe) if section == _OPTIONS else _setting_lines(recipe, section, home, notes)
        if not body:
            continue
        if section:
            title = about or f"Options of the method {method}."
            lines += ["", f"[{section}]", f"# {title}", *(asked if section == _OPTIONS else ())]
        lines += body
    return "\n".join(lines) + "\n"


def _setting_lines(recipe: Recipe, section: str, home: Path, notes: Mapping[str, str]) -> list[str]:
    lines = []
    for name, each in Recipe.settings().items():
        about = each.metadata
        if about["section"] != section or not about["used_by"](method_named(recipe.chosen)):
            continue
        value = recipe.chosen if name == "method" else getattr(recipe, name)
        if isinstance(value, Path) or _names_file(recipe, name):
            # The run folder itself, seen from inside.
            own = name == "out" and Path(value) == home
            value = f"../{home.name}" if own else _moved(str(value), lambda inner: os.path.relpath(inner, home))
        elif name == "classes" and value is not None:
            value = [part.strip() for part in value.split(",")]
        lines += ["", *_comment(about["help"]), *(_comment(notes[name]) if name in notes else ())]
        lines.append(f"# {name} = {about['example']}" if value is None else f"{name} = {toml_value(value)}")
    return lines


def _option_lines(recipe: Recipe) -> list[str]:
    lines = []
    for name, flag in flags(method_named(recipe.chosen).load_options()).items():
        value = recipe.options.get(name, flag.about.default)
        lines += ["", *_comment(flag.about.help)]
        lines.append(f"# {name} =" if value is None else f"{name} = {toml_value(value)}")
    return lines


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH)]


def _require_key(where: str, key: str, section: str) -> None:
    """Refuse a key that is unknown, or that belongs to another section."""
    known = {name: each.metadata["section"] for name, each in Recipe.settings().items()}
    place = f"[{section}]" if section else "the file's head"
    if key in known:
        if known[key] != section:
            right = f"[{known[key]}]" if known[key] else "the file's head"
            raise InvalidInput(f"{where}: {key} is in {place}, but belongs to {right}")
        return
    close = nearest(key, [*known, *(SECTIONS if not section else ())])
    meant = f"; did you mean {close!r}?" if close else f"; {place} has {_keys(section)}"
    raise InvalidInput(f"{where}: unknown key {listed([key])!r} in {place}{meant}")


def _keys(section: str) -> str:
    return listed([name for name, each in Recipe.settings().items() if each.metadata["section"] == section])


def _refuse_option(name: str, method: str, where: str) -> None:
    owners = [each for each in METHODS if name in flags(METHODS[each].load_options())]
    if owners:
        raise InvalidInput(f"{where}: {name} is an option of {' and '.join(owners)}, not of {method}")
    own = list(flags(method_named(method).load_options()))
    # ``auto`` takes the options of rknn, too.
    known = own if method != AUTO else [*own, *flags(METHODS[DEFAULT].load_options())]
    close = nearest(name, known)
    meant = f"; did you mean {close!r}?" if close else f": it has {listed(own)}"
    raise InvalidInput(f"{where}: unknown key {listed([name])!r} in [options] of {method}{meant}")


def _typed(value: Any, hint: Any, name: str, where: str) -> Any:  # noqa: ANN401
    """A TOML value as the field takes it."""
    kinds = set(typing.get_args(hint)) - {type(None)} if typing.get_origin(hint) is not list else {list}
    kind = str if name == "ledger" else kinds.pop() if kinds else hint
    if kind is list and isinstance(value, str):
        value = [value]
    if name == "classes" and isinstance(value, list) and value:
        if any("," in str(each) for each in value):
            raise InvalidInput(f"{where}: a class with a comma in its name: list the classes in a .txt or .json file")
        value = ",".join(map(str, value))
    wanted: Any = {bool: bool, int: int, float: (int, float), list: list}.get(kind, str)
    right = isinstance(value, wanted) and isinstance(value, bool) == (kind is bool) and value != ""
    if not right or (kind is list and not all(isinstance(each, str) for each in value)):
        said = {bool: "true or false", int: "a whole number", float: "a number", list: "a list of names"}
        raise InvalidInput(f"{where}: {name} must be {said.get(kind, 'text in quotes')}")
    if name in ("per_person", "holders", "workers") and value < 1:
        raise InvalidInput(f"{where}: {name} must be at least 1, got {value}")
    return tuple(value) if kind is list else float(value) if kind is float else Path(value) if kind is Path else value


def _names_file(recipe: Recipe, name: str) -> bool:
    """Whether this text is a file name: the labels of an npy file, or a list of classes."""
    value = getattr(recipe, name)
    if name == "classes":
        return value is not None and Path(value).suffix.lower() in (".txt", ".json")
    return name == "label" and value is not None and recipe.private.suffix.lower() == ".npy"


def _moved(text: str, move: Any) -> str:  # noqa: ANN401
    """The path in a text, moved; the format prefix of a published data set stays."""
    from tacit.datasets.published import FORMATS

    parts = _PREFIXED.fullmatch(text)
    if parts is not None and parts["format"] in FORMATS:
        return f"{parts['format']}:{move(parts['file'])}"
    return str(move(text))
