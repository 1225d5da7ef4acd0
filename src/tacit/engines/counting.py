"""The function that every engine runs: it counts a fragment of records into an exact table of integers.

A fragment is read in blocks of fixed size, and the method's function of samples and labels counts each block. A worker
returns the fragment's number, its number of rows, and the table, and nothing else. A failure is returned as a negative
number of rows, without an error text, which may quote a record.

A fragment's table is added once, however often its task ran, and failed tasks are run again.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, TacitError, listed
from tacit.engines.fragments import Fragment, RecordBlock, class_column, frame_of_bytes, number_table
from tacit.engines.persons import PersonBound

__all__ = [
    "ATTEMPTS",
    "FAILED",
    "BlockTable",
    "FragmentCount",
    "FragmentReading",
    "Partial",
    "Runner",
    "added_up",
    "require_written",
]

# In place of the number of rows of a fragment that could not be counted.
FAILED = -1
# How often a fragment is counted that fails; and, in each of these attempts, how often an engine runs a task whose
# worker died. A record that kills every worker may end neither a run nor wait forever.
ATTEMPTS = 3
_log = logging.getLogger("tacit.engines")
# A cluster's address, and how many seconds it has to take a connection.
_PLACE = re.compile(r"(?:\w+://)?(?P<host>\[[^\]]+\]|[^:/,\[\]]+):(?P<port>\d{1,5})")
_PATIENCE = 10.0


class Partial(NamedTuple):
    """All that a worker returns: the fragment's number, its number of rows, and its table."""

    fragment: int
    rows: int
    table: Integers


class BlockTable(Protocol):
    """Counts one block: an exact table, additive over records, in which a record of class -1 has no vote."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the table."""
        ...

    def __call__(self, samples: NDArray[Any], labels: Integers) -> Integers:
        """The table of these records."""
        ...


class Runner(Protocol):
    """A running engine: it runs the count of each fragment, in any order and perhaps more than once."""

    def run(self, count: Callable[[Fragment], Partial], fragments: Sequence[Fragment]) -> Iterable[Partial]:
        """The results of the tasks."""
        ...


@dataclass(frozen=True)
class FragmentReading:
    """How records become samples and labels: public, and sent to every worker.

    ``encoder`` was fitted to public samples and encodes cells that are not numbers; ``shape`` is that of a sample.
    """

    columns: tuple[str, ...] | None
    label: str
    person: str | None
    classes: NDArray[Any]
    shape: tuple[int, ...]
    encoder: Any = None

    def samples(self, block: RecordBlock) -> NDArray[Any]:
        """The block's samples as numbers."""
        if isinstance(block.samples, np.ndarray):
            found = block.samples.astype(np.float64)
        elif self.encoder is not None:
            found = self.encoder.encode(frame_of_bytes(block.samples))
        else:
            found = number_table(block.samples)
        return found.reshape(len(block), *self.shape)


@dataclass(frozen=True)
class FragmentCount:
    """Counts a fragment; it is sent to workers and contains no record."""

    reading: FragmentReading
    table: BlockTable
    bound: PersonBound | None = None

    def __call__(self, fragment: Fragment) -> Partial:
        """The fragment's partial table, or a failure without an error text."""
        try:
            return self._counted(fragment)
        except Exception as error:
            # The type only: an error text may quote a record, and this is logged on every worker.
            _log.error("a fragment of the records cannot be counted (%s)", type(error).__name__)
            return Partial(fragment.number, FAILED, np.zeros((0, 0), dtype=np.int64))

    def _counted(self, fragment: Fragment) -> Partial:
        total = np.zeros(self.table.shape, dtype=np.int64)
        rows = 0
        reading, person = self.reading, None if self.bound is None else self.reading.person
        for block in fragment.blocks(reading.columns or (), reading.label, person):
            labels = class_column(block.labels, reading.classes)
            if self.bound is not None:
                labels = np.where(self.bound.kept(fragment, block), labels, -1)
            total += self.table(reading.samples(block), labels)
            rows += len(block)
        return Partial(fragment.number, rows, total)


def require_written(sent: Any, written: Callable[[Any], bytes]) -> None:  # noqa: ANN401
    """Refuse a count, or fragments, that cannot be serialized for workers; to be called before anything is paid.

    >>> import pickle
    >>> require_written(lambda: None, pickle.dumps)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the question, or where the records are, cannot be sent to workers (...): write a \
data set in memory to files, or use the engine threads. Nothing was charged
    """
    try:
        written(sent)
    except Exception as error:
        raise InvalidInput(
            f"the question, or where the records are, cannot be sent to workers ({type(error).__name__}): write a data "
            "set in memory to files, or use the engine threads. Nothing was charged"
        ) from None


def require_reached(engine: str, address: str) -> None:
    """Refuse an address at which nobody listens, in words and at once; engines would ask for minutes.

    An address of another form than ``host:port`` is the engine's own to understand.

    >>> require_reached("Ray", "127.0.0.1:1")
    Traceback (most recent call last):
        ...
    tacit.core.errors.TacitError: Ray cannot be reached at 127.0.0.1:1 (ConnectionRefusedError)
    """
    found = _PLACE.fullmatch(address)
    if found is None:
        return
    try:
        socket.create_connection((found["host"].strip("[]"), int(found["port"])), _PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise TacitError(f"{engine} cannot be reached at {listed([address])} ({type(error).__name__})") from None


def added_up(
    runner: Runner,
    count: FragmentCount,
    fragments: Sequence[Fragment],
    progress: Callable[[int], None] | None = None,
    rows: int | None = None,
) -> Integers:
    """The sum of all fragments' tables, each counted once; ``rows`` is the number of records, if it is known.

    >>> class Twice:
    ...     def run(self, count, fragments):
    ...         return [count(each) for each in [*fragments, *fragments]]
    >>> class Ones:
    ...     reading = table = bound = None
    ...     def __call__(self, fragment):
    ...         return Partial(fragment.number, 1, np.ones((1, 1), dtype=np.int64))
    >>> from tacit.engines.fragments import ArrowFragment
    >>> added_up(Twice(), Ones(), [ArrowFragment(0, "a", None), ArrowFragment(1, "b", None)]).tolist()
    [[2]]
    """
    total: Integers | None = None
    waiting = {fragment.number: fragment for fragment in fragments}
    done = 0
    for _ in range(ATTEMPTS):
        for number, found, table in _redacted(runner, count, list(waiting.values())):
            # A repeated task's fragment has been counted already.
            if found <= FAILED or waiting.pop(number, None) is None:
                continue
            total = table.astype(np.int64) if total is None else total + table
            done += found
            if progress is not None:
                progress(done)
        if not waiting:
            break
    if waiting or total is None:
        raise TacitError(f"{len(waiting)} of {len(fragments)} parts of the records could not be counted")
    if rows not in (None, done):
        # Under add/remove adjacency the numbers themselves are private.
        raise TacitError("the workers counted another number of records than the files had when they were opened")
    return total


def _redacted(runner: Runner, count: FragmentCount, fragments: Sequence[Fragment]) -> Iterator[Partial]:
    """The results of the engine's tasks; an error of the engine ends this attempt, and only its type is logged."""
    try:
        yield from runner.run(count, fragments)
    except Exception as error:
        _log.error("the engine failed (%s)", type(error).__name__)
