"""What counts as an answer to a question: type, shape and range of every method's and mechanism's answers.

An answer that is refused here never reaches a coordinator. The ranges follow from the question and from how many
records a holder may answer for: noise goes beyond its limit with a probability below e^-64 a cell, and whatever lies
farther out was not made by the mechanism that was asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.exponential_mechanism import ExponentialMechanism
from tacit.mechanisms.central.pate import ConfidenceScreen, GaussianVotes, LaplaceVotes, SampledVotes
from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
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

__all__ = ["MOST_RECORDS", "require_answer"]

MOST_RECORDS = 10**7
# In scales of the noise: e^-64, and for Gaussian noise e^-72.
LAPLACE_REACH, GAUSSIAN_REACH = 64, 12


def require_answer(ask: Any, value: Any, most_records: int = MOST_RECORDS) -> None:  # noqa: ANN401
    """Refuse a value that is no answer to this question from a holder of at most so many records.

    >>> from tacit.representations.scaled import Identity
    >>> queries = np.zeros((2, 3), dtype=np.float32)
    >>> ask = VoteAsk(queries, Identity(3), 1, ("a", "b"), "c0ffee", PermuteAndFlip(1, 2), "labels", "r-1")
    >>> require_answer(ask, np.array([0, 1]))
    >>> require_answer(ask, np.array([0, 7]))
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the answer must be whole numbers from 0 to 1
    """
    match ask:
        case VoteAsk():
            columns = ask.classes + (1 if ask.labels is not None else 0)
            _votes(ask.mechanism, value, len(ask.queries), columns, most_records)
        case LabelAsk():
            if value is not None:
                _whole(value, (ask.sheet.answers,), 0, ask.sheet.classes - 1)
        case PredictAsk():
            _predictions(ask, value)
        case PartyVoteAsk():
            _votes(ask.mechanism, value, len(ask.queries), ask.classes, most_records)
        case TeacherAsk():
            _votes(ask.mechanism, value, len(ask.samples), ask.classes, most_records)
        case _:
            raise InvalidInput(f"{type(ask).__name__} is not a question that has an answer")


def _predictions(ask: PredictAsk, value: Any) -> None:  # noqa: ANN401
    rows, form = len(ask.rows), ask.form
    if isinstance(ask.mechanism, Responses):
        _messages(ask.mechanism.local, value, rows)
        if len(value) != rows:
            raise InvalidInput(f"the answer must have {rows} messages")
        return
    limit = {"argmax": 1, "softmax": form.grid}.get(form.kind, form.bound * form.grid)
    if ask.mechanism is not None:
        _votes(ask.mechanism, value, rows, form.classes, limit)
    elif form.kind == "argmax":
        _whole(value, (rows,), 0, form.classes - 1)
    else:
        _whole(value, (rows, form.classes), -limit if form.kind == "logits" else 0, limit)


def _votes(mechanism: Any, value: Any, rows: int, columns: int, limit: int) -> None:  # noqa: ANN401
    """What a mechanism makes of a table of counts, none of them beyond ``limit``, or of a crowd of so many."""
    match mechanism:
        case PermuteAndFlip() | ExponentialMechanism():
            _whole(value, (rows,), 0, columns - 1)
        case DiscreteLaplaceNoise():
            _counts(value, (rows, columns), limit + LAPLACE_REACH * float(mechanism.scale))
        case LaplaceVotes():
            _counts(value, (rows, columns), limit + LAPLACE_REACH / float(mechanism.gamma))
        case DiscreteGaussianNoise() | GaussianVotes() | SampledVotes():
            _counts(value, (rows, columns), limit + GAUSSIAN_REACH * float(mechanism.sigma))
        case ConfidenceScreen():
            if not isinstance(value, np.ndarray) or value.dtype != np.bool_ or value.shape != (rows,):
                raise InvalidInput(f"the answer must be {rows} times true or false")
        case Shuffled(inner=SingleMessage(mechanism=local)):
            _messages(local, value, limit)
        case Shuffled(inner=FloodedMessages() as inner):
            _whole(value, (None, 2), -1, inner.cells - 1)
            if not ((value[:, 0] >= 0).all() and (abs(value[:, 1]) == 1).all()):
                raise InvalidInput("the answer must be rows of a cell and a sign")
        case _:
            _messages(mechanism, value, limit)


def _messages(mechanism: Any, value: Any, most: int) -> None:  # noqa: ANN401
    """Messages of a crowd of at most so many clients."""
    if not isinstance(value, np.ndarray) or not value.ndim or len(value) > most:
        raise InvalidInput(f"the answer must be an array of at most {most} messages")
    match mechanism:
        case GeneralizedResponse():
            _whole(value, (None,), 0, mechanism.cells - 1)
        case LinearHashing():
            _whole(value, (None,), 0, mechanism.size ** (mechanism.digits + 1) - 1)
        case LocalLaplace():
            _counts(value, (None, mechanism.cells), 1 + LAPLACE_REACH * float(mechanism.noise.scale))
        case BitResponse() | SubsetSelection():
            _packed(value, mechanism.cells)
            if isinstance(mechanism, SubsetSelection):
                sizes = np.bitwise_count(value).sum(axis=1, dtype=np.int64)
                if (sizes != mechanism.size).any():
                    raise InvalidInput(f"the answer must be subsets of {mechanism.size} cells each")
        case Collision():
            _hashed(value, 3)
            mechanism.opened(value)
        case Concatenation():
            _hashed(value, 3)
            mechanism.both.opened(value)
        case Separation():
            _hashed(value, 6)
            mechanism.buckets.opened(value[:, :3])
            mechanism.labels.opened(value[:, 3:])
        case _:
            raise InvalidInput(f"{type(mechanism).__name__} gives no answer that can travel")


def _packed(value: NDArray[Any], cells: int) -> None:
    if value.dtype != np.uint8 or value.shape[1:] != (-(-cells // 8),):
        raise InvalidInput(f"the answer must be rows of {cells} packed bits")
    if cells % 8 and (value[:, -1] >> (cells % 8)).any():
        raise InvalidInput(f"the answer must be rows of {cells} packed bits and nothing behind them")


def _hashed(value: NDArray[Any], width: int) -> None:
    if value.dtype != np.uint64 or value.shape[1:] != (width,):
        raise InvalidInput(f"the answer must be rows of {width} words")


def _counts(value: Any, shape: tuple[int | None, ...], limit: float) -> None:  # noqa: ANN401
    _whole(value, shape, -int(limit) - 1, int(limit) + 1)


def _whole(value: Any, shape: tuple[int | None, ...], low: int, high: int) -> None:  # noqa: ANN401
    if not isinstance(value, np.ndarray) or value.dtype != np.int64 or value.ndim != len(shape):
        raise InvalidInput(f"the answer must be an array of 64-bit whole numbers with {len(shape)} axes")
    if any(side is not None and side != length for side, length in zip(shape, value.shape, strict=True)):
        raise InvalidInput("the answer has another shape than what was asked for")
    if value.size and not (value.min() >= low and value.max() <= high):
        raise InvalidInput(f"the answer must be whole numbers from {low} to {high}")
