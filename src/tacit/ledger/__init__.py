"""Privacy budgets: accounts that pay for releases up to a ceiling that no job can raise. See ``open_ledger``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.core import Ceiling, InvalidInput
from tacit.core.places import SCHEME, LedgerUrl, Place, ledger_place
from tacit.ledger.places import occupied

if TYPE_CHECKING:
    from tacit.core import Ledger
    from tacit.ledger.stored import StoredLedger

__all__ = ["inspected", "open_ledger", "opened"]

Policy = Mapping[str, Ceiling]
Backend = Callable[[str, Policy | None], "Ledger"]

# Packages add schemes of their own: an entry point in this group names a function of the place and the policy.
_GROUP = "tacit.ledgers"


def open_ledger(place: Place, policy: Policy | None = None) -> Ledger:
    """The ledger at a place: a path or ``sqlite:///path``, ``postgresql://…``, ``memory:``, or a package's scheme.

    ``policy`` gives the accounts of a ledger that does not exist yet; an existing one keeps its own. A path after
    ``sqlite:///`` is relative, after ``sqlite:////`` absolute, as in SQLAlchemy. The URL of a PostgreSQL server is
    libpq's, so a password may come from ``PGPASSWORD``, a password file or a service; no message shows it.

    >>> from tacit.core.spend import Pure
    >>> ledger = open_ledger("memory:", {"clinic": Ceiling(1)})
    >>> ledger.preflight("clinic", {"r-1": Pure("0.5"), "r-2": Pure("0.6")})
    Traceback (most recent call last):
        ...
    tacit.core.errors.BudgetExceeded: account 'clinic' cannot pay: it would reach epsilon 1.1 ...
    >>> open_ledger("ledgers://me:secret@here")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no ledger can be opened at ledgers://me@here; known are memory:, postgres:, ...
    """
    text = place.text if isinstance(place, LedgerUrl) else place
    found = SCHEME.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return _sqlite(str(text), policy)
    scheme, rest = found.groups()
    if scheme in BACKENDS:
        return BACKENDS[scheme](rest, policy)
    installed = {each.name: each for each in entry_points(group=_GROUP)}
    if scheme in installed:
        backend: Backend = installed[scheme].load()
        return backend(rest, policy)
    if rest.startswith("//"):
        known = ", ".join(f"{each}:" for each in sorted({*BACKENDS, *installed}))
        raise InvalidInput(f"no ledger can be opened at {str(LedgerUrl(str(text)))[:80]}; known are {known}")
    return _sqlite(str(text), policy)


@contextmanager
def opened(ledger: Ledger | Place, policy: Policy | None = None) -> Iterator[Ledger]:
    """The ledger given, or the one at a place, which is closed at the end.

    >>> with opened("memory:", {"clinic": Ceiling(1)}) as ledger:
    ...     ledger.durable
    False
    """
    if not isinstance(ledger, str | Path | LedgerUrl):
        yield ledger
        return
    with closing(open_ledger(ledger, policy)) as own:
        yield own


def inspected(place: Place) -> StoredLedger:
    """The ledger at a place, to be read: also a restored, copied or forked one, which cannot pay.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "main.ledger"
    >>> open_ledger(file, {"clinic": Ceiling(1)}).close()
    >>> with inspected(file) as ledger:
    ...     list(ledger.accounts())
    ['clinic']
    """
    where = ledger_place(place)
    if isinstance(where, Path):
        from tacit.ledger.sqlite import SqliteLedger

        return SqliteLedger(where, allow_stale=True)
    from tacit.ledger.postgres import PostgresLedger

    return PostgresLedger(where, allow_stale=True)


# Back ends are imported when one is opened: importing this package stays fast.


def _sqlite(rest: str, policy: Policy | None) -> Ledger:
    from tacit.ledger.sqlite import SqliteLedger

    path = Path(rest.removeprefix("///"))
    return SqliteLedger(path) if policy is None or occupied(path) else SqliteLedger.create(path, policy)


def _postgres(rest: str, policy: Policy | None) -> Ledger:
    from tacit.ledger.postgres import PostgresLedger

    url = LedgerUrl(f"postgresql:{rest}")
    return PostgresLedger(url) if policy is None else PostgresLedger.create(url, policy, existing=True)


def _memory(rest: str, policy: Policy | None) -> Ledger:
    from tacit.ledger.memory import MemoryLedger

    if policy is None or rest:
        raise InvalidInput("memory: takes no path, and needs a policy, since it has no accounts yet")
    return MemoryLedger(policy)


def _unlimited(rest: str, policy: Policy | None) -> Ledger:
    from tacit.ledger.memory import UnlimitedLedger

    if policy is not None or rest:
        raise InvalidInput("unlimited: takes no path and no policy, since it has no ceilings")
    return UnlimitedLedger()


BACKENDS: Mapping[str, Backend] = {
    "memory": _memory,
    "postgres": _postgres,
    "postgresql": _postgres,
    "sqlite": _sqlite,
    "unlimited": _unlimited,
}
