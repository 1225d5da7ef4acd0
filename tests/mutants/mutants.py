"""The list of privacy mutants: one TOML file per area, read and checked.

A mutant is one change of one line that would break a promise, and the tests that must notice. Its text must occur
exactly once in its file (after ``after``, where that is given), so that a changed line is told and not skipped.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
AREAS = (
    "gate",
    "ledger",
    "ledger_server",
    "central",
    "local",
    "shuffle",
    "accounting",
    "holders",
    "node",
    "service",
    "masking",
    "collectors",
    "intake",
    "class_sums",
    "noisy_sgd",
    "private_knn",
    "auto",
    "engines",
    "view",
)


class WrongMutant(ValueError):
    """A mutant that does not fit the tree any more: somebody must repair the list."""


@dataclass(frozen=True)
class Mutant:
    """One changed line, what it breaks, and the tests that must fail with it.

    ``equivalent`` says why a change changes nothing: such a mutant is shown, and not run or counted.
    """

    area: str
    name: str
    file: str
    find: str
    replace: str
    breaks: str
    tests: tuple[str, ...]
    after: str = ""
    equivalent: str = ""

    @property
    def title(self) -> str:
        return f"{self.area}/{self.name}"

    def applied(self, text: str) -> str:
        """The file's text with this mutant in it."""
        start = 0
        if self.after:
            if text.count(self.after) != 1:
                raise WrongMutant(f"{self.title}: {self.file} has {text.count(self.after)} times: {self.after}")
            start = text.index(self.after) + len(self.after)
            # Only the first place after the anchor is meant.
            if self.find not in text[start:]:
                raise WrongMutant(f"{self.title}: {self.file} has nowhere after {self.after!r}: {self.find}")
        elif text.count(self.find) != 1:
            raise WrongMutant(f"{self.title}: {self.file} has {text.count(self.find)} times: {self.find}")
        mutated = text[:start] + text[start:].replace(self.find, self.replace, 1)
        compile(mutated, self.file, "exec")
        return mutated


def read(root: Path = ROOT) -> list[Mutant]:
    """All mutants, area by area."""
    found = []
    for area in AREAS:
        content = tomllib.loads((root / "tests" / "mutants" / f"{area}.toml").read_text(encoding="utf-8"))
        for each in content["mutant"]:
            found.append(Mutant(area=area, **{**each, "tests": tuple(each["tests"])}))
    return found
