"""All interfaces: mechanisms, ledgers, holders, coordinators, representations, students."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.account import Balance, Ceiling, Change, Limits
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.randomness import Randomness
from tacit.core.release import Receipt, Release
from tacit.core.sensitivity import Sensitivity
from tacit.core.spend import Spend

__all__ = [
    "Coordinator",
    "Encodings",
    "Estimates",
    "Exchange",
    "Floats",
    "Holder",
    "Integers",
    "Ledger",
    "LocalMechanism",
    "Mechanism",
    "MessageLaw",
    "Reals",
    "Representation",
    "Student",
    "Words",
]

Floats = NDArray[np.float32]
Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

_In = TypeVar("_In", contravariant=True)
_Out = TypeVar("_Out", covariant=True)
State = TypeVar("State")
Result = TypeVar("Result", covariant=True)
# A holder receives questions and returns answers; a coordinator does the reverse.
Ask = TypeVar("Ask")
Answer = TypeVar("Answer")
AskIn = TypeVar("AskIn", contravariant=True)
AnswerOut = TypeVar("AnswerOut", covariant=True)
AskOut = TypeVar("AskOut", covariant=True)
AnswerIn = TypeVar("AnswerIn", contravariant=True)


class Mechanism(Protocol[_In, _Out]):
    """Randomizes one statistic. It owns its noise parameter, which the sampler and the accountant both read."""

    @property
    def spend(self) -> Spend:
        """The privacy cost of one draw; never depends on private values."""
        ...

    @property
    def max_sensitivity(self) -> Sensitivity:
        """The largest sensitivity of a statistic for which ``spend`` holds."""
        ...

    def sample(self, value: _In, randomness: Randomness) -> _Out:
        """One draw."""
        ...


@dataclass(frozen=True)
class Estimates:
    """Estimated counts of all cells from randomized messages, with the variance of each estimate."""

    counts: NDArray[np.float64]
    variances: NDArray[np.float64]


@dataclass(frozen=True)
class MessageLaw:
    """Messages that a participant may send, one per row, and their probabilities; unlisted ones have the remainder."""

    messages: NDArray[Any]
    probabilities: tuple[Decimal, ...]


class LocalMechanism(Mechanism[NDArray[Any], NDArray[Any]], Protocol):
    """A local randomizer for sets of ``ones`` cells out of ``cells``: any two sets are indistinguishable up to e^ε.

    A participant is one input of it: a record, or a holder with one answer. Messages are an array with one row per
    participant, so the messages of several holders are concatenated.
    """

    @property
    def cells(self) -> int:
        """How many cells there are."""
        ...

    @property
    def ones(self) -> int:
        """How many different cells each participant has."""
        ...

    @property
    def epsilon(self) -> Fraction:
        """The ε of one message."""
        ...

    @property
    def biased(self) -> bool:
        """Whether the expected estimates differ from the true counts."""
        ...

    @property
    def message_bits(self) -> int:
        """Size of one message in bits, each of its fields packed."""
        ...

    @property
    def variance_zero(self) -> float:
        """Variance that one participant adds to the estimate of a cell it does not have."""
        ...

    @property
    def variance_one(self) -> float:
        """Variance that one participant adds to the estimate of a cell it has."""
        ...

    @property
    def mean_squared_error(self) -> float:
        """Expected squared error of one participant's estimates, averaged over all cells."""
        ...

    def encode(self, cells: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """One message for each row of cell indices, each with fresh randomness."""
        ...

    def decode(self, messages: NDArray[Any]) -> Estimates:
        """The count of every cell, estimated from all messages."""
        ...

    def law(self, cells: Sequence[int]) -> MessageLaw:
        """The distribution of the message for these cells, for domains small enough to enumerate."""
        ...


class Ledger(Protocol):
    """Accounts that pay for releases. Every call is durable before it returns, or raises.

    Any class with these methods can pay for any method, in one process or at a node.
    """

    @property
    def durable(self) -> bool:
        """Whether payments outlive the process; a simulation must not spend from a durable ledger."""
        ...

    def charge(
        self,
        account: str,
        spend: Spend,
        purpose: str,
        randomness: str,
        request: str,
        question: str,
        limits: Limits | None = None,
    ) -> Receipt:
        """Pay once for a request. Repeated with the same question, it returns the first receipt and pays nothing.

        ``limits`` are checked together with the ceiling, in one transaction with the payment.
        """
        ...

    def preflight(self, account: str, spends: Mapping[str, Spend]) -> None:
        """Raise in advance if charges for these requests would be refused; requests already paid count once."""
        ...

    def privacy_unit(self, account: str) -> tuple[Unit, Adjacency]:
        """The unit and adjacency that the account's budget protects."""
        ...

    def balance(self, account: str) -> Balance:
        """What the account has spent and what remains."""
        ...

    def accounts(self) -> Collection[str]:
        """Every account in the order they were opened."""
        ...

    def receipts(self, account: str) -> Sequence[Receipt]:
        """The receipts of an account's payments, in order."""
        ...

    def stored_release(self, receipt: Receipt) -> bytes | None:
        """The release of this payment, if one was stored."""
        ...

    def store_release(self, receipt: Receipt, payload: bytes) -> bytes:
        """Store the release of a payment if none is stored yet, and return the one that is stored."""
        ...

    def apply(self, policy: Mapping[str, Ceiling]) -> Sequence[Change]:
        """Open accounts and change ceilings as the operator's policy says, in one transaction."""
        ...

    def verify(self) -> Sequence[str]:
        """Errors in the stored entries, in their order; empty when the ledger is intact."""
        ...

    def close(self) -> None:
        """Close connections and files."""
        ...


class Holder(Protocol[AskIn, AnswerOut]):
    """Whoever runs code on private records: a phone, a hospital, a trusted curator."""

    def answer(self, ask: AskIn) -> Release[AnswerOut]:
        """An answer that went through the gate."""
        ...


Exchange = Callable[[Ask], Sequence[Release[Answer]]]


class Coordinator(Protocol[State, AskOut, AnswerIn, Result]):
    """Sees releases only. All its memory is in ``State``, so that a run can be interrupted and resumed."""

    def begin(self) -> State:
        """The state before the first question."""
        ...

    def ask(self, state: State) -> AskOut | None:
        """The next question, or None when the run is complete."""
        ...

    def fold(self, state: State, answers: Sequence[Release[AnswerIn]]) -> State:
        """The state after the answers."""
        ...

    def result(self, state: State) -> Result:
        """What the run produced."""
        ...


class Representation(Protocol):
    """Maps samples to vectors that are near each other when samples are similar. Fitted on public samples only."""

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features per sample."""
        ...


class Encodings(Protocol):
    """A cache of encoded records, on the holder's side."""

    def encode(self, representation: Representation, samples: NDArray[Any]) -> Floats:
        """The samples in the representation's space, computed or from the cache."""
        ...


class Student(Protocol):
    """Any estimator with scikit-learn's interface that takes sample weights."""

    def fit(self, X: NDArray[Any], y: NDArray[Any], sample_weight: NDArray[np.float64] | None = None) -> Any:  # noqa: ANN401
        """Train on labeled public samples."""
        ...

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """One label per sample."""
        ...
