"""Questions and answers as bytes and back: what may cross between machines, and nothing else.

Every question of every method is a set of named fields. An answer is what only its holder knows: a few bytes of the
receipt that paid for it, and the packed value. Reading checks types, shapes, ranges and sizes, refuses what it does not
know, and runs no code of the sender's. Whatever is sent, what comes out is a value of one of these types or
``InvalidInput``.
"""

from __future__ import annotations

from typing import Any

from tacit.core.codec import encode
from tacit.core.errors import InvalidInput
from tacit.core.release import Release, refusal, restored
from tacit.exchange.fields import opened
from tacit.exchange.portable_answers import MOST_RECORDS, answer_form
from tacit.exchange.portable_asks import ASK_BYTES, ASKS
from tacit.exchange.portable_receipts import Price, read_receipt, receipt_to_bytes
from tacit.methods.privatekt.wire import LabelAsk

__all__ = ["ANSWER_BYTES", "ask_to_bytes", "read_ask", "read_release", "release_to_bytes"]

ANSWER_BYTES = 256 * 2**20


def ask_to_bytes(ask: Any) -> bytes:  # noqa: ANN401
    """A question as bytes.

    >>> import numpy as np
    >>> from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
    >>> from tacit.representations.scaled import Identity
    >>> from tacit.methods.rknn.wire import VoteAsk
    >>> queries = np.zeros((2, 3), dtype=np.float32)
    >>> ask = VoteAsk(queries, Identity(3), 1, ("a", "b"), "c0ffee", PermuteAndFlip(1, 2), "labels", "r-1")
    >>> again = read_ask(ask_to_bytes(ask))
    >>> again.mechanism, again.question == ask.question
    (PermuteAndFlip(rate=Fraction(1, 1), row_range=2), True)
    """
    for name, (made, write, _) in ASKS.items():
        if type(ask) is made:
            return encode({"ask": name, **write(ask)})
    raise InvalidInput(f"{type(ask).__name__} is no question that can travel; what can is {', '.join(ASKS)}")


def read_ask(payload: bytes, most: int = ASK_BYTES) -> Any:  # noqa: ANN401
    """The question in these bytes, checked."""
    fields = opened(payload, most, "question")
    read = ASKS[fields.one_of("ask", ASKS)][2]
    ask = read(fields)
    fields.done()
    return ask


def release_to_bytes(release: Release[Any], ask: Any, most_records: int = MOST_RECORDS) -> bytes:  # noqa: ANN401
    """An answer to this question as bytes, from a holder of at most so many records.

    A value that cannot be such an answer is refused; a refusal is no bytes at all.
    """
    if release.value is None and not release.receipts:
        return b""
    if len(release.receipts) != 1:
        raise InvalidInput("an answer travels with the one receipt that paid for it")
    price = Price.of(ask)
    return receipt_to_bytes(release.receipts[0], price) + answer_form(ask, most_records).pack(release.value)


def read_release(
    payload: bytes,
    ask: Any,  # noqa: ANN401
    account: str,
    most_records: int = MOST_RECORDS,
) -> Release[Any]:
    """The answer of ``account`` in these bytes, if it is one to this question from a holder of at most so many records.

    A value that is out of range for the question is refused, so one holder moves a result by its bounded share at most.
    """
    if len(payload) > ANSWER_BYTES:
        raise InvalidInput(f"the answer must be at most {ANSWER_BYTES} bytes, got {len(payload)}")
    if not payload and isinstance(ask, LabelAsk):
        return refusal()
    receipt, left = read_receipt(payload, account, Price.of(ask))
    return restored(answer_form(ask, most_records).unpack(left), [receipt.to_json()])
