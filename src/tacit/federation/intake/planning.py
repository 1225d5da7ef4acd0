"""Plan an open question from public samples: its queries, and the mechanism by which devices answer."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Trust
from tacit.core.protocols import Integers
from tacit.core.rational import Number
from tacit.federation.intake.question import OPEN, OpenQuestion
from tacit.methods.rknn.coordinator import VoteCoordinator
from tacit.methods.rknn.plan import plan
from tacit.neighbors import nearest_queries

__all__ = ["label_samples", "plan_open_question"]

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
