"""The k nearest queries of every record of a block, exactly and at the speed of a matrix product.

The sensitivity of the votes rests on this: a record's k queries depend on that record and on public data alone, so
one changed record changes the counts by no more than ``core.sensitivity`` says. Floating point can break this. The
fast way to all distances is a matrix product, whose rounding of one row depends on the row's position, on the number
of rows and on the number of threads. Between two queries that are almost equally near, another record could then
decide. So the product only selects candidates, and exact arithmetic decides.

The result is defined without rounding: features are float32 numbers, a query is nearer if its true squared Euclidean
distance is smaller, and of two that are equally near the one with the lower index is nearer. Three stages find it;
each passes on only the records it cannot decide.

1. A float32 product gives S ≈ |q−c|² − 2(r−c)·(q−c), which is |r−q|² less a number that no query changes; c is
   the queries' mean. Let u = 2⁻²⁴ and Q = max|q−c|. In whatever order the d+1 products are added, with or
   without fused operations, S is off by at most e = (d+12)·u·(2|r−c|·Q + Q²) up to terms of order (d·u)²: each
   of d+1 additions and each rounded factor adds one u (Higham's bound for inner products), the sum of the
   terms' magnitudes is bounded by Cauchy and Schwarz, and the spare u cover the rounding of e and of the limit below.
   If k queries have S ≤ t, the k-th true value is at most t+e, so every query of the answer has S ≤ t + 2e.
   Those are the candidates; when there are exactly k of them they are the answer.
2. Otherwise float64 sums (r−q)² over the candidates. All terms are positive, so the relative error is at most
   (d+3)·2⁻⁵³ in any order, and a wider gap between the k-th and the next settles the record. When the features
   lie on a common grid (counts, pixels, one-hot) and the sums fit, no rounding happened and ties are true ties.
3. Integers decide the rest: a float32 is a multiple of 2⁻¹⁴⁹. They are slow, and a hostile coordinator can choose
   queries of which very many tie for one guessed record; the response time would then reveal that record. So a record
   whose ties need more than ``MOST_EXACT`` numbers is not compared. Ordinary ties lie on a grid and end in stage 2.

A query may have an offset h, which makes its squared distance |r−q|² + h²: such a query gets fewer votes. That is one
more feature, h for the query and zero for every record, so all of the above holds.

A record with NaN or infinity, or with that many ties, has no nearest queries: an empty vote and not an error, which
would reveal that there is such a record.

Each stage returns the exact result or leaves it open, so block size, order, other records and threads cannot change
it. Several threads work on blocks; results come in order, and only blocks in work are in memory.
"""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import chain, islice
from threading import RLock, local
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core import Floats, Integers, InvalidInput

__all__ = ["NumberedBlock", "Progress", "RecordBlocks", "Search", "drop_pages", "streamed", "within_search"]

RecordBlocks = NDArray[Any] | Iterable[NDArray[Any]]
Progress = Callable[[int], None]
NumberedBlock = tuple[int, NDArray[Any]]
_T = TypeVar("_T")

# Each thread holds the arrays of one block; more threads than this take too much memory.
MOST_THREADS = 8
# The number of BLAS threads is a setting of the whole process: one search at a time changes it.
ONE_SEARCH = RLock()
_HERE = local()


def within_search() -> None:
    """Mark this thread as one of a search's own: a search within it has no others, and takes its blocks one by one.

    It would otherwise wait for the search that it is a part of: an encoder that searches, of records that are searched.
    """
    _HERE.within = True


def streamed(
    work: Callable[[int, NDArray[Any]], _T], blocks: Iterator[NumberedBlock], progress: Progress | None
) -> Iterator[tuple[int, _T]]:
    """The results of ``work`` in the order of the blocks, each with the number of rows done so far.

    Several blocks are in work at once, on as many threads as a matrix product would use.

    >>> blocks = iter([(0, np.array([1, 2])), (2, np.array([3]))])
    >>> list(streamed(lambda start, block: int(block.sum()), blocks, progress=None))
    [(2, 3), (3, 3)]
    """
    for start, block, result in _in_order(work, blocks):
        drop_pages(block)
        done = start + len(block)
        if progress is not None:
            progress(done)
        yield done, result


def _in_order(
    work: Callable[[int, NDArray[Any]], _T], blocks: Iterator[NumberedBlock]
) -> Iterator[tuple[int, NDArray[Any], _T]]:
    """Each block with its start and its result, in order."""
    opening = list(islice(blocks, 2))
    if len(opening) < 2 or getattr(_HERE, "within", False):
        for start, block in chain(opening, blocks):
            yield start, block, work(start, block)
        return
    from threadpoolctl import ThreadpoolController  # not installed on devices, which search for one record

    # One block per thread, each with a single-threaded product, keeps all cores busy between the products too.
    algebra = ThreadpoolController().select(user_api="blas")
    threads = min(MOST_THREADS, max((each["num_threads"] for each in algebra.info()), default=1))
    waiting: deque[tuple[int, NDArray[Any], Future[_T]]] = deque()
    with ONE_SEARCH, algebra.limit(limits=1), ThreadPoolExecutor(threads, initializer=within_search) as pool:
        for start, block in chain(opening, blocks):
            waiting.append((start, block, pool.submit(work, start, block)))
            if len(waiting) > threads:
                first, done, future = waiting.popleft()
                yield first, done, future.result()
        while waiting:
            first, done, future = waiting.popleft()
            yield first, done, future.result()


def drop_pages(block: NDArray[Any]) -> None:
    """Return the pages of a file mapped read-only to the system, which would count as this process's memory."""
    owner: Any = block
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, mmap.mmap) and hasattr(owner, "madvise") and memoryview(owner).readonly:
        low, high = np.lib.array_utils.byte_bounds(block)
        begin = np.frombuffer(owner, dtype=np.uint8).ctypes.data
        first = (low - begin) // mmap.PAGESIZE * mmap.PAGESIZE
        owner.madvise(mmap.MADV_DONTNEED, first, high - begin - first)


_MOST_COLUMNS = 2**18
# Scores this large may overflow in float32, so the product proves nothing about them.
LARGEST_ERROR = 1e30
# Numbers that are compared as integers for one record: about a tenth of a second.
MOST_EXACT = 2**17
FLOAT32_UNIT, FLOAT64_UNIT = 2.0**-24, 2.0**-53


class Search:
    """Queries prepared for the search: the product's matrix and error bound, and what the exact stages need.

    >>> search = Search(np.array([[0.0], [1.0], [4.0]]), neighbors=2, block_bytes=1000)
    >>> record, query = search.pairs(np.array([[0.2], [3.0]]))
    >>> sorted(zip(record.tolist(), query.tolist()))
    [(0, 0), (0, 1), (1, 1), (1, 2)]
    """

    def __init__(
        self, queries: NDArray[Any], neighbors: int, block_bytes: int, query_offsets: NDArray[Any] | None = None
    ) -> None:
        table = _numbers(queries, None, "queries")
        if 0 in table.shape or table.shape[1] > _MOST_COLUMNS:
            raise InvalidInput(f"queries must have a row and 1 to {_MOST_COLUMNS} columns, got shape {table.shape}")
        if not 1 <= neighbors <= len(table):
            raise InvalidInput(f"neighbors must be in [1, {len(table)}], the number of queries, got {neighbors}")
        if block_bytes < 1:
            raise InvalidInput(f"block_bytes must be at least 1, got {block_bytes}")
        self.queries = _float32(table)
        self.width = table.shape[1]
        if query_offsets is not None:
            offsets = np.asarray(query_offsets)
            if offsets.shape != (len(table),) or offsets.dtype.kind not in "fiub":
                raise InvalidInput(
                    f"query offsets must be {len(table)} numbers, one per query, got shape {offsets.shape}"
                )
            self.queries = np.concatenate([self.queries, _float32(offsets)[:, None]], axis=1)
        if not np.isfinite(self.queries).all():
            raise InvalidInput("queries must be finite float32 numbers, and so must their offsets")
        self.size, self.columns = self.queries.shape
        self.neighbors = neighbors
        self.block_bytes = block_bytes
        # A row of a block needs its features, its scores and a mask over them. Row numbers stay below 2^16,
        # which numpy sorts fastest.
        self.rows = int(np.clip(block_bytes // (4 * (self.columns + 1) + 5 * self.size), 1, 2**16))
        wide = self.queries.astype(np.float64)
        self.center = wide.mean(axis=0).astype(np.float32)
        wide -= self.center
        squares = np.einsum("ij,ij->i", wide, wide)
        with np.errstate(over="ignore"):
            # One product with (r−c, 1) gives the score: the last column adds |q−c|².
            self.factors = np.concatenate([-2 * wide, squares[:, None]], axis=1).astype(np.float32)
        # The 2⁻¹⁰⁰ cover factors too small to be normal numbers.
        self.reach = float(np.sqrt(squares.max())) + 2.0**-100
        # A tenth above the bound of the module's docstring covers its second-order terms, as d·u is below 1/60.
        self.error = 1.1 * (self.columns + 12) * FLOAT32_UNIT

    @cached_property
    def grid(self) -> float:
        """The largest power of two of which every query's features are multiples (1 when all are zero)."""
        fraction, exponent = np.frexp(self.queries[self.queries != 0].astype(np.float64))
        if not len(fraction):
            return 1.0
        significand = np.ldexp(fraction, 24).astype(np.int64)
        lowest_bit = (significand & -significand).astype(np.float64)
        return float(np.ldexp(lowest_bit, exponent - 24).min())

    def blocks(self, records: RecordBlocks) -> Iterator[NumberedBlock]:
        """The records, a few at a time, each block with the number of its first row."""
        start = 0
        for each in [records] if isinstance(records, np.ndarray) else records:
            chunk = _numbers(each, self.width, f"records from row {start} on")
            for first in range(0, len(chunk), self.rows):
                block = chunk[first : first + self.rows]
                yield start, block
                start += len(block)

    def pairs(self, block: NDArray[Any]) -> tuple[Integers, Integers]:
        """Each record of the block with each of its nearest queries, as two index arrays sorted by query.

        A record that cannot be compared is in no pair.
        """
        k, count = self.neighbors, len(block)
        if not count:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        features = _float32(block)
        if self.columns > self.width:
            features = np.concatenate([features, np.zeros((count, 1), dtype=np.float32)], axis=1)
        scores, error = self._scores(features)  # (queries, records), (records,)
        too_large = ~(error < LARGEST_ERROR)
        if too_large.any():
            comparable = np.isfinite(features).all(axis=1)
            if not comparable.all():
                rows = np.flatnonzero(comparable)
                record, query = self.pairs(block[rows])
                return rows[record], query
            # Finite but too large for the product: equal scores make every query a candidate.
            scores[:, too_large] = 0
            error[too_large] = 0
        # Group the queries and take each group's least score: the k-th of these bounds the k-th score from above.
        groups = 1 if k == 1 else min(4 * k, self.size)
        least = scores[: self.size // groups * groups].reshape(-1, groups, count).min(axis=0)
        bound = np.partition(least, k - 1, axis=0)[k - 1]
        position = np.flatnonzero(scores <= bound + 2 * error)
        query = position // count
        record = position - query * count
        crowded = np.flatnonzero(np.bincount(record)[record] > k)
        if not len(crowded):
            return record, query
        crowded = crowded[np.argsort(record[crowded].astype(np.uint16), kind="stable")]
        score = scores.ravel()[position[crowded]]
        kept = self._narrowed(features, record[crowded], query[crowded], score, error)
        keep = np.ones(len(record), dtype=np.bool_)
        keep[crowded] = kept
        return record[keep], query[keep]

    def _scores(self, features: Floats) -> tuple[Floats, Floats]:
        """Stage 1: the scores, and for each record a bound on their error."""
        shifted = np.empty((len(features), self.columns + 1), dtype=np.float32)
        shifted[:, -1] = 1
        with np.errstate(over="ignore", invalid="ignore"):
            np.subtract(features, self.center, out=shifted[:, :-1])
            length = np.sqrt(np.einsum("ij,ij->i", shifted, shifted))
            # The 2⁻¹²⁰ per column cover products too small to be normal numbers.
            error = self.error * (2 * length * self.reach + self.reach**2) + self.columns * 2.0**-120
            scores = self.factors @ shifted.T
        return scores, error

    def _narrowed(
        self, features: Floats, record: Integers, query: Integers, score: Floats, error: Floats
    ) -> NDArray[np.bool_]:
        """Which candidates are in the result, for records with more than k; sorted by record, then by query."""
        k = self.neighbors
        # The k-th score itself is a tighter bound than the one that selected the candidates.
        rows, row, _, table = _ragged(record, score)
        limit = np.partition(table, k - 1, axis=1)[:, k - 1] + 2 * error[rows]
        kept = score <= limit[row]
        left = np.flatnonzero(kept & (np.bincount(row, weights=kept)[row] > k))
        if len(left):
            kept[left] = self._settled(features, record[left], query[left])
        return kept

    def _settled(self, features: Floats, record: Integers, query: Integers) -> NDArray[np.bool_]:
        """Stages 2 and 3: which candidates are in the result; each record has more than k here."""
        k = self.neighbors
        rows, row, column, table = _ragged(record, self._distances(features, record, query))
        # Candidates are in order of index and the sort is stable: of equal distances the lower index comes first.
        order = np.argsort(table, axis=1, kind="stable")
        each = np.arange(len(rows))
        kth, following = table[each, order[:, k - 1]], table[each, order[:, k]]
        slack = (self.columns + 8) * FLOAT64_UNIT
        unsure = np.flatnonzero(kth * (1 + slack) >= following * (1 - slack))
        steps = features[rows[unsure]].astype(np.float64) / self.grid
        rounded = (steps != np.rint(steps)).any(axis=1) | (following[unsure] >= self.grid**2 / FLOAT64_UNIT)
        chosen = np.zeros(table.shape, dtype=np.bool_)
        chosen[each[:, None], order[:, :k]] = True
        for number in unsure[rounded]:
            candidates = query[slice(*np.searchsorted(row, [number, number + 1]))]
            # Certainly nearer than the k-th, or equal to the k-th within the error of float64.
            far, end = table[number, : len(candidates)], kth[number]
            sure = far * (1 + slack) < end * (1 - slack)
            tied = np.flatnonzero(~sure & (far * (1 - slack) <= end * (1 + slack)))
            chosen[number, : len(candidates)] = False
            if len(tied) * self.columns <= MOST_EXACT:
                nearest = _exact_order(features[rows[number]], self.queries[candidates[tied]])
                chosen[number, : len(candidates)] = sure
                chosen[number, tied[nearest[: k - int(sure.sum())]]] = True
        return chosen[row, column]

    def _distances(self, features: Floats, record: Integers, query: Integers) -> NDArray[np.float64]:
        """The squared distance of each pair in float64, a few at a time."""
        distance = np.empty(len(record))
        step = max(1, self.block_bytes // (8 * self.columns))
        for first in range(0, len(record), step):
            part = slice(first, first + step)
            difference = features[record[part]].astype(np.float64)
            difference -= self.queries[query[part]]
            distance[part] = np.einsum("ij,ij->i", difference, difference)
        return distance


def _ragged(record: Integers, value: NDArray[Any]) -> tuple[Integers, Integers, Integers, NDArray[Any]]:
    """Values of sorted records as a table, one row per record, padded with infinity.

    Returns the records, for each value its row and its column, and the table.
    """
    first = np.flatnonzero(np.diff(record, prepend=-1))
    count = np.diff(first, append=len(record))
    row = np.repeat(np.arange(len(first)), count)
    column = np.arange(len(record)) - first[row]
    table = np.full((len(first), count.max()), np.inf, dtype=value.dtype)
    table[row, column] = value
    return record[first], row, column, table


def _exact_order(record: Floats, queries: Floats) -> Integers:
    """The queries from nearest to farthest by exact distance, the lower index first when equal."""

    def whole(row: Floats) -> list[int]:
        return [int(each) for each in np.ldexp(row.astype(np.float64), 149)]

    own = whole(record)
    distance = [sum((a - b) ** 2 for a, b in zip(own, whole(query), strict=True)) for query in queries]
    return np.array(sorted(range(len(queries)), key=distance.__getitem__), dtype=np.int64)


def _numbers(values: ArrayLike, columns: int | None, name: str) -> NDArray[Any]:
    """The values as an array, checked to be a table of numbers and as wide as it must be."""
    table = np.asarray(values)
    if table.ndim != 2 or table.dtype.kind not in "fiub" or columns not in (None, table.shape[1]):
        wide = "" if columns is None else f" with {columns} columns like the queries"
        raise InvalidInput(f"{name} must be a table of numbers{wide}, got shape {table.shape} of {table.dtype}")
    return table


def _float32(table: NDArray[Any]) -> Floats:
    """The table as float32; too large values become infinite and cannot be compared."""
    with np.errstate(over="ignore"):
        return np.asarray(table, dtype=np.float32)
