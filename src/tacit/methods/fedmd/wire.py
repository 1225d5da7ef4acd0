"""The messages of FedMD: questions about public samples, predictions, and the consensus.

Predictions are labels, probabilities or logits, always as integers in a public range, to which exact noise can be added
and for which a sensitivity can be proven. The influence of one record on a trained model is not bounded, so the
sensitivity is the complete range.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import ANYTHING, Adjacency, Floats, Integers, InvalidInput, Mechanism, Representation, Sensitivity, Unit
from tacit.core.codec import StrictReader
from tacit.mechanisms.forms import AnswerForm as AnswerForm
from tacit.mechanisms.forms import Numbers
from tacit.methods import question as asked
from tacit.methods.rknn.wire import table_sensitivity

__all__ = [
    "PREDICTION_KINDS",
    "Feedback",
    "PartyVoteAsk",
    "PredictAsk",
    "PredictionForm",
    "array_digest",
    "one_hot",
    "softmax",
]

# Larger logits are clipped; differences of smaller ones do not overflow.
LARGEST_LOGIT = 1e6


PREDICTION_KINDS = ("argmax", "softmax", "logits")
# A node trains again on every earlier round, so the number of rounds is limited.
MOST_ROUNDS = 10_000


def softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    """The probabilities of logits, row by row.

    >>> softmax(np.array([[0.0, 0.0]])).tolist()
    [[0.5, 0.5]]
    """
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    probabilities: NDArray[np.float64] = shifted / shifted.sum(axis=1, keepdims=True)
    return probabilities


def one_hot(labels: Integers, classes: int) -> Integers:
    """A one in the column of each label.

    >>> one_hot(np.array([1, 0]), 3).tolist()
    [[0, 1, 0], [1, 0, 0]]
    """
    table = np.zeros((len(labels), classes), dtype=np.int64)
    table[np.arange(len(labels)), labels] = 1
    return table


@dataclass(frozen=True)
class PredictionForm:
    """The form of a prediction that is sent: its label, its probabilities or its logits.

    Probabilities are multiples of 1/``grid`` that add up to exactly 1. Logits are centered, clipped to
    [−``bound``, ``bound``] and rounded to multiples of 1/``grid``.

    >>> PredictionForm("softmax", classes=3, grid=10).table(np.log([[0.55, 0.34, 0.11]])).tolist()
    [[6, 3, 1]]
    >>> PredictionForm("softmax", classes=3, grid=10).sensitivity(queries=5).l1
    100
    """

    kind: str
    classes: int
    grid: int = 1000
    bound: int = 8

    def __post_init__(self) -> None:
        if self.kind not in PREDICTION_KINDS:
            raise InvalidInput(f"kind must be one of {', '.join(PREDICTION_KINDS)}, got {self.kind!r}")
        if self.classes < 2:
            raise InvalidInput(f"classes must be at least 2, got {self.classes}")
        if not 1 <= self.grid <= 10**6:
            raise InvalidInput(f"grid must be between 1 and 1000000, got {self.grid}")
        if not 1 <= self.bound <= 1000:
            raise InvalidInput(f"bound must be between 1 and 1000, got {self.bound}")

    def table(self, scores: NDArray[Any]) -> Integers:
        """Integers (n, classes) from labels (n,) or, for the other two kinds, from logits (n, classes).

        A model may have diverged on its records. Its output stays in the range: NaN counts as 0.
        """
        if self.kind == "argmax":
            return one_hot(np.asarray(scores, dtype=np.int64), self.classes)
        scores = np.nan_to_num(np.asarray(scores, dtype=np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
        scores = np.clip(scores, -LARGEST_LOGIT, LARGEST_LOGIT)
        if self.kind == "logits":
            centered = scores - scores.mean(axis=1, keepdims=True)
            steps: Integers = np.rint(np.clip(centered, -self.bound, self.bound) * self.grid).astype(np.int64)
            return steps
        return _shares(softmax(scores), self.grid)

    def values(self, table: NDArray[Any]) -> NDArray[np.float64]:
        """Probabilities or logits from integers, noisy or not."""
        unit = 1 if self.kind == "argmax" else self.grid
        return np.asarray(table, dtype=np.float64) / unit

    def sensitivity(self, queries: int) -> Sensitivity:
        """The sensitivity of the table of ``queries`` predictions to replacing the model by any other.

        Rows of labels or probabilities are points of a simplex of size u: two of them are at most 2u apart in L1 and
        √2·u in L2. A cell of logits changes by at most 2·bound.
        """
        if queries < 1:
            raise InvalidInput(f"queries must be at least 1, got {queries}")
        if self.kind == "logits":
            step = 2 * self.bound * self.grid
            cells = queries * self.classes
            return Sensitivity(l1=step * cells, l2_squared=step**2 * cells, linf=step, row_range=2 * step * queries)
        unit = 1 if self.kind == "argmax" else self.grid
        return Sensitivity(
            l1=2 * unit * queries, l2_squared=2 * unit**2 * queries, linf=unit, row_range=2 * unit * queries
        )


def _shares(probabilities: NDArray[np.float64], grid: int) -> Integers:
    """Probabilities as integers that add up to ``grid``, by the largest remainder method."""
    scaled = probabilities * grid
    shares = np.floor(scaled).astype(np.int64)
    missing = grid - shares.sum(axis=1)
    # Ranks of the remainders, largest first; ties go to the class with the lower index.
    order = np.argsort(-(scaled - shares), axis=1, kind="stable")
    ranks = np.argsort(order, axis=1, kind="stable")
    shares += ranks < missing[:, None]
    return shares


def array_digest(array: NDArray[Any]) -> str:
    """A digest of an array, by which both sides check that they have the same samples.

    >>> len({array_digest(np.zeros(2)), array_digest(np.zeros(2)), array_digest(np.zeros((2, 1)))})
    2
    """
    head = repr((array.dtype.str, array.shape)).encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()


@dataclass(frozen=True)
class Feedback:
    """The consensus: a row of probabilities or logits for each of some public samples."""

    name: ClassVar[str] = "fedmd-feedback"
    method: ClassVar[str] = "fedmd"

    round: int
    rows: Integers  # (q,), into the public samples
    targets: Floats  # (q, classes)
    logits: bool = False

    @property
    def digest(self) -> str:
        """A digest of the feedback."""
        return array_digest(self.targets) + array_digest(self.rows) + str((self.round, self.logits))

    def fields(self) -> dict[str, Any]:
        """The feedback as values that can be encoded."""
        return {"round": self.round, "rows": self.rows, "targets": self.targets, "logits": self.logits}

    @classmethod
    def read(cls, fields: StrictReader) -> Feedback:
        """The feedback that ``fields`` wrote, checked."""
        rows, most = asked.read_rows(fields), asked.LARGEST_VALUE
        targets = fields.array("targets", asked.FLOAT32, (len(rows), None), -most, most)
        return cls(fields.integer("round", 0, MOST_ROUNDS), rows, targets, fields.flag("logits"))


@dataclass(frozen=True)
class PredictAsk:
    """The question for predictions of public samples, after training on ``feedback`` if there is any.

    ``mechanism`` randomizes the answer; it is None if the party answers from records that it has already released.
    ``public`` is a digest of the public samples.
    """

    name: ClassVar[str] = "fedmd-predictions"
    method: ClassVar[str] = "fedmd"
    may_refuse: ClassVar[bool] = False
    class_names: ClassVar[None] = None
    table_shape: ClassVar[None] = None

    round: int
    rows: Integers  # (q,), into the public samples
    form: PredictionForm
    mechanism: Mechanism[Any, Any] | None
    public: str
    feedback: Feedback | None
    purpose: str
    request: str

    @property
    def question(self) -> str:
        """A digest of the question, so that a retried request cannot be used for a different one."""
        before = None if self.feedback is None else self.feedback.digest
        asked_for = repr((self.round, self.form, self.public, array_digest(self.rows), before))
        # The digest is stored in ledgers, so it keeps the class name of the first version.
        return hashlib.sha256(asked_for.replace("PredictionForm(", "Form(", 1).encode()).hexdigest()

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.form.classes

    def answer_form(self, most_records: int = asked.MOST_RECORDS) -> AnswerForm:
        """The form of the mechanism's output, or of the predictions themselves without a mechanism."""
        rows, form = len(self.rows), self.form
        limit = {"argmax": 1, "softmax": form.grid}.get(form.kind, form.bound * form.grid)
        if self.mechanism is not None:
            return asked.mechanism_form(self.mechanism, rows, form.classes, limit)
        if form.kind == "argmax":
            return Numbers((rows,), 0, form.classes - 1)
        return Numbers((rows, form.classes), -limit if form.kind == "logits" else 0, limit)

    def sensitivity(self, unit: Unit, adjacency: Adjacency) -> Sensitivity:
        """That of replacing the model by any other; randomized responses allow any change."""
        one_by_one = getattr(self.mechanism, "statistic", None) == "labels"
        return ANYTHING if one_by_one else self.form.sensitivity(len(self.rows))

    def fields(self) -> dict[str, Any]:
        """The question as values that can be encoded."""
        form = self.form
        return {
            "round": self.round,
            "rows": self.rows,
            "form": {"kind": form.kind, "classes": form.classes, "grid": form.grid, "bound": form.bound},
            "mechanism": None if self.mechanism is None else asked.mechanism_fields(self.mechanism),
            "public": self.public,
            "feedback": None if self.feedback is None else self.feedback.fields(),
            **asked.request_fields(self),
        }

    @classmethod
    def read(cls, fields: StrictReader) -> PredictAsk:
        """The question that ``fields`` wrote, checked."""
        inner = fields.nested("form")
        form = PredictionForm(
            inner.one_of("kind", PREDICTION_KINDS),
            inner.integer("classes", 2, asked.MOST_CLASSES),
            inner.integer("grid", 1, 10**6),
            inner.integer("bound", 1, 1000),
        )
        inner.done()
        feedback = None
        if not fields.missing("feedback"):
            inner = fields.nested("feedback")
            feedback = Feedback.read(inner)
            inner.done()
        rows = asked.read_rows(fields)
        asked.require_small_table(fields, len(rows), form.classes)
        return cls(
            round=fields.integer("round", 0, MOST_ROUNDS),
            rows=rows,
            form=form,
            mechanism=None if fields.missing("mechanism") else asked.read_mechanism(fields.nested("mechanism")),
            public=fields.digest("public"),
            feedback=feedback,
            **asked.read_request(fields),
        )


@dataclass(frozen=True)
class PartyVoteAsk:
    """The question for the reverse k-NN votes of a party's records.

    The answer is the output of ``mechanism`` for the table of votes (queries, classes). A party knows the classes and
    the public samples, so this question has fewer fields than that of the method rknn.
    """

    name: ClassVar[str] = "fedmd-votes"
    method: ClassVar[str] = "fedmd"
    may_refuse: ClassVar[bool] = False
    class_names: ClassVar[None] = None

    queries: Floats  # (s, features), in the representation's space
    representation: Representation
    classes: int
    mechanism: Mechanism[Any, Any]
    public: str
    purpose: str
    request: str

    @property
    def question(self) -> str:
        """A digest of the question."""
        encoder = asked.representation_digest(self.representation)
        named = (self.classes, self.public, array_digest(self.queries), encoder)
        return hashlib.sha256(repr(named).encode()).hexdigest()

    @property
    def table_shape(self) -> tuple[int, int]:
        """A row per query, a column per class."""
        return len(self.queries), self.classes

    def answer_form(self, most_records: int = asked.MOST_RECORDS) -> AnswerForm:
        """The form of the mechanism's output for the votes of that many records."""
        return asked.mechanism_form(self.mechanism, *self.table_shape, most_records)

    def sensitivity(self, unit: Unit, adjacency: Adjacency) -> Sensitivity:
        """That of reverse k-NN votes for the nearest query."""
        return table_sensitivity(*self.table_shape, unit=unit, adjacency=adjacency)

    def most_votes(self, records: int, holders: int = 1) -> tuple[int, int]:
        """The largest cell and the largest total: a record votes once."""
        return records, records

    def fields(self) -> dict[str, Any]:
        """The question as values that can be encoded."""
        return {
            "queries": self.queries,
            "representation": asked.encoding_fields(self.representation),
            "classes": self.classes,
            "mechanism": asked.mechanism_fields(self.mechanism),
            "public": self.public,
            **asked.request_fields(self),
        }

    @classmethod
    def read(cls, fields: StrictReader) -> PartyVoteAsk:
        """The question that ``fields`` wrote, checked."""
        queries = asked.read_points(fields, "queries")
        classes = fields.integer("classes", 2, asked.MOST_CLASSES)
        asked.require_small_table(fields, len(queries), classes)
        return cls(
            queries=queries,
            representation=asked.read_encoding(fields.nested("representation")),
            classes=classes,
            mechanism=asked.read_mechanism(fields.nested("mechanism")),
            public=fields.digest("public"),
            **asked.read_request(fields),
        )
