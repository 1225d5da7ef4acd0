"""What crosses the boundary in FedMD: questions about public samples one way, answers and their consensus the other."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.protocols import Floats, Integers, Mechanism, Representation
from tacit.methods.fedmd.form import Form

__all__ = ["Feedback", "PredictAsk", "VoteAsk", "digest_of"]


def digest_of(array: NDArray[Any]) -> str:
    """A name for an array: both sides compare it, so that row 7 means the same sample to them.

    >>> digest_of(np.zeros(2)) == digest_of(np.zeros(2)), digest_of(np.zeros(2)) == digest_of(np.zeros((2, 1)))
    (True, False)
    """
    head = repr((array.dtype.str, array.shape)).encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()


@dataclass(frozen=True)
class Feedback:
    """What the parties agree on: a row of probabilities, or of logits, for some public samples."""

    round: int
    rows: Integers  # (q,), into the public samples
    targets: Floats  # (q, classes)
    logits: bool = False

    @property
    def digest(self) -> str:
        """A name for the whole feedback."""
        return digest_of(self.targets) + digest_of(self.rows) + str((self.round, self.logits))


@dataclass(frozen=True)
class PredictAsk:
    """Learn from ``feedback``, if there is any, and then predict these public samples.

    ``mechanism`` is what an answer must go through; there is none where the party answers from records that it
    has released already. ``public`` is a digest of the public samples.
    """

    round: int
    rows: Integers  # (q,), into the public samples
    form: Form
    mechanism: Mechanism[Any, Any] | None
    public: str
    feedback: Feedback | None
    purpose: str
    request: str

    @property
    def question(self) -> str:
        """A digest of what is asked, so that a retried request cannot stand for another question."""
        before = None if self.feedback is None else self.feedback.digest
        return hashlib.sha256(
            repr((self.round, self.form, self.public, digest_of(self.rows), before)).encode()
        ).hexdigest()


@dataclass(frozen=True)
class VoteAsk:
    """Which of these queries is each of your records nearest to, and with which label?

    The answer is what ``mechanism`` makes of the table of votes (queries, classes).
    """

    queries: Floats  # (s, features), in the representation's space
    representation: Representation
    classes: int
    mechanism: Mechanism[Any, Any]
    public: str
    purpose: str
    request: str

    @property
    def question(self) -> str:
        """A digest of what is asked."""
        return hashlib.sha256(repr((self.classes, self.public, digest_of(self.queries))).encode()).hexdigest()
