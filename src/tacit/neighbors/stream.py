"""Blocks of records through several threads, in order, with no more of them in memory than are worked on."""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from threading import RLock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

__all__ = ["Block", "Progress", "Records", "streamed"]

Records = NDArray[Any] | Iterable[NDArray[Any]]
Progress = Callable[[int], None]
Block = tuple[int, NDArray[Any]]
T = TypeVar("T")

# Each thread holds the arrays of one block; more threads than this would be paid for in memory.
MOST_THREADS = 8
# The number of threads of the linear algebra is a setting of the whole process: one search changes it at a time.
ONE_SEARCH = RLock()


def streamed(
    work: Callable[[int, NDArray[Any]], T], blocks: Iterator[Block], progress: Progress | None
) -> Iterator[tuple[int, T]]:
    """The work's results in order, each with the number of rows done so far.

    Several blocks are worked on at once, on as many threads as a matrix product would use.

    >>> blocks = iter([(0, np.array([1, 2])), (2, np.array([3]))])
    >>> list(streamed(lambda start, block: int(block.sum()), blocks, progress=None))
    [(2, 3), (3, 3)]
    """
    for start, block, result in _in_order(work, blocks):
        _hand_back(block)
        done = start + len(block)
        if progress is not None:
            progress(done)
        yield done, result


def _in_order(work: Callable[[int, NDArray[Any]], T], blocks: Iterator[Block]) -> Iterator[tuple[int, NDArray[Any], T]]:
    """Each block with its start and its result, in order."""
    opening = list(islice(blocks, 2))
    if len(opening) < 2:
        for start, block in opening:
            yield start, block, work(start, block)
        return
    # Whole blocks on threads of our own, each with a product on one thread, keep all cores busy between the
    # products too, and no core waits for another inside one.
    algebra = ThreadpoolController().select(user_api="blas")
    threads = min(MOST_THREADS, max((each["num_threads"] for each in algebra.info()), default=1))
    waiting: deque[tuple[int, NDArray[Any], Future[T]]] = deque()
    with ONE_SEARCH, algebra.limit(limits=1), ThreadPoolExecutor(threads) as pool:
        for start, block in chain(opening, blocks):
            waiting.append((start, block, pool.submit(work, start, block)))
            if len(waiting) > threads:
                first, done, future = waiting.popleft()
                yield first, done, future.result()
        while waiting:
            first, done, future = waiting.popleft()
            yield first, done, future.result()


def _hand_back(block: NDArray[Any]) -> None:
    """Give the pages of a file mapped read-only back to the system: read once, they would count as our memory."""
    owner: Any = block
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, mmap.mmap) and hasattr(owner, "madvise") and memoryview(owner).readonly:
        low, high = np.lib.array_utils.byte_bounds(block)
        begin = np.frombuffer(owner, dtype=np.uint8).ctypes.data
        first = (low - begin) // mmap.PAGESIZE * mmap.PAGESIZE
        owner.madvise(mmap.MADV_DONTNEED, first, high - begin - first)
