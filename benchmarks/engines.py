"""The cost of counting the votes of one huge holder: rows, memory and time of each engine and of peers, in one run.

Parquet files of 64 float32 features are written streaming, and counted by 200 queries with one neighbor and 10 classes.
Beyond ten million rows the folder has the same file under several names. Every measurement is a process of its own: its
time on the clock, and the processor time and the peak memory of it and all it started. Starting an engine is told
apart. The bare product is the float32 matrix product of the same sizes from memory, in blocks that stay in the cache:
what no exact search can do without. Reading alone and counting alone, from memory, tell where the rest goes. Peers
answer the same question (the nearest of 200 queries) from the same file or, where they cannot stream, from a part of it
in memory.

What two workers are to one is measured first, before longer measurements warm up the machine, and with Ray and Spark on
ten million rows; the same at fewer rows tells what of it is the start of workers. A measurement that fails is named at
the end, and the exit status is 1; the others are written.

Run: python benchmarks/engines.py [--rows 100000 1000000] [--engines threads ray spark] [--peers] [--out docs/results]
     [--engine-rows 1000000] [--speedup-rows 10000000] [--scratch FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from tacit.core import SystemRandomness, Unit
from tacit.engines.engine import Engine, opened_engine
from tacit.engines.fragments import BLOCK
from tacit.engines.records import streamed_records
from tacit.engines.source import RecordSource
from tacit.methods.rknn.holder import VoteTable
from tacit.methods.rknn.wire import VoteAsk
from tacit.representations.scaled import Identity
from tacit.runs.folders import machine

ROWS = (100_000, 1_000_000)
WIDTH, QUERIES, CLASSES = 64, 200, 10
GROUP = 2**17
# Rows that peers without streaming are given: as arrays, and no more than fit.
PEER_ROWS = 1_000_000
# Rows of the largest file: a folder of more has it under several names.
FILE_ROWS = 10**7
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


class Unread:
    """A count that looks at nothing: what is left is the time to read."""

    shape = (1, 1)

    def __call__(self, samples: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.int64]:
        return np.full((1, 1), len(samples), dtype=np.int64)


def streamed(file: Path, engine: str, workers: int, persons: bool, table: Any = None) -> dict[str, Any]:  # noqa: ANN401
    """One engine over the file, or all files of a folder."""
    source = RecordSource(file, "label", COLUMNS, "who" if persons else None).open()
    unit = Unit.person("who", 2) if persons else Unit()
    started, before = time.perf_counter(), used()
    with opened_engine(Engine(engine, workers)) as at_work:
        records = streamed_records(source, at_work, np.arange(CLASSES), None, (WIDTH,))
        ready, starting, machines = time.perf_counter(), used(), busy()
        counts = records.total(VoteTable(ask()) if table is None else table, unit, SystemRandomness())
        seconds, processor, machines = time.perf_counter() - ready, used() - starting, busy() - machines
    took = {"start": ready - started, "start_processor": starting - before, "processor": processor, "seconds": seconds}
    # Cores that other programs had meanwhile.
    others = max(0.0, machines - processor) / seconds
    return {**took, "others": others, "votes": int(counts.sum()), "digest": digest(counts)}


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


def reading(file: Path, rows: int) -> dict[str, Any]:
    """Reading the file as the engine does, and counting nothing."""
    return streamed(file, "threads", 1, persons=False, table=Unread())


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


PEERS: dict[str, tuple[str, Callable[[Path, int], dict[str, Any]]]] = {
    "product": ("bare product", product),
    "voting": ("votes from memory, no file", voting),
    "reading": ("reading the file, no votes", reading),
    "sklearn": ("scikit-learn NearestNeighbors", sklearn_peer),
    "faiss": ("faiss-cpu IndexFlatL2", faiss_peer),
    "spark-udf": ("plain PySpark mapInPandas", spark_peer),
}

# Where other programs had more than this of a core, times on the clock are not comparable.
CALM = 0.2
ENGINES = ("threads", "ray", "spark")
# What has processes of its own.
CLUSTERS = ("ray", "spark", "spark-udf")


def rows_of(file: Path) -> int:
    """The rows of a file, or of all files of a folder."""
    parts = sorted(file.glob("*.parquet")) if file.is_dir() else [file]
    return sum(pa.parquet.ParquetFile(each).metadata.num_rows for each in parts)


def one(arguments: argparse.Namespace) -> None:
    """One measurement in this process."""
    name, workers, persons = arguments.one
    file, rows = arguments.file, rows_of(arguments.file)
    # Others' memory is looked at now and then; this process' own peak is known for sure.
    if name in CLUSTERS:
        PEAK.start()
    before = time.process_time()
    bounded = persons == "persons"
    found = PEERS[name][1](file, rows) if name in PEERS else streamed(file, name, int(workers), bounded)
    # Where a peer does not tell the part that counts, its processor time is that of reading and counting.
    found = {"rows": rows, "processor": time.process_time() - before, **found}
    found["peak_mb"] = max(PEAK.most, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(json.dumps(found))


def measured(file: Path, name: str, workers: int = 1, persons: bool = False) -> dict[str, Any] | None:
    """A measurement in a process of its own; None where it fails, as where its package is not installed."""
    command = [sys.executable, __file__, "--file", str(file), "--one", name, str(workers)]
    # Ray gives its workers a lower priority than its driver: on a busy machine they would not be compared as equals.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "RAY_TMPDIR": "/tmp", "RAY_worker_niceness": "0"}
    load = round(os.getloadavg()[0], 1)
    done = subprocess.run(
        [*command, "persons" if persons else "records"], capture_output=True, text=True, env=environment
    )
    if done.returncode:
        print(f"{name} was not measured: {done.stderr.strip().splitlines()[-1:]}", flush=True)
        return None
    said = json.loads(done.stdout.splitlines()[-1])
    row = {"name": name, "workers": workers, "persons": persons, "load": load, **said}
    print(row, flush=True)
    return row


def made(folder: Path, rows: int) -> Path:
    """A file of that many rows, or a folder of files."""
    file = folder / f"{rows}.parquet"
    if rows > FILE_ROWS:
        file.mkdir(exist_ok=True)
        part = made(folder, FILE_ROWS)
        for number in range(-(-rows // FILE_ROWS)):
            if not (name := file / f"{number}.parquet").exists():
                name.hardlink_to(part)
    elif not file.exists():
        write(file.with_suffix(".draft"), rows)
        file.with_suffix(".draft").rename(file)
    return file


def wanted(arguments: argparse.Namespace) -> list[tuple[int, str, int, bool]]:
    """Rows, name, workers and whether persons are bounded of every measurement, in order: speed-up first."""
    some, clusters = arguments.engine_rows, sorted({*arguments.engines} - {"threads"})
    fast = arguments.speedup_rows or (FILE_ROWS if clusters else some)
    # Peers that work in memory get no more than fits, and threads the same for comparison.
    fit = min(some, PEER_ROWS)
    found = [(fast, engine, workers, False) for engine in ("threads", *clusters) for workers in (1, 2)]
    found += [(some, engine, workers, False) for engine in clusters for workers in (1, 2)]
    found += [(some, "threads", 2, False), (some, "threads", 1, False), (some, "threads", 2, True)]
    found += [(fit, "threads", 2, False), (some, "product", 1, False), (fit, "voting", 1, False)]
    found += [(some, "reading", 1, False)]
    if arguments.peers:
        found += [(fit, "sklearn", 1, False), (fit, "faiss", 1, False), (some, "spark-udf", 2, False)]
    found += [(rows, "threads", 2, False) for rows in sorted(arguments.rows)]
    return list(dict.fromkeys(found))


def main() -> None:
    """Measure, and print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=None, help="a folder for engines-scale.json and engines-scale.md")
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=["threads"])
    parser.add_argument("--engine-rows", type=int, default=10**6, help="rows for engines other than threads, and peers")
    parser.add_argument(
        "--speedup-rows", type=int, default=None,
        help=f"rows for one worker against two; by default {FILE_ROWS:,} if another engine than threads is measured",
    )  # fmt: skip
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--scratch", type=Path, default=None, help="where the files are written, and kept")
    parser.add_argument("--note", default="", help="a line for the page")
    parser.add_argument("--one", nargs=3, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        return one(arguments)
    failed = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.scratch or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / "measured.json"
        stored: list[dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else []
        # What was measured with the same files before is not measured again.
        known = {(row["asked"], row["name"], row["workers"], row["persons"]) for row in stored}
        asked = [each for each in wanted(arguments) if each not in known]
        files = {each[0]: made(folder, each[0]) for each in asked}
        # Written to the disk before anything is measured.
        os.sync()
        for each in asked:
            rows, name, workers, persons = each
            if (row := measured(files[rows], name, workers, persons)) is None:
                failed.append(f"{name} with {workers} workers at {rows:,} rows")
                continue
            stored.append({"asked": rows, **row})
            kept.write_text(json.dumps(stored), encoding="utf-8")
    text = page(stored, arguments.note)
    print(text)
    if arguments.out is not None:
        (arguments.out / "engines-scale.md").write_text(text, encoding="utf-8")
        content = {"name": "engines-scale", "rows": stored, "machine": machine(), "note": arguments.note}
        (arguments.out / "engines-scale.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if failed:
        sys.exit(f"not measured: {'; '.join(failed)}")


def page(stored: list[dict[str, Any]], note: str) -> str:
    """The page of results."""
    lines = ["# engines-scale", ""]
    lines += [
        f"Votes of records with {WIDTH} float32 features in Parquet files for the nearest of {QUERIES} queries, "
        f"{CLASSES} classes (`python benchmarks/engines.py`). Processor time and peak memory are of the process and of "
        "all that it started. Beyond ten million rows a folder has the same file under several names.",
        "",
        "| engine | workers | rows | seconds | processor seconds | µs of processor per row | peak MB |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    counted = [row for row in stored if row["name"] in ENGINES and not row["persons"]]
    grown = [row for row in counted if row["name"] == "threads" and row["workers"] == 2]
    lines += [_line(row["name"], row) for row in sorted(grown, key=lambda row: row["rows"])]
    others = [row for row in counted if row["name"] != "threads" and row["workers"] == 2]
    lines += [_line(row["name"], row) for row in sorted(others, key=lambda row: (row["name"], row["rows"]))]
    lines += _speedup(counted)
    lines += _compared(stored)
    if grown:
        last = max(grown, key=lambda row: row["rows"])
        each = last["processor"] / last["rows"]
        minutes = each * 1e9 / 100 / 60
        lines += [
            "",
            f"On paper: 10⁹ rows at {1e6 * each:.2f} µs of processor each are {each * 1e9 / 3600:.1f} processor hours, "
            f"on 100 machines of one core {minutes:.1f} minutes; a fragment's table has "
            f"{8 * QUERIES * CLASSES:,} bytes, {8 * QUERIES * CLASSES * 1e9 / 2**18 / 1e6:.0f} MB for all "
            "3,815 fragments of 2¹⁸ rows.",
        ]
    return "\n".join([*lines, "", *([f"- {note}"] if note else []), f"- {machine()}", ""])


def _speedup(counted: list[dict[str, Any]]) -> list[str]:
    """What two workers are to one: with the start of workers, and without it where two numbers of rows were counted."""
    found = {(row["name"], row["rows"], row["workers"]): row for row in counted}
    pairs = {(name, rows) for name, rows, _ in found if {(name, rows, 1), (name, rows, 2)} <= set(found)}
    lines = []
    for name in ENGINES:
        sizes = sorted(rows for engine, rows in pairs if engine == name)
        if not sizes:
            continue
        one, two = ([found[name, rows, workers] for rows in sizes] for workers in (1, 2))
        cells = [name, f"{sizes[-1]:,}", *(f"{row['seconds']:.1f}" for row in (one[-1], two[-1]))]
        cells += [f"{two[-1]['processor'] / one[-1]['processor']:.2f}"]
        busy = max(row["others"] for row in (one[-1], two[-1]))
        calm = busy <= CALM
        cells += [f"{one[-1]['seconds'] / two[-1]['seconds']:.2f}" if calm else "not comparable"]
        more = [row[-1]["seconds"] - row[0]["seconds"] for row in (one, two)]
        known = len(sizes) > 1 and calm and min(more) > 0 and max(one[0]["others"], two[0]["others"]) <= CALM
        cells += [f"{more[0] / more[1]:.2f}" if known else "", f"{busy:.1f}"]
        lines.append(_joined(cells))
    if not lines:
        return []
    return [
        "",
        "One worker against two. Seconds are from the question to the table, and with Ray and Spark have the start of "
        "their workers in them; without it is the same for the rows by which the largest count exceeds the smallest. "
        f"Where other programs had more than {CALM} of a core meanwhile, the clock is not comparable.",
        "",
        "| engine | rows | seconds, one worker | two workers | processor seconds, two to one | times as fast | "
        "without the start | cores of others, at most |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *lines,
    ]


def _compared(stored: list[dict[str, Any]]) -> list[str]:
    """Engines and peers at the rows that peers were given."""
    sizes = {row["rows"] for row in stored if row["name"] in PEERS}
    base = next((row["processor"] / row["rows"] for row in stored if row["name"] == "product"), None)
    votes = {(row["rows"], row["digest"]) for row in stored if row["name"] == "threads" and not row["persons"]}
    lines = [
        "",
        "Engines and peers. Starting an engine is in a column of its own. scikit-learn and faiss work in memory: "
        "reading is in their processor seconds alone.",
        "",
        "| what | workers | rows | seconds | processor seconds | times the bare product | "
        "to start, processor seconds | peak MB | same counts |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in stored:
        if row["rows"] not in sizes:
            continue
        name = PEERS[row["name"]][0] if row["name"] in PEERS else f"engine {row['name']}"
        name += ", at most 2 records per person" if row["persons"] else ""
        ratio = "" if base is None else f"{row['processor'] / row['rows'] / base:.1f}"
        counted = "digest" in row and row["name"] != "reading" and not row["persons"]
        same = "" if not counted else "yes" if (row["rows"], row["digest"]) in votes else "no"
        start = f"{row['start_processor']:.1f}" if "start_processor" in row and row["name"] != "reading" else ""
        cells = [name, row["workers"], f"{row['rows']:,}", f"{row['seconds']:.1f}", f"{row['processor']:.1f}", ratio]
        lines.append(_joined([*cells, start, round(row["peak_mb"]), same]))
    for row in stored:
        if row["name"] == "faiss":
            lines += [
                "",
                f"- faiss adds up |r|² + |q|² − 2 r·q in float32: for {row['other']:,} of {row['rows']:,} records "
                f"rounding decides for a query that is farther, by at most {row['gap']:.1e} of the squared distance. "
                "So its counts are not the same.",
            ]
    return lines


def _line(name: str, row: dict[str, Any]) -> str:
    each = 1e6 * row["processor"] / row["rows"]
    cells = [name, row["workers"], f"{row['rows']:,}", f"{row['seconds']:.1f}", f"{row['processor']:.1f}"]
    return _joined([*cells, f"{each:.2f}", round(row["peak_mb"])])


def _joined(cells: list[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
