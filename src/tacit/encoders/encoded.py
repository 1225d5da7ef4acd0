"""An encoder as a part of a question: a node encodes its own rows by the public rule that it is sent.

The coordinator fits the encoder on public samples, and it comes with the representation of every question, as plain
data. It may be hostile, so ``EncodedRows.read`` refuses what an honest coordinator does not send: columns or levels
that occur twice, levels that no cell can have, more components than are fitted, pretrained models. An encoder never
fails on a cell, all its features are finite and bounded, and a row's features depend on that row only. So an encoder
changes nothing about the sensitivity of what is computed from them.

A node's rows are a structured array with a field per column (``packed_table``). The type of a field may depend on
records: a column is one of numbers if all its cells are. No encoding depends on it, because a text that is a number is
encoded as that number (``tacit.datasets.frame.as_read``).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, InvalidInput, Representation
from tacit.core.codec import StrictReader, encode
from tacit.datasets.frame import Frame, as_levels, as_texts, frame_of
from tacit.encoders.columns import CategoryColumn
from tacit.encoders.kinds import Encoder, encoder_fields, encoder_from
from tacit.encoders.table import TableEncoder
from tacit.encoders.text import TextEncoder
from tacit.representations.registry import read_representation, representation_fields

__all__ = ["EncodedRows", "packed_table"]

# The encoders that can be sent; an image's shape needs none, and a sparse matrix has no column names.
SENT = ("table", "text")
MOST_TEXT_COMPONENTS = 1024
# Of a longer text the beginning is read: the longest decides on the memory of all.
LONGEST_TEXT = 8192


@dataclass(frozen=True)
class EncodedRows:
    """A representation of raw rows: the features of an encoder, in the space of a representation of numbers.

    >>> from tacit.representations.scaled import Identity
    >>> public = Frame(("age", "sex"), (np.arange(20.0), np.array(["f", "m"] * 10, dtype=object)))
    >>> encoder = TableEncoder.fit(public)
    >>> made = EncodedRows.of(encoder, Identity(encoder.width))
    >>> bool((made.encode(packed_table(public)) == encoder.encode(public)).all())
    True
    """

    name: ClassVar[str] = "encoded"

    encoder: TableEncoder | TextEncoder
    then: Representation

    @classmethod
    def of(cls, encoder: Encoder, then: Representation) -> EncodedRows:
        """What is sent of an encoder; one that nodes would refuse is refused here."""
        if isinstance(encoder, TableEncoder):
            # Which columns were left out, and why, is for the coordinator's own screen.
            encoder = replace(encoder, left_out={})
        if not isinstance(encoder, TableEncoder | TextEncoder):
            raise InvalidInput(f"an encoder of {encoder.name} cannot be sent to a node")
        # Names and levels are read as they will be at a node: a control character in one cannot be sent.
        encoder_from(StrictReader(encoder_fields(encoder), "encoder"), SENT)
        _require_plain(encoder)
        return cls(encoder, then)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns that it reads; None: a single one, whatever its name."""
        return self.encoder.names

    @property
    def kinds(self) -> tuple[str, ...]:
        """What a policy has to allow: ``table`` for numbers, categories and dates, ``text`` for words."""
        if isinstance(self.encoder, TextEncoder):
            return ("text",)
        return ("table",) * bool(self.encoder.columns) + ("text",) * (self.encoder.text is not None)

    @cached_property
    def digest(self) -> str:
        """A digest of all parameters, by which a holder's cache names it."""
        return hashlib.sha256(encode(self.fields())).hexdigest()

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of features per row of a structured array with at least these columns."""
        if samples.dtype.names is None:
            raise InvalidInput("an encoder is for rows with named columns")
        names = self.columns or samples.dtype.names
        if self.columns is None and len(names) != 1:
            raise InvalidInput("an encoder of texts is for rows with one column")
        return self.then.encode(self.encoder.encode(frame_of(samples[list(names)], "samples")))

    def fields(self) -> dict[str, Any]:
        """Its parameters."""
        return {"encoder": encoder_fields(self.encoder), "then": representation_fields(self.then)}

    @classmethod
    def read(cls, fields: StrictReader) -> EncodedRows:
        """Read an encoder and the representation of its features; the sender may be hostile."""
        encoder: Any = encoder_from(fields.nested("encoder"), SENT)
        _require_plain(encoder)
        then = read_representation(fields.nested("then"))
        fields.done()
        return cls(encoder, then)


def _require_plain(encoder: TableEncoder | TextEncoder) -> None:
    """Refuse an encoder that could cost more than an honest one, or that needs a pretrained model."""
    if isinstance(encoder, TableEncoder):
        _require_different([(each.name, each.taken_as) for each in encoder.columns], "columns")
        _require_different([*{each.name: None for each in encoder.columns}, *encoder.texts], "columns")
        for column in encoder.columns:
            if isinstance(column, CategoryColumn):
                _require_levels(column)
        if encoder.left_out:
            raise InvalidInput("an encoder's left-out columns are not sent")
    text = encoder if isinstance(encoder, TextEncoder) else encoder.text
    if text is None:
        return
    if text.minilm is not None:
        raise InvalidInput("an encoder with a pretrained model (MiniLM) cannot be sent to a node")
    _require_different(text.words, "words")
    if text.components.width > MOST_TEXT_COMPONENTS:
        raise InvalidInput(f"an encoder's texts must have at most {MOST_TEXT_COMPONENTS} components")


def _require_levels(column: CategoryColumn) -> None:
    _require_different(column.levels, "levels")
    levels = np.array(column.levels, dtype=object)
    # Two spellings of one level would be one feature that no cell has beside one that it has.
    if not column.width or as_levels(levels).tolist() != levels.tolist():
        raise InvalidInput("an encoder's levels must be written as cells are read")


def _require_different(names: Sequence[Any], what: str) -> None:
    if names and Counter(names).most_common(1)[0][1] > 1:
        raise InvalidInput(f"an encoder's {what} must be different")


def packed_table(table: Frame) -> NDArray[Any]:
    """The rows as a structured array: numbers, dates, and texts; missing values are NaN, NaT and empty texts.

    Texts are cut at ``LONGEST_TEXT`` characters.

    >>> table = Frame(("age", "sex"), (np.array([61.0]), np.array([None], dtype=object)))
    >>> packed_table(table).tolist()
    [(61.0, '')]
    """
    cells: list[NDArray[Any]] = []
    for name in table.columns:
        column = table.column(name)
        if column.dtype.kind not in "fM":
            column = np.array([each[:LONGEST_TEXT] for each in as_texts(column)], dtype=np.str_)
        cells.append(column)
    # A column without a text still needs a width.
    kinds = ["U1" if each.dtype.itemsize == 0 else each.dtype for each in cells]
    packed = np.empty(len(table), dtype=list(zip(table.columns, kinds, strict=True)))
    for name, each in zip(table.columns, cells, strict=True):
        packed[name] = each
    return packed
