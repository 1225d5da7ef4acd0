"""``tacit ledger`` as a user meets it: what it prints and how it exits."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys

import pytest

from tacit.cli import main
from tacit.cli.screen import console
from tacit.core.errors import BudgetExceeded
from tacit.core.spend import Gaussian, Pure
from tacit.ledger import sqlite_store
from tacit.ledger.sqlite import SqliteLedger

POLICY = """
[accounts.clinic]
epsilon = 1.0
unit = { column = "patient", records = 3 }

[accounts."[bold]odd"]
epsilon = 2
"""


class OpenedLedger:
    """A folder with a policy, and the command line run in it."""

    def __init__(self, folder, capsys):
        self._capsys = capsys
        self.ledger = folder / "main.ledger"
        self.policy = folder / "policy.toml"
        self.policy.write_text(POLICY)

    def run(self, *arguments):
        with pytest.raises(SystemExit) as stopped:
            main(["ledger", *map(str, arguments)])
        printed = self._capsys.readouterr()
        assert "Traceback" not in printed.err
        return stopped.value.code, printed.out, printed.err

    def succeed(self, *arguments):
        code, out, err = self.run(*arguments)
        assert (code, err) == (0, "")
        return out

    def open(self):
        return self.succeed("open", self.ledger, "--policy", self.policy)

    def pay(self, request, spend="0.25"):
        with SqliteLedger(self.ledger) as ledger:
            return ledger.charge("clinic", Pure(spend), "labels", "system", request, "question")


@pytest.fixture
def site(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    return OpenedLedger(tmp_path, capsys)


def test_open_creates_and_says_what_it_opened(site):
    printed = site.open()
    assert f"created  {site.ledger}" in printed
    assert 'opened   clinic: epsilon 1, delta 0 for one person (column "patient", at most 3 records each)' in printed
    assert "opened   [bold]odd: epsilon 2" in printed


def test_open_again_shows_what_changed(site):
    site.open()
    assert "nothing changed" in site.open()
    site.policy.write_text(POLICY.replace("1.0", "0.5"))
    printed = site.open()
    assert "changed  clinic: epsilon 0.5" in printed
    assert "was epsilon 1" in printed
    assert "odd" not in printed


def test_open_finishes_what_a_crash_left_empty(site):
    site.ledger.touch()
    connection = sqlite3.connect(site.ledger)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert "created" in site.open()


def test_show_lists_the_accounts_without_cutting_a_number(site):
    site.open()
    site.pay("r-1", "0.123457")
    lines = site.succeed("show", site.ledger).splitlines()
    (clinic,) = [line.split() for line in lines if "clinic" in line]
    assert clinic[:6] == ["clinic", "1", "0", "0.123457", "0.876543", "1"]
    assert any("[bold]odd" in line for line in lines)


def test_show_an_account_lists_its_payments(site):
    site.open()
    with SqliteLedger(site.ledger) as ledger:
        ledger.store_release(site.pay("r-1"), b"labels")
    site.pay("r-2", "0.5")
    printed = site.succeed("show", site.ledger, "clinic")
    assert (
        "balance  spent epsilon 0.75 of 1 at delta 0 (by pure composition, 2 payments); epsilon 0.25 remains" in printed
    )
    rows = [line.split() for line in printed.splitlines() if " r-" in line]
    assert [(row[0], row[3], row[-1]) for row in rows] == [("4", "r-1", "yes"), ("6", "r-2", "no")]


def test_verify_prints_the_head_and_finds_what_was_altered(site):
    site.open()
    receipt = site.pay("r-1")
    site.pay("r-2")
    printed = site.succeed("verify", site.ledger, "--head", receipt.digest)
    assert "whole  5 entries, head digest " in printed
    kept = shutil.copy(site.ledger, site.ledger.with_name("old copy"))
    last = site.pay("r-3")
    code, printed, _ = site.run("verify", kept, "--head", last.digest)
    assert (code, "is not in this ledger" in printed) == (1, True)
    connection = sqlite3.connect(site.ledger, isolation_level=None)
    connection.execute("DROP TRIGGER entries_stay_as_they_are")
    connection.execute("UPDATE entries SET body = json_set(body, '$.spend.epsilon', '1/1000') WHERE sequence = 4")
    connection.close()
    code, printed, _ = site.run("verify", site.ledger)
    assert code == 1
    assert printed.splitlines()[0] == "altered  entry 4: its content does not match its digest: it was edited"


def test_export_writes_json_lines(site):
    site.open()
    receipt = site.pay("r-1")
    lines = [json.loads(line) for line in site.succeed("export", site.ledger).splitlines()]
    assert [line["kind"] for line in lines] == ["genesis", "account", "account", "payment"]
    assert lines[-1]["digest"] == receipt.digest
    out = site.ledger.with_name("site.jsonl")
    assert f"4 entries, head digest {receipt.digest}" in site.succeed("export", site.ledger, "--out", out)
    assert [json.loads(line) for line in out.read_text().splitlines()] == lines


def test_an_export_never_overwrites_and_leaves_nothing_when_it_fails(site):
    site.open()
    out = site.ledger.with_name("site.jsonl")
    code, _, error = site.run("export", site.policy, "--out", out)
    assert (code, "not a ledger" in error) == (1, True)
    assert sorted(file.name for file in out.parent.iterdir()) == ["main.ledger", "policy.toml"]
    out.write_text("old")
    code, _, error = site.run("export", site.ledger, "--out", out)
    assert (code, "it exists already; choose a new name" in error) == (2, True)
    assert out.read_text() == "old"
    assert sorted(file.name for file in out.parent.iterdir()) == ["main.ledger", "policy.toml", "site.jsonl"]
    for bad in (out.parent, out.parent / "missing" / "file"):
        code, _, error = site.run("export", site.ledger, "--out", bad)
        assert (code, "cannot write" in error) == (2, True)


@pytest.mark.parametrize("command", ["show", "verify", "export"])
def test_a_missing_ledger_fails_with_a_hint(site, command):
    code, _, error = site.run(command, site.ledger)
    assert code == 2
    assert "there is no ledger at" in error
    assert "tacit ledger open" in error
    assert not site.ledger.exists()


@pytest.mark.parametrize("command", ["show", "verify", "export", "open"])
def test_another_format_fails_and_names_both(site, command):
    site.open()
    connection = sqlite3.connect(site.ledger)
    connection.execute("PRAGMA user_version = 3")
    connection.close()
    options = ["--policy", site.policy] if command == "open" else []
    code, _, error = site.run(command, site.ledger, *options)
    assert code == 1
    assert "is a ledger of format 3; this version of Tacit reads and writes format 2" in error


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("1.0", "0", "accounts.clinic.epsilon: epsilon must be above 0"),
        ("1.0", "-3", "accounts.clinic.epsilon: epsilon must be above 0"),
        ("1.0", "1\ndelta = 1.5", "accounts.clinic.delta: delta must be in [0, 1), got 1.5"),
        ("records = 3", "records = 0", "accounts.clinic.unit.records"),
        ("1.0", "1.0.0", "not valid TOML"),
    ],
)
def test_a_wrong_policy_is_wrong_use_and_names_the_field(site, old, new, named):
    site.policy.write_text(POLICY.replace(old, new))
    code, _, error = site.run("open", site.ledger, "--policy", site.policy)
    assert code == 2
    assert named in error
    assert not site.ledger.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("open", "LEDGER"),
        ("open", "LEDGER", "--policy", "missing.toml"),
        ("open",),
        ("show",),
        ("show", "LEDGER", "nobody"),
        ("verify", "LEDGER", "--head", "xyz"),
        ("frobnicate",),
    ],
)
def test_wrong_use_exits_with_two(site, arguments):
    site.open()
    code, _, error = site.run(*(site.ledger if argument == "LEDGER" else argument for argument in arguments))
    assert code == 2
    assert error


def test_leaving_out_an_account_is_wrong_use(site):
    site.open()
    site.policy.write_text("[accounts.other]\nepsilon = 1")
    code, _, error = site.run("open", site.ledger, "--policy", site.policy)
    assert (code, "leaves out account 'clinic'" in error) == (2, True)


def test_a_full_disk_fails_the_run(site, monkeypatch):
    site.open()
    connect = sqlite_store.connect_sqlite

    def on_a_full_disk(path):
        connection = connect(path)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(sqlite_store, "connect_sqlite", on_a_full_disk)
    site.policy.write_text(POLICY + "".join(f"[accounts.a{number}]\nepsilon = 1\n" for number in range(100)))
    code, _, error = site.run("open", site.ledger, "--policy", site.policy)
    assert code == 1
    assert "the disk is full. The policy was not changed. Free some space" in error
    monkeypatch.setattr(sqlite_store, "connect_sqlite", connect)
    assert "3 entries" in site.succeed("verify", site.ledger)


def test_the_help_teaches_the_policy(site):
    printed = site.succeed("open", "--help")
    assert "[accounts.clinic]" in printed
    assert 'unit = { column = "patient", records = 3 }' in printed
    assert "tacit ledger open main.ledger --policy policy.toml" in printed
    for command in ("show", "verify", "export"):
        assert f"tacit ledger {command} main.ledger" in site.succeed(command, "--help")


@pytest.mark.parametrize("account", [(), ("clinic",)])
def test_a_narrow_screen_loses_no_column(site, monkeypatch, account):
    site.open()
    site.pay("a request with a rather long name", "0.123457")
    monkeypatch.setattr(console, "width", 40)
    printed = site.succeed("show", site.ledger, *account)
    said = " ".join(printed.split())
    shown = (
        ("entry: 4", "request: a request with a rather long name", "spend: pure epsilon 0.123457", "kept: no")
        if account
        else ("account: clinic", "ceiling ε: 1", "spent ε: 0.123457", "left ε: 0.876543", "account: [bold]odd")
    )
    for each in shown:
        assert each in said
    assert "…" not in printed
    assert account or max(map(len, printed.splitlines())) <= 40


def test_gaussian_noise_on_a_pure_account_gets_advice(site):
    site.open()
    with SqliteLedger(site.ledger) as ledger, pytest.raises(BudgetExceeded) as refused:
        ledger.charge("clinic", Gaussian(100), "counts", "system", "r-1", "question")
    assert "The account's delta is 0" in str(refused.value)
    assert "pure mechanism (permute-and-flip, laplace)" in str(refused.value)
    assert "more noise" not in str(refused.value)


@pytest.mark.parametrize("name", ["[bold]", "[/bold]", "x\\[red]", ":smile:", "n" * 300, "\udcff"])
def test_strange_names_are_shown_as_they_are_and_end_in_words(site, name):
    for command in (("show", name), ("export", name), ("verify", name), ("open", name, "--policy", name)):
        code, _, error = site.run(*command)
        assert code in (1, 2)
        assert name[:39] in error or name == "\udcff"
    site.open()
    code, _, error = site.run("export", site.ledger, "--out", site.ledger.parent / name / "missing")
    assert code == 2
    assert "cannot write" in error


def test_an_ascii_terminal_gets_the_words(site):
    site.open()
    site.pay("r-1", "0.25")
    result = subprocess.run(
        [sys.executable, "-c", "from tacit.cli import main; main()", "ledger", "show", site.ledger],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "120"}, capture_output=True, timeout=120,
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, b"")
    assert "ceiling epsilon" in result.stdout.decode("ascii")
