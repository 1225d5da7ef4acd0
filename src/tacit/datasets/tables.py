"""The content of a file of any known format: a table, images or arrays; ``read_table`` accepts only finite numbers.

Every error names the file, the row and the column, and never the content of a cell. This module reads npz files: the
samples are the array ``X``, the one named after a colon (``scans.npz:train_images``), or the only one that can be
samples. Nothing is ever unpickled.
"""

from __future__ import annotations

import math
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from tacit.core import InvalidInput, why_unreadable
from tacit.core.samples import Named, match_names, pixel_side
from tacit.datasets.frame import Frame
from tacit.datasets.image_files import IMAGE_SUFFIXES, ImageFiles, image_files
from tacit.datasets.published import FORMATS, read_published
from tacit.datasets.table import Table, finite_or_missing, require_finite
from tacit.datasets.table_files import read_arrow, read_csv, read_json_lines, suffix_of

__all__ = ["align", "read_data", "read_npy", "read_npz", "read_table", "row_marks"]

_Heads = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]
ARRAY_OF_FILE = re.compile(r"(?P<file>.+\.npz):(?P<array>[^:/\\]+)", re.IGNORECASE)
_PUBLISHED = re.compile(rf"(?P<format>{'|'.join(FORMATS)}):(?P<file>.+)")
_KNOWN = ".csv, .tsv, .parquet, .arrow, .feather, .jsonl, .npz or .npy file, or a folder of images"
_BLOCK = 4096


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
        raise InvalidInput(f"{path}: no such .npy file; name the file that contains the labels")
    try:
        found: NDArray[Any] = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InvalidInput(f"{path}: not an npy file of numbers or text ({type(error).__name__})") from None
    return found


def _table(
    path: Path, what: str, values: NDArray[Any], labels: NDArray[Any] | None, persons: NDArray[Any] | None
) -> Table:
    if values.dtype.kind not in "fiub":
        raise InvalidInput(f"{path}: {what} must be numbers, it is {values.dtype}{values.shape}")
    rows = values.astype(np.float64)
    side = pixel_side(rows) if rows.ndim == 2 else None
    shaped = rows if side is None else rows.reshape(len(rows), side, side)
    # The names do not contain the array's name, so that train_images and test_images have the same columns.
    return Table(str(path), tuple(f"X[{i}]" for i in range(math.prod(rows.shape[1:]))), shaped, labels, persons)


def _damage(error: Exception) -> str:
    """The reason why an archive cannot be read; numpy's own message may quote the file, and is not shown."""
    return str(error) if isinstance(error, zipfile.BadZipFile | zlib.error) else why_unreadable(error)


def _heads(archive: Any) -> _Heads:  # noqa: ANN401
    """Shape and type of every array, without reading any of them."""
    heads: _Heads = {}
    for name in archive.files:
        with archive.zip.open(f"{name}.npy") as file:
            read = npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = read(file)
            heads[name] = shape, dtype
    return heads


def _samples_array(path: Path, heads: _Heads, label: str | None, person: str | None) -> str:
    """The array ``X``, or the only array of numbers with several per row and one row per label."""
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
        f"{path}: no array 'X'; the arrays are {_listed(heads)}. Name the array of the samples after a colon, as in "
        f"{path.name}:{found[0] if found else 'images'}"
    )


def _check_array(path: Path, heads: _Heads, name: str | None) -> None:
    if name is None:
        return
    if name not in heads:
        raise InvalidInput(f"{path}: no array {name!r}; the arrays are {_listed(heads)}")
    shape, dtype = heads[name]
    if dtype.hasobject:
        raise InvalidInput(
            f"{path}: not an npz file of plain arrays: {name!r} contains Python objects, and reading those could run "
            f"any code. Save it as text or numbers, for example {name}.astype(str)"
        )
    if not shape or (name == "X" and len(shape) < 2):
        raise InvalidInput(f"{path}: array {name!r} must have one row per sample; it is {dtype}{shape}")


def _column(path: Path, name: str, values: NDArray[Any], length: int) -> NDArray[Any]:
    """One value per sample: a flat array, or a single column, as some data sets store their labels."""
    if values.shape not in ((length,), (length, 1)):
        raise InvalidInput(
            f"{path}: array {name!r} has shape {values.shape} for {length} samples; it must have one value per sample"
        )
    column = values.reshape(length)
    if column.dtype.kind not in "fiubUS":
        raise InvalidInput(f"{path}: array {name!r} must be numbers or text, it is {column.dtype}")
    if column.dtype.kind == "f" and np.isnan(column).any():
        row = int(np.flatnonzero(np.isnan(column))[0])
        raise InvalidInput(f"{path}: row {row}, array {name!r}: the value is missing (nan); remove the row")
    return column.astype(str) if column.dtype.kind == "S" else column


def _listed(heads: _Heads) -> str:
    return ", ".join(f"{name} {dtype}{shape}" for name, (shape, dtype) in heads.items()) or "none"


def read_data(
    path: str | Path, label: str | None = None, person: str | None = None, labeled: bool = False
) -> Frame | Table | ImageFiles:
    """The content of a file, according to its suffix, or of a folder: a frame, a table of numbers, or images.

    ``.csv``, ``.tsv`` and ``.jsonl`` may be compressed (``.gz``, ``.xz``, ``.bz2``). In an npz file the samples are the
    array ``X``, or the one that is named: ``scans.npz:train_images``. An npy file's labels are in another one, which
    ``label`` names. A folder holds images, with one subfolder per class if they are ``labeled``. A published set is
    named by its format and has labels of its own: ``svhn:train_32x32.mat``, or sets of labels:
    ``mulan:yeast-train.arff``.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "records.csv"
    >>> _ = file.write_text("age,sex,outcome\\n61,f,well\\n")
    >>> read_data(file, label="outcome").columns
    ('age', 'sex')
    """
    path, array = Path(path), None
    if label is not None and label == person:
        raise InvalidInput(f"{label!r} cannot be both the label and the person column; name two columns")
    try:
        if not path.exists():
            if parts := ARRAY_OF_FILE.fullmatch(str(path)):
                path, array = Path(parts["file"]), parts["array"]
            elif parts := _PUBLISHED.fullmatch(str(path)):
                return _published(parts["format"], Path(parts["file"]))
        if path.is_dir():
            if label is not None or person is not None:
                raise InvalidInput(
                    f"{path}: a folder, not a file with columns; for images, the folder names are the classes"
                )
            return image_files(path, labeled)
        if not path.is_file():
            raise InvalidInput(f"{path}: {'a device or a pipe, not a file' if path.exists() else 'no such file'}")
        match suffix_of(path):
            case ".csv" | ".tsv":
                return read_csv(path, label, person)
            case ".jsonl" | ".ndjson":
                return read_json_lines(path, label, person)
            case ".parquet" | ".arrow" | ".feather":
                return read_arrow(path, label, person)
            case ".npz":
                return read_npz(path, label, person, array)
            case ".npy":
                return read_npy(path, label, person)
            case other if other in IMAGE_SUFFIXES:
                return ImageFiles((path,), None, str(path))
            case other:
                raise InvalidInput(f"{path}: cannot read {other or 'a file without a suffix'}; give a {_KNOWN}")
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror})") from None


def _published(name: str, file: Path) -> Table:
    found = read_published(name, file)
    if isinstance(found.samples, Named):
        return Table(f"{name}:{file}", found.samples.columns, found.samples.values, found.labels, named=True)
    columns = tuple(f"X[{i}]" for i in range(int(np.prod(found.samples.shape[1:]))))
    return Table(f"{name}:{file}", columns, found.samples, found.labels, found.owners)


def read_table(path: str | Path, label: str | None = None, person: str | None = None, strict: bool = True) -> Table:
    """The table of finite numbers in a file; any other cell is refused, by its row and column, or becomes NaN.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "records.csv"
    >>> _ = file.write_text("age,dose,outcome\\n61,2.5,well\\n")
    >>> read_table(file, label="outcome").labels.tolist()
    ['well']
    """
    found = read_data(path, label, person)
    if isinstance(found, ImageFiles):
        raise InvalidInput(f"{found.source}: contains images, but a table of numbers is needed")
    if isinstance(found, Frame):
        return found.numbers(strict)
    return require_finite(found) if strict else finite_or_missing(found)


def align(private: Table, public: Table) -> Table:
    """The private table with its columns in the public table's order, or an error that names the difference.

    >>> a = Table("a.csv", ("x", "y"), np.array([[1.0, 2.0]]))
    >>> b = Table("b.csv", ("y", "x"), np.array([[5.0, 6.0]]))
    >>> align(a, b).samples.tolist()
    [[2.0, 1.0]]
    """
    if private.columns == public.columns:
        return private
    if not private.named and not public.named and len(private.columns) != len(public.columns):
        raise InvalidInput(
            f"{private.source} has {len(private.columns)} features and {public.source} {len(public.columns)}; "
            "they must be of the same kind"
        )
    order = match_names(private.columns, public.columns, private.source, public.source)
    flat = private.samples.reshape(len(private.samples), -1)
    return replace(private, columns=public.columns, samples=flat[:, order])


def row_marks(samples: NDArray[Any]) -> Iterator[int]:
    """A hash of every row, equal for rows of equal numbers, whatever their type and shape.

    >>> list(row_marks(np.array([[1, 0]]))) == list(row_marks(np.array([[[1.0], [-0.0]]])))
    True
    """
    for start in range(0, len(samples), _BLOCK):
        block = samples[start : start + _BLOCK]
        # Adding 0 turns -0.0 into 0.0.
        rows = np.ascontiguousarray(block.reshape(len(block), -1), dtype=np.float64) + 0.0
        yield from (hash(row.tobytes()) for row in rows)
