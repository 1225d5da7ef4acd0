"""Spark: the same count on the workers of a cluster, by ``mapInArrow``.

Spark's data frame has one row per fragment, each in its own partition: the fragment's number, and no record. Each task
reads its fragment itself, so records are neither shuffled nor written to Spark's disks. Spark repeats tasks that failed
or whose executor was lost; results are identified by the fragment's number.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from tacit.core import InvalidInput, TacitError, listed
from tacit.engines.counting import ATTEMPTS, Partial, require_reached, require_written
from tacit.engines.fragments import Fragment

__all__ = ["SparkEngine"]

RETURNED = "fragment bigint, rows bigint, columns bigint, table binary"
# Fragments per simultaneous task, before their tables are summed here.
WAVES = 4


def _java() -> None:
    """Refuse a machine without Java; Spark would wait and then raise an unclear error."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and shutil.which("java", path=f"{home}/bin")):
        raise InvalidInput("the engine spark needs Java 17: on Debian, apt-get install openjdk-17-jre-headless")


class SparkEngine:
    """Spark at ``address`` (``spark://host:7077``), or on this machine until the engine is closed."""

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        active = SparkSession.getActiveSession()
        self._started, self._workers = active is None, workers
        if active is not None and address not in (None, active.sparkContext.master):
            raise InvalidInput(
                f"a Spark session is already open in this process, at {active.sparkContext.master} and not at "
                f"{listed([address])}: stop it before, or leave out the address"
            )
        if self._started and address is None:
            _java()
        if self._started and address is not None:
            require_reached("Spark", address)
        # Workers on this machine run this Python interpreter, which has all packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder: Any = SparkSession.builder
        if address is None:
            # Not reachable from the network.
            builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
        elif workers is not None:
            # A cluster of Spark's own would give all its cores; others are limited by the number of tasks.
            builder = builder.config("spark.cores.max", str(workers))
        # With the number of attempts: on this machine Spark would otherwise not run a task again.
        local = f"local[{workers or '*'},{ATTEMPTS}]"
        try:
            self._session = (
                builder.appName("tacit")
                .master(address or local)
                .config("spark.task.maxFailures", str(ATTEMPTS))
                .config("spark.ui.enabled", "false")
                .config("spark.ui.showConsoleProgress", "false")
                .config("spark.sql.execution.arrow.maxRecordsPerBatch", "1")
                .getOrCreate()
            )
        except Exception as error:
            where = "on this machine" if address is None else f"at {listed([address])}"
            raise TacitError(f"Spark cannot be reached {where} ({type(error).__name__})") from None
        self._session.sparkContext.setLogLevel("OFF")
        logging.getLogger("py4j").setLevel(logging.ERROR)

    def require_sendable(self, sent: Any) -> None:  # noqa: ANN401
        """Refuse a question, or fragments, that cannot be serialized for workers."""
        require_written(sent, cloudpickle.dumps)

    def run(self, count: Callable[[Fragment], Partial], fragments: Sequence[Fragment]) -> Iterator[Partial]:
        """The fragments' tables, one task each."""
        # Serialized in the way that was tested before the payment; Spark's own serializer supports fewer types.
        written = cloudpickle.dumps((count, {each.number: each for each in fragments}))
        asked = self._session.sparkContext.broadcast(written)

        def counted(batches: Iterator[Any]) -> Iterator[Any]:
            work, known = cloudpickle.loads(asked.value)
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield _packed(work(known[number]))

        spark = self._session.sparkContext
        first = 0
        try:
            # In waves that keep the workers busy: all tables together might be too large for this process.
            while first < len(fragments):
                # Asked anew: a cluster's executors come one after the other.
                cores = max(1, spark.defaultParallelism)
                some = fragments[first : first + WAVES * (self._workers or cores)]
                first += len(some)
                # One task per fragment, or as many tasks as workers if more could run at the same time.
                tasks = len(some) if self._workers is None or self._workers >= cores else self._workers
                numbers = spark.parallelize([(each.number,) for each in some], min(len(some), tasks))
                frame = self._session.createDataFrame(numbers, "fragment bigint")
                for row in frame.mapInArrow(counted, RETURNED).collect():
                    table = np.frombuffer(row["table"], dtype="<i8").astype(np.int64)
                    shape = (-1, row["columns"]) if row["columns"] else (0, 0)
                    yield Partial(row["fragment"], row["rows"], table.reshape(shape))
        finally:
            asked.destroy()

    def close(self) -> None:
        """Stop what was started here."""
        if self._started:
            self._session.stop()


def _packed(partial: Partial) -> Any:  # noqa: ANN401
    """A worker's result: integers, the table as bytes."""
    names = ("fragment", "rows", "columns", "table")
    cells = (partial.fragment, partial.rows, partial.table.shape[1], partial.table.astype("<i8").tobytes())
    return pa.RecordBatch.from_pydict({name: [cell] for name, cell in zip(names, cells, strict=True)})
