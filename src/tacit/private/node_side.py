"""A method's side at a node: which mechanisms each of its questions may name in each step, and what answers it.

A step decides who sees what. A share of the noise protects nobody without secure aggregation, and a shuffle-model
message protects nobody without a shuffler, so each is allowed in its own step only and never as a plain answer. A
method declares its steps and the mechanisms of each; everything else is refused.
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
    """What a node needs to answer one question.

    Its classes, its records, a gate that pays from its account, its model or the model's name, and a ``store`` of the
    public samples and the consensus on them, if the node has one. ``encodings`` is the cache of a running node.
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

    The steps are ``answer``, a plain answer to the coordinator; ``masked``, a share of a securely aggregated sum;
    ``submit``, a message for a shuffler or a curator; and ``curate``, the curator's release of the sum of tables.
    ``learn`` takes a message that needs no answer, the id of its request, and the node's store.
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
