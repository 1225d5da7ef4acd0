"""The holder, which sees records: sum clipped gradients, and release the sum through the gate only.

A holder checks the question alone, tries it on a made-up record, and gives the gate a deferred computation. The gate
pays, and only then are records read. From then on nothing is refused: a record that cannot be encoded, is not finite,
or has another class adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Adjacency, Encodings, Floats, Integers, InvalidInput, Release, Sensitivity
from tacit.engines.fragments import BLOCK
from tacit.mechanisms.choices import RECORD_SUMS, SUM_SHARES, AllowedMechanisms, allowed_for_tables
from tacit.methods.encoding import encoded_block, encoded_chunks, require_encodable
from tacit.methods.held import held, release_table, require_single_labels
from tacit.methods.noisy_sgd.coordinator import TrainingAsk
from tacit.methods.noisy_sgd.gradient import gradient_sum
from tacit.methods.noisy_sgd.torch_hidden import HiddenTraining
from tacit.methods.noisy_sgd.wire import GradientAsk
from tacit.private.gate import Gate
from tacit.private.node_side import NodeContext, NodeSide, allowed_by_step
from tacit.private.partition import bounded, one_stream, require_owned
from tacit.private.records import Private, Records, combine, inspect, schema_of

__all__ = ["AT_NODE", "GRADIENTS", "Encoded", "GradientHolder", "TrainingHolder", "record_gradients"]

TRAINING = AllowedMechanisms("a holder of a trained model", (HiddenTraining,))
GRADIENTS = allowed_for_tables("a holder of gradients", RECORD_SUMS, SUM_SHARES)
# Records per sum: sums of this many gradients are exact in doubles (see ``gradient``).
AT_ONCE = 2**13
# The encodings and labels of each set of records.
Encoded = list[tuple[Floats, Integers]]


class GradientHolder:
    """One account over one or more sets of records: a hospital, or a curator trusted with several.

    The gradients of all sets are added before the gate, so the answer does not depend on how records are partitioned.
    At most as many records per person are used as the account's unit allows, the same ones in every step with the same
    representation: records are encoded once, after its first question is paid.
    """

    def __init__(
        self,
        records: Sequence[Private[Records]],
        gate: Gate,
        progress: Callable[[int], None] | None = None,
        cache: Encodings | None = None,
    ) -> None:
        self._records: list[Private[Any]] = list(held(records, gate))
        self._gate = gate
        self._progress = progress
        self._cache = cache
        self._streamed = one_stream(records)
        self._seen_by: Any = None
        self._encoded: Private[Encoded] | None = None

    def answer(self, ask: GradientAsk) -> Release[Any]:
        """Pay, and return the mechanism's output for the sum of gradients."""
        GRADIENTS.require(ask.mechanism, self._gate.named)
        require_single_labels(self._records, ask.representation, ask.components, "noisy SGD takes")
        if self._streamed:
            inspect(self._records, lambda own: own[0].require_countable(GradientTable(ask)))
            return release_table(self._gate, ask, combine(self._records, partial(self._total, ask)))
        return release_table(self._gate, ask, self._encoded_by(ask).map(partial(record_gradients, ask)))

    def _encoded_by(self, ask: GradientAsk) -> Private[Encoded]:
        if self._encoded is None or self._seen_by is not ask.representation:
            self._seen_by = ask.representation
            self._encoded = combine(self._records, partial(self._encode, ask))
        return self._encoded

    def _total(self, ask: GradientAsk, parts: list[Any]) -> Integers:
        """The sum over records that are read block by block, and not kept."""
        total: Integers = parts[0].total(GradientTable(ask), self._gate.unit, self._gate.randomness, self._progress)
        return total

    def _encode(self, ask: GradientAsk, parts: list[Records]) -> Encoded:
        found, done = [], 0
        for part in bounded(parts, self._gate.unit, self._gate.randomness):
            chunks = []
            for chunk in encoded_chunks(ask.representation, part.samples, self._cache):
                chunks.append(chunk)
                done += len(chunk)
                if self._progress is not None:
                    self._progress(done)
            rows = np.concatenate(chunks) if chunks else np.zeros((0, ask.components), dtype=np.float32)
            found.append((rows, part.labels))
        return found


@dataclass(frozen=True)
class GradientTable:
    """The gradients of one block of streamed records; it travels to an engine's workers and holds no record."""

    ask: GradientAsk

    @property
    def shape(self) -> tuple[int, int]:
        """A row per class, a column per feature and one of the offset."""
        return self.ask.table_shape

    def __call__(self, samples: NDArray[Any], labels: Integers) -> Integers:
        """The exact sum of these records' gradients."""
        return record_gradients(self.ask, [(encoded_block(self.ask.representation, samples, BLOCK), labels)])


class TrainingHolder:
    """One account over sets of records, for a mechanism that trains a model and releases it."""

    def __init__(self, records: Sequence[Private[Records]], gate: Gate) -> None:
        if gate.adjacency is not Adjacency.ADD_REMOVE or gate.unit.holder or gate.unit.records != 1:
            raise InvalidInput(
                "training on Poisson samples protects one record under add-remove adjacency; nothing was charged"
            )
        require_owned(records, gate.unit)
        self._records = list(records)
        self._gate = gate

    def answer(self, ask: TrainingAsk) -> Release[Any]:
        """Pay, and return the trained weights."""
        TRAINING.require(ask.mechanism, self._gate.named)
        for part in self._records:
            require_encodable(ask.representation, schema_of(part).blank, ask.features)
        return self._gate.release(
            combine(self._records, partial(self._rows, ask)),
            lambda: (np.zeros((0, ask.features), dtype=np.float32), np.zeros(0, dtype=np.int64)),
            Sensitivity(l1=1),
            ask.mechanism,
            ask.purpose,
            ask.request,
            ask.question,
        )

    def _rows(self, ask: TrainingAsk, parts: list[Records]) -> tuple[Floats, Integers]:
        rows, labels = [], []
        for part in bounded(parts, self._gate.unit, self._gate.randomness):
            rows += list(encoded_chunks(ask.representation, part.samples))
            labels.append(part.labels)
        together, known = np.concatenate(rows), np.concatenate(labels)
        there = np.isfinite(together).all(axis=1) & (known >= 0) & (known < ask.mechanism.classes)
        # Clipped to norm 1, since longer rows would saturate every unit; each row depends on its own record only.
        far = np.sqrt((together * together).sum(axis=1, keepdims=True))
        short: Floats = (together / np.maximum(far, 1.0))[there].astype(np.float32)
        return short, known[there]


def record_gradients(ask: GradientAsk, encoded: Encoded) -> Integers:
    """The exact sum of these records' gradients: a row per class, a column per feature and one of the offset.

    >>> from tacit.representations.scaled import Identity
    >>> none = np.zeros((2, 2), dtype=np.int64)
    >>> ask = GradientAsk(Identity(1), 8.0, 8, 4, none, 10**4, "l2", ("a", "b"), "c0ffee", None, "sgd", "r-1")
    >>> record_gradients(ask, [(np.array([[1.0]], dtype=np.float32), np.array([0]))]).tolist()
    [[-1024, -512], [1024, 512]]
    """
    total = np.zeros(ask.table_shape, dtype=np.int64)
    for rows, labels in encoded:
        for start in range(0, len(rows), AT_ONCE):
            total += gradient_sum(
                rows[start : start + AT_ONCE], labels[start : start + AT_ONCE], ask.weights,
                scale=ask.scale, length=ask.length, offset=ask.offset, radius=ask.radius, norm=ask.norm,
            )  # fmt: skip
    return total


def answer_at_node(ask: GradientAsk, context: NodeContext) -> Release[Any]:
    """The answer of a node."""
    return GradientHolder([context.records], context.gate, cache=context.encodings).answer(ask)


AT_NODE = NodeSide(answer_at_node, {GradientAsk: allowed_by_step(RECORD_SUMS, "a curator of gradients", SUM_SHARES)})
