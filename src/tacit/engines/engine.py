"""The choice of an engine: its name, address and number of workers; and the embedded one, threads of this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from threadpoolctl import ThreadpoolController

from tacit.core import InvalidInput, whole
from tacit.core.registry import Registry, unknown
from tacit.engines.counting import Partial
from tacit.engines.fragments import Fragment
from tacit.neighbors.search import MOST_THREADS, ONE_SEARCH, within_search

__all__ = ["ENGINES", "Engine", "OpenEngine", "Threads", "opened_engine"]

ENGINES = Registry("engine", "tacit.engines", {
    "threads": "tacit.engines.engine:Threads",
    "ray": "tacit.engines.ray_engine:RayEngine [ray]",
    "spark": "tacit.engines.spark_engine:SparkEngine [spark]",
})  # fmt: skip


class OpenEngine(Protocol):
    """A running engine; it is found or started before anything is paid."""

    def require_sendable(self, sent: Any) -> None:  # noqa: ANN401
        """Refuse a count, or fragments, that cannot be sent to workers."""
        ...

    def run(self, count: Callable[[Fragment], Partial], fragments: Sequence[Fragment]) -> Iterator[Partial]:
        """The results of the tasks, in any order."""
        ...

    def close(self) -> None:
        """Stop what was started here."""
        ...


@dataclass(frozen=True)
class Engine:
    """The engine that counts a record source: ``threads`` in this process, or the workers of ``ray`` or ``spark``.

    ``address`` is that of a cluster; without it Ray and Spark are started on this machine for the run. ``workers`` is
    the number of simultaneous tasks.

    >>> Engine("spark", workers=2).workers
    2
    >>> Engine("sparc")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: unknown engine 'sparc': choose one of ray, spark, threads; did you mean spark?
    """

    name: str = "threads"
    workers: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in ENGINES:
            raise unknown(str(self.name), "engine", ENGINES)
        if self.workers is not None:
            whole(self.workers, "workers")
        if self.address is not None and self.name == "threads":
            raise InvalidInput("the engine threads runs in this process: leave out the address, or name ray or spark")

    @classmethod
    def of(cls, given: Any) -> Engine:  # noqa: ANN401
        """The engine of this name, or the given engine."""
        if given is None or isinstance(given, str):
            return cls() if given is None else cls(given)
        if not isinstance(given, cls):
            raise InvalidInput(f"engine must be threads, ray, spark or a tacit.Engine, got {type(given).__name__}")
        return given


@contextmanager
def opened_engine(engine: Engine) -> Iterator[OpenEngine]:
    """A running engine that is closed at the end; an error if it is not installed or cannot be reached."""
    made: OpenEngine = ENGINES.find(engine.name)(engine.workers, engine.address)
    try:
        yield made
    finally:
        made.close()


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

    def require_sendable(self, sent: Any) -> None:  # noqa: ANN401
        """Accept everything: nothing is sent."""

    def run(self, count: Callable[[Fragment], Partial], fragments: Sequence[Fragment]) -> Iterator[Partial]:
        """The fragments' tables in order; at most twice as many are in memory as there are threads."""
        algebra = ThreadpoolController().select(user_api="blas")
        most = min(MOST_THREADS, max((each["num_threads"] for each in algebra.info()), default=1))
        workers = min(self._workers or most, max(1, len(fragments)))
        waiting: deque[Future[Partial]] = deque()
        # Fragments run in parallel, each with single-threaded BLAS, so that no core waits for others in a product.
        with ONE_SEARCH, algebra.limit(limits=1), ThreadPoolExecutor(workers, initializer=within_search) as pool:
            for fragment in fragments:
                waiting.append(pool.submit(count, fragment))
                if len(waiting) >= 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def close(self) -> None:
        """Nothing to stop."""
