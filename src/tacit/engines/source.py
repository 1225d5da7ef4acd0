"""A holder's records in files, folders, file name patterns, Arrow data sets or mapped arrays.

Opening a source reads names, types and numbers of rows, before anything is paid; errors are for the operator. Cells are
read after the payment, and from there on nothing is refused: a cell that is not a number, a label outside the classes
and a record without a person make an empty vote, each for its own record only. A CSV file, in which one record could
break the rows of others, is therefore parsed once when it is opened.

Files are read in several passes: when they are opened, to bound persons, and for each question. All passes must see
the same records, so each file's state is kept, and a file that was changed since is not counted.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core import InvalidInput, TacitError, listed, whole, why_unreadable
from tacit.datasets.frame import require_column
from tacit.engines.file_fragments import LONGEST_LINE, ArrowFileFragment, CsvFragment, csv_columns, csv_parts
from tacit.engines.file_states import FileState, file_states
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
            states = file_states(_local_files(self.records))
            return replace(_from_dataset(self, self.records), opened=states)
        files = _files(self.records)
        kind = _format(files)
        beside = [Path(each) for each in (self.label, self.persons) if each is not None] if kind == "npy" else []
        # Before anything is read: what is changed from here on is noticed.
        states = file_states([*files, *beside])
        return replace(_from_array(self, files) if kind == "npy" else _from_tables(self, files, kind), opened=states)


@dataclass(frozen=True)
class OpenSource:
    """An opened source. ``columns`` are its feature columns; None if columns have no names.

    ``opened`` are its files as they were when it was opened; none of a data set that is not in local files.
    """

    given: RecordSource
    fragments: tuple[Fragment, ...]
    columns: tuple[str, ...] | None
    rows: int
    shape: tuple[int, ...] | None = None
    where: str = "the records"
    opened: tuple[FileState, ...] = ()

    def require_unchanged(self, otherwise: str) -> None:
        """Refuse files other than those that were opened; ``otherwise`` says what happens then."""
        for each in self.opened:
            if FileState.of(each.file) != each:
                raise TacitError(
                    f"{listed([str(each.file)])}: was changed, replaced or removed after it was opened, so it may no "
                    f"longer have the records that were found in it. {otherwise}"
                )

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


@dataclass(frozen=True)
class _Part:
    """What one task will read: its name, columns and rows, and the fragment of a given number."""

    name: str
    columns: Sequence[str]
    rows: int
    fragment: Callable[[int], Fragment]


def _from_tables(source: RecordSource, files: Sequence[Path], kind: str) -> OpenSource:
    """Files with named columns."""
    where = str(files[0] if len(files) == 1 else files[0].parent)
    try:
        if kind == "csv":
            return _from_parts(source, csv_columns(files[0])[0], _csv(files), where)
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
    return _from_parts(source, dataset.schema.names, _parts(dataset, mapped=kind == "ipc"), where)


def _from_dataset(source: RecordSource, dataset: Any) -> OpenSource:  # noqa: ANN401
    """A pyarrow data set, read as it was made."""
    return _from_parts(source, dataset.schema.names, _parts(dataset), "the data set")


def _dataset(files: Sequence[Path], kind: str) -> Any:  # noqa: ANN401
    import pyarrow.dataset as dataset
    from pyarrow import fs

    # Mapped files count as memory; but to count its rows, an Arrow file that is not mapped is read whole.
    system = fs.LocalFileSystem(use_mmap=kind == "ipc")
    return dataset.dataset([str(file.absolute()) for file in files], format=kind, filesystem=system)


def _local_files(dataset: Any) -> list[Path]:  # noqa: ANN401
    """The files of a data set that are on this machine's file system."""
    from pyarrow import fs

    local = (
        each for each in dataset.get_fragments() if isinstance(getattr(each, "filesystem", None), fs.LocalFileSystem)
    )
    return [Path(each.path) for each in local]


def _from_parts(source: RecordSource, schema: Iterable[str], parts: Iterable[_Part], where: str) -> OpenSource:
    names = tuple(schema)
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
    for part in parts:
        if lacking := [each for each in (*columns, *owned) if each not in part.columns]:
            raise InvalidInput(f"{listed([part.name])}: has no column {lacking[0]!r}, but other files have it")
        rows += part.rows
        fragments.append(part.fragment(len(fragments)))
    return OpenSource(source, tuple(fragments), columns, _some(rows, where), where=where)


def _csv(files: Sequence[Path]) -> Iterator[_Part]:
    """The parts of CSV files, whose lines are parsed."""
    for file in files:
        names, separator, _ = csv_columns(file)
        if len(set(names)) < len(names):
            raise InvalidInput(f"{file}: several columns have the same name; rename them")
        path = file.absolute()
        try:
            for start, stop, rows in csv_parts(file, FRAGMENT_ROWS):
                name = f"{path}#{start}"
                made = partial(
                    CsvFragment, name=name, file=path, start=start, stop=stop, names=names, separator=separator
                )
                yield _Part(name, names, rows, made)
        except Exception as error:
            raise _unreadable(str(file), error) from None


def _parts(dataset: Any, mapped: bool = False) -> Iterator[_Part]:  # noqa: ANN401
    """The parts of a data set; those of Arrow files are mapped into memory."""
    for count, part in enumerate(dataset.get_fragments()):
        for name, piece in _divided(part, f"memory {count}"):
            there, rows = _looked_at(piece, name)
            made = partial(ArrowFileFragment, file=Path(name)) if mapped else partial(ArrowFragment, part=piece)
            yield _Part(name, there, rows, partial(made, name=name))


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


def _looked_at(part: Any, name: str) -> tuple[Sequence[str], int]:  # noqa: ANN401
    """Columns and rows, from the file's metadata."""
    try:
        # Of some row groups of a Parquet file pyarrow would count the rows of the whole file.
        groups = getattr(part, "row_groups", None)
        rows = part.count_rows() if groups is None else sum(group.num_rows for group in groups)
        return part.physical_schema.names, int(rows)
    except Exception as error:
        raise _unreadable(name, error) from None


def _unreadable(name: str, error: Exception) -> InvalidInput:
    """Errors of pyarrow quote lines, and are hidden."""
    return InvalidInput(
        f"{listed([name])}: cannot be read as a table ({type(error).__name__}): every line must have the cells of "
        f"the first line, and at most {LONGEST_LINE // 2**20} MB"
    )


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
