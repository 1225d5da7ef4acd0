"""A node of a federation: one holder's records, policy and ledger, behind one function from bytes to bytes.

A node answers questions that its own policy allows and its own ledger can pay, through the gate only. It refuses all
others with one reason of a closed list. A refusal never depends on a record.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.core import Adjacency, Encodings, Ledger, Randomness, Release, SeededRandomness, SystemRandomness, decimal
from tacit.core.errors import BudgetExceeded, InvalidInput, LedgerError, LimitExceeded, RequestConflict, TacitError
from tacit.core.samples import match_names
from tacit.datasets.tables import read_table
from tacit.federation.collector.client import Address
from tacit.federation.collector.messages import Batch
from tacit.federation.keys import SigningIdentity
from tacit.federation.messages import (
    LARGEST_REQUEST,
    RefusalReason,
    Request,
    Response,
    ToldBudget,
    digest_request,
    read_node_request,
)
from tacit.federation.node.records import LoadedArrays, node_records
from tacit.federation.node.refusals import (
    ApprovalRequest,
    Approvals,
    Refused,
    lacks_delta,
    log_refusal,
    mechanism_name,
    node_side,
    reason_for,
    require_allowed,
    require_encoder,
)
from tacit.federation.node.steps import Collecting, FolderMemory, Masking, collected_step, hidden_among, masked_step
from tacit.federation.settings import NodeFile, read_peers
from tacit.ledger import open_ledger, opened
from tacit.ledger.account import covered
from tacit.ledger.places import occupied
from tacit.ledger.policy import Rules, read_policy, read_rules
from tacit.mechanisms.registry import outside
from tacit.methods.fedmd.models import ConsensusStore
from tacit.methods.question import Notice, Question
from tacit.methods.registry import method_of
from tacit.private.gate import Gate
from tacit.private.node_side import NodeContext
from tacit.private.records import Private, Records, public_size, schema_of
from tacit.representations.registry import admitted
from tacit.students.weighted import ESTIMATORS
from tacit.students.wrapped import Refitted
from tacit.wire import Price, read_ask, release_to_bytes

__all__ = ["Node", "open_node", "prepare_ledger"]

LONGEST_REQUEST = 1000
# Bytes of a response beside the answer itself: the receipt, the stated budget.
_MOST_BESIDE = 1024


@dataclass(frozen=True)
class Node:
    """A node's side of every method. ``seed`` makes its noise a simulation; only tests and simulations set it.

    ``answer`` is the interface of every holder, so a node also works in a run in one process. ``reply`` is the same
    for encoded requests, and never raises.
    """

    name: str
    classes: tuple[str, ...]
    records: Private[Records]
    rules: Rules
    ledger: Ledger
    account: str
    model: Any = "logistic"
    consensus: ConsensusStore | None = None
    masking: Masking | None = None
    collecting: Collecting | None = None
    pace: float = 0.0
    seed: int | None = None
    participants: int | None = None
    features: tuple[str, ...] | None = None
    approvals: Approvals | None = None
    run: str = ""
    encodings: Encodings | None = None
    canceled: Callable[[], bool] = lambda: False
    tells_budget: bool = False

    def __post_init__(self) -> None:
        if self.seed is not None and self.ledger.durable:
            raise InvalidInput("a node with a seed is a simulation, which must not spend from a persistent ledger")

    def answer(self, ask: Question) -> Release[Any]:
        """The release, paid for by this node's own account; ``Refused`` with the reason if there is none."""
        self._check(ask, "answer", self.participants)
        return self._answer(ask)

    def _answer(self, ask: Question) -> Release[Any]:
        randomness = self._randomness(ask.request)
        self._stop_if_canceled()
        try:
            limits = self.rules.limits if self.rules.limits.any else None
            gate = Gate(self.ledger, self.account, randomness, limits, self._named())
            context = NodeContext(self.classes, self.records, gate, self.model, self.consensus, self.encodings)
            release = node_side(method_of(ask)).answer(ask, context)
        except BudgetExceeded as error:
            lacking = lacks_delta(self.ledger, self.account, Price.of(ask).spend)
            raise Refused(RefusalReason.DELTA if lacking else RefusalReason.BUDGET, str(error)) from None
        except LimitExceeded as error:
            raise Refused(RefusalReason.LIMIT, str(error)) from None
        except RequestConflict as error:
            raise Refused(RefusalReason.CONFLICT, str(error)) from None
        except LedgerError:
            # A full disk or a damaged ledger is not the question's fault: the reason is FAILED.
            raise
        except TacitError as error:
            raise Refused(RefusalReason.QUESTION, str(error)) from None
        self._stop_if_canceled()  # The payment stays and the answer is stored, but a canceled job does not get it.
        return release

    def _sent(self, ask: Question, records: int) -> bytes:
        """The encoded answer; refused before it is paid if it would be too large to be sent, by public numbers."""
        self._check(ask, "answer", self.participants)
        unit, adjacency = self.ledger.privacy_unit(self.account)
        size = ask.answer_form(records).most_bytes(lambda: public_size([self.records], unit, adjacency))
        if size > LARGEST_REQUEST - _MOST_BESIDE:
            raise Refused(RefusalReason.SIZE, f"its answer has up to {size} bytes, the limit is {LARGEST_REQUEST}")
        return release_to_bytes(self._answer(ask), ask, records)

    def _stop_if_canceled(self) -> None:
        """Stop between two steps if the operator has canceled the job in the meantime."""
        if self.canceled():
            raise Refused(RefusalReason.CANCELED)

    def conclude(self, request: str, told: Notice) -> None:
        """Train on the consensus of a run's last round; earlier ones come with the next question."""
        method = method_of(told)
        if type(told) not in method.notices:
            raise InvalidInput("the request contains no consensus to train on")
        if method.name not in self.rules.methods:
            raise Refused(RefusalReason.METHOD)
        learn = node_side(method).learn
        if learn is None or self.consensus is None:
            raise Refused(RefusalReason.QUESTION)
        learn(told, request, self.consensus)

    def reply(self, payload: bytes) -> bytes:
        """The response to a request; to hide timing it leaves at a multiple of ``pace`` seconds after the request."""
        started = time.monotonic()
        with admitted(self.rules.representations):
            reply = replace(self._reply(payload), budget=self._budget()).to_bytes()
        if self.pace > 0:
            spent = time.monotonic() - started
            time.sleep(self.pace * np.ceil(spent / self.pace) - spent)
        return reply

    def _budget(self) -> ToldBudget | None:
        """What the account has spent and may spend, where the operator lets the coordinator know."""
        if not self.tells_budget:
            return None
        try:
            balance = self.ledger.balance(self.account)
        except LedgerError:
            return None
        spent = "unbounded" if math.isinf(balance.spent.epsilon) else decimal(balance.spent.epsilon)
        return ToldBudget(spent, decimal(balance.ceiling.epsilon), decimal(balance.ceiling.delta))

    def _reply(self, payload: bytes) -> Response:
        request_digest = digest_request(payload)
        request: Request | None = None
        try:
            if len(payload) > LARGEST_REQUEST:
                raise Refused(RefusalReason.SIZE, f"it has {len(payload)} bytes, the limit is {LARGEST_REQUEST}")
            request = read_node_request(payload)
            self._stop_if_canceled()
            asked = replace(
                self, participants=request.participants, run=request.run, records=self._in_order(request.features)
            )
            match request.step:
                case "answer":
                    return Response(request_digest, asked._sent(self._read(request), request.records))
                case "submit":
                    return Response(request_digest, asked._collected(request))
                case "learn":
                    if len(request.content) > LONGEST_REQUEST:
                        raise InvalidInput("the name of the request is too long")
                    asked.conclude(request.content.decode("utf-8", "replace"), self._read(request))
                    return Response(request_digest, b"")
                case _:
                    return Response(request_digest, asked._masked(request))
        except Exception as error:
            log_refusal(error, request, self.rules, self.classes)
            return Response(request_digest, reason_for(error))

    def _read(self, request: Request) -> Any:  # noqa: ANN401
        """The question in a request. A method of another package reads it only if the policy names the method."""
        return read_ask(request.ask, methods=self.rules.methods)

    def _in_order(self, wanted: tuple[str, ...]) -> Private[Records]:
        """The records with their columns in the order of the public samples; refused if the names differ.

        Names are public, and so is whether they are equal. If either side has no names, the order is not changed.
        """
        if not wanted or self.features is None or wanted == self.features:
            return self.records
        try:
            order = match_names(self.features, wanted, "this node's records", "the public samples")
        except InvalidInput as error:
            raise Refused(RefusalReason.COLUMNS, str(error)) from None
        return self.records.map(lambda own: own.in_order(order))

    def _masked(self, request: Request) -> bytes:
        """One step of secure aggregation, in which this node's table leaves the node only under masks."""
        if self.masking is None:
            raise Refused(RefusalReason.MECHANISM)
        ask = None
        if request.ask:
            ask = self._read(request)
            # The members in the session are checked later; the sum may be of as few as the threshold.
            self._check(ask, "masked", getattr(ask.mechanism, "threshold", 0))
        return masked_step(request, ask, self.name, self.masking, self._answer)

    def _collected(self, request: Request) -> bytes:
        """Submit to a shuffler or a curator, both named in this node's own file."""
        if self.collecting is None:
            raise Refused(RefusalReason.MECHANISM)
        ask, batch = self._read(request), Batch.read(request.content)
        self._check(ask, "submit", hidden_among(ask, batch, self.collecting.peers))
        return collected_step(request, batch, ask, self.name, self.collecting, *self._sizes(), self._answer)

    def _named(self) -> tuple[type, ...]:
        """The mechanisms of other packages that this node's policy names."""
        return tuple(kind for name, kind in outside().items() if name in self.rules.mechanisms)

    def _sizes(self) -> tuple[int, int]:
        """The number of participants (records or persons), and the most records: public under replace-one only."""
        unit, adjacency = self.ledger.privacy_unit(self.account)
        if adjacency is not Adjacency.REPLACE_ONE:
            raise Refused(RefusalReason.MECHANISM)
        participants = public_size([self.records], unit, adjacency)
        return participants, participants * unit.records

    def _check(self, ask: Question, step: str, participants: int | None) -> None:
        """Refuse what the node's policy does not allow, before a record is read.

        ``participants`` is how many members this node found in the list of the batch or session. A plain answer has no
        such list: there it is the coordinator's unverified claim, and None in one process.
        """
        method = method_of(ask)
        if type(ask) not in method.questions:
            raise InvalidInput(f"a {type(ask).__name__} is not a question")
        if method.name not in self.rules.methods:
            raise Refused(RefusalReason.METHOD)
        if schema_of(self.records).streamed and not method.streams:
            raise Refused(
                RefusalReason.METHOD,
                f"{method.name} needs all records in memory, and this node counts them with an engine",
            )
        if mechanism_name(ask) not in self.rules.mechanisms:
            raise Refused(RefusalReason.MECHANISM)
        try:
            require_allowed(step, ask, self._named())
        except InvalidInput as error:
            raise Refused(RefusalReason.MECHANISM, str(error)) from None
        if not self.rules.covers(ask.purpose):
            raise Refused(RefusalReason.PURPOSE)
        if participants is not None and participants < self.rules.participants:
            raise Refused(
                RefusalReason.PARTICIPANTS,
                f"{participants} take part, and the policy requires {self.rules.participants}",
            )
        if ask.class_names is not None and ask.class_names != self.classes:
            raise Refused(RefusalReason.CLASSES)
        require_encoder(ask, schema_of(self.records).dtype.names, method.encodes, self.rules)
        self._check_trust(ask, step)
        if self.rules.approval:
            self._check_approval(ask)

    def _check_trust(self, ask: Question, step: str) -> None:
        """Refuse a guarantee that relies on more honest others, or on less of this node's own noise, than allowed."""
        most, least = self.rules.honest_others, self.rules.noise_share
        if step == "answer" or (most is None and least is None):
            return
        mechanism: Any = ask.mechanism
        relied = mechanism.reliance(self._sizes()[0] if step == "submit" else 1)
        if (most is not None and relied.others > most) or (least is not None and relied.share < least):
            raise Refused(
                RefusalReason.TRUST,
                f"the guarantee relies on {relied.others} honest others and a share {relied.share} of this node's own "
                f"noise; the policy allows {most} others and requires a share of {least}",
            )

    def _check_approval(self, ask: Question) -> None:
        """Refuse a job that no person has approved; it is recorded for a decision, and may be asked again."""
        if self.approvals is None:
            raise Refused(RefusalReason.APPROVAL)
        allowed = next(each for each in self.rules.purposes if covered(ask.purpose, each))
        spend = Price.of(ask).spend
        if not self.approvals.allows(
            ApprovalRequest(self.run or ask.request, ask.method, mechanism_name(ask), allowed, spend)
        ):
            raise Refused(RefusalReason.APPROVAL)

    def _randomness(self, request: str) -> Randomness:
        if self.seed is None:
            return SystemRandomness()
        # Per request, so that a simulation does not depend on earlier questions.
        digest = hashlib.sha256(f"{self.seed} {self.name} {request}".encode()).digest()
        return SeededRandomness(int.from_bytes(digest[:8], "little"))


def open_node(file: NodeFile, arrays: LoadedArrays | None = None) -> Node:
    """The node of a settings file; errors are for the operator. Data in ``arrays`` are not read or checked again."""
    arrays = arrays or LoadedArrays()
    rules = read_rules(file.policy)
    ledger = open_ledger(file.ledger)
    unit, _ = ledger.privacy_unit(file.account)
    records, features = node_records(file, unit.column, arrays)
    return Node(
        name=file.name,
        classes=file.classes,
        records=records,
        rules=rules,
        ledger=ledger,
        account=file.account,
        model=file.model,
        masking=_masking(file),
        collecting=_collecting(file),
        consensus=_consensus(file, arrays),
        pace=file.pace,
        approvals=Approvals(file.state / "approvals"),
        features=features,
        tells_budget=file.link is not None and file.link.tell_budget,
    )


def _masking(file: NodeFile) -> Masking | None:
    """The node's part in secure aggregation; None if its file does not set it up."""
    if file.identity is None or file.peers is None:
        return None
    return Masking(SigningIdentity.read(file.identity), read_peers(file.peers), FolderMemory(file.state / "masking"))


def _collecting(file: NodeFile) -> Collecting | None:
    """The node's part in batches; None if it trusts neither a shuffler nor a curator."""
    if file.identity is None or (file.shuffler is None and file.curator is None):
        return None
    shuffler = None if file.shuffler is None else Address(file.shuffler.address, file.shuffler.authority)
    own = file.curator
    curator = None if own is None else (Address(own.address, own.authority), own.key)
    peers = {} if file.peers is None else read_peers(file.peers)
    return Collecting(SigningIdentity.read(file.identity), shuffler, curator, peers)


def _consensus(file: NodeFile, arrays: LoadedArrays) -> ConsensusStore | None:
    """The store that FedMD needs; None without public samples or with an unknown model."""
    public = file.public
    if public is None or file.model not in ESTIMATORS:
        return None
    samples = arrays.of(public, "samples", lambda: {"samples": read_table(public).samples})["samples"]

    def model() -> Refitted:
        return Refitted(ESTIMATORS[file.model](), len(file.classes))

    return ConsensusStore(model, samples, FolderMemory(file.state / "agreements"))


def prepare_ledger(file: NodeFile, tell: Callable[[str], None] = lambda _: None) -> None:
    """Create the ledger from the policy at the first start; later apply the operator's changes of the policy."""
    ceilings = read_policy(file.policy)
    if file.account not in ceilings:
        raise InvalidInput(f"{file.policy}: has no account {file.account!r}, from which this node pays")
    if not occupied(file.ledger):
        open_ledger(file.ledger, ceilings).close()
        tell(f"made the ledger {file.ledger}")
        return
    with opened(file.ledger) as book:
        for account, _, after in book.apply(ceilings):
            tell(f"the policy changed: {account} has {after}")
