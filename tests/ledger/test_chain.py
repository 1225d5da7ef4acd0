"""Entries hold each other in place, and their digests tell nothing of a release to who sees only digests."""

import hashlib
import json
import sqlite3

import pytest

from tacit.core.account import Ceiling
from tacit.core.spend import Pure
from tacit.ledger.entries import canonical, entry_digest, payload_digest, release
from tacit.ledger.sqlite import SqliteLedger
from tacit.ledger.verify import verify


@pytest.mark.parametrize("sequence", [1, 2, 3, 4])
def test_an_entry_with_a_digest_of_its_own_does_not_hold_the_next_one(sequence, tmp_path):
    """Every entry is right by itself, the last one and the head too: only the chain tells."""
    path = tmp_path / "main.ledger"
    with SqliteLedger.create(path, {"clinic": Ceiling(1)}) as ledger:
        for number in range(3):
            ledger.charge("clinic", Pure("0.1"), "labels", "system", f"r-{number}", "question")
    connection = sqlite3.connect(path, isolation_level=None)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    kind, body, previous = connection.execute(
        "SELECT kind, body, previous FROM entries WHERE sequence = ?", (sequence,)
    ).fetchone()
    body = canonical({**json.loads(body), "at": "1999-12-31T23:59:59+00:00"})
    connection.execute(
        "UPDATE entries SET body = ?, digest = ? WHERE sequence = ?",
        (body, entry_digest(previous, sequence, kind, body), sequence),
    )
    connection.close()
    assert (sequence + 1, "it does not follow the entry before it") in [
        (each.sequence, each.message) for each in verify(path)
    ]


def test_a_digest_does_not_confirm_a_guess():
    """Digests travel with receipts: equal releases must have different ones, and none without the salt."""
    first, second = release(1, b"labels"), release(1, b"labels")
    assert first["salt"] != second["salt"]
    assert first["sha256"] != second["sha256"]
    assert first["sha256"] != hashlib.sha256(b"labels").hexdigest()
    assert len(bytes.fromhex(first["salt"])) >= 16
    assert first["sha256"] == payload_digest(first["salt"], b"labels")
