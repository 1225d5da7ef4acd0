"""What a node refuses and why: one closed word for the coordinator, and the true reason for the node's own log.

Before it answers, a node looks up the method's side there and the doors of the step. Steps and mechanisms are declared
with each method's holders; what is not declared is refused.

The word follows from the question, the ledger and the node's set-up, never from a record. The log has what was asked
and what is allowed, cut short where the asker chose the words.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection
from contextlib import suppress

from tacit.accounting.compose import total
from tacit.core.errors import InvalidInput, TacitError
from tacit.core.protocols import Ledger
from tacit.core.spend import Spend
from tacit.federation.collector.client import Unreachable
from tacit.federation.collector.messages import SubmissionRefusal, SubmissionRefused
from tacit.federation.logs import failure_in_words
from tacit.federation.messages import RefusalReason, Request
from tacit.ledger.policy import Rules
from tacit.mechanisms.registry import policy_name
from tacit.methods.question import Question
from tacit.methods.registry import Method, method_of
from tacit.private.node_side import NodeSide
from tacit.wire import read_ask

__all__ = ["Refused", "lacks_delta", "log_refusal", "mechanism_name", "node_side", "reason_for", "require_door"]


def node_side(method: Method) -> NodeSide:
    """The method's side at a node, whose code is imported here and not before.

    >>> from tacit.methods.registry import METHODS
    >>> sorted(each.__name__ for each in node_side(METHODS["fedmd"]).doors)
    ['PartyVoteAsk', 'PredictAsk']
    """
    side = method.load_node_side()
    if not isinstance(side, NodeSide):
        raise InvalidInput(f"{method.node_side} is no NodeSide")
    return side


def mechanism_name(ask: Question) -> str:
    """The name of the mechanism that a question wants its answer to go through, as a policy lists it."""
    return policy_name(ask.mechanism)


def require_door(step: str, ask: Question, named: Collection[type] = ()) -> None:
    """Refuse a question whose mechanism does not belong into this step; ``named`` are those that the policy adds.

    >>> import numpy as np
    >>> from tacit.mechanisms.local.randomized_labels import RandomizedLabels
    >>> from tacit.methods.privatekt.wire import LabelAsk
    >>> require_door("masked", LabelAsk(np.zeros((5, 2)), None, RandomizedLabels(10, 5, 1), (), "labels", "r-1"))
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: a LabelAsk is not answered in the step 'masked'
    """
    door = node_side(method_of(ask)).doors.get(type(ask), {}).get(step)
    if door is None:
        raise InvalidInput(f"a {type(ask).__name__} is not answered in the step {step!r}")
    door.require(ask.mechanism, named)


log = logging.getLogger("tacit.node")
LONGEST = 80


class Refused(TacitError):
    """The node does not answer, for one of the known reasons; ``detail`` is for its own operator."""

    def __init__(self, reason: RefusalReason, detail: str = "") -> None:
        super().__init__(reason.in_words)
        self.reason = reason
        self.detail = detail


def reason_for(error: Exception) -> RefusalReason:
    """The closed word for what went wrong.

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
    """Write down why a question is not answered: the word that is sent, what was asked, and what is allowed."""
    reason = reason_for(error)
    about = "a question" if request is None else f"run {_cut(request.run)}, round {request.round + 1}, {request.step}"
    if reason is RefusalReason.FAILED:
        log.error("%s: failed: %s", about, failure_in_words(error))
        return
    detail = error.detail if isinstance(error, Refused) else failure_in_words(error)
    words = detail
    # What is written down must not change what is sent: a refusal that cannot be described is still one.
    with suppress(Exception):
        words = words or _asked_and_allowed(reason, request, rules, classes)
    log.warning("%s: refused (%s): %s%s", about, reason, reason.in_words, f"; {words}" if words else "")


def lacks_delta(ledger: Ledger, account: str, spend: Spend) -> bool:
    """Whether an account could not pay this spend even if nothing had been spent, because its δ is too small."""
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
            return f"asked with {request.participants}, allowed from {rules.participants} on"
        case RefusalReason.CLASSES:
            return f"asked {_listed(ask.class_names or ())}, here {_listed(classes)}"
    return ""


def _listed(words: tuple[str, ...]) -> str:
    more = f" and {len(words) - 10} more" if len(words) > 10 else ""
    return ", ".join(map(_cut, words[:10])) + more


def _cut(words: str) -> str:
    """Words that somebody else chose, on one line and not too long."""
    return repr(words if len(words) <= LONGEST else words[: LONGEST - 1] + "…")
