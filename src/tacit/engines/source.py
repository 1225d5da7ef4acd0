"""A holder's records in files, folders, file name patterns, Arrow data sets or mapped arrays.

Opening a source reads names, types and numbers of rows, before anything is paid; errors are for the operator. Cells are
read after the payment, and from there on nothing is refused: a cell that is not a number, a label outside the classes
and a record without a person make an empty vote, each for its own record only. A CSV file, in which one record could
break the rows of others, is therefore parsed once when it is opened.
"""

from __future__ import annotations

import csv
import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core import InvalidInput, listed, whole, why_unreadable
from tacit.datasets.frame import require_column
from tacit.datasets.table_files import SEPARATORS
from tacit.engines.fragments import ArrayFragment, ArrowFragment, Fragment

__all__ = ["OpenSource", "RecordSource", "is_pattern", "source_digest"]

# Rows per task, if the file can be divided.
FRAGMENT_ROWS = 2**18
_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
    ".npy": "npy",
}
# A line of a CSV file that is longer than this is refused when the file is opened.
LONGEST_LINE = 2**24


@dataclass(frozen=True)
class RecordSource:
    """One holder's labeled records, which are counted in place instead of being read into memory.

    ``records`` is a file, a folder, a pattern such as ``records/*.parquet``, a list of files (Parquet, CSV, Arrow, npy)
    or a pyarrow data set. ``label`` and ``persons`` are names of columns, or for an npy file other npy files.
    ``features`` are the feature columns, if they are not those of the public samples. ``units`` is the number of
    records or persons, which is public under replace-one adjacency; by default it is counted, persons by reading their
    column once.

    >>> import pyarrow as pa, pyarrow.dataset
    >>> table = pa.table({"age": [61.0, 50.0], "outcome": ["ill", "well"]})
    >>> opened = RecordSource(pa.dataset.dataset(table), label="outcome").open()
    >>> opened.columns, opened.rows, len(opened.fragments)
    (('age',), 2, 1)
    """

    records: Any
    label: str | None = None
    features: Sequence[str] | None = None
    persons: str | None = None
    units: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.features, str):
            raise InvalidInput(f"features must be a list of columns, got {self.features[:80]!r}")
        if self.label is not None and self.label == self.persons:
            raise InvalidInput(f"{self.label!r} cannot be both the label and the person; name two columns")
        if self.units is not None:
            whole(self.units, "units")

    def open(self) -> OpenSource:
        """The source with its fragments, columns and number of rows; errors are for the operator."""
        if self.label is None:
            raise InvalidInput("name the records' column of labels, with label")
        if hasattr(self.records, "get_fragments"):
            return _from_dataset(self, self.records, "the data set")
        files = _files(self.records)
        kind = _format(files)
        if kind == "npy":
            return _from_array(self, files)
        try:
            dataset = _dataset(files, kind)
        except InvalidInput:
            raise
        except OSError as error:
            raise InvalidInput(f"{listed([str(files[0])])}: cannot be read ({why_unreadable(error)})") from None
        except ModuleNotFoundError:
            raise InvalidInput("records are streamed by pyarrow: pip install 'tacit[tables]'") from None
        except Exception as error:
            # pyarrow's own errors may quote a file.
            raise InvalidInput(f"{listed([str(files[0])])}: not a {kind} file ({type(error).__name__})") from None
        return _from_dataset(self, dataset, str(files[0] if len(files) == 1 else files[0].parent))


@dataclass(frozen=True)
class OpenSource:
    """An opened source. ``columns`` are its feature columns; None if columns have no names."""

    given: RecordSource
    fragments: tuple[Fragment, ...]
    columns: tuple[str, ...] | None
    rows: int
    shape: tuple[int, ...] | None = None
    where: str = "the records"

    @property
    def label(self) -> str:
        """The column of labels."""
        assert self.given.label is not None
        return self.given.label

    def __repr__(self) -> str:
        """Not even the number of records: under add/remove adjacency it is private."""
        return "OpenSource(<private>)"


def is_pattern(records: object) -> bool:
    """Whether a text is a pattern of file names.

    >>> is_pattern("records/*.parquet"), is_pattern("records.parquet")
    (True, False)
    """
    return isinstance(records, str | Path) and any(sign in str(records) for sign in "*?") and not Path(records).exists()


def source_digest(source: RecordSource) -> str:
    """A digest by which changed files are noticed without reading them: names, sizes and modification times.

    >>> source_digest(RecordSource([])) == source_digest(RecordSource([]))
    True
    """
    files = [] if hasattr(source.records, "get_fragments") or not source.records else _files(source.records)
    found = [(str(file.absolute()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return repr((found, source.label, source.features, source.persons, source.units))


def _files(records: Any) -> list[Path]:  # noqa: ANN401
    """The files of a source, sorted by name."""
    if isinstance(records, list | tuple):
        found = [file for each in records for file in _files(each)]
    elif not isinstance(records, str | Path):
        raise InvalidInput(
            f"records must be a file, a folder, a pattern, a list of files or a pyarrow data set, "
            f"got {type(records).__name__}"
        )
    elif is_pattern(records):
        found = sorted(Path(each) for each in _matching(str(records)) if Path(each).is_file())
    elif (path := Path(records)).is_dir():
        found = sorted(each for each in path.rglob("*") if each.suffix.lower() in _FORMATS and each.is_file())
    else:
        found = [path]
    if not found:
        raise InvalidInput(f"{listed([str(records)])}: there is no file that can be streamed: {', '.join(_FORMATS)}")
    for file in found:
        if not file.is_file():
            raise InvalidInput(f"{listed([str(file)])}: no such file")
    if len(set(map(Path.resolve, found))) < len(found):
        raise InvalidInput("a file of records is listed twice: its records would count twice")
    return found


def _matching(pattern: str) -> list[str]:
    return glob.glob(pattern, recursive=True)  # noqa: PTH207 (patterns may begin anywhere, also at the root)


def _format(files: Sequence[Path]) -> str:
    found = {_FORMATS.get(file.suffix.lower(), "") for file in files}
    if "" in found:
        other = next(file for file in files if file.suffix.lower() not in _FORMATS)
        raise InvalidInput(f"{listed([str(other)])}: cannot be streamed; use uncompressed {', '.join(_FORMATS)}")
    if len(found) > 1:
        raise InvalidInput(f"the files of records must have one format, and here are {' and '.join(sorted(found))}")
    return found.pop()


def _dataset(files: Sequence[Path], kind: str) -> Any:  # noqa: ANN401
    import pyarrow as pa
    import pyarrow.csv as separated
    import pyarrow.dataset as dataset
    from pyarrow import fs

    form: Any = kind
    schema = None
    if kind == "csv":
        names, separator = _header(files[0])
        # Cells stay bytes until each is read by itself: a bad cell must not fail the others.
        schema = pa.schema([(name, pa.binary()) for name in names])
        form = dataset.CsvFileFormat(
            parse_options=separated.ParseOptions(delimiter=separator),
            convert_options=separated.ConvertOptions(
                column_types=schema, check_utf8=False, strings_can_be_null=False, null_values=[]
            ),
            read_options=separated.ReadOptions(block_size=LONGEST_LINE, use_threads=False),
        )
    # Mapped files count as memory; only Arrow files are read faster so.
    system = fs.LocalFileSystem(use_mmap=kind == "ipc")
    return dataset.dataset([str(file.absolute()) for file in files], schema=schema, format=form, filesystem=system)


def _header(file: Path) -> tuple[list[str], str]:
    """The names of a CSV file's columns, and what separates them."""
    try:
        with file.open("rb") as opened:
            line = opened.readline(LONGEST_LINE).decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise InvalidInput(f"{file}: not a text file in UTF-8; save it as UTF-8 and try again") from None
    separator = next((each for each in SEPARATORS if each in line), ",")
    return next(csv.reader([line], delimiter=separator), []), separator


def _from_dataset(source: RecordSource, dataset: Any, where: str) -> OpenSource:  # noqa: ANN401
    names = tuple(dataset.schema.names)
    if len(set(names)) < len(names):
        raise InvalidInput(f"{where}: several columns have the same name; rename them")
    owned = [name for name in (source.label, source.persons) if name is not None]
    for name in (*owned, *(source.features or ())):
        require_column(name, names, where)
    columns = tuple(source.features or (name for name in names if name not in owned))
    if shared := [name for name in columns if name in owned]:
        raise InvalidInput(f"{where}: {shared[0]!r} cannot be a feature: it is the label or the person")
    fragments: list[Fragment] = []
    rows = 0
    for part in dataset.get_fragments():
        for name, piece in _divided(part, f"memory {len(fragments)}"):
            there, found = _looked_at(piece, name)
            if lacking := [each for each in (*columns, *owned) if each not in there]:
                raise InvalidInput(f"{listed([name])}: has no column {lacking[0]!r}, but other files have it")
            rows += found
            fragments.append(ArrowFragment(len(fragments), name, piece))
    return OpenSource(source, tuple(fragments), columns, _some(rows, where), where=where)


def _divided(part: Any, otherwise: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """A Parquet file's row groups, several per task; any other file as a whole."""
    name = str(getattr(part, "path", otherwise))
    if not hasattr(part, "row_groups"):
        yield name, part
        return
    group: list[int] = []
    rows = 0
    for info in part.row_groups:
        if group and rows + info.num_rows > FRAGMENT_ROWS:
            yield f"{name}#{group[0]}", part.subset(row_group_ids=group)
            group, rows = [], 0
        group.append(info.id)
        rows += info.num_rows
    if group:
        yield f"{name}#{group[0]}", part.subset(row_group_ids=group)


def _looked_at(part: Any, name: str) -> tuple[set[str], int]:  # noqa: ANN401
    """Columns and rows: from the file's metadata, or by parsing it. Errors of pyarrow quote lines and are hidden."""
    try:
        return set(part.physical_schema.names), int(part.count_rows())
    except Exception as error:
        raise InvalidInput(
            f"{listed([name])}: cannot be read as a table ({type(error).__name__}): every line must have the cells of "
            f"the first line, and at most {LONGEST_LINE // 2**20} MB"
        ) from None


def _from_array(source: RecordSource, files: Sequence[Path]) -> OpenSource:
    if len(files) > 1:
        raise InvalidInput("give one npy file of samples; labels and persons are separate npy files with as many rows")
    where = str(files[0])
    shape, kind = _array_head(files[0])
    if len(shape) < 2 or kind not in "fiub":
        raise InvalidInput(f"{where}: must contain numbers, one row per sample")
    for name in (source.label, source.persons):
        if name is not None and _array_head(Path(name))[0] != shape[:1]:
            raise InvalidInput(f"{name}: must have one value per sample of {where}")
    if source.features is not None:
        raise InvalidInput("an npy file has no column names: leave out features")
    starts = range(0, shape[0], FRAGMENT_ROWS)
    place = str(files[0].absolute())
    fragments = tuple(
        ArrayFragment(number, f"{place}#{start}", files[0].absolute(), start, min(start + FRAGMENT_ROWS, shape[0]))
        for number, start in enumerate(starts)
    )
    return OpenSource(source, fragments, None, _some(shape[0], where), shape[1:], where)


def _array_head(file: Path) -> tuple[tuple[int, ...], str]:
    if file.suffix.lower() != ".npy" or not file.is_file():
        raise InvalidInput(f"{listed([str(file)])}: no such .npy file; labels and persons are npy files, too")
    try:
        found = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InvalidInput(f"{file}: not an npy file of numbers or text ({type(error).__name__})") from None
    return tuple(map(int, found.shape)), found.dtype.kind


def _some(rows: int, where: str) -> int:
    if not rows:
        raise InvalidInput(f"{where}: there are no records")
    return rows
