"""The input and output of a method, the same for every method, in one process and over nodes; and the student."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core import (
    Adjacency,
    Ceiling,
    Coordinator,
    Exchange,
    Integers,
    InvalidInput,
    Ledger,
    Randomness,
    Representation,
    Spend,
    SystemRandomness,
    Trust,
    Unit,
    warn_user,
)
from tacit.mechanisms.masked.distributed_gaussian import quorum_of
from tacit.mechanisms.masked.distributed_laplace import TWO_THIRDS
from tacit.students.registry import STUDENTS
from tacit.students.weighted import fit_hard, fit_soft, takes_weights
from tacit.students.wrapped import with_encoder, with_names

__all__ = [
    "NODE_HOLDERS",
    "Account",
    "Announcement",
    "HolderModels",
    "Job",
    "Nodes",
    "Observer",
    "Outcome",
    "Task",
    "taught",
    "untrained",
]

# The holders of a federation: nodes with all their records, or single records.
NODE_HOLDERS = ("nodes", "records")


def untrained(student: Any) -> Any:  # noqa: ANN401
    """The student by name, or the user's own, refused if it could not be trained after the run has paid.

    >>> from sklearn.linear_model import LinearRegression
    >>> untrained(LinearRegression())
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: student must be a classifier, and LinearRegression is not one
    """
    from sklearn.base import clone

    if isinstance(student, str):
        return STUDENTS.find(student)()
    if isinstance(student, type):
        raise InvalidInput(f"student must be an object, not a class: give {student.__name__}() with its parameters")
    name = type(student).__name__
    try:
        clone(student)
    except Exception as error:
        # A constructor of another package may fail in any way.
        raise InvalidInput(f"student {name} cannot be copied as scikit-learn copies estimators: {error}") from error
    if not _classifies(student):
        raise InvalidInput(f"student must be a classifier, and {name} is not one")
    if not takes_weights(student):
        raise InvalidInput(f"student {name} does not take sample_weight in fit; choose another")
    return student


def _classifies(student: Any) -> bool:  # noqa: ANN401
    from sklearn.base import is_classifier

    try:
        return bool(is_classifier(student))
    except (AttributeError, TypeError):
        # An estimator that is not derived from scikit-learn's declares its kind by this attribute.
        return getattr(student, "_estimator_type", None) == "classifier"


def taught(
    student: Any,  # noqa: ANN401
    samples: NDArray[Any],
    labels: NDArray[Any],
    weights: NDArray[np.float64],
    soft: tuple[NDArray[Any], NDArray[np.float64]] | None = None,
) -> Any:  # noqa: ANN401
    """The trained student, or one that always predicts the most frequent label if training fails.

    ``soft`` are the classes and their probabilities, if the student is trained on probabilities.

    >>> taught(untrained("logistic"), np.array([[0.0], [1.0]]), np.array(["a", "b"]), np.ones(2)).predict([[1.0]])
    array(['b'], dtype='<U1')
    """
    from sklearn.dummy import DummyClassifier

    try:
        trained = fit_hard(student, samples, labels, weights) if soft is None else fit_soft(student, samples, *soft)
    except Exception as error:
        warn_user(
            f"{type(student).__name__} could not be trained ({type(error).__name__}: {error}). The labels are kept; "
            "the student always predicts the most frequent one"
        )
        return DummyClassifier(strategy="most_frequent").fit(samples, labels)
    if isinstance(trained, DummyClassifier) and not isinstance(student, DummyClassifier):
        warn_user(f"all labels are the same ({labels[0]}): the student always predicts it")
    return trained


@dataclass(frozen=True)
class Nodes:
    """A federation as an exchange: how questions reach the nodes, and what is public about them.

    ``records`` is their total number. ``holders`` are ``nodes`` with many records each, which add noise to their own
    counts, or ``records``: one-record holders, whose messages are randomized separately. ``surviving`` is the fraction
    of nodes that must answer, ``honest`` the fraction of those that must be honest; ``colluding`` is the number of
    nodes that may collude with the coordinator in secure aggregation, so that each node masks with a few others only
    (None: all survivors that need not be honest). ``deliver`` sends the last consensus of FedMD to the nodes and
    returns the names of those that received it.
    """

    exchange: Exchange[Any, Any]
    nodes: int
    records: int
    holders: str = "nodes"
    surviving: Fraction = TWO_THIRDS
    honest: Fraction = TWO_THIRDS
    colluding: int | None = None
    deliver: Callable[[Any, str], Sequence[str]] | None = None

    def __post_init__(self) -> None:
        if self.holders == "sites":
            raise InvalidInput("holders='sites' is called holders='nodes' now")
        if self.holders not in NODE_HOLDERS:
            raise InvalidInput(f"holders must be one of {', '.join(NODE_HOLDERS)}, got {self.holders!r}")

    @property
    def colluders(self) -> int:
        """The number of nodes that may collude with the coordinator in secure aggregation."""
        if self.colluding is not None:
            return self.colluding
        threshold, enough = quorum_of(self.nodes, self.surviving, self.honest)
        return threshold - enough


@dataclass(frozen=True)
class Announcement:
    """A plan as it is shown before anything is paid: titles and texts. Other plans have ``lines`` too."""

    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Observer:
    """Callbacks of a run: the plan before anything is paid, the current stage, and the progress.

    ``data`` gets the recognized kind of the public samples, in lines.
    """

    plan: Callable[[Any], None] = lambda _: None
    stage: Callable[[str], None] = lambda _: None
    progress: Callable[[int], None] = lambda _: None
    data: Callable[[Sequence[str]], None] = lambda _: None


@dataclass(frozen=True)
class Task:
    """All that is known before a record is read, and the holders' records if this process has them.

    ``units`` is the number of records or persons, public under replace-one adjacency. ``parts`` are the records of each
    of ``holders``, each behind ``Private``; a run over ``nodes`` has none. ``division`` is how one set of records was
    partitioned among simulated holders; None if holders have their own. ``kind`` is that of the public samples
    (``tacit.encoders.kinds.KINDS``); ``blocks`` are the numbers of encoded features by their source, in order.
    """

    public: NDArray[Any]
    classes: NDArray[Any]
    epsilon: Fraction | None
    delta: Fraction
    unit: Unit
    adjacency: Adjacency
    trust: Trust | None
    units: int
    request: str
    seed: int | None = None
    holders: tuple[str, ...] = ()
    parts: tuple[Any, ...] = ()  # of Private[Records]
    division: str | None = None
    multilabel: bool = False
    test: tuple[NDArray[Any], Integers] | None = None
    nodes: Nodes | None = None
    kind: str = "table"
    blocks: Mapping[str, int] = field(default_factory=dict)
    resumed: int = 0  # rounds that were over when the run was resumed
    own_budget: bool = False  # the run has its own account, planned completely before the first release
    randomness: Randomness = field(default_factory=SystemRandomness)
    # Refuses a representation that was fitted on the private records; needs the records.
    check_representation: Callable[[Representation], None] = lambda _: None
    observer: Observer = field(default_factory=Observer)

    @property
    def budget(self) -> Fraction:
        """The total ε, by default 1."""
        return Fraction(1) if self.epsilon is None else self.epsilon

    def trusting(self, *allowed: Trust, default: Trust) -> Trust:
        """The trust model of this run, refused unless the method allows it."""
        trust = default if self.trust is None else self.trust
        if trust not in allowed:
            raise InvalidInput(f"trust must be one of {', '.join(allowed)} here, got {str(trust)!r}")
        return trust

    def single_labels(self, method: str) -> Task:
        """The task, refused unless its records have one label each."""
        if self.multilabel:
            raise InvalidInput(f"{method} needs one label per record; for sets of labels use rknn")
        return self


@dataclass(frozen=True)
class Account:
    """An account that pays for a run or a part of it: its ceiling, if the run opens it, and the costs by request."""

    holder: str | None  # None: one account for the whole run
    ceiling: Ceiling | None  # None: a baseline without privacy, which pays nothing
    prices: Mapping[str, Spend]
    may_run_dry: bool = False  # a holder that can no longer pay leaves, and the run continues with the others


@dataclass(frozen=True)
class HolderModels:
    """The holders' own models, trained on records without noise: no guarantee covers them, and they stay private.

    ``accuracies`` has a row before the first exchange and one after every round, a column per holder, if a test set was
    given.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    models: tuple[Any, ...]
    accuracies: NDArray[np.float64] | None = None

    @property
    def before(self) -> float:
        """Mean accuracy before the holders exchanged anything."""
        return float(self._measured()[0].mean())

    @property
    def after(self) -> float:
        """Mean accuracy after the last round."""
        return float(self._measured()[-1].mean())

    def taking(self, features: tuple[str, ...] | None, encoder: Any = None) -> HolderModels:  # noqa: ANN401
        """The same models for tables with named columns, or for samples before encoding."""
        return replace(self, models=tuple(with_encoder(with_names(each, features), encoder) for each in self.models))

    def _measured(self) -> NDArray[np.float64]:
        if self.accuracies is None:
            raise InvalidInput("there are no measurements: give a test set")
        return self.accuracies


@dataclass(frozen=True)
class Outcome:
    """The result of a method, all of it post-processing of its releases.

    ``arrays`` are released or public arrays that are saved with the run; ``recipe`` are public choices that are known
    only at the end of a run.
    """

    student: Any
    labels: NDArray[Any]
    probabilities: NDArray[np.float64] | None = None
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    recipe: Mapping[str, Any] = field(default_factory=dict)
    holder_models: HolderModels | None = None


class Job(Protocol):
    """A method prepared for one task: accounts and costs, coordinator, holders, and the final step."""

    @property
    def plan(self) -> Any:  # noqa: ANN401
        """Every public choice, shown before anything is paid; its ``lines`` are titles and texts."""
        ...

    @property
    def coordinator(self) -> Coordinator[Any, Any, Any, Any]:
        """The coordinator, which sees releases only."""
        ...

    @property
    def unit(self) -> Unit:
        """The privacy unit of the payments."""
        ...

    @property
    def trust(self) -> Trust:
        """The trust model."""
        ...

    @property
    def caveats(self) -> tuple[str, ...]:
        """The caveats of the guarantee."""
        ...

    @property
    def doubts(self) -> Sequence[str]:
        """Warnings for the operator's screen."""
        ...

    @property
    def holders_learn(self) -> bool:
        """Whether holders learn by answering: then a resumed run asks them again, and their ledgers replay."""
        ...

    @property
    def recipe(self) -> Mapping[str, Any]:
        """Every public choice, to be stored with the run."""
        ...

    def accounts(self) -> Sequence[Account]:
        """The accounts, in the order of the holders."""
        ...

    def exchange(self, payers: Sequence[tuple[Ledger, str]]) -> Exchange[Any, Any]:
        """The holders in this process, each with its ledger and account."""
        ...

    def over(self, nodes: Nodes) -> Exchange[Any, Any]:
        """The exchange with nodes, with answers as the coordinator reads them."""
        ...

    def finish(self, released: Any) -> Outcome:  # noqa: ANN401
        """The outcome from the coordinator's result."""
        ...

    def exposures(self) -> Sequence[Any]:
        """Statements for holders in place of differential privacy; empty if the guarantee follows from receipts."""
        ...
