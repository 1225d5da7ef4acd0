"""Where a ledger is: a file, or a URL whose password is never shown."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["SCHEME", "LedgerUrl", "Place", "ledger_place"]

# At least two characters: one alone is a drive of Windows.
SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):(.*)", re.DOTALL)
# Of what may follow a question mark only these tell where a ledger is; all else is left out, whatever it is.
_SHOWN = ("host", "hostaddr", "port", "dbname", "user", "service")
_USER = re.compile(r"//([^:@/?]*)(:.*)?@", re.DOTALL)


class LedgerUrl:
    """The URL of a ledger. Printed, written down or quoted in an error it has no password; ``text`` is the whole.

    >>> url = LedgerUrl("postgresql://node:secret@db.clinic.example/budget?sslpassword=secret&port=5433")
    >>> str(url)
    'postgresql://node@db.clinic.example/budget?port=5433'
    >>> url
    LedgerUrl('postgresql://node@db.clinic.example/budget?port=5433')
    """

    # No data class: those are written out field by field by whoever dumps settings.
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LedgerUrl) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def scheme(self) -> str:
        """What stands before the colon."""
        return self.text.partition(":")[0]

    def __str__(self) -> str:
        scheme, _, rest = self.text.partition(":")
        # The last @ ends the password: one that was not escaped hides more, never less.
        found = _USER.match(rest)
        if found is not None:
            user, ends = found[1], rest.rindex("@") if found[2] else found.end() - 1
            rest = f"//{user}@{rest[ends + 1 :]}" if user else f"//{rest[ends + 1 :]}"
        base, _, query = rest.partition("?")
        told = [each for each in query.partition("#")[0].split("&") if each.partition("=")[0] in _SHOWN]
        return f"{scheme}:{base.partition('#')[0]}" + (f"?{'&'.join(told)}" if told else "")

    def __repr__(self) -> str:
        return f"LedgerUrl({str(self)!r})"


Place = str | Path | LedgerUrl


def ledger_place(place: Place) -> Path | LedgerUrl:
    """The file, or the URL, that a text names. A path after ``sqlite:///`` is relative, after ``sqlite:////`` absolute.

    >>> ledger_place("sqlite:///site.ledger") == ledger_place("site.ledger") == Path("site.ledger")
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
