"""Tables from JSON lines: one object per line, a column per key; a key that a line has not is a missing value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core.errors import InvalidInput
from tacit.datasets.compressed import open_text
from tacit.datasets.frame import Frame, cells_of, require_column

__all__ = ["read_json_lines"]


def read_json_lines(path: Path, label: str | None, person: str | None) -> Frame:
    """The table in a file of JSON lines; rows are counted as lines, from 1.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "records.jsonl"
    >>> _ = file.write_text('{"age": 61, "outcome": "well"}\\n{"outcome": "ill"}\\n')
    >>> read_json_lines(file, "outcome", None).column("age").tolist()
    [61.0, nan]
    """
    lines: list[dict[str, Any]] = []
    rows: list[int] = []
    with open_text(path) as file:
        for row, line in enumerate(file, start=1):
            if line.strip():
                lines.append(_object(path, row, line))
                rows.append(row)
    if not lines:
        raise InvalidInput(f"{path}: the file has no rows")
    names = tuple(dict.fromkeys(name for line in lines for name in line))
    for name in (label, person):
        if name is not None:
            require_column(name, names, str(path))
    named = {name: _named(path, rows, lines, name) for name in (label, person) if name is not None}
    features = tuple(name for name in names if name not in named)
    return Frame(
        features,
        tuple(cells_of([line.get(name) for line in lines]) for name in features),
        None if label is None else named[label],
        None if person is None else named[person],
        str(path),
        np.array(rows, dtype=np.int64),
        "; features must be numbers",
    )


def _object(path: Path, row: int, line: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise InvalidInput(f"{path}: row {row} has the same key twice; rename one")
        return found

    try:
        found = json.loads(line, object_pairs_hook=unique)
    except (json.JSONDecodeError, RecursionError):
        raise InvalidInput(f"{path}: row {row} is not JSON; write one object per line") from None
    if not isinstance(found, dict):
        raise InvalidInput(f"{path}: row {row} is not an object with a key for each column")
    for name, value in found.items():
        if isinstance(value, dict | list):
            raise InvalidInput(f"{path}: row {row}, column {name!r}: a list or an object; give each value its own key")
    return found


def _named(path: Path, rows: list[int], lines: list[dict[str, Any]], name: str) -> Any:  # noqa: ANN401
    """The labels or persons, as text."""
    found = []
    for row, line in zip(rows, lines, strict=True):
        value = line.get(name)
        if value is None or value != value or not str(value).strip():
            raise InvalidInput(f"{path}: row {row}, column {name!r}: the value is missing; remove the row")
        found.append(str(value).strip())
    return np.array(found)
