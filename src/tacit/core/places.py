"""The place of a ledger: a file, or a URL whose password is never printed."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["SCHEME", "LedgerUrl", "Place", "ledger_place"]

# At least two characters: ``c:`` is a drive of Windows.
SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):(.*)", re.DOTALL)
# The only query parameters that are printed; any other may be a secret.
_SHOWN = ("host", "hostaddr", "port", "dbname", "user", "service")
_USER = re.compile(r"//([^:@/?]*)(:.*)?@", re.DOTALL)


class LedgerUrl:
    """The URL of a ledger, printed without its password; ``text`` is the complete URL.

    >>> url = LedgerUrl("postgresql://node:secret@db.clinic.example/budget?sslpassword=secret&port=5433")
    >>> str(url)
    'postgresql://node@db.clinic.example/budget?port=5433'
    >>> url
    LedgerUrl('postgresql://node@db.clinic.example/budget?port=5433')
    """

    # Not a dataclass: tools that dump settings would write its fields, and so the password.
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LedgerUrl) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def scheme(self) -> str:
        """The part before the colon."""
        return self.text.partition(":")[0]

    def __str__(self) -> str:
        scheme, _, rest = self.text.partition(":")
        # The password ends at the last @, so that one with an unescaped @ is hidden completely.
        found = _USER.match(rest)
        if found is not None:
            user, ends = found[1], rest.rindex("@") if found[2] else found.end() - 1
            rest = f"//{user}@{rest[ends + 1 :]}" if user else f"//{rest[ends + 1 :]}"
        base, _, query = rest.partition("?")
        shown = [each for each in query.partition("#")[0].split("&") if each.partition("=")[0] in _SHOWN]
        return f"{scheme}:{base.partition('#')[0]}" + (f"?{'&'.join(shown)}" if shown else "")

    def __repr__(self) -> str:
        return f"LedgerUrl({str(self)!r})"


Place = str | Path | LedgerUrl


def ledger_place(place: Place) -> Path | LedgerUrl:
    """The file or the URL that a text names; ``sqlite:///`` begins a relative path, ``sqlite:////`` an absolute one.

    >>> ledger_place("sqlite:///node.ledger") == ledger_place("node.ledger") == Path("node.ledger")
    True
    >>> ledger_place("postgresql://node:secret@db/budget")
    LedgerUrl('postgresql://node@db/budget')
    """
    found = SCHEME.fullmatch(place) if isinstance(place, str) else None
    if found is None:
        return place if isinstance(place, Path | LedgerUrl) else Path(place)
    scheme, rest = found.groups()
    if scheme == "sqlite":
        return Path(rest.removeprefix("///"))
    return LedgerUrl(str(place)) if rest.startswith("//") else Path(str(place))
