"""The audit of the protocol: what a coordinator sees of nodes, curator and shuffler on neighboring data sets.

A coordinator chooses every number of a question, and may choose them for one guessed record. What it sees must not
depend on a record except through a release that was paid for. So two federations that differ in one record of one node
get the same hostile questions, in every kind of request: the node's own answer, secure aggregation, a shuffler and a
curator. Everything but the released values must be equal: the kind and size of every response, the charges of every
ledger, the collectors' counts, and the time of a response in whole paces. A difference is a leak without a payment,
which the mechanisms' own audits cannot see.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tacit.audit.protocol_questions import (
    AUDIT_CLASSES,
    AUDIT_PURPOSE,
    NODES,
    QUESTION_KINDS,
    RECORDS,
    SECRET_ROW,
    NumberSource,
    hostile_numbers,
    private_samples,
    public_samples,
    question,
)
from tacit.core import Adjacency, Ceiling, InvalidInput, Ledger, TooFewParticipants, Unit
from tacit.core.codec import decode_strict
from tacit.core.randomness import Randomness, SeededRandomness, uniform_below
from tacit.federation.collector.batches import open_shuffler, plan_batch, plan_tables
from tacit.federation.collector.client import Address
from tacit.federation.collector.curator import Curator, open_curator
from tacit.federation.collector.messages import LARGEST_BATCH, Batch, SignedMessage, Submission, SubmissionRefused
from tacit.federation.collector.submission_store import COORDINATOR, SubmissionStore
from tacit.federation.keys import SigningIdentity, public_key
from tacit.federation.messages import RefusalReason, Request, read_response
from tacit.federation.node.node import Node
from tacit.federation.node.steps import Collecting, Masking, NodeMemory
from tacit.federation.secure_aggregation import server
from tacit.federation.secure_aggregation.session import Session
from tacit.ledger import open_ledger
from tacit.ledger.policy import Rules
from tacit.ledger.policy_file import mechanism_names
from tacit.mechanisms.masked.neighborhoods import Neighborhood, neighborhood_of
from tacit.methods.fedmd.models import ConsensusStore
from tacit.methods.question import table_shape
from tacit.methods.registry import METHODS
from tacit.private.records import Private, Records
from tacit.students.weighted import logistic
from tacit.students.wrapped import Refitted
from tacit.wire import ask_to_bytes

__all__ = [
    "AUDITED_ACCOUNTS", "PROTOCOL_RUNS", "AuditedAccount", "ProtocolRow", "Seen", "compare", "neighbors", "node_with",
    "play", "records",
]  # fmt: skip

_T = TypeVar("_T")

_NAMES = ("ada", "bob", "cyd")
_VICTIM = _NAMES[0]
_RUN = "audit"
_ASKING = tuple(each.name for each in METHODS.values() if each.questions)
RULES = Rules(methods=_ASKING, mechanisms=mechanism_names(), purposes=(AUDIT_PURPOSE,), participants=1)
_SECRET = b"s" * 32
UNUSED = Address("http://127.0.0.1:1")
# Long enough that a busy machine answers within one, short enough that an audit ends.
_PACE = 0.5
_TIMED, _TRIES = 6, 3


@dataclass(frozen=True)
class AuditedAccount:
    """The unit, adjacency and ceiling of a node's account; the audit runs with every kind of account."""

    adjacency: Adjacency = Adjacency.REPLACE_ONE
    unit: Unit = field(default_factory=Unit)
    ceiling: str = "1000000000"

    @property
    def limit(self) -> Ceiling:
        """The ceiling of the account."""
        return Ceiling(self.ceiling, "1/2", unit=self.unit, adjacency=self.adjacency)


PERSON = Unit.person("patient", 2)
AUDITED_ACCOUNTS = {
    "replace-one": AuditedAccount(),
    "add/remove": AuditedAccount(Adjacency.ADD_REMOVE),
    "persons": AuditedAccount(unit=PERSON),
    "nearly empty": AuditedAccount(ceiling="1/10"),
}


@dataclass(frozen=True)
class Seen:
    """Everything that a coordinator sees, except the released values.

    ``said`` has the kind and the size of every response in order, ``charged`` the total and number of every ledger's
    payments, ``counts`` the collectors' counts.
    """

    said: tuple[tuple[str, int], ...]
    charged: tuple[tuple[str, int], ...]
    counts: str = ""
    paces: int = 0

    @property
    def kind(self) -> str:
        """``answered``, or the first refusal."""
        return next((kind for kind, _ in self.said if kind != "answered"), "answered")


def records(sets: bool = False) -> Records:
    """The attacked data set: every person in it has two records."""
    samples = private_samples()
    labels = np.arange(len(samples)) % len(AUDIT_CLASSES)
    held = (np.arange(len(AUDIT_CLASSES)) == labels[:, None]) if sets else labels
    return Records(samples, held, np.arange(len(samples)) // 2)


def neighbors(account: AuditedAccount, sets: bool = False) -> Iterator[tuple[Records, Records]]:
    """Pairs of data sets that differ in one record, in ways that are most likely to make a difference."""
    own = records(sets)
    alike = replace(own, labels=np.broadcast_to(own.labels[0], own.labels.shape).copy())
    every = np.arange(RECORDS)
    if account.adjacency is Adjacency.ADD_REMOVE:
        yield own, own.take(np.delete(every, SECRET_ROW))
        yield alike.take(every[:1]), alike.take(every[:0])
        return
    for value in (0.0, 1.0, 3.0, 5e-324, 1e308, -1e308, np.nan, np.inf):
        samples = own.samples.copy()
        samples[SECRET_ROW] = value
        yield own, replace(own, samples=samples)
    labels = alike.labels.copy()
    labels[SECRET_ROW] = ~labels[SECRET_ROW] if sets else 1
    yield alike, replace(alike, labels=labels)
    if account.unit == PERSON:
        # One record changes its person, who then has three records.
        persons = np.asarray(own.persons).copy()
        persons[SECRET_ROW] = persons[0]
        yield own, replace(own, persons=persons)


def node_with(own: Records, account: AuditedAccount, name: str = _VICTIM, pace: float = 0.0) -> Node:
    """A real node over these records, with seeded noise: two such nodes draw the same noise."""
    return Node(
        name=name,
        classes=AUDIT_CLASSES,
        records=Private(own),
        rules=RULES,
        ledger=open_ledger("memory:", {name: account.limit}),
        account=name,
        consensus=ConsensusStore(lambda: Refitted(logistic(), len(AUDIT_CLASSES)), public_samples(), NodeMemory()),
        pace=pace,
        seed=3,
    )


def compare(kind: str, ask: Any, account: AuditedAccount, pair: tuple[Records, Records]) -> tuple[Seen, Seen]:  # noqa: ANN401
    """What a coordinator sees of the same question to two federations that differ in one record of one node."""
    protocol = PROTOCOL_RUNS[QUESTION_KINDS[kind].protocol]
    first, second = (protocol(ask, own, account) for own in pair)
    return first, second


# The protocols, as a coordinator sees them


def _answered(ask: Any, own: Records, account: AuditedAccount, pace: float = 0.0) -> Seen:  # noqa: ANN401
    """The node's own answer."""
    node = node_with(own, account, pace=pace)
    started = time.monotonic()
    said = _told(node, Request(_RUN, 0, NODES, ask_to_bytes(ask), records=1000))[0]
    paces = round((time.monotonic() - started) / pace) if pace else 0
    return Seen((said,), _charged([node]), paces=paces)


def _masked(ask: Any, own: Records, account: AuditedAccount) -> Seen:  # noqa: ANN401
    """Every step of secure aggregation, and whether there is a sum in the end."""
    nodes = _nodes(own, account)
    identities = {name: SigningIdentity.new() for name in nodes}
    publics = {name: each.public for name, each in identities.items()}
    nodes = {
        name: replace(node, masking=Masking(identities[name], publics, NodeMemory())) for name, node in nodes.items()
    }
    plan = ask.mechanism
    # A plan without a safe neighborhood is asked all the same: nodes must refuse it.
    graph = neighborhood_of(plan.holders, plan.threshold, plan.honest, plan.colluding) or Neighborhood(1, 1)
    session = Session(_RUN, 0, ask.request, math.prod(table_shape(ask)), plan, publics, graph)
    state, inbox = server.ServerState(session), dict.fromkeys(nodes, session.to_bytes())
    said = []
    try:
        while state.step != "over":
            for name, content in inbox.items():
                asked = ask_to_bytes(ask) if state.step in ("keys", "input") else b""
                seen, answer = _told(nodes[name], Request(_RUN, 0, NODES, asked, state.step, content))
                said.append(seen)
                if answer is not None:
                    state = server.accept_message(state, name, answer)
            state, inbox = server.close(state)
        server.result(state, ask.purpose, table_shape(ask))
    except (TooFewParticipants, InvalidInput) as refused:
        said.append((f"refused: {type(refused).__name__}", 0))
    return Seen(tuple(said), _charged(nodes.values()))


def _shuffled(ask: Any, own: Records, account: AuditedAccount) -> Seen:  # noqa: ANN401
    """Submitting to a shuffler, its counts, and what the coordinator collects."""

    def opened_store(file: Path, coordinator: bytes, publics: Mapping[str, bytes]) -> SubmissionStore:
        return open_shuffler(file, coordinator, publics)

    batch = plan_batch(ask.mechanism.inner, _RUN, 0, ask.request, _NAMES, public_key(_SECRET), RECORDS)
    return _collected(ask, own, account, batch, opened_store, [])


def _curated(ask: Any, own: Records, account: AuditedAccount) -> Seen:  # noqa: ANN401
    """Submitting to a curator, its responses, and its release."""
    ledger = open_ledger("memory:", {"curator": account.limit})

    def opened_store(file: Path, coordinator: bytes, publics: Mapping[str, bytes]) -> SubmissionStore:
        curator = Curator(_SECRET, ledger, "curator", SeededRandomness(5))
        return open_curator(file, coordinator, publics, curator)

    batch = plan_tables(ask, _RUN, 0, _NAMES, public_key(_SECRET), minimum=2, largest=1000)
    return _collected(ask, own, account, batch, opened_store, [("curator", ledger)])


PROTOCOL_RUNS: Mapping[str, Callable[..., Seen]] = {
    "answer": _answered,
    "masked": _masked,
    "shuffled": _shuffled,
    "curated": _curated,
}


def _collected(
    ask: Any,  # noqa: ANN401
    own: Records,
    account: AuditedAccount,
    batch: Batch,
    open_store: Callable[[Path, bytes, Mapping[str, bytes]], SubmissionStore],
    more: list[tuple[str, Ledger]],
) -> Seen:
    nodes = _nodes(own, account)
    coordinator, identities = SigningIdentity.new(), {name: SigningIdentity.new() for name in nodes}
    publics = {name: each.public for name, each in identities.items()}
    said = []
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(Path(folder, "db"), coordinator.public, publics) as store,
    ):

        def called(identity: SigningIdentity, kind: str, name: str, body: bytes) -> tuple[str, int]:
            message = SignedMessage.signed(identity, kind, batch.run, batch.round, batch.digest, name, body)
            reply = store.handle(message.to_bytes())
            refused = decode_strict(reply, LARGEST_BATCH, "reply").peek("refused")
            return ("answered" if refused is None else f"refused: {refused}", len(reply))

        def submit(_: Address, identity: SigningIdentity, name: str, batch: Batch, submission: Submission) -> None:
            taken = called(identity, "submit", name, submission.to_bytes())
            said.append(taken)
            if taken[0] != "answered":
                raise SubmissionRefused(taken[0].removeprefix("refused: "))  # type: ignore[arg-type]

        said.append(called(coordinator, "open", COORDINATOR, batch.to_bytes()))
        for name, node in nodes.items():
            collecting = Collecting(identities[name], UNUSED, (UNUSED, public_key(_SECRET)), publics, submit)
            request = Request(_RUN, 0, NODES, ask_to_bytes(ask), "submit", batch.to_bytes())
            said.append(_told(replace(node, collecting=collecting), request)[0])
        said.append(called(coordinator, "collect", COORDINATOR, b""))
        counts = str(store.status())
    return Seen(tuple(said), _charged(nodes.values(), more), counts.replace(batch.digest, "batch"))


def _nodes(own: Records, account: AuditedAccount) -> dict[str, Node]:
    """Three nodes; the first has the attacked records, the others always the same ones."""
    others = records(sets=own.labels.ndim == 2)
    return {name: node_with(own if name == _VICTIM else others, account, name) for name in _NAMES}


def _told(node: Node, request: Request) -> tuple[tuple[str, int], bytes | None]:
    """The kind and the size of a node's response, and its answer if there is one."""
    reply = node.reply(request.to_bytes())
    answer = read_response(reply).answer
    if isinstance(answer, RefusalReason):
        return (f"refused: {answer}", len(reply)), None
    return ("answered", len(reply)), answer


def _charged(nodes: Any, more: list[tuple[str, Ledger]] | None = None) -> tuple[tuple[str, int], ...]:  # noqa: ANN401
    ledgers = [(node.account, node.ledger) for node in nodes] + (more or [])
    balances = [ledger.balance(account) for account, ledger in ledgers]
    return tuple((str(each.spent), each.payments) for each in balances)


# The audit


@dataclass
class ProtocolRow:
    """The results of one kind of request with one kind of account."""

    protocol: str
    account: str
    questions: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    differing: list[str] = field(default_factory=list)


def play(questions: int, randomness: Randomness, tell: Callable[[int], None] = lambda _: None) -> list[ProtocolRow]:
    """Ask this many hostile questions per kind of request, on neighboring data sets, and record differences.

    >>> rows = play(1, SeededRandomness(4))
    >>> sum(len(row.differing) for row in rows)
    0
    """
    rows, numbers, done = [], hostile_numbers(randomness), 0
    for protocol in PROTOCOL_RUNS:
        kinds = [name for name, kind in QUESTION_KINDS.items() if kind.protocol == protocol]
        for name, account in AUDITED_ACCOUNTS.items():
            rows.append(row := ProtocolRow(protocol, name))
            for _ in range(questions):
                kind, ask = _readable(kinds, numbers, randomness)
                pair = _one_of(list(neighbors(account, QUESTION_KINDS[kind].sets)), randomness)
                _note(row, kind, *compare(kind, ask, account, pair))
                tell(done := done + 1)
    rows.append(_timed(randomness))
    return rows


def _timed(randomness: Randomness) -> ProtocolRow:
    """The time of responses in whole paces; repeated, because the machine may have been busy."""
    row, numbers = ProtocolRow("reply time", "replace-one"), hostile_numbers(randomness)
    kinds = [name for name, kind in QUESTION_KINDS.items() if kind.protocol == "answer" and not kind.sets]
    pairs = list(neighbors(AuditedAccount()))
    for _ in range(_TIMED):
        kind, ask = _readable(kinds, numbers, randomness)
        pair = _one_of(pairs, randomness)
        for _ in range(_TRIES):
            first, second = (_answered(ask, own, AuditedAccount(), _PACE) for own in pair)
            if first == second:
                break
        _note(row, kind, first, second)
    return row


def _readable(kinds: list[str], numbers: NumberSource, randomness: Randomness) -> tuple[str, Any]:
    """A question of one of these kinds that can be read; one that cannot be read reveals nothing."""
    while True:
        kind = _one_of(kinds, randomness)
        if (ask := question(kind, numbers)) is not None:
            return kind, ask


def _one_of(things: Sequence[_T], randomness: Randomness) -> _T:
    return things[int(uniform_below(len(things), 1, randomness)[0])]


def _note(row: ProtocolRow, kind: str, first: Seen, second: Seen) -> None:
    row.questions += 1
    row.endings[first.kind] += 1
    if first != second:
        row.differing.append(kind)
