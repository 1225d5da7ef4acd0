"""What the site makes of the code: the reference of names, commands and options, and the list of all results.

Pages that are generated are written nowhere: they are made when the site is built, so they cannot be out of date.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import tacit
from tacit.cli.application import COMMANDS
from tacit.cli.method_options import flags
from tacit.core.options import Options, describe
from tacit.methods.registry import METHODS

# The public names, by what a reader looks for.
PARTS = {
    "Distill": ["distill", "Run", "load", "PrivateDistiller", "Nodes", "Observer", "Partition"],
    "Options of the methods": [
        *("Auto", "ReverseKNN", "ClassSums", "PrivateKT", "Learning", "Teaching", "FedMD", "Schedule", "PATE"),
    ],
    "Guarantees": ["Guarantee", "Unit", "Adjacency", "Trust", "Receipt", "Release"],
    "Spends": [
        *("Pure", "Approximate", "Gaussian", "DiscreteGaussian", "RandomizedResponse", "Subsampled", "Repeated"),
    ],
    "Accounting": ["total", "least_total"],
    "Ledgers": ["open_ledger", "Ceiling"],
    "Data": ["digits", "read_published"],
    "Errors": ["TacitError", "InvalidInput", "BudgetExceeded", "LedgerError", "TacitWarning"],
}
RESULTS = "<!-- every result -->"
SCRIPT = re.compile(r"(?m)^( *)<!-- file: ([\w.]+) -->$")


class FencedExamples(griffe.Extension):
    """Examples of docstrings as blocks of Python: in Markdown, their prompts would be quotations."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401
        """Fence the examples of one object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The text with its examples, prompts and what they print, as blocks."""
    return re.sub(r"(?m)^( *)>>> (?:.*\n?)(?:^(?! *$).*\n?)*", lambda found: f"\n```pycon\n{found[0]}\n```\n", text)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are generated."""
    for place, text in (
        ("reference/python.md", names()),
        ("reference/commands.md", commands()),
        ("reference/options.md", options()),
    ):
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in the list of all results, and the scripts of the gallery, where a page asks for them."""
    if RESULTS in markdown:
        markdown = markdown.replace(RESULTS, "\n".join(results(Path(config.docs_dir, "results"))))
    return SCRIPT.sub(lambda each: script(Path(config.docs_dir, "examples", each[2]), each[1]), markdown)


def script(file: Path, indent: str) -> str:
    """A script as a block."""
    return indent + f"```python\n{file.read_text(encoding='utf-8')}```".replace("\n", f"\n{indent}")


def names() -> str:
    """Every public name with its signature, its words and its example; what is new and in no part yet comes last."""
    listed = {name for part in PARTS.values() for name in part}
    parts = PARTS | {"More": sorted(set(tacit.HOMES) - listed - {"__version__"})}
    lines = [
        "# Python", "", "*What can I import, and what does it take?* `import tacit` has these names and no others.", ""
    ]  # fmt: skip
    for part, members in parts.items():
        lines += [f"## {part}", ""] if members else []
        for name in members:
            lines += [f"::: {tacit.HOMES[name]}.{name}", ""]
            found = getattr(import_module(tacit.HOMES[name]), name)
            if dataclasses.is_dataclass(found) and isinstance(found, type) and describe(found):  # type: ignore[arg-type]
                lines += [*option_table(found), ""]
    return "\n".join(lines)


def options() -> str:
    """Every method's options as a command line and a job file name them."""
    lines = [
        "# Options",
        "",
        "*What can I tell a method?* In Python, on the command line and in a job file, the same.",
        "",
    ]
    for name, method in METHODS.items():
        made = method.load_options()
        lines += [f"## {name}", "", f"`tacit.{made.__name__}`, `--method {name}`. {first_line(made)}", ""]
        lines += ["| option | on the command line | default | what it does |", "|---|---|---|---|"]
        for flag in flags(made).values():
            typed, default = "--" + flag.name.replace("_", "-"), shown(flag.about.default)
            lines.append(f"| `{'.'.join(flag.path)}` | `{typed}` | {default} | {cell(flag.about.help)} |")
        lines.append("")
    return "\n".join(lines)


def option_table(made: type[Options]) -> list[str]:
    """The fields of an options class."""
    rows = [f"| `{each.name}` | {shown(each.default)} | {cell(each.help)} |" for each in describe(made)]
    return ["| option | default | what it does |", "|---|---|---|", *rows]


def commands() -> str:
    """Every command with its words, arguments and options."""
    lines = ["# Commands", "", "*What can I type?* What `tacit COMMAND --help` says, on one page.", ""]
    for name, entry in COMMANDS.items():
        if name == "bench":
            lines += ["## tacit bench", "", f"{entry.line} Its options: `tacit bench --help`.", ""]
            continue
        for words, command in walk(f"tacit {name}", entry.load(name)):
            lines += [f"## {words}", "", plain(command.help or ""), "", *parameters(command), ""]
    return "\n".join(lines)


def walk(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """A command and all below it."""
    yield words, command
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(f"{words} {name}", below)


def parameters(command: click.Command) -> list[str]:
    """What a command takes, as a table."""
    rows = []
    for each in command.params:
        if getattr(each, "hidden", False) or each.name == "help":
            continue
        about = getattr(each, "help", None) or ""
        called = ", ".join(each.opts) if isinstance(each, click.Option) else (each.name or "").upper()
        default = "must be given" if each.required else shown(each.default)
        rows.append(f"| `{called}` | {default} | {cell(plain(about))} |")
    return ["| | default | what it is |", "|---|---|---|", *rows] if rows else []


def results(folder: Path) -> list[str]:
    """A row for every figure: what it measures, its page, and its numbers for a program."""
    rows = ["| figure | what is measured | numbers |", "|---|---|---|"]
    for page in sorted(folder.glob("*.md")):
        if page.name == "index.md":
            continue
        _, _, about = page.read_text(encoding="utf-8").partition("\n\n")
        first = re.split(r"(?<=[.;])\s", about.strip(), maxsplit=1)[0]
        numbers = f"[JSON]({page.stem}.json)" if page.with_suffix(".json").exists() else ""
        rows.append(f"| [{page.stem}]({page.name}) | {cell(first)} | {numbers} |")
    return rows


def first_line(made: type[Any]) -> str:
    """The first sentence of a docstring."""
    return (inspect.getdoc(made) or "").split("\n", 1)[0]


def shown(default: Any) -> str:  # noqa: ANN401
    """A default as a reader writes it."""
    if default is None or default is dataclasses.MISSING or callable(default) or str(default) == "":
        return ""
    if isinstance(default, int | float | str | bool):
        return f"`{json.dumps(default, ensure_ascii=False)}`".replace('"', "")
    return f"`{default}`" if len(str(default)) < 40 else ""


def plain(text: str) -> str:
    """Words without the marks that a terminal reads."""
    return re.sub(r"\[/?(?:bold|dim|italic)\]|\[/\]", "", inspect.cleandoc(text)).replace("\b", "")


def cell(text: str) -> str:
    """Words that fit into a cell of a table."""
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
