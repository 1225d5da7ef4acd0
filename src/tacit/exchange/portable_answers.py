"""What counts as an answer to a question: type, shape and range of every method's and mechanism's answers.

Both sides make the form of an answer from the question: the holder to pack its answer, the coordinator to read it.
The ranges follow from the question and from how many records a holder may answer for: noise goes beyond its limit
with a probability below e^-64 a cell, and whatever lies farther out was not made by the mechanism that was asked for.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.exchange.portable_forms import Flags, Form, Messages, Numbers
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.exponential_mechanism import ExponentialMechanism
from tacit.mechanisms.central.pate import ConfidenceScreen, GaussianVotes, LaplaceVotes, SampledVotes
from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.compact import REACH, reach, size_of
from tacit.mechanisms.local.bit_response import BitResponse
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.concatenation import Concatenation
from tacit.mechanisms.local.generalized_response import GeneralizedResponse
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.local_laplace import LocalLaplace
from tacit.mechanisms.local.separation import Separation
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.shuffle.flooded_messages import FloodedMessages
from tacit.mechanisms.shuffle.shuffled import Shuffled
from tacit.mechanisms.shuffle.single_message import SingleMessage
from tacit.methods.fedmd.responses import Responses
from tacit.methods.fedmd.wire import PredictAsk
from tacit.methods.fedmd.wire import VoteAsk as PartyVoteAsk
from tacit.methods.pate.wire import TeacherAsk
from tacit.methods.privatekt.wire import LabelAsk
from tacit.methods.rknn.wire import VoteAsk

__all__ = ["MOST_RECORDS", "answer_form"]

MOST_RECORDS = 10**7
# In deviations of the noise: e^-72.
GAUSSIAN_REACH = 12


def answer_form(ask: Any, most_records: int = MOST_RECORDS) -> Form:  # noqa: ANN401
    """What an answer to this question looks like, from a holder of at most so many records.

    >>> from tacit.representations.scaled import Identity
    >>> queries = np.zeros((2, 3), dtype=np.float32)
    >>> ask = VoteAsk(queries, Identity(3), 1, ("a", "b"), "c0ffee", PermuteAndFlip(1, 2), "labels", "r-1")
    >>> answer_form(ask)
    Numbers(shape=(2,), low=0, high=1)
    >>> answer_form(ask).require(np.array([0, 7]))
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the answer must be whole numbers from 0 to 1
    """
    match ask:
        case VoteAsk():
            columns = ask.classes + (1 if ask.labels is not None else 0)
            return _votes(ask.mechanism, len(ask.queries), columns, most_records)
        case LabelAsk():
            return Numbers((ask.sheet.answers,), 0, ask.sheet.classes - 1)
        case PredictAsk():
            return _predictions(ask)
        case PartyVoteAsk():
            return _votes(ask.mechanism, len(ask.queries), ask.classes, most_records)
        case TeacherAsk():
            return _votes(ask.mechanism, len(ask.samples), ask.classes, most_records)
        case _:
            raise InvalidInput(f"{type(ask).__name__} is not a question that has an answer")


def _predictions(ask: PredictAsk) -> Form:
    rows, form = len(ask.rows), ask.form
    if isinstance(ask.mechanism, Responses):
        local = ask.mechanism.local
        # Of responses one is asked for each row, and they lie close; of a crowd's messages there may be any number.
        if isinstance(local, GeneralizedResponse):
            return Numbers((rows,), 0, local.cells - 1)
        return _messages(local, rows, exactly=True)
    limit = {"argmax": 1, "softmax": form.grid}.get(form.kind, form.bound * form.grid)
    if ask.mechanism is not None:
        return _votes(ask.mechanism, rows, form.classes, limit)
    if form.kind == "argmax":
        return Numbers((rows,), 0, form.classes - 1)
    return Numbers((rows, form.classes), -limit if form.kind == "logits" else 0, limit)


def _votes(mechanism: Any, rows: int, columns: int, limit: int) -> Form:  # noqa: ANN401
    """What a mechanism makes of a table of counts, none of them beyond ``limit``, or of a crowd of so many."""
    match mechanism:
        case PermuteAndFlip() | ExponentialMechanism():
            return Numbers((rows,), 0, columns - 1)
        case DiscreteLaplaceNoise():
            return _counts((rows, columns), limit + REACH * float(mechanism.scale))
        case LaplaceVotes():
            return _counts((rows, columns), limit + REACH / float(mechanism.gamma))
        case DiscreteGaussianNoise() | GaussianVotes() | SampledVotes():
            return _counts((rows, columns), limit + GAUSSIAN_REACH * float(mechanism.sigma))
        case ConfidenceScreen():
            return Flags(rows)
        case Shuffled(inner=SingleMessage(mechanism=local)):
            return _messages(local, limit)
        case Shuffled(inner=FloodedMessages() as inner):
            return Messages(inner, partial(_require_flood, inner.cells))
        case _:
            return _messages(mechanism, limit)


def _counts(shape: tuple[int, ...], limit: float) -> Numbers:
    return Numbers(shape, -int(limit) - 1, int(limit) + 1)


def _messages(mechanism: Any, most: int, exactly: bool = False) -> Messages:  # noqa: ANN401
    """Messages of a crowd of at most so many clients, or of exactly so many."""
    size_of(mechanism)
    return Messages(mechanism, partial(_require_messages, mechanism, most, exactly))


def _require_flood(cells: int, value: Any) -> None:  # noqa: ANN401
    _require_whole(value, (2,), -1, cells - 1)
    if not ((value[:, 0] >= 0).all() and (abs(value[:, 1]) == 1).all()):
        raise InvalidInput("the answer must be rows of a cell and a sign")


def _require_messages(mechanism: Any, most: int, exactly: bool, value: Any) -> None:  # noqa: ANN401
    if not isinstance(value, np.ndarray) or not value.ndim or len(value) > most:
        raise InvalidInput(f"the answer must be an array of at most {most} messages")
    if exactly and len(value) != most:
        raise InvalidInput(f"the answer must have {most} messages")
    match mechanism:
        case GeneralizedResponse():
            _require_whole(value, (), 0, mechanism.cells - 1)
        case LinearHashing():
            _require_whole(value, (), 0, mechanism.size ** (mechanism.digits + 1) - 1)
        case LocalLaplace():
            _require_whole(value, (mechanism.cells,), -reach(mechanism), reach(mechanism))
        case BitResponse() | SubsetSelection():
            _require_packed(value, mechanism.cells)
            if isinstance(mechanism, SubsetSelection):
                sizes = np.bitwise_count(value).sum(axis=1, dtype=np.int64)
                if (sizes != mechanism.size).any():
                    raise InvalidInput(f"the answer must be subsets of {mechanism.size} cells each")
        case Collision():
            _require_hashed(value, 3)
            mechanism.opened(value)
        case Concatenation():
            _require_hashed(value, 3)
            mechanism.both.opened(value)
        case Separation():
            _require_hashed(value, 6)
            mechanism.buckets.opened(value[:, :3])
            mechanism.labels.opened(value[:, 3:])


def _require_packed(value: NDArray[Any], cells: int) -> None:
    if value.dtype != np.uint8 or value.shape[1:] != (-(-cells // 8),):
        raise InvalidInput(f"the answer must be rows of {cells} packed bits")
    if cells % 8 and (value[:, -1] >> (cells % 8)).any():
        raise InvalidInput(f"the answer must be rows of {cells} packed bits and nothing behind them")


def _require_hashed(value: NDArray[Any], width: int) -> None:
    if value.dtype != np.uint64 or value.shape[1:] != (width,):
        raise InvalidInput(f"the answer must be rows of {width} words")


def _require_whole(value: Any, shape: tuple[int, ...], low: int, high: int) -> None:  # noqa: ANN401
    """Any number of rows of this shape."""
    rows = (len(value),) if isinstance(value, np.ndarray) and value.ndim else ()
    Numbers((*rows, *shape), low, high).require(value)
