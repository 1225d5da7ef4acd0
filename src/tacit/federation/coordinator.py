"""The coordinator's records about its nodes: the status of a round, the ledger heads they showed, and a journal.

Plausibility: a node can lie about its votes without being detected. But it cannot have more votes than records, and a
sum outside the range of all nodes' votes plus noise was not made by the mechanism of the question. An honest answer is
found implausible with probability below ``FAILURE``.

Ledger heads: every receipt shows the sequence number and digest of a payment, and the coordinator remembers them. A
node pays for a question after it was asked, so the sequence number must be greater than all that the node had shown
before the question was first asked; a repeated question shows the same payment again. A node whose ledger was restored
from a backup, or that runs twice from a copied folder, shows a number that is in use or too small: its answer is
rejected, and the node is named. Sequence numbers and digests depend on payments, never on a record.

Not detected: a copy whose numbers have since risen above all remembered ones, by payments to others.

The journal is on disk, so that a killed run can be resumed without a second payment. Every question is written before
it is sent, and every round's answers before they are used. All of it is public or was released. An interrupted round is
asked again under the same request id: nodes that have paid for it repeat their stored answers.
"""

from __future__ import annotations

import json
import math
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from tacit.core import InvalidInput, Receipt, StaleLedger, TooFewParticipants
from tacit.core.codec import decode, encode
from tacit.core.files import write_file
from tacit.federation.messages import PASSING, RefusalReason, ToldBudget
from tacit.methods.question import Question, TableQuestion, is_signed

__all__ = ["FAILURE", "Journal", "NodeHeads", "RoundAnswers", "RoundPolicy", "RoundStatus", "implausible"]

# The probability that an honest table is rejected: half of it for its total, half for all of its cells.
FAILURE = 1e-9


def implausible(
    ask: Question,
    table: Any,  # noqa: ANN401
    records: int,
    holders: int = 1,
    all_records: int | None = None,
) -> str | None:
    """Why these counts cannot be those of ``holders`` nodes with at most ``records`` records each; None if they can.

    ``all_records`` is how many records they have together, if known. Answers other than noisy counts are not checked.

    >>> from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
    >>> from tacit.methods.pate.wire import TeacherAsk
    >>> ask = TeacherAsk(np.zeros((3, 2)), ("a", "b"), DistributedLaplace(1, 6, 4, 3, 2, 1), "votes", "r-1")
    >>> implausible(ask, np.array([[4, 0], [2, 2], [0, 5]]), 1000, holders=4)
    >>> implausible(ask, np.array([[4, 0], [2, 2], [0, -31060]]), 1000, holders=4)
    'its counts total -31052, and they can total from 0 to 12 and noise of 49'
    """
    if ask.table_shape is None:
        return None
    together = records * holders
    counted = cast(TableQuestion, ask)
    most = counted.most_votes(together if all_records is None else min(all_records, together), holders)
    if most is None:
        return None
    cell, total = most
    mechanism: Any = ask.mechanism
    if mechanism.noise_reach(1, holders, FAILURE) is None:
        return None
    if not isinstance(table, np.ndarray) or table.shape != ask.table_shape:
        return "it is not a table of the shape that was asked for"
    cells = table.size
    reach = math.ceil(mechanism.noise_reach(cells, holders, FAILURE / 2))
    found = int(table.sum(dtype=object))
    below = is_signed(ask)
    if not -reach - below * total <= found <= total + reach:
        return f"its counts total {found}, and they can total from {-below * total} to {total} and noise of {reach}"
    reach = math.ceil(mechanism.noise_reach(1, holders, FAILURE / 2 / cells))
    low, high = int(table.min()), int(table.max())
    if low < -reach - below * cell or high > cell + reach:
        worst = high if high > cell + reach else low
        return f"it has a count of {worst}, and counts can be from {-below * cell} to {cell} and noise of {reach}"
    return None


@dataclass(frozen=True)
class RoundPolicy:
    """When a round ends: when all ``expected`` nodes have answered, or at its ``deadline``; ``at_least`` must answer.

    Once ``at_least`` have answered, the others get ``grace`` more seconds. The first round begins when all expected
    nodes are connected, or ``at_least`` of them after ``patience`` seconds; later rounds wait ``patience`` seconds for
    ``at_least`` nodes, and ``grace`` seconds for lost ones to reconnect. ``records`` is the most that one node may
    have, and ``all_records`` how many all have together, if known; an answer or a sum above that is rejected.
    ``features`` are the names of the public samples' columns, if they have names; nodes with other columns refuse.
    """

    expected: int
    at_least: int
    deadline: float = 300.0
    grace: float = 30.0
    patience: float = 300.0
    records: int = 10**7
    all_records: int | None = None
    features: tuple[str, ...] = ()


@dataclass
class RoundStatus:
    """The state of one round. Of the dropped nodes, those in ``refused`` would refuse the same question again.

    ``reasons`` is why nodes refused; ``budgets`` is what nodes told of their accounts, whose operators let them.

    >>> status = RoundStatus(0, asked=("north", "south"), answered=["south"])
    >>> status.dropped["north"] = "did not answer in time"
    >>> status.in_words
    'round 1: 1 of 2 nodes answered; north did not answer in time'
    """

    number: int
    asked: tuple[str, ...] = ()
    answered: list[str] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    reasons: dict[str, RefusalReason] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)
    step: str = ""
    budgets: dict[str, ToldBudget] = field(default_factory=dict)

    @property
    def in_words(self) -> str:
        """The round's result as a sentence, with the name of every dropped node."""
        said = [f"round {self.number + 1}: {len(self.answered)} of {len(self.asked)} nodes answered"]
        said += [f"{name} {why}" for name, why in sorted(self.dropped.items())]
        said += [f"{count} messages ignored ({why})" for why, count in sorted(self.ignored.items())]
        return "; ".join(said)

    def refuse(self, name: str, reason: RefusalReason) -> None:
        """Note that a node refused."""
        self.dropped[name] = f"refused: {reason.in_words}"
        self.reasons[name] = reason
        if reason not in PASSING:
            self.refused.append(name)

    def ignore(self, why: str) -> None:
        """Count a message that is ignored."""
        self.ignored[why] = self.ignored.get(why, 0) + 1

    def require(self, at_least: int) -> None:
        """Raise an error where too few nodes answered; the nodes keep their paid answers."""
        if len(self.answered) < at_least:
            raise TooFewParticipants(
                f"{self.in_words}. At least {at_least} were needed. Start the run again when more nodes are connected: "
                "answers are stored, and nobody pays twice"
            )


class NodeHeads:
    """The payments that nodes have shown, in an append-only file, or in memory for one run.

    >>> from tacit.core.spend import Pure
    >>> heads = NodeHeads()
    >>> heads.asked("r-1")
    >>> heads.take("north", [Receipt("north", "r-1", "labels", Pure(1), "system", 7, "ab" * 8)])
    >>> heads.asked("r-2")
    >>> heads.take("north", [Receipt("north", "r-2", "labels", Pure(1), "system", 6, "cd" * 8)])
    Traceback (most recent call last):
        ...
    tacit.core.errors.StaleLedger: its ledger was rolled back: it showed entry 7 before this question, and now entry 6 \
pays for it. It may spend more than its ceiling: ask the operator of north
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._last: dict[str, int] = {}
        self._places: dict[tuple[str, int], tuple[str, str]] = {}
        self._shown: dict[tuple[str, str], tuple[int, str]] = {}
        # Each node's largest sequence number when a request was first asked.
        self._floors: dict[str, Mapping[str, int]] = {}
        if file is not None and file.exists():
            self._read(file)

    def asked(self, request: str) -> None:
        """Record that a question is about to be asked, if it is the first time."""
        if request not in self._floors:
            self._floors[request] = dict(self._last)
            self._write({"asked": request})

    def take(self, name: str, receipts: Iterable[Receipt]) -> None:
        """Record the payments that a node shows for its answer, or reject the answer."""
        for receipt in receipts:
            shown = receipt.sequence, receipt.digest
            known = self._shown.get((name, receipt.request))
            if known == shown:
                continue
            if known is not None:
                raise StaleLedger(
                    f"its ledger forked: entry {known[0]} paid for this question before, now entry {shown[0]} "
                    f"does. {self._advice(name)}"
                )
            floor = self._floors.get(receipt.request, {}).get(name, 0)
            if receipt.sequence <= floor:
                raise StaleLedger(
                    f"its ledger was rolled back: it showed entry {floor} before this question, and now entry "
                    f"{receipt.sequence} pays for it. {self._advice(name)}"
                )
            if (name, receipt.sequence) in self._places:
                raise StaleLedger(
                    f"its ledger forked: entry {receipt.sequence} paid for another question before. "
                    f"{self._advice(name)}"
                )
            self._note(name, receipt.request, *shown)
            self._write({"node": name, "request": receipt.request, "sequence": shown[0], "digest": shown[1]})

    def _advice(self, name: str) -> str:
        place = (
            ""
            if self._file is None
            else f"; if a new ledger was started on purpose, remove its lines from {self._file}"
        )
        return f"It may spend more than its ceiling: ask the operator of {name}{place}"

    def _note(self, name: str, request: str, sequence: int, digest: str) -> None:
        self._shown[name, request] = sequence, digest
        self._places[name, sequence] = request, digest
        self._last[name] = max(self._last.get(name, 0), sequence)

    def _write(self, line: Mapping[str, object]) -> None:
        """Append a line; it is on disk before the answer is used."""
        if self._file is None:
            return
        try:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InvalidInput(f"cannot write {self._file}: {error.strerror}") from error

    def _read(self, file: Path) -> None:
        try:
            lines = file.read_text(encoding="utf-8").split("\n")
            for line in lines[:-1]:
                found = json.loads(line)
                if "asked" in found:
                    self._floors.setdefault(str(found["asked"]), dict(self._last))
                else:
                    self._note(found["node"], found["request"], int(found["sequence"]), found["digest"])
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InvalidInput(
                f"{file}: damaged; it has the payments that nodes have shown. Restore it, or move it away "
                "to start without it"
            ) from error
        if lines[-1]:
            # A crash cut the last line off before it was used.
            write_file(file, "\n".join([*lines[:-1], ""]).encode())


@dataclass(frozen=True)
class RoundAnswers:
    """The stored answers of one round: the nodes' names, their releases as received, and the nodes that refused."""

    names: tuple[str, ...]
    releases: tuple[bytes, ...]
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Journal:
    """A folder with a file for the run, one for every question and one for every completed round.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> journal = Journal.open(folder, "a recipe")
    >>> journal.asked(0, b"which?")
    >>> journal.store_answers(0, RoundAnswers(("north",), (b"this",)))
    >>> again = Journal.open(folder, "a recipe")
    >>> again.run == journal.run, again.stored_answers(0).names, again.stored_answers(1)
    (True, ('north',), None)
    """

    folder: Path
    run: str

    @classmethod
    def open(cls, folder: str | Path, recipe: str) -> Journal:
        """The journal of a run: a new one, or the existing one of the same recipe."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "run.bin"
        if not file.exists():
            write_file(file, encode({"run": uuid.uuid4().hex, "recipe": recipe}))
        found = _read_fields(file, ("run", "recipe"))
        if found["recipe"] != recipe:
            raise InvalidInput(
                f"{folder}: contains the rounds of another run. Start that run again unchanged, or choose another "
                "folder"
            )
        return cls(folder, str(found["run"]))

    def in_order(self, name: str, words: Sequence[str]) -> tuple[str, ...]:
        """Names in the order in which they were first given; new ones come last."""
        file = self.folder / f"{name}.bin"
        known = tuple(_read_fields(file, ("words",))["words"]) if file.exists() else ()
        longer = tuple(dict.fromkeys([*known, *words]))
        if longer != known:
            write_file(file, encode({"words": list(longer)}))
        return longer

    def asked(self, number: int, question: bytes) -> None:
        """Store a question before it is sent; one that was sent before must be the same."""
        file = self.folder / f"question-{number}.bin"
        if not file.exists():
            write_file(file, encode({"question": np.frombuffer(question, dtype=np.uint8)}))
        elif _read_fields(file, ("question",))["question"].tobytes() != question:
            raise InvalidInput(
                f"{file}: round {number + 1} was started with another question. The "
                "public data or a student changed; restore them, or start a new run in another folder"
            )

    def store_answers(self, number: int, answers: RoundAnswers) -> None:
        """Store a round's answers before they are used."""
        arrays = [np.frombuffer(each, dtype=np.uint8) for each in answers.releases]
        content = {"names": list(answers.names), "releases": arrays, "refused": list(answers.refused)}
        write_file(self._round(number), encode(content))

    def delete_answers(self, number: int) -> None:
        """Delete a round's answers: the round is not complete, and is asked again."""
        self._round(number).unlink()

    def stored_answers(self, number: int) -> RoundAnswers | None:
        """The stored answers of a completed round; None for any other."""
        file = self._round(number)
        if not file.exists():
            return None
        found = _read_fields(file, ("names", "releases", "refused"))
        releases = tuple(each.tobytes() for each in found["releases"])
        return RoundAnswers(tuple(found["names"]), releases, tuple(found["refused"]))

    def _round(self, number: int) -> Path:
        return self.folder / f"round-{number}.bin"


def _read_fields(file: Path, fields: Sequence[str]) -> dict[str, Any]:
    try:
        found = decode(file.read_bytes())
    except InvalidInput:
        raise InvalidInput(f"{file}: damaged; the run cannot be resumed. Choose another folder") from None
    if not isinstance(found, dict) or sorted(found) != sorted(fields):
        raise InvalidInput(f"{file}: not the journal of a run")
    return found
