"""Mixing and decoding: every order is equally likely, memory is flat, and labels are those of one place."""

import collections
import itertools
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from tacit.core.errors import InvalidInput, TooFewParticipants
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.federation.intake.coordinator import decode_collected, decode_rows
from tacit.federation.intake.messages import double_box
from tacit.federation.intake.mixing import collect_messages, collected_rows, shuffled_rows
from tacit.federation.intake.store import TAKEN, open_intake_store
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.unary_encoding import UnaryEncoding
from tacit.methods.rknn.reading import MessageReader
from tests.federation.intake.questions import CELLS, COORDINATOR, SHUFFLER, local_question, sealed_question


def crowd_messages(question, count, seed=1):
    """Messages of a crowd, as the mechanism makes them."""
    cells = np.random.default_rng(seed).integers(0, CELLS, size=(count, 1)) // 3
    return question.mechanism.encode(cells, SeededRandomness(seed))


def stored(store, question, messages):
    packed = [row.tobytes() for row in question.mechanism.code.pack(messages)]
    payloads = [double_box(question, each) for each in packed] if question.sealed else packed
    store.open(question)
    for start in range(0, len(payloads), 200):
        pairs = [(bytes(np.asarray([start + i, 7], dtype="<u8").tobytes()), each) for i, each in enumerate(payloads)]
        assert set(store.put(question.digest, pairs[start : start + 200])) == {TAKEN}


@pytest.fixture
def store(tmp_path):
    with open_intake_store(f"sqlite:///{tmp_path}/intake.db") as opened:
        yield opened


@pytest.mark.statistical(rate=1e-9)
def test_every_order_is_equally_likely_however_rows_are_spread_over_files(tmp_path):
    # Six orders of three rows in two files, 1,200 times: a chi-square with 5 degrees of freedom is above 50.7 with
    # probability 1e-9. Without the order inside files, or with all rows in one of them unmixed, it is in the hundreds.
    rows, draws, source = np.arange(3, dtype=np.uint8)[:, None], 1200, SeededRandomness(5)
    found = collections.Counter()
    for _ in range(draws):
        _, mixed = shuffled_rows([rows[:2], rows[2:]], 3, 1, tmp_path, source, largest=2)
        found[tuple(np.concatenate(list(mixed))[:, 0].tolist())] += 1
    orders, expected = list(itertools.permutations(range(3))), draws / 6
    assert set(found) == set(orders)
    assert sum((found[each] - expected) ** 2 / expected for each in orders) < 50.7


def test_memory_does_not_grow_with_the_number_of_rows(tmp_path):
    def peak(pages):
        folder = tmp_path / str(pages)
        folder.mkdir()
        tracemalloc.start()
        batches = (np.full((2000, 64), number % 256, dtype=np.uint8) for number in range(pages))
        count, rows = shuffled_rows(batches, 2000 * pages, 64, folder, largest=4000)
        assert count == sum(len(each) for each in rows) == 2000 * pages
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    # Twenty times the rows; what is left of the folder's own buffers grows by a few kilobytes per file.
    assert peak(80) < 2.5 * peak(4)
    assert list((tmp_path / "80").iterdir()) == []


@pytest.mark.parametrize(
    "mechanism",
    [
        GeneralizedRandomizedResponse(CELLS, 1, 2), SubsetSelection(CELLS, 1, 1), UnaryEncoding(CELLS, 1, 2),
        Collision(CELLS, 1, 2), LinearHashing(CELLS, 1, 2),
    ],
    ids=lambda each: each.name,
)  # fmt: skip
def test_labels_of_pages_in_any_order_are_those_of_all_messages_in_one_place(mechanism):
    question = local_question(mechanism)
    messages = crowd_messages(question, 700)
    expected = mechanism.decode(messages)
    rows = question.mechanism.code.pack(messages)
    order = np.random.default_rng(0).permutation(len(rows))
    found = decode_rows(np.array_split(rows[order], 9), question)
    assert found.estimates.counts.tolist() == expected.counts.tolist()
    assert found.estimates.variances.tolist() == expected.variances.tolist()
    labels, chances = MessageReader(mechanism.decode, 2)(messages)
    assert found.labels.tolist() == labels.tolist()
    assert found.probabilities.tolist() == chances.tolist()
    assert (found.messages, found.unreadable, found.invalid) == (700, 0, 0)


@pytest.mark.parametrize("question", [local_question(), sealed_question(150)], ids=["local", "shuffle"])
def test_what_is_collected_and_decoded_equals_the_run_in_one_process(question, store, tmp_path):
    messages = crowd_messages(question, 150)
    stored(store, question, messages)
    secret = SHUFFLER if question.sealed else None
    done = collect_messages(store, question, tmp_path / "messages", secret)
    assert (done.messages, done.unreadable) == (150, 0)
    found = decode_collected(tmp_path / "messages", question, COORDINATOR if question.sealed else None)
    expected = question.inner.decode(messages, 150) if question.sealed else question.mechanism.decode(messages)
    assert found.estimates.counts.tolist() == expected.counts.tolist()
    assert found.labels.tolist() == expected.counts.reshape(-1, 2).argmax(axis=1).tolist()
    # The store has forgotten, and the file is for its owner.
    assert list(store.pages(question.digest)) == []
    assert (tmp_path / "messages").stat().st_mode & 0o077 == 0
    assert sorted(each.name for each in tmp_path.glob("*") if "intake" not in each.name) == ["messages"]


def test_the_file_says_nothing_of_the_order_in_the_store(store, tmp_path):
    question = local_question(GeneralizedRandomizedResponse(CELLS, 1, 2))
    messages = np.arange(200) % CELLS
    stored(store, question, messages)
    before = [payload for page in store.pages(question.digest) for payload in page]
    collect_messages(store, question, tmp_path / "messages")
    _, rows = collected_rows(tmp_path / "messages", question)
    after = [row.tobytes() for page in rows for row in page]
    assert sorted(after) == sorted(before)
    assert after != before


def test_below_the_minimum_nothing_comes_out_and_the_question_stays_open(store, tmp_path):
    question = sealed_question(20)
    stored(store, question, crowd_messages(question, 19))
    # A stranger's box that the shuffler cannot open counts for nobody.
    store.put(question.digest, [(b"x" * 16, bytes(question.payload_bytes))])
    with pytest.raises(TooFewParticipants, match="19 valid messages so far, at least 20 needed"):
        collect_messages(store, question, tmp_path / "messages", SHUFFLER)
    assert not (tmp_path / "messages").exists()
    assert not store.status()["questions"][0]["closed"]
    (more,) = [double_box(question, question.mechanism.code.pack(crowd_messages(question, 1))[0].tobytes())]
    assert store.put(question.digest, [(b"y" * 16, more)]) == [TAKEN]
    assert collect_messages(store, question, tmp_path / "messages", SHUFFLER).unreadable == 1
    assert store.status()["questions"][0]["closed"]


def test_a_collection_that_crashed_is_made_again_from_the_same_messages(store, tmp_path, monkeypatch):
    question = local_question()
    messages = crowd_messages(question, 60)
    stored(store, question, messages)
    with monkeypatch.context() as patch:
        patch.setattr("tacit.federation.intake.mixing.new_file", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            collect_messages(store, question, tmp_path / "messages")
    # Nobody comes in between: two collections that differ by one message would show it.
    assert store.put(question.digest, [(b"l" * 16, b"\0")]) == ["question is closed"]
    with monkeypatch.context() as patch:
        patch.setattr(store, "erase", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            collect_messages(store, question, tmp_path / "messages")
    written = (tmp_path / "messages").read_bytes()
    assert collect_messages(store, question, tmp_path / "messages").messages == 60
    assert (tmp_path / "messages").read_bytes() == written
    assert list(store.pages(question.digest)) == []
    with pytest.raises(InvalidInput, match="collected before"):
        collect_messages(store, question, tmp_path / "again")


def test_the_wrong_key_a_spoiled_file_and_impossible_messages_are_noticed(store, tmp_path):
    question = sealed_question(2)
    with pytest.raises(InvalidInput, match="another shuffler key"):
        collect_messages(store, question, tmp_path / "messages", COORDINATOR)
    stored(store, question, crowd_messages(question, 5))
    empty = [double_box(question, bytes([255]) * question.mechanism.code.size)]
    store.put(question.digest, [(b"z" * 16, empty[0])])
    collect_messages(store, question, tmp_path / "messages", SHUFFLER)
    with pytest.raises(InvalidInput, match="another coordinator key"):
        decode_collected(tmp_path / "messages", question, SHUFFLER)
    assert decode_collected(tmp_path / "messages", question, COORDINATOR).invalid == 1
    with pytest.raises(TooFewParticipants):
        decode_rows([], question, COORDINATOR)
    content = (tmp_path / "messages").read_bytes()
    for spoiled in (content[:-1], content[:4], b"", content[:8] + b"\xff" * 8):
        (tmp_path / "spoiled").write_bytes(spoiled)
        with pytest.raises(InvalidInput):
            decode_collected(tmp_path / "spoiled", question, COORDINATOR)
    with pytest.raises(InvalidInput, match="not the collected messages of this question"):
        collected_rows(tmp_path / "messages", replace(question, closes=5))


def test_the_order_is_drawn_from_the_system_s_generator_unless_a_test_says_otherwise(tmp_path, monkeypatch):
    drawn = []
    words = SystemRandomness.words
    monkeypatch.setattr(SystemRandomness, "words", lambda self, count: drawn.append(count) or words(self, count))
    _, rows = shuffled_rows([np.zeros((50, 1), dtype=np.uint8)], 50, 1, tmp_path)
    assert sum(len(each) for each in rows) == 50
    assert sum(drawn) >= 100
