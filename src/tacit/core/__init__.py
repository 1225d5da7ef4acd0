"""Basic values and interfaces: spends, guarantees, sensitivities, releases, randomness. Depends on numpy alone.

>>> from tacit.core import Pure, Unit
>>> Pure("1/2"), Unit().records
(Pure(epsilon=Fraction(1, 2)), 1)
"""

from importlib import import_module
from pathlib import Path
from typing import Any


def listed_homes(package_file: str) -> dict[str, str]:
    """The module of every name that a package exports, by the list beside its file, which is the only one.

    Names are loaded on first use: a package's own import pulls in none of them.
    """
    lines = Path(package_file).with_suffix(".pyi").read_text(encoding="utf-8").splitlines()
    return {name: module for line in lines if line.startswith("from ") for _, module, _, name, *_ in [line.split()]}


_HOMES = listed_homes(__file__)

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _HOMES:
        raise AttributeError(f"module 'tacit.core' has no attribute {name!r}")
    # Kept, so that the name is looked up once.
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__
