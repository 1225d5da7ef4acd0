"""The nearest queries of records, and the counts of the records' votes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput
from tacit.neighbors.search import Progress, RecordBlocks, Search, streamed

__all__ = ["BLOCK_BYTES", "block_votes", "nearest_queries", "vote_counts"]

# The arrays of one block: larger ones leave the cache, smaller ones have more overhead.
BLOCK_BYTES = 16 * 2**20


def nearest_queries(
    records: RecordBlocks,
    queries: NDArray[Any],
    neighbors: int,
    block_bytes: int = BLOCK_BYTES,
    progress: Progress | None = None,
    query_offsets: NDArray[Any] | None = None,
) -> Integers:
    """The indices of each record's nearest queries, (records, neighbors), in increasing order of index.

    A record with NaN or infinity has none: its row is all -1.

    ``records`` is an array, memory-mapped or not, or any iterable of arrays in order; features are used as float32
    numbers. The result is exact, and of equally near queries the one with the lower index is nearer (see
    ``tacit.neighbors.search``). ``block_bytes`` roughly bounds the working memory per thread; ``progress`` is called
    after every block with the number of rows done. The squares of ``query_offsets``, one per query, are added to the
    squared distances.

    >>> queries = np.array([[0, 0], [2, 0], [0, 5]], dtype=np.float32)
    >>> records = np.array([[1, 0], [2, 1]], dtype=np.float32)
    >>> nearest_queries(records, queries, neighbors=1).tolist()  # the first is equally near to two
    [[0], [1]]
    >>> nearest_queries(records, queries, neighbors=2).tolist()
    [[0, 1], [0, 1]]
    >>> nearest_queries(records, queries, neighbors=1, query_offsets=np.array([1, 0, 0])).tolist()
    [[1], [1]]
    """
    search = Search(queries, neighbors, block_bytes, query_offsets)

    def work(start: int, block: NDArray[Any]) -> Integers:
        record, query = search.pairs(block)
        # Pairs come sorted by query; a stable sort by record keeps that order inside each record.
        by_record = np.argsort(record.astype(np.uint16), kind="stable")
        nearest = np.full((len(block), neighbors), -1, dtype=np.int64)
        nearest[record[by_record][::neighbors]] = query[by_record].reshape(-1, neighbors)
        return nearest

    found = [indices for _, indices in streamed(work, search.blocks(records), progress)]
    return np.concatenate([np.empty((0, neighbors), dtype=np.int64), *found])


def vote_counts(
    records: RecordBlocks,
    labels: NDArray[Any],
    queries: NDArray[Any],
    neighbors: int,
    classes: int,
    block_bytes: int = BLOCK_BYTES,
    progress: Progress | None = None,
    query_offsets: NDArray[Any] | None = None,
) -> Integers:
    """The reverse k-NN counts, (queries, classes): every record votes with its labels for its nearest queries.

    ``labels`` is one class index per record, or a bool table (records, classes) for multi-label records.
    A record that cannot be compared, or whose label is none of the classes, casts an empty vote.

    >>> queries = np.array([[0, 0], [2, 0], [0, 5]], dtype=np.float32)
    >>> records = np.array([[0, 1], [2, 1], [3, 1]], dtype=np.float32)
    >>> vote_counts(records, np.array([1, 0, 1]), queries, neighbors=1, classes=2).tolist()
    [[0, 1], [1, 1], [0, 0]]
    """
    search = Search(queries, neighbors, block_bytes, query_offsets)
    given = _checked_labels(labels, classes)

    def work(start: int, block: NDArray[Any]) -> Integers:
        return block_votes(search, block, _label_block(given, start, len(block)), classes)

    counts = np.zeros(search.size * classes, dtype=np.int64)
    rows = 0
    for rows, votes in streamed(work, search.blocks(records), progress):  # noqa: B007 (read after the loop)
        counts += votes
    if rows != len(given):
        raise InvalidInput(f"labels must have one row per record, got {len(given)} for {rows} records")
    return counts.reshape(search.size, classes)


def block_votes(search: Search, block: NDArray[Any], label: NDArray[Any], classes: int) -> Integers:
    """The votes of one block of records, flattened from (queries, classes); a label that is no class is no vote.

    >>> search = Search(np.array([[0.0], [9.0]]), neighbors=1, block_bytes=1000)
    >>> block_votes(search, np.array([[1.0], [8.0]]), np.array([1, -1]), classes=2).tolist()
    [0, 1, 0, 0]
    """
    record, query = search.pairs(block)
    if label.ndim == 1:
        held = label[record].astype(np.int64)
        voting = (held >= 0) & (held < classes)
        cells = (query * classes + held)[voting]
    else:
        pair, column = np.nonzero(label[record])
        cells = query[pair] * classes + column
    return np.bincount(cells, minlength=search.size * classes)


def _checked_labels(labels: NDArray[Any], classes: int) -> NDArray[Any]:
    """The labels, checked for shape and type; one that is no class is no vote."""
    given = np.asarray(labels)
    if classes < 2:
        raise InvalidInput(f"classes must be at least 2, got {classes}")
    single = given.ndim == 1 and given.dtype.kind in "iu"
    several = given.ndim == 2 and given.dtype == np.bool_ and given.shape[1] == classes
    if not single and not several:
        raise InvalidInput(
            f"labels must be integers, one per record, or bool with {classes} columns, "
            f"got shape {given.shape} of {given.dtype}"
        )
    return given


def _label_block(labels: NDArray[Any], start: int, count: int) -> NDArray[Any]:
    """The labels of one block of records."""
    block = labels[start : start + count]
    if len(block) < count:
        raise InvalidInput(
            f"labels must have one row per record, got {len(labels)} for {start + count} or more records"
        )
    return block
