"""Ledgers of the first format: refused in words everywhere, verified and converted by ``tacit ledger open``."""

import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest

from tacit.accounting.compose import total
from tacit.cli import main
from tacit.core.account import Ceiling
from tacit.core.errors import DamagedLedger, InvalidInput, LedgerError
from tacit.core.spend import Gaussian, Pure
from tacit.ledger.entries import ORIGIN, EntryKind, following, genesis, payment, release
from tacit.ledger.sqlite import SqliteLedger, migrate
from tacit.ledger.sqlite_store import APPLICATION, FIRST_SCHEMA, connect_sqlite
from tacit.ledger.store import read
from tacit.ledger.verify import entries, verify

SPENDS = [Gaussian(40 + number) for number in range(25)]
POLICY = {"clinic": Ceiling(1), "other": Ceiling(3, "1e-6")}


def first_format(path):
    """A ledger as the first version of Tacit wrote it, with a ceiling that was raised after charges."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    for statement in FIRST_SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute("PRAGMA user_version = 1")
    connection.execute("INSERT INTO head VALUES (1, 0, ?)", (ORIGIN,))
    count, digest = 0, ORIGIN

    def append(kind, content, payload=None):
        nonlocal count, digest
        entry = following(count, digest, kind, content, payload)
        connection.execute(
            "INSERT INTO entries (sequence, kind, body, payload, previous, digest) VALUES (?, ?, ?, ?, ?, ?)",
            (entry.sequence, entry.kind, entry.body, payload, entry.previous, entry.digest),
        )
        connection.execute("UPDATE head SET count = ?, digest = ?", (entry.sequence, entry.digest))
        count, digest = entry.sequence, entry.digest
        return entry

    append(EntryKind.GENESIS, genesis() | {"format": 1})
    append(EntryKind.ACCOUNT, {"account": "clinic", **POLICY["clinic"].to_json()})
    append(EntryKind.ACCOUNT, {"account": "other", **Ceiling(2, "1e-6").to_json()})
    paid = append(EntryKind.PAYMENT, payment("clinic", Pure("1/4"), "labels", "system", "r-1", "question"))
    append(EntryKind.RELEASE, release(paid.sequence, b"labels"), b"labels")
    for number, spend in enumerate(SPENDS):
        append(EntryKind.PAYMENT, payment("other", spend, "labels", "system", f"r-{number}", "question"))
    append(EntryKind.ACCOUNT, {"account": "other", **POLICY["other"].to_json()})
    connection.close()
    return paid


@pytest.fixture
def path(folder):
    return folder / "main.ledger"


def test_it_is_converted_without_changing_an_entry(path):
    paid = first_format(path)
    before = list(entries_of_any(path))
    assert migrate(path)
    assert verify(path, head=paid.digest) == []
    assert list(entries(path))[: len(before)] == before
    with SqliteLedger(path) as ledger:
        assert ledger.accounts() == POLICY
        assert ledger.balance("clinic").spent.epsilon == Fraction(1, 4)
        exact = total(SPENDS, Fraction(1, 10**6)).epsilon
        spent = ledger.balance("other").spent.epsilon
        assert exact <= spent <= exact * Fraction(101, 100)
        again = ledger.charge("clinic", Pure("1/4"), "labels", "system", "r-1", "question")
        assert (again.digest, ledger.stored_release(again)) == (paid.digest, b"labels")
        ledger.charge("clinic", Pure("3/4"), "labels", "system", "r-2", "question")
        ledger.charge("other", Gaussian(99), "labels", "system", "new", "question")
        assert ledger.balance("other").payments == len(SPENDS) + 1
    assert verify(path) == []
    assert not migrate(path), "once is enough"


def entries_of_any(path):
    with closing(connect_sqlite(path)) as store:
        yield from read(store)


def test_a_ceiling_that_was_raised_may_be_lowered_but_not_raised_again(path):
    first_format(path)
    migrate(path)
    with SqliteLedger(path) as ledger:
        ledger.apply({**POLICY, "other": Ceiling("5/2", "1e-6")})
        with pytest.raises(InvalidInput, match="cannot be raised above epsilon 2, delta 1e-06"):
            ledger.apply(POLICY)
    assert verify(path) == []


def test_it_is_refused_with_the_command_that_converts_it(path):
    first_format(path)
    for use in (SqliteLedger, verify, lambda path: list(entries(path))):
        with pytest.raises(LedgerError, match=r"format 1; .*`tacit ledger open .* --policy FILE`: that verifies it"):
            use(path)


def test_the_command_converts_it(path, capsys):
    first_format(path)
    policy = path.with_name("policy.toml")
    policy.write_text('[accounts.clinic]\nepsilon = 1\n[accounts.other]\nepsilon = 3\ndelta = "1e-6"\n')
    with pytest.raises(SystemExit) as stopped:
        main(["ledger", "open", str(path), "--policy", str(policy)])
    assert stopped.value.code == 0
    said = capsys.readouterr().out
    assert "converted" in said
    assert "nothing changed" in said
    assert verify(path) == []


def test_a_damaged_one_is_not_converted(path):
    first_format(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DROP TRIGGER entries_stay_as_they_are")
    connection.execute("UPDATE entries SET body = replace(body, '1/4', '1/8') WHERE sequence = 4")
    connection.execute(next(statement for statement in FIRST_SCHEMA if "entries_stay_as_they_are" in statement))
    connection.close()
    with pytest.raises(DamagedLedger, match=r"entry 4: its content does not match its digest.*Nothing was converted"):
        migrate(path)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()


def test_an_entry_with_a_state_before_the_migration_is_found(path):
    """Otherwise a forger could choose where the states begin."""
    first_format(path)
    migrate(path)
    found = [entry.kind for entry in entries(path)]
    assert found.count("migration") == 1
    assert [("state" in entry.content) for entry in entries(path) if entry.kind in ("account", "payment")] == [
        *[False] * 29,
        *[True] * 2,
    ]
