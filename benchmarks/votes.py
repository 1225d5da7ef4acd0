"""How long the votes of a million records take beside a bare matrix product, and how much memory they need.

Time: 1,000,000 × 128 float32 records against 500 queries, in turns with ``records @ queries.T`` into memory that
is already there, on the same threads. Goal: at most 1.5 times the product.
Memory: records mapped from a file, in a process of its own; the peak of all resident pages (VmHWM, so pages of the
mapped file count too) above what was resident before the call. Goal: below 300 MB and flat.
"""

from __future__ import annotations

import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

from tacit.neighbors import vote_counts

COLUMNS, QUERIES, CLASSES = 128, 500, 10
ROWS = 1_000_000
REPETITIONS = 7
SIZES = (100_000, 400_000, 1_000_000, 4_000_000)
TIME_GOAL, MEMORY_GOAL = 1.5, 300.0


def clustered(rows: int, seed: int) -> NDArray[np.float32]:
    """Points around 40 centers, as features of 40 kinds of samples would be."""
    generator = np.random.default_rng(seed)
    centers = np.random.default_rng(0).standard_normal((40, COLUMNS), dtype=np.float32)
    points = generator.standard_normal((rows, COLUMNS), dtype=np.float32)
    points += centers[generator.integers(0, 40, rows)]
    return points


def seconds(action: Callable[[], object]) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - processor


def compare() -> None:
    records, queries = clustered(ROWS, 1), clustered(QUERIES, 2)
    labels = np.random.default_rng(3).integers(0, CLASSES, ROWS)
    product = np.zeros((ROWS, QUERIES), dtype=np.float32)
    actions: dict[str, Callable[[], object]] = {
        "product": lambda: np.matmul(records, queries.T, out=product),
        "votes, k = 1": lambda: vote_counts(records, labels, queries, 1, CLASSES),
        "votes, k = 4": lambda: vote_counts(records, labels, queries, 4, CLASSES),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in actions}
    for repetition in range(REPETITIONS + 1):
        for name, action in actions.items():
            taken = seconds(action)
            if repetition:  # the first round warms up
                times[name].append(taken)
    print(f"{'':14}{'wall s':>8}{'cpu s':>8}   ratio to the product beside it: median (least to most), wall | cpu")
    for name, taken in times.items():
        wall, processor = (statistics.median(each) for each in zip(*taken, strict=True))
        line = f"{name:14}{wall:8.2f}{processor:8.2f}"
        if name != "product":
            ratios = [
                sorted(mine[clock] / bare[clock] for mine, bare in zip(taken, times["product"], strict=True))
                for clock in (0, 1)
            ]
            line += "   " + " | ".join(
                f"{statistics.median(each):.2f} ({each[0]:.2f} to {each[-1]:.2f})" for each in ratios
            )
            line += "   goal met" if statistics.median(ratios[0]) <= TIME_GOAL else f"   goal {TIME_GOAL} missed"
        print(line, flush=True)


def resident(field: str) -> float:
    """A line of the kernel's account of this process, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(field))) / 1024


def measured(path: str, rows: int, neighbors: int) -> None:
    """What the child process does: count, and print its peak memory and its time."""
    records = np.memmap(path, dtype=np.float32, mode="r", shape=(rows, COLUMNS))
    labels = np.zeros(rows, dtype=np.int64)
    labels[:] = np.arange(rows) % CLASSES
    queries = clustered(QUERIES, 2)
    before = resident("VmRSS")
    wall, _ = seconds(lambda: vote_counts(records, labels, queries, neighbors, CLASSES))
    print(resident("VmHWM") - before, wall)


def memory() -> None:
    print(f"{'records':>10}{'file MB':>9}{'peak MB above the start, k = 1, k = 4':>40}{'seconds':>14}")
    worst = 0.0
    for rows in SIZES:
        size = rows * COLUMNS * 4
        if shutil.disk_usage(tempfile.gettempdir()).free < 2 * size:
            print(f"{rows:10,}  skipped: not enough free disk")
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "records"
            part = clustered(100_000, 4)
            with path.open("wb") as file:
                for _ in range(0, rows, len(part)):
                    part.tofile(file)
            found = []
            for neighbors in (1, 4):
                command = [sys.executable, __file__, str(path), str(rows), str(neighbors)]
                found.append([float(each) for each in subprocess.check_output(command).split()])
        peaks, times = zip(*found, strict=True)
        worst = max(worst, *peaks)
        print(f"{rows:10,}{size / 2**20:9.0f}{peaks[0]:31.1f}{peaks[1]:9.1f}{times[0]:8.1f}{times[1]:6.1f}", flush=True)
    print("goal met" if worst < MEMORY_GOAL else f"goal of {MEMORY_GOAL:.0f} MB missed")


def main() -> None:
    algebra = [each for each in threadpool_info() if each["user_api"] == "blas"]
    about = ", ".join(f"{each['internal_api']} {each['version']} on {each['num_threads']} threads" for each in algebra)
    print(f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}, {about}")
    print(f"{ROWS:,} × {COLUMNS} records, {QUERIES} queries, {REPETITIONS} repetitions in turns")
    compare()
    if sys.platform.startswith("linux"):
        memory()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measured(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
