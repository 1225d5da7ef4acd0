"""Convert stored cells (Arrow or numpy) to numbers, classes and names, each by itself and without errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.protocols import Integers
from tacit.datasets.frame import Frame, as_numbers, cells_of
from tacit.datasets.table import class_places

__all__ = ["class_column", "coded", "frame_of_bytes", "number_table"]


def coded(column: Any) -> tuple[Integers, list[str | None]]:  # noqa: ANN401
    """A column of labels or persons as codes, and the text of each code; -1 or None for a missing value.

    >>> codes, names = coded(np.array([1.0, 2.0, 1.0]))
    >>> [names[code] for code in codes]
    ['1', '2', '1']
    """
    if isinstance(column, np.ndarray):
        values, codes = np.unique(column, return_inverse=True)
        return codes.astype(np.int64).reshape(-1), [_text(each) for each in values.tolist()]
    joined = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    encoded = joined if hasattr(joined, "dictionary") else joined.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64), [_text(each) for each in encoded.dictionary.to_pylist()]


def class_column(column: Any, classes: NDArray[Any]) -> Integers:  # noqa: ANN401
    """The index of every label among the classes, -1 for any other label.

    >>> class_column(np.array(["b", "c", "a"]), np.array(["a", "b"])).tolist()
    [1, -1, 0]
    """
    codes, names = coded(column)
    places = class_places(["" if name is None else name for name in names], classes)
    places[[name is None for name in names]] = -1
    return np.append(places, -1)[codes]


def number_table(table: Any) -> NDArray[np.float64]:  # noqa: ANN401
    """The columns of an Arrow table as an array of numbers; NaN for a cell that is missing or not a number.

    >>> import pyarrow as pa
    >>> number_table(pa.table({"age": [61, None], "dose": [b"2.5", b"much"]})).tolist()
    [[61.0, 2.5], [nan, nan]]
    """
    found = np.empty((table.num_rows, table.num_columns), dtype=np.float64)
    for place, column in enumerate(table.columns):
        found[:, place] = _numbers(column)
    return found


def _numbers(column: Any) -> NDArray[Any]:  # noqa: ANN401
    import pyarrow as pa
    import pyarrow.compute as compute

    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return np.asarray(column.to_numpy())
    try:
        if pa.types.is_binary(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind):
            text = compute.cast(column, pa.string()) if pa.types.is_binary(kind) else column
            return np.asarray(compute.cast(text, pa.float64()).to_numpy())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    return as_numbers(_cells(column))


def _cells(column: Any) -> NDArray[Any]:  # noqa: ANN401
    """The cells of a column, bytes as text."""
    return cells_of(
        [each.decode("utf-8", "replace") if isinstance(each, bytes) else each for each in column.to_pylist()]
    )


def frame_of_bytes(table: Any) -> Frame:  # noqa: ANN401
    """An Arrow table as a frame for an encoder, bytes of a CSV file as text.

    >>> import pyarrow as pa
    >>> frame_of_bytes(pa.table({"age": [b"61"], "ward": [b"north"]})).column("ward").tolist()
    ['north']
    """
    # Cells are not converted: the kind of a column must not depend on other rows.
    return Frame(tuple(table.column_names), tuple(map(_cells, table.columns)), source="the records")


def _text(value: Any) -> str | None:  # noqa: ANN401
    """A label or a person as text, in the same form as in tables read into memory; None for a missing value."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    text = str(value).strip()
    return None if text.lower() in ("", "nan") else text
