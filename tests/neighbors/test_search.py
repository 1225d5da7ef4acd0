"""The search is exact and each record's answer is its own: whatever the blocks, the order and the company."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from tacit.core.errors import InvalidInput
from tacit.core.sensitivity import vote_sensitivity
from tacit.neighbors import nearest_queries, search, vote_counts


def reference(records, queries, neighbors, query_offsets=None):
    """The definition, in rational arithmetic: true distance, then index."""
    if query_offsets is not None:
        queries = np.column_stack([queries, query_offsets])
        records = np.column_stack([records, np.zeros(len(records))])
    answers = []
    for record in np.asarray(records, dtype=np.float32).tolist():
        distances = [
            sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(record, query, strict=True))
            for query in np.asarray(queries, dtype=np.float32).tolist()
        ]
        nearest = sorted(range(len(queries)), key=lambda index: (distances[index], index))[:neighbors]
        answers.append(sorted(nearest))
    return answers


def near_ties(seed, rows, columns, queries):
    """Records within a few units in the last place of the plane between two queries, off center by a lot."""
    generator = np.random.default_rng(seed)
    center = generator.normal(size=columns) * 100
    table = (center + generator.normal(size=(queries, columns))).astype(np.float32)
    first, second = generator.integers(0, queries, size=(2, rows))
    middle = (table[first].astype(np.float64) + table[second]) / 2
    return middle.astype(np.float32), table


def regime(name, seed, rows, columns, queries):
    generator = np.random.default_rng(seed)
    shapes = (rows, columns), (queries, columns)
    if name == "near ties":
        return near_ties(seed, rows, columns, queries)
    if name == "small integers":
        records, table = (generator.integers(-1, 2, size=shape) for shape in shapes)
    elif name == "duplicates":
        table = generator.normal(size=(2, columns))[generator.integers(0, 2, size=queries)]
        records = generator.normal(size=shapes[0])
    elif name == "mirrors":
        # A record with equal coordinates is exactly as far from a query as from the same numbers in another order.
        base = generator.normal(size=columns).astype(np.float32)
        table = np.stack([generator.permutation(base) for _ in range(queries)])
        records = np.repeat(generator.normal(size=(rows, 1)), columns, axis=1)
    else:
        scale = {"plain": 1.0, "huge": 1e37, "tiny": 1e-42, "overflowing": 3e38}[name]
        records, table = (np.clip(generator.normal(size=shape), -1, 1) * scale for shape in shapes)
    return records.astype(np.float32), table.astype(np.float32)


REGIMES = ["near ties", "small integers", "duplicates", "mirrors", "plain", "huge", "tiny", "overflowing"]


@given(
    name=st.sampled_from(REGIMES),
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 12),
    columns=st.integers(1, 6),
    queries=st.integers(1, 9),
    data=st.data(),
)
@settings(max_examples=200, deadline=None)
def test_equals_rational_arithmetic(name, seed, rows, columns, queries, data):
    records, table = regime(name, seed, rows, columns, queries)
    neighbors = data.draw(st.integers(1, queries))
    block_bytes = data.draw(st.sampled_from([1, 200, 2**20]))
    assert nearest_queries(records, table, neighbors, block_bytes).tolist() == reference(records, table, neighbors)


@pytest.mark.parametrize("name", REGIMES)
@pytest.mark.parametrize("neighbors", [1, 3])
def test_wide_tables_equal_rational_arithmetic(name, neighbors):
    records, table = regime(name, 5, rows=40, columns=33, queries=20)
    assert nearest_queries(records, table, neighbors).tolist() == reference(records, table, neighbors)


@pytest.mark.parametrize("name", ["near ties", "small integers", "plain"])
@pytest.mark.parametrize("neighbors", [1, 4])
def test_a_record_answers_alike_in_every_company(name, neighbors):
    records, table = regime(name, 11, rows=3000, columns=48, queries=30)
    answers = nearest_queries(records, table, neighbors)
    order = np.random.default_rng(1).permutation(len(records))
    assert np.array_equal(nearest_queries(records[order], table, neighbors), answers[order])
    assert np.array_equal(nearest_queries(records[7:1701:3], table, neighbors), answers[7:1701:3])
    for block_bytes in (10_000, 123_456):
        assert np.array_equal(nearest_queries(records, table, neighbors, block_bytes), answers)
    alone = [nearest_queries(records[row : row + 1], table, neighbors)[0] for row in range(50)]
    assert np.array_equal(alone, answers[:50])
    with threadpool_limits(1):
        assert np.array_equal(nearest_queries(records, table, neighbors, 100_000), answers)


@pytest.mark.parametrize(("dtype", "name"), [(np.float32, "near ties"), (np.float64, "mirrors")])
def test_the_product_alone_is_rejected(dtype, name):
    """The mutant that skips the exact stages is wrong on near ties, and in float64 on true ties."""
    records, table = regime(name, 3, rows=1000, columns=64, queries=12)
    wide, narrow = records.astype(dtype), table.astype(dtype)
    product = (np.einsum("ij,ij->i", narrow, narrow)[:, None] - 2 * narrow @ wide.T).argmin(axis=0)
    exact = nearest_queries(records, table, 1)[:, 0]
    assert exact[:40].tolist() == [each[0] for each in reference(records[:40], table, 1)]
    assert (product != exact).any()


def test_stages_hand_on_only_what_they_cannot_prove(monkeypatch):
    calls = []
    real = search._exact_order
    monkeypatch.setattr(search, "_exact_order", lambda *given: calls.append(1) or real(*given))
    for name in ("plain", "small integers"):
        nearest_queries(*regime(name, 2, rows=2000, columns=20, queries=30), 3)
    assert not calls
    records, table = regime("mirrors", 2, rows=50, columns=7, queries=10)
    nearest_queries(records, table, 3)
    assert len(calls) == 50


@given(name=st.sampled_from(REGIMES), seed=st.integers(0, 2**32), rows=st.integers(1, 12), data=st.data())
@settings(max_examples=150, deadline=None)
def test_heights_add_their_squares_exactly(name, seed, rows, data):
    records, table = regime(name, seed, rows, columns=3, queries=7)
    neighbors = data.draw(st.integers(1, 7))
    block_bytes = data.draw(st.sampled_from([1, 200, 2**20]))
    # Heights of the size of the distances: some equal, some zero, some from the table, so that ties happen.
    generator = np.random.default_rng(seed)
    query_offsets = np.abs(table[generator.permutation(7), 0]) * generator.integers(0, 2, size=7).astype(np.float32)
    found = nearest_queries(records, table, neighbors, block_bytes, query_offsets=query_offsets)
    assert found.tolist() == reference(records, table, neighbors, query_offsets)


def test_no_height_is_the_plain_rule_and_heights_must_fit():
    records, table = regime("plain", 3, rows=50, columns=4, queries=6)
    plain = nearest_queries(records, table, 2)
    assert np.array_equal(plain, nearest_queries(records, table, 2, query_offsets=np.zeros(6)))
    for wrong in (np.zeros(5), np.zeros((6, 1)), np.array(["a"] * 6)):
        with pytest.raises(InvalidInput, match="query offsets must be 6 numbers"):
            nearest_queries(records, table, 2, query_offsets=wrong)
    with pytest.raises(InvalidInput, match="finite"):
        nearest_queries(records, table, 2, query_offsets=np.array([0, 0, 0, np.nan, 0, 0]))


@given(
    seed=st.integers(0, 2**32),
    neighbors=st.integers(1, 4),
    classes=st.integers(2, 4),
    several=st.integers(1, 4),
    name=st.sampled_from(["near ties", "small integers"]),
)
@settings(max_examples=100, deadline=None)
def test_replacing_a_record_moves_the_counts_as_far_as_is_claimed(seed, neighbors, classes, several, name):
    generator = np.random.default_rng(seed)
    records, table = regime(name, seed, rows=30, columns=9, queries=5)
    several = min(several, classes)
    labels = np.argsort(generator.random((30, classes)), axis=1) < several
    changed, changed_labels = records.copy(), labels.copy()
    row = generator.integers(30)
    changed[row] = generator.permutation(records[(row + 1) % 30])
    changed_labels[row] = labels[(row + 1) % 30]
    counts = vote_counts(records, labels, table, neighbors, classes)
    moved = np.abs(vote_counts(changed, changed_labels, table, neighbors, classes, block_bytes=999) - counts)
    allowed = vote_sensitivity(5, classes, neighbors, labels=several)
    assert moved.sum() <= allowed.l1
    assert moved.max() <= allowed.linf


@pytest.mark.parametrize("neighbors", [1, 3])
def test_counts_are_the_sum_of_the_votes(neighbors):
    records, table = regime("plain", 8, rows=500, columns=5, queries=12)
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 4, size=500)
    expected = np.zeros((12, 4), dtype=np.int64)
    for label, nearest in zip(labels, nearest_queries(records, table, neighbors), strict=True):
        expected[nearest, label] += 1
    counts = vote_counts(records, labels.astype(np.uint8), table, neighbors, 4, block_bytes=3000)
    assert counts.dtype == np.int64
    assert np.array_equal(counts, expected)
    one_hot = labels[:, None] == np.arange(4)
    assert np.array_equal(vote_counts(records, one_hot, table, neighbors, 4), expected)
    both = one_hot | (generator.random((500, 4)) < 0.3)
    extra = sum(
        np.eye(12, dtype=np.int64)[nearest].sum(axis=0)[:, None] * row
        for row, nearest in zip(both, nearest_queries(records, table, neighbors), strict=True)
    )
    assert np.array_equal(vote_counts(records, both, table, neighbors, 4), extra)


def test_every_form_of_records_gives_the_same_answer(tmp_path):
    records, table = regime("plain", 9, rows=1000, columns=6, queries=11)
    answers = nearest_queries(records, table, 2)
    records.tofile(tmp_path / "records")
    for mode in ("r", "c"):
        mapped = np.memmap(tmp_path / "records", dtype=np.float32, mode=mode, shape=(1000, 6))
        assert np.array_equal(nearest_queries(mapped, table, 2, block_bytes=5000), answers)
        assert np.array_equal(nearest_queries(mapped[300:], table, 2), answers[300:])
    chunks = (records[start : start + 170] for start in range(0, 1000, 170))
    assert np.array_equal(nearest_queries(chunks, table, 2, block_bytes=5000), answers)
    assert np.array_equal(nearest_queries(records.astype(np.float64), table.astype(np.float64), 2), answers)
    assert np.array_equal(nearest_queries(np.asfortranarray(records), table, 2), answers)
    assert nearest_queries(records[:0], table, 2).shape == (0, 2)
    assert vote_counts(iter([]), np.empty(0, dtype=int), table, 2, classes=3).sum() == 0


def test_changes_of_a_mapping_that_is_not_read_only_survive(tmp_path):
    np.zeros((5000, 2), dtype=np.float32).tofile(tmp_path / "records")
    mapped = np.memmap(tmp_path / "records", dtype=np.float32, mode="c", shape=(5000, 2))
    mapped[:] = 7
    nearest_queries(mapped, np.array([[0, 0], [7, 7]]), 1, block_bytes=9000)
    assert (mapped == 7).all()


def test_progress_and_threads():
    records, table = regime("plain", 10, rows=999, columns=4, queries=6)
    before = [(each["filepath"], each["num_threads"]) for each in threadpool_info()]
    told = []
    nearest_queries(records, table, 1, block_bytes=5000, progress=told.append)
    assert told[-1] == 999
    assert len(told) > 5
    assert told == sorted(set(told))
    assert [(each["filepath"], each["num_threads"]) for each in threadpool_info()] == before


def broken(row, value):
    records = np.zeros((600, 3), dtype=np.float32)
    records[row:, 1] = value
    return records


TABLE = np.eye(3, dtype=np.float32)
LABELS = np.zeros(600, dtype=np.int64)


@pytest.mark.parametrize("neighbors", [1, 2])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
def test_a_record_that_cannot_be_compared_casts_an_empty_vote_and_moves_no_other(neighbors, value):
    rng = np.random.default_rng(3)
    records, labels = rng.normal(size=(600, 3)), rng.integers(0, 2, 600)
    bad = np.array([0, 17, 411, 599])
    wild = records.copy()
    wild[bad, rng.integers(0, 3, 4)] = value
    nearest = nearest_queries(wild, TABLE, neighbors, block_bytes=4000)
    assert (nearest[bad] == -1).all()
    good = np.setdiff1d(np.arange(600), bad)
    assert np.array_equal(nearest[good], nearest_queries(records, TABLE, neighbors)[good])
    counts = vote_counts(wild, labels, TABLE, neighbors, 2, block_bytes=4000)
    assert np.array_equal(counts, vote_counts(records[good], labels[good], TABLE, neighbors, 2))
    assert not vote_counts(np.full((5, 3), value), labels[:5], TABLE, neighbors, 2).any()


@pytest.mark.parametrize("neighbors", [1, 3])
def test_queries_that_all_tie_for_one_guessed_record_cost_no_more_than_an_empty_vote(neighbors, monkeypatch):
    """Whole numbers for 100,000 ties took seconds, and a reply that is late by them told that the record is there."""
    random, width, many = np.random.default_rng(0), 64, 4000
    guessed = random.integers(0, 17, size=width) / 16.0
    queries = (guessed + 0.25 * random.choice([-1, 1], size=(many, width))).astype(np.float32)
    queries[0], queries[0, 0] = 9, 2.0**-140  # a grid so fine that only whole numbers are exact
    records = random.integers(0, 17, size=(20, width)) / 16.0
    records[7] = guessed
    compared = []
    exact = search._exact_order

    def counted(record, tied):
        compared.append(tied.size)
        return exact(record, tied)

    monkeypatch.setattr(search, "_exact_order", counted)
    near = nearest_queries(records, queries, neighbors)
    assert (near[7] == -1).all()
    assert max(compared, default=0) <= search.MOST_EXACT
    others = np.delete(np.arange(20), 7)
    assert np.array_equal(near[others], nearest_queries(records[others], queries, neighbors))
    assert (near[others] >= 0).all()
    # Fewer ties are settled as ever, by index.
    assert nearest_queries(records[7:8], queries[:1000], neighbors)[0].tolist() == list(range(1, 1 + neighbors))


@pytest.mark.parametrize("label", [-1, 2, 10**9, -(2**62)])
def test_a_label_that_is_no_class_is_no_vote(label):
    labels = np.where(np.arange(600) % 7 == 3, label, 1)
    counts = vote_counts(broken(600, 0), labels, TABLE, 1, 2)
    assert counts.sum() == (labels == 1).sum()
    assert not counts[:, 0].any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"records": np.zeros((600, 4))}, r"3 columns like the queries, got shape \(600, 4\)"),
        ({"records": [np.zeros((2, 3)), np.zeros(3)]}, r"records from row 2 on .* got shape \(3,\)"),
        ({"records": np.full((600, 3), "a")}, "table of numbers"),
        ({"queries": TABLE * np.nan}, r"queries must be finite float32 numbers"),
        ({"queries": TABLE[:0]}, r"queries must have a row"),
        ({"queries": TABLE[0]}, "queries must be a table of numbers"),
        ({"neighbors": 4}, r"neighbors must be in \[1, 3\]"),
        ({"neighbors": 0}, r"neighbors must be in \[1, 3\]"),
        ({"block_bytes": 0}, "block_bytes must be at least 1"),
        ({"classes": 1}, "classes must be at least 2"),
        ({"labels": LABELS[:599]}, "got 599 for 600 or more records"),
        ({"labels": np.zeros(601, dtype=int)}, "got 601 for 600 records"),
        ({"labels": np.zeros(600)}, "labels must be integers"),
        ({"labels": np.zeros((600, 3), dtype=bool)}, "bool with 2 columns"),
        ({"labels": np.zeros((600, 2), dtype=int)}, "bool with 2 columns"),
    ],
)
def test_wrong_input_is_named(change, message):
    given = {"records": broken(600, 0), "labels": LABELS, "queries": TABLE, "neighbors": 1, "classes": 2}
    given |= {"block_bytes": 4000}
    with pytest.raises(InvalidInput, match=message):
        vote_counts(**(given | change))


MEASURE = """
import sys
import numpy as np
from pathlib import Path
from tacit.neighbors import vote_counts

def kilobytes(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))

path, rows = sys.argv[1], int(sys.argv[2])
table = np.random.default_rng(0).normal(size=(50, 64)).astype(np.float32)
records = np.memmap(path, dtype=np.float32, mode="r", shape=(rows, 64))
labels = np.zeros(rows, dtype=np.int64)
before = kilobytes("VmRSS")
vote_counts(records, labels, table, 1, 2, block_bytes=2**20)
print(kilobytes("VmHWM") - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak memory from /proc")
def test_memory_does_not_grow_with_the_records(tmp_path):
    rows = 400_000  # 102 MB of records
    records = np.memmap(tmp_path / "records", dtype=np.float32, mode="w+", shape=(rows, 64))
    records[:] = np.random.default_rng(1).normal(size=(1, rows // 1000, 64)).repeat(1000, axis=0).reshape(rows, 64)
    records.flush()
    del records
    few, many = (
        int(subprocess.check_output([sys.executable, "-c", MEASURE, tmp_path / "records", str(number)]))
        for number in (rows // 10, rows)
    )
    assert many < 40_000
    assert many - few < 15_000
