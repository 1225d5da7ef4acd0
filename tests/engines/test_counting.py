"""Counts are the same however records are cut, batched, ordered and divided among workers; encodings are to the bit."""

import dataclasses
import itertools
import logging
import socket
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.naive_bayes import GaussianNB

import tacit
from tacit.core.errors import TacitError
from tacit.engines.counting import FAILED, FragmentCount, FragmentReading, Partial, added_up, require_reached
from tacit.engines.fragments import BLOCK
from tacit.methods.encoding import encoded_block
from tacit.methods.rknn.holder import VoteTable
from tacit.neighbors import vote_counts
from tacit.representations.maps import Interpolated
from tacit.representations.registry import fit_representation
from tacit.representations.student_features import StudentOdds
from tests.engines.holdings import (
    CLASSES,
    PUBLIC,
    SPACE,
    TABLES,
    VOTES,
    TableFragment,
    arrays,
    in_memory,
    table,
    threads,
)

RECORDS = table(2 * BLOCK + 700)
READING = FragmentReading(tuple(f"f{place}" for place in range(4)), "label", None, np.array(CLASSES), (4,))
EXPECTED = {name: in_memory(name, RECORDS) for name in TABLES}


def cut(content, places, batch=BLOCK):
    ends = [0, *sorted(places), content.num_rows]
    return [
        TableFragment(number, f"part {number}", content.slice(start, end - start), batch)
        for number, (start, end) in enumerate(itertools.pairwise(ends))
    ]


cuts = st.lists(st.integers(0, RECORDS.num_rows), max_size=3)


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=8)
@given(cuts, st.integers(1, 3 * BLOCK), st.integers(1, 3), st.randoms(use_true_random=False))
def test_every_cut_batch_order_and_number_of_workers_counts_the_same(name, places, batch, workers, order):
    fragments = cut(RECORDS, places, max(batch, 50))
    order.shuffle(fragments)
    counted = added_up(threads(workers), FragmentCount(READING, TABLES[name]), fragments)
    assert np.array_equal(counted, EXPECTED[name])


@pytest.mark.parametrize("name", TABLES)
def test_records_in_another_order_count_the_same(name):
    shuffled = RECORDS.take(np.random.default_rng(1).permutation(RECORDS.num_rows))
    assert np.array_equal(
        added_up(threads(), FragmentCount(READING, TABLES[name]), cut(shuffled, [77])), EXPECTED[name]
    )


ENCODERS = ("standardized", "pca", "spectral", "gradients", "student-odds")


@cache
def encoder(name):
    public = tacit.digits().public_samples.reshape(500, -1).astype(np.float64)
    if name != "student-odds":
        return fit_representation(name, public, 10)[1]
    return StudentOdds(GaussianNB().fit(public, np.arange(len(public)) % 3), (0, 1, 2))


@cache
def samples():
    return tacit.digits().private_samples[:40].reshape(40, -1).astype(np.float64)


@pytest.mark.parametrize("name", ENCODERS)
@settings(max_examples=6)
@given(st.lists(st.integers(0, 40), max_size=3), st.randoms(use_true_random=False))
def test_an_encoding_is_the_same_bits_in_every_block_and_place(name, places, order):
    together = encoded_block(encoder(name), samples(), 64)
    rows = list(range(40))
    order.shuffle(rows)
    ends = [0, *sorted(places), 40]
    for start, end in itertools.pairwise(ends):
        some = rows[start:end]
        if some:
            assert encoded_block(encoder(name), samples()[some], 64).tobytes() == together[some].tobytes()


def test_neither_company_nor_a_sample_that_cannot_be_encoded_changes_a_bit_of_the_others():
    class Picky:
        """Rounds a row by how many rows there are, and fails on one that is no number."""

        def encode(self, samples):
            if np.isnan(samples).any():
                raise ValueError("a private cell")
            return (samples * len(samples)).astype(np.float32)

    rows = np.arange(6.0).reshape(3, 2)
    alone = encoded_block(Picky(), rows, 8)
    assert encoded_block(Picky(), rows[:1], 8).tobytes() == alone[:1].tobytes()
    rows[1] = np.nan
    beside = encoded_block(Picky(), rows, 8)
    assert np.isnan(beside[1]).all()
    assert beside[[0, 2]].tobytes() == alone[[0, 2]].tobytes()


def test_rows_that_fill_a_block_up_are_never_counted():
    # A blank row is nearer to some query and has a class like any other number; one record is one record.
    one = table(1, seed=3).set_column(4, "label", [["ill"]])
    votes = added_up(threads(), FragmentCount(READING, TABLES["votes"]), cut(one, []))
    assert votes.sum() == TABLES["votes"].ask.neighbors
    sums = TABLES["sums"](SPACE.encode(PUBLIC)[:1].astype(np.float64), np.array([0]))
    assert sums[:, -1].tolist() == [2 * 500, -500, -500]


def test_nothing_but_whole_numbers_leaves_a_worker():
    seen = []

    class Recording:
        def run(self, count, fragments):
            for each in fragments:
                seen.append(count(each))
                yield seen[-1]

    added_up(Recording(), FragmentCount(READING, TABLES["votes"]), cut(RECORDS, [1000]))
    for partial in seen:
        assert type(partial) is Partial
        assert (type(partial.fragment), type(partial.rows)) == (int, int)
        assert partial.table.dtype == np.int64
        assert partial.table.shape == TABLES["votes"].shape
    assert sum(partial.rows for partial in seen) == RECORDS.num_rows


class Failing:
    """An engine that is unreliable in a given way: what it does with the results of every attempt."""

    def __init__(self, change):
        self.change, self.attempts = change, 0

    def run(self, count, fragments):
        self.attempts += 1
        yield from self.change(self.attempts, [count(each) for each in fragments])


UNRELIABLE = {
    "a task fails once": lambda attempt, found: (
        [found[0]._replace(rows=FAILED, table=np.zeros((0, 0), dtype=np.int64)), *found[1:]] if attempt == 1 else found
    ),
    "a task runs twice": lambda _, found: [*found, found[-1]],
    "all run twice, in another order": lambda _, found: [*found, *reversed(found)],
    "a result is lost": lambda attempt, found: found[1:] if attempt == 1 else found,
    "a lost result comes after all": lambda attempt, found: found[:1] if attempt == 1 else [*found, *found],
}


@pytest.mark.parametrize("way", UNRELIABLE)
def test_failed_and_repeated_tasks_count_nobody_twice(way):
    engine = Failing(UNRELIABLE[way])
    counted = added_up(engine, FragmentCount(READING, TABLES["votes"]), cut(RECORDS, [100, 5000]))
    assert np.array_equal(counted, EXPECTED["votes"])


def test_an_engine_that_breaks_off_is_asked_for_the_rest():
    class Breaking(Failing):
        def run(self, count, fragments):
            self.attempts += 1
            yield count(fragments[0])
            if self.attempts == 1:
                raise RuntimeError("a private cell")
            yield from map(count, fragments[1:])

    counted = added_up(Breaking(None), FragmentCount(READING, TABLES["votes"]), cut(RECORDS, [100]))
    assert np.array_equal(counted, EXPECTED["votes"])


def test_what_failed_is_never_told(caplog):
    class Quoting:
        shape = (1, 1)

        def __call__(self, samples, labels):
            raise ValueError(f"the record {samples[0, 0]} of Ada cannot be counted")

    with caplog.at_level(logging.DEBUG), pytest.raises(TacitError) as told:
        added_up(threads(), FragmentCount(READING, Quoting()), cut(RECORDS, [100]))
    assert str(told.value) == "2 of 2 parts of the records could not be counted"
    assert told.value.__cause__ is None
    assert "Ada" not in caplog.text
    assert "ValueError" in caplog.text


@pytest.mark.timeout(60)
@pytest.mark.parametrize("workers", [1, 2])
def test_an_encoder_that_searches_in_several_blocks_does_not_wait_for_the_engine(workers):
    """The engine held the lock of all searches, for which its own threads waited: a node never answered again."""
    generator = np.random.default_rng(8)
    anchors = generator.normal(size=(4000, 4)).astype(np.float32)
    searching = Interpolated(anchors, anchors[:, :2].copy(), 3)
    ask = dataclasses.replace(VOTES, queries=searching.encode(PUBLIC)[:9], representation=searching)
    counted = added_up(threads(workers), FragmentCount(READING, VoteTable(ask)), cut(RECORDS, [3000, 6000]))
    samples, labels = arrays(RECORDS)
    expected = vote_counts(searching.encode(samples), labels, ask.queries, ask.neighbors, len(CLASSES))
    assert np.array_equal(counted, expected)


@pytest.mark.parametrize("rows", [RECORDS.num_rows - 1, RECORDS.num_rows + 1, 0])
def test_another_number_of_records_than_were_found_is_no_count(rows):
    """On a cluster a worker may see another file under the same path."""
    counting = FragmentCount(READING, TABLES["votes"])
    with pytest.raises(TacitError, match="another number of records") as told:
        added_up(threads(), counting, cut(RECORDS, [100]), rows=rows)
    assert str(RECORDS.num_rows) not in str(told.value)
    found = added_up(threads(), counting, cut(RECORDS, [100]), rows=RECORDS.num_rows)
    assert np.array_equal(found, EXPECTED["votes"])


def test_progress_counts_rows():
    told = []
    added_up(threads(), FragmentCount(READING, TABLES["votes"]), cut(RECORDS, [100]), told.append)
    assert told == [100, RECORDS.num_rows]


@pytest.mark.parametrize("address", ["local", "auto", "yarn", "spark://a:7077,b:7077", "k8s://https://host:443"])
def test_an_address_of_another_form_is_left_to_the_engine(address):
    require_reached("Spark", address)


def test_an_address_at_which_somebody_listens_is_taken_and_another_is_refused_at_once():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for form in ("127.0.0.1:{}", "spark://127.0.0.1:{}", "ray://localhost:{}"):
            require_reached("Ray", form.format(port))
    for address in (f"spark://127.0.0.1:{port}", "127.0.0.1:99999"):
        with pytest.raises(TacitError, match="Spark cannot be reached at"):
            require_reached("Spark", address)
