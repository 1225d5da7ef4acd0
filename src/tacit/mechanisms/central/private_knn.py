"""The mechanisms of Private k-NN: noisy votes of a fresh Poisson sample of the voters for every query.

The holder only says which voters a query can reach and how given voters vote. The mechanism draws the sample, applies
the individual filter, adds the noise and states the spend, so that what is accounted is what is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core import Gaussian, Integers, InvalidInput, Number, Randomness, Repeated, Sensitivity, Subsampled, exact
from tacit.mechanisms.auditing import Check, Target, accounted, difference
from tacit.mechanisms.central.counts import count_rows
from tacit.mechanisms.central.pate import asked_queries, audited_sigma, in_range
from tacit.mechanisms.central.rounded_gaussian import noise_multiplier, rounded_gaussian_integers
from tacit.mechanisms.description import COUNT, EXACT, FLAG, WHOLE, Checks, Described, NoiseLaw, Parameters
from tacit.mechanisms.exact import bernoulli, precision
from tacit.mechanisms.forms import Flags

__all__ = ["Electorate", "Sampling", "SubsampledGNMax", "SubsampledScreen", "sampled_noise"]

# Below a hundredth rounding removes the noise, and its sampler is slow.
_SMALLEST_SIGMA, _LARGEST_SIGMA = "0.01", "1e12"
_SAMPLED: Parameters = {
    "rate": EXACT,
    "sigma": EXACT,
    "queries": COUNT,
    "squared_shift": COUNT,
    "replace_one": FLAG,
    "participations": COUNT,
}


class Electorate(Protocol):
    """The voters on queries: each is a record, or a person with all its records."""

    @property
    def voters(self) -> int:
        """How many voters there are."""
        ...

    def reached(self, query: int) -> NDArray[np.bool_]:
        """Which voters a query can reach at all; this depends on the voter and the query alone."""
        ...

    def votes(self, query: int, members: Integers) -> Integers:
        """The histogram of votes on a query if only these voters exist."""
        ...


@dataclass(frozen=True)
class Sampling:
    """Who votes on each query: a fresh Poisson sample of the voters that may still take part.

    **Law.** A voter may take part in the first ``participations`` queries that can reach it. Each voter that may take
    part is sampled with probability ``rate``, independently for every query.

    **Proof that the filter is sound.** Which queries reach a voter, and so where its participations end, depends on
    that voter and on the queries alone, never on other voters or on who was sampled. With and without the voter, all
    queries but at most ``participations`` are answered by the same law. So its total cost is that of ``participations``
    sampled Gaussians, at every Rényi order, even if queries are chosen by earlier answers. This is the individual Rényi
    filter of V. Feldman and T. Zrnic (NeurIPS 2021) for queries of equal cost. Replacing a voter can affect twice as
    many queries, so the filter is for add-remove adjacency. Who was left out is never released.
    """

    rate: Fraction
    queries: int
    participations: int

    def called(self, electorate: Electorate, randomness: Randomness) -> list[Integers]:
        """The sampled voters of every query."""
        everywhere, taken = self.participations >= self.queries, np.zeros(electorate.voters, dtype=np.int64)
        members = []
        for query in range(self.queries):
            heads = self.heads(electorate.voters, randomness)
            if not everywhere:
                may = electorate.reached(query) & (taken < self.participations)
                # Counted whether sampled or not: the cost is that of the probability of being sampled.
                taken += may
                heads &= may
            members.append(np.flatnonzero(heads))
        return members

    def heads(self, voters: int, randomness: Randomness) -> NDArray[np.bool_]:
        """Who is sampled for one query: each voter with probability ``rate``, independently and exactly.

        >>> from tacit.core.randomness import SeededRandomness
        >>> Sampling(Fraction(1), 1, 1).heads(3, SeededRandomness(1)).tolist()
        [True, True, True]
        """
        return bernoulli(np.full(voters, float(self.rate)), partial(_quotient, self.rate), randomness)


def _quotient(probability: Fraction, _index: int, digits: int) -> Decimal:
    return precision(digits).divide(Decimal(probability.numerator), Decimal(probability.denominator))


def _sampling(rate: Number, queries: int, participations: int | None, replace_one: bool) -> Sampling:
    chance, asked = exact(rate, "rate"), asked_queries(queries)
    if not 0 < chance <= 1:
        raise InvalidInput(f"rate must be in (0, 1], got {rate}")
    limit = asked if participations is None else int(participations)
    if not 1 <= limit <= asked:
        raise InvalidInput(f"participations must be from 1 to the {asked} queries, got {participations}")
    if limit < asked and replace_one:
        raise InvalidInput("participations can be limited under add-remove adjacency only")
    return Sampling(chance, asked, limit)


def _shift(squared_shift: int) -> int:
    if squared_shift < 1:
        raise InvalidInput(f"squared_shift must be at least 1, got {squared_shift}")
    return int(squared_shift)


def _price(sampling: Sampling, sigma: Fraction, squared_shift: int, replace_one: bool) -> Repeated:
    """The cost of the noise and the sample."""
    once = Subsampled(sampling.rate, Gaussian(noise_multiplier(sigma, squared_shift)), replace_one)
    return Repeated(once, sampling.participations)


@dataclass(frozen=True)
class SubsampledGNMax(Described):
    """Votes of a fresh Poisson sample of the voters for every query, with Gaussian noise: Private k-NN.

    **Law.** ``Sampling`` draws the voters; their votes get independent Gaussian noise of standard deviation σ, rounded
    to integers.

    **Spend.** ``Repeated(Subsampled(rate, Gaussian(σ/√squared_shift), replace_one), participations)``; participations
    are all queries by default. For k nearest neighbors squared_shift is 2: a record that is added takes one vote from
    another.

    **Proof.** Given the other sampled voters, any two of the votes without a voter, with it, and with another in its
    place are at most √squared_shift apart. This is the Poisson-subsampled Gaussian mechanism under either adjacency.
    Counts are integers, so adding rounded noise is the same as rounding after adding: post-processing.

    **Source.** Y. Zhu et al., Private-kNN: practical differential privacy for computer vision, CVPR 2020, with
    integer noise and with the sampler it accounts for.

    >>> SubsampledGNMax("0.15", 50, queries=735).spend.count
    735
    """

    name = "sampled-votes"
    statistic = "electorate"
    releases = "counts"
    needs_delta = True
    parameters: ClassVar[Parameters] = _SAMPLED

    rate: Fraction
    sigma: Fraction
    queries: int
    squared_shift: int
    replace_one: bool
    participations: int

    def __init__(
        self,
        rate: Number,
        sigma: Number,
        queries: int,
        squared_shift: int = 2,
        replace_one: bool = False,
        participations: int | None = None,
    ) -> None:
        sampling = _sampling(rate, queries, participations, replace_one)
        object.__setattr__(self, "rate", sampling.rate)
        object.__setattr__(self, "sigma", in_range(sigma, "sigma", _SMALLEST_SIGMA, _LARGEST_SIGMA))
        object.__setattr__(self, "queries", sampling.queries)
        object.__setattr__(self, "squared_shift", _shift(squared_shift))
        object.__setattr__(self, "replace_one", bool(replace_one))
        object.__setattr__(self, "participations", sampling.participations)

    @property
    def sampling(self) -> Sampling:
        """Who votes."""
        return Sampling(self.rate, self.queries, self.participations)

    @property
    def spend(self) -> Repeated:
        """The cost of all questions."""
        return _price(self.sampling, self.sigma, self.squared_shift, self.replace_one)

    @property
    def max_sensitivity(self) -> Sensitivity:
        """The largest sensitivity of the votes on one query, for a sampled voter added, removed or replaced."""
        return Sensitivity(l2_squared=self.squared_shift)

    def sample(self, value: Electorate, randomness: Randomness) -> Integers:
        """The noisy votes, one row per query."""
        called = self.sampling.called(value, randomness)
        table = count_rows(np.stack([value.votes(query, members) for query, members in enumerate(called)]))
        return table + rounded_gaussian_integers(self.sigma, table.size, randomness).reshape(table.shape)

    @property
    def noise_law(self) -> NoiseLaw:
        """The law of the noise on each vote; rounding adds a twelfth to its variance."""
        return NoiseLaw("gaussian", float(self.sigma), float(self.sigma) ** 2 + 1 / 12)

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """Private k-NN with rate ½: one record is added or replaced, and changes the vote whenever it is sampled.

        With one participation a record that every query reaches changes the first vote only.
        """

        def turned(epsilon: Fraction, delta: Fraction) -> list[Check]:
            sigma = sampled_noise(epsilon, delta)

            def draw(voters: TwoVoters, count: int, randomness: Randomness) -> Integers:
                return difference(cls("1/2", sigma, queries=count).sample(voters, randomness))

            claim = accounted(cls("1/2", sigma, queries=1).spend, delta)
            return [Target("private-knn", *claim, (TwoVoters(1), TwoVoters(2)), draw, cost=20)]

        def replaced(epsilon: Fraction, delta: Fraction) -> list[Check]:
            sigma = sampled_noise(epsilon, delta)

            def draw(voters: TwoVoters, count: int, randomness: Randomness) -> Integers:
                table = cls("1/2", sigma, queries=count, replace_one=True).sample(voters, randomness)
                return difference(table[:, 1:])

            claim = accounted(cls("1/2", sigma, queries=1, replace_one=True).spend, delta)
            return [Target("private-knn-replaced", *claim, (TwoVoters(2, 1), TwoVoters(2, 2)), draw, cost=20)]

        def filtered(epsilon: Fraction, delta: Fraction) -> list[Check]:
            sigma = sampled_noise(epsilon, delta)
            mechanism = cls("1/2", sigma, queries=2, participations=1)

            def draw(voters: TwoVoters, count: int, randomness: Randomness) -> Integers:
                pairs = [difference(mechanism.sample(voters, randomness)) for _ in range(count)]
                return np.stack(pairs).reshape(count, -1)

            claim = accounted(mechanism.spend, delta)
            return [Target("private-knn-filtered", *claim, (TwoVoters(1), TwoVoters(2)), draw, cost=60)]

        return {"private-knn": turned, "private-knn-replaced": replaced, "private-knn-filtered": filtered}


@dataclass(frozen=True)
class SubsampledScreen(Described):
    """On which queries the neighbors agree: the first half of Private k-NN with screening.

    **Law.** ``Sampling`` draws the voters; true where the largest count plus Gaussian noise of standard deviation σ,
    rounded to an integer, reaches ``threshold``.

    **Spend.** ``Repeated(Subsampled(rate, Gaussian(σ/√squared_shift), replace_one), participations)`` for every query
    screened, whether it passes or not. The answers are a second mechanism with its own samples.

    **Proof.** Given the other sampled voters, adding or replacing a record changes the largest count of a query by at
    most one: squared_shift is 1, and m² if a voter is a person with m records. The comparison with a public threshold
    is post-processing.

    **Source.** As for ``SubsampledGNMax``; the screen is that of N. Papernot et al., Scalable private learning with
    PATE, ICLR 2018.

    >>> SubsampledScreen("0.15", 150, 200, queries=735).spend.spend.spend
    Gaussian(noise_multiplier=Fraction(150, 1))
    """

    name = "sampled-screen"
    statistic = "electorate"
    releases = "flags"
    needs_delta = True
    parameters: ClassVar[Parameters] = {**_SAMPLED, "threshold": WHOLE}

    rate: Fraction
    sigma: Fraction
    threshold: int
    queries: int
    squared_shift: int
    replace_one: bool
    participations: int

    def __init__(
        self,
        rate: Number,
        sigma: Number,
        threshold: int,
        queries: int,
        squared_shift: int = 1,
        replace_one: bool = False,
        participations: int | None = None,
    ) -> None:
        sampling = _sampling(rate, queries, participations, replace_one)
        object.__setattr__(self, "rate", sampling.rate)
        object.__setattr__(self, "sigma", in_range(sigma, "sigma", _SMALLEST_SIGMA, _LARGEST_SIGMA))
        object.__setattr__(self, "threshold", int(threshold))
        object.__setattr__(self, "queries", sampling.queries)
        object.__setattr__(self, "squared_shift", _shift(squared_shift))
        object.__setattr__(self, "replace_one", bool(replace_one))
        object.__setattr__(self, "participations", sampling.participations)

    @property
    def sampling(self) -> Sampling:
        """Who votes."""
        return Sampling(self.rate, self.queries, self.participations)

    @property
    def spend(self) -> Repeated:
        """The cost of screening every query."""
        return _price(self.sampling, self.sigma, self.squared_shift, self.replace_one)

    @property
    def max_sensitivity(self) -> Sensitivity:
        """The largest change of a count, which bounds that of the largest count."""
        return Sensitivity(linf=math.isqrt(self.squared_shift))

    def sample(self, value: Electorate, randomness: Randomness) -> NDArray[np.bool_]:
        """Whether each question passes."""
        called = self.sampling.called(value, randomness)
        table = count_rows(np.stack([value.votes(query, members) for query, members in enumerate(called)]))
        noise = rounded_gaussian_integers(self.sigma, self.queries, randomness)
        passes: NDArray[np.bool_] = table.max(axis=1) + noise >= self.threshold
        return passes

    def answer_form(self, rows: int, columns: int, limit: int) -> Flags:
        """Whether each question passes."""
        return Flags(rows)

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """One record is added: whenever it is sampled, there are two votes for the same class and not one."""

        def passed(epsilon: Fraction, delta: Fraction) -> list[Check]:
            sigma = sampled_noise(epsilon, delta, 1.0)
            # A threshold at which a pass is strong evidence and still frequent enough.
            threshold = 1 + math.ceil(2 * sigma)

            def draw(voters: TwoVoters, count: int, randomness: Randomness) -> Integers:
                flags = cls("1/2", sigma, threshold, queries=count).sample(voters, randomness)
                return flags.astype(np.int64)[:, None]

            claim = accounted(cls("1/2", sigma, threshold, queries=1).spend, delta)
            return [Target("private-knn-screen", *claim, (TwoVoters(1, 0), TwoVoters(2, 0)), draw, cost=20)]

        return {"private-knn-screen": passed}


@dataclass(frozen=True)
class TwoVoters:
    """One or two voters: the second, if sampled, takes the vote from class 0 for its own class, or adds to class 0."""

    voters: int
    own: int = 1

    def reached(self, query: int) -> NDArray[np.bool_]:
        """Every query reaches every voter."""
        return np.ones(self.voters, dtype=np.bool_)

    def votes(self, query: int, members: Integers) -> Integers:
        """One vote, or two for class 0."""
        counts = np.array([1, 0, 0])
        if 1 in members:
            counts[0] -= self.own > 0
            counts[self.own] += 1
        return counts


def sampled_noise(epsilon: Fraction, delta: Fraction, shift: float = math.sqrt(2)) -> Fraction:
    """The σ for rate ½: (ε', 2δ) on all records is (ε, δ) on a sample of half of them, e^ε' − 1 = 2(e^ε − 1).

    >>> round(float(sampled_noise(Fraction(1), Fraction(1, 100))), 3)
    1.757
    """
    return audited_sigma(math.log1p(2 * math.expm1(epsilon)), 2 * delta, shift)
