"""A record source in the place of records: what is looked at before anything is paid, and the task that follows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tacit.core import InvalidInput, Trust, Unit
from tacit.core.options import Options
from tacit.core.samples import column_names
from tacit.encoders.kinds import KINDS
from tacit.encoders.table import TableEncoder
from tacit.engines.engine import Engine, OpenEngine, opened_engine
from tacit.engines.records import StreamedRecords, streamed_records
from tacit.engines.source import OpenSource, RecordSource, is_pattern
from tacit.methods.registry import Method, require_streams
from tacit.methods.task import Task
from tacit.private.records import Private
from tacit.runs.inputs import Data, GivenData, class_names, rows, seeded
from tacit.runs.task import Terms, randomness_of

__all__ = ["Stream", "read_stream_task", "record_source", "require_streamable", "streaming"]

Stream = tuple[OpenSource, OpenEngine]


def record_source(private: Any, data: Data, engine: Engine | str | None) -> RecordSource | None:  # noqa: ANN401
    """The source that is to be streamed; None where records are in memory, or are to be.

    A file is streamed where an engine is named; a pattern of names and a pyarrow data set always are.

    >>> record_source("records/*.parquet", Data(label="outcome"), None).label
    'outcome'
    >>> record_source("records.parquet", Data(label="outcome"), None) is None
    True
    """
    if isinstance(private, RecordSource):
        if data.label is not None or data.persons is not None:
            raise InvalidInput("the record source says which columns are the label and the person: give them there")
        return private
    if hasattr(private, "get_fragments") or is_pattern(private) or (engine and isinstance(private, str | Path)):
        if data.persons is not None and not isinstance(data.persons, str):
            raise InvalidInput("persons of a record source are a column: give its name")
        return RecordSource(private, data.label, persons=data.persons)
    if engine is not None:
        raise InvalidInput(
            "an engine counts records where they lie: give private as a file, a folder, a pattern such as "
            "'records/*.parquet' or a tacit.RecordSource, or leave out the engine"
        )
    return None


def require_streamable(method: Method, settings: Options, data: Data, holders: Any, trust: str | None) -> None:  # noqa: ANN401
    """Refuse what needs records in memory, before a file is looked at."""
    require_streams(method)
    if not (isinstance(holders, int) and holders == 1):
        raise InvalidInput("a record source is one holder's: leave out holders")
    if trust not in (None, Trust.CENTRAL):
        raise InvalidInput(f"a record source is counted for central trust; {str(trust)[:80]} trust needs each record")
    if data.test is not None:
        raise InvalidInput("a test set is for methods with rounds of their own; measure the finished run instead")
    if getattr(settings, "private_cache", None) is not None:
        raise InvalidInput("encodings of streamed records are not kept: leave out private_cache")
    if getattr(settings, "max_labels", None) is not None:
        raise InvalidInput("streamed records have one label each: leave out max_labels")


@contextmanager
def streaming(source: RecordSource | None, engine: Engine | str | None) -> Iterator[Stream | None]:
    """The source looked at and its engine at work, for as long as this lasts."""
    if source is None:
        yield None
        return
    chosen = Engine.of(engine)
    opened = source.open()
    with opened_engine(chosen) as at_work:
        yield opened, at_work


def read_stream_task(stream: Stream, given: GivenData, terms: Terms) -> tuple[Task, tuple[str, ...] | None]:
    """The task of a run over a record source, and the names of the columns. No record is read."""
    source, engine = stream
    encoder = given.recognized.encoder
    if encoder is not None and not isinstance(encoder, TableEncoder):
        raise InvalidInput(
            f"the public samples are {KINDS[given.recognized.kind]}: a record source is a table with named columns, or "
            "an npy file of numbers"
        )
    if terms.classes is None:
        raise InvalidInput("classes must be given: a record source is not read to find them")
    public, classes = rows(given.public, "public"), class_names(terms.classes)
    named = column_names(given.public, "public samples")
    columns = encoder.names if encoder is not None else tuple(source.given.features or ()) or named
    records = streamed_records(source, engine, classes, columns, public.shape[1:], encoder)
    unit, seed = _unit(terms.unit, records), seeded(terms.seed)
    task = Task(
        **terms.read(),
        public=public,
        classes=classes,
        unit=unit,
        units=records.units(unit),
        seed=seed,
        holders=("0",),
        parts=(Private(records),),
        randomness=randomness_of(seed),
    )
    return task, named


def _unit(unit: Unit | None, records: StreamedRecords) -> Unit:
    owned = records.reading.person is not None
    if unit is not None and (unit.column is not None) != owned:
        raise InvalidInput(
            "the unit is a person: say in persons which column tells them apart"
            if not owned
            else "persons are given, and the unit is not a person: give unit=Unit.person(column, records)"
        )
    return unit or (Unit.person(str(records.reading.person), 1) if owned else Unit())
