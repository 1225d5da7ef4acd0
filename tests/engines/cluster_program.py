"""Counts a small holder's records on an engine that loses tasks, and prints what became of it.

Run by the tests of Ray and Spark, as a process of its own that ends for sure:
python cluster_program.py TASK NAME FOLDER WORKERS [ADDRESS]
"""

import json
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

from tacit.core.errors import InvalidInput, TacitError
from tacit.core.guarantee import Unit
from tacit.core.randomness import SeededRandomness
from tacit.engines import source as sources
from tacit.engines.engine import Engine, Threads, opened_engine
from tacit.engines.records import streamed_records
from tests.engines.holdings import CLASSES, TABLES, in_memory, table

SECRET = "Ada has 42"
ROWS, FILES = 5000, 4


class Once:
    """One task fails, once, and one dies, once; else what the table does. What the failure quotes is private."""

    def __init__(self, table, folder):
        self.table, self.folder, self.shape = table, str(folder), table.shape

    def __call__(self, samples, labels):
        if self.first("failed"):
            raise ValueError(SECRET)
        if self.first("died"):
            os._exit(1)
        return self.table(samples, labels)

    def first(self, mark):
        try:
            os.close(os.open(f"{self.folder}/{mark}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


class Always:
    """Every task that has the first record dies, however often it is run; its deaths are counted in a file."""

    def __init__(self, table, folder, first):
        self.table, self.folder, self.shape, self.first = table, str(folder), table.shape, first

    def __call__(self, samples, labels):
        if np.array_equal(samples[0], self.first):
            with Path(self.folder, "deaths").open("a") as file:
                file.write("x")
            os._exit(1)
        return self.table(samples, labels)


class Recording:
    """An engine's door: what came out of it, and every task once more than it was asked for."""

    def __init__(self, engine):
        self.engine, self.seen = engine, []
        self.require_sendable = engine.require_sendable

    def run(self, count, fragments):
        for partial in self.engine.run(count, [*fragments, fragments[0]]):
            self.seen.append(partial)
            yield partial


def source_in(folder):
    """The holder's records in files, and the same in memory."""
    content = table(ROWS)
    for number in range(FILES):
        size = ROWS // FILES
        pa.parquet.write_table(content.slice(number * size, size), folder / f"{number}.parquet")
    columns = [f"f{place}" for place in range(4)]
    return sources.RecordSource(folder, "label", columns, "who").open(), content


def die(engine, folder):
    """What is said of records that kill every worker."""
    source, content = source_in(folder)
    records = streamed_records(source, engine, np.array(CLASSES), None, (4,))
    first = np.array([content.column(f"f{place}")[0].as_py() for place in range(4)])
    try:
        records.total(Always(TABLES["votes"], folder, first), Unit(), SeededRandomness(1))
    except TacitError as error:
        return {"ended": str(error), "deaths": len((folder / "deaths").read_text())}
    return {}


def count(engine, folder):
    """Whether records are counted as here while one task fails and one dies, and what the engine was told and says."""
    source, content = source_in(folder)
    said = {"fragments": len(source.fragments)}
    person = Unit.person("who", 2)
    here = streamed_records(source, Threads(2), np.array(CLASSES), None, (4,))
    recording = Recording(engine)
    records = streamed_records(source, recording, np.array(CLASSES), None, (4,))
    records.require_countable(TABLES["votes"])
    counted = records.total(Once(TABLES["votes"], folder), person, SeededRandomness(1))
    said["same"] = np.array_equal(counted, here.total(TABLES["votes"], person, SeededRandomness(1)))
    said["fewer"] = bool(0 < counted.sum() < in_memory("votes", content).sum())
    said["marks"] = [(folder / mark).exists() for mark in ("failed", "died")]
    said["kinds"] = sorted(
        {(type(each).__name__, type(each.fragment).__name__, type(each.rows).__name__, str(each.table.dtype))
         for each in recording.seen}
    )  # fmt: skip
    said["shapes"] = sorted({each.table.shape for each in recording.seen})
    try:
        engine.require_sendable(threading.Lock())
    except InvalidInput as error:
        said["refused"] = str(error)
    memory = sources.RecordSource(pa.dataset.dataset(content), "label", list(source.columns), "who").open()
    try:
        streamed_records(memory, engine, np.array(CLASSES), None, (4,)).require_countable(TABLES["votes"])
    except InvalidInput as error:
        said["in memory"] = str(error)
    return said


def main(task, name, folder, workers, address=None):
    with opened_engine(Engine(name, int(workers), address)) as engine:
        said = {"count": count, "die": die}[task](engine, Path(folder))
        try:
            # The engine is open: another address would be another cluster.
            with opened_engine(Engine(name, int(workers), "127.0.0.1:1")):
                pass
        except InvalidInput as error:
            said["elsewhere"] = str(error)
        if name == "spark":
            said["cores"] = engine._session.sparkContext.getConf().get("spark.cores.max")
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
