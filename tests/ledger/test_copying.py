"""A ledger moved between a file and a server: the same entries, one ledger that pays, and nothing half made."""

import sqlite3

import pytest

from tacit.cli import main
from tacit.core.account import Ceiling
from tacit.core.errors import DamagedLedger, InvalidInput, LedgerError, StaleLedger
from tacit.core.spend import Gaussian, Pure
from tacit.ledger import open_ledger, sqlite, sqlite_store
from tacit.ledger.copying import copy_ledger
from tacit.ledger.verify import entries, verify
from tests.postgres import needs_postgres

POLICY = {"clinic": Ceiling(1), "other": Ceiling(1, "1e-6")}


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "main.ledger"
    with open_ledger(path, POLICY) as ledger:
        receipt = ledger.charge("clinic", Pure("1/10"), "labels", "system", "r-1", "question")
        ledger.store_release(receipt, bytes(range(256)))
        ledger.charge("other", Gaussian(40), "labels", "system", "größer", "question")
    return path


def pay(ledger, request):
    return ledger.charge("clinic", Pure("1/10"), "labels", "system", request, "question")


@needs_postgres
def test_from_a_file_to_a_server_and_back(source, postgres, ledger_database, tmp_path):
    url, back = postgres.url(ledger_database), tmp_path / "back.ledger"
    before = list(entries(source))
    with open_ledger(source) as ledger:
        receipts = ledger.receipts("clinic")
    assert copy_ledger(source, url)[0] == len(before) + 1
    assert list(entries(url))[:-1] == before
    with open_ledger(url) as ledger:
        assert ledger.receipts("clinic") == receipts
        assert ledger.stored_release(receipts[0]) == bytes(range(256))
        assert pay(ledger, "r-1") == receipts[0], "what was paid is not paid again"
        pay(ledger, "r-2")
    # The file is the older one now.
    with pytest.raises(StaleLedger, match="an older copy was restored"):
        open_ledger(source)
    middle = list(entries(url))
    copy_ledger(url, back)
    assert list(entries(back))[:-1] == middle
    assert verify(back, head=before[-1].digest) == []
    with open_ledger(back) as ledger:
        assert ledger.balance("clinic").payments == 2
        pay(ledger, "r-3")
    with pytest.raises(StaleLedger):
        open_ledger(url)


@needs_postgres
def test_what_is_there_is_not_overwritten(source, postgres, ledger_database, tmp_path):
    other = tmp_path / "other.ledger"
    open_ledger(other, POLICY).close()
    url = postgres.url(ledger_database)
    open_ledger(url, POLICY).close()
    for target in (other, url):
        count = len(list(entries(target)))
        with pytest.raises(InvalidInput, match=r"something is at .* already"):
            copy_ledger(source, target)
        assert len(list(entries(target))) == count
    with open_ledger(source) as ledger:
        pay(ledger, "the source still pays")


@needs_postgres
def test_a_copy_that_fails_leaves_nothing(source, postgres, ledger_database, tmp_path, monkeypatch):
    from tacit.ledger import postgres_store

    url, file = postgres.url(ledger_database), tmp_path / "new.ledger"
    last = len(list(entries(source)))
    for target, kind in ((url, postgres_store.PostgresStore), (file, sqlite_store.SqliteStore)):
        with monkeypatch.context() as patch:
            insert = kind.insert

            def without_the_last(store, entry, account, insert=insert):
                if entry.sequence != last:
                    insert(store, entry, account)

            patch.setattr(kind, "insert", without_the_last)
            with pytest.raises(LedgerError, match="the copy is not what was copied: it ends elsewhere"):
                copy_ledger(source, target)
    assert not file.exists()
    assert postgres.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'tacit'", database=ledger_database) == [
        (0,)
    ]
    assert sorted(each.name for each in tmp_path.iterdir() if not each.name.startswith("main")) == []
    copy_ledger(source, url)


def test_a_damaged_or_older_source_is_not_copied(source, tmp_path):
    older = tmp_path / "older.ledger"
    with sqlite3.connect(source) as connection, sqlite3.connect(older) as copy:
        connection.backup(copy)
    with open_ledger(source) as ledger:
        pay(ledger, "r-2")
    with pytest.raises(StaleLedger, match="Nothing was copied"):
        copy_ledger(older, tmp_path / "new.ledger")
    connection = sqlite3.connect(source)
    connection.execute("DROP TRIGGER entries_stay_as_they_are")
    connection.execute("UPDATE entries SET body = replace(body, '1/10', '1/99') WHERE sequence = 4")
    connection.commit()
    connection.close()
    with pytest.raises(DamagedLedger, match=r"entry 4.*Nothing was copied"):
        copy_ledger(source, tmp_path / "new.ledger")
    assert not (tmp_path / "new.ledger").exists()


def test_copying_to_where_a_ledger_was_lost_is_refused(source, tmp_path):
    gone = tmp_path / "gone.ledger"
    with open_ledger(gone, POLICY) as ledger:
        pay(ledger, "r-1")
    gone.unlink()
    for more in tmp_path.glob("gone.ledger-*"):
        more.unlink()
    with pytest.raises(StaleLedger, match="it is gone"):
        copy_ledger(source, gone)


def test_the_command_says_what_it_did(source, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["ledger", "copy", str(source), str(tmp_path / "new.ledger")])
    assert (ended.value.code, "7 entries, head digest" in capsys.readouterr().out) == (0, True)
    with pytest.raises(SystemExit) as ended:
        main(["ledger", "verify", str(tmp_path / "new.ledger")])
    assert (ended.value.code, "it was copied from" in capsys.readouterr().out) == (0, True)
    for arguments in ((str(source), str(source)), (str(tmp_path / "none.ledger"), str(tmp_path / "x.ledger"))):
        with pytest.raises(SystemExit) as ended:
            main(["ledger", "copy", *arguments])
        assert ended.value.code == 2
    assert sqlite.SqliteLedger(tmp_path / "new.ledger").close() is None
