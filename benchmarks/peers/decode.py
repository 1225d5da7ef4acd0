"""Encodes and decodes by another library, in that library's own environment, and prints what it took as JSON.

Arguments: the library, a .npy file with one true cell per client, the number of cells, ε. Progress goes to stderr.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np

STEPS = 10


Answer = tuple[float, float, np.ndarray]


def clocks() -> np.ndarray:
    return np.array([time.perf_counter(), time.process_time()])


def pure_ldp(truth: np.ndarray, cells: int, epsilon: float) -> Answer:
    from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer

    client = LHClient(epsilon=epsilon, d=cells, use_olh=True, index_mapper=lambda cell: cell)
    server = LHServer(epsilon=epsilon, d=cells, use_olh=True, index_mapper=lambda cell: cell)
    reports = [client.privatise(int(cell)) for cell in truth]
    started = clocks()
    for number, part in enumerate(np.array_split(np.arange(len(reports)), STEPS), start=1):
        server.aggregate_all([reports[index] for index in part])
        wall = (clocks() - started)[0]
        print(f"  pure-ldp: {number * 100 // STEPS} % after {wall:.0f} s", file=sys.stderr)
    estimates = server.estimate_all(range(cells), suppress_warnings=True)
    wall, processor = clocks() - started
    return wall, processor, np.asarray(estimates)


def multi_freq_ldpy(truth: np.ndarray, cells: int, epsilon: float) -> Answer:
    from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client

    reports = [LH_Client(int(cell), cells, epsilon) for cell in truth]
    print("  multi-freq-ldpy: one call, no progress to show", file=sys.stderr)
    started = clocks()
    frequencies = LH_Aggregator_MI(reports, cells, epsilon)
    wall, processor = clocks() - started
    return wall, processor, frequencies * len(truth)


def main() -> None:
    warnings.simplefilter("ignore")
    library, path, cells, epsilon = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    run = {"pure-ldp": pure_ldp, "multi-freq-ldpy": multi_freq_ldpy}[library]
    wall, processor, counts = run(np.load(path), cells, epsilon)
    print(json.dumps({"wall": wall, "processor": processor, "counts": counts.tolist()}))


if __name__ == "__main__":
    main()
