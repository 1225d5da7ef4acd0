"""The only door out of the private side.

The gate compares how far a statistic may move with what the mechanism tolerates, pays the ledger, and only then
samples. A crash after payment wastes budget and leaks nothing. A retried request gets the release that its
payment bought; drawing again would be a second release for one payment.
"""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

from tacit.core.codec import decode, encode
from tacit.core.errors import ToleranceExceeded, TooFewParticipants
from tacit.core.protocols import Ledger, Mechanism
from tacit.core.randomness import Randomness, SystemRandomness
from tacit.core.release import Release
from tacit.core.sensitivity import Sensitivity
from tacit.core.spend import FREE
from tacit.private.records import Private

__all__ = ["Gate"]

In = TypeVar("In")


class Gate:
    """Releases private values of one account, paid for and randomized.

    ``unit`` and ``adjacency`` are the account's own: a holder states how far its statistic moves when one such
    unit changes, so a question that was calibrated for less is refused here, whoever asks.

    >>> import numpy as np
    >>> from tacit.core.sensitivity import vote_sensitivity
    >>> from tacit.ledger.memory import MemoryLedger, Ceiling
    >>> from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
    >>> gate = Gate(MemoryLedger({"clinic": Ceiling(1, 0)}), "clinic")
    >>> moves = vote_sensitivity(queries=2, classes=3, neighbors=1)
    >>> votes = Private(np.array([[900, 0, 0], [0, 0, 900]]))
    >>> release = gate.release(votes, moves, PermuteAndFlip.for_epsilon(1, 2), "labels", request="r-1")
    >>> release.value, release.receipts[0].spend
    (array([0, 2]), Pure(epsilon=Fraction(1, 1)))
    """

    def __init__(self, ledger: Ledger, account: str, randomness: Randomness | None = None) -> None:
        self.unit, self.adjacency = ledger.protects(account)
        self._ledger = ledger
        self._account = account
        self._randomness = randomness or SystemRandomness()

    def release(
        self,
        value: Private[In],
        moves: Sensitivity,
        mechanism: Mechanism[In, Any],
        purpose: str,
        request: str,
        question: str = "",
    ) -> Release[Any]:
        """Check, pay, sample, keep, and only then let go.

        ``request`` names this release for retries; ``question`` says what was asked, so that the same name
        cannot be used for something else.
        """
        if too_far := moves.beyond(mechanism.tolerates):
            raise ToleranceExceeded(
                f"{type(mechanism).__name__} is not calibrated for this statistic: {'; '.join(too_far)}. "
                "Nothing was charged. Make the mechanism for the statistic's sensitivity."
            )
        if mechanism.spend == FREE:
            raise ToleranceExceeded(f"{type(mechanism).__name__} claims to cost nothing; nothing private is free")
        asked = hashlib.sha256(repr((mechanism, moves, question)).encode()).hexdigest()
        receipt = self._ledger.charge(self._account, mechanism.spend, purpose, self._randomness.origin, request, asked)
        kept = self._ledger.kept(receipt)
        if kept is None:
            drawn: list[bytes] = []
            try:
                value.map(lambda statistic: drawn.append(encode(mechanism.sample(statistic, self._randomness))))
            except TooFewParticipants:
                raise
            except Exception:
                # What went wrong may name private values, and an error is a message to whoever asked.
                raise ToleranceExceeded(
                    f"{type(mechanism).__name__} cannot work on this statistic: it is made for another shape or range. "
                    "The payment stands and nothing was released."
                ) from None
            kept = self._ledger.keep(receipt, drawn[0])
        return Release(decode(kept), (receipt,))
