"""All interfaces in one place: the contracts of mechanisms, ledgers, holders and coordinators."""

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
# The same words from both ends: a holder takes asks and gives answers, a coordinator the other way round.
Ask = TypeVar("Ask")
Answer = TypeVar("Answer")
TakenAsk = TypeVar("TakenAsk", contravariant=True)
GivenAnswer = TypeVar("GivenAnswer", covariant=True)
GivenAsk = TypeVar("GivenAsk", covariant=True)
TakenAnswer = TypeVar("TakenAnswer", contravariant=True)


class Mechanism(Protocol[_In, _Out]):
    """Randomizes one statistic. It owns its noise parameter: the sampler and the accountant both read it."""

    @property
    def spend(self) -> Spend:
        """What one run costs; never depends on private values."""
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
    """Counts of all cells as estimated from randomized messages, with the variance of each estimate."""

    counts: NDArray[np.float64]
    variances: NDArray[np.float64]


@dataclass(frozen=True)
class MessageLaw:
    """Messages that a client may send, one per row, and the probability of each; unlisted ones share the rest."""

    messages: NDArray[Any]
    probabilities: tuple[Decimal, ...]


class LocalMechanism(Mechanism[NDArray[Any], NDArray[Any]], Protocol):
    """Randomizes each client's set of ``ones`` cells out of ``cells``; any two sets are indistinguishable up to e^ε.

    Messages are one array with a row for each client, so messages of many clients are concatenated rows.
    """

    @property
    def cells(self) -> int:
        """How many cells there are."""
        ...

    @property
    def ones(self) -> int:
        """How many different cells each client has."""
        ...

    @property
    def epsilon(self) -> Fraction:
        """What one client's message spends."""
        ...

    @property
    def biased(self) -> bool:
        """Whether the expected estimates differ from the true counts."""
        ...

    @property
    def message_bits(self) -> int:
        """Bits that one message takes when each of its fields is packed."""
        ...

    @property
    def variance_zero(self) -> float:
        """Variance that one client adds to the estimate of a cell it does not have."""
        ...

    @property
    def variance_one(self) -> float:
        """Variance that one client adds to the estimate of a cell it has."""
        ...

    @property
    def mean_squared_error(self) -> float:
        """Expected squared error of one client's estimates, averaged over all cells."""
        ...

    def encode(self, cells: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """One message for each row of cell indices, each with fresh randomness."""
        ...

    def decode(self, messages: NDArray[Any]) -> Estimates:
        """The count of every cell, estimated from the messages of all clients."""
        ...

    def law(self, cells: Sequence[int]) -> MessageLaw:
        """The probabilities of the messages of a client with these cells, for domains small enough to list."""
        ...


class Ledger(Protocol):
    """Accounts that pay for releases. Every call is durable before it returns, or raises.

    This is the whole contract: whatever has these methods can pay for any method, here or at a node.
    """

    @property
    def durable(self) -> bool:
        """Whether payments outlive the process: a simulation must not spend from such a ledger."""
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
        """Pay once for a request; the same request and question again returns the first receipt unpaid.

        ``limits`` are checked together with the ceiling, while nobody else can pay.
        """
        ...

    def preflight(self, account: str, spends: Mapping[str, Spend]) -> None:
        """Refuse in advance what charges for these requests would refuse; what is paid for already counts once."""
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
        """The receipts of all payments of an account, in order."""
        ...

    def stored_release(self, receipt: Receipt) -> bytes | None:
        """The release of this payment, if one was stored."""
        ...

    def store_release(self, receipt: Receipt, payload: bytes) -> bytes:
        """Store the release of a payment, and return what is stored: the first one always wins."""
        ...

    def apply(self, policy: Mapping[str, Ceiling]) -> Sequence[Change]:
        """Open accounts and change ceilings, for the operator alone; all of a policy or none of it."""
        ...

    def verify(self) -> Sequence[str]:
        """Errors in what is stored, the first bad entry first; empty when it is intact."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


class Holder(Protocol[TakenAsk, GivenAnswer]):
    """Whoever runs code on private records: a phone, a hospital, a trusted curator."""

    def answer(self, ask: TakenAsk) -> Release[GivenAnswer]:
        """An answer that went through the gate."""
        ...


Exchange = Callable[[Ask], Sequence[Release[Answer]]]


class Coordinator(Protocol[State, GivenAsk, TakenAnswer, Result]):
    """Sees releases only. Its whole memory is ``State``, so a run can be interrupted and resumed."""

    def begin(self) -> State:
        """The state before the first question."""
        ...

    def ask(self, state: State) -> GivenAsk | None:
        """The next question, or None when the run is complete."""
        ...

    def fold(self, state: State, answers: Sequence[Release[TakenAnswer]]) -> State:
        """The state after the answers."""
        ...

    def result(self, state: State) -> Result:
        """What the run produced."""
        ...


class Representation(Protocol):
    """Maps samples to vectors in which near samples are similar. Fitted on public inputs only, then fixed."""

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features per sample."""
        ...


class Encodings(Protocol):
    """A place where a holder keeps encodings of its records, on its own side."""

    def encode(self, representation: Representation, samples: NDArray[Any]) -> Floats:
        """The samples in the representation's space, computed or as they were kept."""
        ...


class Student(Protocol):
    """Any estimator with scikit-learn's interface that takes sample weights."""

    def fit(self, X: NDArray[Any], y: NDArray[Any], sample_weight: NDArray[np.float64] | None = None) -> Any:  # noqa: ANN401
        """Learn from labeled public samples."""
        ...

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """One label per sample."""
        ...
