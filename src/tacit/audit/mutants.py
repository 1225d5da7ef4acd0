"""Mutants: mistakes that real code of this field makes, seeded on purpose. An audit must catch all of them.

Each mutant claims what the correct mechanism claims. ``tacit audit all --mutants`` must catch every one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import count as every_number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.audit.auditor import ACCOUNT, BOTTOMLESS, RETRIES, open_account, whole_path
from tacit.core import Adjacency, Ceiling, Integers, Randomness, Receipt, Rule, uniform_below
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.auditing import (
    AUDITED_CELLS,
    MOVED,
    PAIR,
    SELECTED,
    Check,
    Estimator,
    Target,
    accounted,
    difference,
    rowwise,
    unbiased,
)
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise, laplace_integers, signs
from tacit.mechanisms.central.estimated_votes import EstimatedGNMax
from tacit.mechanisms.central.pate import GNMax, LNMax, audited_sigma
from tacit.mechanisms.central.private_knn import SubsampledGNMax, sampled_noise
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise, rounded_gaussian_integers
from tacit.mechanisms.central.sampling import POPULATION, SIZE, SubsetSample, exposure_target
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.mechanisms.local.bucket_labels import Concatenation
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.randomized_response import RandomizedLabels
from tacit.mechanisms.local.vote_shape import AUDITED_SHAPE, DIAGONAL
from tacit.mechanisms.registry import audits
from tacit.mechanisms.shuffle.multi_message_noise import AUDITED_PARTICIPANTS, noise_message_target, plan_noise_messages
from tacit.mechanisms.shuffle.negative_binomial import NegativeBinomial
from tacit.mechanisms.shuffle.single_message import planned_response, sent_cells

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True)
class Mutant:
    """A broken copy of a mechanism: its name, the audited mechanism it is a copy of, and what is wrong with it."""

    name: str
    mechanism: str
    flaw: str
    make: Callable[[Fraction, Fraction], Check]

    def check(self, epsilon: Fraction, delta: Fraction) -> Check:
        """The broken mechanism, with the claim of the correct one."""
        return replace(self.make(epsilon, delta), name=self.name)


def _claim(name: str, epsilon: Fraction, delta: Fraction) -> Target:
    """The correct mechanism's claim of privacy."""
    target = audits()[name](epsilon, delta)[0]
    assert isinstance(target, Target)
    return target


def _half_laplace(epsilon: Fraction, delta: Fraction) -> Target:
    claim = _claim("discrete-laplace", epsilon, delta)
    half = DiscreteLaplaceNoise(1 / epsilon, l1=2)
    return rowwise(claim.name, (claim.epsilon, claim.delta), lambda rows: half, MOVED)


def _half_gaussian(epsilon: Fraction, delta: Fraction) -> Target:
    whole = DiscreteGaussianNoise.for_budget(
        epsilon, delta, squared_shift=2, unit_steps=True, repetitions=1, rule=Rule.PLANNED
    )
    half = replace(whole, sigma=whole.sigma / 2)
    return rowwise("half", accounted(whole.spend, delta), lambda rows: half, MOVED, difference)


def _half_rounded_gaussian(epsilon: Fraction, delta: Fraction) -> Target:
    whole = RoundedGaussianNoise.for_budget(epsilon, delta, squared_shift=2)
    half = replace(whole, sigma=whole.sigma / 2)
    return rowwise("half", accounted(whole.spend, delta), lambda rows: half, MOVED, difference)


def _half_gnmax(epsilon: Fraction, delta: Fraction) -> Target:
    claim, sigma = _claim("pate-gnmax", epsilon, delta), audited_sigma(epsilon, delta, math.sqrt(2))
    return rowwise(claim.name, (claim.epsilon, claim.delta), partial(GNMax, sigma / 2), MOVED, difference)


def _one_cell(epsilon: Fraction, delta: Fraction) -> Target:
    # γ is ε instead of ε/2, as if a changed vote were one cell more or less, not both.
    claim = _claim("pate-lnmax", epsilon, delta)
    return rowwise(claim.name, (claim.epsilon, claim.delta), partial(LNMax, epsilon), MOVED)


def _rounded_shares(epsilon: Fraction, delta: Fraction) -> Target:
    claim = _claim("distributed-gaussian", epsilon, delta)

    def draw(row: Sequence[int], count: int, randomness: Randomness) -> Integers:
        table: Integers = np.tile(np.array(row, dtype=np.int64), (count, 1))
        for _ in range(100):
            table += rounded_gaussian_integers(Fraction(1, 10), table.size, randomness).reshape(table.shape)
        return difference(table)

    return replace(claim, draw=draw, cost=100)


def _half_sensitivity(epsilon: Fraction, delta: Fraction) -> Target:
    claim = _claim("permute-and-flip", epsilon, delta)
    one_way = PermuteAndFlip.for_epsilon(epsilon, row_range=1)
    return rowwise(claim.name, (claim.epsilon, claim.delta), lambda rows: one_way, SELECTED)


def _leaked_count(epsilon: Fraction, delta: Fraction) -> Target:
    claim = _claim("permute-and-flip", epsilon, delta)

    def draw(row: Sequence[int], count: int, randomness: Randomness) -> Integers:
        labels = claim.draw(row, count, randomness)
        return np.stack([labels, np.array(row)[labels]], axis=1)

    return replace(claim, draw=draw)


def _truncated_tail(epsilon: Fraction, delta: Fraction) -> Target:
    claim = _claim("discrete-laplace", epsilon, delta)

    def draw(row: Sequence[int], count: int, randomness: Randomness) -> Integers:
        # The inverse of the distribution function at one of 256 points: nothing beyond b·ln 512 can come out.
        points = (uniform_below(256, 2 * count, randomness) + 0.5) / 256
        magnitude = np.rint(-2 / float(epsilon) * np.log1p(-points)).astype(np.int64)
        noise = np.where(signs(2 * count, randomness), magnitude, -magnitude)
        return np.array(row) + noise.reshape(count, 2)

    return replace(claim, draw=draw)


def _reused_noise(epsilon: Fraction, delta: Fraction) -> Target:
    claim = _claim("discrete-laplace", epsilon, delta)
    half = DiscreteLaplaceNoise(4 / epsilon, l1=2)

    def draw(row: Sequence[int], count: int, randomness: Randomness) -> Integers:
        noise = half.sample(np.zeros((count, 2), dtype=np.int64), randomness)
        return np.concatenate([noise, np.array(row) + noise], axis=1)

    return replace(claim, draw=draw)


def _local_sensitivity(epsilon: Fraction, delta: Fraction) -> Target:
    claim, mechanism = _claim("pate-estimated", epsilon, delta), EstimatedGNMax.audited(epsilon, delta)

    def local(lead: int) -> int:
        return int(mechanism.sensitivities(np.array([[lead, 0]] * mechanism.queries))[0])

    def draw(row: Sequence[int], count: int, randomness: Randomness) -> Integers:
        noise = max(1, local(row[0] - row[1])) / (epsilon * 2 / 5)
        return mechanism.cost(np.array([row] * mechanism.queries)) + laplace_integers(noise, count, randomness)[:, None]

    # The shortest long lead around which all cost the same, and a lead of two votes less.
    flat = next(lead for lead in every_number(claim.inputs[0][0]) if not local(lead))
    return replace(claim, inputs=((flat - 1, 1), (flat, 0)), draw=draw, cost=1)


def _with_replacement(epsilon: Fraction, delta: Fraction) -> Target:
    sigma = sampled_noise(epsilon, delta)
    claim = accounted(SubsampledGNMax("1/2", sigma, queries=1).spend, delta)

    def draw(present: bool, count: int, randomness: Randomness) -> Integers:
        drawn = uniform_below(POPULATION, count * SIZE, randomness).reshape(count, SIZE)
        turned = present * (drawn == 0).sum(axis=1)
        votes = np.stack([SIZE - turned, turned], axis=1)
        noise = rounded_gaussian_integers(sigma, votes.size, randomness).reshape(votes.shape)
        return difference(votes + noise)

    return Target("private-knn", *claim, (False, True), draw)


def _underpriced_subset(epsilon: Fraction, delta: Fraction) -> Target:
    price = SubsetSample(SIZE, POPULATION, replacement=True).spend.delta
    return exposure_target("nfdp-subset", price, SubsetSample(SIZE, POPULATION, replacement=False))


def _redrawn_subset(epsilon: Fraction, delta: Fraction) -> Target:
    sample = SubsetSample(SIZE, POPULATION, replacement=False)
    return exposure_target("nfdp-subset", sample.spend.delta, sample, draws=2)


def _half_flips(epsilon: Fraction, delta: Fraction) -> Target:
    return replace(_claim("bits-symmetric", 2 * epsilon, delta), epsilon=epsilon)


def _one_answer_more(epsilon: Fraction, delta: Fraction) -> Target:
    return RandomizedLabels(classes=2, answers=4, epsilon=epsilon * 4 / 3).answered("privatekt-answers", epsilon)


def _reused_seed(epsilon: Fraction, delta: Fraction) -> Estimator:
    mechanism = Collision(AUDITED_CELLS, 2, epsilon)

    def encode(held: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        return mechanism.respond(held, np.tile(randomness.words(2), (len(held), 1)), randomness)

    return unbiased("collision", mechanism, PAIR, encode)


def _product(epsilon: Fraction, delta: Fraction) -> Estimator:
    return unbiased("concatenation", Concatenation(AUDITED_SHAPE, epsilon, corrected=False), DIAGONAL, cost=2)


def _no_flood(epsilon: Fraction, delta: Fraction) -> Target:
    whole = plan_noise_messages(epsilon, delta, cells=2, participants=AUDITED_PARTICIPANTS)
    return noise_message_target("flooded-messages", whole, replace(whole, flood=NegativeBinomial(1, 100)))


def _not_shuffled(epsilon: Fraction, delta: Fraction) -> Target:
    mechanism = planned_response(epsilon, delta)

    def draw(cell: int, count: int, randomness: Randomness) -> Integers:
        return sent_cells(mechanism, cell, count, randomness)[:, :2]

    return Target("shuffled-response", mechanism.spend.epsilon, mechanism.spend.delta, (0, 1), draw, cost=10)


def _wrong_adjacency(epsilon: Fraction, delta: Fraction) -> Target:
    one_way = PermuteAndFlip.for_epsilon(epsilon, row_range=1)
    return whole_path("gate", one_way, ledger=lambda: open_account(Adjacency.ADD_REMOVE))


class _Forgetful(MemoryLedger):
    """A ledger that accepts payments and does not store their releases."""

    def __init__(self) -> None:
        super().__init__({ACCOUNT: Ceiling(BOTTOMLESS)})

    def stored_release(self, receipt: Receipt) -> bytes | None:
        return None

    def store_release(self, receipt: Receipt, payload: bytes) -> bytes:
        return payload


def _redrawn_answer(epsilon: Fraction, delta: Fraction) -> Target:
    mechanism = PermuteAndFlip.for_epsilon(epsilon, row_range=2)
    return whole_path("gate-retried", mechanism, ledger=_Forgetful, times=RETRIES)


def _half_share(epsilon: Fraction, delta: Fraction) -> Check:
    from tacit.audit.transcripts import HalfShare, masked_transcript

    return masked_transcript(epsilon, packets=False, wrap=HalfShare)


def _unmasked(epsilon: Fraction, delta: Fraction) -> Check:
    from tacit.audit.transcripts import masked_transcript, unmasked

    return masked_transcript(epsilon, packets=True, wrap=unmasked)


def _in_order(epsilon: Fraction, delta: Fraction) -> Check:
    from tacit.audit.transcripts import shuffled_transcript, unshuffled

    return shuffled_transcript(epsilon, delta, order=True, make=unshuffled)


_ALL = (
    Mutant("laplace-half-noise", "discrete-laplace", "the noise has half the scale that was paid for", _half_laplace),
    Mutant("gaussian-half-noise", "discrete-gaussian", "the noise has half the σ that was accounted", _half_gaussian),
    Mutant(
        "rounded-gaussian-half-noise",
        "rounded-gaussian",
        "the noise has half the σ that was accounted",
        _half_rounded_gaussian,
    ),
    Mutant("gnmax-half-noise", "pate-gnmax", "the votes' noise has half the σ that was accounted", _half_gnmax),
    Mutant(
        "lnmax-one-cell",
        "pate-lnmax",
        "the noise is for one count that changes, and a teacher that changes its vote changes two",
        _one_cell,
    ),
    Mutant(
        "rounded-shares",
        "distributed-gaussian",
        "a hundred small shares of continuous noise are rounded, each by its holder",
        _rounded_shares,
    ),
    Mutant(
        "one-way-sensitivity",
        "permute-and-flip",
        "calibrated for a record that joins, used where a record is replaced: a factor two",
        _half_sensitivity,
    ),
    Mutant("leaked-count", "permute-and-flip", "the winner's number of votes is released beside it", _leaked_count),
    Mutant(
        "truncated-tail",
        "discrete-laplace",
        "noise made from 256 floating-point numbers is bounded, and the bound reveals the count",
        _truncated_tail,
    ),
    Mutant("reused-noise", "discrete-laplace", "two rounds at half of ε each use the same noise", _reused_noise),
    Mutant(
        "local-sensitivity",
        "pate-estimated",
        "the noise of an estimate is scaled to the local sensitivity, and its size shows where the votes are",
        _local_sensitivity,
    ),
    Mutant(
        "drawn-with-replacement",
        "private-knn",
        "records are drawn with replacement and accounted as a Poisson sample: one may vote several times",
        _with_replacement,
    ),
    Mutant(
        "underpriced-subset",
        "nfdp-subset",
        "records are drawn without replacement and charged as if with, which is less",
        _underpriced_subset,
    ),
    Mutant("redrawn-subset", "nfdp-subset", "the subset is drawn again in a second round, unpaid", _redrawn_subset),
    Mutant(
        "half-the-bits",
        "bits-symmetric",
        "flips are calibrated for the cells a participant has, not for all that differ between two: a factor two",
        _half_flips,
    ),
    Mutant(
        "one-answer-more",
        "privatekt-answers",
        "noise for three answers, and a loop that gives four",
        _one_answer_more,
    ),
    Mutant(
        "reused-hash-seed",
        "collision",
        "all hash with one seed, so collisions never average out",
        _reused_seed,
    ),
    Mutant(
        "product-of-one-message",
        "concatenation-corrected",
        "two estimates from the same message are multiplied as if they were independent",
        _product,
    ),
    Mutant("no-flood", "flooded-messages", "too few noise messages hide one more +1 message", _no_flood),
    Mutant("not-shuffled", "shuffled-response", "messages arrive in the order of the participants", _not_shuffled),
    Mutant(
        "wrong-adjacency",
        "gate",
        "the account is for records that join or leave, and records are replaced",
        _wrong_adjacency,
    ),
    Mutant("redrawn-answer", "gate-retried", "a retried request is drawn again, for one payment", _redrawn_answer),
    Mutant("half-a-share", "masked-sum", "honest holders add half of their shares of the noise", _half_share),
    Mutant("masks-left-out", "masked-packets", "tables leave with their shares of noise only", _unmasked),
    Mutant("order-kept", "shuffled-order", "the shuffler forwards messages in the order in which they came", _in_order),
)

MUTANTS: Mapping[str, Mutant] = {mutant.name: mutant for mutant in _ALL}
