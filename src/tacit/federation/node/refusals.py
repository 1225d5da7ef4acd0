"""What a node refuses and why, and the jobs that need a person's approval before their first answer.

The coordinator gets one reason of a closed list; the details go to the node's own log. The reason depends on the
question, the ledger and the node's settings, never on a record. The log has what was asked and what is allowed, with
the coordinator's texts shortened.

Each method declares which mechanisms its questions may use in which step; all others are refused.

A request for approval is stored when a question first needs it, and decided on the command line. A job is a run with
one method, mechanism and purpose at one price. Each is a file in the node's folder that is written once, as pending,
and of which only the state changes: a person approves exactly what was shown. A later question of the same job with the
same or a lower price is covered; one with a higher price is another job.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit.accounting.compose import Running, total
from tacit.core import InvalidInput, Ledger, Spend, TacitError, decimal, listed, spend_from_json, spend_to_json
from tacit.core.files import write_file
from tacit.federation.collector.client import Unreachable
from tacit.federation.collector.messages import SubmissionRefusal, SubmissionRefused
from tacit.federation.messages import RefusalReason, Request
from tacit.federation.processes import failure_in_words
from tacit.ledger.policy import Rules
from tacit.mechanisms.registry import policy_name
from tacit.methods.question import Question, encoder_of
from tacit.methods.registry import Method, method_of
from tacit.private.node_side import NodeSide
from tacit.wire import read_ask

__all__ = [
    "APPROVED", "DECLINED", "PENDING", "ApprovalRequest", "Approvals", "Refused", "lacks_delta", "log_refusal",
    "mechanism_name", "node_side", "price_in_words", "reason_for", "require_allowed", "require_encoder",
]  # fmt: skip


def node_side(method: Method) -> NodeSide:
    """The part of a method that runs at a node; its code is imported only here.

    >>> from tacit.methods.registry import METHODS
    >>> sorted(each.__name__ for each in node_side(METHODS["fedmd"]).allowed)
    ['PartyVoteAsk', 'PredictAsk']
    """
    side = method.load_node_side()
    if not isinstance(side, NodeSide):
        raise InvalidInput(f"{method.node_side} is no NodeSide")
    return side


def mechanism_name(ask: Question) -> str:
    """The name of a question's mechanism, as policies write it."""
    return policy_name(ask.mechanism)


def require_allowed(step: str, ask: Question, named: Collection[type] = ()) -> None:
    """Refuse a question whose mechanism is not allowed in this step; ``named`` are further ones that the policy allows.

    >>> import numpy as np
    >>> from tacit.mechanisms.local.randomized_response import RandomizedLabels
    >>> from tacit.methods.privatekt.wire import LabelAsk
    >>> require_allowed("masked", LabelAsk(np.zeros((5, 2)), None, RandomizedLabels(10, 5, 1), (), "labels", "r-1"))
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: a LabelAsk is not answered in the step 'masked'
    """
    allowed = node_side(method_of(ask)).allowed.get(type(ask), {}).get(step)
    if allowed is None:
        raise InvalidInput(f"a {type(ask).__name__} is not answered in the step {step!r}")
    allowed.require(ask.mechanism, named)


_log = logging.getLogger("tacit.node")
_LONGEST = 80


class Refused(TacitError):
    """A node's refusal, with one of the known reasons; ``detail`` is for its own operator."""

    def __init__(self, reason: RefusalReason, detail: str = "") -> None:
        super().__init__(reason.in_words)
        self.reason = reason
        self.detail = detail


def reason_for(error: Exception) -> RefusalReason:
    """The refusal reason for an error.

    >>> reason_for(InvalidInput("the request has no field 'ask'")), reason_for(OSError(28, "No space left on device"))
    (<RefusalReason.QUESTION: 'question'>, <RefusalReason.FAILED: 'failed'>)
    """
    if isinstance(error, Refused):
        return error.reason
    if isinstance(error, SubmissionRefused):
        return RefusalReason.SIZE if error.reason is SubmissionRefusal.OVERSIZED else RefusalReason.COLLECTOR
    if isinstance(error, Unreachable):
        return RefusalReason.COLLECTOR
    return RefusalReason.QUESTION if isinstance(error, InvalidInput) else RefusalReason.FAILED


def log_refusal(error: Exception, request: Request | None, rules: Rules, classes: tuple[str, ...]) -> None:
    """Log a refusal: the reason that is sent, what was asked, and what is allowed."""
    reason = reason_for(error)
    about = "a question" if request is None else f"run {_cut(request.run)}, round {request.round + 1}, {request.step}"
    if reason is RefusalReason.FAILED:
        _log.error("%s: failed: %s", about, failure_in_words(error))
        return
    detail = error.detail if isinstance(error, Refused) else failure_in_words(error)
    words = detail
    # An error while logging must not change the response.
    with suppress(Exception):
        words = words or _asked_and_allowed(reason, request, rules, classes)
    _log.warning("%s: refused (%s): %s%s", about, reason, reason.in_words, f"; {words}" if words else "")


def require_encoder(ask: Question, columns: tuple[str, ...] | None, encodes: bool, rules: Rules) -> None:
    """Refuse an encoder that the policy does not allow or that reads other ``columns``, and a question without one.

    ``columns`` are those of a node with raw rows, None of one with numbers; ``encodes`` is whether the method reads
    records by the question's representation only. All of it depends on the question, the policy and the columns.
    """
    encoder = encoder_of(ask)
    if encoder is None and columns is None:
        return
    if encoder is None or not encodes:
        raise Refused(RefusalReason.ENCODER, "this node has raw rows, and the question is about numbers")
    if columns is None:
        raise Refused(RefusalReason.ENCODER, 'this node has numbers; with raw rows its file says kind = "mixed"')
    if not set(encoder.kinds) <= set(rules.encoders):
        raise Refused(
            RefusalReason.ENCODER,
            f"it is for {', '.join(encoder.kinds)}, and the policy allows {', '.join(rules.encoders) or 'none'}",
        )
    if encoder.encoder.width > rules.encoder_features:
        raise Refused(
            RefusalReason.ENCODER,
            f"it makes {encoder.encoder.width} features, and the policy allows {rules.encoder_features}",
        )
    if encoder.columns is None and len(columns) > 1:
        raise Refused(RefusalReason.COLUMNS, "it is for texts alone, and this node has several columns")
    if missing := [name for name in encoder.columns or () if name not in columns]:
        raise Refused(RefusalReason.COLUMNS, f"this node's records have no column {listed(missing)}")


def lacks_delta(ledger: Ledger, account: str, spend: Spend) -> bool:
    """Whether an account could not pay this spend even with its full budget, because its δ is too small."""
    ceiling = ledger.balance(account).ceiling
    return total([spend], ceiling.delta, ceiling.rule).epsilon == math.inf


def _asked_and_allowed(reason: RefusalReason, request: Request | None, rules: Rules, classes: tuple[str, ...]) -> str:
    if request is None or not request.ask:
        return ""
    ask: Question = read_ask(request.ask, methods=rules.methods)
    match reason:
        case RefusalReason.METHOD:
            return f"asked {ask.method}, allowed {_listed(rules.methods)}"
        case RefusalReason.MECHANISM:
            return f"asked {mechanism_name(ask)} by {request.step!r}, allowed {_listed(rules.mechanisms)}"
        case RefusalReason.PURPOSE:
            return f"asked {_cut(ask.purpose)}, allowed {_listed(rules.purposes)}"
        case RefusalReason.PARTICIPANTS:
            return f"asked with {request.participants} participants, the policy requires {rules.participants}"
        case RefusalReason.CLASSES:
            return f"asked {_listed(ask.class_names or ())}, here {_listed(classes)}"
    return ""


def _listed(words: tuple[str, ...]) -> str:
    more = f" and {len(words) - 10} more" if len(words) > 10 else ""
    return ", ".join(map(_cut, words[:10])) + more


def _cut(words: str) -> str:
    """Text of the coordinator, quoted on one line and shortened."""
    return repr(words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…")


def price_in_words(spend: Spend) -> str:
    """A price for the operator.

    >>> from tacit.core.spend import Pure
    >>> price_in_words(Pure("0.5"))
    'epsilon 0.5'
    """
    epsilon = Running().plus(spend).pure_epsilon
    return f"epsilon {decimal(epsilon)}" if epsilon is not None else json.dumps(spend_to_json(spend))


PENDING, APPROVED, DECLINED = "pending", "approved", "declined"
# Coordinators must not fill the disk: beyond this many pending jobs, one is dropped for the next.
MOST_PENDING = 100
_DIGITS = 16


@dataclass(frozen=True)
class ApprovalRequest:
    """A job that needs approval: run, method, mechanism, purpose, and the price of one answer.

    >>> from tacit.core.spend import Pure
    >>> job = ApprovalRequest("run-1", "rknn", "DiscreteLaplaceNoise", "labels", Pure("0.5"))
    >>> job.covers(replace(job, spend=Pure("0.25"))), job.covers(replace(job, spend=Pure(5)))
    (True, False)
    >>> job.price
    'epsilon 0.5'
    """

    run: str
    method: str
    mechanism: str
    purpose: str
    spend: Spend
    state: str = PENDING
    at: str = ""

    @property
    def id(self) -> str:
        """A short digest of all that is approved."""
        asked = [self.run, self.method, self.mechanism, self.purpose, spend_to_json(self.spend)]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:_DIGITS]

    @property
    def price(self) -> str:
        """The price of one answer, for people."""
        return price_in_words(self.spend)

    def covers(self, other: ApprovalRequest) -> bool:
        """Whether approving this job approves the other one: the same job at the same or a lower price."""
        mine = (self.run, self.method, self.mechanism, self.purpose)
        if mine != (other.run, other.method, other.mechanism, other.purpose):
            return False
        most, asked = (Running().plus(each.spend).pure_epsilon for each in (self, other))
        return self.spend == other.spend or (most is not None and asked is not None and asked <= most)

    def to_json(self) -> dict[str, Any]:
        """The job as JSON values."""
        return {
            "run": self.run,
            "method": self.method,
            "mechanism": self.mechanism,
            "purpose": self.purpose,
            "spend": spend_to_json(self.spend),
            "state": self.state,
            "at": self.at,
        }


@dataclass(frozen=True)
class Approvals:
    """The jobs in a node's folder, which only its owner may read."""

    folder: Path

    def allows(self, job: ApprovalRequest) -> bool:
        """Whether a person has approved this job; a new job is stored as pending."""
        known = self.jobs()
        if any(each.state == APPROVED and each.covers(job) for each in known):
            return True
        if all(each.id != job.id for each in known):
            if len(waiting := [each for each in known if each.state == PENDING]) >= MOST_PENDING:
                self._forget(waiting)
            self._write(replace(job, state=PENDING, at=datetime.now(UTC).isoformat(timespec="seconds")))
            _log.warning(
                "job %s waits for approval: %s for %r through %s, %s for one answer. "
                "Decide with `tacit federation approve`", job.id, job.method, job.purpose, job.mechanism, job.price,
            )  # fmt: skip
        return False

    def _forget(self, waiting: list[ApprovalRequest]) -> None:
        """Remove the oldest pending job of the purpose with the most jobs, so that one purpose cannot displace others.

        If the removed job is asked for again, it is stored again.
        """
        purposes = Counter(each.purpose.partition(",")[0] for each in waiting)
        most, _ = purposes.most_common(1)[0]
        oldest = next(each for each in waiting if each.purpose.partition(",")[0] == most)
        (self.folder / f"{oldest.id}.json").unlink(missing_ok=True)
        _log.warning("%d jobs wait for approval: job %s is dropped for a newer one", MOST_PENDING, oldest.id)

    def jobs(self) -> list[ApprovalRequest]:
        """All jobs that were asked for, the oldest first."""
        if not self.folder.is_dir():
            return []
        found = [_read_request(each) for each in sorted(self.folder.glob("*.json"))]
        return sorted(found, key=lambda each: (each.at, each.id))

    def decide(self, name: str, state: str) -> ApprovalRequest:
        """Approve or decline a job by its id or a unique beginning of it."""
        jobs = self.jobs()
        found = [each for each in jobs if each.id.startswith(name)] if name else []
        if len(found) != 1:
            known = ", ".join(each.id for each in jobs[:10]) or "none"
            what = "several jobs begin with" if found else "there is no job"
            raise InvalidInput(f"{what} {name!r}; the jobs are {known}")
        decided = replace(found[0], state=state)
        self._write(decided)
        return decided

    def _write(self, job: ApprovalRequest) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = json.dumps(job.to_json()).encode()
        # A pending job never overwrites a decision that was made in the meantime.
        with suppress(FileExistsError):
            write_file(self.folder / f"{job.id}.json", content, private=True, replace=job.state != PENDING)


def _read_request(file: Path) -> ApprovalRequest:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        job = ApprovalRequest(**{**content, "spend": spend_from_json(content["spend"])})
        if job.state not in (PENDING, APPROVED, DECLINED) or job.id != file.stem:
            raise ValueError("it was changed")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"{file}: cannot be read as a job ({error}); remove it") from None
    return job
