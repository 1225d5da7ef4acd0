"""What only a file can do wrong, and the policy that only the site may change."""

import os
import sqlite3
import subprocess
import sys
from fractions import Fraction

import pytest

from tacit.accounting.compose import TABLE, total
from tacit.core.account import Ceiling, Rule
from tacit.core.errors import BudgetExceeded, InvalidInput, LedgerError
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.spend import FREE, Approximate, DiscreteGaussian, Gaussian, Pure
from tacit.ledger import account
from tacit.ledger import store as rows
from tacit.ledger.sqlite import SqliteLedger
from tacit.ledger.verify import entries, verify


@pytest.fixture
def path(folder):
    return folder / "main.ledger"


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
        with pytest.raises(LedgerError, match=r"ledger of format 7; .* format 2\. Use the version of Tacit"):
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
    for bad in (folder / "missing" / "main.ledger", folder / "file" / "main.ledger", folder):
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
    ledger._store.connection.execute("PRAGMA query_only = ON")
    with pytest.raises(LedgerError, match=r"cannot be written by this user\. Nothing was charged"):
        pay(ledger, "r-1")


def test_a_full_disk_charges_nothing_and_the_retry_pays_once(ledger, path):
    connection = ledger._store.connection
    connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}")
    paid = []

    def fill():
        for number in range(1000):
            paid.append(pay(ledger, f"r-{number}", "0.001"))

    with pytest.raises(LedgerError, match=r"the disk is full\. Nothing was charged\. Free some space"):
        fill()
    assert ledger.balance("clinic").payments == len(paid)
    with pytest.raises(LedgerError, match=r"the disk is full\. The payment stands, and nothing was stored or released"):
        ledger.store_release(paid[0], b"x" * 10_000)
    assert ledger.stored_release(paid[0]) is None
    connection.execute("PRAGMA max_page_count = 100000")
    assert ledger.store_release(paid[0], b"x" * 10_000) == b"x" * 10_000
    pay(ledger, f"r-{len(paid)}", "0.001")
    assert ledger.balance("clinic").payments == len(paid) + 1
    ledger.close()
    assert verify(path) == []


def test_a_ledger_that_is_held_too_long_is_explained(path, monkeypatch):
    monkeypatch.setattr(rows, "WAIT_SECONDS", 0.05)
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
    assert ledger._store.connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert ledger._store.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


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
    ledger.store_release(second, b"labels")
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


def test_a_planned_account_may_become_adaptive_while_delta_is_zero(path):
    planned = {"pure": Ceiling(1, rule=Rule.PLANNED), "clinic": Ceiling(1, "1e-6", Rule.PLANNED)}
    with SqliteLedger.create(path, planned) as ledger:
        pay(ledger, "r-1")
        ledger.charge("pure", Pure("0.1"), "labels", "system", "r-1", "question")
        assert len(ledger.apply({**planned, "pure": Ceiling(1)})) == 1
        with pytest.raises(InvalidInput, match="the rule of account 'clinic' cannot change from planned to adaptive"):
            ledger.apply({"pure": Ceiling(1), "clinic": Ceiling(1, "1e-6")})


@pytest.mark.parametrize("spend", [Pure("0.1"), Gaussian(50), Approximate("0.1", "1e-8")])
@pytest.mark.parametrize(
    ("before", "after", "sound"),
    [
        # With δ and adaptive charges the ceiling fixes the order of the filter: it may not be raised.
        (Ceiling(1, "1e-6"), Ceiling("1001/1000", "1e-6"), False),
        (Ceiling(1, "1e-6"), Ceiling(1, "2e-6"), False),
        (Ceiling(1, "1e-6"), Ceiling("1/2", "2e-6"), False),
        (Ceiling(1, "1e-6"), Ceiling("1/2", "1e-6"), True),
        (Ceiling(1, "1e-6"), Ceiling(1, "1e-7"), True),
        (Ceiling(1, "1e-6", Rule.PLANNED), Ceiling(2, "1e-5", Rule.PLANNED), True),
    ],
)
def test_a_ceiling_is_raised_only_where_that_is_sound(path, spend, before, after, sound):
    with SqliteLedger.create(path, {"clinic": Ceiling("1/3")}) as ledger:
        ledger.apply({"clinic": before})
        ledger.charge("clinic", FREE, "nothing", "system", "r-0", "question")
        ledger.charge("clinic", spend, "labels", "system", "r-1", "question")
        head = ledger.head()
        if sound:
            assert ledger.apply({"clinic": after}) == [("clinic", before, after)]
            # Back to what it was at its first charge, in any number of steps, but not beyond.
            ledger.apply({"clinic": before})
        else:
            with pytest.raises(
                InvalidInput, match=r"cannot be raised above epsilon 1, delta 1e-06.*Open a new account"
            ):
                ledger.apply({"clinic": after})
            assert ledger.head() == head
    assert verify(path) == []


def test_a_pure_ceiling_may_be_raised_because_a_sum_always_holds(ledger):
    pay(ledger, "r-1")
    ledger.apply({"clinic": Ceiling(5)})
    pay(ledger, "r-2", "4")
    with pytest.raises(InvalidInput, match="cannot be raised above epsilon 1, delta 0"):
        ledger.apply({"clinic": Ceiling(5, "1e-6")})


def test_a_detour_over_delta_zero_raises_nothing(path):
    """Without δ a ceiling may grow, but with it again the order would be that of a ceiling chosen after releases."""
    with SqliteLedger.create(path, {"clinic": Ceiling(1, "1e-6")}) as ledger:
        pay(ledger, "r-1")
        ledger.apply({"clinic": Ceiling(1)})
        ledger.apply({"clinic": Ceiling(5)})
        with pytest.raises(InvalidInput, match="cannot be raised"):
            ledger.apply({"clinic": Ceiling(5, "1e-6")})
        ledger.apply({"clinic": Ceiling(1, "1e-6")})


def test_what_was_paid_while_delta_was_zero_has_its_curve_under_delta_again(path):
    """Without δ no Rényi curve is kept; the next ceiling with δ finds it computed from every payment."""
    policy = {"clinic": Ceiling(1, "1e-6")}
    spends = [Pure(Fraction(1, 100 + number)) for number in range(TABLE + 10)]
    with SqliteLedger.create(path, policy) as ledger:
        pay(ledger, "first", spends[0].epsilon)
        ledger.apply({"clinic": Ceiling(1)})
        for number, spend in enumerate(spends[1:]):
            pay(ledger, f"r-{number}", spend.epsilon)
        ledger.apply(policy)
        spent = ledger.balance("clinic").spent
    exact = total(spends, Fraction("1e-6"))
    assert exact.epsilon <= spent.epsilon <= exact.epsilon * Fraction(11, 10)
    assert verify(path) == []


def test_before_its_first_charge_an_account_may_get_any_ceiling(ledger):
    for ceiling in (Ceiling(1, "1e-6"), Ceiling(7, "1e-3"), Ceiling(7, "1e-3", Rule.PLANNED), Ceiling(1)):
        ledger.apply({"clinic": ceiling})


def test_a_planned_account_is_composed_without_the_lock(path, monkeypatch):
    """Another process pays while it is composed: it is composed again, and both payments stand."""
    spends = [DiscreteGaussian(40, 2, unit_steps=True), DiscreteGaussian(50, 2, unit_steps=True)]
    with SqliteLedger.create(path, {"clinic": Ceiling(1, "1e-6", Rule.PLANNED)}) as ledger:
        composed, locked = account.composed, []

        def meanwhile(*arguments):
            other = sqlite3.connect(path, isolation_level=None, timeout=0)
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
            other.close()
            if not locked:
                locked.append(False)
                with SqliteLedger(path) as second:
                    second.charge("clinic", spends[1], "labels", "system", "r-2", "question")
            return composed(*arguments)

        monkeypatch.setattr(account, "composed", meanwhile)
        ledger.charge("clinic", spends[0], "labels", "system", "r-1", "question")
        monkeypatch.undo()
        assert locked
        assert ledger.balance("clinic").spent == total([spends[1], spends[0]], Fraction(1, 10**6), Rule.PLANNED)
    assert verify(path) == []


def limited(arguments, size):
    """The command line in a process that may write no file larger than this; the kernel says no, not a mock."""
    program = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\n"
    program += "from tacit.cli import main; main()"
    # What measures coverage would want to write a file, too.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("size", [0, 1, 4096, 30_000])
def test_opening_on_a_full_disk_leaves_nothing(folder, path, size):
    policy = folder / "policy.toml"
    policy.write_text("[accounts.clinic]\nepsilon = 1\n")
    failed = limited(["ledger", "open", path, "--policy", policy], size)
    assert failed.returncode == 1
    assert "cannot create the ledger" in failed.stderr
    assert "Nothing was written" in " ".join(failed.stderr.split())
    assert "Traceback" not in failed.stderr
    assert [file.name for file in folder.iterdir()] == ["policy.toml"]
    assert limited(["ledger", "open", path, "--policy", policy], 10**6).returncode == 0
    assert sorted(file.name for file in folder.iterdir()) == ["main.ledger", "policy.toml"]


def test_what_a_killed_creation_left_is_cleaned_by_the_next_one(folder, path):
    """What a living process is writing stays."""
    program = "import sys, pathlib, tacit.core.files as files\n"
    program += "with files.new_file(pathlib.Path(sys.argv[1])) as file: print(flush=True); sys.stdin.read()"
    drafts = []
    for end in (subprocess.Popen.kill, None):
        writing = subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        writing.stdout.readline()
        drafts.append(next(file for file in folder.iterdir() if file not in drafts))
        if end is not None:
            end(writing)
            writing.wait()
            writing.communicate()
            assert drafts[0].exists()
    try:
        SqliteLedger.create(path, {"clinic": Ceiling(1)}).close()
        assert set(folder.iterdir()) == {drafts[1], path}
    finally:
        writing.kill()
        writing.communicate()
