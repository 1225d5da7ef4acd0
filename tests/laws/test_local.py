"""One suite for every local mechanism: the law keeps ε, the encoder follows the law, and counts are unbiased.

The privacy proof has two steps. First the law is enumerated for all pairs of inputs of a small domain, with
Decimals: no ratio is above e^ε, and the largest one is e^ε. Then a chi-square compares what the encoder really
sends with that law, and rejects an encoder with half the noise. Mutants run on a seed, so that they are rejected
every time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from tacit.accounting.compose import total
from tacit.core.errors import InvalidInput
from tacit.core.protocols import LocalMechanism, MessageLaw
from tacit.core.randomness import Randomness, SeededRandomness, SystemRandomness
from tacit.core.sensitivity import ANYTHING
from tacit.mechanisms.exact import exp
from tacit.mechanisms.local.bucket_labels import Concatenation, Separation
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.unary_encoding import LocalLaplace, UnaryEncoding
from tacit.mechanisms.local.vote_shape import VoteShape

RATE = 1e-9
# Seven standard deviations of a normal variable: beyond them lies less than 1e-11.
SIGMAS = 7.0
CLIENTS = 60_000


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[Fraction], LocalMechanism]
    epsilon: Fraction = Fraction(1)
    # Words of hash seed in a message; the law of a hashing mechanism is known given the seed.
    seed_words: int = 0
    shape: VoteShape | None = None
    # Whether the law lists all messages.
    complete: bool = True

    @property
    def mechanism(self) -> LocalMechanism:
        return self.make(self.epsilon)

    @property
    def inputs(self) -> list[tuple[int, ...]]:
        if self.shape is None:
            return list(itertools.combinations(range(self.mechanism.cells), self.mechanism.ones))
        buckets = itertools.combinations(range(self.shape.queries), self.shape.neighbors)
        labels = list(itertools.combinations(range(self.shape.classes), self.shape.labels))
        return [
            tuple(t * self.shape.classes + y for t in bucket for y in label) for bucket in buckets for label in labels
        ]

    def law(self, cells: Sequence[int], seed: Sequence[int], epsilon: Fraction | None = None) -> MessageLaw:
        mechanism: Any = self.make(epsilon or self.epsilon)
        return mechanism.law(cells, tuple(seed)) if self.seed_words else mechanism.law(cells)

    def messages(
        self, cells: Sequence[int], seed: Sequence[int], count: int, epsilon: Fraction, randomness: Randomness
    ) -> np.ndarray:
        """Messages of many clients with the same cells, and the same seed if there is one."""
        mechanism: Any = self.make(epsilon)
        held = np.tile(np.array(sorted(cells)), (count, 1))
        if not self.seed_words:
            return mechanism.encode(held, randomness)
        seeds = np.tile(np.array(seed, dtype=np.uint64), (count, 1))
        return mechanism.respond(held, seeds, randomness)

    def seeds(self, count: int) -> np.ndarray:
        return np.random.default_rng(5).integers(0, 2**64, size=(count, self.seed_words), dtype=np.uint64)


@pytest.fixture(autouse=True)
def many_digits():
    """Laws are compared with as many digits as they have."""
    with localcontext() as context:
        context.prec = 80
        yield


SHAPE = VoteShape(queries=4, classes=3, neighbors=2, labels=1)

CASES = [
    Case("discrete Laplace", lambda e: LocalLaplace(3, 1, e), epsilon=Fraction(4), complete=False),
    Case("symmetric bits", lambda e: UnaryEncoding(5, 2, e, symmetric=True)),
    Case("asymmetric bits", lambda e: UnaryEncoding(5, 2, e)),
    Case("many bits", lambda e: UnaryEncoding(9, 1, e), epsilon=Fraction(3, 2)),
    Case("generalized randomized response", lambda e: GeneralizedRandomizedResponse(6, 1, e)),
    Case("generalized response, two ones", lambda e: GeneralizedRandomizedResponse(6, 2, e)),
    Case("Collision", lambda e: Collision(8, 2, e, length=5), seed_words=2),
    Case("Collision with one bucket to spare", lambda e: Collision(7, 3, e, length=4), seed_words=2),
    Case("optimal local hashing", lambda e: Collision(9, 1, e, length=4), seed_words=2),
    Case("linear hashing, four elements", lambda e: LinearHashing(7, 1, e, size=4)),
    Case("linear hashing, three elements", lambda e: LinearHashing(10, 1, e, size=3)),
    Case("subset selection", lambda e: SubsetSelection(7, 2, e, size=3)),
    Case("subset selection, large subsets", lambda e: SubsetSelection(9, 2, e, size=6)),
    Case("subset selection, one cell", lambda e: SubsetSelection(9, 1, e, size=1)),
    Case("Separation", lambda e: Separation(SHAPE, e, lengths=(4, 3)), seed_words=4, shape=SHAPE),
    Case(
        "Concatenation as published",
        lambda e: Concatenation(SHAPE, e, corrected=False, length=7),
        seed_words=2,
        shape=SHAPE,
    ),
    Case(
        "Concatenation corrected",
        lambda e: Concatenation(SHAPE, e, corrected=True, length=7),
        seed_words=2,
        shape=SHAPE,
    ),
]
EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
UNBIASED = pytest.mark.parametrize("case", [case for case in CASES if not case.mechanism.biased], ids=lambda c: c.name)


def truth(case: Case, cells: Sequence[int]) -> np.ndarray:
    indicator = np.zeros(case.mechanism.cells)
    indicator[list(cells)] = 1
    return indicator


def largest_ratio(case: Case, seed: Sequence[int], epsilon: Fraction) -> Decimal:
    """The largest quotient of two inputs' probabilities of one message; messages come in the same order."""
    laws = [case.law(cells, seed, epsilon) for cells in case.inputs]
    columns = zip(*(law.probabilities for law in laws), strict=True)
    return max(max(column) / min(column) for column in columns)


@EACH
def test_spends_epsilon_on_any_input(case):
    mechanism = case.mechanism
    assert total([mechanism.spend], Fraction(0)).epsilon == case.epsilon
    assert mechanism.max_sensitivity == ANYTHING


@EACH
def test_law_is_a_distribution_over_the_same_messages_for_every_input(case):
    seed = case.seeds(1)[0]
    first = case.law(case.inputs[0], seed)
    for cells in case.inputs:
        law = case.law(cells, seed)
        assert np.array_equal(law.messages, first.messages)
        assert len(np.unique(law.messages, axis=0)) == len(law.messages) == len(law.probabilities)
        assert min(law.probabilities) > 0
        rest = 1 - sum(law.probabilities)
        assert abs(rest) < Decimal("1e-40") if case.complete else 0 < rest < Decimal("0.2")


@EACH
def test_no_two_inputs_differ_by_more_than_epsilon_and_some_reach_it(case):
    # A hash may map the cells so that the bound is not reached, or so that cells of one client collide: all keep ε.
    seeds = case.seeds(8 if case.seed_words else 1)
    ratios = [largest_ratio(case, seed, case.epsilon) for seed in seeds]
    bound = exp(case.epsilon, 50)
    assert max(ratios) <= bound * (1 + Decimal("1e-45"))
    assert max(ratios) >= bound * (1 - Decimal("1e-45"))


@EACH
def test_an_empty_vote_is_within_epsilon_of_every_input(case):
    """Who has no cells answers as one of all inputs, drawn uniformly: the mean of their laws, seed by seed."""
    assert worst_against_empty(case, case.epsilon) <= exp(case.epsilon, 50) * (1 + Decimal("1e-45"))
    # The enumeration is able to fail: with a tenth of the noise the empty vote stands out.
    assert worst_against_empty(case, 10 * case.epsilon) > exp(case.epsilon, 50)


def worst_against_empty(case: Case, epsilon: Fraction) -> Decimal:
    """The largest quotient, either way, of an input's and the empty vote's probability of one message."""
    worst = Decimal(0)
    for seed in case.seeds(3 if case.seed_words else 1):
        laws = [case.law(cells, seed, epsilon).probabilities for cells in case.inputs]
        for column in zip(*laws, strict=True):
            empty = sum(column) / len(column)
            worst = max(worst, max(column) / empty, empty / min(column))
    return worst


@EACH
def test_the_enumeration_rejects_half_the_noise(case):
    ratios = [largest_ratio(case, seed, 2 * case.epsilon) for seed in case.seeds(8 if case.seed_words else 1)]
    assert max(ratios) > exp(case.epsilon, 50)


def chi_square(case: Case, epsilon: Fraction, randomness: Randomness, count: int = 30_000) -> float:
    """The probability of a deviation from the law at least as large as that of messages encoded at epsilon."""
    cells, seed = case.inputs[-1], case.seeds(1)[0]
    law = case.law(cells, seed)
    sent = case.messages(cells, seed, count, epsilon, randomness)
    place = {np.ascontiguousarray(message).tobytes(): index for index, message in enumerate(law.messages)}
    observed = np.zeros(len(law.messages) + 1)
    rows, times = np.unique(sent, axis=0, return_counts=True)
    for row, number in zip(rows, times, strict=True):
        observed[place.get(np.ascontiguousarray(row).tobytes(), len(law.messages))] += number
    chances = np.array([float(chance) for chance in law.probabilities])
    expected = count * np.append(chances, 0 if case.complete else 1 - chances.sum())
    if case.complete:
        assert observed[-1] == 0, "a message that the law does not list"
    # Rare messages are put together, so that the statistic has its distribution.
    rare = expected < 20
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    kept = expected > 0
    statistic = ((observed[kept] - expected[kept]) ** 2 / expected[kept]).sum()
    return float(chi2.sf(statistic, kept.sum() - 1))


@EACH
@pytest.mark.statistical(rate=RATE)
def test_encoder_follows_the_law(case):
    assert chi_square(case, case.epsilon, SystemRandomness()) > RATE


@EACH
def test_the_chi_square_rejects_half_the_noise(case):
    assert chi_square(case, 2 * case.epsilon, SeededRandomness(1)) < RATE


@pytest.mark.parametrize("case", [c for c in CASES if c.complete and not c.seed_words], ids=lambda case: case.name)
def test_counts_are_unbiased_and_variances_exact(case):
    """Sums over all messages of probability times estimate, and times its squared error."""
    mechanism = case.mechanism
    for cells in case.inputs[:3]:
        law = case.law(cells, ())
        chances = np.array([float(chance) for chance in law.probabilities])
        estimates = np.array(
            [mechanism.decode(law.messages[i : i + 1]).counts for i in range(len(law.messages))]
        )  # (messages, cells)
        held = truth(case, cells)
        np.testing.assert_allclose(chances @ estimates, held, atol=1e-12)
        variances = chances @ (estimates - held) ** 2
        expected = np.where(held == 1, mechanism.variance_one, mechanism.variance_zero)
        np.testing.assert_allclose(variances, expected, rtol=1e-11)
        assert mechanism.mean_squared_error == pytest.approx(variances.mean(), rel=1e-11)


def errors(case: Case, messages: np.ndarray, cells: Sequence[int]) -> np.ndarray:
    """How far the mean estimate of each cell is off, in units of its theoretical standard deviation."""
    mechanism: Any = case.mechanism
    held = truth(case, cells)
    if case.shape is None:
        variances = np.where(held == 1, mechanism.variance_one, mechanism.variance_zero)
    else:
        table = held.reshape(case.shape.queries, case.shape.classes)
        rows, columns = table.any(axis=1).astype(int), table.any(axis=0).astype(int)
        variances = np.array(mechanism.moments.variances)[rows[:, None], columns[None, :]].ravel()
    counts = mechanism.decode(messages).counts
    return (counts - len(messages) * held) / np.sqrt(len(messages) * variances)


@UNBIASED
@pytest.mark.statistical(rate=RATE)
def test_mean_estimates_are_the_truth_as_closely_as_their_variance_says(case):
    cells = case.inputs[-1]
    held = np.tile(np.array(cells), (CLIENTS, 1))
    far = errors(case, case.mechanism.encode(held, SystemRandomness()), cells)
    assert np.abs(far).max() < SIGMAS


@pytest.mark.parametrize("case", [c for c in CASES if c.seed_words and not c.mechanism.biased], ids=lambda c: c.name)
def test_a_reused_hash_seed_is_rejected(case):
    cells = case.inputs[-1]
    randomness = SeededRandomness(1)
    messages = (case.messages(cells, seed, CLIENTS, case.epsilon, randomness) for seed in case.seeds(6))
    assert max(np.abs(errors(case, each, cells)).max() for each in messages) > SIGMAS


@EACH
def test_half_the_noise_is_seen_in_the_estimates(case):
    cells = case.inputs[-1]
    held = np.tile(np.array(cells), (CLIENTS, 1))
    messages = case.make(2 * case.epsilon).encode(held, SeededRandomness(1))
    if case.complete:
        assert np.abs(errors(case, messages, cells)).max() > SIGMAS
    else:
        # Additive noise keeps its mean at any ε; its spread tells.
        spread = (messages - truth(case, cells)).var()
        assert spread < 0.5 * case.mechanism.variance_zero


@EACH
def test_every_message_has_fresh_randomness(case):
    mechanism = case.mechanism
    held = np.tile(np.array(case.inputs[0]), (400, 1))
    first, second = (mechanism.encode(held, SystemRandomness()) for _ in range(2))
    assert len(first) == len(second) == 400
    assert not np.array_equal(first, second)
    if case.seed_words:
        seeds = np.concatenate([first, second])[:, :2]
        assert len(np.unique(seeds, axis=0)) == 800


@EACH
def test_counts_add_up_over_clients(case):
    mechanism = case.mechanism
    randomness = SeededRandomness(3)
    parts = [mechanism.encode(np.array(case.inputs[i : i + 3]), randomness) for i in range(3)]
    together = mechanism.decode(np.concatenate(parts))
    np.testing.assert_allclose(together.counts, sum(mechanism.decode(part).counts for part in parts), atol=1e-9)
    assert together.counts.shape == together.variances.shape == (mechanism.cells,)
    assert (together.variances > 0).all()


@EACH
def test_estimated_variances_lie_between_the_extremes(case):
    mechanism: Any = case.mechanism
    held = np.array([case.inputs[i % len(case.inputs)] for i in range(500)])
    variances = mechanism.decode(mechanism.encode(held, SeededRandomness(4))).variances / 500
    kinds = (
        np.array(mechanism.moments.variances)
        if case.shape
        else np.array([mechanism.variance_zero, mechanism.variance_one])
    )
    assert (variances >= kinds.min() * (1 - 1e-12)).all()
    assert (variances <= kinds.max() * (1 + 1e-12)).all()


@EACH
def test_one_client_or_many_and_nobody(case):
    mechanism = case.mechanism
    single = mechanism.sample(np.array(case.inputs[0]), SeededRandomness(1))
    assert np.array_equal(single, mechanism.encode(np.array([case.inputs[0]]), SeededRandomness(1)))
    nobody = mechanism.encode(np.empty((0, mechanism.ones), dtype=np.int64), SystemRandomness())
    assert len(nobody) == 0
    assert not mechanism.decode(nobody).counts.any()


@EACH
def test_order_of_a_clients_cells_does_not_matter(case):
    mechanism = case.mechanism
    cells = np.array([case.inputs[1]])
    forward = mechanism.encode(cells, SeededRandomness(1))
    assert np.array_equal(forward, mechanism.encode(cells[:, ::-1], SeededRandomness(1)))


@EACH
def test_bad_cells_are_refused_by_name_and_range(case):
    mechanism = case.mechanism
    last = mechanism.cells - 1

    def encode(rows: Any) -> None:
        mechanism.encode(np.array(rows), SystemRandomness())

    good = list(case.inputs[0])
    with pytest.raises(InvalidInput, match=rf"cells must be in \[0, {last}\]"):
        encode([[*good[:-1], last + 1]])
    with pytest.raises(InvalidInput, match=rf"cells must be in \[0, {last}\]"):
        encode([[-1, *good[1:]]])
    with pytest.raises(InvalidInput, match=f"ones = {mechanism.ones} columns"):
        encode([[*good, last]])
    with pytest.raises(InvalidInput, match="cells must be integers"):
        encode([[float(cell) for cell in good]])
    if mechanism.ones > 1:
        with pytest.raises(InvalidInput, match="must be different, and one is repeated"):
            encode([[good[0], *good[:-1]]])


@EACH
def test_bad_messages_are_refused(case):
    mechanism = case.mechanism
    messages = mechanism.encode(np.array(case.inputs[:2]), SystemRandomness())
    with pytest.raises(InvalidInput, match="messages must be"):
        mechanism.decode(messages.astype(np.float64))
    with pytest.raises(InvalidInput, match="messages must be"):
        mechanism.decode(messages[:, None])


@EACH
@pytest.mark.parametrize("epsilon", [0, -1, "1e-7", 501])
def test_bad_epsilon_is_refused(case, epsilon):
    with pytest.raises(InvalidInput, match="epsilon must be"):
        case.make(epsilon)


@EACH
def test_messages_have_a_size(case):
    assert 1 <= case.mechanism.message_bits <= 64 * case.mechanism.cells + 400
