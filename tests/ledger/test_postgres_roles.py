"""Who may do what with a ledger on a server: the server refuses, whatever the client would do."""

import pytest

from tacit.cli import main
from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput, LedgerError
from tacit.core.spend import Pure
from tacit.ledger import entries, open_ledger, store
from tacit.ledger.postgres_schema import role_statements
from tests.postgres import needs_postgres

pytestmark = needs_postgres
POLICY = {"clinic": Ceiling(1)}
ROLES = ("owner", "writer", "reader")


@pytest.fixture(scope="module")
def site(postgres):
    """A ledger whose roles were made by the command, a login of each, and one payment."""
    database = postgres.database()
    url = postgres.url(database)
    with open_ledger(url, POLICY) as ledger:
        ledger.charge("clinic", Pure("1/10"), "labels", "system", "r-1", "question")
    for _ in range(2):  # a second time changes nothing
        with pytest.raises(SystemExit) as ended:
            main(["ledger", "roles", url, "--prefix", database])
        assert ended.value.code == 0
    for role in ROLES:
        postgres.execute(f"CREATE ROLE {database}_{role}_login LOGIN IN ROLE {database}_{role}")
    yield Site(postgres, database)
    postgres.drop(database)
    for role in ROLES:
        postgres.execute(f"DROP ROLE {database}_{role}_login", f"DROP ROLE {database}_{role}")


class Site:
    """Asks as one of the three."""

    def __init__(self, postgres, database):
        self._postgres, self._database = postgres, database

    def url(self, role):
        return self._postgres.url(self._database, user=f"{self._database}_{role}_login")

    def execute(self, role, *statements):
        user = "postgres" if role == "administrator" else f"{self._database}_{role}_login"
        return self._postgres.execute(*statements, database=self._database, user=user)

    def refused(self, role, *statements):
        import psycopg

        with pytest.raises(psycopg.Error) as refused:
            self.execute(role, *statements)
        return str(refused.value).splitlines()[0]


WRITES = [
    "UPDATE tacit.entries SET kind = 'payment'",
    "UPDATE tacit.entries SET body = '{}' WHERE sequence = 3",
    "DELETE FROM tacit.entries",
    "TRUNCATE tacit.entries",
    "UPDATE tacit.head SET count = 1",
    "UPDATE tacit.head SET count = count + 1",
    "DELETE FROM tacit.head",
    "INSERT INTO tacit.head VALUES (true, 1, '')",
    "UPDATE tacit.accounts SET sequence = 100",
    "INSERT INTO tacit.accounts VALUES ('mine', 1, '')",
    "UPDATE tacit.format SET number = 3",
    "ALTER TABLE tacit.entries DISABLE TRIGGER ALL",
    "DROP TRIGGER entries_stay ON tacit.entries",
    "CREATE OR REPLACE FUNCTION tacit.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE TABLE tacit.more (x integer)",
    "CREATE TEMPORARY TABLE entries (x integer)",
    "DROP SCHEMA tacit CASCADE",
    "SET session_replication_role = replica",
]


@pytest.mark.parametrize("role", ["writer", "reader"])
def test_neither_writer_nor_reader_can_rewrite(site, role):
    head = "SELECT count, digest FROM tacit.head"
    before = site.execute("administrator", head)
    for statement in WRITES:
        said = site.refused(role, statement)
        assert "permission denied" in said or "must be owner" in said, (statement, said)
    assert site.execute("administrator", head) == before


def test_not_even_the_owner_rewrites_what_the_triggers_guard(site):
    for statement in (
        "UPDATE tacit.entries SET kind = 'payment'",
        "DELETE FROM tacit.entries",
        "TRUNCATE tacit.entries",
        "UPDATE tacit.head SET count = 1",
        "UPDATE tacit.head SET count = count",
        "DELETE FROM tacit.head",
        "TRUNCATE tacit.head",
        "UPDATE tacit.accounts SET sequence = 1",
        "DELETE FROM tacit.accounts",
        "TRUNCATE tacit.accounts",
    ):
        assert "the ledger is append-only" in site.refused("owner", statement), statement
    assert "violates check constraint" in site.refused("owner", "INSERT INTO tacit.turn VALUES (true)")


def test_a_writer_pays_and_stores_and_opens_no_account(site):
    with open_ledger(site.url("writer")) as ledger:
        receipt = ledger.charge("clinic", Pure("1/10"), "labels", "system", "r-2", "question")
        assert ledger.store_release(receipt, b"release") == b"release"
        assert ledger.verify() == []
        assert ledger.apply(POLICY) == []
        with pytest.raises(LedgerError, match=r"only the owner opens accounts.*The policy was not changed"):
            ledger.apply({"clinic": Ceiling(100)})
        with pytest.raises(LedgerError, match="only the owner opens accounts"):
            ledger.apply({**POLICY, "mine": Ceiling(100)})
        assert ledger.accounts() == POLICY
    with open_ledger(site.url("owner")) as ledger:
        assert ledger.apply({"clinic": Ceiling("3/2")})
        assert ledger.apply(POLICY)
        assert ledger.balance("clinic").payments == 2


def test_a_reader_reads_and_cannot_pay(site):
    with open_ledger(site.url("reader")) as ledger:
        assert ledger.balance("clinic").payments > 0
        assert ledger.verify() == []
        with pytest.raises(LedgerError, match=r"this user may not do that.*Nothing was charged"):
            ledger.charge("clinic", Pure("1/10"), "labels", "system", "r-9", "question")


def test_what_a_writer_inserts_must_follow_and_be_what_its_digest_says(site):
    with open_ledger(site.url("writer")) as ledger:
        ledger._store.begin(write=True)
        count, digest = store.last(ledger._store)
        ledger._store.rollback()
    body = entries.canonical({"account": "clinic", "request": "forged"})
    insert = "INSERT INTO tacit.entries (sequence, kind, body, previous, digest) VALUES ({}, '{}', '{}', '{}', '{}')"
    right = entries.entry_digest(digest, count + 1, "payment", body)
    kind = entries.entry_digest(digest, count + 1, "account", body)
    skipped = entries.entry_digest(digest, count + 2, "payment", body)
    other = entries.entry_digest("0" * 64, count + 1, "payment", body)
    for values, words in (
        ((count + 1, "payment", body, digest, "0" * 64), "the entry is not what its digest says"),
        ((count + 2, "payment", body, digest, skipped), "the entry does not follow the last one"),
        ((count + 1, "payment", body, "0" * 64, other), "the entry does not follow the last one"),
        ((count + 1, "account", body, digest, kind), "only the owner opens accounts"),
    ):
        assert words in site.refused("writer", insert.format(*values))
    # An insertion that is passed over moves nothing.
    again = entries.canonical({"account": "clinic", "request": "r-1"})
    twice = entries.entry_digest(digest, count + 1, "payment", again)
    values = (count + 1, "payment", again, digest, twice)
    site.execute("writer", insert.format(*values) + " ON CONFLICT DO NOTHING")
    assert site.execute("administrator", "SELECT count FROM tacit.head") == [(count,)]
    assert right != twice


def test_roles_are_printed_and_files_have_none(postgres, site, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["ledger", "roles", postgres.url(site._database), "--print", "--prefix", "other"])
    said = capsys.readouterr().out
    assert (ended.value.code, said) == (0, "".join(f"{each};\n" for each in role_statements(site._database, "other")))
    assert postgres.execute("SELECT count(*) FROM pg_roles WHERE rolname LIKE 'other%'") == [(0,)]
    with pytest.raises(SystemExit) as ended:
        main(["ledger", "roles", str(tmp_path / "main.ledger")])
    assert (ended.value.code, "roles are for a ledger on a server" in capsys.readouterr().err) == (2, True)
    for prefix in ('x"; DROP', "Big", "1a", "", "a" * 51):
        with pytest.raises(InvalidInput, match="a prefix of roles"):
            role_statements("d", prefix)
