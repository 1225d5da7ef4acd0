"""Labels and probabilities as a table: the columns, and a CSV or Parquet file of them."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput, TacitError

__all__ = ["for_classes", "label_columns", "require_new_table", "write_columns"]

KINDS = (".csv", ".parquet")


def label_columns(
    labels: NDArray[Any],
    probabilities: NDArray[np.float64] | None,
    classes: NDArray[Any],
    simulation: bool,
    row: str = "public row",
) -> dict[str, NDArray[Any]]:
    """One row per sample: its number, its label, or a column for each class where it may have several, and chances.

    >>> list(label_columns(np.array(["a"]), np.array([[0.9, 0.1]]), np.array(["a", "b"]), simulation=False))
    ['public row', 'label', 'probability of a', 'probability of b']
    """
    word = "simulated label" if simulation else "label"
    columns: dict[str, NDArray[Any]] = {row: np.arange(len(labels))}
    if labels.ndim == 2:
        columns |= {f"{word} {name}": labels[:, place].astype(np.int64) for place, name in enumerate(classes)}
    else:
        columns[word] = labels
    if probabilities is not None:
        columns |= {f"probability of {name}": probabilities[:, place] for place, name in enumerate(classes)}
    return columns


def for_classes(found: Any, known: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:  # noqa: ANN401
    """Probabilities with a column for each class; one that the student never met has probability 0.

    >>> for_classes([[0.3, 0.7]], np.array(["b", "a"]), np.array(["a", "b", "c"])).tolist()
    [[0.7, 0.3, 0.0]]
    """
    place = {name: column for column, name in enumerate(classes.tolist())}
    chances = np.zeros((len(found), len(classes)))
    chances[:, [place[name] for name in known.tolist()]] = found
    return chances


def require_new_table(path: Path) -> None:
    """Refuse a file that is there already, or that would be of no kind that can be written, before any work is done.

    >>> require_new_table(Path("labels.xlsx"))
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: labels.xlsx: tables are written as .csv or .parquet
    """
    if path.suffix.lower() not in KINDS:
        raise InvalidInput(f"{str(path)[-80:]}: tables are written as {' or '.join(KINDS)}")
    if path.exists():
        raise InvalidInput(f"{str(path)[-80:]}: exists already; choose another file")
    if not path.absolute().parent.is_dir():
        raise InvalidInput(f"{str(path)[-80:]}: there is no such folder to write it into")
    if path.suffix.lower() == ".parquet":
        _arrow("pyarrow")


def write_columns(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write a CSV or Parquet file, whole or not at all; probabilities have six digits in a CSV file."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        if path.suffix.lower() == ".parquet":
            table = _arrow("pyarrow").table({name: _plain(values) for name, values in columns.items()})
            _arrow("pyarrow.parquet").write_table(table, partial)
        else:
            with partial.open("w", newline="", encoding="utf-8") as opened:
                writer = csv.writer(opened)
                writer.writerow(columns)
                shown = [
                    [f"{each:.6f}" for each in values] if name.startswith("probability of ") else values.tolist()
                    for name, values in columns.items()
                ]
                writer.writerows(zip(*shown, strict=True))
        partial.replace(path)
    except OSError as error:
        raise TacitError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        partial.unlink(missing_ok=True)


def _plain(values: NDArray[Any]) -> Any:  # noqa: ANN401
    return values if values.dtype.kind in "fiub" else values.tolist()


def _arrow(module: str) -> Any:  # noqa: ANN401
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise InvalidInput("Parquet files need an extra: pip install 'tacit[tables]'") from None
