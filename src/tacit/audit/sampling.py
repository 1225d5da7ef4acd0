"""Checks of training on a secret subset: how often a record is in it, which is what it costs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tacit.audit.checks import Target
from tacit.core.protocols import Integers
from tacit.core.randomness import Randomness
from tacit.mechanisms.central.sampling import StratifiedSample, SubsetSample

__all__ = ["POPULATION", "SIZE", "exposure", "stratified_sample", "subset_sample"]

SIZE, POPULATION = 10, 20


def exposure(name: str, claimed: Fraction, sample: SubsetSample, draws: int = 1) -> Target:
    """Records 0, 1, 2, … or with record 0 replaced by a record that is named −1: is either among those drawn?"""

    def draw(first: int, count: int, randomness: Randomness) -> Integers:
        records = np.array([first, *range(1, sample.population)])
        rows = [[sample.sample([records], randomness)[0] for _ in range(draws)] for _ in range(count)]
        drawn = np.array(rows).reshape(count, -1)
        return np.stack([(drawn == each).sum(axis=1) for each in (0, -1)], axis=1)

    return Target(name, Fraction(0), claimed, (0, -1), draw, cost=20)


def subset_sample(replacement: bool) -> Target:
    """Ten records of twenty."""
    sample = SubsetSample(SIZE, POPULATION, replacement)
    return exposure("nfdp-with-replacement" if replacement else "nfdp-subset", sample.spend.delta, sample)


def stratified_sample() -> Target:
    """One record of each of two classes: the smaller one is exposed more, and it is there that a record changes."""
    sample = StratifiedSample((SubsetSample(1, 8, replacement=False), SubsetSample(1, 4, replacement=False)))
    labels = np.repeat([0, 1], [8, 4])

    def draw(last: int, count: int, randomness: Randomness) -> Integers:
        records = np.array([*range(11), last])
        drawn = np.array([sample.sample([records, labels], randomness)[0] for _ in range(count)])
        return np.stack([(drawn == each).sum(axis=1) for each in (11, -1)], axis=1)

    return Target("nfdp-stratified", Fraction(0), sample.spend.delta, (11, -1), draw, cost=40)
