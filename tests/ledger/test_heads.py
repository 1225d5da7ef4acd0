"""A ledger that was restored, copied or forked is noticed, named, and refused until a person decides."""

import hmac
import inspect
import json
import os
import shutil
import stat
import subprocess
import sys

import pytest

from tacit.cli import main
from tacit.core.account import Ceiling
from tacit.core.errors import DamagedLedger, InvalidInput, LedgerError, StaleLedger
from tacit.core.spend import Pure
from tacit.ledger import store as rows
from tacit.ledger import stored
from tacit.ledger.entries import EntryKind
from tacit.ledger.heads import KEY_FILE, Head, HeadMemory, Heads, accept_head, state_folder
from tacit.ledger.sqlite import SqliteLedger
from tacit.ledger.verify import acceptances, lines, verify

POLICY = {"clinic": Ceiling(1)}


class OpenedLedger:
    """A ledger in one folder and its memory in another."""

    def __init__(self, folder):
        self.path = folder / "main.ledger"
        self.state = folder / "state" / "tacit"
        SqliteLedger.create(self.path, POLICY, heads=self.state).close()

    def open(self, path=None):
        return SqliteLedger(path or self.path, heads=self.state)

    def pay(self, request, path=None, spend="1/10"):
        with self.open(path) as ledger:
            return ledger.charge("clinic", Pure(spend), "labels", "system", request, "question")

    def copy(self, name):
        return shutil.copy(self.path, self.path.with_name(name))

    def head(self):
        (file,) = self.state.glob("*.head")
        return file


@pytest.fixture
def site(folder):
    return OpenedLedger(folder)


@pytest.mark.parametrize("end", ["removed", "emptied"])
def test_a_ledger_that_is_gone_is_not_made_anew(site, end):
    """Removing the file is the simplest way to get a budget back: a node makes its ledger at the first start."""
    site.pay("r-1")
    site.path.unlink()
    if end == "emptied":
        site.path.touch()
    for _ in range(2):
        with pytest.raises(StaleLedger, match=r"main\.ledger, last used at .* with 3 entries, and it is gone"):
            SqliteLedger.create(site.path, POLICY, heads=site.state)
    assert site.path.exists() == (end == "emptied")
    # Another place is another ledger, and a person may decide.
    SqliteLedger.create(site.path.with_name("other.ledger"), POLICY, heads=site.state).close()
    site.head().unlink()
    SqliteLedger.create(site.path, POLICY, heads=site.state).close()


def test_what_never_paid_may_be_made_anew(site):
    site.path.unlink()
    SqliteLedger.create(site.path, POLICY, heads=site.state).close()


def test_heads_that_cannot_be_read_do_not_keep_a_ledger_from_being_made(site):
    site.pay("r-1")
    site.head().write_bytes(b"damaged")
    SqliteLedger.create(site.path.with_name("other.ledger"), POLICY, heads=site.state).close()


def test_the_command_does_not_make_a_ledger_anew(site, folder, monkeypatch, capsys):
    monkeypatch.setenv("TACIT_STATE", str(site.state))
    site.pay("r-1")
    site.path.unlink()
    policy = folder / "policy.toml"
    policy.write_text("[accounts.clinic]\nepsilon = 1\n")
    with pytest.raises(SystemExit) as ended:
        main(["ledger", "open", str(site.path), "--policy", str(policy)])
    assert ended.value.code == 1
    assert "and it is gone" in capsys.readouterr().err
    assert not site.path.exists()


def test_an_older_copy_that_is_put_back_is_refused_at_the_start_and_named(site):
    site.pay("r-1")
    old = site.copy("old")
    site.pay("r-2")
    shutil.copy(old, site.path)
    with pytest.raises(StaleLedger, match=r"it has 3 entries; it was last used as .*main\.ledger at .* with 4 entries"):
        site.open()


def test_a_ledger_without_its_last_release_is_refused(site):
    """The payment would stand and the same request would be drawn a second time."""
    receipt = site.pay("r-1")
    old = site.copy("old")
    with site.open() as ledger:
        ledger.store_release(receipt, b"first draw")
    shutil.copy(old, site.path)
    with pytest.raises(StaleLedger, match="an older copy was restored"):
        site.open()


def test_a_ledger_that_is_put_back_under_an_open_connection_is_refused_at_the_next_charge(site):
    site.pay("r-1")
    copy = site.copy("copy")
    with site.open(copy) as first, site.open() as second:
        second.charge("clinic", Pure("1/10"), "labels", "system", "r-2", "question")
        for use in (
            lambda: first.charge("clinic", Pure("1/10"), "labels", "system", "r-3", "question"),
            lambda: first.apply({"clinic": Ceiling(2)}),
        ):
            with pytest.raises(StaleLedger, match="an older copy was restored"):
                use()


def test_two_copies_cannot_both_be_used(site):
    site.pay("r-1")
    copy = site.copy("copy")
    site.pay("a-2")
    with pytest.raises(StaleLedger, match="an older copy was restored"):
        site.pay("b-2", copy)


def test_a_fork_that_is_longer_is_noticed(site, folder):
    site.pay("r-1")
    copy = site.copy("copy")
    elsewhere = shutil.copytree(site.state, folder / "elsewhere")
    site.pay("a-2")
    for number in range(3):
        with SqliteLedger(copy, heads=elsewhere) as ledger:
            ledger.charge("clinic", Pure("1/10"), "labels", "system", f"b-{number}", "question")
    with pytest.raises(StaleLedger, match=r"with 4 entries, and entry 4 was another one: two copies of it were used"):
        site.open(copy)


def test_a_copy_on_a_machine_that_has_never_seen_it_is_refused(site, folder):
    SqliteLedger(site.path, heads=folder / "elsewhere").close()
    site.pay("r-1")
    with pytest.raises(StaleLedger, match=r"elsewhere has never seen it: .*TACIT_STATE names another one"):
        SqliteLedger(site.path, heads=folder / "elsewhere")
    assert not (folder / "elsewhere").exists(), "looking at a ledger writes nothing"


def test_a_ledger_that_moved_is_the_same_one(site):
    site.pay("r-1")
    moved = site.path.rename(site.path.with_name("moved"))
    site.pay("r-2", moved)
    assert json.loads(site.head().read_text().splitlines()[0])["path"] == str(moved)


def test_a_ledger_ahead_of_its_memory_goes_on(site, monkeypatch):
    """What a kill between the commit and the memory leaves: the ledger contains the head that is remembered."""
    site.pay("r-1")
    monkeypatch.setattr(HeadMemory, "remember", lambda self, replace=False: None)
    receipt = site.pay("r-2")
    monkeypatch.undo()
    assert json.loads(site.head().read_text().splitlines()[0])["sequence"] == 3
    assert site.pay("r-2") == receipt
    assert json.loads(site.head().read_text().splitlines()[0])["sequence"] == 4, "a retry catches up"


def test_a_kill_before_the_very_first_head_leaves_a_ledger_that_can_be_used(site):
    assert not site.state.exists()
    site.pay("r-1")


def test_a_head_never_goes_back(folder):
    heads = Heads(folder / "state")
    heads.remember(Head("a", 7, "x"))
    heads.remember(Head("a", 6, "y"))
    assert heads.remembered("a").sequence == 7
    heads.remember(Head("a", 6, "y"), replace=True)
    assert heads.remembered("a").digest == "y"


@pytest.mark.parametrize("damage", ["edit", "empty", "cut", "key", "no key", "another ledger's", "not text"])
def test_a_head_that_was_changed_is_not_believed(site, damage):
    site.pay("r-1")
    file = site.head()
    match damage:
        case "edit":
            file.write_text(file.read_text().replace('"sequence":3', '"sequence":2'))
        case "empty":
            file.write_text("")
        case "cut":
            file.write_bytes(file.read_bytes()[:-2])
        case "key":
            (site.state / KEY_FILE).write_text("00" * 32)
        case "no key":
            (site.state / KEY_FILE).unlink()
        case "another ledger's":
            Heads(site.state).remember(Head("another", 3, "x"))
            shutil.copy(Heads(site.state).file("another"), file)
        case "not text":
            file.write_bytes(b"\xff" * 100)
    with pytest.raises(StaleLedger, match="is damaged, or was signed with another key"):
        site.open()


def test_folder_and_files_are_for_their_owner_only(site):
    site.pay("r-1")
    assert stat.S_IMODE(site.state.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in site.state.iterdir()} == {0o600}
    assert sorted(file.suffix for file in site.state.iterdir()) == [".head", ".key"]


@pytest.mark.parametrize(
    ("named", "home", "folder"),
    [
        ("/a/b", "/c", "/a/b"),
        ("", "/c", "/c/tacit"),
        ("", "", "~/.local/state/tacit"),
        ("", "c", "~/.local/state/tacit"),
    ],
)
def test_where_heads_are_kept(monkeypatch, named, home, folder):
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("TACIT_STATE", named)
    monkeypatch.setenv("XDG_STATE_HOME", home)
    assert str(state_folder()) == folder.replace("~", "/home/someone")


def test_a_state_folder_that_cannot_be_written_is_named_and_nothing_is_paid(site, folder):
    (folder / "state").write_text("a file")
    with pytest.raises(LedgerError, match=r"cannot (read|write) the ledger's head"):
        site.pay("r-1")
    (folder / "state").unlink()
    with site.open() as ledger:
        assert ledger.balance("clinic").payments == 0


def test_a_person_decides_and_the_ledger_remembers_it(site):
    site.pay("r-1")
    old = site.copy("old")
    newest = site.pay("r-2")
    shutil.copy(old, site.path)
    entry = accept_head(site.path, "disk replaced", heads=site.state)
    assert (entry.kind, entry.sequence) == (EntryKind.ACCEPTANCE, 4)
    assert entry.content["remembered"] == [4, newest.digest]
    assert "an older copy was restored" in entry.content["finding"]
    assert site.pay("r-3").sequence == 5
    assert verify(site.path) == []
    assert [each.content["reason"] for each in acceptances(site.path)] == ["disk replaced"]
    assert "disk replaced" in list(lines(site.path))[3]
    with pytest.raises(InvalidInput, match="nothing to accept"):
        accept_head(site.path, "again", heads=site.state)


def test_a_damaged_ledger_cannot_be_accepted(site, monkeypatch):
    site.pay("r-1")
    old = site.copy("old")
    site.pay("r-2")
    data = bytearray(old.read_bytes())
    place = data.find(b'"purpose":"labels"')
    data[place + 12] ^= 1
    site.path.write_bytes(data)
    with pytest.raises(DamagedLedger, match=r"entry 3: .* Nothing was accepted"):
        accept_head(site.path, "why not", heads=site.state)


def test_the_command_line_refuses_names_and_accepts(site, monkeypatch, capsys):
    monkeypatch.setenv("TACIT_STATE", str(site.state))

    def run(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main(["ledger", *map(str, arguments)])
        printed = capsys.readouterr()
        return stopped.value.code, " ".join((printed.out + printed.err).split())

    site.pay("r-1")
    old = site.copy("old")
    site.pay("r-2")
    shutil.copy(old, site.path)
    for command, expected in (("show", 0), ("verify", 1)):
        code, said = run(command, site.path)
        assert code == expected
        assert "an older copy was restored" in said
        assert "tacit ledger accept" in said
    assert run("accept", site.path)[0] == 2, "a reason must be given"
    code, said = run("accept", site.path, "--reason", "disk replaced")
    assert (code, "accepted entry 4" in said, "disk replaced" in said) == (0, True, True)
    code, said = run("verify", site.path)
    assert (code, "whole 4 entries" in said, "disk replaced" in said) == (0, True, True)
    assert run("accept", site.path, "--reason", "x")[0] == 2


def test_many_processes_leave_the_newest_head(worker, folder, monkeypatch):
    path = folder / "main.ledger"
    SqliteLedger.create(path, {"clinic": Ceiling(1)}).close()
    requests = [f"r-{number}" for number in range(5)]
    world = folder / "world.txt"
    worker.succeed(work="release", path=str(path), world=str(world), requests=requests, spend="1/10", processes=6)
    with SqliteLedger(path) as ledger:
        count, digest = ledger.head()
    heads = [json.loads(file.read_text().splitlines()[0]) for file in Heads().folder.glob("*.head")]
    (head,) = [each for each in heads if each["path"] == str(path)]
    assert (head["sequence"], head["digest"]) == (count, digest)


def test_the_tests_leave_the_users_own_folder_alone():
    assert "tacit-state-" in str(stored.Heads().folder)
    said = subprocess.run(
        [sys.executable, "-c", "from tacit.ledger.heads import state_folder; print(state_folder())"],
        capture_output=True, text=True, check=True, env=os.environ,
    )  # fmt: skip
    assert "tacit-state-" in said.stdout


@pytest.mark.parametrize("key", [b"zz", b"\xff" * 64, b"", b"ab" * 31, b"AB" * 32])
def test_a_damaged_key_is_told_and_a_person_can_go_on(site, key):
    site.pay("r-1")
    (site.state / KEY_FILE).write_bytes(key)
    with pytest.raises(StaleLedger, match="is damaged, or was signed with another key"):
        site.open()
    accept_head(site.path, "the key was damaged", heads=site.state)
    site.pay("r-2")
    assert len(acceptances(site.path)) == 1


def test_a_first_payment_goes_through_with_a_damaged_key(site):
    site.state.mkdir(parents=True, exist_ok=True)
    (site.state / KEY_FILE).write_bytes(b"half a k")
    site.pay("r-1")
    site.pay("r-2")


def test_a_head_that_was_signed_without_a_key_is_refused(site):
    site.pay("r-1")
    signed = site.head().read_bytes().rpartition(b"\n")[0].rpartition(b"\n")[0]
    (site.state / KEY_FILE).unlink()
    site.head().write_bytes(signed + b"\n" + hmac.new(b"", signed, "sha256").hexdigest().encode() + b"\n")
    with pytest.raises(StaleLedger, match="signed with another key"):
        site.open()


def test_a_user_without_a_home_is_told_to_name_a_folder(monkeypatch):
    for name in ("TACIT_STATE", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.home", homeless)
    with pytest.raises(InvalidInput, match="name a folder with TACIT_STATE"):
        state_folder()


def test_every_copy_can_be_looked_at_and_none_but_the_last_can_pay(site, monkeypatch, capsys):
    """Who must find the newest copy has to see what is in each."""
    monkeypatch.setenv("TACIT_STATE", str(site.state))

    def run(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main(["ledger", *map(str, arguments)])
        return stopped.value.code, " ".join(capsys.readouterr().out.split())

    site.pay("r-1")
    old = site.copy("old")
    site.pay("r-2")
    code, said = run("show", old)
    assert (code, "an older copy was restored" in said, "pure composition" in said) == (0, True, True)
    code, said = run("show", old, "clinic")
    assert (code, "r-1" in said) == (0, True)
    code, said = run("verify", old)
    assert (code, "whole 3 entries" in said, "an older copy was restored" in said) == (1, True, True)
    with (
        SqliteLedger(old, heads=site.state, allow_stale=True) as ledger,
        pytest.raises(StaleLedger, match="an older copy was restored"),
    ):
        ledger.charge("clinic", Pure("1/10"), "labels", "system", "r-3", "question")
    code, said = run("verify", site.path)
    assert (code, "last used here" in said) == (0, False)


def test_a_payment_of_another_process_while_the_head_is_remembered_is_not_taken_for_damage(site, monkeypatch):
    """The head record is read, another process commits, and only then the last entry is read."""
    site.pay("r-1")
    head, paying = rows.head, []

    def interrupted(connection):
        found = head(connection)
        if not paying and "remember" in {frame.function for frame in inspect.stack(0)}:
            paying.append(True)
            site.pay("r-3")
        return found

    with site.open() as ledger:
        ledger.charge("clinic", Pure("1/10"), "labels", "system", "r-2", "question")
        monkeypatch.setattr(rows, "head", interrupted)
        ledger._memory.remember()
    assert paying
    monkeypatch.undo()
    site.pay("r-4")
