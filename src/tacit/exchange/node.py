"""A node of a federation: one site's records, its policy and its ledger, behind one function from bytes to bytes.

The node is sovereign. It answers what its own policy allows and its own ledger can pay, through the gate only; of
everything else it says one word from a closed list. Nothing that it says in a refusal depends on a record.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core.errors import BudgetExceeded, InvalidInput, RequestConflict, TacitError
from tacit.core.guarantee import Adjacency
from tacit.core.protocols import Ledger
from tacit.core.randomness import Randomness, SeededRandomness, SystemRandomness
from tacit.core.release import Release
from tacit.datasets.classes import class_indices
from tacit.datasets.tables import read_table
from tacit.exchange.identity import Identity
from tacit.exchange.letters import Letter, Reason, Reply, read_letter, ticket_of
from tacit.exchange.node_collecting import Collecting, collected_step
from tacit.exchange.node_file import NodeFile, read_peers
from tacit.exchange.node_masking import FolderMemory, Masking, masked_step
from tacit.exchange.node_methods import ESTIMATORS, Desk, answer_of, fewest, mechanism_of, method_of, names_of
from tacit.exchange.node_study import StudyRoom
from tacit.exchange.portable import read_ask, release_to_bytes
from tacit.exchange.post.caller import Address
from tacit.ledger.policy import Rules, read_policy, read_rules
from tacit.ledger.sqlite import SqliteLedger
from tacit.methods.fedmd.wire import Feedback
from tacit.private.gate import Gate
from tacit.private.persons import bounded_rows
from tacit.private.records import Private, Records
from tacit.students.refitted import Refitted

__all__ = ["Node", "Refused", "open_node", "prepare_ledger"]

log = logging.getLogger("tacit.node")
LONGEST_REQUEST = 1000


class Refused(TacitError):
    """The node does not answer, for one of the known reasons."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.in_words)
        self.reason = reason


@dataclass(frozen=True)
class Node:
    """One site's side of every method. ``seed`` makes its noise a simulation; only tests and simulations give one.

    ``answer`` is a holder's: in one process a node takes part in the local loop as it is. ``reply`` is the same over
    a wire, and never raises.
    """

    name: str
    classes: tuple[str, ...]
    records: Private[Records]
    rules: Rules
    ledger: Ledger
    account: str
    model: Any = "logistic"
    room: StudyRoom | None = None
    masking: Masking | None = None
    collecting: Collecting | None = None
    pace: float = 0.0
    seed: int | None = None
    participants: int | None = None

    def answer(self, ask: Any) -> Release[Any]:  # noqa: ANN401
        """The release, paid for by this node's own account; else ``Refused`` with the reason."""
        self._check(ask)
        return self._answer(ask)

    def _answer(self, ask: Any) -> Release[Any]:  # noqa: ANN401
        randomness = self._randomness(ask.request)
        try:
            gate = Gate(self.ledger, self.account, randomness)
            return answer_of(ask, Desk(self.classes, self._bounded(gate, randomness), gate, self.model, self.room))
        except BudgetExceeded:
            raise Refused(Reason.BUDGET) from None
        except RequestConflict:
            raise Refused(Reason.CONFLICT) from None
        except TacitError as error:
            log.warning("a question was not answered: %s", error)
            raise Refused(Reason.QUESTION) from None

    def conclude(self, request: str, feedback: Feedback) -> None:
        """Take note of what the last round of a FedMD run came to; the rounds before come with the next question."""
        if "fedmd" not in self.rules.methods:
            raise Refused(Reason.METHOD)
        if self.room is None:
            raise Refused(Reason.QUESTION)
        self.room.conclude(request, feedback)

    def reply(self, payload: bytes) -> bytes:
        """The reply to a letter, at a time that tells nothing: a whole number of paces after it came."""
        started = time.monotonic()
        reply = self._reply(payload).to_bytes()
        if self.pace > 0:
            spent = time.monotonic() - started
            time.sleep(self.pace * np.ceil(spent / self.pace) - spent)
        return reply

    def _reply(self, payload: bytes) -> Reply:
        ticket = ticket_of(payload)
        try:
            letter: Letter = read_letter(payload)
            asked = replace(self, participants=letter.participants)
            match letter.step:
                case "answer":
                    ask = read_ask(letter.ask)
                    return Reply(ticket, release_to_bytes(asked.answer(ask), ask, letter.records))
                case "submit":
                    return Reply(ticket, asked._collected(letter))
                case "learn":
                    feedback = read_ask(letter.ask)
                    if not isinstance(feedback, Feedback) or len(letter.content) > LONGEST_REQUEST:
                        raise InvalidInput("the letter tells nothing that a node can learn from")
                    asked.conclude(letter.content.decode("utf-8", "replace"), feedback)
                    return Reply(ticket, b"")
                case _:
                    return Reply(ticket, asked._masked(letter))
        except Refused as refused:
            log.warning("a question was refused: %s", refused)
            return Reply(ticket, refused.reason)
        except InvalidInput as error:
            log.warning("a question was not understood: %s", error)
            return Reply(ticket, Reason.QUESTION)
        except Exception:
            # Whatever it was, it may name a record; the operator reads it here, nobody else.
            log.exception("the node failed")
            return Reply(ticket, Reason.FAILED)

    def _masked(self, letter: Letter) -> bytes:
        """One step of a masked sum, in which this node's table leaves under masks only."""
        if self.masking is None:
            raise Refused(Reason.MECHANISM)
        ask = None
        if letter.ask:
            ask = read_ask(letter.ask)
            self._check(ask)
        return masked_step(letter, ask, self.name, self.masking, self._answer)

    def _collected(self, letter: Letter) -> bytes:
        """Hand in where a shuffler or a curator collects, both named in this node's own file."""
        if self.collecting is None:
            raise Refused(Reason.MECHANISM)
        ask = read_ask(letter.ask)
        self._check(ask)
        return collected_step(letter, ask, self.name, self.collecting, self._clients(), self._answer)

    def _clients(self) -> int:
        """How many records or persons this node speaks for, which is public under replace-one adjacency alone."""
        unit, adjacency = self.ledger.protects(self.account)
        if adjacency is not Adjacency.REPLACE_ONE:
            raise Refused(Reason.MECHANISM)
        sizes: list[int] = []
        self.records.map(
            lambda own: sizes.append(len(own.labels if unit.column is None else np.unique(own.persons)))  # type: ignore[arg-type]
        )
        return sizes[0]

    def _check(self, ask: Any) -> None:  # noqa: ANN401
        """Refuse what the site's policy does not allow, before a record is looked at."""
        if method_of(ask) not in self.rules.methods:
            raise Refused(Reason.METHOD)
        if mechanism_of(ask) not in self.rules.mechanisms:
            raise Refused(Reason.MECHANISM)
        if not self.rules.covers(ask.purpose):
            raise Refused(Reason.PURPOSE)
        if self.participants is not None and fewest(ask, self.participants) < self.rules.participants:
            raise Refused(Reason.PARTICIPANTS)
        names = names_of(ask)
        if names is not None and names != self.classes:
            raise Refused(Reason.CLASSES)

    def _randomness(self, request: str) -> Randomness:
        if self.seed is None:
            return SystemRandomness()
        # By request, so that a simulation does not depend on what was asked before, or by whom.
        digest = hashlib.sha256(f"{self.seed} {self.name} {request}".encode()).digest()
        return SeededRandomness(int.from_bytes(digest[:8], "little"))

    def _bounded(self, gate: Gate, randomness: Randomness) -> Private[Records]:
        """The records, at most so many of each person as the account protects."""
        if gate.unit.column is None:
            return self.records
        return self.records.map(partial(_at_most, gate.unit.records, randomness))


def open_node(file: NodeFile) -> Node:
    """The node that its file describes, with the ledger it has; only its own operator gets to see these errors."""
    rules = read_rules(file.policy)
    ledger = SqliteLedger(file.ledger)
    unit, _ = ledger.protects(file.account)
    table = read_table(file.data, file.label, unit.column)
    assert table.labels is not None
    samples = table.samples
    if file.features is not None:
        if sorted(file.features) != sorted(table.columns):
            raise InvalidInput(f"{file.data}: its feature columns are {', '.join(table.columns)}, not those named")
        samples = samples.reshape(len(samples), -1)[:, [table.columns.index(each) for each in file.features]]
    labels = class_indices(table.labels, np.array(file.classes), str(file.data), table.rows)
    return Node(
        name=file.name,
        classes=file.classes,
        records=Private(Records(samples, labels, table.persons)),
        rules=rules,
        ledger=ledger,
        account=file.account,
        model=file.model,
        masking=_masking(file),
        collecting=_collecting(file),
        room=_room(file),
        pace=file.pace,
    )


def _masking(file: NodeFile) -> Masking | None:
    """What masked sums need, where the site has set it up."""
    if file.identity is None or file.peers is None:
        return None
    return Masking(Identity.read(file.identity), read_peers(file.peers), FolderMemory(file.state / "masking"))


def _collecting(file: NodeFile) -> Collecting | None:
    """What handing in needs, where the site trusts a shuffler or a curator."""
    if file.identity is None or (file.shuffler is None and file.curator is None):
        return None
    shuffler = None if file.shuffler is None else Address(file.shuffler.address, file.shuffler.authority)
    curator = None
    if file.curator is not None:
        curator = (Address(file.curator.address, file.curator.authority), bytes.fromhex(file.curator.key))
    peers = {} if file.peers is None else read_peers(file.peers)
    return Collecting(Identity.read(file.identity), shuffler, curator, peers)


def _room(file: NodeFile) -> StudyRoom | None:
    """What FedMD needs, where the site has the public samples and a model of a known name."""
    if file.public is None or file.model not in ESTIMATORS:
        return None

    def model() -> Refitted:
        return Refitted(ESTIMATORS[file.model](), len(file.classes))

    return StudyRoom(model, read_table(file.public).samples, FolderMemory(file.state / "agreements"))


def prepare_ledger(file: NodeFile, tell: Callable[[str], None] = lambda _: None) -> None:
    """Make the ledger from the policy at the first start; afterwards apply what the site changed in the policy."""
    ceilings = read_policy(file.policy)
    if file.account not in ceilings:
        raise InvalidInput(f"{file.policy}: has no account {file.account!r}, from which this node pays")
    if not Path(file.ledger).exists():
        SqliteLedger.create(file.ledger, ceilings).close()
        tell(f"made the ledger {file.ledger}")
        return
    with SqliteLedger(file.ledger) as book:
        for account, _, after in book.apply(ceilings):
            tell(f"the policy changed: {account} has {after}")


def _at_most(limit: int, randomness: Randomness, records: Records) -> Records:
    if records.persons is None:
        raise InvalidInput("the account protects persons, so the records need their person column")
    return records.take(bounded_rows(records.persons, limit, randomness))
