"""What a coordinator keeps on disk, so that a run that was killed goes on and nobody pays twice.

Every question is written down before it is sent, and every round's answers before they are used. All of it is public
or was released. A round that was cut off is asked again under its old name: nodes that had paid for it send what they
sent before.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core.codec import decode, encode
from tacit.core.errors import InvalidInput
from tacit.core.files import write_file

__all__ = ["Journal", "Kept"]


@dataclass(frozen=True)
class Kept:
    """The answers of one round: who gave each, the release as it came, and who refused."""

    names: tuple[str, ...]
    releases: tuple[bytes, ...]
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Journal:
    """A folder with a file for the run, one for every question and one for every round that is over.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> journal = Journal.open(folder, "a recipe")
    >>> journal.asked(0, b"which?")
    >>> journal.keep(0, Kept(("north",), (b"this",)))
    >>> again = Journal.open(folder, "a recipe")
    >>> again.run == journal.run, again.kept(0).names, again.kept(1)
    (True, ('north',), None)
    """

    folder: Path
    run: str

    @classmethod
    def open(cls, folder: str | Path, recipe: str) -> Journal:
        """The journal of a run: a new one, or the one that the same recipe left here."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "run.bin"
        if not file.exists():
            write_file(file, encode({"run": uuid.uuid4().hex, "recipe": recipe}))
        found = _read(file, ("run", "recipe"))
        if found["recipe"] != recipe:
            raise InvalidInput(
                f"{folder}: holds the rounds of another run. Start that one again as it was, or choose another folder"
            )
        return cls(folder, str(found["run"]))

    def in_order(self, name: str, words: Sequence[str]) -> tuple[str, ...]:
        """Words in the order in which they were first given; new ones come last."""
        file = self.folder / f"{name}.bin"
        known = tuple(_read(file, ("words",))["words"]) if file.exists() else ()
        longer = tuple(dict.fromkeys([*known, *words]))
        if longer != known:
            write_file(file, encode({"words": list(longer)}))
        return longer

    def asked(self, number: int, question: bytes) -> None:
        """Write a question down before it is sent; one that was sent already must be the same."""
        file = self.folder / f"question-{number}.bin"
        if not file.exists():
            write_file(file, encode({"question": np.frombuffer(question, dtype=np.uint8)}))
        elif _read(file, ("question",))["question"].tobytes() != question:
            raise InvalidInput(
                f"{file}: round {number + 1} was begun with another question, so its answers would not fit. The "
                "public data or a student came out differently; restore them, or start a new run in another folder"
            )

    def keep(self, number: int, answers: Kept) -> None:
        """Write a round's answers down before they are used."""
        arrays = [np.frombuffer(each, dtype=np.uint8) for each in answers.releases]
        content = {"names": list(answers.names), "releases": arrays, "refused": list(answers.refused)}
        write_file(self._round(number), encode(content))

    def forget(self, number: int) -> None:
        """A round turned out not to be over: it is asked again."""
        self._round(number).unlink()

    def kept(self, number: int) -> Kept | None:
        """A round's answers, if the round was over before."""
        file = self._round(number)
        if not file.exists():
            return None
        found = _read(file, ("names", "releases", "refused"))
        releases = tuple(each.tobytes() for each in found["releases"])
        return Kept(tuple(found["names"]), releases, tuple(found["refused"]))

    def _round(self, number: int) -> Path:
        return self.folder / f"round-{number}.bin"


def _read(file: Path, fields: Sequence[str]) -> dict[str, Any]:
    try:
        found = decode(file.read_bytes())
    except InvalidInput:
        raise InvalidInput(f"{file}: damaged; the run cannot go on from here. Choose another folder") from None
    if not isinstance(found, dict) or sorted(found) != sorted(fields):
        raise InvalidInput(f"{file}: not the journal of a run")
    return found
