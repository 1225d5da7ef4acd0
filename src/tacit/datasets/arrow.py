"""Tables from Parquet, Arrow and Feather files, where pyarrow is installed: columns have names and types."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from tacit.core.errors import InvalidInput
from tacit.core.samples import column_names
from tacit.datasets.frame import Frame, cells_of, frame_of, named_values, require_column

__all__ = ["read_arrow"]

HINT = "; features must be numbers"


def read_arrow(path: Path, label: str | None, person: str | None) -> Frame:
    """The table in a Parquet, Arrow or Feather file; all columns but the label's and the person's are features.

    Rows count from 0.
    """
    parquet = path.suffix.lower() == ".parquet"
    kind = "a Parquet file" if parquet else "an Arrow file"
    try:
        reader = import_module("pyarrow.parquet" if parquet else "pyarrow.feather")
    except ModuleNotFoundError:
        said = "Parquet" if parquet else "Arrow"
        raise InvalidInput(f"{path}: {said} files need pyarrow: pip install 'tacit[tables]'") from None
    try:
        content = reader.read_table(path)
    except Exception as error:
        # pyarrow has errors of its own for damaged files, and they may quote them.
        raise InvalidInput(f"{path}: cannot be read as {kind} ({type(error).__name__})") from None
    names = column_names(content, str(path)) or ()
    for name in (label, person):
        if name is not None:
            require_column(name, names, str(path))
    return Frame(
        tuple(name for name in names if name not in (label, person)),
        tuple(_cells(content, name) for name in names if name not in (label, person)),
        None if label is None else named_values(_cells(content, label), str(path), label),
        None if person is None else named_values(_cells(content, person), str(path), person),
        str(path),
        hint=HINT,
    )


def _cells(content: Any, name: str) -> Any:  # noqa: ANN401
    if hasattr(content, "select"):
        return frame_of(content.select([name]), name).cells[0]
    return cells_of(content.column(name).to_pylist())
