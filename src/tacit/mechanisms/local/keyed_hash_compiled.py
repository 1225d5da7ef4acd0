"""The hash of ``keyed_hash`` for all cells at once, compiled by numba for the processor at hand.

Eight blocks of a message are computed together, one in each 32-bit lane of a vector register: the innermost loop runs
over a fixed number of blocks, so that the compiler can use vector instructions. Messages are divided among threads,
each with its own counts; the sum of integers does not depend on the order.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, uint32, uint64
from numpy.typing import NDArray

from tacit.core import Integers
from tacit.mechanisms.local.keyed_hash import BLOCK_CELLS, CONSTANTS, ROUNDS

__all__ = ["count_hits_compiled"]

# Blocks computed together: the lanes of a 256-bit register.
LANES = 8
_GROUP = LANES * BLOCK_CELLS
DOUBLE_ROUNDS = ROUNDS // 2
C0, C1, C2, C3 = (np.uint32(constant) for constant in CONSTANTS)

Function = TypeVar("Function", bound=Callable[..., Any])


def _compiled(function: Function) -> Function:
    """The function compiled, without the interpreter's lock, and cached on disk."""
    return cast(Function, njit(cache=True, nogil=True)(function))


@_compiled
def _rotate(word: Any, places: int) -> Any:  # noqa: ANN401
    return uint32(uint32(word << uint32(places)) | uint32(word >> uint32(32 - places)))


@_compiled
def _quarter(a: Any, b: Any, c: Any, d: Any) -> Any:  # noqa: ANN401
    a = uint32(a + b)
    d = _rotate(d ^ a, 16)
    c = uint32(c + d)
    b = _rotate(b ^ c, 12)
    a = uint32(a + b)
    d = _rotate(d ^ a, 8)
    c = uint32(c + d)
    b = _rotate(b ^ c, 7)
    return a, b, c, d


@_compiled
def _double_round(state: Any) -> Any:  # noqa: ANN401
    """A column round and a diagonal round of the state.

    As a separate function it keeps the calling loop short enough for the compiler to unroll, without which the loop
    over blocks is not vectorized: a factor of four.
    """
    x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15 = state
    x0, x4, x8, x12 = _quarter(x0, x4, x8, x12)
    x1, x5, x9, x13 = _quarter(x1, x5, x9, x13)
    x2, x6, x10, x14 = _quarter(x2, x6, x10, x14)
    x3, x7, x11, x15 = _quarter(x3, x7, x11, x15)
    x0, x5, x10, x15 = _quarter(x0, x5, x10, x15)
    x1, x6, x11, x12 = _quarter(x1, x6, x11, x12)
    x2, x7, x8, x13 = _quarter(x2, x7, x8, x13)
    x3, x4, x9, x14 = _quarter(x3, x4, x9, x14)
    return x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15


@_compiled
def _fill(k0: Any, k1: Any, k2: Any, k3: Any, start: Any, out: Any) -> None:  # noqa: ANN401
    """Blocks start, …, start + LANES − 1 under one key; word j of lane b goes to out[j · LANES + b]."""
    zero = uint32(0)
    for b in range(LANES):
        counter = uint32(start + uint32(b))
        state = (C0, C1, C2, C3, k0, k1, k2, k3, k0, k1, k2, k3, counter, zero, zero, zero)
        for _ in range(DOUBLE_ROUNDS):
            state = _double_round(state)
        x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15 = state
        out[0 * LANES + b], out[1 * LANES + b] = x0 + C0, x1 + C1
        out[2 * LANES + b], out[3 * LANES + b] = x2 + C2, x3 + C3
        out[4 * LANES + b], out[5 * LANES + b] = x4 + k0, x5 + k1
        out[6 * LANES + b], out[7 * LANES + b] = x6 + k2, x7 + k3
        out[8 * LANES + b], out[9 * LANES + b] = x8 + k0, x9 + k1
        out[10 * LANES + b], out[11 * LANES + b] = x10 + k2, x11 + k3
        out[12 * LANES + b], out[13 * LANES + b] = x12 + counter, x13
        out[14 * LANES + b], out[15 * LANES + b] = x14, x15


@_compiled
def _count(seeds: Any, first: Any, width: Any, counts: Any) -> None:  # noqa: ANN401
    """Add the hits of all messages to counts[group, word, lane]."""
    block = np.empty(2 * _GROUP, np.uint32)
    flat = counts.reshape(-1)
    for message in range(len(seeds)):
        k0, k1 = uint32(seeds[message, 0]), uint32(seeds[message, 0] >> uint64(32))
        k2, k3 = uint32(seeds[message, 1]), uint32(seeds[message, 1] >> uint64(32))
        start, size = first[message], width[message]
        for group in range(counts.shape[0]):
            _fill(k0, k1, k2, k3, uint32(group * LANES), block)
            for word in range(BLOCK_CELLS):
                low, place = 2 * word * LANES, group * _GROUP + word * LANES
                for b in range(LANES):
                    value = (uint64(block[low + LANES + b]) << uint64(32)) | uint64(block[low + b])
                    flat[place + b] += (value - start) < size


def count_hits_compiled(
    seeds: NDArray[np.uint64], first: NDArray[np.uint64], width: NDArray[np.uint64], cells: int
) -> Integers:
    """How many messages hit each cell, when a message hits the cells whose word is in its interval.

    >>> seeds, one = np.zeros((1, 2), dtype=np.uint64), np.ones(1, dtype=np.uint64)
    >>> int(count_hits_compiled(seeds, 0 * one, 0 * one, 100).sum())
    0
    """
    groups = -(-cells // _GROUP)
    threads = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 64)
    bounds = np.linspace(0, len(seeds), threads + 1).astype(int)
    shares = np.zeros((threads, groups, BLOCK_CELLS, LANES), dtype=np.int64)
    seeds = np.ascontiguousarray(seeds)

    def work(thread: int) -> None:
        part = slice(bounds[thread], bounds[thread + 1])
        _count(seeds[part], first[part], width[part], shares[thread])

    with ThreadPoolExecutor(threads) as pool:
        # Reading the results raises the errors of threads.
        list(pool.map(work, range(threads)))
    counts: Integers = shares.sum(axis=0).transpose(0, 2, 1).reshape(-1)[:cells]
    return counts
