"""How much faster the incomplete-beta form of the shuffle bound is than the double sum it replaces.

Both compute δ at one ε from the same pair of distributions, in one process, one after the other. The double sum
goes over every clone count c that matters and, for each, over every split a that matters, in numpy; nothing is
left out of it that the fast form uses. Run: python benchmarks/amplification.py
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.stats import binom

from tacit.accounting.amplify import Clones


def double_sum(pair: Clones, epsilon: float, tolerance: float) -> float:
    """δ by summing [P(u, t) − e^ε·Q(u, t)]₊ over all pairs that hold all but the tolerance."""
    growth, length = math.exp(epsilon), math.log(2 / tolerance)

    def window(trials: int, chance: float) -> tuple[int, int]:
        mean = trials * chance
        reach = length / 3 + math.sqrt(length**2 / 9 + 2 * mean * (1 - chance) * length)
        return max(0, math.ceil(mean - reach)), min(trials, math.floor(mean + reach))

    total = 0.0
    lowest, highest = window(pair.others, pair.clone)
    for count in range(lowest, highest + 1):
        first, last = window(count, 0.5)
        left = np.arange(first, last + 2)
        same, shifted = binom.pmf(left, count, 0.5), binom.pmf(left - 1, count, 0.5)
        here, there = pair.left * shifted + pair.right * same, pair.right * shifted + pair.left * same
        total += float(binom.pmf(count, pair.others, pair.clone)) * float(np.maximum(here - growth * there, 0).sum())
    return total + tolerance


def seconds(call: Callable[[], float]) -> float:
    """How long one call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def compare(messages: int) -> str:
    """One row: both values, both times and their ratio, for local ε₀ = 2."""
    growth, epsilon, tolerance = math.exp(2), 10 / math.sqrt(messages), 1e-12

    def pair(others: int) -> Clones:
        return Clones(others, 2 / (growth + 1), growth / (growth + 1), 1 / (growth + 1))

    slow, fast = double_sum(pair(messages - 1), epsilon, tolerance), pair(messages - 1).delta(epsilon, tolerance)
    slow_time = seconds(partial(double_sum, pair(messages - 2), epsilon, tolerance))
    # Another number of messages each time, so that nothing remembered from the call before helps.
    fast_time = min(seconds(partial(pair(messages - i).delta, epsilon, tolerance)) for i in range(2, 7))
    return (
        f"{messages:8d}  {epsilon:8.5f}  {slow:.12e}  {fast:.12e}  {slow_time:8.3f} / {fast_time:.5f}  "
        f"{slow_time / fast_time:6.0f}"
    )


def main() -> None:
    """Print the comparison for growing numbers of messages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=10**6, help="largest number of messages")
    largest = parser.parse_args().largest
    print("messages   epsilon  delta, double sum   delta, Tacit        seconds, both       ratio")
    for messages in (10**4, 10**5, 10**6):
        if messages <= largest:
            print(compare(messages))


if __name__ == "__main__":
    main()
