"""What only a file can do wrong, and the policy that only the site may change."""

import os
import sqlite3

import pytest

from tacit.accounting.compose import Rule
from tacit.core.errors import BudgetExceeded, InvalidInput, LedgerError
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.spend import Pure
from tacit.ledger import database
from tacit.ledger.account import Ceiling
from tacit.ledger.sqlite import SqliteLedger
from tacit.ledger.verify import entries, verify


@pytest.fixture
def path(folder):
    return folder / "site.ledger"


@pytest.fixture
def ledger(path):
    with SqliteLedger.create(path, {"clinic": Ceiling(1)}) as ledger:
        yield ledger


def pay(ledger, request, spend="0.1"):
    return ledger.charge("clinic", Pure(spend), "labels", "system", request, "question")


def test_a_missing_ledger_says_how_to_make_one(path):
    with pytest.raises(InvalidInput, match=r"there is no ledger at .*`tacit ledger open .* --policy FILE`"):
        SqliteLedger(path)
    assert not path.exists()


def test_creating_twice_is_refused_and_changes_nothing(ledger, path):
    pay(ledger, "r-1")
    with pytest.raises(LedgerError, match="exists"):
        SqliteLedger.create(path, {"clinic": Ceiling(100)})
    assert ledger.accounts() == {"clinic": Ceiling(1)}


def test_a_policy_without_accounts_leaves_no_file(path):
    with pytest.raises(InvalidInput, match="at least one account"):
        SqliteLedger.create(path, {})
    assert not path.exists()


def test_another_format_names_both_versions(ledger, path):
    ledger.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    for use in (SqliteLedger, verify):
        with pytest.raises(LedgerError, match=r"ledger of format 7; .* format 1\. Use the version of Tacit"):
            use(path)


@pytest.mark.parametrize("content", [b"not a database at all", b"\0" * 5000, b"x" * 5000])
def test_a_file_that_is_no_database_is_refused(path, content):
    path.write_bytes(content)
    for use in (SqliteLedger, verify, lambda path: SqliteLedger.create(path, {"clinic": Ceiling(1)})):
        with pytest.raises(LedgerError, match="not a ledger"):
            use(path)
    assert path.read_bytes() == content


def test_another_database_is_left_alone(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE cats (name TEXT)")
    connection.close()
    with pytest.raises(LedgerError, match="is not a Tacit ledger"):
        SqliteLedger(path)
    with pytest.raises(LedgerError, match="exists"):
        SqliteLedger.create(path, {"clinic": Ceiling(1)})


def test_a_folder_that_is_missing_or_a_file_is_named(folder, path):
    (folder / "file").touch()
    for bad in (folder / "missing" / "site.ledger", folder / "file" / "site.ledger", folder):
        with pytest.raises(LedgerError, match=r"cannot create the ledger .*Nothing was written"):
            SqliteLedger.create(bad, {"clinic": Ceiling(1)})


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_folder_is_explained(ledger, path):
    ledger.close()
    path.chmod(0o400)
    path.parent.chmod(0o500)
    try:
        with pytest.raises(LedgerError, match="writ"), SqliteLedger(path) as again:
            pay(again, "r-1")
        with pytest.raises(LedgerError, match="cannot create the ledger"):
            SqliteLedger.create(path.parent / "other.ledger", {"clinic": Ceiling(1)})
    finally:
        path.parent.chmod(0o700)


def test_a_ledger_that_cannot_be_written_is_explained(ledger):
    ledger._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(LedgerError, match=r"cannot be written by this user\. Nothing was charged"):
        pay(ledger, "r-1")


def test_a_full_disk_charges_nothing_and_the_retry_pays_once(ledger, path):
    connection = ledger._connection
    connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}")
    paid = []

    def fill():
        for number in range(1000):
            paid.append(pay(ledger, f"r-{number}", "0.001"))

    with pytest.raises(LedgerError, match=r"the disk is full\. Nothing was charged\. Free some space"):
        fill()
    assert ledger.balance("clinic").payments == len(paid)
    with pytest.raises(LedgerError, match=r"the disk is full\. The payment stands and nothing was kept or released"):
        ledger.keep(paid[0], b"x" * 10_000)
    assert ledger.kept(paid[0]) is None
    connection.execute("PRAGMA max_page_count = 100000")
    assert ledger.keep(paid[0], b"x" * 10_000) == b"x" * 10_000
    pay(ledger, f"r-{len(paid)}", "0.001")
    assert ledger.balance("clinic").payments == len(paid) + 1
    ledger.close()
    assert verify(path) == []


def test_a_ledger_that_is_held_too_long_is_explained(path, monkeypatch):
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.05)
    with SqliteLedger.create(path, {"clinic": Ceiling(1)}) as ledger:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match=r"another process has held it for 0\.05 s\. Nothing was charged"):
            pay(ledger, "r-1")
        other.close()
        pay(ledger, "r-1")


def test_a_ledger_is_not_carried_over_a_fork(ledger, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(LedgerError, match="Open it again in each process"):
        pay(ledger, "r-1")


def test_only_the_owner_may_read_it(ledger, path):
    pay(ledger, "r-1")
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}


def test_a_commit_waits_for_the_disk(ledger):
    """2 is FULL: in the write-ahead mode every commit is synced before it returns."""
    assert ledger._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert ledger._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_reading_leaves_no_trace(ledger, path):
    pay(ledger, "r-1")
    before = ledger.head()
    ledger.balance("clinic")
    ledger.accounts()
    ledger.payments("clinic")
    verify(path)
    list(entries(path))
    assert ledger.head() == before


def test_payments_say_whether_their_release_is_kept(ledger):
    first, second = pay(ledger, "r-1"), pay(ledger, "r-2")
    ledger.keep(second, b"labels")
    assert [(payment.receipt, payment.kept) for payment in ledger.payments("clinic")] == [
        (first, False),
        (second, True),
    ]


def test_a_changed_policy_is_appended_and_binds_at_once(ledger, path):
    pay(ledger, "r-1", "0.9")
    with SqliteLedger(path) as site:
        policy = {"clinic": Ceiling("0.5"), "other": Ceiling(2)}
        assert site.apply(policy) == [("clinic", Ceiling(1), Ceiling("0.5")), ("other", None, Ceiling(2))]
        assert site.apply(policy) == []
    assert ledger.balance("clinic").remaining == 0
    with pytest.raises(BudgetExceeded):
        pay(ledger, "r-2", "0.01")
    assert pay(ledger, "r-1", "0.9").sequence == 3, "what was paid before is still replayed"
    ledger.apply({**policy, "clinic": Ceiling(1)})
    pay(ledger, "r-2", "0.1")
    assert [entry.content["epsilon"] for entry in entries(path) if entry.kind == "account"] == ["1", "1/2", "2", "1"]


def test_a_policy_names_every_account(ledger):
    with pytest.raises(InvalidInput, match="leaves out account 'clinic'"):
        ledger.apply({"other": Ceiling(2)})
    with pytest.raises(InvalidInput, match="at least one account"):
        ledger.apply({})


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("unit", Ceiling(1, unit=Unit.person("patient", 3))),
        ("adjacency", Ceiling(1, adjacency=Adjacency.ADD_REMOVE)),
        ("rule", Ceiling(1, rule=Rule.PLANNED)),
    ],
)
def test_the_meaning_of_what_was_paid_cannot_change(ledger, name, after):
    ledger.apply({"clinic": after})
    ledger.apply({"clinic": Ceiling(1)})
    pay(ledger, "r-1")
    head = ledger.head()
    with pytest.raises(InvalidInput, match=rf"the {name} of account 'clinic' cannot change"):
        ledger.apply({"other": Ceiling(1), "clinic": after})
    assert ledger.head() == head, "a policy is applied whole or not at all"


def test_a_planned_account_may_become_adaptive(path):
    with SqliteLedger.create(path, {"clinic": Ceiling(1, rule=Rule.PLANNED)}) as ledger:
        pay(ledger, "r-1")
        assert len(ledger.apply({"clinic": Ceiling(1)})) == 1
