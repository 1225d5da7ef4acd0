"""The job of methods for which one account pays: questions are answered behind one gate here, or by nodes.

A method provides its plan, questions, costs and how answers are used. Methods whose holders each pay themselves have
their own jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.core import Ceiling, Coordinator, Exchange, Ledger, Release, Rule, Spend, Trust, Unit
from tacit.core.options import Options, to_recipe
from tacit.methods.encoding import EncodedCache
from tacit.methods.task import Account, Nodes, Outcome, Task
from tacit.private.gate import Gate

__all__ = ["Answering", "CuratedJob", "private_cache", "sharers_caveat"]

# From a question to its release.
Answering = Callable[[Any], Release[Any]]


@dataclass(frozen=True)
class CuratedJob:
    """Questions paid by one account here, or by one per node.

    ``holder`` makes the function that answers questions behind a gate; ``stage`` is shown meanwhile. ``prices`` are the
    costs of all requests. ``chosen`` are the public choices besides the options, for the recipe. ``pool`` combines the
    answers of nodes if the coordinator does not.
    """

    task: Task
    options: Options
    plan: Any
    coordinator: Coordinator[Any, Any, Any, Any]
    trust: Trust
    prices: Mapping[str, Spend]
    chosen: Mapping[str, Any]
    stage: str
    holder: Callable[[Gate], Answering]
    finish: Callable[[Any], Outcome]
    unit: Unit
    doubts: Sequence[str] = ()
    caveats: tuple[str, ...] = ()
    pool: Callable[[Nodes], Exchange[Any, Any]] = lambda nodes: nodes.exchange
    holders_learn: bool = False

    @property
    def recipe(self) -> Mapping[str, Any]:
        """Every public choice."""
        return {"options": to_recipe(self.options), **self.chosen}

    def accounts(self) -> Sequence[Account]:
        """One account pays for every question."""
        ceiling = Ceiling(self.task.budget, self.task.delta, Rule.PLANNED, self.unit, self.task.adjacency)
        return [Account(None, ceiling, self.prices)]

    def exchange(self, payers: Sequence[tuple[Ledger, str]]) -> Exchange[Any, Any]:
        """All records behind one gate."""
        answer = self.holder(Gate(*payers[0], self.task.randomness))

        def put(ask: Any) -> list[Any]:  # noqa: ANN401
            if self.stage:
                self.task.observer.stage(self.stage)
            return [answer(ask)]

        return put

    def over(self, nodes: Nodes) -> Exchange[Any, Any]:
        """The exchange with nodes."""
        return self.pool(nodes)

    def exposures(self) -> Sequence[Any]:
        """Empty: the guarantee follows from the receipts."""
        return ()


def private_cache(folder: str | Path | None) -> EncodedCache | None:
    """A cache for encodings of private records in this folder; None without a folder.

    >>> private_cache(None) is None
    True
    """
    return None if folder is None else EncodedCache(folder)


def sharers_caveat(mechanism: Any, trust: Trust) -> tuple[str, ...]:  # noqa: ANN401
    """The caveat about the other holders if each adds a share of the noise.

    >>> from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
    >>> shares = DistributedLaplace.for_epsilon(1, 2, 3, most=1)
    >>> sharers_caveat(shares, Trust.LOCAL), len(sharers_caveat(shares, Trust.MASKED))
    ((), 1)
    """
    return (mechanism.in_words.rstrip("."),) if trust is Trust.MASKED else ()
