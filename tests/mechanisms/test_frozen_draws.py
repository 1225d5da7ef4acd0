"""Fixed bits in, exact output out: a noise parameter that is off by one percent draws something else.

No affordable number of samples tells noise from noise that is one percent smaller. A script does: every sampler gets
the same stream of words, its output is compared with what it was when the laws of these samplers were proven and
tested, and a case counts only if a parameter moved by a percent, either way, changes the output.
After a change of a sampler that keeps its law but uses its words in another way, freeze the new output (the failing
test prints it) together with the proof that the law is the same.
"""

import hashlib
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest

from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise, gaussian_integers
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise, geometric, laplace_integers
from tacit.mechanisms.central.estimated_votes import EstimatedGNMax
from tacit.mechanisms.central.pate import ConfidentScreen, GNMax, LNMax
from tacit.mechanisms.central.private_knn import SubsampledGNMax, SubsampledScreen
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise, rounded_gaussian_integers
from tacit.mechanisms.central.selection import ExponentialMechanism, PermuteAndFlip
from tacit.mechanisms.central.tested_votes import TestedGNMax
from tacit.mechanisms.exact import bernoulli_exp
from tacit.mechanisms.local.bucket_labels import Concatenation, Separation
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse, RandomizedLabels
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.unary_encoding import LocalLaplace, UnaryEncoding
from tacit.mechanisms.local.vote_shape import VoteShape
from tacit.mechanisms.masked.distributed_gaussian import DistributedGaussian
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace, MaskedShare
from tacit.mechanisms.shuffle.multi_message_noise import MultiMessageNoise
from tacit.mechanisms.shuffle.negative_binomial import NegativeBinomial
from tacit.mechanisms.shuffle.single_message import SingleMessage

TOP = 2**64
PERCENT = Fraction(1, 100)
CLIENTS = 3000
# Four labels a row, with gaps at which a coin is neither sure to fall nor sure to stop.
TABLE = np.array([[0, 1, 2, 3], [5, 5, 4, 2], [9, 0, 8, 7]] * 200)
ONE_CELL = np.arange(CLIENTS)[:, None] % 12
TWO_CELLS = np.column_stack([np.arange(CLIENTS) % 6, 6 + np.arange(CLIENTS) % 5])


class Stream:
    """Words of SHA-256 in counter mode: the same on every machine and with every version of every library."""

    origin = "seeded"

    def __init__(self, seed):
        self.seed, self.block, self.rest = seed, 0, b""

    def words(self, count):
        blocks, missing = [self.rest], 8 * count - len(self.rest)
        for _ in range(-(-max(0, missing) // 32)):
            blocks.append(hashlib.sha256(f"{self.seed}/{self.block}".encode()).digest())
            self.block += 1
        joined = b"".join(blocks)
        taken, self.rest = joined[: 8 * count], joined[8 * count :]
        return np.frombuffer(taken, dtype="<u8").astype(np.uint64)


class Voters:
    """Every record votes for its own label, whatever the question."""

    voters = 400

    def votes(self, query, members):
        return np.bincount(members % 4, minlength=4)


def flooded(noise, flood, share):
    hiding = NegativeBinomial(20, flood * Fraction(1, 2))
    return MultiMessageNoise(12, 1, 10, noise * Fraction(1, 4), 1, hiding, share * Fraction(9, 10))


def distributed(by):
    return DistributedLaplace(7 * by, 2, holders=6, threshold=5, honest=4, most=1000)


def shared_gaussian(by):
    return DistributedGaussian(7 * by, 2, 2400, holders=6, threshold=5, honest=4, most=1000)


# What each sampler draws when its parameter is multiplied by ``by``.
SAMPLERS = {
    "bernoulli_exp": lambda by, bits: bernoulli_exp(np.full(CLIENTS, 3), 2 * by, bits),
    "geometric": lambda by, bits: geometric(Fraction(5) * by, 500, bits),
    "geometric, many digits": lambda by, bits: geometric(Fraction(40_000) * by, 5, bits),
    "laplace_integers": lambda by, bits: laplace_integers(Fraction(7, 2) * by, 500, bits),
    "gaussian_integers": lambda by, bits: gaussian_integers(Fraction(9, 2) * by, 500, bits),
    "rounded_gaussian_integers": lambda by, bits: rounded_gaussian_integers(Fraction(9, 2) * by, 500, bits),
    "DiscreteLaplaceNoise": lambda by, bits: DiscreteLaplaceNoise.for_epsilon(by, 4).sample(TABLE, bits),
    "DiscreteGaussianNoise": lambda by, bits: DiscreteGaussianNoise(3 * by, 2, True).sample(TABLE, bits),
    "RoundedGaussianNoise": lambda by, bits: RoundedGaussianNoise(3 * by, 2).sample(TABLE, bits),
    "PermuteAndFlip": lambda by, bits: PermuteAndFlip.for_epsilon(by, 2).sample(TABLE, bits),
    "ExponentialMechanism": lambda by, bits: ExponentialMechanism.for_epsilon(by, 2).sample(TABLE, bits),
    "LNMax": lambda by, bits: LNMax(by / 4, len(TABLE)).sample(TABLE, bits),
    "GNMax": lambda by, bits: GNMax(3 * by, len(TABLE)).sample(TABLE, bits),
    "ConfidentScreen": lambda by, bits: ConfidentScreen(30 * by, 9, len(TABLE)).sample(TABLE, bits),
    "TestedGNMax": lambda by, bits: TestedGNMax(30 * by, len(TABLE), 10**4, "1/100", 10).sample(TABLE, bits),
    "TestedGNMax, safe": lambda by, bits: TestedGNMax("1/1000", len(TABLE), by / 40, "1/100", 10).sample(TABLE, bits),
    "EstimatedGNMax": lambda by, bits: EstimatedGNMax(3 * by, len(TABLE), 8, 1, "1/100").sample(TABLE, bits)[:-2],
    "EstimatedGNMax, index": lambda by, bits: EstimatedGNMax(3, 3, 8, by / 5, "1/100")._drawn(
        np.array([[5, 1]] * 3), 40, bits
    )[:, 0],
    "EstimatedGNMax, value": lambda by, bits: EstimatedGNMax(3, 3, 8, by, "1/100")._drawn(
        np.array([[5, 1]] * 3), 40, bits
    )[:, 1],
    "SubsampledGNMax, noise": lambda by, bits: SubsampledGNMax("1/2", 40 * by, 20).sample(Voters(), bits),
    "SubsampledGNMax, calling": lambda by, bits: SubsampledGNMax(by / 2, 40, 20).sample(Voters(), bits),
    "SubsampledScreen, noise": lambda by, bits: SubsampledScreen("1/2", 40 * by, 60, 400).sample(Voters(), bits),
    "SubsampledScreen, calling": lambda by, bits: SubsampledScreen(by / 2, 4, 60, 400).sample(Voters(), bits),
    "GeneralizedRandomizedResponse": lambda by, bits: GeneralizedRandomizedResponse(12, 1, by).sample(ONE_CELL, bits),
    "GeneralizedRandomizedResponse, two": lambda by, bits: GeneralizedRandomizedResponse(12, 2, by).sample(
        TWO_CELLS, bits
    ),
    "RandomizedLabels": lambda by, bits: RandomizedLabels(12, 2, 2 * by).fill(ONE_CELL.reshape(-1, 2), bits),
    "UnaryEncoding": lambda by, bits: UnaryEncoding(12, 2, by).sample(TWO_CELLS, bits),
    "UnaryEncoding, symmetric": lambda by, bits: UnaryEncoding(12, 2, by, symmetric=True).sample(TWO_CELLS, bits),
    "SubsetSelection": lambda by, bits: SubsetSelection(12, 1, by, size=3).sample(ONE_CELL, bits),
    "SubsetSelection, two": lambda by, bits: SubsetSelection(12, 2, by, size=3).sample(TWO_CELLS, bits),
    "Collision": lambda by, bits: Collision(12, 2, by, length=9).sample(TWO_CELLS, bits),
    "LinearHashing": lambda by, bits: LinearHashing(12, 1, by, size=4).sample(ONE_CELL, bits),
    "Separation": lambda by, bits: Separation(VoteShape(4, 3), by).sample(ONE_CELL, bits),
    "Concatenation": lambda by, bits: Concatenation(VoteShape(4, 3), by, True, 5).sample(ONE_CELL, bits),
    "LocalLaplace": lambda by, bits: LocalLaplace(12, 2, by).sample(TWO_CELLS[:100], bits),
    "NegativeBinomial": lambda by, bits: NegativeBinomial("1/3", by).scatter(100, 20, bits),
    "NegativeBinomial, shape": lambda by, bits: NegativeBinomial(by / 3, 1).scatter(100, 20, bits),
    "MultiMessageNoise, noise": lambda by, bits: flooded(by, 1, 1).sample(ONE_CELL[:200], bits),
    "MultiMessageNoise, flood": lambda by, bits: flooded(1, by, 1).sample(ONE_CELL[:200], bits),
    "MultiMessageNoise, crowd": lambda by, bits: flooded(1, 1, 1 / by).sample(ONE_CELL[:200], bits),
    "SingleMessage": lambda by, bits: SingleMessage(GeneralizedRandomizedResponse(12, 1, by), CLIENTS, "1e-6").sample(
        ONE_CELL, bits
    ),
    "DistributedLaplace, share": lambda by, bits: distributed(by).share(400, bits),
    "DistributedLaplace, all": lambda by, bits: distributed(by).sample(TABLE, bits),
    "DistributedGaussian, share": lambda by, bits: shared_gaussian(by).share(400, bits),
    "DistributedGaussian, all": lambda by, bits: shared_gaussian(by).sample(TABLE, bits),
    "MaskedShare": lambda by, bits: MaskedShare(distributed(by), "s", np.arange(2400, dtype=np.uint64)).sample(
        TABLE * 200, bits
    ),
}


# The seed of the stream, the first values drawn, and a digest of all of them.
FROZEN = {
    "bernoulli_exp": (2, [0, 1, 0], "4ccb3ceec382aed5"),
    "geometric": (1, [5, 1, 1], "daee747e291edffd"),
    "geometric, many digits": (7, [160596, 3321, 120316], "01d9540b16a23eb5"),
    "laplace_integers": (1, [-4, -1, 1], "854f3bf362812b02"),
    "gaussian_integers": (1, [-5, -1, 1], "ebc56c6a14b35bdc"),
    "rounded_gaussian_integers": (1, [-5, -1, -13], "cfba7107f035b242"),
    "DiscreteLaplaceNoise": (1, [4, 2, 3], "c60da96c62d40282"),
    "DiscreteGaussianNoise": (1, [-4, 2, 1], "f7b2e815a3975426"),
    "PermuteAndFlip": (2, [1, 1, 3], "d64b27923fb2cad9"),
    "ExponentialMechanism": (8, [2, 0, 2], "ce4ce692f5f9ba7a"),
    "LNMax": (1, [4, 2, 3], "c60da96c62d40282"),
    "GNMax": (1, [-4, 2, 1], "f7b2e815a3975426"),
    "ConfidentScreen": (1, [0, 1, 1], "a1b45fe3c0510fe6"),
    "TestedGNMax": (1, [1, 1, 1], "79efc733c6427889"),
    "TestedGNMax, safe": (1, [1, 1, 2], "694d6ff3f25ba812"),
    "EstimatedGNMax": (1, [3, 1, 3], "9e6d5d188566878d"),
    "EstimatedGNMax, index": (1, [607, 644, 643], "4abd728b16885a4e"),
    "EstimatedGNMax, value": (1, [4278183, 3091279, 3240196], "43d37c8208a542c4"),
    "SubsampledGNMax, noise": (18, [58, 59, 5], "1ff4e5376de916e8"),
    "SubsampledGNMax, calling": (1, [-43, 4, 133], "6a11b663386184d4"),
    "SubsampledScreen, noise": (1, [0, 1, 1], "d44b2b15afe2878e"),
    "SubsampledScreen, calling": (1, [0, 0, 0], "8d3cd975b59d922c"),
    "GeneralizedRandomizedResponse": (1, [10, 2, 0], "c3659c1ae5329e59"),
    "GeneralizedRandomizedResponse, two": (1, [6, 2, 0], "de4ec9ad98065b8f"),
    "RandomizedLabels": (1, [10, 2, 0], "c3659c1ae5329e59"),
    "UnaryEncoding": (1, [199, 9, 66], "e6607f74ff1c0d77"),
    "UnaryEncoding, symmetric": (1, [166, 9, 88], "52f3a59879a15165"),
    "SubsetSelection": (3, [17, 2, 20], "ce83c8ff2e914654"),
    "SubsetSelection, two": (1, [3, 2, 129], "f0aa1c7754447ffa"),
    "Collision": (1, [-5787784391520299496, 6014516709719562021, 5], "df7f9f5b2e7a1701"),
    "LinearHashing": (2, [32, 16, 52], "15ff473ad30ef522"),
    "Separation": (1, [-5787784391520299496, 6014516709719562021, 2], "74f13fb745bc8705"),
    "Concatenation": (1, [-5787784391520299496, 6014516709719562021, 3], "bc991e4e6aab2428"),
    "LocalLaplace": (1, [5, -1, -1], "597c2cfe40f5df1c"),
    "NegativeBinomial": (2, [0, 0, 1], "95f90fd7c9dcfca7"),
    "NegativeBinomial, shape": (5, [0, 1, 2], "2fce99fb08fceac5"),
    "MultiMessageNoise, noise": (1, [0, 1, 0], "3a21c0c9348205be"),
    "MultiMessageNoise, flood": (1, [0, 1, 0], "3a21c0c9348205be"),
    "MultiMessageNoise, crowd": (1, [0, 1, 0], "3a21c0c9348205be"),
    "SingleMessage": (1, [10, 2, 0], "c3659c1ae5329e59"),
    "DistributedLaplace, share": (1, [0, 0, 1], "88a9b18bf6cc4111"),
    "DistributedLaplace, all": (1, [3, -4, -1], "23f21a468ec42221"),
    "RoundedGaussianNoise": (1, [4, -3, 3], "b71006313530cf9e"),
    "DistributedGaussian, share": (1, [-9, -3, 9], "a176931349d6cfd9"),
    "DistributedGaussian, all": (1, [8, 0, 12], "29d13e01a37ca332"),
    "MaskedShare": (1, [65535, 182, 398], "4fa4807af9188aaa"),
}


def drawn(name, by=Fraction(1)):
    values = SAMPLERS[name](by, Stream(FROZEN[name][0]))
    parts = values if isinstance(values, tuple) else (values,)
    return np.concatenate([np.ravel(part).astype(np.uint64) for part in parts]).astype("<u8")


def summary(values):
    return values[:3].astype("<i8").tolist(), hashlib.sha256(values.tobytes()).hexdigest()[:16]


def test_every_sampler_has_a_frozen_draw():
    assert SAMPLERS.keys() == FROZEN.keys()


@pytest.mark.parametrize("name", FROZEN)
def test_the_same_bits_give_the_same_draw(name):
    assert summary(drawn(name)) == FROZEN[name][1:]


@pytest.mark.parametrize("name", FROZEN)
@pytest.mark.parametrize("by", [1 - PERCENT, 1 + PERCENT])
def test_a_parameter_that_is_off_by_a_percent_draws_something_else(name, by):
    assert not np.array_equal(drawn(name), drawn(name, by))


def threshold(exponent):
    """The word at which a coin of probability e^exponent turns, from decimal alone."""
    context = Context(prec=60)
    return int(context.multiply(context.exp(context.divide(Decimal(exponent.numerator), exponent.denominator)), TOP))


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 10), Fraction(7)])
def test_permute_and_flip_stops_exactly_where_its_law_says(scripted, epsilon):
    """Label 1 is one vote behind and is looked at first: it is taken below e^(−ε/2) and not above."""
    edge = threshold(-epsilon / 2)
    for word, label in ((edge - 1, 1), (edge + 1, 0)):
        source = scripted([0, word, 2, 1])
        assert PermuteAndFlip.for_epsilon(epsilon, 2).sample(np.array([[8, 7]]), source).tolist() == [label]
        assert source.used == 4


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 10), Fraction(7)])
def test_the_exponential_mechanism_keeps_exactly_where_its_law_says(scripted, epsilon):
    """Label 1 is drawn first; below e^(−ε/2) it is kept, above it the next draw, label 0, is."""
    edge = threshold(-epsilon / 2)
    for word, label in ((edge - 1, 1), (edge + 1, 0)):
        source = scripted([1] * 10 + [word] + [0] * 10 + [0])
        assert ExponentialMechanism.for_epsilon(epsilon, 2).sample(np.array([[8, 7]]), source).tolist() == [label]


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 2), Fraction(7)])
def test_discrete_laplace_noise_turns_exactly_where_its_law_says(scripted, epsilon):
    """Of a magnitude's words, a share 1 − e^(−ε/l1) gives zero; the next bit says on which side the noise lies."""
    edge = TOP - threshold(-epsilon / 2)
    for word, noise in ((edge - 2, 0), (edge + 1, 1)):
        assert DiscreteLaplaceNoise.for_epsilon(epsilon, 2).sample(np.array([5]), scripted([word, 0])) == 5 + noise


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 10), Fraction(7)])
def test_randomized_response_turns_exactly_where_its_law_says(scripted, epsilon):
    """Of 12 cells another is named below 11/(11 + e^ε) and the client's own above."""
    context = Context(prec=60)
    weight = context.exp(context.divide(Decimal(epsilon.numerator), epsilon.denominator))
    edge = int(context.multiply(context.divide(Decimal(11), context.add(Decimal(11), weight)), TOP))
    for word, cell in ((edge - 1, 0), (edge + 1, 4)):
        source = scripted([word] + [0] * 40)
        assert GeneralizedRandomizedResponse(12, 1, epsilon).sample(np.array([4]), source).tolist() == [cell]
