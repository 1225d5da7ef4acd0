"""Tables from npz files: an array of samples beside arrays of labels and persons.

The samples are the array ``X``, the one named behind a colon (``scans.npz:train_images``), or the only one that
can be meant. Nothing is unpickled, ever.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput, why_unreadable
from tacit.core.samples import pixel_side
from tacit.datasets.table import Table

__all__ = ["read_npy", "read_npz"]

Heads = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]


def read_npz(path: Path, label: str | None, person: str | None, samples: str | None = None) -> Table:
    """The table in an npz file; ``samples`` names the array of samples.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "scans.npz"
    >>> np.savez(file, train_images=np.zeros((3, 8, 8)), train_labels=np.array([[1], [0], [1]]))
    >>> table = read_npz(file, "train_labels", None)
    >>> table.samples.shape, table.labels.tolist()
    ((3, 8, 8), [1, 0, 1])
    """
    if not zipfile.is_zipfile(path):
        raise InvalidInput(f"{path}: not an npz file of plain arrays, or cut short; write it with numpy.savez")
    try:
        # Opened here, because numpy leaves a damaged file open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            heads = _heads(archive)
            name = samples or _samples_array(path, heads, label, person)
            for wanted in (name, label, person):
                _check_array(path, heads, wanted)
            values = archive[name]
            labels = None if label is None else _column(path, label, archive[label], len(values))
            persons = None if person is None else _column(path, person, archive[person], len(values))
    except InvalidInput:
        raise
    except (ValueError, KeyError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise InvalidInput(
            f"{path}: not an npz file of plain arrays ({_damage(error)}); "
            "write it with numpy.savez, numbers and text only"
        ) from None
    return _table(path, f"array {name!r}", values, labels, persons)


def read_npy(path: Path, label: str | None, person: str | None) -> Table:
    """The table in an npy file; labels and persons are in npy files of their own.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "scans.npy"
    >>> np.save(file, np.zeros((3, 2)))
    >>> read_npy(file, None, None).samples.shape
    (3, 2)
    """
    values = _load_npy(path)
    if values.ndim < 2:
        raise InvalidInput(f"{path}: must have one row per sample; it is {values.dtype}{values.shape}")
    named = [
        None if each is None else _column(path, each, _load_npy(Path(each)), len(values)) for each in (label, person)
    ]
    return _table(path, "the array", values, *named)


def _load_npy(path: Path) -> NDArray[Any]:
    if path.suffix.lower() != ".npy" or not path.is_file():
        raise InvalidInput(f"{path}: no such .npy file; an array's labels are in another one, which is named")
    try:
        found: NDArray[Any] = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InvalidInput(f"{path}: not an npy file of numbers or text ({type(error).__name__})") from None
    return found


def _table(
    path: Path, what: str, values: NDArray[Any], labels: NDArray[Any] | None, persons: NDArray[Any] | None
) -> Table:
    if values.dtype.kind not in "fiub":
        raise InvalidInput(f"{path}: {what} must hold numbers, it is {values.dtype}{values.shape}")
    rows = values.astype(np.float64)
    side = pixel_side(rows) if rows.ndim == 2 else None
    shaped = rows if side is None else rows.reshape(len(rows), side, side)
    # Names without the array's own, so that train_images and test_images are the same columns.
    return Table(str(path), tuple(f"X[{i}]" for i in range(math.prod(rows.shape[1:]))), shaped, labels, persons)


def _damage(error: Exception) -> str:
    """What is wrong with an archive; what numpy says may quote the file."""
    return str(error) if isinstance(error, zipfile.BadZipFile | zlib.error) else why_unreadable(error)


def _heads(archive: Any) -> Heads:  # noqa: ANN401
    """Shape and type of every array, without reading any of them."""
    heads: Heads = {}
    for name in archive.files:
        with archive.zip.open(f"{name}.npy") as file:
            read = npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = read(file)
            heads[name] = shape, dtype
    return heads


def _samples_array(path: Path, heads: Heads, label: str | None, person: str | None) -> str:
    """The array ``X``, or the only one that has numbers, several of them a row, and a row for every label."""
    if "X" in heads:
        return "X"
    length = heads[label][0][:1] if label in heads else None
    found = [
        name
        for name, (shape, dtype) in heads.items()
        if name not in (label, person)
        and dtype.kind in "fiub"
        and len(shape) > 1
        and math.prod(shape[1:]) > 1
        and length in (None, shape[:1])
    ]
    if len(found) == 1:
        return found[0]
    raise InvalidInput(
        f"{path}: no array 'X'; the arrays are {_listed(heads)}. Name the one with the samples behind a colon, "
        f"as in {path.name}:{found[0] if found else 'images'}"
    )


def _check_array(path: Path, heads: Heads, name: str | None) -> None:
    if name is None:
        return
    if name not in heads:
        raise InvalidInput(f"{path}: no array {name!r}; the arrays are {_listed(heads)}")
    shape, dtype = heads[name]
    if dtype.hasobject:
        raise InvalidInput(
            f"{path}: not an npz file of plain arrays: {name!r} holds Python objects, and reading those could run any "
            f"code. Save it as text or numbers, for example {name}.astype(str)"
        )
    if not shape or (name == "X" and len(shape) < 2):
        raise InvalidInput(f"{path}: array {name!r} must have one row per sample; it is {dtype}{shape}")


def _column(path: Path, name: str, values: NDArray[Any], length: int) -> NDArray[Any]:
    """One value a sample: a flat array, or a single column as some data sets keep their labels."""
    if values.shape not in ((length,), (length, 1)):
        raise InvalidInput(
            f"{path}: array {name!r} has shape {values.shape} for {length} samples; it must have one value a sample"
        )
    column = values.reshape(length)
    if column.dtype.kind not in "fiubUS":
        raise InvalidInput(f"{path}: array {name!r} must hold numbers or text, it is {column.dtype}")
    if column.dtype.kind == "f" and np.isnan(column).any():
        row = int(np.flatnonzero(np.isnan(column))[0])
        raise InvalidInput(f"{path}: row {row}, array {name!r}: the value is missing (nan); remove the row")
    return column.astype(str) if column.dtype.kind == "S" else column


def _listed(heads: Heads) -> str:
    return ", ".join(f"{name} {dtype}{shape}" for name, (shape, dtype) in heads.items()) or "none"
