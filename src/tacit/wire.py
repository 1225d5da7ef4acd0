"""Questions and answers as bytes and back: what may be sent between machines.

Every question is a set of named fields that its own class writes and reads; the registry lists the classes. An answer
has only what the coordinator does not know: a few bytes of the receipt, and the packed value. Reading checks types,
shapes, ranges and sizes, refuses unknown values, and runs no code of the sender. For any bytes the result is a value of
one of these types or ``InvalidInput``.

The connection identifies the payer, and the question the purpose and the price. So of a receipt only this is sent: the
payment's sequence number in the holder's ledger, whether its noise is a simulation, and the first bytes of the ledger
entry's digest, which commit the holder to that entry. The whole entry stays in its ledger.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tacit.core import InvalidInput, Receipt, Release, Spend, refusal, restored
from tacit.core.codec import decode_strict, encode
from tacit.methods.question import MOST_RECORDS, QUESTION_BYTES, Notice, Question
from tacit.methods.registry import known_kinds, method_of

__all__ = [
    "ANSWER_BYTES",
    "Price",
    "ask_to_bytes",
    "read_ask",
    "read_receipt",
    "read_release",
    "receipt_to_bytes",
    "release_to_bytes",
]

# Another entry with the same first bytes takes about 2^64 attempts.
EVIDENCE = 8
LONGEST_PLACE = 9


@dataclass(frozen=True)
class Price:
    """The price of an answer, with the request id and purpose of its payment."""

    request: str
    purpose: str
    spend: Spend

    @classmethod
    def of(cls, ask: Question) -> Price:
        """The price of an answer to this question."""
        if ask.mechanism is None:
            raise InvalidInput("the question names no mechanism, so the cost of its answer is not known")
        return cls(ask.request, ask.purpose, ask.mechanism.spend)


def receipt_to_bytes(receipt: Receipt, price: Price) -> bytes:
    """The part of a receipt that the question's price does not determine.

    >>> from tacit.core.spend import Pure
    >>> paid = Receipt("clinic", "r-1", "labels", Pure(1), "system", 4, "ab" * 32)
    >>> receipt_to_bytes(paid, Price("r-1", "labels", Pure(1))).hex()
    '08abababababababab'
    """
    if (receipt.request, receipt.purpose, receipt.spend) != (price.request, price.purpose, price.spend):
        raise InvalidInput("the receipt is for a different question")
    return _number(2 * receipt.sequence + receipt.simulated) + bytes.fromhex(receipt.digest)[:EVIDENCE]


def read_receipt(payload: bytes, account: str, price: Price) -> tuple[Receipt, bytes]:
    """The receipt at the beginning of these bytes, for an answer of ``account`` at this price; and the rest.

    >>> from tacit.core.spend import Pure
    >>> receipt, left = read_receipt(bytes.fromhex("08abababababababab07"), "clinic", Price("r-1", "labels", Pure(1)))
    >>> receipt.sequence, receipt.digest, left
    (4, 'abababababababab', b'\\x07')
    """
    number, left = _read_number(payload)
    if len(left) < EVIDENCE:
        raise InvalidInput("the answer has no receipt: nothing was paid for it")
    receipt = Receipt(
        account=account,
        request=price.request,
        purpose=price.purpose,
        spend=price.spend,
        randomness="seeded" if number % 2 else "system",
        sequence=number // 2,
        digest=left[:EVIDENCE].hex(),
    )
    return receipt, left[EVIDENCE:]


def _number(number: int) -> bytes:
    """A variable-length number: seven bits per byte, the lowest first; the highest bit means that more follow."""
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])


def _read_number(payload: bytes) -> tuple[int, bytes]:
    number = 0
    for place, byte in enumerate(payload[:LONGEST_PLACE]):
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            # A number has one encoding: without zeros at the end.
            if place and not byte:
                break
            return number, payload[place + 1 :]
    raise InvalidInput("the answer has no receipt: nothing was paid for it")


ANSWER_BYTES = 256 * 2**20


def ask_to_bytes(ask: Notice) -> bytes:
    """A question, or a message without an answer, as bytes.

    >>> import numpy as np
    >>> from tacit.mechanisms.central.selection import PermuteAndFlip
    >>> from tacit.representations.scaled import Identity
    >>> from tacit.methods.rknn.wire import VoteAsk
    >>> queries = np.zeros((2, 3), dtype=np.float32)
    >>> ask = VoteAsk(queries, Identity(3), 1, ("a", "b"), "c0ffee", PermuteAndFlip(1, 2), "labels", "r-1")
    >>> again = read_ask(ask_to_bytes(ask))
    >>> again.mechanism, again.question == ask.question
    (PermuteAndFlip(rate=Fraction(1, 1), row_range=2), True)
    """
    method_of(ask)
    return encode({"ask": ask.name, **ask.fields()})


def read_ask(payload: bytes, most: int = QUESTION_BYTES, methods: Iterable[str] = ()) -> Any:  # noqa: ANN401
    """The question in these bytes, checked. Of methods from other packages only these ``methods`` are read.

    Bytes without a version are of version 1 of the format; a later version is refused by its number.
    """
    fields = decode_strict(payload, most, "question")
    fields.version()
    known = known_kinds(methods)
    ask = known[fields.one_of("ask", known)].read(fields)
    fields.done()
    return ask


def release_to_bytes(release: Release[Any], ask: Question, most_records: int = MOST_RECORDS) -> bytes:
    """An answer to this question as bytes, from a holder of at most ``most_records`` records.

    A value that cannot be such an answer is an error; a refusal is encoded as no bytes.
    """
    if release.value is None and not release.receipts:
        return b""
    if len(release.receipts) != 1:
        raise InvalidInput("an answer has exactly one receipt, which paid for it")
    return receipt_to_bytes(release.receipts[0], Price.of(ask)) + ask.answer_form(most_records).pack(release.value)


def read_release(payload: bytes, ask: Question, account: str, most_records: int = MOST_RECORDS) -> Release[Any]:
    """The answer of ``account`` to this question in these bytes, checked.

    A value that is out of range for the question is an error. ``federation.coordinator.implausible`` checks sums.
    """
    if len(payload) > ANSWER_BYTES:
        raise InvalidInput(f"the answer must be at most {ANSWER_BYTES} bytes, got {len(payload)}")
    if not payload and ask.may_refuse:
        return refusal()
    receipt, left = read_receipt(payload, account, Price.of(ask))
    return restored(ask.answer_form(most_records).unpack(left), [receipt.to_json()])
