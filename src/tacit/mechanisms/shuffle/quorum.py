"""Shuffled messages hide each other only in numbers: below the planned number nothing may be shown."""

from __future__ import annotations

from tacit.core.errors import TooFewParticipants

__all__ = ["require_quorum"]


def require_quorum(participants: int, quorum: int) -> None:
    """Refuse to go on with too few clients.

    >>> require_quorum(74, 75)
    Traceback (most recent call last):
        ...
    tacit.core.errors.TooFewParticipants: 74 clients took part and at least 75 must: with fewer the shuffled \
messages would not hide a vote as promised. Nothing was revealed; ask again when more clients can answer
    """
    if participants < quorum:
        raise TooFewParticipants(
            f"{participants} clients took part and at least {quorum} must: with fewer the shuffled messages would not "
            "hide a vote as promised. Nothing was revealed; ask again when more clients can answer"
        )
