"""From collected messages to estimated votes and labels, page by page, at the coordinator.

Hit counts are summed over pages as integers, and the estimate is computed once from the sums: it is bit for bit the
estimate of all messages in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput, TooFewParticipants
from tacit.core.protocols import Estimates, Integers
from tacit.federation.collector.batches import FULL
from tacit.federation.intake.mixing import collected_rows
from tacit.federation.intake.question import OpenQuestion
from tacit.federation.keys import public_key, unseal
from tacit.methods.rknn.reading import MessageReader

__all__ = ["DecodedAnswers", "decode_collected", "decode_rows"]

_Rows = NDArray[np.uint8]


@dataclass(frozen=True)
class DecodedAnswers:
    """Estimated votes of all devices, a label and class probabilities for every query, and how many were left out."""

    estimates: Estimates
    labels: Integers  # (queries,)
    probabilities: NDArray[np.float64]  # (queries, classes)
    messages: int
    unreadable: int
    invalid: int

    @property
    def in_words(self) -> str:
        """The counts as a sentence."""
        return f"{self.messages} messages; {self.unreadable} unreadable and {self.invalid} invalid ones left out"


def decode_collected(
    file: Path, question: OpenQuestion, secret: bytes | None = None, progress: Callable[[int], None] | None = None
) -> DecodedAnswers:
    """The answers in a collected file; ``secret`` is the coordinator's key, for a question in the shuffle model."""
    if question.sealed and (secret is None or public_key(secret) != question.key):
        raise InvalidInput("the messages are encrypted for another coordinator key than the given one")
    _, rows = collected_rows(file, question)
    return decode_rows(rows, question, secret, progress)


def decode_rows(
    pages: Iterable[_Rows],
    question: OpenQuestion,
    secret: bytes | None = None,
    progress: Callable[[int], None] | None = None,
) -> DecodedAnswers:
    """The answers in shuffled rows."""
    mechanism, ask = question.mechanism, question.ask
    hits: Integers = np.zeros(mechanism.cells, dtype=np.int64)
    messages = unreadable = invalid = 0
    for page in pages:
        packed = page
        if secret is not None and question.sealed:
            opened = [unseal(secret, row.tobytes(), question.digest) for row in page]
            full = [content[1:] for content in opened if content is not None and content[:1] == FULL]
            packed = np.frombuffer(b"".join(full), dtype=np.uint8).reshape(-1, mechanism.code.size)
        unreadable += len(page) - len(packed)
        found = mechanism.code.unpack(packed)
        valid = mechanism.code.valid(found)
        hits += mechanism.hit_counts(found[valid])
        messages += int(valid.sum())
        invalid += int((~valid).sum())
        if progress is not None:
            progress(messages + unreadable + invalid)
    if messages < question.minimum:
        # Fewer messages would hide each device less than its price assumed.
        raise TooFewParticipants(f"{messages} messages are valid, and at least {question.minimum} are needed")
    estimates = mechanism.rates.estimates(hits, messages)
    labels, probabilities = MessageReader(lambda _: estimates, ask.classes)(hits)
    assert probabilities is not None
    return DecodedAnswers(estimates, labels, probabilities, messages, unreadable, invalid)
