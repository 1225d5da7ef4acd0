"""The votes that engines are measured with, and what else counts them: parts of the work, and other packages.

Records around ten centers, in Parquet files; 200 public queries, of which each record votes for the nearest.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from tacit.engines.fragments import BLOCK
from tacit.methods.rknn.holder import VoteTable
from tacit.methods.rknn.wire import VoteAsk
from tacit.representations.scaled import Identity

WIDTH, QUERIES, CLASSES = 64, 200, 10
GROUP = 2**17
COLUMNS = [f"f{place}" for place in range(WIDTH)]


def write(file: Path, rows: int) -> None:
    """Records around ten centers, a group of rows after the other."""
    generator = np.random.default_rng(0)
    centers = generator.normal(size=(CLASSES, WIDTH)).astype(np.float32)
    schema = pa.schema([*((name, pa.float32()) for name in COLUMNS), ("label", pa.int8()), ("who", pa.int64())])
    with pa.parquet.ParquetWriter(file, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, rows, GROUP):
            count = min(GROUP, rows - start)
            labels = generator.integers(0, CLASSES, count)
            features = generator.standard_normal((count, WIDTH), dtype=np.float32) + centers[labels]
            who = generator.integers(0, max(1, rows // 5), count)
            arrays = [*(features[:, place] for place in range(WIDTH)), labels.astype(np.int8), who]
            writer.write_table(pa.table(dict(zip(schema.names, arrays, strict=True)), schema))


def queries() -> NDArray[np.float32]:
    """The public queries."""
    generator = np.random.default_rng(1)
    return (1.2 * generator.standard_normal((QUERIES, WIDTH))).astype(np.float32)


def ask() -> VoteAsk:
    """The question."""
    names = tuple(str(each) for each in range(CLASSES))
    return VoteAsk(queries(), Identity(WIDTH), 1, names, "c0ffee", None, "labels", "r-1")  # type: ignore[arg-type]


def used() -> float:
    """Processor seconds of this process and of all that it started, as long as they are there or were waited for.

    Looking at their memory is not counted.
    """
    total = -PEAK.spent
    for each in (own := psutil.Process(), *own.children(recursive=True)):
        try:
            times = each.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def busy() -> float:
    """Processor seconds that all cores of the machine have worked."""
    times = psutil.cpu_times()
    # The first eight do not overlap: user, nice, system, idle, iowait, irq, softirq, steal.
    return float(sum(times[:8]) - times.idle - times.iowait)


class Peak(threading.Thread):
    """The most memory that this process and all it started had together, looked at every second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = self.spent = 0.0

    def run(self) -> None:
        """Look, until the process ends."""
        while True:
            total = 0.0
            for each in (own := psutil.Process(), *own.children(recursive=True)):
                try:
                    total += each.memory_full_info().pss / 2**20
                except psutil.Error:
                    continue
            self.most = max(self.most, total)
            self.spent = time.thread_time()
            time.sleep(1.0)


PEAK = Peak()


def digest(counts: NDArray[Any]) -> int:
    """A number that differs for other counts."""
    flat = np.asarray(counts, dtype=np.int64).ravel()
    return int((flat * (np.arange(len(flat)) % 8191 + 1)).sum())


def loaded(file: Path, rows: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The first rows as arrays, for peers that take nothing else."""
    table = pa.parquet.ParquetFile(file).read_row_groups(range(-(-rows // GROUP)))
    table = table.slice(0, rows)
    return np.column_stack([table.column(name).to_numpy() for name in COLUMNS]), table.column("label").to_numpy()


def voted(near: NDArray[Any], labels: NDArray[Any]) -> dict[str, Any]:
    counts = np.zeros((QUERIES, CLASSES), dtype=np.int64)
    np.add.at(counts, (near, labels), 1)
    return {"votes": int(counts.sum()), "digest": digest(counts)}


def product(file: Path, rows: int) -> dict[str, Any]:
    """The bare matrix product of the same sizes, from memory."""
    samples, points = np.ones((BLOCK, WIDTH), dtype=np.float32), queries()
    started, before = time.perf_counter(), time.process_time()
    for _ in range(max(1, rows // BLOCK)):
        points @ samples.T
    return {"seconds": time.perf_counter() - started, "processor": time.process_time() - before}


def voting(file: Path, rows: int) -> dict[str, Any]:
    """Counting the votes of blocks that are in memory as the engine has them, and reading nothing."""
    samples, labels = loaded(file, rows)
    blocks, table = samples.astype(np.float64), VoteTable(ask())
    total = np.zeros(table.shape, dtype=np.int64)
    started, before = time.perf_counter(), time.process_time()
    for start in range(0, rows, BLOCK):
        total += table(blocks[start : start + BLOCK], labels[start : start + BLOCK])
    processor = time.process_time() - before
    return {"seconds": time.perf_counter() - started, "processor": processor, "digest": digest(total)}


def sklearn_peer(file: Path, rows: int) -> dict[str, Any]:
    """scikit-learn's search, brute force, in memory."""
    from sklearn.neighbors import NearestNeighbors

    samples, labels = loaded(file, rows)
    started = time.perf_counter()
    near = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(queries()).kneighbors(samples, return_distance=False)
    return {"seconds": time.perf_counter() - started, **voted(near[:, 0], labels)}


def faiss_peer(file: Path, rows: int) -> dict[str, Any]:
    """faiss' flat index, in memory; and of how many records it names a query that is not the nearest, and by how much.

    It adds up |r|² + |q|² − 2 r·q in float32, so where two queries are almost equally near rounding decides.
    """
    import faiss

    before = time.process_time()
    samples, labels = loaded(file, rows)
    faiss.omp_set_num_threads(1)
    started = time.perf_counter()
    index = faiss.IndexFlatL2(WIDTH)
    index.add(queries())
    _, near = index.search(samples, 1)
    took = {"seconds": time.perf_counter() - started, "processor": time.process_time() - before}
    points, other, gap = queries().astype(np.float64), 0, 0.0
    for start in range(0, rows, GROUP):
        block = samples[start : start + GROUP].astype(np.float64)
        far = (points**2).sum(axis=1) + (block**2).sum(axis=1)[:, None] - 2 * block @ points.T
        named, least = far[np.arange(len(block)), near[start : start + GROUP, 0]], far.min(axis=1)
        other += int((named > least).sum())
        gap = max(gap, float(((named - least) / least).max()))
    return {**took, "other": other, "gap": gap, **voted(near[:, 0], labels)}


def spark_peer(file: Path, rows: int) -> dict[str, Any]:
    """What one would write with Spark alone: it reads the file, a pandas function finds the nearest, a group counts."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    points = queries()

    def nearest(batches: Iterator[Any]) -> Iterator[Any]:
        import pandas

        for batch in batches:
            samples = batch[COLUMNS].to_numpy(np.float32)
            far = (points**2).sum(axis=1)[None, :] - 2 * samples @ points.T
            yield pandas.DataFrame({"query": far.argmin(axis=1), "label": batch["label"].astype("int64")})

    started, before = time.perf_counter(), used()
    found = spark.read.parquet(str(file)).mapInPandas(nearest, "query long, label long")
    counted = found.groupBy("query", "label").count().collect()
    took = {"seconds": time.perf_counter() - started, "processor": used() - before}
    counts = np.zeros((QUERIES, CLASSES), dtype=np.int64)
    for row in counted:
        counts[row["query"], row["label"]] = row["count"]
    spark.stop()
    return {**took, "votes": int(counts.sum()), "digest": digest(counts)}
