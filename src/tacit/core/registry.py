"""Parts by name: Tacit's own, and those that other installed packages add by entry points.

The place of a part is written as in an entry point: ``module:attribute``, with the extra that it needs in brackets. A
module is imported when a part of it is first used, so that extras need not be installed. Another package cannot replace
a name of Tacit's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from tacit.core.errors import InvalidInput, listed, nearest

__all__ = ["Registry", "find"]

_Entry = TypeVar("_Entry")


def find(entries: Mapping[str, _Entry], name: str, what: str) -> _Entry:
    """The entry of that name, or an error that lists the known names and suggests the nearest.

    >>> find({"forest": 1, "logistic": 2}, "forrest", "student")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: unknown student 'forrest': choose one of forest, logistic; did you mean forest?
    """
    if name not in entries:
        raise unknown(name, what, entries)
    return entries[name]


def unknown(name: str, what: str, names: Iterable[str]) -> InvalidInput:
    """The error for an unknown name."""
    known = sorted(names)
    meant = nearest(name, known)
    hint = f"; did you mean {meant}?" if meant else ""
    return InvalidInput(f"unknown {what} {listed([name])!r}: choose one of {listed(known)}{hint}")


class Registry(Mapping[str, Any]):
    """Parts by name; ``group`` is the group of entry points by which other packages add to it.

    >>> codecs = Registry("codec", "tacit.codecs", {"encode": "tacit.core.codec:encode"})
    >>> list(codecs), codecs["encode"](None)[:5], codecs.outside()
    (['encode'], b'TACIT', ())
    """

    def __init__(self, what: str, group: str, own: Mapping[str, str]) -> None:
        self.what = what
        self.group = group
        self._own = {name: EntryPoint(name, place, group) for name, place in own.items()}

    @property
    def own(self) -> tuple[str, ...]:
        """The names of Tacit's own parts."""
        return tuple(self._own)

    def outside(self) -> tuple[str, ...]:
        """The names that other installed packages add."""
        return tuple(dict.fromkeys(each.name for each in entry_points(group=self.group) if each.name not in self._own))

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401
        if name in self._own:
            return self._loaded(self._own[name])
        added = {each.value: each for each in entry_points(group=self.group, name=name)}
        if len(added) > 1:
            raise InvalidInput(f"the {self.what} {name!r} is added by several packages: {listed(sorted(added))}")
        for found in added.values():
            return self._loaded(found)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter((*self._own, *self.outside()))

    def __len__(self) -> int:
        return len(self._own) + len(self.outside())

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self.outside()

    def find(self, name: str) -> Any:  # noqa: ANN401
        """The part of that name, or an error that lists the known names."""
        if name not in self:
            raise unknown(name, self.what, self)
        return self[name]

    def _loaded(self, place: EntryPoint) -> Any:  # noqa: ANN401
        try:
            return place.load()
        except ModuleNotFoundError as error:
            extra = f": pip install 'tacit[{place.extras[0]}]'" if place.extras else ""
            raise InvalidInput(f"the {self.what} {place.name!r} needs {error.name}{extra}") from None
