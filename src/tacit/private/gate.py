"""The gate: every release of the private side goes through it.

The gate compares the sensitivity of a statistic with the one the mechanism is calibrated for, pays the ledger, and
only then has the statistic computed and the mechanism sampled: pay, then touch. After the payment nothing is refused.
A statistic that cannot be computed is replaced by that of no records, so whether a question is answered, and what it
costs, depends on the question and the ledger alone. A crash after the payment wastes budget and leaks nothing. A
retried request gets the stored release; sampling again would be a second release for one payment.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from tacit.core import ANYTHING, FREE, Ledger, Limits, Mechanism, Release, Sensitivity, ToleranceExceeded
from tacit.core.codec import decode, encode
from tacit.core.randomness import Randomness, SystemRandomness
from tacit.private.records import Private, redact_errors, reveal

__all__ = ["Gate"]

_In = TypeVar("_In")
# Stored for a payment that bought no release; no encoded value is empty.
_NO_RELEASE = b""
_log = logging.getLogger("tacit.gate")


class Gate:
    """Releases private values, paid for from one account and randomized.

    ``unit`` and ``adjacency`` are those of the account: a holder states the sensitivity of its statistic for them, and
    a mechanism calibrated for less is refused, whoever asks. ``limits`` are the policy's limits beside the account's
    ceiling. ``named`` are the mechanisms of other packages that the policy names; no others are used beside the
    package's own.

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
        """Check the calibration, pay, compute, sample and store; then return the stored release.

        ``empty`` makes the statistic of no records, which replaces a ``value`` that cannot be computed;
        ``sensitivity`` must also bound the change to it. ``request`` identifies this release for retries, and
        ``question`` what was asked, so that one request id cannot be used for two questions.
        """
        self._require_calibrated(sensitivity, mechanism)
        asked = hashlib.sha256(repr((mechanism, sensitivity, question)).encode()).hexdigest()
        receipt = self._ledger.charge(
            self._account, mechanism.spend, purpose, self.randomness.origin, request, asked, self._limits
        )
        stored = self._ledger.stored_release(receipt)
        if stored is None:
            stored = self._ledger.store_release(receipt, self._drawn(value, empty, mechanism))
        if stored == _NO_RELEASE:
            raise ToleranceExceeded(
                f"{type(mechanism).__name__} cannot work on this statistic: it is for another shape or range. The "
                "payment stands, and nothing was released."
            )
        return Release(decode(stored), (receipt,))

    def _require_calibrated(self, sensitivity: Sensitivity, mechanism: Mechanism[_In, Any]) -> None:
        """Refuse noise that is calibrated for another statistic; this depends on the question alone."""
        name = type(mechanism).__name__
        if too_far := sensitivity.excess(mechanism.max_sensitivity):
            raise ToleranceExceeded(
                f"{name} is not calibrated for this statistic: {'; '.join(too_far)}. "
                "Nothing was charged. Make the mechanism for the statistic's sensitivity."
            )
        if mechanism.max_sensitivity == ANYTHING and sensitivity != ANYTHING:
            raise ToleranceExceeded(
                f"{name} randomizes the value of one participant, and this statistic is of many records: its spend "
                "would cover only one of them. Nothing was charged. Choose a mechanism that states a sensitivity."
            )
        if mechanism.spend == FREE:
            raise ToleranceExceeded(f"{name} claims a spend of 0, but every private release has a cost")

    def _drawn(self, value: Private[_In], empty: Callable[[], _In], mechanism: Mechanism[_In, Any]) -> bytes:
        """One encoded sample; of the empty statistic if that of the records cannot be computed."""

        @redact_errors
        def draw(statistic: Callable[[], _In]) -> bytes:
            return encode(mechanism.sample(statistic(), self.randomness))

        drawn = draw(lambda: reveal(value))
        if drawn is None:
            _log.error("records could not be counted; the empty statistic was used")
            # This depends on the question and the noise alone, and so does its failure.
            drawn = draw(empty)
        # A failure is stored like a release: otherwise a request could be retried until the noise is small.
        return _NO_RELEASE if drawn is None else drawn
