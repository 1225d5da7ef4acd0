"""The common part of holders of tables: checks before paying, and the release of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, Release, Representation, Sensitivity
from tacit.methods.encoding import require_encodable
from tacit.methods.question import TableQuestion, table_shape
from tacit.private.gate import Gate
from tacit.private.partition import require_owned
from tacit.private.records import Private, Records, inspect, schema_of

__all__ = ["first_labels", "held", "release_table", "require_few_labels", "require_label_sets", "require_single_labels"]


def held(
    records: Sequence[Private[Records]], gate: Gate, missing: str = "a holder needs at least one set of records"
) -> list[Private[Records]]:
    """The sets of records behind one account: at least one, with person identifiers if the account protects persons.

    >>> from tacit.core.account import Ceiling
    >>> from tacit.ledger import open_ledger
    >>> held([], Gate(open_ledger("memory:", {"study": Ceiling(1)}), "study"), "at least one holder is needed")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: at least one holder is needed
    """
    if not records:
        raise InvalidInput(missing)
    require_owned(records, gate.unit)
    return list(records)


def require_single_labels(
    records: Sequence[Private[Records]], representation: Representation, width: int, takes: str
) -> None:
    """Refuse a question that records of this kind cannot answer, by trying it on a made-up record.

    >>> from tacit.representations.scaled import Identity
    >>> own = Private(Records(np.zeros((4, 2)), np.zeros(4, dtype=np.int64)))
    >>> require_single_labels([own], Identity(2), 2, "class sums take")
    """
    for part in records:
        schema = schema_of(part)
        if schema.sets is not None:
            raise InvalidInput(f"records have sets of labels, and {takes} one label per record; nothing was charged")
        require_encodable(representation, schema.blank, width)


def require_label_sets(
    records: Sequence[Private[Records]], representation: Representation, width: int, classes: int
) -> None:
    """Refuse a question about sets of labels that records of this kind cannot answer, as ``require_single_labels``.

    >>> from tacit.representations.scaled import Identity
    >>> own = Private(Records(np.zeros((4, 2)), np.zeros((4, 3), dtype=np.bool_)))
    >>> require_label_sets([own], Identity(2), 2, 3)
    """
    for part in records:
        schema = schema_of(part)
        if schema.sets != classes:
            raise InvalidInput("records must have sets of the classes that are asked about; nothing was charged")
        require_encodable(representation, schema.blank, width)


def require_few_labels(records: Sequence[Private[Records]], most: int | None) -> None:
    """Refuse, on the operator's screen, records with more labels than declared, of which some would be left out.

    >>> require_few_labels([Private(Records(np.zeros((1, 2)), np.ones((1, 3), dtype=np.bool_)))], 2)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: a private record has more than max_labels = 2 labels; reduce the sets first
    """

    def check(parts: list[Records]) -> None:
        if most is not None and parts[0].labels.sum(axis=1).max() > most:
            raise InvalidInput(f"a private record has more than max_labels = {most} labels; reduce the sets first")

    for part in records:
        inspect([part], check)


def first_labels(sets: NDArray[np.bool_], most: int) -> NDArray[np.bool_]:
    """The label sets (n, classes); of one that is larger than the question allows, the first labels.

    A refusal would reveal, unpaid, that there is a record with more labels.

    >>> first_labels(np.array([[True, False, True], [False, True, False]]), 1).tolist()
    [[True, False, False], [False, True, False]]
    """
    first: NDArray[np.bool_] = sets & (np.cumsum(sets, axis=1) <= most)
    return first


def release_table(
    gate: Gate, ask: TableQuestion, table: Private[Integers], sensitivity: Sensitivity | None = None
) -> Release[Any]:
    """Pay, and return the mechanism's output for a table; if the table cannot be computed, for zeros.

    ``sensitivity`` is by default that of the question; a published voting rule needs the number of records for it.
    """
    return gate.release(
        table,
        lambda: np.zeros(table_shape(ask), dtype=np.int64),
        ask.sensitivity(gate.unit, gate.adjacency) if sensitivity is None else sensitivity,
        ask.mechanism,
        ask.purpose,
        ask.request,
        ask.question,
    )
