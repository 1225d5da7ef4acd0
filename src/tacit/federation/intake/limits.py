"""Rate limits per address (token buckets) in a memory of fixed size.

The number of buckets is fixed, and a keyed hash assigns each address its bucket: however many addresses a client uses,
memory does not grow. Two addresses with the same bucket share its rate, which is rare while there are far fewer
addresses than buckets. The key is drawn at the start, so nobody can search for addresses that share a bucket.
"""

from __future__ import annotations

import hashlib
import os
from array import array

from tacit.core.errors import InvalidInput

__all__ = ["AddressLimits"]

_BUCKETS = 2**16


class AddressLimits:
    """At most ``burst`` posts from one address at once, and ``rate`` per second on average; a rate of 0 is no limit.

    >>> limits = AddressLimits(rate=1, burst=2)
    >>> [limits.allows("192.0.2.1", now) for now in (0.0, 0.1, 0.2, 1.1)]
    [True, True, False, True]
    """

    def __init__(self, rate: float, burst: int, buckets: int = _BUCKETS) -> None:
        if rate < 0 or burst < 1 or buckets < 1:
            raise InvalidInput("rate must be at least 0, burst and buckets at least 1")
        self._rate, self._burst, self._buckets = rate, float(burst), buckets
        self._key = os.urandom(16)
        self._level = array("d", [float(burst)]) * buckets
        self._seen = array("d", [0.0]) * buckets

    def allows(self, origin: str, now: float) -> bool:
        """Whether this address may post now; ``now`` is the time of a monotonic clock."""
        if not self._rate:
            return True
        name = hashlib.blake2b(origin.encode(), digest_size=8, key=self._key).digest()
        place = int.from_bytes(name, "big") % self._buckets
        level = min(self._burst, self._level[place] + (now - self._seen[place]) * self._rate)
        self._seen[place] = now
        self._level[place] = level - 1 if level >= 1 else level
        return level >= 1
