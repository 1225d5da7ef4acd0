"""The store: what is put is there once, whoever else puts; a full or closed question takes nothing."""

import os
import threading

import pytest

from tacit.core.errors import InvalidInput
from tacit.federation.intake.messages import IntakeRefusal
from tacit.federation.intake.store import DUPLICATE, LARGEST_PUT, TAKEN, StoreUnavailable, open_intake_store
from tests.federation.intake.questions import local_question, sealed_question

ONE, TWO, THREE = (bytes([number]) * 16 for number in (1, 2, 3))


@pytest.fixture
def store(place):
    with open_intake_store(place) as opened:
        yield opened


def test_a_message_is_taken_once_and_another_under_its_token_is_refused(store):
    question = local_question()
    store.open(question)
    store.open(question)
    assert store.put(question.digest, [(ONE, b"a"), (TWO, b"b")]) == [TAKEN, TAKEN]
    assert store.put(question.digest, [(ONE, b"a"), (TWO, b"c"), (THREE, b"d"), (THREE, b"d"), (THREE, b"e")]) == [
        DUPLICATE, IntakeRefusal.CONFLICT, TAKEN, DUPLICATE, IntakeRefusal.CONFLICT,
    ]  # fmt: skip
    assert [payload for page in store.pages(question.digest, size=2) for payload in page] == [b"a", b"b", b"d"]
    assert store.status()["questions"] == [
        {"question": question.digest, "taken": 3, "most": 1000, "closed": False}
    ]  # fmt: skip


def test_no_more_than_the_question_s_most_are_taken_and_nothing_after_it_is_closed(store):
    question = local_question(most=2)
    store.open(question)
    messages = [(ONE, b"a"), (TWO, b"b"), (THREE, b"c")]
    assert store.put(question.digest, messages) == [TAKEN, TAKEN, IntakeRefusal.FULL]
    assert store.put(question.digest, messages) == [DUPLICATE, DUPLICATE, IntakeRefusal.FULL]
    assert store.close_question(question.digest) == 2
    assert set(store.put(question.digest, messages)) == {IntakeRefusal.CLOSED}
    # A worker that is started again does not open it again.
    store.open(question)
    assert set(store.put(question.digest, messages)) == {IntakeRefusal.CLOSED}
    assert set(store.put("00" * 32, messages)) == {IntakeRefusal.FOREIGN}
    assert store.reopen_question(question.digest) == 2
    assert store.put(question.digest, messages[:1]) == [DUPLICATE]


def test_a_box_that_was_copied_under_other_tokens_is_there_once(store):
    question, plain = sealed_question(), local_question()
    store.open(question)
    assert store.put(question.digest, [(ONE, b"box"), (TWO, b"box"), (THREE, b"another")]) == [TAKEN, DUPLICATE, TAKEN]
    assert store.put(question.digest, [(TWO, b"box"), (b"4" * 16, b"box"), (ONE, b"box")]) == [DUPLICATE] * 3
    assert sorted(payload for page in store.pages(question.digest) for payload in page) == [b"another", b"box"]
    # Plain messages are equal by nature: every device counts.
    store.open(plain)
    assert store.put(plain.digest, [(ONE, b"x"), (TWO, b"x")]) == [TAKEN, TAKEN]


def test_what_was_dropped_adds_up_by_reason(store):
    store.count({"malformed": 2})
    store.count({"malformed": 3, "too late": 1})
    assert store.status()["dropped"] == {"malformed": 5, "too late": 1}


def test_a_closed_question_is_forgotten_and_an_open_one_is_not(store):
    question = local_question()
    store.open(question)
    store.put(question.digest, [(ONE, b"a")])
    store.erase(question.digest)
    assert list(store.pages(question.digest)) == [[b"a"]]
    store.close_question(question.digest)
    store.erase(question.digest)
    assert list(store.pages(question.digest)) == []


def test_several_workers_at_once_take_every_token_once_and_not_one_too_many(place):
    question, most, tokens = local_question(most=90), 90, [os.urandom(16) for _ in range(100)]
    with open_intake_store(place) as first:
        first.open(question)
    outcomes = []

    def worker():
        with open_intake_store(place) as own:
            for start in range(0, len(tokens), 5):
                outcomes.extend(own.put(question.digest, [(each, each) for each in tokens[start : start + 5]]))

    threads = [threading.Thread(target=worker) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(outcomes) == 400
    assert outcomes.count(TAKEN) == most
    with open_intake_store(place) as last:
        assert last.status()["questions"][0]["taken"] == most
        assert sum(len(page) for page in last.pages(question.digest)) == most


def test_a_store_that_cannot_be_reached_says_so_and_too_much_is_refused(tmp_path):
    pytest.importorskip("psycopg", reason="needs tacit[postgres]")
    with pytest.raises(StoreUnavailable, match="does not answer"):
        open_intake_store("postgresql://nobody@127.0.0.1:1/none")
    with open_intake_store(f"sqlite:///{tmp_path}/intake.db") as store, pytest.raises(InvalidInput, match="at most"):
        store.put("00" * 32, [(ONE, b"")] * (LARGEST_PUT + 1))
    assert (tmp_path / "intake.db").stat().st_mode & 0o077 == 0


def test_what_was_erased_is_not_left_in_the_files(tmp_path):
    question, secret = local_question(), b"a message that must not be found any more"
    with open_intake_store(f"sqlite:///{tmp_path}/intake.db") as store:
        store.open(question)
        store.put(question.digest, [(ONE, secret)])
        store.close_question(question.digest)
        store.erase(question.digest)
        assert not any(secret in file.read_bytes() for file in tmp_path.iterdir())


def test_an_address_that_is_no_store_is_refused_without_its_password():
    with pytest.raises(InvalidInput) as refused:
        open_intake_store("postgresql+psycopg://intake:secret@db.example/intake")
    assert "'postgresql+psycopg' is not a kind of store" in str(refused.value)
    assert "secret" not in str(refused.value)
