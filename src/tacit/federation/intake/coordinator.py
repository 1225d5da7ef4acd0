"""The coordinator's side of the intake: it plans the open question, and decodes collected messages page by page.

Hit counts are summed over pages as integers, and the estimate is computed once from the sums: it is bit for bit the
estimate of all messages in memory.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Estimates, Integers, InvalidInput, Number, TooFewParticipants, Trust
from tacit.federation.collector.batches import FULL
from tacit.federation.intake.mixing import collected_rows
from tacit.federation.intake.question import OPEN, OpenQuestion
from tacit.federation.keys import public_key, unseal
from tacit.methods.rknn.coordinator import VoteCoordinator
from tacit.methods.rknn.reading import MessageReader
from tacit.neighbors import nearest_queries

__all__ = ["DecodedAnswers", "decode_collected", "decode_rows", "label_samples", "plan_open_question"]

# The mechanism of the shuffle model with one message per device.
_ONE_MESSAGE = "one message"
# The default limit of messages, as a multiple of the devices: strangers cannot fill the disk.
_ROOM = 2


def plan_open_question(
    public: NDArray[Any],
    classes: Sequence[str],
    devices: int,
    epsilon: Number,
    delta: Number = 0,
    *,
    closes: int,
    trust: str = "local",
    most: int | None = None,
    admission: str = OPEN,
    key: bytes = b"",
    shuffler: bytes = b"",
    request: str | None = None,
    **options: Any,  # noqa: ANN401
) -> OpenQuestion:
    """The question about these public samples to at least ``devices`` devices; ``options`` are ``ReverseKNN``'s.

    In the shuffle model nothing is released before that many have answered. At most ``most`` messages are accepted, by
    default twice the number of devices.

    >>> import numpy as np
    >>> public = np.random.default_rng(0).normal(size=(200, 8))
    >>> question = plan_open_question(public, ["a", "b"], 10_000, 2, closes=2_000_000_000, representation="pca")
    >>> type(question.mechanism).__name__, question.minimum, question.most
    ('SubsetSelection', 1, 20000)
    """
    # Planning loads scikit-learn, which decoding a million messages does without: a fraction of the memory.
    from tacit.methods.rknn.plan import plan

    if trust not in (Trust.LOCAL, Trust.SHUFFLE):
        raise InvalidInput(f"trust must be local or shuffle for devices, got {trust!r}")
    shuffled = trust == Trust.SHUFFLE
    if shuffled:
        options = {"mechanism": _ONE_MESSAGE, **options}
    chosen = plan(public, len(classes), devices, epsilon, delta, trust=trust, **options)
    if len(chosen.rounds) != 1:
        raise InvalidInput("devices are asked once; leave iterations at 1")
    coordinator = VoteCoordinator(
        public,
        chosen.fitted,
        [chosen.rounds[0].round],
        chosen.neighbors,
        classes,
        request or f"q-{secrets.token_hex(8)}",
    )
    ask = coordinator.ask(coordinator.begin())
    assert ask is not None
    return OpenQuestion.of(
        ask,
        closes,
        _ROOM * devices if most is None else most,
        devices if shuffled else 1,
        admission,
        key,
        shuffler,
    )


def label_samples(question: OpenQuestion, public: NDArray[Any], query_labels: Integers) -> Integers:
    """The label of each public sample: that of its nearest query."""
    near = nearest_queries(question.ask.representation.encode(public), question.ask.queries, 1)
    labels: Integers = query_labels[near[:, 0]]
    return labels


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
