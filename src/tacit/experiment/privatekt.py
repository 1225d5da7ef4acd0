"""PrivateKT in one call: many holders answer a few questions a round, and a global model learns from the answers."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting.compose import Rule, total
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import ONE_PLACE, Adjacency, Guarantee, Trust, Unit
from tacit.core.protocols import Integers, Ledger
from tacit.core.randomness import Randomness, SeededRandomness, SystemRandomness
from tacit.core.rational import Number, probability
from tacit.core.release import Receipt
from tacit.datasets.classes import class_indices
from tacit.experiment.drive import drive
from tacit.experiment.inputs import class_names, labeled, one_column, public_rows, rows, seeded, whole
from tacit.experiment.kept_rounds import KeptRounds
from tacit.experiment.machine import versions
from tacit.experiment.privatekt_plan import TransferPlan, plan_transfer
from tacit.experiment.run import new_folder
from tacit.ledger.memory import Ceiling, MemoryLedger
from tacit.ledger.sqlite import SqliteLedger
from tacit.methods.privatekt.coordinator import LabelCoordinator, Teaching, TransferState
from tacit.methods.privatekt.holder import LabelCohort, LabelHolder
from tacit.methods.privatekt.knowledge import Learner, public_draw
from tacit.methods.privatekt.models import Learning, models
from tacit.private.gate import Gate
from tacit.private.partition import split_by_dirichlet, split_by_owner, split_evenly
from tacit.private.records import Private, Records
from tacit.students.saved import save_student

__all__ = ["Transfer", "transfer"]

CLASSES_READ = (
    "the list of classes was read off the private labels, so that a class exists is not protected; "
    "declare the classes to remove this"
)
FEW_HOLDERS = (
    "delta is not below one over the number of holders: exposing one of them outright would meet this definition"
)


@dataclass(frozen=True)
class Transfer:
    """What ``transfer`` returns.

    ``guarantee`` is that of the holder who paid most, ``guarantees`` has one for every account that paid. ``curve``
    is the test accuracy after some rounds, where a test set was given. ``exhausted`` counts the holders whose
    accounts ran dry on the way. ``metrics`` has the time the run took, never a private figure.
    """

    student: Any
    classes: NDArray[Any]
    guarantee: Guarantee
    guarantees: dict[str, Guarantee]
    receipts: tuple[Receipt, ...]
    plan: TransferPlan
    exhausted: int
    curve: list[tuple[int, float]]
    recipe: dict[str, Any]
    metrics: dict[str, Any]

    def save(self, folder: str | Path) -> Path:
        """Write ``run.json``, with every holder's guarantee and receipt, and the student, into a new folder."""
        with new_folder(Path(folder)) as partial:
            student = save_student(self.student, partial, self.guarantee.simulation)
            record = {
                "guarantee": self.guarantee.to_json(),
                "guarantees": {account: each.to_json() for account, each in self.guarantees.items()},
                "receipts": [receipt.to_json() for receipt in self.receipts],
                "recipe": self.recipe,
                "metrics": self.metrics | {"curve": self.curve, "exhausted": self.exhausted},
                "student": student,
                "versions": versions(),
            }
            (partial / "run.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return Path(folder)


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
    own where it is another. Each holder pays from an account of its own, ``"<account> <place>"`` in a ``ledger`` file,
    which is made where there is none. With ``keep``, a folder, a run that was stopped goes on where it was, and
    nobody pays twice. A ``seed`` makes the run a simulation, which pays from no real ledger. ``test`` is measured after
    every few rounds.

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
    ledger = _ledger_for(ledger, keep, simulated=number is not None)
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

    accounts = [f"{account} {place}" for place in range(plan.holders)]
    with _paying(ledger, accounts, plan.ceiling) as book:
        randomness = _randomness(number, 0 if state is None else state.turn)
        gates = [Gate(book, each, randomness) for each in accounts]
        parts = [Private(records.take(each)) for each in split]
        cohort = LabelCohort([LabelHolder(part, gate, local_learner) for part, gate in zip(parts, gates, strict=True)])
        release = drive(coordinator, cohort.answer, state, after)
    guarantees = _guarantees(release.receipts, probability(delta, "delta"), plan, classes is None)
    if not guarantees:
        raise InvalidInput("nobody answered: every account was spent before the first round")
    return Transfer(
        student=release.map(lambda taught: learner.finished(taught.model)).value,
        classes=names,
        guarantee=max(guarantees.values(), key=lambda each: each.epsilon),
        guarantees=guarantees,
        receipts=release.receipts,
        plan=plan,
        exhausted=int(release.value.refused.sum()),
        curve=judge.curve,
        recipe=_recipe(plan, learner, local_learner, learning, teaching, public_samples, number),
        metrics={"rounds": release.value.rounds, "seconds": time.perf_counter() - started},
    )


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


def _randomness(seed: int | None, turn: int) -> Randomness:
    """System randomness; in a simulation, draws that a run which goes on does not make a second time."""
    if seed is None:
        return SystemRandomness()
    return SeededRandomness(seed) if turn == 0 else public_draw(seed, turn, "simulated noise")


def _ledger_for(
    ledger: Ledger | str | Path | None, keep: str | Path | None, simulated: bool
) -> Ledger | str | Path | None:
    """The ledger of a run: a simulation never pays from a real one, and a run that goes on forgets no payment."""
    if not simulated:
        if keep is not None and ledger is None:
            raise InvalidInput("a run that may go on later needs a ledger file, or its payments would be forgotten")
        return ledger
    if ledger is not None and not isinstance(ledger, MemoryLedger):
        raise InvalidInput(
            "a seed makes a simulation, which must not spend a real budget: leave out the seed, or the ledger"
        )
    return ledger if keep is None else Path(keep) / "simulation.ledger"


@contextmanager
def _paying(ledger: Ledger | str | Path | None, accounts: Sequence[str], ceiling: Ceiling) -> Iterator[Ledger]:
    """The ledger that the holders pay from: the user's own, or one with just this run's budget."""
    policy = dict.fromkeys(accounts, ceiling)
    if ledger is None:
        yield MemoryLedger(policy)
        return
    if isinstance(ledger, str | Path):
        opened = SqliteLedger(ledger) if Path(ledger).exists() else SqliteLedger.create(ledger, policy)
    with opened if isinstance(ledger, str | Path) else nullcontext(ledger) as book:
        yield book


def _guarantees(
    receipts: Sequence[Receipt], delta: Fraction, plan: TransferPlan, classes_read: bool
) -> dict[str, Guarantee]:
    """What each holder is guaranteed, by all that its account paid in this run."""
    paid: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        paid.setdefault(receipt.account, []).append(receipt)
    found = {}
    for account, own in paid.items():
        spends = [receipt.spend for receipt in own]
        # The sheets were planned; what is pure is said to be pure, even where some δ was allowed.
        spent = min((total(spends, each, Rule.PLANNED) for each in (Fraction(0), delta)), key=lambda each: each.epsilon)
        guarantee = Guarantee(
            epsilon=Fraction(spent.epsilon),
            delta=spent.delta,
            unit=Unit.whole_holder(),
            adjacency=Adjacency.REPLACE_ONE,
            trust=Trust.LOCAL,
            accountant=spent.accountant,
            caveats=(ONE_PLACE,),
            simulation=any(receipt.simulated for receipt in own),
        )
        if classes_read:
            guarantee = guarantee.with_caveat(CLASSES_READ)
        if guarantee.delta * plan.holders >= 1:
            guarantee = guarantee.with_caveat(FEW_HOLDERS)
        found[account] = guarantee
    return found


def _recipe(
    plan: TransferPlan,
    learner: object,
    local: object,
    learning: Learning,
    teaching: Teaching,
    public: NDArray[Any],
    seed: int | None,
) -> dict[str, Any]:
    return {
        "method": "PrivateKT",
        "trust": str(Trust.LOCAL),
        "rounds": plan.rounds,
        "answers": plan.sheet.answers,
        "holders": plan.holders,
        "invited": plan.invited,
        "most": plan.most,
        "round_epsilon": str(plan.sheet.epsilon),
        "model": type(learner).__name__,
        "local": type(local).__name__,
        "learning": repr(learning),
        "teaching": repr(teaching),
        "public_samples": len(public),
        "randomness": "system" if seed is None else f"seed {seed} (simulation)",
    }
