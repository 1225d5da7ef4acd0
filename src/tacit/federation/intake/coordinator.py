"""The coordinator's side of the intake: the open question from public samples, and labels from collected messages.

Messages are decoded a page at a time. Hits add up over pages as whole numbers, and the estimate is made once from their
sums: it is the same to the last bit as that of all messages in one place.
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
from tacit.methods.rknn.plan import plan
from tacit.methods.rknn.reading import MessageReader
from tacit.neighbors import nearest_queries

__all__ = ["DecodedAnswers", "decode_collected", "decode_rows", "plan_open_question", "samples_labeled"]

# The shuffled model's mechanism with one message from each device.
_ONE_MESSAGE = "one message"
# A cap in all, unless it is said: strangers fill no more than that.
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

    In the shuffled model nothing comes out before that many have answered. At most ``most`` messages are taken, twice
    as many as devices unless it is said.

    >>> import numpy as np
    >>> public = np.random.default_rng(0).normal(size=(200, 8))
    >>> question = plan_open_question(public, ["a", "b"], 10_000, 2, closes=2_000_000_000, representation="pca")
    >>> type(question.mechanism).__name__, question.minimum, question.most
    ('SubsetSelection', 1, 20000)
    """
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


def samples_labeled(question: OpenQuestion, public: NDArray[Any], query_labels: Integers) -> Integers:
    """The label of each public sample: that of the query that it is nearest to."""
    near = nearest_queries(question.ask.representation.encode(public), question.ask.queries, 1)
    labels: Integers = query_labels[near[:, 0]]
    return labels


_Rows = NDArray[np.uint8]


@dataclass(frozen=True)
class DecodedAnswers:
    """Estimated votes of all devices, a label for every query and how sure each is, and what was left out."""

    estimates: Estimates
    labels: Integers  # (queries,)
    probabilities: NDArray[np.float64]  # (queries, classes)
    messages: int
    unreadable: int
    invalid: int

    @property
    def in_words(self) -> str:
        """How many of what there were."""
        return f"{self.messages} messages; {self.unreadable} unreadable and {self.invalid} invalid ones left out"


def decode_collected(
    file: Path, question: OpenQuestion, secret: bytes | None = None, progress: Callable[[int], None] | None = None
) -> DecodedAnswers:
    """The answers in a collected file; ``secret`` is the coordinator's, for a question of the shuffled model."""
    if question.sealed and (secret is None or public_key(secret) != question.key):
        raise InvalidInput("the messages are sealed for a coordinator with another key than the one that was given")
    _, rows = collected_rows(file, question)
    return decode_rows(rows, question, secret, progress)


def decode_rows(
    pages: Iterable[_Rows],
    question: OpenQuestion,
    secret: bytes | None = None,
    progress: Callable[[int], None] | None = None,
) -> DecodedAnswers:
    """The answers in rows as they come out of the mixing."""
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
        # Who planned for more hides the others in fewer than it said.
        raise TooFewParticipants(f"{messages} messages can be read and at least {question.minimum} must be")
    estimates = mechanism.rates.estimates(hits, messages)
    labels, probabilities = MessageReader(lambda _: estimates, ask.classes)(hits)
    assert probabilities is not None
    return DecodedAnswers(estimates, labels, probabilities, messages, unreadable, invalid)
