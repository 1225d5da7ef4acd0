"""How often one address may post, in a memory of fixed size.

Each address has a bucket of tokens that fills up at a steady rate. The number of buckets is fixed, and a keyed hash
says which one an address has: whoever comes from very many addresses fills no memory, and empties nobody else's bucket.
Two addresses that share one have its rate together, which is rare while there are far fewer of them than buckets. The
key is drawn at the start, so nobody can look for addresses that share one.
"""

from __future__ import annotations

import hashlib
import os
from array import array

from tacit.core.errors import InvalidInput

__all__ = ["AddressLimits"]

_BUCKETS = 2**16


class AddressLimits:
    """At most ``burst`` posts of one address at once, and ``rate`` per second in the long run; a rate of 0 is no limit.

    >>> limits = AddressLimits(rate=1, burst=2)
    >>> [limits.allows("192.0.2.1", now) for now in (0.0, 0.1, 0.2, 1.1)]
    [True, True, False, True]
    """

    def __init__(self, rate: float, burst: int, buckets: int = _BUCKETS) -> None:
        if rate < 0 or burst < 1 or buckets < 1:
            raise InvalidInput("a limit has a rate of at least 0, a burst of at least 1 and at least 1 bucket")
        self._rate, self._burst, self._buckets = rate, float(burst), buckets
        self._key = os.urandom(16)
        self._level = array("d", [float(burst)]) * buckets
        self._seen = array("d", [0.0]) * buckets

    def allows(self, origin: str, now: float) -> bool:
        """Take a token of this address, if it has one; ``now`` is a clock that is never set back."""
        if not self._rate:
            return True
        name = hashlib.blake2b(origin.encode(), digest_size=8, key=self._key).digest()
        place = int.from_bytes(name, "big") % self._buckets
        level = min(self._burst, self._level[place] + (now - self._seen[place]) * self._rate)
        self._seen[place] = now
        self._level[place] = level - 1 if level >= 1 else level
        return level >= 1
