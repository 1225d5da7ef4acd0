"""A receipt as it travels: only what the coordinator cannot know by itself.

Who pays is known by the connection, and what for and how much by the question. Left are the payment's place in the
holder's ledger, whether its noise is a simulation's, and the first bytes of the ledger row's digest: enough that the
holder cannot show another row later. The whole row stays in its ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.core.errors import InvalidInput
from tacit.core.release import Receipt
from tacit.core.spend import Spend
from tacit.methods.privatekt.wire import LabelAsk

__all__ = ["Price", "read_receipt", "receipt_to_bytes"]

# Whoever wants another row with the same first bytes has to try 2^64 of them.
EVIDENCE = 8
LONGEST_PLACE = 9


@dataclass(frozen=True)
class Price:
    """What a question costs who answers it, and under which name it is paid."""

    request: str
    purpose: str
    spend: Spend

    @classmethod
    def of(cls, ask: Any) -> Price:  # noqa: ANN401
        """The price of an answer to this question."""
        mechanism = ask.sheet if isinstance(ask, LabelAsk) else ask.mechanism
        if mechanism is None:
            raise InvalidInput("the question names no mechanism, so nothing says what its answer costs")
        return cls(ask.request, ask.purpose, mechanism.spend)


def receipt_to_bytes(receipt: Receipt, price: Price) -> bytes:
    """What of a receipt for this price is not known without it.

    >>> from tacit.core.spend import Pure
    >>> paid = Receipt("clinic", "r-1", "labels", Pure(1), "system", 4, "ab" * 32)
    >>> receipt_to_bytes(paid, Price("r-1", "labels", Pure(1))).hex()
    '08abababababababab'
    """
    if (receipt.request, receipt.purpose, receipt.spend) != (price.request, price.purpose, price.spend):
        raise InvalidInput("the receipt is for something else than the question")
    return _number(2 * receipt.sequence + receipt.simulated) + bytes.fromhex(receipt.digest)[:EVIDENCE]


def read_receipt(payload: bytes, account: str, price: Price) -> tuple[Receipt, bytes]:
    """The receipt at the head of these bytes, for an answer that ``account`` gave at this price; and what is left.

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
    """Seven bits a byte, the lowest first; the highest bit says that more follow."""
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
            # A number has one form: it does not end with zeros.
            if place and not byte:
                break
            return number, payload[place + 1 :]
    raise InvalidInput("the answer has no receipt: nothing was paid for it")
