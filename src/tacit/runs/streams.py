"""Runs over a record source: the checks before anything is paid, and the task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tacit.core import InvalidInput, Trust, Unit
from tacit.core.options import Options
from tacit.core.samples import column_names
from tacit.encoders.kinds import KINDS
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
    """The source to be streamed; None for records in memory.

    A file is streamed if an engine is named; a file name pattern and a pyarrow data set always are.

    >>> record_source("records/*.parquet", Data(label="outcome"), None).label
    'outcome'
    >>> record_source("records.parquet", Data(label="outcome"), None) is None
    True
    """
    if isinstance(private, RecordSource):
        if data.label is not None or data.persons is not None:
            raise InvalidInput("give the columns of the label and the person in the record source")
        return private
    if hasattr(private, "get_fragments") or is_pattern(private) or (engine and isinstance(private, str | Path)):
        if data.persons is not None and not isinstance(data.persons, str):
            raise InvalidInput("persons of a record source must be the name of a column")
        return RecordSource(private, data.label, persons=data.persons)
    if engine is not None:
        raise InvalidInput(
            "an engine counts records in place: give private as a file, a folder, a pattern such as "
            "'records/*.parquet' or a tacit.RecordSource, or leave out the engine"
        )
    return None


def require_streamable(method: Method, settings: Options, data: Data, holders: Any, trust: str | None) -> None:  # noqa: ANN401
    """Refuse settings that need records in memory, before a file is opened."""
    require_streams(method)
    if not (isinstance(holders, int) and holders == 1):
        raise InvalidInput("a record source belongs to one holder: leave out holders")
    if trust not in (None, Trust.CENTRAL):
        raise InvalidInput(f"a record source works with central trust only; {str(trust)[:80]} trust needs each record")
    if data.test is not None:
        raise InvalidInput("a test set is for methods that report rounds; measure the finished run instead")
    if getattr(settings, "private_cache", None) is not None:
        raise InvalidInput("encodings of streamed records are not cached: leave out private_cache")
    if getattr(settings, "max_labels", None) is not None:
        raise InvalidInput("streamed records have one label each: leave out max_labels")


@contextmanager
def streaming(source: RecordSource | None, engine: Engine | str | None) -> Iterator[Stream | None]:
    """The opened source and its running engine, which is closed at the end."""
    if source is None:
        yield None
        return
    chosen = Engine.of(engine)
    opened = source.open()
    with opened_engine(chosen) as at_work:
        yield opened, at_work


def read_stream_task(stream: Stream, given: GivenData, terms: Terms) -> tuple[Task, tuple[str, ...] | None]:
    """The task of a run over a record source, and the column names. No record is read."""
    source, engine = stream
    encoder = given.recognized.encoder
    if encoder is not None and encoder.names is None:
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
            "the unit is a person: name the column of persons, with persons"
            if not owned
            else "persons are given, but the unit is not a person: give unit=Unit.person(column, records)"
        )
    return unit or (Unit.person(str(records.reading.person), 1) if owned else Unit())
