"""What the pages show: their blocks, their commands, and what runs each of them."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
import tomllib
import warnings
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tacit.cli.application import COMMANDS, main
from tacit.ledger.policy import read_policy

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / "README.md", *DOCS.glob("*.md")))
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
SCRIPT = re.compile(r"^( *)<!-- file: ([\w.]+) -->$", re.MULTILINE)
# What is not run, and why: it is looked up instead, with every option that is shown.
NOT_RUN = {
    "make": "sets up environments",
    "pip": "installs",
    ".": "belongs to a shell",
    "flower-superlink": "runs until it is stopped",
    "flwr": "needs a SuperLink",
    "python benchmarks": "takes minutes to hours",
    "tacit ui": "runs until it is stopped; tests/ui runs it",
    "tacit bench": "takes minutes to hours",
    "tacit audit": "takes minutes; tests/audit runs it with fewer samples",
    "tacit federation demo": "starts processes; tests/cli and tests/faults run it",
    "tacit federation check": "needs a coordinator on another machine",
    "tacit federation node": "runs until it is stopped",
    "tacit federation coordinator": "runs until its nodes have answered",
    "tacit federation shuffler": "runs until it is stopped",
    "tacit federation intake worker": "runs until it is stopped; tests/federation/intake runs it",
    "tacit federation device": "needs a worker; tests/cli runs it",
    "node": "needs Node.js; tests/federation/intake runs it",
    "tacit federation curator": "runs until it is stopped",
}


@dataclass(frozen=True)
class Block:
    """A block of a page: its language and its text."""

    language: str
    text: str

    @property
    def commands(self) -> list[list[str]]:
        """The commands of a shell block, without comments."""
        joined = self.text.replace("\\\n", " ")
        return [words for line in joined.splitlines() if (words := shlex.split(line, comments=True))]


def blocks(page: str) -> list[Block]:
    """The blocks of a page, with what they include."""
    text = SCRIPT.sub(
        lambda each: f"```python\n{(DOCS / 'examples' / each[2]).read_text(encoding='utf-8')}```",
        (ROOT / page).read_text(encoding="utf-8"),
    )
    return [
        Block(language, re.sub(rf"^{indent}", "", block, flags=re.MULTILINE))
        for indent, language, block in BLOCK.findall(text)
    ]


def not_run(words: list[str]) -> bool:
    """Whether a command is one of those that are only looked up."""
    said = " ".join(words) + " "
    return any(said.startswith(f"{each} ") or said.startswith(f"{each}/") for each in NOT_RUN)


def run_command(words: list[str], folder: Path) -> None:
    """Run a command of a page in a folder, as it is typed."""
    program, *arguments = words
    if program == "tacit":
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert not ended.value.code, f"{shlex.join(words)} ended with {ended.value.code}"
    elif program == "python":
        runpy.run_path(str(ROOT / arguments[0]), run_name="__main__")
    elif program == "cp":
        (folder / arguments[1]).write_bytes((folder / arguments[0]).read_bytes())
    else:
        raise AssertionError(f"no test knows how to run {shlex.join(words)}")


def run_page(page: str, folder: Path) -> None:
    """Run all blocks of a page, one after the other; Python blocks go on where the one before ended."""
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "python":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(compile(block.text, page, "exec", dont_inherit=True), names)
        elif block.language == "toml":
            tomllib.loads(block.text)
            (folder / "policy.toml").write_text(block.text, encoding="utf-8")
            if "[accounts" in block.text:
                read_policy(folder / "policy.toml")
        elif block.language == "sh":
            for words in block.commands:
                look_up(words)
                if not not_run(words):
                    run_command(words, folder)
        else:
            assert block.language in ("text", "ini"), f"{page}: a block says in which language it is"


def look_up(words: list[str]) -> None:
    """Fail if a command is not there, or does not know an option that is shown with it."""
    program, *arguments = words
    if program == "make":
        targets = re.findall(r"^([\w ]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        known = {each for line in targets for each in line.split()}
        assert {each for each in arguments if "=" not in each} <= known, words
    elif program == "python" and arguments and arguments[0].endswith(".py"):
        script = ROOT / arguments[0]
        assert script.is_file(), words
        for each in arguments[1:]:
            assert not each.startswith("--") or each in script.read_text(encoding="utf-8"), (words, each)
    elif program == "tacit":
        _look_up_tacit(arguments)
    elif program == "pip":
        _look_up_packages(words)
    elif program == "node":
        script = ROOT / arguments[0]
        assert script.is_file(), words
        for each in arguments[1:]:
            # What it is called with is a file here, or a word of its program.
            assert (ROOT / each).exists() or f'"{each}"' in script.read_text(encoding="utf-8"), (words, each)
    elif program in ("flwr", "flower-superlink", "flower-supernode"):
        assert program in {each.name for each in entry_points(group="console_scripts")}, words


def _look_up_packages(words: list[str]) -> None:
    """Fail if an extra that is installed is none of the package's."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for named in re.findall(r"(?:tacit|\.)\[([\w,-]+)\]", " ".join(words)):
        assert set(named.split(",")) <= set(extras), words


def _look_up_tacit(arguments: list[str]) -> None:
    if not arguments or arguments[0].startswith("-") or arguments[0] == "COMMAND":
        return
    name, *rest = arguments
    assert name in COMMANDS, f"there is no command tacit {name}"
    command = COMMANDS[name].load(name)
    if name == "bench":
        sys.path.append(str(ROOT / "benchmarks"))
        from typer.main import get_command

        from experiments.commands import app

        command = get_command(app)
    while rest and getattr(command, "commands", None):
        assert rest[0] in command.commands or rest[0].startswith("-"), f"there is no command tacit {name} {rest[0]}"
        if rest[0].startswith("-"):
            break
        command = command.commands[rest.pop(0)]
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
    for each in rest:
        option = each.partition("=")[0]
        assert not re.fullmatch(r"--[a-z-]+", option) or option in known, f"tacit {name} knows no option {option}"
