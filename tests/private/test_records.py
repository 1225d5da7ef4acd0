import copy
import logging
import pickle

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.private.partition import (
    bounded,
    bounded_rows,
    split_by_class,
    split_by_dirichlet,
    split_by_owner,
    split_evenly,
)
from tacit.private.records import Private, Records, combine, public_size

SECRET = "diagnosis"


@pytest.mark.parametrize("show", [str, repr, "{}".format, "{:>40}".format, lambda v: f"{v!r}", lambda v: f"{v}"])
def test_printing_shows_nothing(show):
    assert SECRET not in show(Private(SECRET))


def test_logging_shows_nothing(caplog):
    with caplog.at_level(logging.INFO):
        logging.getLogger("test").info("records: %s %r", Private(SECRET), Private(SECRET))
    assert SECRET not in caplog.text
    assert "<private>" in caplog.text


@pytest.mark.parametrize(
    "act",
    [
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        list,
        len,
        bool,
        hash,
        np.asarray,
        float,
        int,
        lambda v: v == SECRET,
        lambda v: v != SECRET,
        lambda v: v < SECRET,
        lambda v: v[0],
        lambda v: "d" in v,
        lambda v: [*v],
        lambda v: v.__dict__,
        lambda v: vars(v),
        lambda v: {v: 1},
        lambda v: np.sum(v),
    ],
)
def test_everything_by_accident_is_refused(act):
    with pytest.raises((TypeError, AttributeError)) as caught:
        act(Private(SECRET))
    assert SECRET not in str(caught.value)


def test_map_and_combine_stay_private():
    assert isinstance(Private(SECRET).map(len), Private)
    assert repr(combine([Private(1), Private(2)], sum)) == "<private>"


def test_records_do_not_even_tell_their_number():
    assert repr(Records(np.eye(7), np.arange(7))) == "Records(<private>)"


def test_records_of_unequal_length_are_refused():
    with pytest.raises(InvalidInput, match="labels has 2 entries for 3 samples"):
        Records(np.eye(3), np.arange(2))


PEOPLE = np.repeat(["a", "b", "c"], [20, 9, 1])


def test_a_person_keeps_at_most_the_limit():
    kept = bounded_rows(PEOPLE, 2, SystemRandomness())
    assert dict(zip(*np.unique(PEOPLE[kept], return_counts=True), strict=True)) == {"a": 2, "b": 2, "c": 1}
    assert len(np.unique(kept)) == 5


@pytest.mark.statistical(rate=1e-9)
def test_each_record_of_a_person_is_as_likely_to_be_kept():
    from scipy.stats import chisquare

    kept = np.concatenate([bounded_rows(PEOPLE, 1, SystemRandomness())[:1] for _ in range(4000)])
    assert chisquare(np.bincount(kept, minlength=20)).pvalue > 1e-9
    # The mutant always keeps the first record.
    assert chisquare(np.bincount(np.zeros(4000, dtype=int), minlength=20)).pvalue < 1e-9


def test_one_record_too_many_is_one_too_many():
    for own, left in ((2, 2), (3, 2), (4, 2)):
        records = Records(np.zeros((own, 1)), np.arange(own), np.array(["a"] * own))
        (kept,) = bounded([records], Unit.person("patient", 2), SystemRandomness())
        assert len(kept.labels) == left


def test_the_number_of_records_is_public_under_replace_one_alone():
    parts = [Private(Records(np.zeros((3, 1)), np.arange(3), np.array(["a", "a", "b"])))]
    assert public_size(parts, Unit(), Adjacency.REPLACE_ONE) == 3
    assert public_size(parts, Unit.person("patient", 2), Adjacency.REPLACE_ONE) == 2
    with pytest.raises(InvalidInput, match="private under add/remove"):
        public_size(parts, Unit(), Adjacency.ADD_REMOVE)


def test_bounding_persons_needs_a_limit():
    with pytest.raises(InvalidInput, match="at least 1"):
        bounded_rows(PEOPLE, 0, SeededRandomness(0))


LABELS = np.arange(100) % 5


@pytest.mark.parametrize(
    "parts",
    [
        split_evenly(100, 7),
        split_by_class(LABELS, 10),
        split_by_dirichlet(LABELS, 10, 0.3),
        split_by_owner(np.arange(100) % 13),
    ],
)
def test_a_partition_is_complete_and_disjoint(parts):
    assert sorted(np.concatenate(parts).tolist()) == list(range(100))


def test_a_holder_by_class_sees_few_classes():
    assert all(len(np.unique(LABELS[rows])) <= 2 for rows in split_by_class(LABELS, 5))


def test_a_person_is_never_split():
    persons = np.arange(100) % 30
    parts = split_evenly(100, 4, persons=persons)
    assert sorted(np.concatenate(parts).tolist()) == list(range(100))
    owners = [set(persons[rows]) for rows in parts]
    assert sum(map(len, owners)) == len(set().union(*owners)) == 30


@pytest.mark.parametrize(
    "split", [lambda: split_evenly(3, 4), lambda: split_by_class(LABELS, 0), lambda: split_by_dirichlet(LABELS, 101, 1)]
)
def test_too_many_holders_are_refused(split):
    with pytest.raises(InvalidInput, match="holders must be between 1 and"):
        split()


def test_dirichlet_needs_a_positive_alpha():
    with pytest.raises(InvalidInput, match="alpha must be above 0"):
        split_by_dirichlet(LABELS, 2, 0)


def test_as_many_owners_as_records_are_split_by_one_sort():
    owners = np.random.default_rng(0).permutation(200_000)
    parts = split_by_owner(owners)
    assert len(parts) == len(owners)
    assert all(len(rows) == 1 for rows in parts)
    assert np.array_equal(owners[np.concatenate(parts)], np.sort(owners))
    alone = split_evenly(len(owners), len(owners), persons=owners)
    assert np.array_equal(np.sort(np.concatenate(alone)), np.arange(len(owners)))


def test_records_of_a_person_are_bounded_over_all_parts_and_stay_in_their_part():
    parts = [
        Records(np.arange(4.0)[:, None], np.zeros(4, dtype=np.int64), np.array(["ada", "ada", "bob", "ada"])),
        Records(np.empty((0, 1)), np.empty(0, dtype=np.int64), np.empty(0, dtype="<U3")),
        Records(np.arange(4.0, 7.0)[:, None], np.zeros(3, dtype=np.int64), np.array(["ada", "bob", "eve"])),
    ]
    for seed in range(20):
        kept = bounded(parts, Unit.person("patient", 1), SeededRandomness(seed))
        assert len(kept[1].labels) == 0
        assert set(kept[0].samples.ravel()) <= {0.0, 1.0, 2.0, 3.0}
        assert set(kept[2].samples.ravel()) <= {4.0, 5.0, 6.0}
        owners = np.concatenate([np.asarray(each.persons) for each in kept])
        assert sorted(owners.tolist()) == ["ada", "bob", "eve"]
