"""Differentially private knowledge distillation: pass on what records know without giving the records away.

>>> import tacit
>>> parts = tacit.digits()
>>> run = tacit.distill((parts.private_samples, parts.private_labels), parts.public_samples, 1.0, classes=range(10))
>>> run.guarantee.epsilon
Fraction(1, 1)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit.version import __version__

if TYPE_CHECKING:
    from tacit.core.errors import BudgetExceeded, InvalidInput, LedgerError, TacitError, TacitWarning
    from tacit.core.guarantee import Adjacency, Guarantee, Trust, Unit
    from tacit.datasets.digits import digits
    from tacit.experiment.distill import distill
    from tacit.experiment.run import Run, load
    from tacit.ledger.sqlite import SqliteLedger

__all__ = [
    "Adjacency",
    "BudgetExceeded",
    "Guarantee",
    "InvalidInput",
    "LedgerError",
    "Run",
    "SqliteLedger",
    "TacitError",
    "TacitWarning",
    "Trust",
    "Unit",
    "__version__",
    "digits",
    "distill",
    "load",
]

# Names are loaded on first use: a coordinator must be importable where the private side is not even installed,
# and this package's own import must not pull it in.
HOMES = {
    "Adjacency": "tacit.core.guarantee",
    "BudgetExceeded": "tacit.core.errors",
    "Guarantee": "tacit.core.guarantee",
    "InvalidInput": "tacit.core.errors",
    "LedgerError": "tacit.core.errors",
    "Run": "tacit.experiment.run",
    "SqliteLedger": "tacit.ledger.sqlite",
    "TacitError": "tacit.core.errors",
    "TacitWarning": "tacit.core.errors",
    "Trust": "tacit.core.guarantee",
    "Unit": "tacit.core.guarantee",
    "digits": "tacit.datasets.digits",
    "distill": "tacit.experiment.distill",
    "load": "tacit.experiment.run",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in HOMES:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
