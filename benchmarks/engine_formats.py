"""The memory in which the engine ``threads`` streams each format, over the size of the file.

The same records (16 features, a label) in a CSV file, in Arrow files of many record batches and of one, in a Parquet
file and in mapped arrays. Every measurement is a process of its own with two workers: its peak memory, what of it was
there before the file was opened, the seconds to open it, and the seconds to count the votes for the nearest of 50
queries. Counts must be the same for every format. Memory is flat if the largest file takes no more than the one before.

Run: python benchmarks/engine_formats.py [--rows 100000 1000000 10000000] [--out docs/results] [--scratch FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from peers.nearest import digest
from tacit.core import SystemRandomness, Unit
from tacit.engines.engine import Engine, opened_engine
from tacit.engines.records import streamed_records
from tacit.engines.source import RecordSource
from tacit.methods.rknn.holder import VoteTable
from tacit.methods.rknn.wire import VoteAsk
from tacit.representations.scaled import Identity
from tacit.runs.folders import machine

ROWS = (100_000, 1_000_000, 10_000_000)
WIDTH, QUERIES, CLASSES, WORKERS = 16, 50, 10, 2
GROUP = 2**16
COLUMNS = [f"f{place}" for place in range(WIDTH)]
SCHEMA = pa.schema([*((name, pa.float32()) for name in COLUMNS), ("label", pa.int8())])


def groups(rows: int) -> Iterator[pa.Table]:
    """Records around ten centers, some at a time; their numbers are written in full by every format."""
    generator = np.random.default_rng(0)
    for start in range(0, rows, GROUP):
        count = min(GROUP, rows - start)
        labels = generator.integers(0, CLASSES, count)
        features = generator.standard_normal((count, WIDTH)) + 0.5 * labels[:, None]
        exact = (np.round(features * 64) / 64).astype(np.float32)
        arrays = [*(exact[:, place] for place in range(WIDTH)), labels.astype(np.int8)]
        yield pa.table(dict(zip(SCHEMA.names, arrays, strict=True)), SCHEMA)


def _written(writer: Any, rows: int) -> None:  # noqa: ANN401
    with writer:
        for table in groups(rows):
            writer.write_table(table)


def csv(file: Path, rows: int) -> None:
    """A CSV file."""
    _written(pa.csv.CSVWriter(file, SCHEMA), rows)


def arrow(file: Path, rows: int) -> None:
    """An Arrow file of record batches of 65,536 rows."""
    _written(pa.ipc.new_file(str(file), SCHEMA), rows)


def arrow_at_once(file: Path, rows: int) -> None:
    """An Arrow file of one record batch, as a data frame is written."""
    with pa.ipc.new_file(str(file), SCHEMA) as writer:
        writer.write_table(pa.concat_tables(groups(rows)).combine_chunks())


def parquet(file: Path, rows: int) -> None:
    """A Parquet file of row groups of 65,536 rows."""
    _written(pa.parquet.ParquetWriter(file, SCHEMA), rows)


def mapped(file: Path, rows: int) -> None:
    """Arrays in npy files: samples, and labels beside them."""
    samples = np.lib.format.open_memmap(file, "w+", np.float32, (rows, WIDTH))
    labels = np.lib.format.open_memmap(labels_of(file), "w+", np.int8, (rows,))
    start = 0
    for table in groups(rows):
        part = slice(start, start + table.num_rows)
        samples[part] = np.column_stack([table.column(name).to_numpy() for name in COLUMNS])
        labels[part] = table.column("label").to_numpy()
        start = part.stop


def labels_of(file: Path) -> Path:
    """The file of labels beside an npy file."""
    return file.with_name(f"labels-{file.name}")


FORMATS: dict[str, tuple[str, Callable[[Path, int], None]]] = {
    "CSV": ("csv", csv),
    "Arrow, many record batches": ("arrow", arrow),
    "Arrow, one record batch": ("arrow", arrow_at_once),
    "Parquet": ("parquet", parquet),
    "npy, mapped": ("npy", mapped),
}


def made(folder: Path, name: str, rows: int) -> Path:
    """The file of this format with that many rows."""
    ending, write = FORMATS[name]
    file = folder / f"{write.__name__}-{rows}.{ending}"
    if not file.exists():
        draft = file.with_name(f"draft-{file.name}")
        write(draft, rows)
        if labels_of(draft).exists():
            labels_of(draft).rename(labels_of(file))
        draft.rename(file)
    return file


def streamed(file: Path) -> dict[str, Any]:
    """Open and count one file in this process."""
    generator = np.random.default_rng(1)
    queries = (2 * generator.standard_normal((QUERIES, WIDTH))).astype(np.float32)
    names = tuple(map(str, range(CLASSES)))
    ask = VoteAsk(queries, Identity(WIDTH), 1, names, "c0ffee", None, "labels", "r-1")  # type: ignore[arg-type]
    array = file.suffix == ".npy"
    source = RecordSource(file, str(labels_of(file)) if array else "label", None if array else COLUMNS)
    before, started = peak(), time.perf_counter()
    opened = source.open()
    ready = time.perf_counter()
    with opened_engine(Engine("threads", WORKERS)) as engine:
        records = streamed_records(opened, engine, np.arange(CLASSES), None, (WIDTH,))
        counts = records.total(VoteTable(ask), Unit(), SystemRandomness())
    done = time.perf_counter()
    return {
        "rows": opened.rows, "parts": len(opened.fragments), "file_mb": file.stat().st_size / 2**20,
        "before_mb": before, "peak_mb": peak(), "open": ready - started, "count": done - ready,
        "processor": time.process_time(), "digest": digest(counts),
    }  # fmt: skip


def peak() -> float:
    """The most memory of this program so far, in MB: rusage would know that of the process that started it, too."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def measured(name: str, file: Path) -> dict[str, Any]:
    """A measurement in a process of its own."""
    load = round(os.getloadavg()[0], 1)
    done = subprocess.run(
        [sys.executable, __file__, "--one", str(file)], capture_output=True, text=True, check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    row = {"format": name, "load": load, **json.loads(done.stdout.splitlines()[-1])}
    print(row, flush=True)
    return row


def page(rows: list[dict[str, Any]]) -> str:
    """The page of results."""
    lines = [
        "# engines-formats", "",
        f"Votes of records with {WIDTH} features for the nearest of {QUERIES} queries, streamed by the engine "
        f"`threads` with {WORKERS} workers (`python benchmarks/engine_formats.py`); the same records in every format. "
        "Peak memory is that of the process; what it had before the file was opened is told beside it.", "",
        "| format | rows | file MB | peak MB | before MB | parts | s to open | s to count | processor seconds | "
        "same counts | load |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |",
    ]  # fmt: skip
    first = {row["rows"]: row["digest"] for row in reversed(rows)}
    for row in rows:
        cells = [row["format"], f"{row['rows']:,}", f"{row['file_mb']:,.0f}", f"{row['peak_mb']:.0f}"]
        cells += [f"{row['before_mb']:.0f}", f"{row['parts']}", f"{row['open']:.1f}", f"{row['count']:.1f}"]
        cells += [f"{row['processor']:.1f}", "yes" if row["digest"] == first[row["rows"]] else "no", f"{row['load']}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"- {machine()}", ""])


def main() -> None:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--out", type=Path, default=None, help="a folder for engines-formats.json and .md")
    parser.add_argument("--scratch", type=Path, default=None, help="where the files are written, and kept")
    parser.add_argument("--one", type=Path, default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(streamed(arguments.one)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.scratch or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / "formats.json"
        stored: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
        wanted = [(name, rows) for name in FORMATS for rows in sorted(arguments.rows)]
        for name, rows in wanted:
            # What was measured with the same files before is not measured again.
            if (key := f"{name} {rows}") not in stored:
                stored[key] = measured(name, made(folder, name, rows))
                kept.write_text(json.dumps(stored), encoding="utf-8")
    found = [stored[f"{name} {rows}"] for name, rows in wanted]
    text = page(found)
    print(text)
    if arguments.out is not None:
        (arguments.out / "engines-formats.md").write_text(text, encoding="utf-8")
        content = {"name": "engines-formats", "rows": found, "machine": machine()}
        (arguments.out / "engines-formats.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
