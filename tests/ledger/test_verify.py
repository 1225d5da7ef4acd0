"""Every way to tamper with a ledger, and what finds it."""

import contextlib
import hashlib
import json
import shutil
import sqlite3

import pytest

from tacit.core.account import Ceiling
from tacit.core.errors import DamagedLedger, InvalidInput
from tacit.core.spend import Approximate, Pure
from tacit.ledger import entries, stored
from tacit.ledger import verify as verification
from tacit.ledger.entries import ORIGIN, entry_digest
from tacit.ledger.sqlite import SqliteLedger
from tacit.ledger.sqlite_store import LEDGER_SCHEMA
from tacit.ledger.verify import lines, verify

ROWS = range(1, 10)
GUARDS = [statement for statement in LEDGER_SCHEMA if "TABLE" not in statement]
COLUMNS = ("sequence", "kind", "body", "payload", "previous", "digest")


def build(path):
    """Nine entries: genesis, two accounts, three payments, two releases and a changed ceiling."""
    policy = {"clinic": Ceiling(1), "other": Ceiling(1, "1e-6")}
    with SqliteLedger.create(path, policy) as ledger:
        for number in (1, 2):
            receipt = ledger.charge("clinic", Pure("0.1"), "labels", "system", f"r-{number}", "question")
            ledger.store_release(receipt, b"labels of request %d" % number)
        ledger.charge("other", Approximate("0.1", "1e-7"), "labels", "system", "r-1", "question")
        ledger.apply({**policy, "clinic": Ceiling(2)})
        assert ledger.head()[0] == len(ROWS)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger") / "main.ledger"
    build(path)
    return path


@pytest.fixture
def path(original, folder):
    return shutil.copy(original, folder / "main.ledger")


def tamper(path, *statements):
    """Change a ledger as somebody with the file and SQLite would, who puts every trigger and index back."""
    connection = sqlite3.connect(path, isolation_level=None)
    for kind in ("TRIGGER", "INDEX"):
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = ?", (kind.lower(),)).fetchall()
        for (name,) in names:
            connection.execute(f"DROP {kind} {name}")
    for statement, *values in statements:
        connection.execute(statement, values)
    # What is noted of each account's last entry is put right as well, where the bodies can still be read.
    with contextlib.suppress(sqlite3.Error):
        connection.execute("BEGIN")
        connection.execute("DELETE FROM accounts")
        connection.execute(
            "INSERT INTO accounts SELECT account, max(sequence), digest FROM entries WHERE account NOT NULL GROUP BY 1"
        )
        connection.execute("COMMIT")
    if connection.in_transaction:
        connection.execute("ROLLBACK")
    for statement in GUARDS:
        connection.execute(statement)
    connection.close()


def row(path, sequence):
    connection = sqlite3.connect(path)
    try:
        found = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM entries WHERE sequence = ?", (sequence,))
        return dict(zip(COLUMNS, found.fetchone(), strict=True))
    finally:
        connection.close()


def first_bad(path, **options):
    problems = verify(path, **options)
    assert problems, "the change was not found"
    return problems[0].sequence


def test_an_untouched_ledger_is_whole(path):
    assert verify(path) == []
    for sequence in ROWS:
        assert verify(path, head=row(path, sequence)["digest"]) == []


@pytest.mark.parametrize("sequence", ROWS)
@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("kind", "CASE kind WHEN 'release' THEN 'payment' ELSE 'release' END"),
        ("kind", "'payment' || kind"),
        ("kind", "CAST(kind AS BLOB)"),
        ("body", 'replace(body, \'"at":"2\', \'"at":"3\')'),
        ("body", "body || ' '"),
        ("body", "json_set(body, '$.account', 'mallory')"),
        ("body", "json_set(body, '$.epsilon', '1000')"),
        ("body", "'{}'"),
        ("body", "CAST(body AS BLOB)"),
        ("body", "json_set(body, '$.at', CAST(x'ff' AS TEXT))"),
        ("payload", "CASE WHEN payload IS NULL THEN x'00' ELSE NULL END"),
        ("payload", "CAST(coalesce(payload, '') || 'x' AS BLOB)"),
        ("payload", "x'00'"),
        ("previous", "replace(previous, substr(previous, 1, 1), 'x')"),
        ("previous", "digest"),
        ("digest", "replace(digest, substr(digest, 1, 1), 'x')"),
        ("digest", "previous"),
    ],
)
def test_an_edit_of_any_column_is_found_where_it_was_made(path, sequence, column, change):
    differs = f"(typeof({column}), {column}) IS NOT (typeof({change}), {change})"
    connection = sqlite3.connect(path)
    assert connection.execute(f"SELECT {differs} FROM entries WHERE sequence = ?", (sequence,)).fetchone() == (1,)
    connection.close()
    tamper(path, (f"UPDATE entries SET {column} = {change} WHERE sequence = ?", sequence))
    assert first_bad(path) == sequence


@pytest.mark.parametrize("sequence", ROWS)
@pytest.mark.parametrize("elsewhere", [-3, 0, 1000])
def test_a_moved_entry_is_found(path, sequence, elsewhere):
    tamper(path, ("UPDATE entries SET sequence = ? WHERE sequence = ?", elsewhere, sequence))
    assert first_bad(path) == (sequence if elsewhere > 0 else elsewhere)


@pytest.mark.parametrize("sequence", ROWS)
def test_a_removed_entry_is_missed(path, sequence):
    tamper(path, ("DELETE FROM entries WHERE sequence = ?", sequence))
    assert first_bad(path) == sequence


@pytest.mark.parametrize("sequence", ROWS)
def test_a_removed_entry_is_missed_even_if_the_rest_moves_up(path, sequence):
    later = [("UPDATE entries SET sequence = ? WHERE sequence = ?", old - 1, old) for old in ROWS if old > sequence]
    tamper(path, ("DELETE FROM entries WHERE sequence = ?", sequence), *later)
    assert first_bad(path) == sequence


@pytest.mark.parametrize("kept", [0, *ROWS[:-1]])
def test_a_cut_end_is_missed(path, kept):
    tamper(path, ("DELETE FROM entries WHERE sequence > ?", kept))
    assert first_bad(path) == kept + 1


@pytest.mark.parametrize("kept", ROWS[:-1])
def test_a_cut_end_with_a_matching_head_is_found_by_a_digest_kept_elsewhere(path, kept):
    digest = row(path, len(ROWS))["digest"]
    last = row(path, kept)["digest"]
    tamper(
        path,
        ("DELETE FROM entries WHERE sequence > ?", kept),
        ("UPDATE head SET count = ?, digest = ?", kept, last),
    )
    assert verify(path) == []
    assert "is not in this ledger" in str(verify(path, head=digest)[0])
    # A digest from before the cut is still there: what it covers was not changed.
    assert verify(path, head=last) == []


@pytest.mark.parametrize("one", ROWS)
@pytest.mark.parametrize("other", ROWS)
def test_swapped_entries_are_found(path, one, other):
    if one >= other:
        return
    tamper(
        path,
        ("UPDATE entries SET sequence = -1 WHERE sequence = ?", one),
        ("UPDATE entries SET sequence = ? WHERE sequence = ?", one, other),
        ("UPDATE entries SET sequence = ? WHERE sequence = -1", other),
    )
    assert first_bad(path) == one


@pytest.mark.parametrize("sequence", [*ROWS, len(ROWS) + 1])
def test_an_inserted_entry_is_found(path, sequence):
    """A payment that was never made is put in, well formed and chained to what is before it."""
    previous = row(path, sequence - 1)["digest"] if sequence > 1 else ORIGIN
    body = entries.canonical({**json.loads(row(path, 4)["body"]), "request": "forged"})
    later = [("UPDATE entries SET sequence = ? WHERE sequence = ?", old + 1, old) for old in reversed(ROWS)]
    tamper(
        path,
        *later[: len(ROWS) + 1 - sequence],
        (
            "INSERT INTO entries (sequence, kind, body, previous, digest) VALUES (?, 'payment', ?, ?, ?)",
            sequence,
            body,
            previous,
            entry_digest(previous, sequence, "payment", body),
        ),
    )
    assert first_bad(path) in (sequence, sequence + 1)


def forged(path, sequence):
    """The statements that change an entry, give it the right digest, and tie the next one to it."""
    old = row(path, sequence)
    body = entries.canonical({**json.loads(old["body"]), "at": "1999-12-31T23:59:59+00:00"})
    digest = entries.entry_digest(old["previous"], sequence, old["kind"], body)
    return [
        ("UPDATE entries SET body = ?, digest = ? WHERE sequence = ?", body, digest, sequence),
        ("UPDATE entries SET previous = ? WHERE sequence = ?", digest, sequence + 1),
    ]


@pytest.mark.parametrize("sequence", ROWS)
def test_an_edit_with_its_digest_forged_is_found_in_what_follows(path, sequence):
    tamper(path, *forged(path, sequence))
    assert first_bad(path) == min(sequence + 1, len(ROWS))


@pytest.mark.parametrize("sequence", ROWS[:-1])
def test_an_entry_that_does_not_follow_the_one_before_it_is_found(path, sequence):
    """Each entry agrees with its own digest, the head with the last one: only the link between two is broken."""
    tamper(path, forged(path, sequence)[0])
    assert [str(problem) for problem in verify(path)] == [
        f"entry {sequence + 1}: it does not follow the entry before it"
    ]


@pytest.mark.parametrize("sequence", ROWS[:-1])
def test_without_chaining_the_same_forgery_would_pass(sequence, folder, monkeypatch):
    """The mutant whose digests leave out the previous one: the test above must be able to tell it apart."""

    def unchained(previous, sequence, kind, body):
        return hashlib.sha256(f"{sequence}\n{kind}\n{body}".encode()).hexdigest()

    monkeypatch.setattr(entries, "entry_digest", unchained)
    monkeypatch.setattr(verification, "entry_digest", unchained)
    path = folder / "main.ledger"
    build(path)
    tamper(path, *forged(path, sequence))
    assert verify(path) == []


@pytest.mark.parametrize("sequence", ROWS)
def test_a_whole_new_chain_is_found_only_by_a_digest_kept_elsewhere(path, sequence):
    digest = row(path, len(ROWS))["digest"]
    receipt = row(path, 4)["digest"]
    tamper(path, forged(path, sequence)[0])
    for following in range(sequence + 1, len(ROWS) + 1):
        previous, old = row(path, following - 1)["digest"], row(path, following)
        new = entry_digest(previous, following, old["kind"], old["body"])
        tamper(path, ("UPDATE entries SET previous = ?, digest = ? WHERE sequence = ?", previous, new, following))
    tamper(path, ("UPDATE head SET digest = ?", row(path, len(ROWS))["digest"]))
    assert verify(path) == []
    assert verify(path, head=digest) != []
    assert (verify(path, head=receipt) != []) == (sequence <= 4)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE head SET count = 8", "added past the head record"),
        ("UPDATE head SET count = 10", "the end was cut off"),
        ("UPDATE head SET digest = 'x'", "not the one that the head record names"),
        ("DELETE FROM head", "lost its head record"),
    ],
)
def test_a_wrong_head_record_is_found(path, statement, message):
    tamper(path, (statement,))
    assert message in str(verify(path)[0])


@pytest.mark.parametrize("statement", GUARDS)
def test_a_missing_guard_is_found(path, statement):
    _, kind, *rest = statement.replace("UNIQUE ", "").split()
    connection = sqlite3.connect(path)
    connection.execute(f"DROP {kind} {rest[0]}")
    connection.close()
    assert [problem.sequence for problem in verify(path)] == [None]
    assert "a definition was removed by hand" in str(verify(path)[0])


def test_a_damaged_page_is_found(path):
    data = bytearray(path.read_bytes())
    place = data.find(b"labels of request 2")
    data[place] ^= 1
    path.write_bytes(data)
    assert first_bad(path) == 7
    # Now a page of the table itself.
    data[4096 : 4096 + 512] = bytes(512)
    path.write_bytes(data)
    assert verify(path) != []


def test_the_triggers_refuse_what_is_not_appending(path):
    connection = sqlite3.connect(path)
    for statement in (
        "UPDATE entries SET body = '{}' WHERE sequence = 4",
        "DELETE FROM entries WHERE sequence = 9",
        "DELETE FROM head",
        "UPDATE head SET count = 3",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()


def test_a_cut_or_edited_ledger_is_not_used(path, monkeypatch):
    with SqliteLedger(path) as ledger:
        receipt = ledger.payments("clinic")[0].receipt
        assert ledger.stored_release(receipt) == b"labels of request 1"
    tamper(path, ("UPDATE entries SET payload = x'00' WHERE sequence = 5",))
    with pytest.raises(DamagedLedger, match="entry 5: its payload does not match its digest"):
        SqliteLedger(path)
    # A file that is too large to be read whole at the start: what a use reads is checked then.
    monkeypatch.setattr(stored, "_WHOLE", 0)
    with SqliteLedger(path) as ledger:
        for use in (lambda: ledger.stored_release(receipt), lambda: ledger.store_release(receipt, b"")):
            with pytest.raises(DamagedLedger, match="was altered after it was written"):
                use()
    tamper(path, ("UPDATE entries SET body = json_set(body, '$.purpose', 'x') WHERE sequence = 4",))
    with SqliteLedger(path) as ledger, pytest.raises(DamagedLedger, match="entry 4 of the ledger was altered"):
        ledger.charge("clinic", Pure("0.1"), "x", "system", "r-1", "question")
    tamper(path, ("DELETE FROM entries WHERE sequence = 9",))
    with pytest.raises(DamagedLedger, match="Nothing was written"):
        SqliteLedger(path)


def test_anybody_can_recompute_the_chain_from_an_export(path):
    previous = "0" * 64
    for count, line in enumerate(lines(path), start=1):
        entry = json.loads(line)
        body = json.dumps(entry["body"], sort_keys=True, separators=(",", ":"))
        text = "\n".join([previous, str(count), entry["kind"], body])
        assert entry["previous"] == previous
        assert entry["digest"] == hashlib.sha256(text.encode()).hexdigest()
        previous = entry["digest"]
    assert count == len(ROWS)
    assert verify(path, head=previous) == []


def test_what_was_released_does_not_leave_with_an_export(path):
    text = "\n".join(lines(path))
    assert "labels of request" not in text
    # Nor can its digest confirm a guess: it is salted.
    assert hashlib.sha256(b"labels of request 1").hexdigest() not in text


@pytest.mark.parametrize("head", ["", "xyz", "A" * 64, "0" * 63])
def test_a_head_must_be_a_digest(path, head):
    with pytest.raises(InvalidInput, match="head must be 64 hexadecimal digits"):
        verify(path, head=head)
