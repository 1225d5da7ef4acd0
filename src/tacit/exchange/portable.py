"""Questions and answers as bytes and back: what may cross between machines, and nothing else.

Every question of every method is a set of named fields; so is every answer, a value with the receipts that paid for
it. Reading checks types, shapes, ranges and sizes, refuses what it does not know, and runs no code of the sender's.
Whatever is sent, what comes out is a value of one of these types or ``InvalidInput``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tacit.core.codec import encode
from tacit.core.errors import InvalidInput
from tacit.core.release import Receipt, Release, restored
from tacit.core.spend import spend_from_json
from tacit.exchange.fields import Fields, opened
from tacit.exchange.portable_answers import MOST_RECORDS, require_answer
from tacit.exchange.portable_asks import ASK_BYTES, ASKS

__all__ = ["ANSWER_BYTES", "ask_to_bytes", "open_release", "read_ask", "read_release", "release_to_bytes"]

ANSWER_BYTES = 256 * 2**20
MOST_RECEIPTS = 5000
MOST_PARTS = 10_000
DEEPEST = 8
SPEND_FRACTIONS = ("epsilon", "delta", "noise_multiplier", "sigma", "rate")
SPEND_INTEGERS = ("count", "classes", "squared_shift")


def ask_to_bytes(ask: Any) -> bytes:  # noqa: ANN401
    """A question as bytes.

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


def release_to_bytes(release: Release[Any]) -> bytes:
    """An answer as bytes: its value, and the receipts that paid for it.

    >>> from tacit.core.release import refusal
    >>> len(release_to_bytes(refusal()))
    52
    """
    return encode({"value": release.value, "receipts": [receipt.to_json() for receipt in release.receipts]})


def read_release(
    payload: bytes,
    ask: Any,  # noqa: ANN401
    most_records: int = MOST_RECORDS,
    most: int = ANSWER_BYTES,
) -> Release[Any]:
    """The answer in these bytes, if it is one to this question from a holder of at most so many records.

    A value that is out of range for the question is refused, so one holder moves a result by its bounded share at most.
    """
    return open_release(payload, most, lambda value: require_answer(ask, value, most_records))


def open_release(payload: bytes, most: int, check: Callable[[Any], None]) -> Release[Any]:
    """The answer in these bytes, if ``check`` lets its value pass: for answers that are read under a cover."""
    fields = opened(payload, most, "answer")
    value = fields.take("value")
    receipts = [_receipt(each) for each in fields.several("receipts", MOST_RECEIPTS)]
    fields.done()
    if not receipts and value is not None:
        raise InvalidInput("the answer has no receipt: nothing was paid for it")
    check(value)
    return restored(value.copy() if isinstance(value, np.ndarray) else value, [each.to_json() for each in receipts])


def _receipt(fields: Fields) -> Receipt:
    receipt = Receipt(
        account=fields.text("account"),
        request=fields.text("request"),
        purpose=fields.text("purpose"),
        spend=spend_from_json(_spend(fields.nested("spend"), DEEPEST)),
        randomness=fields.one_of("randomness", ("system", "seeded")),
        sequence=fields.integer("sequence", 0),
        digest=fields.digest("digest"),
    )
    fields.done()
    return receipt


def _spend(fields: Fields, depth: int) -> dict[str, Any]:
    """The same spend, once every number in it was seen to be short."""
    if not depth:
        raise InvalidInput(f"the {fields.what} is nested too deeply")
    seen: dict[str, Any] = {"kind": fields.text("kind", 40)}
    for name in SPEND_FRACTIONS:
        if fields.peek(name) is not None:
            seen[name] = str(fields.fraction(name))
    for name in SPEND_INTEGERS:
        if fields.peek(name) is not None:
            seen[name] = fields.integer(name, 1, 10**12)
    if fields.peek("unit_steps") is not None:
        seen["unit_steps"] = fields.flag("unit_steps")
    if fields.peek("spend") is not None:
        seen["spend"] = _spend(fields.nested("spend"), depth - 1)
    if fields.peek("spends") is not None:
        seen["spends"] = [_spend(each, depth - 1) for each in fields.several("spends", MOST_PARTS)]
    fields.done()
    return seen
