"""The example method's options, from which the command line, the recipe and the job file are generated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tacit.core.options import check, option, with_renamed


@with_renamed
@dataclass(frozen=True)
class Histogram:
    """Label every public sample by the commonest class of the records, or by one after it."""

    name: ClassVar[str] = "histogram"
    renamed: ClassVar[Mapping[str, str]] = {"place": "rank"}

    rank: int = option(1, "The class that everything gets: 1 is the commonest.", least=1)

    def __post_init__(self) -> None:
        check(self)
