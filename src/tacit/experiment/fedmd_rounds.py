"""The rounds of a federation played in one place: the parties, the exchange, and what is measured after every round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.protocols import Integers
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.core.release import Release
from tacit.exchange.local import local_exchange
from tacit.experiment.drive import drive
from tacit.experiment.fedmd_models import StartingModel
from tacit.experiment.fedmd_setting import Setting
from tacit.experiment.fedmd_variants import Books
from tacit.mechanisms.central.sampling import StratifiedSample, SubsetSample
from tacit.methods.fedmd.coordinator import Outcome, PredictCoordinator, VoteCoordinator
from tacit.methods.fedmd.holder import RandomizedParty, SubsetParty, VotingParty
from tacit.methods.fedmd.study import Schedule, Study
from tacit.private.gate import Gate
from tacit.private.records import Private

__all__ = ["Curve", "party_sides", "run_rounds"]

Party = SubsetParty | RandomizedParty | VotingParty


class Curve:
    """Accuracies of all parties, measured after every step: for experiments on data whose labels are known."""

    def __init__(
        self,
        models: Sequence[StartingModel],
        test: tuple[NDArray[Any], Integers] | None,
        progress: Callable[[int, float | None], None] | None,
    ) -> None:
        self._models = models
        self._test = test
        self._progress = progress
        self.rows: list[list[float]] = []
        self._steps = 0

    def measure(self) -> None:
        """One more row."""
        mean = None
        if self._test is not None:
            samples, labels = self._test
            self.rows.append([float((model.predict(samples) == labels).mean()) for model in self._models])
            mean = float(np.mean(self.rows[-1]))
        if self._progress is not None:
            self._progress(self._steps, mean)
        self._steps += 1


def run_rounds(
    coordinator: PredictCoordinator | VoteCoordinator, sides: Sequence[Party], curve: Curve
) -> Release[Outcome]:
    """The whole run: questions and answers, then what the parties have yet to learn."""
    exchange = local_exchange(sides)

    def measured(ask: Any) -> Any:  # noqa: ANN401
        answers = exchange(ask)
        if isinstance(coordinator, PredictCoordinator):
            curve.measure()
        return answers

    release: Release[Outcome] = drive(coordinator, measured)
    if isinstance(coordinator, VoteCoordinator):
        # Voting needs no model, so the first training on own records is yet to be done.
        for side in sides:
            assert isinstance(side, VotingParty)
            side.begin()
        curve.measure()
    for feedback in release.value.remaining:
        for side in sides:
            side.learn(feedback)
        curve.measure()
    return release


def party_sides(
    variant: str,
    setting: Setting,
    books: Books,
    models: Sequence[StartingModel],
    samples: Sequence[SubsetSample | StratifiedSample],
    schedule: Schedule,
    seed: int | None,
) -> list[Party]:
    """Every party with its records, its gate and its model, of the kind that the variant needs."""
    sides: list[Party] = []
    for party, (records, model) in enumerate(zip(setting.records, models, strict=True)):
        randomness = SystemRandomness() if seed is None else SeededRandomness(seed * 1009 + party)
        gate = Gate(books.ledgers[party], books.accounts[party], randomness)
        study, private = Study(model, setting.public, schedule), Private(records)
        if samples:
            sides.append(SubsetParty(private, samples[party], gate, study))
        else:
            sides.append((VotingParty if variant == "rknn" else RandomizedParty)(private, gate, study))
    return sides
