"""From the inputs of a run to one checked task, the same for every method."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core import Integers, InvalidInput, Representation, Unit
from tacit.core.guarantee import read_terms
from tacit.core.randomness import Randomness, SeededRandomness, SystemRandomness
from tacit.core.rational import Number, whole
from tacit.core.samples import column_names, in_order
from tacit.datasets.table import class_indices
from tacit.encoders.kinds import KINDS
from tacit.methods.question import encoded_by
from tacit.methods.registry import Method
from tacit.methods.task import Nodes, Observer, Task
from tacit.private.partition import bounded_rows, split_by_class, split_by_dirichlet, split_by_owner, split_evenly
from tacit.private.records import Private, Records
from tacit.runs.inputs import (
    GivenData,
    class_names,
    labeled,
    matched,
    one_column,
    parties_of,
    public_rows,
    refuse_own_encoder,
    rows,
    seeded,
    warn_of_copies,
)

__all__ = ["Holders", "Partition", "Terms", "label_table", "randomness_of", "read_nodes_task", "read_task"]

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
        """The rows of every holder; an error if a Dirichlet draw leaves a holder without records."""
        if self.way == "even":
            return split_evenly(len(labels), self.holders, seed, persons=persons)
        if persons is not None or labels.ndim != 1:
            raise InvalidInput(f"records of persons and multi-label records cannot be partitioned by {self.way}")
        if self.way == "class":
            return split_by_class(labels, self.holders, seed)
        split = split_by_dirichlet(labels, self.holders, self.alpha, seed)
        if not all(len(each) for each in split):
            raise InvalidInput("a holder got no records: choose a larger alpha or fewer holders")
        return split


# A number of simulated holders, a partition, or one owner per record.
Holders = int | Partition | ArrayLike


@dataclass(frozen=True)
class Terms:
    """The user's privacy parameters of a run, which are checked together with the data."""

    epsilon: Number | None
    delta: Number
    classes: Iterable[Any] | None
    unit: Unit | None
    adjacency: str
    trust: str | None
    request: str
    seed: int | None
    multilabel: bool
    observer: Observer

    def read(self) -> dict[str, Any]:
        """The fields of a task that depend on the terms only."""
        return {
            **read_terms(self.epsilon, self.delta, self.adjacency, self.trust),
            "request": self.request,
            "observer": self.observer,
        }


@dataclass(frozen=True)
class _Held:
    """The records of all holders, and what is public about them."""

    public: NDArray[Any]
    features: tuple[str, ...] | None
    classes: NDArray[Any]
    records: list[Records]
    names: tuple[str, ...]
    units: int
    unit: Unit
    division: str | None
    multilabel: bool
    originals: list[NDArray[Any]]
    randomness: Randomness


def read_task(given: GivenData, terms: Terms) -> tuple[Task, tuple[str, ...] | None]:
    """The task of a run in one process, and the column names.

    Errors name the parameter, and nothing is paid yet.
    """
    seed = seeded(terms.seed)
    parties = parties_of(given.private)
    held = _read_pooled(given, terms, seed) if parties is None else _read_parties(parties, given, terms, seed)
    encoded = given.recognized.kind in ("mixed", "text")
    warn_of_copies(*(given.raw if encoded else (held.originals, held.public)))

    def check_representation(representation: Representation) -> None:
        refuse_own_encoder(representation, _together(held.originals))

    task = Task(
        **terms.read(),
        public=held.public,
        classes=held.classes,
        unit=held.unit,
        units=held.units,
        seed=seed,
        holders=held.names,
        parts=tuple(Private(each) for each in held.records),
        division=held.division,
        multilabel=held.multilabel,
        test=_tested(given.test, held.features, held.classes, held.multilabel),
        randomness=held.randomness,
        check_representation=check_representation,
    )
    return task, held.features


def _read_parties(parties: Mapping[str, Any], given: GivenData, terms: Terms, seed: int | None) -> _Held:
    """Records that are given as one pair (X, y) per holder."""
    if not (isinstance(given.holders, int) and given.holders == 1) or given.persons is not None:
        raise InvalidInput("private has the records of each holder: leave out holders and persons")
    read = [_read_holder(name, pair, given.public) for name, pair in parties.items()]
    classes = np.unique(np.concatenate([y for _, y in read])) if terms.classes is None else class_names(terms.classes)
    public = public_rows(given.public, read[0][0])
    records = []
    for name, (samples, labels) in zip(parties, read, strict=True):
        if samples.shape[1:] != public.shape[1:]:
            raise InvalidInput(f"holder {name}: samples have shape {samples.shape[1:]}, public ones {public.shape[1:]}")
        records.append(Records(samples, class_indices(labels, classes, f"holder {name}: private labels")))
    return _Held(
        public=public,
        features=column_names(given.public, "public samples"),
        classes=classes,
        records=records,
        names=tuple(parties),
        units=sum(len(each.labels) for each in records),
        unit=_unit(terms.unit, None),
        division=None,
        multilabel=False,
        originals=[each.samples for each in records],
        randomness=randomness_of(seed),
    )


def _read_pooled(given: GivenData, terms: Terms, seed: int | None) -> _Held:
    """Records that are given as one pair (X, y), divided among the holders."""
    private, public, features = matched(given.private, given.public)
    samples, labels, sets = _pair(private, terms.multilabel)
    public = public_rows(public, like=samples)
    table, classes = _labels(private, samples, labels, terms.classes, sets)
    persons = None if given.persons is None else one_column(given.persons, "persons", len(samples))
    records, unit, randomness = Records(samples, table, persons), _unit(terms.unit, persons), randomness_of(seed)
    kept, bounded = np.arange(len(samples)), records
    if persons is not None:
        kept = bounded_rows(persons, unit.records, randomness)
        bounded = records.take(kept)
    split, names = _split(given.holders, records, kept, seed or 0)
    return _Held(
        public=public,
        features=features,
        classes=classes,
        records=[bounded.take(each) for each in split],
        names=names,
        # Public under replace-one adjacency is the number of units, never that of a person's records.
        units=len(samples) if persons is None else len(np.unique(persons)),
        unit=unit,
        division=_division(given.holders),
        multilabel=sets,
        originals=[samples],
        randomness=randomness,
    )


def _labels(
    private: Any,  # noqa: ANN401
    samples: NDArray[Any],
    labels: NDArray[Any],
    classes: Iterable[Any] | None,
    sets: bool,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The labels as class indices, or for multi-label data as a table, and the names of the classes."""
    if not sets:
        names = np.unique(labels) if classes is None else class_names(classes)
        return class_indices(labels, names, "private labels"), names
    table, names = label_table(private[1], classes)
    if len(table) != len(samples):
        raise InvalidInput(f"there are {len(table)} label sets for {len(samples)} private samples; give one per sample")
    return table, names


def _together(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def read_nodes_task(
    nodes: Nodes, given: GivenData, terms: Terms, method: Method
) -> tuple[Task, tuple[str, ...] | None]:
    """The task of a run over nodes, without records in this process, and the column names.

    The encoder of a mixed table or of texts comes with every question, and nodes encode their raw rows by it. Image
    files need none: nodes have arrays of the same shape.
    """
    kind, encoder = KINDS[given.recognized.kind], given.recognized.encoder
    if isinstance(why_not := getattr(encoder, "why_not", None), str):
        raise InvalidInput(why_not)
    if encoder is not None and encoder.at_nodes == "sent":
        if not method.encodes:
            raise InvalidInput(
                f"the public samples are {kind}, and over nodes {method.name} takes numbers: choose auto, rknn or "
                "class_sums, or encode the samples by the same public rule at every node"
            )
        nodes = replace(nodes, exchange=encoded_by(encoder, nodes.exchange))
    if terms.classes is None:
        raise InvalidInput("classes must be given: the coordinator does not see the labels")
    task = Task(
        **terms.read(),
        public=rows(given.public, "public"),
        classes=class_names(terms.classes),
        unit=terms.unit or Unit(),
        units=whole(nodes.records, "records"),
        multilabel=terms.multilabel,
        nodes=nodes,
    )
    return task, column_names(given.public, "public samples")


def label_table(sets: Any, classes: Iterable[Any] | None = None) -> tuple[NDArray[np.bool_], NDArray[Any]]:  # noqa: ANN401
    """Label sets as a table of bool (records, classes), and the classes' names.

    >>> label_table([["cat"], [], ["dog", "cat"]], classes=["cat", "dog"])[0].tolist()
    [[True, False], [False, False], [True, True]]
    >>> label_table(np.array([[0, 1], [1, 1]]))[0].tolist()
    [[False, True], [True, True]]
    >>> from tacit.core.samples import Named
    >>> label_table(Named(np.array([[0, 1]]), ("cat", "dog")), classes=["dog", "cat"])
    (array([[ True, False]]), array(['dog', 'cat'], dtype='<U3'))
    """
    names = None if classes is None else class_names(classes)
    if (columns := column_names(sets, "label sets")) is not None:
        names = np.array(columns) if names is None else names
        sets = np.asarray(in_order(sets, tuple(map(str, names)), "label sets", "the classes"))
    if isinstance(sets, np.ndarray):
        if sets.ndim != 2 or sets.dtype.kind not in "biu" or not np.isin(sets, (0, 1)).all():
            raise InvalidInput("multi-label data must be a table of zeros and ones, or a list of classes per record")
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


def _read_holder(name: str, pair: Any, public: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:  # noqa: ANN401
    """The samples and labels of one holder; errors name the holder."""
    try:
        return labeled(matched(pair, public)[0])
    except InvalidInput as error:
        raise InvalidInput(f"holder {name}: {error}") from None


def _pair(private: Any, expected: bool) -> tuple[NDArray[Any], NDArray[Any], bool]:  # noqa: ANN401
    """Samples, labels, and whether the labels are multi-label: a table with several columns, or lists of classes.

    If multi-label data is expected, one label per record is a set of one.
    """
    if isinstance(private, tuple | list) and len(private) == 2:
        given = private[1]
        table = np.ndim(given) == 2 and np.shape(given)[1] > 1 if _is_table(given) else False
        lists = isinstance(given, Sequence) and any(isinstance(each, list | tuple | set | frozenset) for each in given)
        columns = lists and all(isinstance(each, list | tuple) and len(each) == 1 for each in given)
        if expected or table or (lists and not columns):
            return rows(private[0], "private"), np.empty(0), True
    samples, labels = labeled(private)
    return samples, labels, False


def _is_table(labels: Any) -> bool:  # noqa: ANN401
    return isinstance(labels, np.ndarray) or column_names(labels, "label sets") is not None


def _unit(unit: Unit | None, owned: NDArray[Any] | None) -> Unit:
    if unit is not None and unit.column is not None and owned is None:
        raise InvalidInput("the unit is a person: give persons, the person of each record")
    if owned is not None and unit is not None and unit.column is None:
        raise InvalidInput("persons are given, but the unit is not a person: give unit=Unit.person(column, records)")
    return unit or (Unit() if owned is None else Unit.person("person", 1))


def _split(holders: Holders, records: Records, kept: Integers, seed: int) -> tuple[list[Integers], tuple[str, ...]]:
    """The rows of each holder, as indices into the kept records, and the holders' names."""
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
    """How records are divided among simulated holders; None if each record has an owner."""
    return holders.way if isinstance(holders, Partition) else "even" if np.ndim(holders) == 0 else None


def randomness_of(seed: int | None) -> Randomness:
    """The system's generator, or with a seed that of a simulation.

    >>> randomness_of(None).origin, randomness_of(1).origin
    ('system', 'seeded')
    """
    return SystemRandomness() if seed is None else SeededRandomness(seed)


def _tested(
    test: tuple[ArrayLike, ArrayLike] | None, features: tuple[str, ...] | None, names: NDArray[Any], sets: bool
) -> tuple[NDArray[Any], Integers] | None:
    """The test set with its columns in the order of the public samples."""
    if test is None:
        return None
    if sets:
        raise InvalidInput("a test set needs records with one label each")
    samples, labels = labeled((in_order(test[0], features, "test samples", "the public ones"), test[1]))
    return samples, class_indices(labels, names, "test labels")
