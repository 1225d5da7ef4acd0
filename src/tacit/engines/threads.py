"""The engine ``threads``: it counts fragments on threads of this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from threadpoolctl import ThreadpoolController

from tacit.core.errors import InvalidInput
from tacit.engines.counting import Partial
from tacit.engines.fragments import Fragment
from tacit.neighbors.search import MOST_THREADS, ONE_SEARCH

__all__ = ["Threads"]


class Threads:
    """Counts fragments on ``workers`` threads, by default as many as BLAS would use.

    >>> from tacit.engines.fragments import ArrowFragment
    >>> parts = [ArrowFragment(number, "", None) for number in range(3)]
    >>> [each for each in Threads(workers=2).run(lambda part: part.number, parts)]
    [0, 1, 2]
    """

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        if address is not None:
            raise InvalidInput("the engine threads runs in this process: leave out the address")
        self._workers = workers

    def require_sendable(self, count: Any) -> None:  # noqa: ANN401
        """Accept every count: nothing is sent."""

    def run(self, count: Callable[[Fragment], Partial], fragments: Sequence[Fragment]) -> Iterator[Partial]:
        """The fragments' tables in order; at most twice as many are in memory as there are threads."""
        algebra = ThreadpoolController().select(user_api="blas")
        most = min(MOST_THREADS, max((each["num_threads"] for each in algebra.info()), default=1))
        workers = min(self._workers or most, max(1, len(fragments)))
        waiting: deque[Future[Partial]] = deque()
        # Fragments run in parallel, each with single-threaded BLAS, so that no core waits for others in a product.
        with ONE_SEARCH, algebra.limit(limits=1), ThreadPoolExecutor(workers) as pool:
            for fragment in fragments:
                waiting.append(pool.submit(count, fragment))
                if len(waiting) >= 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def close(self) -> None:
        """Nothing to stop."""
