"""What is handed in is kept, comes out once, and whatever else is sent changes nothing and is counted."""

import contextlib
import dataclasses
import hashlib
import sqlite3

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.core.codec import decode, encode
from tacit.core.errors import BudgetExceeded, InvalidInput, TacitError
from tacit.federation.collector.messages import (
    Batch,
    SignedMessage,
    Submission,
    SubmissionRefusal,
    SubmissionRefused,
    read_signed_message,
)
from tacit.federation.collector.submission_store import COORDINATOR, LENGTH_BYTES, SubmissionOutcome, SubmissionStore
from tacit.federation.keys import SigningIdentity

COORDINATING = SigningIdentity.new()
NODES = {name: SigningIdentity.new() for name in ("ada", "bob", "cyd")}
BATCH = Batch("run", 0, "r-1", ("ada", "bob"), b"k" * 32, minimum=3, size=4, most=4, block=2, largest=2)


def joined(batch, submissions):
    return SubmissionOutcome(
        b"".join(each.pieces.tobytes() for each in submissions), sum(len(each.pieces) for each in submissions)
    )


def office(file, make=joined):
    return SubmissionStore(file, COORDINATING.public, {name: each.public for name, each in NODES.items()}, make)


def sent(kind, node="ada", body=b"", batch=BATCH, identity=None, **changes):
    signer = identity or (COORDINATING if node == COORDINATOR else NODES[node])
    words = {"run": batch.run, "round": batch.round, "batch": batch.digest} | changes
    return SignedMessage.signed(signer, kind, words["run"], words["round"], words["batch"], node, body).to_bytes()


def opening(batch=BATCH):
    return sent("open", COORDINATOR, batch.to_bytes(), batch)


def submission(fill, participants=2, pieces=2, **more):
    return Submission(participants, np.full((pieces, 4), fill, dtype=np.uint8)).to_bytes()


def reply(place, payload):
    return decode(place.handle(payload))


def refused(place, payload):
    return reply(place, payload).get("refused")


@pytest.fixture
def place(tmp_path):
    with office(tmp_path / "office.db") as opened:
        assert reply(opened, opening()) == {"opened": BATCH.digest}
        yield opened


def test_a_batch_comes_out_once_and_the_same_every_time(place, tmp_path):
    assert refused(place, sent("collect", COORDINATOR)) == SubmissionRefusal.WAITING
    for node, fill in (("ada", 1), ("bob", 2)):
        assert "taken" in reply(place, sent("submit", node, submission(fill)))
    first = reply(place, sent("collect", COORDINATOR))["output"].tobytes()
    assert sorted(first) == [1] * 8 + [2] * 8
    assert reply(place, sent("collect", COORDINATOR))["output"].tobytes() == first
    place.close()
    with office(tmp_path / "office.db", make=None) as again:
        assert reply(again, sent("collect", COORDINATOR))["output"].tobytes() == first
        # The same hand-in again is acknowledged, and is not part of anything twice.
        assert "taken" in reply(again, sent("submit", "ada", submission(1)))
        assert again.status()["batches"] == [{"batch": BATCH.digest, "nodes": 2, "participants": 4, "collected": True}]


def test_a_status_has_the_last_batches_in_order(place, monkeypatch):
    """Strangers may read it, so its length has a bound."""
    monkeypatch.setattr("tacit.federation.collector.submission_store.SHOWN_BATCHES", 2)
    later = [dataclasses.replace(BATCH, round=number) for number in (1, 2)]
    for each in later:
        assert reply(place, opening(each)) == {"opened": each.digest}
    assert [each["batch"] for each in place.status()["batches"]] == [each.digest for each in later]


def test_one_participant_too_few_is_too_few(place):
    assert BATCH.minimum == 3
    reply(place, sent("submit", "ada", submission(1, participants=2)))
    assert refused(place, sent("collect", COORDINATOR)) == SubmissionRefusal.WAITING
    reply(place, sent("submit", "bob", submission(2, participants=1)))
    assert "output" in reply(place, sent("collect", COORDINATOR))


def test_what_was_acknowledged_survives_and_senders_are_forgotten(place, tmp_path):
    reply(place, sent("submit", "ada", submission(77)))
    place.close()
    with office(tmp_path / "office.db") as again:
        reply(again, sent("submit", "bob", submission(88)))
        assert len(reply(again, sent("collect", COORDINATOR))["output"]) == 16
    connection = sqlite3.connect(tmp_path / "office.db")
    assert connection.execute("SELECT content, sha256 FROM submissions").fetchall() == [(None, ""), (None, "")]
    connection.close()


def test_nothing_of_a_submission_is_left_on_disk(tmp_path):
    def forgetful(batch, submissions):
        return SubmissionOutcome(b"the result", 1)

    marks = [hashlib.sha256(submission(ord(fill))).hexdigest().encode() for fill in "MX"] + [b"M" * 8, b"X" * 8]
    with office(tmp_path / "office.db", forgetful) as place:
        reply(place, opening())
        for node, fill in (("ada", ord("M")), ("bob", ord("X"))):
            reply(place, sent("submit", node, submission(fill)))
        before = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert b"M" * 8 in before
        reply(place, sent("collect", COORDINATOR))
        after = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert b"the result" in after
        assert not [mark for mark in marks if mark in after]


def test_hostile_messages_are_refused_counted_and_change_nothing(place):
    foreign = Batch("another run", 0, "r-1", ("ada", "bob"), b"k" * 32, minimum=3, size=4, most=4, block=2, largest=2)
    stranger = SigningIdentity.new()
    reply(place, sent("submit", "ada", submission(1)))
    before = place.status()["batches"]
    hostile = {
        b"": SubmissionRefusal.MALFORMED,
        b"TACIT1 not an envelope": SubmissionRefusal.MALFORMED,
        sent("submit", "bob", submission(2)) + b"\0": SubmissionRefusal.MALFORMED,
        encode(decode(sent("submit", "bob", submission(2))) | {"version": 2}): SubmissionRefusal.MALFORMED,
        encode(decode(sent("submit", "bob", submission(2))) | {"kind": "burn"}): SubmissionRefusal.MALFORMED,
        encode(decode(sent("submit", "bob", submission(2))) | {"round": 1}): SubmissionRefusal.FORGED,
        sent("submit", "bob", submission(2), identity=stranger): SubmissionRefusal.FORGED,
        sent("submit", "bob", submission(2), identity=NODES["ada"]): SubmissionRefusal.FORGED,
        sent("submit", "eve", submission(2), identity=stranger): SubmissionRefusal.UNKNOWN,
        sent("submit", "cyd", submission(2)): SubmissionRefusal.UNEXPECTED,
        sent("submit", COORDINATOR, submission(2)): SubmissionRefusal.UNEXPECTED,
        sent("collect", "ada"): SubmissionRefusal.UNEXPECTED,
        sent("open", "ada", BATCH.to_bytes()): SubmissionRefusal.UNEXPECTED,
        sent("submit", "bob", submission(2), foreign): SubmissionRefusal.FOREIGN,
        sent("submit", "bob", submission(2), run="another run"): SubmissionRefusal.FOREIGN,
        sent("submit", "bob", submission(2), round=7): SubmissionRefusal.FOREIGN,
        sent("submit", "ada", submission(9)): SubmissionRefusal.CONFLICT,
        sent("submit", "bob", submission(2, pieces=3)): SubmissionRefusal.MALFORMED,
        sent("submit", "bob", submission(2, pieces=6)): SubmissionRefusal.MALFORMED,
        sent("submit", "bob", submission(2, participants=0)): SubmissionRefusal.MALFORMED,
        sent("submit", "bob", submission(2, participants=3)): SubmissionRefusal.MALFORMED,
        sent("submit", "bob", submission(2, participants=1, pieces=4)): SubmissionRefusal.MALFORMED,
        sent("submit", "bob", encode({"participants": 2, "pieces": np.zeros((2, 4))})): SubmissionRefusal.MALFORMED,
        sent("submit", "bob", b""): SubmissionRefusal.MALFORMED,
        sent("open", COORDINATOR, b"nothing"): SubmissionRefusal.MALFORMED,
        sent("open", COORDINATOR, foreign.to_bytes()): SubmissionRefusal.MALFORMED,
        sent("collect", COORDINATOR, batch=foreign): SubmissionRefusal.FOREIGN,
    }
    for payload, reason in hostile.items():
        assert refused(place, payload) == reason
    assert place.status()["batches"] == before
    counted = place.status()["dropped"]
    assert sum(counted.values()) == len(hostile)
    assert counted["forged"] == 3
    assert "taken" in reply(place, sent("submit", "bob", submission(2)))


@pytest.mark.parametrize(
    ("node", "length", "reason"),
    [
        ("bob", 100, None),
        (COORDINATOR, 100, None),
        ("cyd", 100, SubmissionRefusal.UNEXPECTED),
        ("bob", 2**40, SubmissionRefusal.OVERSIZED),
    ],
)
def test_only_who_is_expected_may_announce_and_no_more_than_there_is_room_for(place, node, length, reason):
    answer, allowed = place.announce(sent("announce", node, length.to_bytes(LENGTH_BYTES, "big")))
    assert decode(answer) == ({"allowed": length} if reason is None else {"refused": str(reason)})
    assert allowed == (length if reason is None else 0)


def test_who_comes_after_the_batch_was_collected_is_refused(tmp_path):
    batch = Batch("run", 0, "r-1", ("ada", "bob", "cyd"), b"k" * 32, minimum=3, size=4, most=4, block=2, largest=2)
    with office(tmp_path / "office.db") as place:
        reply(place, opening(batch))
        for node, fill in (("ada", 1), ("bob", 2)):
            reply(place, sent("submit", node, submission(fill), batch))
        first = reply(place, sent("collect", COORDINATOR, batch=batch))["output"].tobytes()
        assert refused(place, sent("submit", "cyd", submission(3), batch)) == SubmissionRefusal.CLOSED
        assert reply(place, sent("collect", COORDINATOR, batch=batch))["output"].tobytes() == first


def test_a_batch_for_unknown_nodes_is_not_opened(tmp_path):
    batch = Batch("run", 0, "r-1", ("ada", "eve"), b"k" * 32, minimum=3, size=4)
    with office(tmp_path / "office.db") as place:
        assert refused(place, opening(batch)) == SubmissionRefusal.UNKNOWN


@pytest.mark.parametrize(
    ("error", "reason"), [(BudgetExceeded("no"), SubmissionRefusal.SPENT), (TacitError("no"), SubmissionRefusal.FAILED)]
)
def test_what_cannot_be_made_is_said_in_a_word_and_nothing_is_lost(tmp_path, error, reason):
    def failing(batch, submissions):
        raise error

    with office(tmp_path / "office.db", failing) as place:
        reply(place, opening())
        for node in ("ada", "bob"):
            reply(place, sent("submit", node, submission(1)))
        assert refused(place, sent("collect", COORDINATOR)) == reason
    with office(tmp_path / "office.db") as place:
        assert len(reply(place, sent("collect", COORDINATOR))["output"]) == 16


@settings(max_examples=100)
@given(data=st.data())
def test_an_envelope_that_was_touched_is_not_read(data):
    honest = sent("submit", "ada", submission(1))
    payload = bytearray(honest)
    place = data.draw(st.integers(0, len(payload) - 1))
    payload[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SubmissionRefused):
        read_signed_message(bytes(payload), {name: each.public for name, each in NODES.items()}, 10_000)


def test_an_envelope_that_is_too_large_is_not_read():
    with pytest.raises(SubmissionRefused, match="oversized"):
        read_signed_message(b"\0" * 10_000, {}, 100)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"key": b"short"}, "key must have 32 bytes"),
        ({"nodes": ("bob", "ada")}, "sorted"),
        ({"nodes": ()}, "from 1 to"),
        ({"minimum": 1}, "single participant is not hidden"),
        ({"block": 3, "most": 4}, "multiple of the block"),
        ({"size": 0}, "bytes together"),
        ({"size": 2**28, "most": 2, "block": 1}, "bytes together"),
    ],
)
def test_wrong_batches_are_refused(wrong, said):
    right = {"run": "run", "round": 0, "request": "r", "nodes": ("ada",), "key": b"k" * 32, "minimum": 2, "size": 4}
    with pytest.raises(InvalidInput, match=said):
        Batch(**right | wrong)


def test_wrong_stores_are_explained(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be used as a store"):
        office(tmp_path)
    with pytest.raises(InvalidInput, match="cannot be called"):
        SubmissionStore(tmp_path / "office.db", b"c" * 32, {COORDINATOR: b"a" * 32}, joined)


@settings(max_examples=200)
@given(data=st.data())
def test_spoiled_values_are_refused_as_invalid(data):
    readers = [
        (BATCH.to_bytes(), Batch.read),
        (submission(1), lambda payload: Submission.read(payload, BATCH)),
    ]
    honest, read = data.draw(st.sampled_from(readers))
    payload = bytearray(honest)
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(InvalidInput):
        read(bytes(payload))
