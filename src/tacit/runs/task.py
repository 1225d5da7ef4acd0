"""What users hand to a run, read into one checked task: the same for every method."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Trust, Unit
from tacit.core.protocols import Integers, Representation
from tacit.core.randomness import Randomness, SeededRandomness, SystemRandomness
from tacit.core.rational import Number, positive, probability, whole
from tacit.core.samples import column_names, in_order
from tacit.datasets.table import class_indices
from tacit.methods.task import Nodes, Observer, Task
from tacit.private.partition import bounded_rows, split_by_class, split_by_dirichlet, split_by_owner, split_evenly
from tacit.private.records import Private, Records
from tacit.runs.inputs import (
    class_names,
    labeled,
    matched,
    one_column,
    public_rows,
    refuse_own_encoder,
    rows,
    seeded,
    warn_of_copies,
)

__all__ = ["Holders", "Partition", "label_table", "read_nodes_task", "read_task"]

WAYS = ("even", "dirichlet", "class")


@dataclass(frozen=True)
class Partition:
    """Records divided among simulated holders: evenly, by Dirichlet draws over the classes, or by class.

    >>> Partition(3, "dirichlet", alpha=0.5).holders
    3
    """

    holders: int
    way: str = "even"
    alpha: float = 0.5

    def __post_init__(self) -> None:
        whole(self.holders, "holders")
        if self.way not in WAYS:
            raise InvalidInput(f"a partition must be one of {', '.join(WAYS)}, got {self.way!r}")

    def split(self, labels: NDArray[Any], persons: NDArray[Any] | None, seed: int) -> list[Integers]:
        """The rows of every holder; one whom a Dirichlet draw leaves without records is refused."""
        if self.way == "even":
            return split_evenly(len(labels), self.holders, seed, persons=persons)
        if persons is not None or labels.ndim != 1:
            raise InvalidInput(f"records of persons, or with sets of labels, are not divided by {self.way}")
        if self.way == "class":
            return split_by_class(labels, self.holders, seed)
        split = split_by_dirichlet(labels, self.holders, self.alpha, seed)
        if not all(len(each) for each in split):
            raise InvalidInput("a holder got no records: choose a larger alpha or fewer holders")
        return split


# A number of simulated holders, how to divide records among them, or one owner per record.
Holders = int | Partition | ArrayLike


def read_task(
    private: Any,  # noqa: ANN401
    public: ArrayLike,
    epsilon: Number | None,
    delta: Number,
    *,
    classes: Iterable[Any] | None,
    holders: Holders,
    persons: ArrayLike | None,
    unit: Unit | None,
    adjacency: str,
    trust: str | None,
    request: str,
    seed: int | None,
    test: tuple[ArrayLike, ArrayLike] | None,
    multilabel: bool,
    observer: Observer,
    raw: tuple[Sequence[Any], Any] | None = None,
) -> tuple[Task, tuple[str, ...] | None]:
    """The task of a run in one process, and the names of the columns.

    ``raw`` are private parts and public samples before they were encoded, to be looked through for copies.
    Every complaint names the parameter, and nothing is paid yet.
    """
    seed = seeded(seed)
    parties = _parties(private)
    if parties is not None:
        if not (isinstance(holders, int) and holders == 1) or persons is not None:
            raise InvalidInput("private has the records of each holder: leave out holders and persons")
        read = [_read_holder(name, pair, public) for name, pair in parties.items()]
        names = class_names(classes) if classes is not None else np.unique(np.concatenate([y for _, y in read]))
        public_samples = public_rows(public, read[0][0])
        records = []
        for name, (samples, labels) in zip(parties, read, strict=True):
            if samples.shape[1:] != public_samples.shape[1:]:
                raise InvalidInput(
                    f"holder {name}: samples have shape {samples.shape[1:]}, public ones {public_samples.shape[1:]}"
                )
            records.append(Records(samples, class_indices(labels, names, f"holder {name}: private labels")))
        called, units, sets = tuple(parties), sum(len(each.labels) for each in records), False
        features = column_names(public, "public samples")
        owned, randomness = None, _randomness(seed)
    else:
        private, public, features = matched(private, public)
        samples, labels, sets = _pair(private, multilabel)
        public_samples = public_rows(public, like=samples)
        table: NDArray[Any]
        if sets:
            table, names = label_table(private[1], classes)
            if len(table) != len(samples):
                raise InvalidInput(
                    f"there are {len(table)} label sets for {len(samples)} private samples; give one per sample"
                )
        else:
            names = np.unique(labels) if classes is None else class_names(classes)
            table = class_indices(labels, names, "private labels")
        owned = None if persons is None else one_column(persons, "persons", len(samples))
        whole_table = Records(samples, table, owned)
        unit = _unit(unit, owned)
        randomness = _randomness(seed)
        kept, bounded = np.arange(len(samples)), whole_table
        if owned is not None:
            kept = bounded_rows(owned, unit.records, randomness)
            bounded = whole_table.take(kept)
        split, called = _split(holders, whole_table, kept, seed or 0)
        records = [bounded.take(each) for each in split]
        # Whose number is public under replace-one: that of the units, never that of a person's records.
        units = len(samples) if owned is None else len(np.unique(owned))
    originals = [each.samples for each in records] if parties is not None else [samples]
    warn_of_copies(*((originals, public_samples) if raw is None else raw))

    def check_representation(representation: Representation) -> None:
        refuse_own_encoder(representation, originals[0] if len(originals) == 1 else np.concatenate(originals))

    task = Task(
        public=public_samples,
        classes=names,
        epsilon=None if epsilon is None else positive(epsilon, "epsilon"),
        delta=probability(delta, "delta"),
        unit=_unit(unit, owned),
        adjacency=_adjacency(adjacency),
        trust=_trust(trust),
        units=units,
        request=request,
        seed=seed,
        holders=called,
        parts=tuple(Private(each) for each in records),
        division=None if parties is not None else _division(holders),
        multilabel=sets,
        test=_tested(test, features, names, sets),
        randomness=randomness,
        check_representation=check_representation,
        observer=observer,
    )
    return task, features


def read_nodes_task(
    nodes: Nodes,
    public: ArrayLike,
    epsilon: Number | None,
    delta: Number,
    *,
    classes: Iterable[Any] | None,
    unit: Unit | None,
    adjacency: str,
    trust: str | None,
    request: str,
    multilabel: bool,
    observer: Observer,
) -> tuple[Task, tuple[str, ...] | None]:
    """The task of a run over nodes, where no record is here, and the names of the columns."""
    if classes is None:
        raise InvalidInput("classes must be given: nobody here sees the labels to read them off")
    task = Task(
        public=rows(public, "public"),
        classes=class_names(classes),
        epsilon=None if epsilon is None else positive(epsilon, "epsilon"),
        delta=probability(delta, "delta"),
        unit=unit or Unit(),
        adjacency=_adjacency(adjacency),
        trust=_trust(trust),
        units=whole(nodes.records, "records"),
        request=request,
        multilabel=multilabel,
        nodes=nodes,
        observer=observer,
    )
    return task, column_names(public, "public samples")


def label_table(sets: Any, classes: Iterable[Any] | None = None) -> tuple[NDArray[np.bool_], NDArray[Any]]:  # noqa: ANN401
    """Label sets as a table of bool (records, classes), and the classes' names.

    >>> label_table([["cat"], [], ["dog", "cat"]], classes=["cat", "dog"])[0].tolist()
    [[True, False], [False, False], [True, True]]
    >>> label_table(np.array([[0, 1], [1, 1]]))[0].tolist()
    [[False, True], [True, True]]
    """
    names = None if classes is None else class_names(classes)
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
            if not isinstance(label, Hashable) or label not in place:
                raise InvalidInput(f"label sets: row {row} has a label that is not among the classes")
            table[row, place[label]] = True
    return table, names


def _parties(private: Any) -> dict[str, Any] | None:  # noqa: ANN401
    """The records of each holder by name, where they came apart: a mapping, or a list of pairs (X, y)."""
    if isinstance(private, Mapping):
        found = {str(name): pair for name, pair in private.items()}
        if len(found) < len(private):
            raise InvalidInput("two holders of private have the same name")
    elif isinstance(private, list) and all(isinstance(each, tuple) and len(each) == 2 for each in private):
        found = {str(place): pair for place, pair in enumerate(private)}
    else:
        return None
    if not found:
        raise InvalidInput("private must hold the records of at least one holder, a pair (X, y)")
    return found


def _read_holder(name: str, pair: Any, public: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:  # noqa: ANN401
    """The samples and labels of one holder, or an error that names it."""
    try:
        return labeled(matched(pair, public)[0])
    except InvalidInput as error:
        raise InvalidInput(f"holder {name}: {error}") from None


def _pair(private: Any, expected: bool) -> tuple[NDArray[Any], NDArray[Any], bool]:  # noqa: ANN401
    """Samples, labels, and whether records have sets of labels: a table with several columns, or lists of classes.

    Where sets are expected, one label per record is a set of one.
    """
    if isinstance(private, tuple | list) and len(private) == 2:
        given = private[1]
        table = isinstance(given, np.ndarray) and given.ndim == 2 and given.shape[1] > 1
        lists = isinstance(given, Sequence) and any(isinstance(each, list | tuple | set | frozenset) for each in given)
        columns = lists and all(isinstance(each, list | tuple) and len(each) == 1 for each in given)
        if expected or table or (lists and not columns):
            return rows(private[0], "private"), np.empty(0), True
    samples, labels = labeled(private)
    return samples, labels, False


def _unit(unit: Unit | None, owned: NDArray[Any] | None) -> Unit:
    if unit is not None and unit.column is not None and owned is None:
        raise InvalidInput("the unit is a person: say in persons whose each record is")
    if owned is not None and unit is not None and unit.column is None:
        raise InvalidInput("persons are given, and the unit is not a person: give unit=Unit.person(column, records)")
    return unit or (Unit() if owned is None else Unit.person("person", 1))


def _split(holders: Holders, records: Records, kept: Integers, seed: int) -> tuple[list[Integers], tuple[str, ...]]:
    """The rows of each holder, counted among the records that are kept, and what the holders are called."""
    persons = None if records.persons is None else records.persons[kept]
    if isinstance(holders, Partition):
        split = holders.split(records.labels[kept], persons, seed)
    elif np.ndim(holders) == 0:
        split = split_evenly(len(kept), whole(holders, "holders"), seed, persons=persons)
    else:
        owners = one_column(holders, "holders", len(records.labels))[kept]
        return split_by_owner(owners), tuple(str(each) for each in np.unique(owners).tolist())
    return split, tuple(str(place) for place in range(len(split)))


def _division(holders: Holders) -> str | None:
    """How records are divided among made-up holders; None where each has an owner."""
    return holders.way if isinstance(holders, Partition) else "even" if np.ndim(holders) == 0 else None


def _randomness(seed: int | None) -> Randomness:
    return SystemRandomness() if seed is None else SeededRandomness(seed)


def _adjacency(name: str) -> Adjacency:
    if name not in tuple(Adjacency):
        raise InvalidInput(f"adjacency must be one of {', '.join(Adjacency)}, got {name!r}")
    return Adjacency(name)


def _trust(name: str | None) -> Trust | None:
    if name is not None and name not in tuple(Trust):
        raise InvalidInput(f"trust must be one of {', '.join(Trust)}, got {name!r}")
    return None if name is None else Trust(name)


def _tested(
    test: tuple[ArrayLike, ArrayLike] | None, features: tuple[str, ...] | None, names: NDArray[Any], sets: bool
) -> tuple[NDArray[Any], Integers] | None:
    """The test set with its columns in the order of the public samples'."""
    if test is None:
        return None
    if sets:
        raise InvalidInput("a test set is measured on where records have one label each")
    samples, labels = labeled((in_order(test[0], features, "test samples", "the public ones"), test[1]))
    return samples, class_indices(labels, names, "test labels")
