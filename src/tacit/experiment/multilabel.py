"""Distillation where records carry sets of labels: every label of a public sample is decided by itself."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting.compose import Rule, total
from tacit.catalog import REPRESENTATIONS, find, suggest_representation
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import ONE_PLACE, Adjacency, Guarantee, Trust, Unit
from tacit.core.protocols import Ledger, Mechanism, Representation
from tacit.core.randomness import Randomness, SeededRandomness, SystemRandomness
from tacit.core.rational import Number, positive, probability
from tacit.core.release import Receipt
from tacit.core.sensitivity import vote_sensitivity
from tacit.experiment.copies import warn_of_copies
from tacit.experiment.inputs import learner, public_rows, refuse_own_encoder, rows
from tacit.ledger.memory import Ceiling, MemoryLedger
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.local.choice import choose
from tacit.mechanisms.local.concatenation import Concatenation
from tacit.mechanisms.local.separation import Separation
from tacit.mechanisms.local.vote_shape import VoteShape
from tacit.methods.rknn.connections import balanced_heights
from tacit.methods.rknn.holder import VoteCrowd, VoteHolder
from tacit.methods.rknn.multilabel import SetCountReader, SetMessageReader, SetReading
from tacit.methods.rknn.posterior import Noise
from tacit.methods.rknn.queries import Clusters, cluster, suggest_queries
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.students.by_label import OneEachLabel, fit_by_label

__all__ = ["MultiLabelRun", "distill_multilabel", "label_table"]

ACCOUNT = "this run"
# A share of voters is told from one half once half the voters exceed the noise of the count and of half the voters
# with 99 % certainty: 2 · 2.33 · √(1 + 1/4) standard deviations of one noise.
LEAD = 5.2

Reader = Callable[[Any], SetReading]


@dataclass(frozen=True)
class MultiLabelRun:
    """What ``distill_multilabel`` returns: labels and probabilities are tables, a row a public sample."""

    student: OneEachLabel
    labels: NDArray[np.bool_]  # (public samples, classes)
    probabilities: NDArray[np.float64]  # (public samples, classes)
    classes: NDArray[Any]
    queries: NDArray[np.float32]
    query_labels: NDArray[np.bool_]
    membership: NDArray[np.int64]
    guarantee: Guarantee
    receipts: tuple[Receipt, ...]
    recipe: dict[str, Any]


def distill_multilabel(
    private: tuple[ArrayLike, Any],
    public: ArrayLike,
    epsilon: Number = 1.0,
    *,
    most_labels: int,
    delta: Number = 0,
    classes: Iterable[Any] | None = None,
    mechanism: str = "auto",
    queries: int | None = None,
    neighbors: int = 1,
    balanced: bool = False,
    representation: str | Representation = "auto",
    student: Any = "logistic",  # noqa: ANN401
    trust: str = "central",
    ledger: Ledger | None = None,
    account: str = ACCOUNT,
    request: str | None = None,
    seed: int | None = None,
) -> MultiLabelRun:
    """Label ``public`` with what ``private`` records (X, label sets) know, at a cost of (ε, δ), and train a student.

    Label sets are a table of zeros and ones with a column a class, or for every record a list of its classes; then
    ``classes`` must be given. ``most_labels`` is how many labels a record may have: public knowledge, as it sets the
    noise. The guarantee is for one record with all its labels, under replace-one adjacency. ``trust`` is ``central``
    for a curator, ``local`` for a crowd of holders with one record each.

    >>> from tacit.datasets.digits import digits
    >>> parts = digits()
    >>> properties = np.column_stack([parts.private_labels % 2 == 0, parts.private_labels >= 5])
    >>> run = distill_multilabel(
    ...     (parts.private_samples, properties), parts.public_samples, 1.0, most_labels=2, classes=["even", "large"]
    ... )
    >>> run.labels.shape, run.student.predict(parts.test_samples).shape, run.guarantee.epsilon
    ((500, 2), (297, 2), Fraction(1, 1))
    """
    budget, slack = positive(epsilon, "epsilon"), probability(delta, "delta")
    if not isinstance(private, tuple | list) or len(private) != 2:
        raise InvalidInput("private must be a pair (X, label sets): samples and their labels")
    samples = rows(private[0], "private")
    shown = public_rows(public, like=samples)
    sets, names = label_table(private[1], classes)
    if len(sets) != len(samples):
        raise InvalidInput(f"there are {len(sets)} label sets for {len(samples)} private samples; give one a sample")
    if not 1 <= most_labels <= len(names):
        raise InvalidInput(f"most_labels must be between 1 and the {len(names)} classes, got {most_labels}")
    if sets.sum(axis=1).max() > most_labels:
        raise InvalidInput(
            f"a private record has more than most_labels = {most_labels} labels; cut the sets down first"
        )
    if trust not in (Trust.CENTRAL, Trust.LOCAL):
        raise InvalidInput(f"trust must be central or local for sets of labels, got {trust!r}")
    pupil = learner(student)
    if seed is not None and ledger is not None and not isinstance(ledger, MemoryLedger):
        raise InvalidInput("a seed makes a simulation, which must not spend a real budget: leave out one of the two")

    def chosen(asked: int) -> _Chosen:
        if trust == Trust.LOCAL:
            return _local(len(samples), asked, len(names), neighbors, most_labels, budget, mechanism)
        return _central(asked, len(names), neighbors, most_labels, budget, slack, mechanism)

    if queries is None:
        lead = LEAD * chosen(max(2 * neighbors, len(shown) // 5)).deviation
        queries = suggest_queries(len(samples), len(shown), 2, neighbors, lead)
    choice = chosen(queries)
    if isinstance(representation, str):
        name = suggest_representation(shown) if representation == "auto" else representation
        fitted: Representation = find(REPRESENTATIONS, name, "representation")(shown, queries)
    else:
        name, fitted = type(representation).__name__, representation
    refuse_own_encoder(fitted, samples)
    encoded = fitted.encode(shown)
    groups = cluster(encoded, queries)
    ask = VoteAsk(
        queries=groups.centres,
        representation=fitted,
        neighbors=neighbors,
        names=tuple(map(str, names)),
        space=hashlib.sha256(encoded.tobytes()).hexdigest(),
        mechanism=choice.mechanism,
        purpose="reverse k-NN labels, sets",
        request=request or uuid.uuid4().hex,
        heights=balanced_heights(encoded, groups.centres, neighbors) if balanced else None,
        labels=most_labels,
    )
    copied = warn_of_copies([samples], shown)
    unit, adjacency = Unit(), Adjacency.REPLACE_ONE
    book = ledger or MemoryLedger({account: Ceiling(epsilon, delta, Rule.PLANNED, unit, adjacency)})
    if book.protects(account) != (unit, adjacency):
        raise InvalidInput(f"account {account!r} does not count for one record under replace-one adjacency")
    randomness: Randomness = SystemRandomness() if seed is None else SeededRandomness(seed)
    side = VoteHolder if trust == Trust.CENTRAL else VoteCrowd
    release = side([Private(Records(samples, sets))], Gate(book, account, randomness)).answer(ask).map(choice.reader)
    return _run(release.value, release.receipts, groups, names, shown, pupil, slack, Trust(trust), copied, {
        "method": "reverse k-NN, sets of labels",
        "trust": trust,
        "mechanism": choice.name,
        "queries": queries,
        "neighbors": neighbors,
        "most_labels": most_labels,
        "connections": "balanced" if balanced else "nearest",
        "representation": name,
        "student": type(pupil).__name__,
        "public_samples": len(shown),
        "randomness": "system" if seed is None else f"seed {seed} (simulation)",
    })  # fmt: skip


def label_table(sets: Any, classes: Iterable[Any] | None = None) -> tuple[NDArray[np.bool_], NDArray[Any]]:  # noqa: ANN401
    """Label sets as a table of bool (records, classes), and the classes' names.

    >>> label_table([["cat"], [], ["dog", "cat"]], classes=["cat", "dog"])[0].tolist()
    [[True, False], [False, False], [True, True]]
    >>> label_table(np.array([[0, 1], [1, 1]]))[0].tolist()
    [[False, True], [True, True]]
    """
    names = None if classes is None else np.asarray(list(classes))
    if isinstance(sets, np.ndarray):
        if sets.ndim != 2 or sets.dtype.kind not in "biu" or not np.isin(sets, (0, 1)).all():
            raise InvalidInput("label sets must be a table of zeros and ones, or a list of classes for every record")
        if names is None:
            names = np.arange(sets.shape[1])
        if len(names) != sets.shape[1]:
            raise InvalidInput(f"classes names {len(names)} classes for {sets.shape[1]} columns of label sets")
        return sets.astype(np.bool_), names
    if names is None:
        raise InvalidInput("classes must be given where label sets are lists of classes")
    place = {name: column for column, name in enumerate(names.tolist())}
    table = np.zeros((len(sets), len(names)), dtype=np.bool_)
    for row, each in enumerate(sets):
        for label in each:
            if label not in place:
                raise InvalidInput(f"label sets: row {row} has a label that is not among the classes")
            table[row, place[label]] = True
    return table, names


@dataclass(frozen=True)
class _Chosen:
    """A mechanism, its name, what its answers mean, and the standard deviation of one count under it."""

    name: str
    mechanism: Mechanism[Any, Any]
    reader: Reader
    deviation: float


def _central(
    queries: int, classes: int, neighbors: int, labels: int, epsilon: Fraction, delta: Fraction, name: str
) -> _Chosen:
    moves = vote_sensitivity(queries, classes, neighbors, labels, voters=True)
    laplace = DiscreteLaplaceNoise.for_epsilon(epsilon, int(moves.l1))
    scale = float(laplace.scale)
    options = {"laplace": _Chosen("laplace", laplace, SetCountReader(Noise("laplace", scale)), 2**0.5 * scale)}
    if delta > 0:
        gaussian = DiscreteGaussianNoise.for_budget(
            epsilon, delta, squared_shift=int(moves.l2_squared), unit_steps=True, repetitions=1, rule=Rule.PLANNED
        )
        sigma = float(gaussian.sigma)
        options["gaussian"] = _Chosen("gaussian", gaussian, SetCountReader(Noise("gaussian", sigma)), sigma)
    if name == "auto":
        return min(options.values(), key=lambda each: each.deviation)
    if name not in options:
        raise InvalidInput(f"mechanism must be auto, laplace or, with delta above 0, gaussian; got {name!r}")
    return options[name]


def _local(
    records: int, queries: int, classes: int, neighbors: int, labels: int, epsilon: Fraction, name: str
) -> _Chosen:
    # As many made-up classes as labels, so that every record has exactly the same number of cells.
    shape = VoteShape(queries, classes + labels, neighbors, labels)
    options = {each.name: each.mechanism for each in choose(shape.cells, shape.ones, epsilon).alternatives}
    best = next(iter(options))
    options |= {
        "Separation": Separation(shape, epsilon),
        "Concatenation, corrected": Concatenation(shape, epsilon, corrected=True),
        "Concatenation, as published": Concatenation(shape, epsilon, corrected=False),
    }
    chosen = best if name == "auto" else name
    if chosen not in options:
        raise InvalidInput(f"mechanism must be auto or one of {', '.join(sorted(options))}; got {name!r}")
    found = options[chosen]
    reader = SetMessageReader(found.decode, classes, labels)
    return _Chosen(chosen, found, reader, (records * found.variance_zero) ** 0.5)


def _run(
    reading: SetReading,
    receipts: Sequence[Receipt],
    groups: Clusters,
    names: NDArray[Any],
    public: NDArray[Any],
    pupil: Any,  # noqa: ANN401
    delta: Fraction,
    trust: Trust,
    copied: bool,
    recipe: dict[str, Any],
) -> MultiLabelRun:
    spends = [receipt.spend for receipt in receipts]
    spent = min((total(spends, each, Rule.PLANNED) for each in (Fraction(0), delta)), key=lambda each: each.epsilon)
    chances = reading.chances[groups.membership]
    guarantee = Guarantee(
        epsilon=Fraction(spent.epsilon),
        delta=spent.delta,
        unit=Unit(),
        adjacency=Adjacency.REPLACE_ONE,
        trust=trust,
        accountant=spent.accountant,
        caveats=() if trust is Trust.CENTRAL else (ONE_PLACE,),
        simulation=any(receipt.simulated for receipt in receipts),
    )
    return MultiLabelRun(
        student=fit_by_label(pupil, public.reshape(len(public), -1), chances),
        labels=reading.present[groups.membership],
        probabilities=chances,
        classes=names,
        queries=groups.centres,
        query_labels=reading.present,
        membership=groups.membership,
        guarantee=guarantee.with_copies() if copied else guarantee,
        receipts=tuple(receipts),
        recipe=recipe,
    )
