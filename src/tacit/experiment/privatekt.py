"""PrivateKT in one call: many holders answer a few questions a round, and a global model learns from the answers."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers, Ledger
from tacit.core.rational import Number, probability
from tacit.datasets.classes import class_indices
from tacit.experiment.copies import warn_of_copies
from tacit.experiment.drive import drive
from tacit.experiment.inputs import class_names, labeled, one_column, public_rows, rows, seeded, whole
from tacit.experiment.kept_rounds import KeptRounds
from tacit.experiment.privatekt_paying import ledger_for, paying_holders, randomness_of
from tacit.experiment.privatekt_plan import plan_transfer
from tacit.experiment.privatekt_result import Transfer, guarantees_of, recipe_of
from tacit.methods.privatekt.coordinator import LabelCoordinator, Teaching, TransferState
from tacit.methods.privatekt.holder import LabelCohort, LabelHolder
from tacit.methods.privatekt.knowledge import Learner
from tacit.methods.privatekt.models import Learning, models
from tacit.private.gate import Gate
from tacit.private.partition import split_by_dirichlet, split_by_owner, split_evenly
from tacit.private.records import Private, Records

__all__ = ["Transfer", "transfer"]


def transfer(
    private: tuple[ArrayLike, ArrayLike],
    public: ArrayLike,
    epsilon: Number | None = None,
    *,
    delta: Number = "1e-5",
    round_epsilon: Number | None = None,
    rounds: int = 100,
    answers: int = 2,
    holders: int | ArrayLike = 10,
    alpha: float | None = None,
    participation: float = 0.5,
    most: int | None = None,
    model: Any = "auto",  # noqa: ANN401
    local: Any = None,  # noqa: ANN401
    learning: Learning | None = None,
    teaching: Teaching | None = None,
    classes: Iterable[Any] | None = None,
    ledger: Ledger | str | Path | None = None,
    account: str = "holder",
    request: str | None = None,
    keep: str | Path | None = None,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    every: int = 10,
    seed: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Transfer:
    """Teach a global model what the ``private`` records (X, y) of many holders know, through answers about ``public``.

    ``epsilon`` is the total of a holder over all rounds it takes part in, or ``round_epsilon`` what one round costs
    it. ``holders`` is their number (with ``alpha``, classes are shared out by Dirichlet draws) or one owner a record.
    ``model`` is a network by name (``auto`` suits the samples) or any scikit-learn classifier, ``local`` the holders'
    own where it is another. Each holder pays from an account of its own, ``"<account> <owner>"`` or, where holders are
    numbered, ``"<account> <place>"``, in a ``ledger`` file, which is made where there is none. With ``keep``, a folder,
    a run that was stopped goes on where it was, and nobody pays twice. A ``seed`` makes the run a simulation, which
    pays from no real ledger. ``test`` is measured after every few rounds.

    >>> from tacit.datasets.digits import digits
    >>> from tacit.students.weighted import logistic
    >>> parts = digits()
    >>> run = transfer((parts.private_samples, parts.private_labels), parts.public_samples, round_epsilon=4, delta=0,
    ...                rounds=6, holders=20, model=logistic(), classes=range(10), seed=1)
    >>> run.student.predict(parts.test_samples).shape, len(run.guarantees), float(run.guarantee.epsilon)
    ((297,), 20, 12.0)
    """
    started = time.perf_counter()
    samples, given = labeled(private)
    public_samples = public_rows(public, samples)
    warn_of_copies([samples], public_samples)
    names = np.unique(given) if classes is None else class_names(classes)
    records = Records(samples, class_indices(given, names, "private labels"))
    number = seeded(seed)
    split = _split(holders, records, alpha, number or 0)
    plan = plan_transfer(
        len(names), len(split), epsilon, delta, round_epsilon=round_epsilon, rounds=rounds, answers=answers,
        participation=participation, most=most,
    )  # fmt: skip
    learning, teaching = learning or Learning(), teaching or Teaching()
    learner, local_learner = models(model, local, public_samples, names, learning, number or 0)
    ledger = ledger_for(ledger, keep, simulated=number is not None)
    kept = KeptRounds.open(keep, repr((plan, learning, teaching, number)), request or uuid.uuid4().hex)
    coordinator = LabelCoordinator(
        public_samples, learner, plan.sheet, plan.holders, plan.invited, plan.rounds, kept.request, plan.most,
        teaching, seed=number or 0,
    )  # fmt: skip
    state = kept.state()
    judge = _Judge(learner, names, test, whole(every, "every"), plan.rounds, kept.curve())

    def after(now: TransferState) -> None:
        judge.look(now)
        kept.keep(now, judge.curve)
        if progress is not None:
            progress(now.turn)

    accounts = [f"{account} {each}" for each in _names(holders, plan.holders)]
    with paying_holders(ledger, accounts, plan.ceiling) as book:
        randomness = randomness_of(number, 0 if state is None else state.turn)
        gates = [Gate(book, each, randomness) for each in accounts]
        parts = [Private(records.take(each)) for each in split]
        cohort = LabelCohort([LabelHolder(part, gate, local_learner) for part, gate in zip(parts, gates, strict=True)])
        release = drive(coordinator, cohort.answer, state, after)
    guarantees = guarantees_of(release.receipts, probability(delta, "delta"), plan, classes is None)
    recipe = recipe_of(plan, learner, local_learner, learning, teaching, public_samples, number)
    return Transfer.of(release, learner, names, plan, guarantees, recipe, judge.curve, time.perf_counter() - started)


class _Judge:
    """The global model's accuracy on a test set, every few rounds and after the last."""

    def __init__(
        self,
        learner: Learner,
        names: NDArray[Any],
        test: tuple[ArrayLike, ArrayLike] | None,
        every: int,
        rounds: int,
        curve: list[tuple[int, float]],
    ) -> None:
        self._learner, self._every, self._rounds = learner, every, rounds
        self._test = None if test is None else (rows(test[0], "test"), class_indices(np.asarray(test[1]), names))
        self.curve = curve

    def look(self, state: TransferState) -> None:
        """Measure, if it is time."""
        if self._test is not None and (state.turn % self._every == 0 or state.turn == self._rounds):
            guessed = self._learner.probabilities(state.model, self._test[0]).argmax(axis=1)
            self.curve.append((state.turn, float(np.mean(guessed == self._test[1]))))


def _names(holders: int | ArrayLike, count: int) -> Iterable[object]:
    """What tells the holders apart: their names where records have owners, else their places."""
    return range(count) if isinstance(holders, int | np.integer) else np.unique(np.asarray(holders)).tolist()


def _split(holders: int | ArrayLike, records: Records, alpha: float | None, seed: int) -> list[Integers]:
    count = len(records.labels)
    if not isinstance(holders, int | np.integer):
        return split_by_owner(one_column(holders, "holders", count))
    if alpha is None:
        return split_evenly(count, whole(holders, "holders"), seed)
    split = split_by_dirichlet(records.labels, whole(holders, "holders"), alpha, seed)
    if not all(len(each) for each in split):
        raise InvalidInput("a holder got no records: choose a larger alpha or fewer holders")
    return split
