"""Parameters of local mechanisms: refused with name and range when wrong, best when left out."""

from fractions import Fraction

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.mechanisms.choices import choose
from tacit.mechanisms.local.bucket_labels import Concatenation, Separation
from tacit.mechanisms.local.collision import LONGEST_RANGE, Collision
from tacit.mechanisms.local.linear_hashing import FIELD_SIZES, LinearHashing, finite_field, possible_sizes
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.local.subset_selection import SubsetSelection, best_subset_size, subset_rates
from tacit.mechanisms.local.unary_encoding import LocalLaplace, UnaryEncoding
from tacit.mechanisms.local.vote_shape import VoteShape

FLAT = [LocalLaplace, UnaryEncoding, GeneralizedRandomizedResponse, Collision, SubsetSelection]


@pytest.mark.parametrize("mechanism", [*FLAT, LinearHashing])
def test_domain_is_checked(mechanism):
    with pytest.raises(InvalidInput, match=r"cells must be in \[2, 2\^31\], got 1"):
        mechanism(1, 1, 1)
    with pytest.raises(InvalidInput, match=r"ones must be in \[1, 9\] for 10 cells, got 0"):
        mechanism(10, 0, 1)
    for ones in (10, 11):
        with pytest.raises(InvalidInput, match=rf"ones must be in \[1, 9\] for 10 cells, got {ones}"):
            mechanism(10, ones, 1)


def test_collision_needs_more_buckets_than_ones():
    for length in (0, 3, LONGEST_RANGE + 1):
        with pytest.raises(InvalidInput, match=r"length must be in \[4, 2\^31 - 1\] for 3 ones"):
            Collision(100, 3, 1, length)


def test_subsets_must_leave_room_for_the_ones():
    for size in (0, 9, 10, 11):
        with pytest.raises(InvalidInput, match=r"size must be in \[1, 8\] for 10 cells and 2 ones"):
            SubsetSelection(10, 2, 1, size)


def test_linear_hashing_is_for_one_cell_and_for_fields():
    with pytest.raises(InvalidInput, match="ones must be 1"):
        LinearHashing(10, 2, 1)
    with pytest.raises(InvalidInput, match="size must be a prime or a power of two"):
        LinearHashing(10, 1, 1, size=6)
    with pytest.raises(InvalidInput, match="cells must be at most 8388608"):
        LinearHashing(2**23 + 1, 1, 1)
    assert possible_sizes(2**23) == [2]


def test_votes_must_leave_something_open():
    with pytest.raises(InvalidInput, match=r"neighbors must be in \[1, 3\] for 4 queries, got 4"):
        VoteShape(queries=4, classes=3, neighbors=4)
    with pytest.raises(InvalidInput, match=r"labels must be in \[1, 2\] for 3 classes, got 0"):
        VoteShape(queries=4, classes=3, labels=0)


@pytest.mark.parametrize("make", [lambda s: Separation(s, 1), lambda s: Concatenation(s, 1, corrected=True)])
def test_cells_must_be_all_pairs(make):
    mechanism = make(VoteShape(queries=5, classes=4, neighbors=2, labels=2))
    good = np.array([[0, 1, 4, 5]])
    assert len(mechanism.encode(good, SystemRandomness())) == 1
    for bad in ([[0, 1, 4, 6]], [[0, 1, 2, 4]], [[0, 4, 9, 13]]):
        with pytest.raises(InvalidInput, match="all pairs of 2 buckets and 2 labels"):
            mechanism.encode(np.array(bad), SystemRandomness())


@pytest.mark.parametrize("mechanism", FLAT)
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(500)])
def test_extreme_epsilons_work(mechanism, epsilon):
    made = mechanism(50, 2, epsilon)
    held = np.tile([3, 7], (500, 1))
    estimates = made.decode(made.encode(held, SeededRandomness(1)))
    assert np.isfinite(estimates.counts).all()
    assert np.isfinite(estimates.variances).all()
    assert 0 <= made.variance_zero < np.inf
    assert made.variance_one >= 0
    if epsilon == 500 and mechanism in (LocalLaplace, SubsetSelection, Collision):
        # Without noise, and nearly without hash collisions, cells are told apart.
        assert estimates.counts[[3, 7]].min() > 100 > estimates.counts[np.r_[0:3, 4:7, 8:50]].max()


def test_messages_name_what_exists():
    collision = Collision(10, 1, 1, length=4)
    message = np.array([[0, 0, 4]], dtype=np.uint64)
    with pytest.raises(InvalidInput, match=r"buckets in \[0, 3\], got 4"):
        collision.decode(message)
    with pytest.raises(InvalidInput, match=r"buckets in \[0, 3\], got 4"):
        Concatenation(VoteShape(5, 5), 1, corrected=True, length=4).decode(message)
    with pytest.raises(InvalidInput, match=r"cells in \[0, 9\]"):
        GeneralizedRandomizedResponse(10, 1, 1).decode(np.array([10]))
    with pytest.raises(InvalidInput, match=r"messages must be in \[0, 63\]"):
        LinearHashing(10, 1, 1, size=4).decode(np.array([64]))
    with pytest.raises(InvalidInput, match="subsets of 3 cells"):
        SubsetSelection(8, 1, 1, size=3).decode(np.array([[3]], dtype=np.uint8))


@pytest.mark.parametrize("cells", [3, 10, 57, 400])
@pytest.mark.parametrize("ones", [1, 2, 5, 30])
@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "1", "3", "8"])
def test_no_other_subset_size_is_better(cells, ones, epsilon):
    if ones >= cells:
        return
    epsilon = Fraction(epsilon)
    variances = [subset_rates(cells, ones, epsilon, size).variance_zero for size in range(1, cells - ones + 1)]
    assert variances[best_subset_size(cells, ones, epsilon) - 1] == pytest.approx(min(variances), rel=1e-12)


@pytest.mark.parametrize("size", FIELD_SIZES)
def test_finite_fields_obey_their_laws(size):
    field = finite_field(size)
    numbers = np.arange(size)
    for table in (field.sums, field.products):
        assert np.array_equal(table, table.T)
    assert np.array_equal(field.sums[0], numbers)
    assert np.array_equal(field.products[1], numbers)
    # Every row is a permutation: differences and quotients exist and are unique.
    assert np.array_equal(np.sort(field.sums, axis=1), np.tile(numbers, (size, 1)))
    assert np.array_equal(np.sort(field.products[1:], axis=1), np.tile(numbers, (size - 1, 1)))
    a, b, c = np.random.default_rng(size).integers(0, size, (3, 500))
    assert np.array_equal(field.products[a, field.sums[b, c]], field.sums[field.products[a, b], field.products[a, c]])
    assert np.array_equal(field.products[a, field.products[b, c]], field.products[field.products[a, b], c])
    assert np.array_equal(field.sums[a, field.sums[b, c]], field.sums[field.sums[a, b], c])


def test_other_sizes_are_not_fields():
    for size in (1, 6, 12, 258):
        with pytest.raises(InvalidInput, match="prime or a power of two"):
            finite_field(size)


def test_choice_is_the_most_accurate_that_is_short_enough():
    choice = choose(5000, 1, 1)
    assert isinstance(choice.mechanism, SubsetSelection)
    errors = [each.mean_squared_error for each in choice.alternatives]
    assert errors == sorted(errors)
    assert all(each.allowed for each in choice.alternatives)
    limited = choose(5000, 1, 1, largest_message_bits=20)
    assert isinstance(limited.mechanism, LinearHashing)
    assert "subset selection would have" in limited.reason
    assert "too long" in limited.table
    assert isinstance(choose(5000, 3, 1, largest_message_bits=200).mechanism, Collision)
    assert isinstance(choose(10, 1, 6).mechanism, GeneralizedRandomizedResponse)


@pytest.mark.parametrize("cells", [4, 100, 5000])
@pytest.mark.parametrize("ones", [1, 2, 3])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "5", "12"])
@pytest.mark.parametrize("limit", [None, 13, 200])
def test_choice_spends_what_was_asked_and_is_never_biased(cells, ones, epsilon, limit):
    choice = choose(cells, ones, epsilon, limit)
    assert choice.mechanism.epsilon == Fraction(epsilon)
    assert (choice.mechanism.cells, choice.mechanism.ones) == (cells, ones)
    assert not any(each.mechanism.biased for each in choice.alternatives)
    assert limit is None or choice.mechanism.message_bits <= limit


def test_choice_names_the_shortest_message_when_none_fits():
    with pytest.raises(InvalidInput, match="largest_message_bits must be at least 13 for 5000 cells, got 12"):
        choose(5000, 2, 1, largest_message_bits=12)
    with pytest.raises(InvalidInput, match="largest_message_bits must be at least 1"):
        choose(5000, 2, 1, largest_message_bits=0)
