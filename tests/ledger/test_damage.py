"""One damaged byte anywhere in the file: a clean refusal or the right result, never a payment that does not verify."""

import random
import shutil
import sqlite3

import pytest

from tacit.cli import main
from tacit.core.account import Ceiling
from tacit.core.errors import DamagedLedger, LedgerError
from tacit.core.spend import Gaussian, Pure
from tacit.ledger import stored
from tacit.ledger.sqlite import SqliteLedger
from tacit.ledger.verify import verify

POLICY = {"clinic": Ceiling(1), "other": Ceiling(1, "1e-6")}


def charge(ledger, request, account="clinic"):
    spend = Pure("1/1000") if account == "clinic" else Gaussian(300)
    return ledger.charge(account, spend, "labels", "system", request, "question")


def build(path, payments):
    """A ledger whose payments all have a release, closed so that it is one file."""
    with SqliteLedger.create(path, POLICY, heads=path.parent / "heads") as ledger:
        for number in range(payments):
            ledger.store_release(charge(ledger, f"r-{number}", "clinic" if number % 2 else "other"), b"%d" % number)
    assert not path.with_name(path.name + "-wal").exists()
    return path.read_bytes()


class Damaged:
    """Copies of a ledger with one byte changed, each with the memory of the original."""

    def __init__(self, folder, content):
        self.folder = folder
        self.content = content
        self.path = folder / "main.ledger"
        self.state = folder / "state"
        self.forget()

    def put(self, place, change):
        data = bytearray(self.content)
        data[place] ^= change
        for file in self.folder.glob("main.ledger*"):
            file.unlink()
        self.path.write_bytes(data)

    def forget(self):
        """Remember of a payment no more than the original does."""
        shutil.rmtree(self.state, ignore_errors=True)
        shutil.copytree(self.folder / "heads", self.state)

    def open(self):
        return SqliteLedger(self.path, heads=self.state)


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_every_byte_of_a_small_ledger(folder, every):
    """No flip lets a payment through on a file that does not verify."""
    site = Damaged(folder, build(folder / "made.ledger", 3))
    chance = random.Random(14)
    refused = paid = 0
    for place in range(0, len(site.content), every):
        # Empty pages and the free space inside pages are most of the file: a flip there changes nothing, or is found.
        if site.content[place] == 0 and place % 31:
            continue
        site.put(place, chance.choice([1 << bit for bit in range(8)] + [0xFF]))
        try:
            with site.open() as ledger:
                receipt = charge(ledger, "new")
                before = charge(ledger, "r-1")
                balance = ledger.balance("clinic")
                kept = ledger.stored_release(before)
        except LedgerError:
            refused += 1
            continue
        paid += 1
        site.forget()
        assert (balance.payments, kept, receipt.request) == (2, b"1", "new"), place
        assert verify(site.path) == [], place
    assert refused > 1000 / every
    assert paid > 100 / every


def test_a_large_ledger_is_checked_in_what_a_charge_reads(folder):
    """Not everything is read there; but nothing is paid twice, drawn twice, or paid from a wrong balance."""
    payments = 120
    site = Damaged(folder, build(folder / "made.ledger", payments))
    assert len(site.content) > stored._WHOLE
    chance = random.Random(9)
    used = [place for place, byte in enumerate(site.content) if byte]
    refused = paid = 0
    # Half of the flips in the first pages, where the definitions and the roots of the indexes are.
    roots = [place for place in used if place < 16 * 4096]
    for number in range(600):
        place = chance.choice(used if number % 2 else roots)
        site.put(place, chance.randrange(1, 256))
        try:
            with site.open() as ledger:
                before = ledger.balance("clinic").payments
                retried = chance.randrange(payments)
                account = "clinic" if retried % 2 else "other"
                kept = ledger.stored_release(charge(ledger, f"r-{retried}", account))
                after = ledger.balance("clinic").payments
                charge(ledger, "new")
                balance = ledger.balance("clinic")
        except LedgerError:
            refused += 1
            continue
        paid += 1
        site.forget()
        assert kept == b"%d" % retried, f"a release was lost to byte {place}: it would be drawn again"
        assert before == after == payments // 2, f"a request was paid twice because of byte {place}"
        assert balance.payments == payments // 2 + 1
        assert balance.spent.epsilon == Pure("1/1000").epsilon * (payments // 2 + 1)
    assert refused > 20
    assert paid > 50


@pytest.mark.parametrize("index", ["one_payment_a_request", "payments_by_request"])
def test_a_request_that_one_index_has_lost_is_not_paid_again(folder, index, monkeypatch):
    path = folder / "main.ledger"
    build(path, 2)
    monkeypatch.setattr(stored, "_WHOLE", 0)
    monkeypatch.setenv("TACIT_STATE", str(folder / "heads"))
    lose(path, index)
    with SqliteLedger(path) as ledger, pytest.raises(DamagedLedger, match="two indexes of the ledger disagree"):
        charge(ledger, "r-1")


@pytest.mark.parametrize("index", ["one_release_a_payment", "releases_by_payment"])
def test_a_release_that_one_index_has_lost_is_not_drawn_again(folder, index, monkeypatch):
    path = folder / "main.ledger"
    build(path, 2)
    monkeypatch.setattr(stored, "_WHOLE", 0)
    monkeypatch.setenv("TACIT_STATE", str(folder / "heads"))
    with SqliteLedger(path) as ledger:
        receipt = charge(ledger, "r-1")
    lose(path, index)
    with SqliteLedger(path) as ledger:
        for use in (lambda: ledger.stored_release(receipt), lambda: ledger.store_release(receipt, b"another draw")):
            with pytest.raises(DamagedLedger, match="two indexes of the ledger disagree"):
                use()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE accounts SET sequence = 2, digest = (SELECT digest FROM entries WHERE sequence = 2)",
        "DELETE FROM accounts",
        "UPDATE accounts SET digest = 'x'",
    ],
)
def test_an_account_whose_last_entry_is_in_doubt_is_not_charged(folder, statement, monkeypatch):
    path = folder / "main.ledger"
    build(path, 2)
    monkeypatch.setattr(stored, "_WHOLE", 0)
    monkeypatch.setenv("TACIT_STATE", str(folder / "heads"))
    lose(path, None, statement)
    with SqliteLedger(path) as ledger:
        for use in (lambda: charge(ledger, "new"), lambda: ledger.apply({**POLICY, "clinic": Ceiling("1/2")})):
            with pytest.raises(DamagedLedger, match="is inconsistent on the last entry"):
                use()


def lose(path, index, *statements):
    """Empty one index behind SQLite's back, or change a table that its guards protect, and put the guards back."""
    connection = sqlite3.connect(path, isolation_level=None)
    guards = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in guards:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    for _, sql in guards:
        connection.execute(sql)
    if index is not None:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (index,)).fetchone()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    if index is not None:
        data = bytearray(path.read_bytes())
        # An empty leaf of an index: no cells, no free blocks, content from the end of the page.
        data[(root - 1) * 4096 : root * 4096] = b"\x0a\0\0\0\0\x10\0\0".ljust(4096, b"\0")
        path.write_bytes(data)


@pytest.mark.parametrize("command", ["show", "verify", "export", "accept", "open"])
def test_no_command_ends_in_a_traceback(folder, command, capsys, monkeypatch):
    site = Damaged(folder, build(folder / "made.ledger", 3))
    monkeypatch.setenv("TACIT_STATE", str(site.state))
    policy = folder / "policy.toml"
    policy.write_text('[accounts.clinic]\nepsilon = 1\n[accounts.other]\nepsilon = 1\ndelta = "1e-6"\n')
    options = {"open": ["--policy", str(policy)], "accept": ["--reason", "test"]}.get(command, [])
    chance = random.Random(command)
    used = [place for place, byte in enumerate(site.content) if byte]
    codes = set()
    for place in [*range(0, 100, 3), *chance.sample(used, 100)]:
        site.put(place, chance.randrange(1, 256))
        with pytest.raises(SystemExit) as stopped:
            main(["ledger", command, str(site.path), *options])
        assert "Traceback" not in capsys.readouterr().err
        codes.add(stopped.value.code)
    assert codes <= {0, 1, 2}
    assert 1 in codes
