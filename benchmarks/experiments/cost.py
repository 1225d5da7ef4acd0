"""What labeling costs beside its accuracy: time and memory as records and queries grow, and noisy gradients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.measured import Memory
from experiments.table import Result, Row
from tacit.core import InvalidInput
from tacit.datasets.published import Parts
from tacit.neighbors import vote_counts

__all__ = ["growth", "noisy_gradients"]

FEATURES, CLASSES, CHUNK = 64, 10, 8192
RECORDS = (10_000, 100_000, 1_000_000, 10_000_000)
QUERIES = (20, 100, 500)
EPOCHS = 20


def growth(memory: Memory, tell: Callable[[str], None]) -> Result:
    """Time and memory of counting votes over records (made up, streamed) and over queries."""
    cells = [(records, 500) for records in RECORDS] + [(1_000_000, queries) for queries in QUERIES[:-1]]
    rows = []
    for records, queries in cells:
        tell(f"counting the votes of {records:,} records for {queries} queries")
        found = memory.recall(
            {"figure": "cost", "records": records, "queries": queries, "features": FEATURES},
            lambda records=records, queries=queries: _count(records, queries),  # type: ignore[misc]
        )
        rows.append(Row({"records": f"{records:,}", "queries": str(queries)}, [found]))
    return Result(
        "rknn-cost",
        f"Votes of made-up records with {FEATURES} features, streamed, k = 1.",
        rows,
        {"seconds": 1.0, "processor seconds": 1.0, "nanoseconds per record and query": 1.0, "megabytes": 1.0},
        ("Megabytes are the most that the process has held, its libraries included.",),
    )


def _count(records: int, queries: int) -> dict[str, Any]:
    centers = _points(queries, 1)
    labels = np.arange(records) % CLASSES
    begun = time.process_time()
    counts = vote_counts(_stream(records), labels, centers, 1, CLASSES)
    spent = time.process_time() - begun
    assert counts.sum() == records
    return {"nanoseconds per record and query": 1e9 * spent / records / queries}


def _points(count: int, seed: int) -> NDArray[np.float32]:
    """Rows that look scattered, from a public formula: what they are does not matter for the cost."""
    grid = np.arange(count * FEATURES, dtype=np.float64).reshape(count, FEATURES)
    return np.sin(grid * 12.9898 + seed).astype(np.float32)


def _stream(records: int) -> Iterator[NDArray[np.float32]]:
    block = _points(CHUNK, 2)
    for start in range(0, records, CHUNK):
        yield block[: min(CHUNK, records - start)]


def noisy_gradients(parts: Parts, memory: Memory, runs: int, tell: Callable[[str], None]) -> Row:
    """Opacus on the same records at ε = 1, δ = 1e-5: its best epoch, chosen on the test part in its favor."""
    try:
        from experiments.torch_noisy_sgd import noisy_sgd
    except ModuleNotFoundError as error:
        raise InvalidInput(f"noisy SGD needs {error.name}: pip install 'tacit[compare]'") from None
    if parts.private_samples[0].size != 28 * 28:
        raise InvalidInput("the comparison with noisy SGD is for images of 28 x 28 pixels: use --data mnist")

    def run(seed: int) -> Mapping[str, Any]:
        curve = noisy_sgd(
            parts.private_samples, parts.private_labels, parts.test_samples, parts.test_labels, 1.0, 1e-5, EPOCHS, seed,
            lambda epoch: tell(f"noisy SGD, epoch {epoch} of {EPOCHS}"),
        )  # fmt: skip
        return {"test": max(point["test accuracy"] for point in curve), "curve": curve}

    found = [
        memory.recall({"figure": "opacus", "seed": seed, "epochs": EPOCHS}, lambda seed=seed: run(seed))  # type: ignore[misc]
        for seed in range(runs)
    ]
    return Row({"method": "noisy SGD (Opacus)", "budget": "ε = 1, δ = 1e-5"}, found)
