"""The interface of questions, and the checks that they share when they are read.

A question has its mechanism, states its sensitivity and the form of its answer, and writes and reads itself. The
coordinator chooses every number in it, so reading checks types, shapes, ranges and sizes: no question may cost a holder
more time or memory than an honest one.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any, ClassVar, Protocol, Self

from numpy.typing import NDArray

from tacit.core import Adjacency, Exchange, InvalidInput, Mechanism, Representation, Sensitivity, Unit
from tacit.core.codec import StrictReader, encode
from tacit.mechanisms.forms import AnswerForm
from tacit.mechanisms.registry import described, mechanism_fields, read_mechanism
from tacit.representations import registry
from tacit.representations.arrays import FLOAT32

__all__ = [
    "FLOAT32",
    "LARGEST_VALUE",
    "MOST_CLASSES",
    "MOST_HOLDERS",
    "MOST_QUERIES",
    "MOST_RECORDS",
    "QUESTION_BYTES",
    "Notice",
    "Question",
    "TableQuestion",
    "encoded_by",
    "encoder_of",
    "encoding_fields",
    "is_signed",
    "mechanism_fields",
    "mechanism_form",
    "read_distances",
    "read_encoding",
    "read_mechanism",
    "read_points",
    "read_request",
    "read_rows",
    "read_samples",
    "read_table_fields",
    "representation_digest",
    "request_fields",
    "require_classes",
    "require_small_table",
    "table_fields",
    "table_shape",
]

# The largest question in bytes; a reader may allow less.
QUESTION_BYTES = 256 * 2**20
MOST_RECORDS = 10**7
MOST_CLASSES = 100_000
MOST_QUERIES = 10**6
MOST_HOLDERS = 10**7
# The largest table, so that a short question cannot fill a holder's memory.
MOST_CELLS = 2 * 10**7
INTEGERS = ("<i8",)
# Features and targets: beyond this, squares of differences are no longer finite.
LARGEST_VALUE = 1e18
# The name of a representation that begins with an encoder (``tacit.encoders.encoded``).
ENCODED = "encoded"
SAMPLE_TYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")


class Notice(Protocol):
    """A message without an answer: no records are used, and nothing is paid.

    ``name`` is its name on the wire: that of its ``method``, a hyphen, and a word.
    """

    name: ClassVar[str]
    method: ClassVar[str]

    def fields(self) -> dict[str, Any]:
        """The message as values that can be encoded."""
        ...

    @classmethod
    def read(cls, fields: StrictReader) -> Self:
        """The message that ``fields`` wrote, checked; the sender may be hostile."""
        ...


class Question(Notice, Protocol):
    """A question to a holder, which pays for ``mechanism`` under the id ``request`` and answers through it.

    ``may_refuse``: whether a holder that cannot pay may give an empty answer, while the run continues with the others.
    """

    may_refuse: ClassVar[bool]

    @property
    def mechanism(self) -> Mechanism[Any, Any] | None:
        """The mechanism of the answer; None if the holder answers from an earlier release."""
        ...

    @property
    def request(self) -> str:
        """The id under which it is paid and retried."""
        ...

    @property
    def purpose(self) -> str:
        """Its purpose, which a policy may list."""
        ...

    @property
    def question(self) -> str:
        """A digest of the question, so that a retried request cannot be used for a different one."""
        ...

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The classes in the order of the labels' indices; None if only their number is given."""
        ...

    @property
    def table_shape(self) -> tuple[int, int] | None:
        """Rows and columns of the table of counts that it asks for; None if it asks for something else."""
        ...

    def answer_form(self, most_records: int = MOST_RECORDS) -> AnswerForm:
        """The form of an answer from a holder of at most ``most_records`` records."""
        ...

    def sensitivity(self, unit: Unit, adjacency: Adjacency) -> Sensitivity:
        """The sensitivity of the statistic to one such privacy unit."""
        ...


class TableQuestion(Question, Protocol):
    """A question that is answered from a table of counts, which may be summed over holders before it is released."""

    @property
    def mechanism(self) -> Mechanism[Any, Any]:
        """The mechanism for the table."""
        ...

    def most_votes(self, records: int, holders: int = 1) -> tuple[int, int] | None:
        """The largest cell, and the largest total, for ``holders`` holders with ``records`` records together.

        None if they are not bounded.
        """
        ...


def mechanism_form(mechanism: Any, rows: int, columns: int, limit: int) -> AnswerForm:  # noqa: ANN401
    """The form of a mechanism's output for a table of counts up to ``limit``, or for ``limit`` participants.

    >>> from tacit.mechanisms.central.selection import PermuteAndFlip
    >>> mechanism_form(PermuteAndFlip(1, 2), rows=2, columns=3, limit=9)
    Numbers(shape=(2,), low=0, high=2)
    """
    return described(mechanism).answer_form(rows, columns, limit)


def table_shape(sent: Notice) -> tuple[int, int]:
    """Rows and columns of the table of counts that is asked for; refused if there is none."""
    shape: tuple[int, int] | None = getattr(sent, "table_shape", None)
    if shape is None:
        raise InvalidInput(f"{type(sent).__name__} is not answered by a table of counts")
    return shape


def is_signed(sent: Notice) -> bool:
    """Whether its table has sums, which may be negative, and not counts.

    >>> from tacit.methods.class_sums.wire import SumAsk
    >>> is_signed(SumAsk)
    True
    """
    return bool(getattr(sent, "signed", False))


def encoding_fields(representation: Representation) -> dict[str, Any]:
    """The fields of a question's representation, which may begin with an encoder of raw rows.

    >>> from tacit.representations.scaled import Identity
    >>> encoding_fields(Identity(4))
    {'kind': 'identity', 'width': 4}
    """
    if getattr(representation, "name", None) == ENCODED:
        described: Any = representation
        return {"kind": ENCODED, **described.fields()}
    return registry.representation_fields(representation)


def read_encoding(fields: StrictReader) -> Representation:
    """The representation of a question; only here, and not inside another, may it begin with an encoder.

    >>> read_encoding(StrictReader({"kind": "identity", "width": 4}, "representation"))
    Identity(width=4)
    """
    kind = fields.peek("kind")
    if not isinstance(kind, str) or kind != ENCODED:
        return registry.read_representation(fields)
    # Tables of numbers need neither this nor what it imports.
    from tacit.encoders.encoded import EncodedRows

    fields.one_of("kind", (ENCODED,))
    return EncodedRows.read(fields)


def encoder_of(sent: Notice) -> Any:  # noqa: ANN401
    """The ``EncodedRows`` representation of a question about raw rows; None if it is about numbers.

    >>> from tacit.methods.rknn.wire import VoteAsk
    >>> encoder_of(VoteAsk) is None
    True
    """
    representation = getattr(sent, "representation", None)
    return representation if getattr(representation, "name", None) == ENCODED else None


def encoded_by(encoder: Any, exchange: Exchange[Any, Any]) -> Exchange[Any, Any]:  # noqa: ANN401
    """The exchange with nodes that have raw rows: with every question they get the encoder of its features."""
    from tacit.encoders.encoded import EncodedRows
    from tacit.representations.scaled import Identity

    # Checked here once, before anybody pays.
    checked = EncodedRows.of(encoder, Identity(encoder.width))

    def put(ask: Any) -> list[Any]:  # noqa: ANN401
        return list(exchange(replace(ask, representation=replace(checked, then=ask.representation))))

    return put


def representation_digest(representation: Representation) -> str:
    """A digest of a representation with its parameters: the same question in another space is a different one.

    A representation that cannot be sent is identified by its class, and by the question's ``space``.

    >>> from tacit.representations.scaled import Identity
    >>> representation_digest(Identity(4)) == representation_digest(Identity(5))
    False
    """
    try:
        content = encode(encoding_fields(representation))
    except InvalidInput:
        content = type(representation).__qualname__.encode()
    return hashlib.sha256(content).hexdigest()


def request_fields(question: Question) -> dict[str, str]:
    """The last fields of every question."""
    return {"purpose": question.purpose, "request": question.request}


def read_request(fields: StrictReader) -> dict[str, str]:
    """The purpose and the request id.

    >>> read_request(StrictReader({"purpose": "labels", "request": "r-1"}, "question"))
    {'purpose': 'labels', 'request': 'r-1'}
    """
    return {"purpose": fields.text("purpose"), "request": fields.text("request")}


def table_fields(question: Any) -> dict[str, Any]:  # noqa: ANN401
    """The common fields of questions about a table of encoded records: classes, space and mechanism."""
    return {
        "names": list(question.class_names),
        "space": question.space,
        "mechanism": mechanism_fields(question.mechanism),
    }


def read_table_fields(fields: StrictReader, names: tuple[str, ...]) -> dict[str, Any]:
    """The classes (read before), the space, the mechanism, and the last fields of every question."""
    return {
        "class_names": names,
        "space": fields.text("space"),
        "mechanism": read_mechanism(fields.nested("mechanism")),
        **read_request(fields),
    }


def require_classes(names: tuple[str, ...]) -> None:
    """Refuse a question about fewer than two classes.

    >>> require_classes(("a", "b"))
    """
    if len(names) < 2:
        raise InvalidInput(f"names must list at least 2 classes, got {len(names)}")


def read_points(fields: StrictReader, name: str) -> NDArray[Any]:
    """Points in a representation's space, one or more."""
    found = fields.array(name, FLOAT32, (None, None), -LARGEST_VALUE, LARGEST_VALUE)
    if not found.size or len(found) > MOST_QUERIES:
        raise InvalidInput(f"the {fields.what}'s {name} must be from 1 to {MOST_QUERIES} points")
    return found


def read_distances(fields: StrictReader, name: str, queries: int) -> NDArray[Any] | None:
    """One distance per query, if any are given."""
    return None if fields.missing(name) else fields.array(name, FLOAT32, (queries,), 0, LARGEST_VALUE)


def read_samples(fields: StrictReader) -> NDArray[Any]:
    """Public samples, rows of numbers or images."""
    found = fields.array("samples", SAMPLE_TYPES)
    if not 2 <= found.ndim <= 4 or not found.size:
        raise InvalidInput(f"the {fields.what}'s samples must be one row or image per sample")
    return found


def read_rows(fields: StrictReader) -> NDArray[Any]:
    """Indices of public samples."""
    return fields.array("rows", INTEGERS, (None,), 0, MOST_QUERIES)


def require_small_table(fields: StrictReader, rows: int, columns: int) -> None:
    """Refuse a table that is too large.

    >>> require_small_table(StrictReader({}, "question"), 10**5, 10**3)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the question must be about a table of at most 20000000 cells
    """
    if rows * columns > MOST_CELLS:
        raise InvalidInput(f"the {fields.what} must be about a table of at most {MOST_CELLS} cells")
