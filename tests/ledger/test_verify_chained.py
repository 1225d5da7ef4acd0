"""A ledger whose chain is right and whose content is not: what is written down must add up."""

import json

import pytest

from tacit.accounting.compose import TABLE
from tacit.core.account import Ceiling
from tacit.core.spend import Pure
from tacit.ledger import entries
from tacit.ledger import store as rows
from tacit.ledger.entries import entry_digest
from tacit.ledger.sqlite import SqliteLedger
from tacit.ledger.sqlite_store import connect_sqlite
from tacit.ledger.verify import verify
from tests.ledger.test_verify import ROWS, first_bad, original, path, row, tamper

__all__ = ["original", "path"]


CHAINED_NONSENSE = [
    ("payment", {"account": "nobody", "request": "r-9", "spend": {"kind": "pure", "epsilon": "1"}}, "not opened"),
    ("payment", {"account": "clinic", "request": "r-9", "spend": {"kind": "pure", "epsilon": "-1"}}, "above 0"),
    ("payment", {"account": "clinic", "request": "r-9"}, "does not hold what its kind needs"),
    ("release", {"payment": 1}, "a release, and it alone, has a payload"),
    ("genesis", {"format": 1}, "comes first"),
    ("account", {"account": "new"}, "does not hold what its kind needs"),
    ("gossip", {}, "kind 'gossip' is unknown"),
]


@pytest.mark.parametrize(("kind", "content", "message"), CHAINED_NONSENSE)
def test_nonsense_that_is_chained_correctly_is_found(path, kind, content, message):
    last = row(path, len(ROWS))
    body = entries.canonical(content)
    new = entry_digest(last["digest"], len(ROWS) + 1, kind, body)
    tamper(
        path,
        (
            "INSERT INTO entries (sequence, kind, body, previous, digest) VALUES (?, ?, ?, ?, ?)",
            len(ROWS) + 1,
            kind,
            body,
            last["digest"],
            new,
        ),
        ("UPDATE head SET count = count + 1, digest = ?", new),
    )
    (problem,) = verify(path)
    assert problem.sequence == len(ROWS) + 1
    assert message in problem.message


STATES = [
    ("payments", lambda state: state | {"payments": 0}),
    ("parts", lambda state: state | {"parts": []}),
    ("count", lambda state: state | {"parts": [[part, 1] for part, _ in state["parts"]]}),
    ("charges", lambda state: state | {"charges": 1}),
    ("share", lambda state: state | {"share": "own"}),
    ("claim", lambda state: state | {"claim": ["5", "0"]}),
    ("ceiling", lambda state: state | {"ceiling": 1}),
    ("missing", lambda state: {}),
    ("none", lambda state: None),
]


@pytest.mark.parametrize("change", [change for _, change in STATES], ids=[name for name, _ in STATES])
def test_a_state_that_does_not_add_up_is_found_even_if_it_is_chained_correctly(path, change):
    """The last entry is the ceiling of an account that has paid twice; its state is forged, and its digest with it."""
    last = row(path, len(ROWS))
    content = json.loads(last["body"])
    body = entries.canonical(content | {"state": change(content["state"])})
    digest = entry_digest(last["previous"], len(ROWS), last["kind"], body)
    tamper(
        path,
        ("UPDATE entries SET body = ?, digest = ? WHERE sequence = ?", body, digest, len(ROWS)),
        ("UPDATE head SET digest = ?", digest),
    )
    assert first_bad(path) == len(ROWS)


def test_a_lower_curve_in_a_state_is_found_and_other_last_digits_are_none(folder):
    """Of an account with more kinds of charges than are counted one by one, its Rényi curve is the state."""
    path = folder / "main.ledger"
    with SqliteLedger.create(path, {"clinic": Ceiling(10, "1e-6")}) as ledger:
        for number in range(TABLE + 2):
            ledger.charge("clinic", Pure(f"1/{100 + number}"), "labels", "system", f"r-{number}", "question")
        count = ledger.head()[0]
    last = row(path, count)
    for factor, found in ((1 + 1e-13, []), (1 - 1e-6, [count]), (0.5, [count])):
        content = json.loads(last["body"])
        rest = content["state"]["rest"]
        rest["curve"] = [[order, value * factor] for order, value in rest["curve"]]
        body = entries.canonical(content)
        digest = entry_digest(last["previous"], count, last["kind"], body)
        tamper(
            path,
            ("UPDATE entries SET body = ?, digest = ? WHERE sequence = ?", body, digest, count),
            ("UPDATE head SET digest = ?", digest),
        )
        assert [problem.sequence for problem in verify(path)] == found


def test_a_second_payment_or_release_of_one_request_is_found(path):
    """Two rows that the unique indexes would refuse, chained correctly; the indexes are gone."""
    store = connect_sqlite(path)
    store.execute("DROP INDEX one_payment_a_request")
    store.execute("DROP INDEX one_release_a_payment")
    payment = {**json.loads(row(path, 4)["body"])}
    rows.append(store, entries.EntryKind.PAYMENT, payment)
    rows.append(store, entries.EntryKind.RELEASE, entries.release(4, b"again"), b"again")
    rows.append(store, entries.EntryKind.RELEASE, entries.release(5, b"for a release"), b"for a release")
    store.close()
    messages = [str(problem) for problem in verify(path) if problem.sequence]
    assert messages == [
        "entry 10: request 'r-1' of account 'clinic' was paid before",
        "entry 11: payment 4 has a release already",
        "entry 12: it releases for entry 5, which is no payment before it",
    ]
