"""The encoder of a mixed table: each column by the kind that public rows show.

Numbers are scaled by public quantiles, categories become one indicator per level that public rows share, dates a number
and their position in the year, texts are encoded by ``TextEncoder``. A column that is the same in every public row, or
different in every one, is left out, with the reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, InvalidInput, listed
from tacit.core.codec import StrictReader
from tacit.core.samples import match_names
from tacit.datasets.frame import Frame, as_levels, as_numbers, frame_of, require_column
from tacit.datasets.samples import samples_of
from tacit.encoders.columns import INTERVALS, MOST_OF, CategoryColumn, DateColumn, NumberColumn, few, written_as
from tacit.encoders.text import TextEncoder

__all__ = ["TableEncoder"]

ColumnEncoder = NumberColumn | CategoryColumn | DateColumn
COLUMNS: dict[str, Any] = {each.taken_as: each for each in (NumberColumn, CategoryColumn, DateColumn)}
_MOST_COLUMNS = 2**16
# Integers with at most this many different values may be codes: they are encoded as numbers and as categories.
MOST_CODES = 12
# The last word of a column's name that marks codes and identifiers.
CODE_WORDS = frozenset(("code", "codes", "type", "category", "class", "group", "zip", "zipcode", "postcode"))
ID_WORDS = frozenset(("id", "ids", "nbr", "nr", "key", "uuid", "guid", "index", "number", "no", "identifier"))
# A column of texts has different values in most rows, with at least this many words on average.
TEXT_WORDS = 5.0


@dataclass(frozen=True)
class TableEncoder:
    """The encoders of all columns, one for all text columns together, and the left-out columns with the reason.

    >>> public = Frame(("age", "sex"), (np.arange(20.0), np.array(["f", "m"] * 10, dtype=object)))
    >>> encoder = TableEncoder.fit(public)
    >>> encoder.encode(public).shape, encoder.names
    ((20, 11), ('age', 'sex'))
    """

    name: ClassVar[str] = "table"
    # Over nodes it comes with every question, since they have raw rows.
    at_nodes: ClassVar[str] = "sent"

    columns: tuple[ColumnEncoder, ...]
    texts: tuple[str, ...] = ()
    text: TextEncoder | None = None
    left_out: dict[str, str] = field(default_factory=dict)

    @classmethod
    def fit(
        cls, public: Frame, text: Sequence[str] = (), categories: Sequence[str] = (), minilm: bool | None = None
    ) -> TableEncoder:
        """Fit each public column; ``text`` and ``categories`` are columns whose kind is known."""
        for name in (*text, *categories):
            require_column(name, public.columns, "the public samples")
        columns: list[ColumnEncoder] = []
        texts, left_out = list(text), {}
        for name in public.columns:
            if name in text:
                continue
            found = _fitted(name, public.column(name), name in categories)
            if found == "text":
                texts.append(name)
            elif isinstance(found, str):
                left_out[name] = found
            else:
                columns += found
        if not columns and not texts:
            raise InvalidInput("the public samples have no column that varies")
        named = tuple(name for name in public.columns if name in texts)
        return cls(tuple(columns), named, TextEncoder.fit(public.take(named), minilm) if named else None, left_out)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the encoded columns."""
        return tuple(dict.fromkeys(column.name for column in self.columns)) + self.texts

    @property
    def width(self) -> int:
        """The number of features."""
        return sum(self.blocks.values())

    @property
    def blocks(self) -> dict[str, int]:
        """The number of features by source, in order."""
        own = {"columns": sum(column.width for column in self.columns)} if self.columns else {}
        return own | ({} if self.text is None else self.text.blocks)

    @property
    def lines(self) -> tuple[str, ...]:
        """A description of the encoding, for the screen and the recipe; it is public."""
        counts = Counter(column.taken_as for column in self.columns)
        plural = {"number": "numbers", "category": "categories", "date": "dates"}
        said = [f"{count} {kind if count == 1 else plural[kind]}" for kind, count in counts.items()]
        found = [f"{', '.join(said)} as {sum(column.width for column in self.columns)} features"] if said else []
        if self.text is not None:
            found += [f"text in {', '.join(self.texts)}: {line}" for line in self.text.lines]
        return (*found, *(f"column {name!r} is left out: {reason}" for name, reason in self.left_out.items()))

    def encode(self, samples: Any) -> Floats:  # noqa: ANN401
        """One row of float32 features per row of a table with these columns, in any order."""
        table = self._table(samples)
        parts = [column.encode(table.column(column.name)) for column in self.columns]
        if self.text is not None:
            parts.append(self.text.encode(table.take(self.texts)))
        return np.hstack(parts)

    def unread(self, samples: Any) -> list[str]:  # noqa: ANN401
        """Messages for the operator, without any cell: how many cells count as missing or as another level."""
        table = self._table(samples)
        found: dict[str, list[str]] = {}
        for column in self.columns:
            if count := column.unread(table.column(column.name)):
                rare = column.taken_as == "category"
                why = "of a level that is rare or not in the public rows" if rare else f"without a {column.taken_as}"
                found.setdefault(why, []).append(f"{column.name!r} {count}")
        said = [f"cells {why}, by column: {listed(columns)}" for why, columns in found.items()]
        return said + ([] if self.text is None else self.text.unread(table.take(self.texts)))

    def _table(self, samples: Any) -> Frame:  # noqa: ANN401
        """The samples with the needed columns; left-out columns may be there or not."""
        found = samples_of(samples)
        if not isinstance(found, Frame):
            rows = found.reshape(-1, 1) if isinstance(found, np.ndarray) and found.ndim == 1 else found
            if not isinstance(rows, np.ndarray) or rows.ndim != 2:
                raise InvalidInput(f"samples must be a table with the columns {listed(self.names)}")
            found = frame_of(rows, "samples")
            if not set(self.names) <= set(found.columns):
                # Samples without names are matched by position.
                if len(found.columns) != len(self.names):
                    raise InvalidInput(f"samples must be a table with the columns {listed(self.names)}")
                return Frame(self.names, found.cells, source="samples")
        given = [name for name in found.columns if name not in self.left_out]
        match_names(given, self.names, found.source, "the public ones")
        return found.take(self.names)

    def fields(self) -> dict[str, Any]:
        """Its parameters."""
        return {
            "columns": [{"taken_as": column.taken_as, **column.fields()} for column in self.columns],
            "texts": list(self.texts),
            "text": None if self.text is None else self.text.fields(),
            "left_out": [[name, reason] for name, reason in self.left_out.items()],
        }

    @classmethod
    def read(cls, fields: StrictReader) -> TableEncoder:
        """Read every column's parameters."""
        columns = []
        for each in fields.several("columns", _MOST_COLUMNS):
            columns.append(COLUMNS[each.one_of("taken_as", COLUMNS)].read(each))
            each.done()
        texts = fields.texts("texts", _MOST_COLUMNS)
        text = None
        if not fields.missing("text"):
            inner = fields.nested("text")
            text = TextEncoder.read(inner)
            inner.done()
        pairs = fields.take("left_out")
        if not isinstance(pairs, list) or not all(
            isinstance(pair, list) and len(pair) == 2 and all(isinstance(word, str) for word in pair) for pair in pairs
        ):
            raise InvalidInput(f"the {fields.what}'s left_out must be pairs of a column and a reason")
        if bool(texts) != (text is not None) or not (columns or texts):
            raise InvalidInput(f"the {fields.what} must have columns, and an encoder for those of texts")
        return cls(tuple(columns), texts, text, dict(pairs))


def _fitted(name: str, cells: NDArray[Any], category: bool) -> list[ColumnEncoder] | str:
    """The encoders of a public column, or ``text``, or the reason for leaving it out."""
    levels = as_levels(cells)
    counts = Counter(levels.tolist())
    gaps = counts.pop(None, 0)
    filled = len(cells) - gaps
    if not filled:
        return "it is empty in every public row"
    if len(counts) == 1 and not gaps >= few(len(cells)):
        return "it is the same in every public row"
    if category:
        return _categories(name, cells)
    if cells.dtype.kind != "M":
        values = as_numbers(cells)
        known = values[~np.isnan(values)]
        if len(known) >= MOST_OF * filled:
            return _numbers(name, cells, known)
    if (written := written_as(cells)) is not None:
        return [DateColumn.fit(name, cells, written)]
    words = sum(count * len(level.split()) for level, count in counts.items()) / filled
    if words >= TEXT_WORDS and len(counts) > filled / 2:
        return "text"
    return _categories(name, cells)


def _categories(name: str, cells: NDArray[Any]) -> list[ColumnEncoder] | str:
    made = CategoryColumn.fit(name, cells)
    return [made] if made.levels else f"no value of it is shared by {few(len(cells))} public rows"


def _numbers(name: str, cells: NDArray[Any], known: NDArray[np.float64]) -> list[ColumnEncoder] | str:
    """The encoders of a column of numbers, which may be codes, or a running number that is left out."""
    number = NumberColumn.fit(name, cells, INTERVALS)
    if (known % 1 != 0).any():
        return [number]
    last = re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower().strip(" _-0123456789"))[-1]
    distinct = len(np.unique(known))
    rising = bool((np.diff(known) > 0).all())
    if distinct == len(known) > 20 and (rising or last in ID_WORDS):
        return "it numbers the rows"
    if last in CODE_WORDS | ID_WORDS and distinct > 2:
        return _categories(name, cells)
    if 2 < distinct <= MOST_CODES:
        codes = CategoryColumn.fit(name, cells)
        return [NumberColumn.fit(name, cells), codes] if codes.levels else [number]
    return [number]
