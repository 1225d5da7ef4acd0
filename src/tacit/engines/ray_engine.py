"""Ray: the same count on the workers of a cluster, by Ray Data.

Ray's data set is a list of fragments' numbers, without a record. An actor gets the question once and reads and counts
one fragment after the other. So no record is ever in Ray's object store, which all jobs share and which is written to
disk when it is full; only tables of integers are there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

# Set before Ray is loaded: no usage statistics are sent, and accelerators stay visible.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
# What its compiled part logs would be on the user's screen; failures come as exceptions.
os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
# A task that Ray ended because memory was short would else be run again forever.
os.environ.setdefault("RAY_task_oom_retries", "2")
import ray
import ray.cloudpickle
import ray.data
from numpy.typing import NDArray

from tacit.core import InvalidInput, TacitError, listed
from tacit.engines.counting import ATTEMPTS, Partial, require_reached, require_written
from tacit.engines.fragments import Fragment

__all__ = ["FragmentActor", "RayEngine"]

# The store has tables and questions only; Ray's default is a third of the machine's memory.
STORE_BYTES = 256 * 2**20


class FragmentActor:
    """Counts fragments for one question, on a worker."""

    def __init__(self, count: Callable[[Fragment], Partial], fragments: Sequence[Fragment]) -> None:
        self._count = count
        self._fragments = {each.number: each for each in fragments}

    def __call__(self, batch: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The tables of the fragments with these numbers."""
        return _columns_of([self._count(self._fragments[int(number)]) for number in batch["fragment"]])


def _columns_of(partials: Sequence[Partial]) -> dict[str, NDArray[Any]]:
    """A worker's results as columns of integers: fragment, number of rows, and the table with its width.

    >>> list(_partials_of(_columns_of([Partial(3, 10, np.array([[1, 2]]))])))
    [Partial(fragment=3, rows=10, table=array([[1, 2]]))]
    """
    tables = np.empty(len(partials), dtype=object)
    for place, each in enumerate(partials):
        tables[place] = each.table.astype(np.int64).ravel()
    return {
        "fragment": np.array([each.fragment for each in partials], dtype=np.int64),
        "rows": np.array([each.rows for each in partials], dtype=np.int64),
        "columns": np.array([each.table.shape[1] for each in partials], dtype=np.int64),
        "table": tables,
    }


def _partials_of(columns: dict[str, Any]) -> Iterator[Partial]:
    """The partial tables in columns of that form."""
    named = (columns[name] for name in ("fragment", "rows", "columns", "table"))
    for fragment, rows, width, cells in zip(*named, strict=True):
        flat = np.asarray(cells, dtype=np.int64)
        yield Partial(int(fragment), int(rows), flat.reshape(-1, int(width)) if width else flat.reshape(0, 0))


def _require_connected(address: str) -> None:
    """Refuse an address if this process is connected to another cluster: its workers would count instead."""
    here = str(ray.get_runtime_context().gcs_address)
    if address != "auto" and _resolved(address) != _resolved(here):
        raise InvalidInput(
            f"Ray is already connected in this process, to {here} and not to {listed([address])}: call ray.shutdown() "
            "before, or leave out the address"
        )


def _resolved(address: str) -> tuple[str, str]:
    """The host and port, and the host's number if it is a name."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError):
        host = socket.gethostbyname(host)
    return host, port


class RayEngine:
    """A Ray cluster at ``address``, or Ray on this machine until the engine is closed."""

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        self._workers = workers
        self._started = not ray.is_initialized()
        if not self._started and address is not None:
            _require_connected(address)
        if self._started:
            if address is not None:
                require_reached("Ray", address)
            local = {} if address is not None else {"num_cpus": workers, "object_store_memory": STORE_BYTES}
            try:
                # Output of workers may contain anything, so it is not shown here.
                ray.init(
                    address=address or "local", log_to_driver=False, logging_level=logging.ERROR,
                    include_dashboard=False if address is None else None, **local,
                )  # fmt: skip
            except Exception as error:
                where = "on this machine" if address is None else f"at {listed([address])}"
                raise TacitError(f"Ray cannot be reached {where} ({type(error).__name__})") from None
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False

    def require_sendable(self, sent: Any) -> None:  # noqa: ANN401
        """Refuse a question, or fragments, that cannot be serialized for workers."""
        require_written(sent, ray.cloudpickle.dumps)

    def run(self, count: Callable[[Fragment], Partial], fragments: Sequence[Fragment]) -> Iterator[Partial]:
        """The fragments' tables as actors finish them."""
        workers = min(self._workers or int(ray.cluster_resources().get("CPU", 1)), len(fragments))
        # Divided here: a task of Ray's that divides it needs a core, and where there is one an actor has it for good.
        numbers = [{"fragment": each.number} for each in fragments]
        tables = ray.data.from_items(numbers, override_num_blocks=len(numbers)).map_batches(
            FragmentActor,
            fn_constructor_args=(count, list(fragments)),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=max(1, workers)),
            num_cpus=1,
            # Without a limit a task that kills its worker would never end; and a worker that is replaced once more than
            # its task is tried would stay, with the core that the next attempt needs.
            max_restarts=ATTEMPTS - 1,
            max_task_retries=ATTEMPTS - 1,
        )
        for batch in tables.iter_batches(batch_size=None, batch_format="numpy"):
            yield from _partials_of(batch)

    def close(self) -> None:
        """Stop what was started here."""
        if self._started:
            ray.shutdown()
