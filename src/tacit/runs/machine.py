"""What a result was made with: versions and the machine, so that a figure can be judged and repeated."""

from __future__ import annotations

import os
import platform
from importlib import metadata

from tacit.version import __version__

__all__ = ["machine", "versions"]

MADE_WITH = ("numpy", "scipy", "scikit-learn", "dp-accounting", "skops", "torch")


def versions() -> dict[str, str]:
    """The versions of Tacit and of what its results depend on.

    >>> versions()["tacit"] == __version__
    True
    """
    found = {"tacit": __version__, "python": platform.python_version()}
    for name in MADE_WITH:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> str:
    """The kind of machine in a few words, without its name.

    >>> "cores" in machine()
    True
    """
    return f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}"
