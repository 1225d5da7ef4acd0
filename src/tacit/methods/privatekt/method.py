"""PrivateKT as one job: holders answer a few queries per round, and a global model learns from the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit.core import Adjacency, Exchange, InvalidInput, Ledger, Trust, Unit, no_response, refusal, warn_user
from tacit.core.options import to_recipe
from tacit.core.randomness import Randomness, SeededRandomness, SystemRandomness
from tacit.methods.privatekt.coordinator import GlobalTrainer, LabelCoordinator, TaughtModel, TransferState, public_draw
from tacit.methods.privatekt.groups import Groups, checked_beliefs, suggest_groups
from tacit.methods.privatekt.holder import LabelCohort, LabelHolder, LocalTrainer, models
from tacit.methods.privatekt.options import PrivateKT
from tacit.methods.privatekt.plan import TransferPlan, plan_transfer
from tacit.methods.rknn.plan import vote_representation
from tacit.methods.task import Account, Job, Nodes, Outcome, Task, untrained
from tacit.private.gate import Gate
from tacit.private.records import require_usable

__all__ = ["LabelJob", "in_places", "prepare"]

# Names of classifiers; all others are networks.
CLASSIFIERS = ("logistic", "forest")


def prepare(task: Task, options: PrivateKT) -> Job:
    """The job that trains a global model on the holders' randomized answers."""
    task.single_labels("privatekt").trusting(Trust.LOCAL, default=Trust.LOCAL)
    if not (task.unit.holder or task.unit == Unit()):
        raise InvalidInput("privatekt protects one holder with all its records; leave out the unit")
    if task.adjacency is not Adjacency.REPLACE_ONE:
        raise InvalidInput("privatekt reveals the number of holders: it protects them under replace-one adjacency")
    holders = len(task.parts) if task.nodes is None else task.nodes.nodes
    plan = plan_transfer(len(task.classes), holders, task.epsilon, task.delta, options)
    model = untrained(options.model) if options.model in CLASSIFIERS else options.model
    trainer, local = models(model, options.local, task.public, task.classes, options.learning, task.seed or 0)
    groups = None if options.groups is None else form_groups(task, options, plan)
    coordinator = LabelCoordinator(
        task.public, trainer, plan.mechanism, plan.holders, plan.invited, plan.rounds, task.request, plan.most,
        options.teaching, seed=task.seed or 0, groups=groups,
    )  # fmt: skip
    for part in task.parts:
        require_usable(part, len(task.classes))
    measured = MeasuredCoordinator(coordinator, trainer, task, options)
    return LabelJob(task, options, plan, measured, trainer, local, None if groups is None else len(groups.questions))


def form_groups(task: Task, options: PrivateKT, plan: TransferPlan) -> Groups:
    """The public samples in groups, as many as the options say or as suit the number of answers."""
    classes = len(task.classes)
    answers = min(plan.rounds * plan.invited, plan.holders * plan.most) * plan.mechanism.answers
    count = options.groups or suggest_groups(answers, classes, len(task.public))
    _, space = vote_representation(options.representation, task.public, count)
    task.check_representation(space)
    beliefs = checked_beliefs(options.beliefs, len(task.public), classes)
    return Groups.of(task.public, count, beliefs, space.encode(task.public), task.seed or 0)


class MeasuredCoordinator:
    """The coordinator, which also measures the global model on a test set every few rounds and after the last."""

    def __init__(self, inner: LabelCoordinator, trainer: GlobalTrainer, task: Task, options: PrivateKT) -> None:
        self._inner, self._trainer, self._task, self._options = inner, trainer, task, options
        self.begin, self.ask, self.result, self.prices = inner.begin, inner.ask, inner.result, inner.prices
        self.curve: list[tuple[int, float]] = []

    def fold(self, state: TransferState, answers: Sequence[Any]) -> TransferState:
        """The state after a round, measured if it is time."""
        after, test = self._inner.fold(state, answers), self._task.test
        # With groups there is no model before the last round.
        early = self._options.groups is None and after.round % self._options.eval_every == 0
        due = early or after.round == self._options.rounds
        if test is not None and due:
            guessed = self._trainer.probabilities(after.model, test[0]).argmax(axis=1)
            self.curve.append((after.round, float(np.mean(guessed == test[1]))))
        if after.round > self._task.resumed:
            self._task.observer.progress(after.round)
        return after


@dataclass(frozen=True)
class LabelJob:
    """Rounds of randomized labels, with one account per holder."""

    task: Task
    options: PrivateKT
    plan: TransferPlan
    coordinator: MeasuredCoordinator
    trainer: GlobalTrainer
    local: LocalTrainer
    groups: int | None = None
    unit: Unit = field(default_factory=Unit.whole_holder)
    trust: Trust = Trust.LOCAL
    caveats: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    holders_learn: bool = False

    @property
    def recipe(self) -> Mapping[str, Any]:
        """Every public choice."""
        return {
            "options": to_recipe(self.options),
            "rounds": self.plan.rounds,
            "queries_per_round": self.plan.mechanism.answers,
            "holders": self.plan.holders,
            "invited": self.plan.invited,
            "max_participations": self.plan.most,
            "round_epsilon": str(self.plan.mechanism.epsilon),
            **({} if self.groups is None else {"groups": self.groups}),
            "model": type(self.trainer).__name__,
            "local": type(self.local).__name__,
        }

    def accounts(self) -> Sequence[Account]:
        """One account per holder, each for the rounds it will be invited to."""
        prices = self.coordinator.prices()
        return [
            Account(name, self.plan.ceiling, own, may_run_dry=True)
            for name, own in zip(self.task.holders, prices, strict=True)
        ]

    def exchange(self, payers: Sequence[tuple[Ledger, str]]) -> Exchange[Any, Any]:
        """All holders in one process, each behind its own gate."""
        randomness = _randomness(self.task.seed, self.task.resumed)
        return LabelCohort([
            LabelHolder(part, Gate(ledger, account, randomness), self.local)
            for part, (ledger, account) in zip(self.task.parts, payers, strict=True)
        ]).answer  # fmt: skip

    def over(self, nodes: Nodes) -> Exchange[Any, Any]:
        """The nodes' answers, in the order of the invited places."""
        return in_places(nodes.exchange) if hasattr(nodes.exchange, "places") else nodes.exchange

    def exposures(self) -> Sequence[Any]:
        """Empty: the guarantee follows from the receipts."""
        return ()

    def finish(self, released: TaughtModel) -> Outcome:
        """The global model, and its labels of the public samples."""
        if not released.learned:
            warn_user(
                "the answers are too noisy to learn from: the student always predicts the most frequent label. Use "
                "more holders, a larger epsilon or fewer rounds"
            )
        chances = self.trainer.probabilities(released.model, self.task.public)
        student = self.trainer.finished(released.model)
        return Outcome(
            student=student,
            labels=self.task.classes[chances.argmax(axis=1)],
            probabilities=chances.astype(np.float64),
            metrics={
                "rounds": released.rounds,
                "exhausted": int(released.refused.sum()),
                "curve": self.coordinator.curve,
            },
        )


def in_places(exchange: Any) -> Exchange[Any, Any]:  # noqa: ANN401
    """An exchange whose answers are in the order of the invited places, with refusals and lost answers marked.

    The given exchange has ``places``, the names of all nodes so far, in order; ``refused``, the nodes that refused the
    last question; and ``answers(ask, invited)`` by name. A place is empty until its node first connects.
    """

    def put(ask: Any) -> list[Any]:  # noqa: ANN401
        found = exchange.answers(ask, ask.invited)
        refused = dict.fromkeys(exchange.refused, refusal())
        names = dict(enumerate(exchange.places))
        return [(found | refused).get(names.get(place, ""), no_response()) for place in ask.invited]

    return put


def _randomness(seed: int | None, resumed: int) -> Randomness:
    """System randomness; in a simulation, seeded draws that a resumed run does not repeat."""
    if seed is None:
        return SystemRandomness()
    return SeededRandomness(seed) if resumed == 0 else public_draw(seed, resumed, "simulated noise")
