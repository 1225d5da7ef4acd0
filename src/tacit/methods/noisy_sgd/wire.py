"""The question of noisy SGD: weights are sent, and the noisy sum of all records' gradients comes back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tacit.core import Adjacency, Integers, InvalidInput, Mechanism, Representation, Sensitivity, Unit
from tacit.core.codec import StrictReader
from tacit.mechanisms.forms import AnswerForm
from tacit.methods import question as asked
from tacit.methods.class_sums.wire import (
    LARGEST_RADIUS,
    MOST_COMPONENTS,
    Norm,
    longest_l1,
    read_norm,
    read_scale,
    require_grid,
)
from tacit.methods.noisy_sgd.gradient import LARGEST_WEIGHT

__all__ = ["LARGEST_GRADIENT", "GradientAsk", "gradient_sensitivity"]

# Squares of gradients of this norm fit in 64 bits.
LARGEST_GRADIENT = 2**31


def gradient_sensitivity(
    cells: int,
    radius: int,
    norm: Norm = "l2",
    unit: Unit = Unit(),  # noqa: B008
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
) -> Sensitivity:
    """The sensitivity of the sum of gradients to one privacy unit.

    A record adds an integer vector of ``cells`` cells with a norm of at most R = ``radius`` in ``norm``, for any
    weights; or nothing, if it cannot be encoded or has another class.

    **Replace-one.** g − g′ has a norm of at most 2R, which two opposite gradients reach. From or to an empty record it
    is R. **Add-remove.** One g is added or removed: R. **Persons.** Each of m records changes the sum at most that
    much, and all may add in one direction: m times as much. A vector within R in L1 is within R in L2; one within R in
    L2 is within ⌊√cells · R⌋ in L1, and no cell is larger than R in either.

    >>> gradient_sensitivity(cells=6, radius=10)
    Sensitivity(l1=48, l2_squared=400, linf=20, row_range=inf)
    >>> gradient_sensitivity(6, 10, unit=Unit.person("patient", 3), adjacency=Adjacency.ADD_REMOVE).l2_squared
    900
    """
    if unit.holder:
        raise InvalidInput("noisy SGD protects records, or persons with a bounded number of records; not whole holders")
    if cells < 1 or radius < 1:
        raise InvalidInput("a gradient needs at least one cell and a radius of at least 1")
    times = unit.records * (2 if adjacency is Adjacency.REPLACE_ONE else 1)
    return Sensitivity(
        l1=times * longest_l1(radius, cells, norm), l2_squared=(times * radius) ** 2, linf=times * radius
    )


@dataclass(frozen=True)
class GradientAsk:
    """The question for the sum of the records' gradients at these weights.

    A record is encoded by ``representation``, multiplied by ``scale``, clipped to ``length`` and rounded toward zero;
    ``offset`` is one more column. ``weights`` (features + 1, classes) are integers, as for ``gradient.errors_of``. A
    record's gradient is clipped to ``radius`` in ``norm``. The answer is the output of ``mechanism`` for the sum, a row
    per class.
    """

    name: ClassVar[str] = "noisy_sgd-gradient"
    method: ClassVar[str] = "noisy_sgd"
    may_refuse: ClassVar[bool] = False
    signed: ClassVar[bool] = True

    representation: Representation
    scale: float
    length: int
    offset: int
    weights: Integers
    radius: int
    norm: Norm
    class_names: tuple[str, ...]
    space: str
    mechanism: Mechanism[Any, Any]
    purpose: str
    request: str

    def __post_init__(self) -> None:
        asked.require_classes(self.class_names)
        require_grid(self.scale, self.norm)
        if not 1 <= self.length <= LARGEST_RADIUS or not 0 <= self.offset <= self.length:
            raise InvalidInput(f"length must be from 1 to {LARGEST_RADIUS}, and offset from 0 to the length")
        if not 1 <= self.radius <= LARGEST_GRADIENT:
            raise InvalidInput(f"radius must be from 1 to {LARGEST_GRADIENT}, got {self.radius}")
        shape, most = self.weights.shape, MOST_COMPONENTS + 1
        if len(shape) != 2 or not 2 <= shape[0] <= most or shape[1] != len(self.class_names):
            raise InvalidInput("weights must have a row per feature and one more, and a column per class")
        if self.weights.dtype != np.int64 or (np.abs(self.weights) > LARGEST_WEIGHT).any():
            raise InvalidInput(f"weights must be whole numbers within {LARGEST_WEIGHT}")

    @property
    def question(self) -> str:
        """A digest of the question, so that a retried request cannot be used for a different one."""
        encoder = asked.representation_digest(self.representation)
        named = (self.scale, self.length, self.offset, self.radius, self.norm, self.class_names, self.space, encoder)
        content = hashlib.sha256(repr((named, self.weights.shape)).encode())
        content.update(np.ascontiguousarray(self.weights).tobytes())
        return content.hexdigest()

    @property
    def components(self) -> int:
        """The number of features of the representation."""
        return int(self.weights.shape[0]) - 1

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    @property
    def table_shape(self) -> tuple[int, int]:
        """A row per class; a column per feature, and one of the offset."""
        return self.classes, self.components + 1

    def answer_form(self, most_records: int = asked.MOST_RECORDS) -> AnswerForm:
        """The form of the mechanism's output for the gradients of that many records."""
        return asked.mechanism_form(self.mechanism, *self.table_shape, most_records * self.radius)

    def sensitivity(self, unit: Unit, adjacency: Adjacency) -> Sensitivity:
        """The sensitivity of the table to one privacy unit."""
        return gradient_sensitivity(self.classes * (self.components + 1), self.radius, self.norm, unit, adjacency)

    def most_votes(self, records: int, holders: int = 1) -> tuple[int, int]:
        """The largest absolute value of a cell, and of the sum over all cells.

        >>> from tacit.representations.scaled import Identity
        >>> none = np.zeros((3, 2), dtype=np.int64)
        >>> ask = GradientAsk(Identity(2), 1.0, 10, 5, none, 10, "l2", ("a", "b"), "c0ffee", None, "sgd", "r-1")
        >>> ask.most_votes(100)
        (1000, 2400)
        """
        cells = self.classes * (self.components + 1)
        return records * self.radius, records * longest_l1(self.radius, cells, self.norm)

    def fields(self) -> dict[str, Any]:
        """The question as values that can be encoded."""
        return {
            "representation": asked.encoding_fields(self.representation),
            "scale": self.scale,
            "length": self.length,
            "offset": self.offset,
            "weights": self.weights,
            "radius": self.radius,
            "norm": self.norm,
            **asked.table_fields(self),
            **asked.request_fields(self),
        }

    @classmethod
    def read(cls, fields: StrictReader) -> GradientAsk:
        """The question that ``fields`` wrote, checked."""
        names = fields.texts("names", asked.MOST_CLASSES)
        weights = fields.array("weights", ("<i8",), (None, len(names)), -LARGEST_WEIGHT, LARGEST_WEIGHT)
        asked.require_small_table(fields, *weights.shape)
        length = fields.integer("length", 1, LARGEST_RADIUS)
        return cls(
            representation=asked.read_encoding(fields.nested("representation")),
            scale=read_scale(fields),
            length=length,
            offset=fields.integer("offset", 0, length),
            weights=weights,
            radius=fields.integer("radius", 1, LARGEST_GRADIENT),
            norm=read_norm(fields),
            **asked.read_table_fields(fields, names),
        )
