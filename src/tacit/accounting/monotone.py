"""Bisection: the one way Tacit inverts a privacy curve.

Every curve here is monotone in the parameter that is sought, so halving an interval is certain where a root
finder's convergence would be an assumption. The side on which the condition was *seen* to hold is returned, so a
calibrated parameter never misses its target by the last step.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["bisect"]

# Enough to bring any interval of floats down to two neighbours in practice; the loop stops there by itself.
HALVINGS = 200


def bisect(holds: Callable[[float], bool], inside: float, outside: float, tolerance: float = 0.0) -> float:
    """The point nearest to ``outside`` at which a condition was seen to hold, to within ``tolerance``.

    The condition holds from ``inside`` up to some point on the way to ``outside`` (on either side of it) and not
    beyond. When it holds at ``outside`` too, that is the answer; when not even at ``inside``, the caller erred.

    >>> round(bisect(lambda x: x * x <= 2, 0.0, 2.0), 9)
    1.414213562
    >>> bisect(lambda x: x * x >= 2, 2.0, 0.0) ** 2 >= 2
    True
    """
    if holds(outside):
        return outside
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        if abs(outside - inside) <= tolerance or middle in (inside, outside):
            break
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return inside
