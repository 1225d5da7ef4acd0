"""The main job in one call: label public data with what private records know, and train a student on it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting.compose import Rule, total
from tacit.catalog import REPRESENTATIONS, STUDENTS, find, suggest_representation
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Guarantee, Trust, Unit
from tacit.core.protocols import Integers, Ledger, Representation
from tacit.core.randomness import Randomness, SeededRandomness, SystemRandomness
from tacit.core.rational import Number, positive, probability
from tacit.core.release import Receipt, Release
from tacit.core.sensitivity import vote_sensitivity
from tacit.datasets.classes import class_indices, plain
from tacit.exchange.local import local_exchange
from tacit.experiment.drive import drive
from tacit.experiment.run import Run
from tacit.ledger.memory import Ceiling, MemoryLedger
from tacit.ledger.sqlite import SqliteLedger
from tacit.methods.rknn.choice import Choice, choose_mechanism
from tacit.methods.rknn.coordinator import Labeling, VoteCoordinator
from tacit.methods.rknn.crowd_choice import choose_local, choose_shuffled
from tacit.methods.rknn.holder import VoteCrowd, VoteHolder
from tacit.methods.rknn.queries import suggest_queries
from tacit.private.gate import Gate
from tacit.private.partition import split_by_owner, split_evenly
from tacit.private.persons import bounded_rows
from tacit.private.records import Private, Records
from tacit.students.weighted import fit_hard, fit_soft, takes_weights

__all__ = ["Plan", "distill", "plan"]

CLASSES_READ = (
    "the list of classes was read off the private labels, so that a class exists is not protected; "
    "declare the classes to remove this"
)
DELTA_TOO_LARGE = (
    "delta is not below one over the number of records: exposing one of them outright would meet this definition"
)
MEMORY_ACCOUNT = "this run"
# How answers travel without a trusted party at all, over masks, needs a network of holders.
SUPPORTED = (Trust.CENTRAL, Trust.LOCAL, Trust.SHUFFLE)


@dataclass(frozen=True)
class Plan:
    """Every public choice of a run, made before a single record is looked at."""

    choice: Choice
    queries: int
    neighbors: int
    unit: Unit
    adjacency: Adjacency
    trust: Trust
    representation: str
    fitted: Representation


def distill(
    private: tuple[ArrayLike, ArrayLike],
    public: ArrayLike,
    epsilon: Number = 1.0,
    *,
    delta: Number = 0,
    classes: Iterable[Any] | None = None,
    labels: str = "hard",
    mechanism: str = "auto",
    queries: int | None = None,
    neighbors: int = 1,
    representation: str | Representation = "auto",
    student: Any = "logistic",  # noqa: ANN401
    persons: ArrayLike | None = None,
    person_column: str = "person",
    records_per_person: int = 1,
    trust: str = "central",
    adjacency: str = "replace-one",
    holders: int | ArrayLike = 1,
    ledger: Ledger | str | Path | None = None,
    account: str | None = None,
    request: str | None = None,
    seed: int | None = None,
    announce: Callable[[Plan], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Run:
    """Label ``public`` with what the ``private`` records (X, y) know, at a cost of (ε, δ), and train a student.

    The guarantee holds for one record, or with ``persons`` for one person of whom at most
    ``records_per_person`` records are used. ``classes`` is public knowledge: where it is not given it is read
    off the private labels, and the guarantee says so. ``trust`` says who may see what: ``central`` for a curator,
    ``local`` or ``shuffle`` for a crowd of holders with one record each. A ``seed`` makes the run a simulation.
    ``announce`` is shown the plan before any record is counted, ``progress`` how many records have voted.

    >>> from tacit.datasets.digits import digits
    >>> parts = digits()
    >>> run = distill((parts.private_samples, parts.private_labels), parts.public_samples, 1.0, classes=range(10))
    >>> run.labels.shape, run.student.predict(parts.test_samples).shape
    ((500,), (297,))
    >>> print(str(run.guarantee).splitlines()[0])
    Differential privacy: epsilon = 1, delta = 0 (pure).
    """
    samples, given = _private_arrays(private)
    public_samples = _checked(np.asarray(public), "public")
    if samples[0].size != public_samples[0].size:
        raise InvalidInput(
            f"private samples have {samples[0].size} features and public ones {public_samples[0].size}; "
            "they must be of the same kind"
        )
    names = np.unique(given) if classes is None else plain(np.asarray(list(classes)))
    records = Records(samples, class_indices(given, names, "private labels"), _column(persons))
    unit = Unit() if persons is None else Unit.person(person_column, records_per_person)
    learner = find(STUDENTS, student, "student")() if isinstance(student, str) else student
    if not takes_weights(learner):
        raise InvalidInput(f"{type(learner).__name__} does not take sample_weight in fit; choose another student")

    # Whose number is public under replace-one: that of the units, never that of a person's records.
    units = len(records.labels) if records.persons is None else len(np.unique(records.persons))
    chosen = plan(
        public_samples, len(names), units, epsilon, delta, labels=labels, mechanism=mechanism,
        queries=queries, neighbors=neighbors, representation=representation, unit=unit, adjacency=adjacency,
        trust=trust,
    )  # fmt: skip
    randomness: Randomness = SystemRandomness() if seed is None else SeededRandomness(seed)
    owners = _column(holders) if not isinstance(holders, int) else None
    if owners is not None and owners.shape != records.labels.shape:
        raise InvalidInput(f"holders names {owners.shape} owners for {records.labels.shape} records")
    if records.persons is not None:
        kept = bounded_rows(records.persons, records_per_person, randomness)
        records, owners = records.take(kept), None if owners is None else owners[kept]
    split = split_by_owner(owners) if owners is not None else _evenly(holders, records)
    parts = [Private(records.take(rows)) for rows in split]
    coordinator = VoteCoordinator(
        public_samples, chosen.fitted, chosen.queries, neighbors, names, chosen.choice.mechanism,
        chosen.choice.reader, request or uuid.uuid4().hex,
    )  # fmt: skip
    with _paying(ledger, account, epsilon, delta, chosen) as (book, payer):
        if announce is not None:
            announce(chosen)
        side = VoteHolder if chosen.trust is Trust.CENTRAL else VoteCrowd
        holder = side(parts, Gate(book, payer, randomness), progress)
        release: Release[Labeling] = drive(coordinator, local_exchange([holder]))
    trained = release.map(lambda labeling: _train(learner, public_samples, names, labeling, soft=labels == "soft"))

    labeling = release.value
    guarantee = _guarantee(release.receipts, probability(delta, "delta"), chosen)
    if classes is None:
        guarantee = guarantee.with_caveat(CLASSES_READ)
    if guarantee.delta * units >= 1:
        guarantee = guarantee.with_caveat(DELTA_TOO_LARGE)
    return Run(
        student=trained.value,
        labels=names[labeling.labels],
        probabilities=labeling.probabilities,
        classes=names,
        queries=labeling.clusters.centres,
        query_labels=names[labeling.query_labels],
        membership=labeling.clusters.membership,
        guarantee=guarantee,
        receipts=release.receipts,
        recipe=_recipe(chosen, labels, learner, public_samples, seed),
    )


def plan(
    public: NDArray[Any],
    classes: int,
    records: int,
    epsilon: Number,
    delta: Number = 0,
    *,
    labels: str = "hard",
    mechanism: str = "auto",
    queries: int | None = None,
    neighbors: int = 1,
    representation: str | Representation = "auto",
    unit: Unit | None = None,
    adjacency: str = "replace-one",
    trust: str = "central",
) -> Plan:
    """Every public choice of a run, from public knowledge alone.

    >>> plan(np.random.default_rng(0).normal(size=(400, 64)), classes=10, records=1000, epsilon=1).queries
    32
    """
    unit = unit or Unit()
    budget, slack = positive(epsilon, "epsilon"), probability(delta, "delta")
    if labels not in ("hard", "soft"):
        raise InvalidInput(f"labels must be 'hard' or 'soft', got {labels!r}")
    if neighbors < 1:
        raise InvalidInput(f"neighbors must be at least 1, got {neighbors}")
    if adjacency not in tuple(Adjacency):
        raise InvalidInput(f"adjacency must be one of {', '.join(Adjacency)}, got {adjacency!r}")
    if trust not in SUPPORTED:
        raise InvalidInput(f"trust must be one of {', '.join(SUPPORTED)}, got {trust!r}")
    replace = adjacency == Adjacency.REPLACE_ONE
    if trust != Trust.CENTRAL and (not replace or unit.records != 1):
        raise InvalidInput(f"{trust} trust is for holders of one record each, under replace-one adjacency")

    def choose(asked: int) -> Choice:
        match Trust(trust):
            case Trust.LOCAL:
                return choose_local(records, asked, classes, neighbors, budget, mechanism)
            case Trust.SHUFFLE:
                return choose_shuffled(records, asked, classes, neighbors, budget, slack, mechanism)
            case _:
                moves = vote_sensitivity(asked, classes, neighbors, records=unit.records, replace=replace)
                return choose_mechanism(moves, classes, budget, slack, mechanism, counts=labels == "soft")

    if queries is None:
        if not replace:
            raise InvalidInput("say how many queries: under add-remove the number of records is private, so we cannot")
        # The lead a label needs depends on the number of queries only when almost all of them are neighbours.
        guess = choose(max(2 * neighbors, len(public)))
        queries = suggest_queries(records, len(public), classes, neighbors, guess.gap)
    name = representation if isinstance(representation, str) else type(representation).__name__
    if name == "auto":
        name = suggest_representation(public)
    fitted = (
        find(REPRESENTATIONS, name, "representation")(public) if isinstance(representation, str) else representation
    )
    return Plan(choose(queries), queries, neighbors, unit, Adjacency(adjacency), Trust(trust), name, fitted)


def _private_arrays(private: tuple[ArrayLike, ArrayLike]) -> tuple[NDArray[Any], NDArray[Any]]:
    if not isinstance(private, tuple) or len(private) != 2:
        raise InvalidInput("private must be a pair (X, y): samples and their labels")
    samples, labels = _checked(np.asarray(private[0]), "private"), plain(np.asarray(private[1]))
    if labels.ndim != 1 or len(labels) != len(samples):
        raise InvalidInput(f"private labels have shape {labels.shape} for {len(samples)} samples; give one a sample")
    return samples, labels


def _checked(samples: NDArray[Any], what: str) -> NDArray[Any]:
    if samples.dtype.kind not in "fiub" or samples.ndim < 2:
        raise InvalidInput(f"{what} samples must be numbers, one row a sample; got {samples.dtype}{samples.shape}")
    if not samples.size:
        raise InvalidInput(f"the {what} part is empty")
    if samples.dtype.kind == "f" and not np.isfinite(samples).all():
        row = int(np.argwhere(~np.isfinite(samples))[0][0])
        raise InvalidInput(f"{what} samples: row {row} has a value that is not a finite number")
    return samples


def _column(values: ArrayLike | None) -> NDArray[Any] | None:
    return None if values is None else np.asarray(values)


@contextmanager
def _paying(
    ledger: Ledger | str | Path | None, account: str | None, epsilon: Number, delta: Number, chosen: Plan
) -> Iterator[tuple[Ledger, str]]:
    """The ledger and the account that pay: the user's own, or one of this run alone with just its budget."""
    if ledger is None:
        if account is not None:
            raise InvalidInput("an account needs a ledger: give the ledger's file too")
        ceiling = Ceiling(epsilon, delta, Rule.PLANNED, chosen.unit, chosen.adjacency)
        yield MemoryLedger({MEMORY_ACCOUNT: ceiling}), MEMORY_ACCOUNT
        return
    if account is None:
        raise InvalidInput("say which account of the ledger pays")
    with SqliteLedger(ledger) if isinstance(ledger, str | Path) else nullcontext(ledger) as book:
        unit, adjacency = book.protects(account)
        if (unit, adjacency) != (chosen.unit, chosen.adjacency):
            raise InvalidInput(
                f"account {account!r} counts for {unit.in_words} under {adjacency}, this run protects "
                f"{chosen.unit.in_words} under {chosen.adjacency}; ask for what the account protects"
            )
        yield book, account


def _evenly(holders: int | ArrayLike, records: Records) -> list[Integers]:
    return split_evenly(len(records.labels), int(np.asarray(holders)), persons=records.persons)


def _train(learner: Any, public: NDArray[Any], names: NDArray[Any], labeling: Labeling, soft: bool) -> Any:  # noqa: ANN401
    rows = public.reshape(len(public), -1)
    if soft and labeling.probabilities is not None:
        return fit_soft(learner, rows, names, labeling.probabilities)
    return fit_hard(learner, rows, names[labeling.labels], labeling.margins)


def _guarantee(receipts: Sequence[Receipt], delta: Fraction, chosen: Plan) -> Guarantee:
    spends = [receipt.spend for receipt in receipts]
    # What is pure is said to be pure, even where some δ was allowed.
    spent = min((total(spends, each, Rule.PLANNED) for each in (Fraction(0), delta)), key=lambda each: each.epsilon)
    return Guarantee(
        epsilon=Fraction(spent.epsilon),
        delta=spent.delta,
        unit=chosen.unit,
        adjacency=chosen.adjacency,
        trust=chosen.trust,
        accountant=spent.accountant,
        simulation=any(receipt.simulated for receipt in receipts),
    )


def _recipe(chosen: Plan, labels: str, learner: Any, public: NDArray[Any], seed: int | None) -> dict[str, Any]:  # noqa: ANN401
    return {
        "method": "reverse k-NN",
        "trust": str(chosen.trust),
        "mechanism": chosen.choice.name,
        "why": chosen.choice.reason,
        "queries": chosen.queries,
        "neighbors": chosen.neighbors,
        "labels": labels,
        "representation": chosen.representation,
        "student": type(learner).__name__,
        "public_samples": len(public),
        "features": int(public[0].size),
        "randomness": "system" if seed is None else f"seed {seed} (simulation)",
    }
