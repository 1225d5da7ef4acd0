"""A method's side at a node: which steps each of its questions is answered in, and how.

A step decides who sees what. Noise in shares protects nobody without masks, and a message that hides among others'
nobody without a shuffler, so each goes through its own step only, and none through the plain one. A method declares
its steps and the mechanisms of each with its holders; what is not declared is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tacit.core import Encodings, Release
from tacit.mechanisms.choices import VOTE_SHARES, AllowedMechanisms, Kinds
from tacit.private.gate import Gate
from tacit.private.records import Private, Records

__all__ = ["NodeContext", "NodeSide", "allowed_by_step"]


@dataclass(frozen=True)
class NodeContext:
    """All that a node answers one question from.

    Its classes, its records, a gate that pays from its account, the name of its model or the model, and a ``store``
    of the public samples and of what was agreed on about them, where the node has set one up. ``encodings`` are those
    that a node which stays up keeps in memory.
    """

    classes: tuple[str, ...]
    records: Private[Records]
    gate: Gate
    model: Any = "logistic"
    store: Any = None
    encodings: Encodings | None = None


@dataclass(frozen=True)
class NodeSide:
    """What a node needs of a method: the mechanisms that each question may name in each step, and what answers it.

    Steps are ``answer``, a plain answer to who asks; ``masked``, a share of a masked sum; ``submit``, a box for a
    shuffler or a curator; and ``curate``, which is the curator's own release of the sum of tables. ``learn`` takes
    what is told and not answered, the name of the request it is about, and the node's store.
    """

    answer: Callable[[Any, NodeContext], Release[Any]]
    allowed: Mapping[type, Mapping[str, AllowedMechanisms]]
    learn: Callable[[Any, str, Any], None] | None = None


def allowed_by_step(mechanisms: Kinds, curator: str, shares: Kinds = VOTE_SHARES) -> dict[str, AllowedMechanisms]:
    """The steps of a table of counts: each of these mechanisms at the node or at a curator, or shares under masks.

    >>> from tacit.mechanisms.central.selection import PermuteAndFlip
    >>> sorted(allowed_by_step((PermuteAndFlip,), "a curator of votes"))
    ['answer', 'curate', 'masked', 'submit']
    """
    return {
        "answer": AllowedMechanisms("a plain answer", mechanisms),
        "masked": AllowedMechanisms("a masked sum", shares),
        "submit": AllowedMechanisms("a batch", mechanisms),
        "curate": AllowedMechanisms(curator, mechanisms),
    }
