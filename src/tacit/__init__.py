"""Differentially private knowledge distillation: train students on labels released from private records.

>>> import tacit
>>> parts = tacit.digits()
>>> run = tacit.distill((parts.private_samples, parts.private_labels), parts.public_samples, 1.0, classes=range(10))
>>> run.guarantee.epsilon
Fraction(1, 1)
"""

from importlib import import_module
from typing import Any

from tacit.core import listed_homes
from tacit.version import __version__ as __version__

# Names are loaded on first use: a coordinator must be importable where the private side is not even installed, and this
# package's own import must not pull it in.
HOMES = listed_homes(__file__)

__all__ = sorted(HOMES)


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in HOMES:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
