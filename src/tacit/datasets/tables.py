"""What a file holds, whatever its format: a table, images, or plain arrays; and tables of numbers, strictly.

Every complaint names the file, the row and the column, and never what is in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.samples import match_names
from tacit.datasets.archives import read_npy, read_npz
from tacit.datasets.arrow import read_arrow
from tacit.datasets.compressed import suffix_of
from tacit.datasets.delimited import read_csv
from tacit.datasets.frame import Frame
from tacit.datasets.image_files import IMAGE_SUFFIXES, ImageFiles, image_files
from tacit.datasets.json_lines import read_json_lines
from tacit.datasets.published import FORMATS, read_published
from tacit.datasets.table import Table, require_finite

__all__ = ["align", "read_data", "read_table", "row_marks"]

ARRAY_OF_FILE = re.compile(r"(?P<file>.+\.npz):(?P<array>[^:/\\]+)", re.IGNORECASE)
PUBLISHED = re.compile(rf"(?P<format>{'|'.join(FORMATS)}):(?P<file>.+)")
KNOWN = ".csv, .tsv, .parquet, .arrow, .feather, .jsonl, .npz or .npy file, or a folder of images"
BLOCK = 4096


def read_data(
    path: str | Path, label: str | None = None, person: str | None = None, labeled: bool = False
) -> Frame | Table | ImageFiles:
    """What a file or a folder holds, by its suffix: a frame, a table of numbers, or images.

    ``.csv``, ``.tsv`` and ``.jsonl`` may be compressed (``.gz``, ``.xz``, ``.bz2``). In an npz file the samples are the
    array ``X``, or the one that is named: ``scans.npz:train_images``. An npy file's labels are in another one, which
    ``label`` names. A folder holds images, with a folder for each class where they are ``labeled``. A published set is
    named by its format and has labels of its own: ``svhn:train_32x32.mat``.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "records.csv"
    >>> _ = file.write_text("age,sex,outcome\\n61,f,well\\n")
    >>> read_data(file, label="outcome").columns
    ('age', 'sex')
    """
    path, array = Path(path), None
    if label is not None and label == person:
        raise InvalidInput(f"{label!r} cannot be the label and the person at once; name two columns")
    try:
        if not path.exists():
            if parts := ARRAY_OF_FILE.fullmatch(str(path)):
                path, array = Path(parts["file"]), parts["array"]
            elif parts := PUBLISHED.fullmatch(str(path)):
                return _published(parts["format"], Path(parts["file"]))
        if path.is_dir():
            if label is not None or person is not None:
                raise InvalidInput(
                    f"{path}: a folder, not a file with columns; of images, the folders' names are the classes"
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
                raise InvalidInput(f"{path}: cannot read {other or 'a file without a suffix'}; give a {KNOWN}")
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror})") from None


def _published(name: str, file: Path) -> Table:
    found = read_published(name, file)
    columns = tuple(f"X[{i}]" for i in range(int(np.prod(found.samples.shape[1:]))))
    return Table(f"{name}:{file}", columns, found.samples, found.labels, found.owners)


def read_table(path: str | Path, label: str | None = None, person: str | None = None) -> Table:
    """The table of finite numbers in a file: what else there is in it is refused by its place.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "records.csv"
    >>> _ = file.write_text("age,dose,outcome\\n61,2.5,well\\n")
    >>> read_table(file, label="outcome").labels.tolist()
    ['well']
    """
    found = read_data(path, label, person)
    if isinstance(found, ImageFiles):
        raise InvalidInput(f"{found.source}: images, where a table of numbers is needed")
    return found.numbers() if isinstance(found, Frame) else require_finite(found)


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
    """A number for every row, equal for rows of equal numbers whatever their type and shape.

    >>> list(row_marks(np.array([[1, 0]]))) == list(row_marks(np.array([[[1.0], [-0.0]]])))
    True
    """
    for start in range(0, len(samples), BLOCK):
        block = samples[start : start + BLOCK]
        # Adding 0 makes equal zeros of both signs.
        rows = np.ascontiguousarray(block.reshape(len(block), -1), dtype=np.float64) + 0.0
        yield from (hash(row.tobytes()) for row in rows)
