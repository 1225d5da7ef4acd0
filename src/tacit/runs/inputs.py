"""The inputs of a run in any supported form, checked and converted to numbers; errors name the parameter.

The kind of data and the encoder depend on public data only. Private samples are encoded by that encoder, each row by
itself. Cells that cannot be read are reported to the operator only, before anything is paid and without their content.

Public samples that are copies of private records are found before anything is paid, and reported as a Python warning on
the operator's screen. The check returns nothing, so that its result cannot get into a statement, a file or a message:
whether a record is among the public samples is what a guarantee has to hide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core import InvalidInput, Representation, warn_user, whole
from tacit.core.samples import Named, column_names, in_order, numbered
from tacit.datasets.frame import Frame, as_texts, frame_of
from tacit.datasets.samples import labeled_samples, samples_of
from tacit.datasets.table import plain
from tacit.datasets.tables import row_marks
from tacit.encoders.kinds import KINDS, Recognized, photographic, recognize
from tacit.methods.task import Observer
from tacit.representations.registry import fitted_to

__all__ = [
    "Data", "GivenData", "class_names", "labeled", "matched", "one_column", "parties_of",
    "public_rows", "read_given", "refuse_own_encoder", "seeded", "warn_of_copies",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Data:
    """A description of the samples, where it does not follow from the samples themselves.

    ``kind`` (images, photographs, text, mixed, table, embedding) is recognized from the public samples by default.
    ``label`` is the label column of a private table; ``text`` and ``categories`` are the text and the categorical
    columns. ``persons`` is the person of each record, as a column's name or one value per record. ``test`` is a pair
    (X, y) on which methods with rounds are measured.

    >>> Data(label="outcome", categories=["ward"]).label
    'outcome'
    >>> Data(categories="ward")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: categories must be a list of columns, got 'ward'
    """

    kind: str | None = None
    label: str | None = None
    text: str | Sequence[str] | None = None
    categories: Sequence[str] = ()
    persons: ArrayLike | str | None = None
    test: tuple[ArrayLike, ArrayLike] | None = None

    def __post_init__(self) -> None:
        for name in ("kind", "label"):
            if not isinstance(getattr(self, name), str | None):
                raise InvalidInput(f"{name} must be a name, got {getattr(self, name)!r}")
        for name, given in (("categories", self.categories), ("text", self.text or ())):
            if isinstance(given, str) and name == "text":
                continue
            if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
                raise InvalidInput(f"{name} must be a list of columns, got {given!r}")
        if self.test is not None and not (isinstance(self.test, tuple | list) and len(self.test) == 2):
            raise InvalidInput(f"test must be a pair (X, y), got {type(self.test).__name__}")


@dataclass(frozen=True)
class GivenData:
    """The inputs of a run as arrays or named tables of numbers, with the recognized kind and encoder."""

    private: Any
    public: Any
    test: Any
    persons: Any
    holders: Any
    recognized: Recognized
    raw: tuple[tuple[Any, ...], Any]  # private parts and public samples before encoding


def read_given(
    private: Any,  # noqa: ANN401
    public: Any,  # noqa: ANN401
    data: Data | None = None,
    holders: Any = 1,  # noqa: ANN401
    nodes: bool = False,
    photographs: bool = False,
    observer: Observer | None = None,
) -> GivenData:
    """The inputs as numbers; ``persons`` and ``holders`` may name columns of the private table.

    An encoder for ``nodes`` has no pretrained model: a node need not have it, or may have other weights. With
    ``photographs`` images are encoded by one that tells them apart. The ``observer`` gets the recognized kind of the
    public samples before records are encoded, which may take minutes.

    >>> table = np.array([(61.0, "f", 1), (50.0, "m", 0)] * 10, dtype=[("age", "f8"), ("sex", "U1"), ("ill", "i8")])
    >>> given = read_given(table, table[["age", "sex"]], Data(label="ill"))
    >>> given.recognized.kind, given.public.shape, given.private[1][:2].tolist()
    ('mixed', (20, 5), [1, 0])
    """
    data = data or Data()
    opened = samples_of(public, "public samples")
    if isinstance(opened, Frame) and isinstance(data.persons, str) and data.persons in opened.columns:
        # The person of a public row is neither a feature nor protected.
        public = opened = opened.take([name for name in opened.columns if name != data.persons])
    text = () if data.text is None else (data.text,) if isinstance(data.text, str) else tuple(data.text)
    observer = observer or Observer()
    kind = data.kind
    if kind is None and photographs and not nodes and photographic(opened):
        observer.stage("encoding the images by a pretrained network")
        kind = "photographs"
    found = recognize(opened, kind, text, tuple(data.categories), False if nodes else None)
    observer.data(found.lines)
    raw: list[Any] = []
    persons, test = data.persons, data.test
    columns = tuple(each if isinstance(each, str) else None for each in (persons, holders))
    if private is not None:
        private, persons, holders = _read_private(private, found, data.label, columns, (persons, holders), raw)
    if test is not None:
        test = (_encoded(test[0], samples_of(test[0], "test samples"), found), test[1])
    seen = _encoded(public, opened, found) if found.public is None else found.public
    return GivenData(private, seen, test, persons, holders, found, (tuple(raw), opened))


def _read_private(
    private: Any,  # noqa: ANN401
    found: Recognized,
    label: str | None,
    columns: tuple[str | None, ...],
    owners: tuple[Any, Any],
    raw: list[Any],
) -> tuple[Any, Any, Any]:
    """The pair (X, y) or every holder's pair as numbers, persons and holders. Samples are appended to ``raw``."""
    parties = parties_of(private)
    if parties is not None:
        pairs = {}
        for name, pair in parties.items():
            try:
                samples, labels, _, _ = labeled_samples(pair, None if _is_pair(pair) else label)
                pairs[name] = (_told(_original(pair, samples), samples, found), labels)
                raw.append(samples)
            except InvalidInput as error:
                raise InvalidInput(f"holder {name}: {error}") from None
        return (pairs if isinstance(private, Mapping) else list(pairs.values())), *owners
    samples, labels, *owned = labeled_samples(private, label, *columns)
    given = samples if any(columns) else _original(private, samples)
    pair = (_told(given, samples, found), labels)
    raw.append(samples)
    persons, holders = (before if own is None else own for before, own in zip(owners, owned, strict=True))
    return pair, persons, holders


def parties_of(private: Any) -> dict[str, Any] | None:  # noqa: ANN401
    """The records of each holder by name, from a mapping or a list of pairs (X, y); None for pooled records.

    >>> sorted(parties_of([([[0.0]], [1]), ([[1.0]], [0])]))
    ['0', '1']
    """
    if isinstance(private, Mapping):
        found = {str(name): pair for name, pair in private.items()}
        if len(found) < len(private):
            raise InvalidInput("two holders of private have the same name")
    elif isinstance(private, list) and all(isinstance(each, tuple) and len(each) == 2 for each in private):
        found = {str(place): pair for place, pair in enumerate(private)}
    else:
        return None
    if not found:
        raise InvalidInput("private must contain the records of at least one holder, a pair (X, y)")
    return found


def _is_pair(values: Any) -> bool:  # noqa: ANN401
    return isinstance(values, tuple | list) and len(values) == 2


def _original(private: Any, samples: Any) -> Any:  # noqa: ANN401
    """The samples as the user gave them, if no column was removed."""
    return private[0] if _is_pair(private) else samples


def _told(given: Any, samples: Any, found: Recognized) -> Any:  # noqa: ANN401
    """Private samples as numbers; cells that cannot be read are a warning on the operator's screen."""
    encoded = _encoded(given, samples, found, "private samples")
    if found.encoder is not None and (said := found.encoder.unread(samples)):
        warn_user(
            f"private samples: {'; '.join(said)}. What cannot be read counts as missing, an unknown level as other. "
            "This message is for you only: nothing that is written or sent contains it"
        )
    return encoded


def _encoded(given: Any, samples: Any, found: Recognized, what: str = "") -> Any:  # noqa: ANN401
    """The samples as numbers: encoded, or unchanged if they are numbers."""
    if found.encoder is not None:
        return found.encoder.encode(samples)
    if isinstance(samples, Frame):
        if given is samples or np.asarray(given).dtype.kind not in "fiub":
            return Named(samples.numbers().samples, samples.columns)
        return given
    if not isinstance(samples, Named | np.ndarray):
        raise InvalidInput(f"{what} are not of the same kind as the public samples, {KINDS[found.kind]}")
    return samples


def matched(private: Any, public: Any) -> tuple[Any, Any, tuple[str, ...] | None]:  # noqa: ANN401
    """The private pair with its columns in the order of the public table's, the public table, and the columns' names.

    Tables with other columns are refused. If one side has no names, columns are matched by position, as in
    scikit-learn, and the user is warned.

    >>> from tacit.core.samples import Named
    >>> private = Named(np.array([[61.0, 2.5]]), ("age", "dose"))
    >>> pair, _, names = matched((private, ["ill"]), Named(np.array([[1.0, 50.0]]), ("dose", "age")))
    >>> pair[0].values.tolist(), names
    ([[2.5, 61.0]], ('dose', 'age'))
    """
    names = column_names(public, "public samples")
    if not isinstance(private, tuple | list) or len(private) != 2:
        # The error is raised where the pair is read.
        return private, public, names
    given = column_names(private[0], "private samples")
    if (given is None) != (names is None) and not numbered(given or names or ()):
        warn_user(
            f"the {'public' if names is None else 'private'} samples have no column names and the others do: columns "
            "are matched by position. Make sure that they are in the same order"
        )
    return (in_order(private[0], names, "private samples", "the public ones"), private[1]), public, names


def labeled(private: Any) -> tuple[NDArray[Any], NDArray[Any]]:  # noqa: ANN401
    """The private samples and their labels, from a pair of them.

    >>> labeled(([[1.0], [2.0]], [["a"], ["b"]]))[1].tolist()
    ['a', 'b']
    """
    if not isinstance(private, tuple | list) or len(private) != 2:
        raise InvalidInput("private must be a pair (X, y): samples and their labels")
    samples = rows(private[0], "private")
    labels = _array(private[1], "private labels")
    # One label per row is often kept as a table of one column.
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or len(labels) != len(samples):
        raise InvalidInput(f"private labels have shape {labels.shape} for {len(samples)} samples; give one per sample")
    return samples, plain(_without_gaps(labels, "private labels"))


def public_rows(public: ArrayLike, like: NDArray[Any]) -> NDArray[Any]:
    """The public samples, which must have as many features as the private ones.

    >>> public_rows([[1.0, 2.0]], like=np.zeros((5, 2))).shape
    (1, 2)
    """
    samples = rows(public, "public")
    if like[0].size != samples[0].size:
        raise InvalidInput(
            f"private samples have {like[0].size} features and public ones {samples[0].size}; "
            "they must be of the same kind"
        )
    return samples


def rows(values: ArrayLike, what: str) -> NDArray[Any]:
    """Samples as finite numbers, one row or one image per sample."""
    names = column_names(values, f"{what} samples")
    samples = _array(values, f"{what} samples")
    if samples.dtype.kind in "OUST" and samples.ndim == 2:
        samples = _numbers(samples, names, what)
    if samples.dtype.kind not in "fiub" or samples.ndim < 2:
        raise InvalidInput(f"{what} samples must be numbers, one row per sample; got {samples.dtype}{samples.shape}")
    if not samples.size:
        raise InvalidInput(f"the {what} part is empty")
    if samples.dtype.kind == "f" and not np.isfinite(samples).all():
        row, *place = map(int, np.argwhere(~np.isfinite(samples))[0])
        where = f"{what} samples: row {row}{_column(place, names)}"
        raise InvalidInput(f"{where} has a value that is not a finite number (NaN or inf)")
    return samples


def _numbers(cells: NDArray[Any], names: tuple[str, ...] | None, what: str) -> NDArray[np.float64]:
    """Python objects, as in data frames with several types, as numbers; text is not parsed."""
    for row, column in np.ndindex(cells.shape):
        cell = cells[row, column]
        if cell is None or (cell != cell) is True:
            raise InvalidInput(f"{what} samples: row {row}{_column([column], names)} is missing")
        if not isinstance(cell, bool | int | float | np.number | np.bool_):
            raise InvalidInput(f"{what} samples must be numbers; row {row}{_column([column], names)} has none")
    return cells.astype(np.float64)


def _column(place: Sequence[int], names: tuple[str, ...] | None) -> str:
    """The column's name, or its position."""
    if len(place) != 1:
        return ""
    return f", column {place[0]}" if names is None else f", column {names[place[0]]!r}"


def one_column(values: ArrayLike, name: str, records: int) -> NDArray[Any]:
    """One entry per record, such as its person or holder.

    >>> one_column(["ada", None], "persons", 2)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: persons: row 1 is missing
    """
    column = _array(values, name)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise InvalidInput(f"{name} must have one entry per record, got an array of shape {column.shape}")
    if len(column) != records:
        raise InvalidInput(f"{name} has {len(column)} entries for {records} records")
    return plain(_without_gaps(column, name))


def class_names(classes: Iterable[Any]) -> NDArray[Any]:
    """The user's list of classes, checked.

    >>> class_names(2)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: classes must be a list of the classes, for example range(10), got 2
    """
    if isinstance(classes, str | bytes) or not isinstance(classes, Iterable):
        raise InvalidInput(f"classes must be a list of the classes, for example range(10), got {classes!r}")
    names = _array(list(classes), "classes")
    if names.ndim != 1:
        raise InvalidInput(f"classes must be a plain list of the classes, got an array of shape {names.shape}")
    found = plain(_without_gaps(names, "classes"))
    if len(set(found.tolist())) < len(found):
        raise InvalidInput("a class is listed twice in classes")
    return found


def seeded(seed: Any) -> int | None:  # noqa: ANN401
    """The seed of a simulation, checked; None for a real run.

    >>> seeded(None) is None, seeded(7)
    (True, 7)
    """
    return None if seed is None else whole(seed, "seed", least=0)


def refuse_own_encoder(representation: Representation, samples: NDArray[Any]) -> None:
    """Refuse a representation that was fitted to exactly these private records, in any order: that is not paid for.

    Each representation detects this itself, as far as it can; one fitted to some of the records is not detected. Only
    the owner of the records is told: a holder that refused it would confirm a coordinator's guess of all its records.
    """
    if fitted_to(representation, samples):
        raise InvalidInput("the representation was fitted on these private records; fit it on public samples")


def _array(values: ArrayLike, name: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except (ValueError, TypeError):
        raise InvalidInput(f"{name} must be an array: its rows are of different lengths or kinds") from None


def _without_gaps(column: NDArray[Any], name: str) -> NDArray[Any]:
    """The column; a missing entry is an error."""
    if column.dtype.kind in "OfcmM":
        # NaN and NaT are not equal to themselves.
        missing = [row for row, each in enumerate(column.tolist()) if each is None or each != each]
        if missing:
            raise InvalidInput(f"{name}: row {missing[0]} is missing")
    return column


def warn_of_copies(private: Iterable[Any], public: Any) -> None:  # noqa: ANN401
    """Warn the user if public rows are exact copies of private ones.

    >>> warn_of_copies([np.array([[1.0]]), np.array([[2.0]])], np.array([[3.0]]))
    """
    known = {mark for part in private for mark in _marks(part)}
    copies = sum(mark in known for mark in _marks(public))
    if copies:
        what = "row is an exact copy of a private one" if copies == 1 else "rows are exact copies of private ones"
        warn_user(
            f"{copies} public {what}. Public data is not protected; remove what is not public. This message is for you "
            "only: nothing that is written or sent contains it"
        )


def _marks(samples: Frame | NDArray[Any]) -> Iterator[int]:
    """A hash of every row of numbers, texts or table cells."""
    if isinstance(samples, Frame):
        columns = (as_texts(samples.column(name)) for name in samples.columns)
        yield from map(hash, zip(*columns, strict=True))
    elif np.asarray(samples).dtype.kind in "UTO":
        texts = np.asarray(samples)
        yield from _marks(frame_of(texts.reshape(len(texts), -1), "samples"))
    else:
        yield from row_marks(samples)
