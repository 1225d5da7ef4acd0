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
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from peers.nearest import (
    CLASSES,
    COLUMNS,
    PEAK,
    QUERIES,
    WIDTH,
    ask,
    busy,
    digest,
    faiss_peer,
    product,
    sklearn_peer,
    spark_peer,
    used,
    voting,
    write,
)
from tacit.core import SystemRandomness, Unit
from tacit.engines.engine import Engine, opened_engine
from tacit.engines.records import streamed_records
from tacit.engines.source import RecordSource
from tacit.methods.rknn.holder import VoteTable
from tacit.runs.folders import machine

ROWS = (100_000, 1_000_000)
# Rows that peers without streaming are given: as arrays, and no more than fit.
PEER_ROWS = 1_000_000
# Rows of the largest file: a folder of more has it under several names.
FILE_ROWS = 10**7


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


def reading(file: Path, rows: int) -> dict[str, Any]:
    """Reading the file as the engine does, and counting nothing."""
    return streamed(file, "threads", 1, persons=False, table=Unread())


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
# Megabytes per second that a disk and a network of a gigabit are taken to move, for figures on paper.
DISK, NETWORK = 200, 125
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
        lines += ["", _on_paper(max(grown, key=lambda row: row["rows"]), others)]
    return "\n".join([*lines, "", *([f"- {note}"] if note else []), f"- {machine()}", ""])


def _on_paper(largest: dict[str, Any], clusters: list[dict[str, Any]]) -> str:
    """What a billion rows would cost by the largest count, and what is on top of it on a cluster."""
    each, machines = largest["processor"] / largest["rows"], 100
    row = 4 * WIDTH + 1 + 8
    gigabytes, tables = row * 1e9 / machines / 1e9, 8 * QUERIES * CLASSES * 1e9 / 2**18 / 1e6
    starts = {name: max(each["start"] for each in clusters if each["name"] == name) for name in ENGINES[1:]
              if any(each["name"] == name for each in clusters)}  # fmt: skip
    said = (
        f"On paper: 10⁹ rows at {1e6 * each:.2f} µs of processor each are {each * 1e9 / 3600:.1f} processor hours, on "
        f"{machines} machines of one core {each * 1e9 / machines / 60:.1f} minutes; a fragment's table has "
        f"{8 * QUERIES * CLASSES:,} bytes, {tables:.0f} MB for all 3,815 fragments of 2¹⁸ rows. On top of it: each "
        f"machine reads {gigabytes:.1f} GB ({row} bytes per row), {gigabytes * 1000 / DISK:.0f} seconds at {DISK} MB "
        "per second, which here came from the system's cache; the tables go to one process, "
        f"{tables / NETWORK:.1f} seconds at {NETWORK} MB per second; "
    )
    said += " and ".join(f"{name} starts, here in {seconds:.0f} seconds" for name, seconds in starts.items())
    said += "; " * bool(starts) + "the speeds of disk and network are assumed, and no such cluster was measured."
    return said


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
