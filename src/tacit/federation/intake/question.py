"""The open question to devices as one small file: the same for every device, so any HTTP cache can serve it.

It is identified by the digest of its bytes. A device compares the fetched file with the digest, and with its owner's
policy. Workers and shuffler accept only messages for this digest. The file has the question in the format that every
node reads (``tacit.wire``), its closing time, the largest and the smallest number of messages, and in the shuffle model
the keys that messages are encrypted for.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from tacit.core import InvalidInput
from tacit.core.codec import bytes_to_array, decode_strict, encode
from tacit.federation.keys import KEY_BYTES, OVERHEAD
from tacit.mechanisms.local.participants import HitEstimates
from tacit.mechanisms.shuffle.single_message import SingleMessage
from tacit.methods.question import encoder_of
from tacit.methods.rknn.voting_rules import NEAREST
from tacit.methods.rknn.wire import VoteAsk
from tacit.wire import ask_to_bytes, read_ask

__all__ = ["ADMISSIONS", "LARGEST_QUESTION", "OPEN", "TOKENS", "OpenQuestion"]

VERSION = 1
LARGEST_QUESTION = 16 * 2**20
MOST_MESSAGES = 10**9
# Who may answer: anyone who reaches a worker, or only devices with an issued token.
OPEN, TOKENS = "open", "tokens"
ADMISSIONS = (OPEN, TOKENS)
# The largest accepted time, in seconds since 1970.
LAST_SECOND = 2**40


@dataclass(frozen=True)
class OpenQuestion:
    """A question to holders of one record each, who answer with one message of a local randomizer.

    ``closes`` is the closing time in seconds since 1970, ``most`` the largest number of messages in total, and
    ``minimum`` how many are needed before anything is released. In the shuffle model messages are encrypted for
    ``key``, the coordinator's, and the result for ``shuffler``; in the local model both are empty.

    >>> from tacit.representations.scaled import Identity
    >>> from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
    >>> import numpy as np
    >>> mechanism = GeneralizedRandomizedResponse(cells=4, ones=1, epsilon=1)
    >>> queries = np.zeros((2, 3), dtype=np.float32)
    >>> ask = VoteAsk(queries, Identity(3), 1, ("a", "b"), "c0ffee", mechanism, "labels", "r-1")
    >>> question = OpenQuestion.of(ask, closes=2_000_000_000, most=1000)
    >>> OpenQuestion.read(question.to_bytes()) == question, question.sealed, question.payload_bytes
    (True, False, 1)
    """

    content: bytes = field(repr=False)
    closes: int
    most: int
    minimum: int = 1
    admission: str = OPEN
    key: bytes = b""
    shuffler: bytes = b""

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.most <= MOST_MESSAGES:
            raise InvalidInput(f"minimum and most must be 1 ≤ minimum ≤ most ≤ {MOST_MESSAGES}")
        if self.admission not in ADMISSIONS:
            raise InvalidInput(f"admission must be one of {', '.join(ADMISSIONS)}, got {self.admission[:80]!r}")
        if not 0 < self.closes < LAST_SECOND:
            raise InvalidInput("closes must be a second since 1970")
        if self.ask.labels is not None or self.ask.voting_rule != NEAREST:
            raise InvalidInput(
                "devices vote with one label for their nearest queries; the question asks something else"
            )
        if encoder_of(self.ask) is not None:
            raise InvalidInput("a device's record is numbers, and the question has an encoder of raw rows")
        if self.inner is None:
            if self.key or self.shuffler:
                raise InvalidInput("messages of the local model are not encrypted, and the question names a key")
            return
        if len(self.key) != KEY_BYTES or len(self.shuffler) != KEY_BYTES or self.key == self.shuffler:
            raise InvalidInput("shuffled messages need two different keys: the coordinator's and the shuffler's")
        if self.minimum < max(2, self.inner.quorum):
            raise InvalidInput(
                f"minimum must be at least {max(2, self.inner.quorum)}, as the guarantee was planned for"
            )

    @classmethod
    def of(
        cls,
        ask: VoteAsk,
        closes: int,
        most: int,
        minimum: int = 1,
        admission: str = OPEN,
        key: bytes = b"",
        shuffler: bytes = b"",
    ) -> OpenQuestion:
        """The open question that asks ``ask``."""
        return cls(ask_to_bytes(ask), closes, most, minimum, admission, key, shuffler)

    def to_bytes(self) -> bytes:
        """The file's content."""
        return encode(
            {
                "version": VERSION,
                "closes": self.closes,
                "most": self.most,
                "minimum": self.minimum,
                "admission": self.admission,
                "key": bytes_to_array(self.key),
                "shuffler": bytes_to_array(self.shuffler),
                "ask": bytes_to_array(self.content),
            }
        )

    @classmethod
    def read(cls, payload: bytes, most: int = LARGEST_QUESTION) -> OpenQuestion:
        """The question in these bytes, which are not trusted and are checked."""
        fields = decode_strict(payload, most, "question file")
        fields.integer("version", VERSION, VERSION)
        question = cls(
            closes=fields.integer("closes", 1, LAST_SECOND),
            most=fields.integer("most", 1, MOST_MESSAGES),
            minimum=fields.integer("minimum", 1, MOST_MESSAGES),
            admission=fields.one_of("admission", ADMISSIONS),
            key=fields.content("key", KEY_BYTES),
            shuffler=fields.content("shuffler", KEY_BYTES),
            content=fields.content("ask", most),
        )
        fields.done()
        return question

    @cached_property
    def digest(self) -> str:
        """The SHA-256 digest of the file, which identifies the question."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @cached_property
    def ask(self) -> VoteAsk:
        """The reverse k-NN question."""
        found = read_ask(self.content, LARGEST_QUESTION)
        if found.name != VoteAsk.name:
            raise InvalidInput("devices answer reverse k-NN questions only")
        return cast(VoteAsk, found)

    @cached_property
    def inner(self) -> SingleMessage | None:
        """The plan of the shuffle model; None in the local model."""
        mechanism: Any = self.ask.mechanism
        if mechanism.statistic != "shuffle":
            return None
        plan: SingleMessage | None = getattr(mechanism, "inner", None)
        if not hasattr(plan, "mechanism"):
            raise InvalidInput("a device sends one message; the question asks for several from each")
        return plan

    @property
    def mechanism(self) -> HitEstimates:
        """The local randomizer of a device."""
        found: Any = self.ask.mechanism if self.inner is None else self.inner.mechanism
        if not hasattr(found, "hit_counts"):
            raise InvalidInput(
                f"devices do not answer through {type(found).__name__}; choose a mechanism with hit counts"
            )
        answering: HitEstimates = found
        return answering

    @property
    def sealed(self) -> bool:
        """Whether messages are encrypted for a shuffler."""
        return self.inner is not None

    @property
    def box_bytes(self) -> int:
        """Bytes that reach the coordinator per message: a box, or in the local model the packed message."""
        return self.mechanism.code.size + (OVERHEAD + 1 if self.sealed else 0)

    @property
    def payload_bytes(self) -> int:
        """Bytes of a device's message after its header."""
        return self.box_bytes + (OVERHEAD if self.sealed else 0)
