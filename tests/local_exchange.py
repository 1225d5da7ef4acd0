"""The local loop: coordinator and holders in one process, as one function call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tacit.core.protocols import Holder
from tacit.core.release import Release

__all__ = ["local_exchange"]

Ask = TypeVar("Ask")
Answer = TypeVar("Answer")


def local_exchange(holders: Sequence[Holder[Ask, Answer]]) -> Callable[[Ask], list[Release[Answer]]]:
    """An exchange that puts each question to every holder in turn.

    >>> from types import SimpleNamespace
    >>> echo = SimpleNamespace(answer=lambda ask: f"heard {ask}")
    >>> local_exchange([echo])("hello")
    ['heard hello']
    """
    return lambda ask: [holder.answer(ask) for holder in holders]
