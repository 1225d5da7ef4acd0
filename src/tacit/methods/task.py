"""What a method is given and what it gives back: the same for every method, in one process and over nodes.

Part of it is the student, before it has learned anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core import Adjacency, Ceiling, InvalidInput, Randomness, Spend, SystemRandomness, Trust, Unit, warn_user
from tacit.core.protocols import Coordinator, Exchange, Integers, Ledger, Representation
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

# Who is a holder in a federation: a node with all its records, or each of its records.
NODE_HOLDERS = ("nodes", "records")


def untrained(student: Any) -> Any:  # noqa: ANN401
    """The student by its name, or the user's own if it can be trained later: what is paid for must not be lost to it.

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
        # A constructor of someone else's may fail in any way.
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
        # An estimator that does not descend from scikit-learn's says what it is by this name.
        return getattr(student, "_estimator_type", None) == "classifier"


def taught(
    student: Any,  # noqa: ANN401
    samples: NDArray[Any],
    labels: NDArray[Any],
    weights: NDArray[np.float64],
    soft: tuple[NDArray[Any], NDArray[np.float64]] | None = None,
) -> Any:  # noqa: ANN401
    """The trained student, or one that always says the commonest label: a paid run is not lost to its student.

    ``soft`` are the classes and their probabilities, where the student is taught odds.

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
        warn_user(
            f"all labels are the same ({labels[0]}), so there was nothing to learn: the student always predicts it"
        )
    return trained


@dataclass(frozen=True)
class Nodes:
    """A federation as an exchange: how questions reach the nodes, and what is publicly known of them.

    ``records`` is how many there are in all. ``holders`` are ``nodes`` with many records each, which add noise to their
    own counts, or ``records``: one-record holders, whose messages are randomized one by one. ``surviving`` is the
    fraction of nodes that must answer, ``honest`` the fraction of those that must be honest; ``colluding`` is how
    many of all nodes may collude with the coordinator of a masked sum, so that each node can mask with a few others
    (None: all survivors that need not be honest). ``deliver`` takes the last consensus of FedMD to the nodes
    and says who heard it.
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
        """How many of all nodes may collude with the coordinator of a masked sum."""
        if self.colluding is not None:
            return self.colluding
        threshold, enough = quorum_of(self.nodes, self.surviving, self.honest)
        return threshold - enough


@dataclass(frozen=True)
class Announcement:
    """A plan as it is shown before anything is paid: titles and what they say. Other plans have ``lines``, too."""

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
    """All that is known before a record is read, and the holders' records where this process has them.

    ``units`` is how many records, or persons, there are: public under replace-one adjacency. ``parts`` are the
    records of each of ``holders``, each behind ``Private``; a run over ``nodes`` has none. ``division`` is how records
    that came together were divided among made-up holders; None where holders came with their records. ``kind`` is what
    the public samples are (``tacit.encoders.kinds.KINDS``), ``blocks`` how many of their features come from what, in
    their order, where they were encoded.
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
    resumed: int = 0  # rounds that were over when the run was taken up again
    own_budget: bool = False  # the run pays from a budget of its own, all of which was planned before the first release
    randomness: Randomness = field(default_factory=SystemRandomness)
    # Refuses a representation that was fitted on the private records; only who has them can tell.
    check_representation: Callable[[Representation], None] = lambda _: None
    observer: Observer = field(default_factory=Observer)

    @property
    def budget(self) -> Fraction:
        """What may be spent in all: 1 where nothing is said."""
        return Fraction(1) if self.epsilon is None else self.epsilon

    def trusting(self, *allowed: Trust, default: Trust) -> Trust:
        """The trust model of this run, if the method has it."""
        trust = default if self.trust is None else self.trust
        if trust not in allowed:
            raise InvalidInput(f"trust must be one of {', '.join(allowed)} here, got {str(trust)!r}")
        return trust

    def single_labels(self, method: str) -> Task:
        """The task, if its records have one label each."""
        if self.multilabel:
            raise InvalidInput(f"{method} takes one label per record; sets of labels go with rknn")
        return self


@dataclass(frozen=True)
class Account:
    """Who pays for a part of a run, up to where if the run makes the account itself, and for what in all."""

    holder: str | None  # None: one account for the whole run
    ceiling: Ceiling | None  # None: a baseline without privacy, which pays nothing
    prices: Mapping[str, Spend]
    may_run_dry: bool = False  # a holder that cannot pay any more leaves, and the others go on


@dataclass(frozen=True)
class HolderModels:
    """The holders' own models, trained on records without noise: no claim covers them, and they stay with the holders.

    ``accuracies`` has a row before the first exchange and one after every round, a column per holder, where a test
    set was given.
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
        """The same models, which take tables by the names of their columns, or samples as an encoder takes them."""
        return replace(self, models=tuple(with_encoder(with_names(each, features), encoder) for each in self.models))

    def _measured(self) -> NDArray[np.float64]:
        if self.accuracies is None:
            raise InvalidInput("there are no measurements: give a test set")
        return self.accuracies


@dataclass(frozen=True)
class Outcome:
    """What a method made of its releases: all of it is post-processing.

    ``arrays`` are released or public ones that belong to the method and are saved with the run; ``recipe`` are public
    choices that only the end of a run knows.
    """

    student: Any
    labels: NDArray[Any]
    probabilities: NDArray[np.float64] | None = None
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    recipe: Mapping[str, Any] = field(default_factory=dict)
    holder_models: HolderModels | None = None


class Job(Protocol):
    """A method's plan for one task, ready to be paid for: who pays what, who asks, who answers, and how it ends."""

    @property
    def plan(self) -> Any:  # noqa: ANN401
        """Every public choice, shown before anything is paid; its ``lines`` are titles and what they say."""
        ...

    @property
    def coordinator(self) -> Coordinator[Any, Any, Any, Any]:
        """The side that sees releases only."""
        ...

    @property
    def unit(self) -> Unit:
        """Whose privacy the payments count for."""
        ...

    @property
    def trust(self) -> Trust:
        """Who is trusted with what."""
        ...

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the guarantee rests on beside its numbers."""
        ...

    @property
    def doubts(self) -> Sequence[str]:
        """Reasons to think again, for the operator's own screen."""
        ...

    @property
    def holders_learn(self) -> bool:
        """Whether holders learn by answering: then a run that goes on asks them again, and their ledgers remember."""
        ...

    @property
    def recipe(self) -> Mapping[str, Any]:
        """Every public choice, to be written down."""
        ...

    def accounts(self) -> Sequence[Account]:
        """Who pays, in the order of the holders."""
        ...

    def exchange(self, payers: Sequence[tuple[Ledger, str]]) -> Exchange[Any, Any]:
        """The holders in this process, each with its ledger and account."""
        ...

    def over(self, nodes: Nodes) -> Exchange[Any, Any]:
        """The exchange with nodes, whose answers come as the coordinator reads them."""
        ...

    def finish(self, released: Any) -> Outcome:  # noqa: ANN401
        """What is made of the coordinator's result."""
        ...

    def exposures(self) -> Sequence[Any]:
        """What holds for each holder instead of differential privacy; none where the receipts say it."""
        ...
