"""At most m records of every person over all fragments, exactly; which ones only who has the key can tell."""

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.engines import persons
from tacit.engines.persons import bound_persons, count_persons, fresh_key
from tests.engines.holdings import TableFragment

KEY = bytes(range(32))


def divided(owners, places):
    ends = [0, *sorted(places), len(owners)]
    content = pa.table({"who": pa.array(owners, pa.string()), "id": np.arange(len(owners))})
    return [
        TableFragment(number, f"part {start}", content.slice(start, end - start))
        for number, (start, end) in enumerate(itertools.pairwise(ends))
    ]


def kept(fragments, limit, key=KEY):
    bound = bound_persons(fragments, "who", limit, key)
    found = []
    for fragment in fragments:
        for block in fragment.blocks(["id"], "who", "who"):
            ids = block.samples.column("id").to_numpy()
            found += ids[bound.kept(fragment, block)].tolist()
    return sorted(found)


owner_lists = st.lists(st.sampled_from(["ada", "bob", "cid", "dot", None]), min_size=1, max_size=60)


@settings(max_examples=60)
@given(owner_lists, st.integers(1, 4), st.lists(st.integers(0, 60), max_size=4), st.randoms(use_true_random=False))
def test_every_person_keeps_as_many_as_allowed_over_all_parts_in_any_order(owners, limit, places, order):
    fragments = divided(owners, [min(place, len(owners)) for place in places])
    stays = kept(fragments, limit)
    counts, have = Counter(owners[each] for each in stays), Counter(each for each in owners if each is not None)
    assert counts == {name: min(limit, count) for name, count in have.items()}
    order.shuffle(fragments)
    assert kept(fragments, limit) == stays


def test_those_with_the_smallest_ranks_stay():
    owners = ["ada"] * 50 + ["bob"] * 3
    fragments = divided(owners, [20])
    ranks = {}
    for fragment in fragments:
        size = fragment.table.num_rows
        words = persons.record_ranks(KEY, fragment.name, 0, size)
        ranks.update(zip(fragment.table.column("id").to_pylist(), words.tolist(), strict=True))
    smallest = sorted(range(50), key=ranks.__getitem__)[:4]
    assert kept(fragments, 4) == sorted([*smallest, 50, 51, 52])


def test_another_key_keeps_other_records_and_the_same_key_the_same():
    fragments = divided(["ada"] * 200, [90])
    first, again, other = (kept(fragments, 20, key) for key in (KEY, KEY, bytes(32)))
    assert first == again
    assert first != other


def test_persons_go_by_digests_under_the_key():
    column = pa.array(["ada", "bob", None])
    first, known = persons.person_digests(KEY, column)
    other, _ = persons.person_digests(bytes(32), column)
    assert known.tolist() == [True, True, False]
    assert first[0] != first[1]
    assert not (first[:2] == other[:2]).any()


def test_equal_ranks_leave_exactly_as_many(monkeypatch):
    monkeypatch.setattr(persons, "record_ranks", lambda key, name, start, rows: np.zeros(rows, dtype=np.uint64))
    assert kept(divided(["ada"] * 9, [4]), 3) == [0, 1, 2]


def test_memory_grows_with_persons_and_not_with_records(monkeypatch):
    monkeypatch.setattr(persons, "_WAITING", 10)
    smallest = persons._Smallest(3)
    for _ in range(200):
        three = np.array([1, 2, 3], dtype=np.uint64)
        smallest.add(three, three, three)
        assert smallest._rows <= 2 * 3 * 3 + 10 + 3
    assert len(smallest.found()[0]) == 9


def test_persons_are_counted():
    assert count_persons(divided(["ada", "bob", None, "ada"], [1]), "who", KEY) == 2


def test_a_key_is_fresh_every_time_and_replayed_in_a_simulation():
    assert fresh_key(SystemRandomness()) != fresh_key(SystemRandomness())
    assert fresh_key(SeededRandomness(1)) == fresh_key(SeededRandomness(1))


def test_no_record_per_person_is_refused():
    with pytest.raises(InvalidInput, match="at least 1"):
        bound_persons([], "who", 0, KEY)
