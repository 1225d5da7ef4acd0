"""The only door out of the private side.

The gate compares how far a statistic may move with what the mechanism tolerates, pays the ledger, and only then has
the statistic computed and sampled: pay, then touch. From there nothing is refused. A statistic that cannot be computed
is replaced by the empty one, an input like any other, so that whether a question is answered, and what was charged
for it, depends on the question and on the ledger alone. A crash after payment wastes budget and leaks nothing. A
retried request gets the release that its payment bought; drawing again would be a second release for one payment.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from tacit.core import (
    ANYTHING,
    FREE,
    Ledger,
    Limits,
    Mechanism,
    Randomness,
    Release,
    Sensitivity,
    SystemRandomness,
    ToleranceExceeded,
)
from tacit.core.codec import decode, encode
from tacit.private.records import Private, redact_errors, reveal

__all__ = ["Gate"]

_In = TypeVar("_In")
# What is kept of a payment that bought no release; no encoded value is empty.
_NOTHING = b""
_log = logging.getLogger("tacit.gate")


class Gate:
    """Releases private values of one account, paid for and randomized.

    ``unit`` and ``adjacency`` are the account's own: a holder states how far its statistic moves when one such
    unit changes, so a question that was calibrated for less is refused here, whoever asks. ``limits`` are what the
    holder's policy allows beside the account's ceiling, and ``named`` the mechanisms of other packages that it names:
    holders let no others through beside the package's own.

    >>> import numpy as np
    >>> from tacit.core.sensitivity import vote_sensitivity
    >>> from tacit.ledger import Ceiling, open_ledger
    >>> from tacit.mechanisms.central.selection import PermuteAndFlip
    >>> gate = Gate(open_ledger("memory:", {"clinic": Ceiling(1, 0)}), "clinic")
    >>> sensitivity = vote_sensitivity(queries=2, classes=3, neighbors=1)
    >>> votes = Private(np.array([[900, 0, 0], [0, 0, 900]]))
    >>> nobody = lambda: np.zeros((2, 3), dtype=np.int64)
    >>> release = gate.release(votes, nobody, sensitivity, PermuteAndFlip.for_epsilon(1, 2), "labels", request="r-1")
    >>> release.value, release.receipts[0].spend
    (array([0, 2]), Pure(epsilon=Fraction(1, 1)))
    """

    def __init__(
        self,
        ledger: Ledger,
        account: str,
        randomness: Randomness | None = None,
        limits: Limits | None = None,
        named: Collection[type] = (),
    ) -> None:
        self.unit, self.adjacency = ledger.privacy_unit(account)
        self.randomness = randomness or SystemRandomness()
        self._ledger = ledger
        self._account = account
        self._limits = limits
        self.named = frozenset(named)

    def release(
        self,
        value: Private[_In],
        empty: Callable[[], _In],
        sensitivity: Sensitivity,
        mechanism: Mechanism[_In, Any],
        purpose: str,
        request: str,
        question: str = "",
    ) -> Release[Any]:
        """Check, pay, compute and sample, keep, and only then let go.

        ``empty`` makes the statistic of no records, which stands in where ``value`` cannot be computed; ``sensitivity``
        must include the way to it. ``request`` names this release for retries; ``question`` says what was asked, so
        that the same name cannot be used for something else.
        """
        self._require_calibrated(sensitivity, mechanism)
        asked = hashlib.sha256(repr((mechanism, sensitivity, question)).encode()).hexdigest()
        receipt = self._ledger.charge(
            self._account, mechanism.spend, purpose, self.randomness.origin, request, asked, self._limits
        )
        kept = self._ledger.stored_release(receipt)
        if kept is None:
            kept = self._ledger.store_release(receipt, self._drawn(value, empty, mechanism))
        if kept == _NOTHING:
            raise ToleranceExceeded(
                f"{type(mechanism).__name__} cannot work on this statistic: it is for another shape or range. The "
                "payment stands, and nothing was released."
            )
        return Release(decode(kept), (receipt,))

    def _require_calibrated(self, sensitivity: Sensitivity, mechanism: Mechanism[_In, Any]) -> None:
        """Refuse noise that was made for another statistic, by looking at the question alone."""
        name = type(mechanism).__name__
        if too_far := sensitivity.excess(mechanism.max_sensitivity):
            raise ToleranceExceeded(
                f"{name} is not calibrated for this statistic: {'; '.join(too_far)}. "
                "Nothing was charged. Make the mechanism for the statistic's sensitivity."
            )
        if mechanism.max_sensitivity == ANYTHING and sensitivity != ANYTHING:
            raise ToleranceExceeded(
                f"{name} randomizes what one client holds, and this statistic is of many records: its spend would be "
                "that of one of them. Nothing was charged. Choose a mechanism that states a sensitivity."
            )
        if mechanism.spend == FREE:
            raise ToleranceExceeded(f"{name} claims a spend of 0, but every private release has a cost")

    def _drawn(self, value: Private[_In], empty: Callable[[], _In], mechanism: Mechanism[_In, Any]) -> bytes:
        """One draw, of the empty statistic where that of the records cannot be had."""

        @redact_errors
        def draw(statistic: Callable[[], _In]) -> bytes:
            return encode(mechanism.sample(statistic(), self.randomness))

        drawn = draw(lambda: reveal(value))
        if drawn is None:
            _log.error("records could not be counted; the empty statistic was used")
            # It follows from the question alone, and so does its failure, or that follows from the noise.
            drawn = draw(empty)
        # A failure is kept like a release: a request that drew again could be retried until the noise is scarce.
        return _NOTHING if drawn is None else drawn
