"""The main job in one call: label public data with what private records know, and train a student on it."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting.compose import Rule, total
from tacit.core.errors import InvalidInput, TacitWarning
from tacit.core.guarantee import ONE_PLACE, Adjacency, Guarantee, Trust, Unit
from tacit.core.protocols import Integers, Ledger, Representation
from tacit.core.randomness import Randomness, SeededRandomness, SystemRandomness
from tacit.core.rational import Number, probability
from tacit.core.release import Receipt, Release
from tacit.datasets.classes import class_indices
from tacit.datasets.tables import rows_in_common
from tacit.exchange.local import local_exchange
from tacit.experiment.drive import drive
from tacit.experiment.inputs import (
    class_names,
    labeled,
    learner,
    one_column,
    public_rows,
    refuse_own_encoder,
    seeded,
    whole,
)
from tacit.experiment.paying import paying
from tacit.experiment.planning import Plan, plan
from tacit.experiment.run import Run
from tacit.experiment.teaching import Teacher, spreading
from tacit.methods.rknn.connections import NEAREST
from tacit.methods.rknn.coordinator import BALANCED, Labeling, VoteCoordinator
from tacit.methods.rknn.holder import VoteCrowd, VoteHolder
from tacit.private.gate import Gate
from tacit.private.partition import split_by_owner, split_evenly
from tacit.private.persons import bounded_rows
from tacit.private.records import Private, Records
from tacit.representations.encoded_cache import EncodedCache

__all__ = ["Plan", "distill", "plan"]

CLASSES_READ = (
    "the list of classes was read off the private labels, so that a class exists is not protected; "
    "declare the classes to remove this"
)
DELTA_TOO_LARGE = (
    "delta is not below one over the number of records: exposing one of them outright would meet this definition"
)


def distill(
    private: tuple[ArrayLike, ArrayLike],
    public: ArrayLike,
    epsilon: Number = 1.0,
    *,
    delta: Number = 0,
    classes: Iterable[Any] | None = None,
    labels: str = "hard",
    mechanism: str = "auto",
    queries: int | Sequence[int] | None = None,
    neighbors: int = 1,
    representation: str | Representation = "auto",
    student: Any = "auto",  # noqa: ANN401
    iterations: int = 1,
    shares: Sequence[Number] | None = None,
    selection: str = "diverse",
    view: str = "student",
    spread: str = "clusters",
    keep: float = 1.0,
    connections: str = "nearest",
    one_to_one: bool = False,
    persons: ArrayLike | None = None,
    person_column: str = "person",
    records_per_person: int = 1,
    trust: str = "central",
    adjacency: str = "replace-one",
    holders: int | ArrayLike = 1,
    ledger: Ledger | str | Path | None = None,
    account: str | None = None,
    request: str | None = None,
    private_cache: str | Path | None = None,
    seed: int | None = None,
    announce: Callable[[Plan], None] | None = None,
    progress: Callable[[int], None] | None = None,
    stage: Callable[[str], None] | None = None,
) -> Run:
    """Label ``public`` with what the ``private`` records (X, y) know, at a cost of (ε, δ), and train a student.

    The guarantee holds for one record, or with ``persons`` for one person of whom at most
    ``records_per_person`` records are used. ``classes`` is public knowledge: where it is not given it is read
    off the private labels, and the guarantee says so. ``trust`` says who may see what: ``central`` for a curator,
    ``local`` or ``shuffle`` for a crowd of holders with one record each. A ``seed`` makes the run a simulation.
    ``labels`` are what is paid for and taught: ``hard`` ones, ``soft`` ones (counts are paid for, and the student gets
    the odds that each label leads) or ``proportions`` (the same counts; the student gets how the classes share a
    cluster, which serves where clusters are mixed; in later iterations its guesses say which sample is of which class).
    Several ``iterations`` split the budget (by ``shares``, or evenly): a student learns from the labels so far, and
    the next queries lie where it is unsure (``selection``), in its own ``view`` of the samples. ``spread`` carries
    labels from queries to samples, by cluster or over the neighbour graph, and ``keep`` is the share of the surest
    that are taught. The ``student`` is logistic regression, on a map of the public samples where the representation
    chose one; or any other, by name or as an object. ``connections`` are to the nearest queries, or balanced. Where
    the public samples fall into one cluster a class, ``one_to_one`` labels them all at once, which noise disturbs far
    less. With a ``ledger``, a ``request`` of several iterations can be taken up again only if the student learns the
    same from the same labels: fix its random state.
    Encodings of records are forgotten, unless ``private_cache`` names a folder to keep them in; they are as private
    as the records. ``announce`` is shown the plan before any record is counted, ``progress`` how many records have
    voted, and ``stage`` what is being done now. What gives reason to think again is a ``TacitWarning``, before
    anything is paid.

    >>> from tacit.datasets.digits import digits
    >>> parts = digits()
    >>> run = distill((parts.private_samples, parts.private_labels), parts.public_samples, 1.0, classes=range(10))
    >>> run.labels.shape, run.student.predict(parts.test_samples).shape
    ((500,), (297,))
    >>> print(str(run.guarantee).splitlines()[0])
    Differential privacy: epsilon = 1, delta = 0 (pure).
    """
    samples, given = labeled(private)
    public_samples = public_rows(public, like=samples)
    names = np.unique(given) if classes is None else class_names(classes)
    owned = None if persons is None else one_column(persons, "persons", len(samples))
    records = Records(samples, class_indices(given, names, "private labels"), owned)
    bound = whole(records_per_person, "records_per_person")
    if owned is None and bound != 1:
        raise InvalidInput("records_per_person needs persons: say whose each record is")
    unit = Unit() if owned is None else Unit.person(person_column, bound)
    pupil = None if isinstance(student, str) and student == "auto" else learner(student)
    seed = seeded(seed)
    randomness: Randomness = SystemRandomness() if seed is None else SeededRandomness(seed)
    if owned is not None:
        kept = bounded_rows(owned, bound, randomness)
        records, split = records.take(kept), _split(holders, records, kept)
    else:
        split = _split(holders, records, np.arange(len(given)))

    tell = stage or (lambda _: None)
    tell("choosing a representation and a mechanism")
    # Whose number is public under replace-one: that of the units, never that of a person's records.
    units = len(given) if owned is None else len(np.unique(owned))
    chosen = plan(
        public_samples, len(names), units, epsilon, delta, labels=labels, mechanism=mechanism,
        queries=queries, neighbors=neighbors, representation=representation, unit=unit, adjacency=adjacency,
        trust=trust, iterations=iterations, shares=shares, selection=selection,
        one_to_one=one_to_one,
    )  # fmt: skip
    refuse_own_encoder(chosen.fitted, samples)
    if labels != "hard" and spread == "graph":
        raise InvalidInput(
            f"{labels} labels are those of a query's own cluster: leave out spread, or ask for hard labels"
        )
    if pupil is None:
        # Where neighbours tell samples apart better than planes do, they serve the student as well.
        pupil = learner("map" if chosen.representation == "spectral" else "logistic")
    teacher = Teacher(pupil, public_samples, names, chosen.fitted, labels != "hard", keep, view)
    copies = rows_in_common(samples.reshape(len(samples), -1), public_samples.reshape(len(public_samples), -1))
    if copies:
        _warn(
            f"{copies} public rows are exact copies of private ones. What is in the public data is not protected; "
            "remove them unless they are public anyway"
        )
    for doubt in chosen.doubts:
        _warn(doubt)
    if connections not in (NEAREST, BALANCED):
        raise InvalidInput(f"connections must be {NEAREST} or {BALANCED}, got {connections!r}")
    request = request or uuid.uuid4().hex
    coordinator = VoteCoordinator(
        public_samples, chosen.fitted, [each.round for each in chosen.rounds], chosen.neighbors, names, request,
        spreading(spread, public_samples, chosen.fitted), teacher.revise, connections,
    )  # fmt: skip
    with paying(ledger, account, epsilon, delta, chosen, request, simulated=seed is not None) as (book, payer):
        if announce is not None:
            announce(chosen)
        side = VoteHolder if chosen.trust is Trust.CENTRAL else VoteCrowd
        cache = None if private_cache is None else EncodedCache(private_cache)
        held = [Private(records.take(rows)) for rows in split]
        holder = side(held, Gate(book, payer, randomness), progress, cache)
        exchange = local_exchange([holder])

        def put(ask: Any) -> list[Release[Any]]:  # noqa: ANN401
            tell("counting votes")
            return exchange(ask)

        tell("choosing queries among the public samples")
        release: Release[Labeling] = drive(coordinator, put)
    tell("training the student")
    trained = release.map(teacher.train)

    guarantee = _guarantee(release.receipts, probability(delta, "delta"), chosen)
    if chosen.trust is not Trust.CENTRAL:
        guarantee = guarantee.with_caveat(ONE_PLACE)
    if copies:
        guarantee = guarantee.with_copies()
    if classes is None:
        guarantee = guarantee.with_caveat(CLASSES_READ)
    # Under add/remove the number of records is private, and a guarantee that depends on it would tell.
    if chosen.adjacency is Adjacency.REPLACE_ONE and guarantee.delta * units >= 1:
        guarantee = guarantee.with_caveat(DELTA_TOO_LARGE)
    recipe = {
        **_recipe(chosen, labels, trained.value, public_samples, seed),
        "connections": connections,
        "spread": spread,
        "keep": float(keep),
        "view": view,
    }
    return Run.of(release, trained.value, public_samples, names, guarantee, recipe)


def _warn(message: str) -> None:
    # Shown where distill was called, not here.
    warnings.warn(message, TacitWarning, stacklevel=3)


def _split(holders: int | ArrayLike, records: Records, kept: Integers) -> list[Integers]:
    """The rows of each holder, counted among the records that are kept."""
    if np.ndim(holders) == 0:
        persons = None if records.persons is None else records.persons[kept]
        return split_evenly(len(kept), whole(holders, "holders"), persons=persons)
    return split_by_owner(one_column(holders, "holders", len(records.labels))[kept])


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


def _recipe(
    chosen: Plan,
    labels: str,
    trained: Any,  # noqa: ANN401
    public: NDArray[Any],
    seed: int | None,
) -> dict[str, Any]:
    return {
        "method": "reverse k-NN",
        "trust": str(chosen.trust),
        "mechanism": chosen.choice.name,
        "why": chosen.choice.reason,
        "queries": chosen.queries,
        "rounds": [
            {"queries": each.queries, "mechanism": each.choice.name, "selection": each.selection}
            for each in chosen.rounds
        ],
        "neighbors": chosen.neighbors,
        "labels": labels,
        "representation": chosen.representation,
        "student": type(trained).__name__,
        "public_samples": len(public),
        "features": int(public[0].size),
        "randomness": "system" if seed is None else f"seed {seed} (simulation)",
    }
