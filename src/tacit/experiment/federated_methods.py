"""PrivateKT, PATE and FedMD over nodes: the coordinators that run in one place, with another exchange."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from tacit.accounting.compose import Rule, total
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import ONE_PLACE, Adjacency, Guarantee, Trust, Unit
from tacit.core.rational import Number, positive, probability
from tacit.core.release import Receipt, Release, refusal, silence
from tacit.experiment.drive import drive
from tacit.experiment.federated import SEVERAL_NODES
from tacit.experiment.inputs import class_names, learner, rows, whole
from tacit.experiment.privatekt_plan import plan_transfer
from tacit.experiment.privatekt_result import Transfer, guarantees_of, recipe_of
from tacit.experiment.run import Run
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.masked.distributed_laplace import TWO_THIRDS, DistributedLaplace
from tacit.methods.fedmd.agreement import agreed
from tacit.methods.fedmd.coordinator import Outcome, PredictCoordinator
from tacit.methods.fedmd.form import Form
from tacit.methods.fedmd.noise import response_mechanism
from tacit.methods.fedmd.wire import Feedback
from tacit.methods.pate.coordinator import TeacherCoordinator
from tacit.methods.privatekt.coordinator import LabelCoordinator, Teaching
from tacit.methods.privatekt.models import Learning, models
from tacit.students.flattened import for_images
from tacit.students.weighted import fit_hard

__all__ = ["Places", "agree_federated", "in_places", "learn_federated", "teach_federated", "transfer_federated"]

Exchange = Callable[[Any], Sequence[Release[Any]]]
Deliver = Callable[[Feedback, str], Sequence[str]]


class Places(Protocol):
    """An exchange that knows its nodes by places."""

    @property
    def places(self) -> tuple[str, ...]:
        """The names of all nodes that were there so far, in the order of their places."""
        ...

    @property
    def refused(self) -> tuple[str, ...]:
        """Who refused the last question."""
        ...

    def answers(self, ask: Any, invited: Sequence[int]) -> dict[str, Release[Any]]:  # noqa: ANN401
        """The answers by name."""
        ...


def in_places(exchange: Places) -> Exchange:
    """An exchange that answers in the order of the invited places: who refuses says so, who is lost is silent.

    A place is empty as long as its node has never been there.
    """

    def put(ask: Any) -> list[Release[Any]]:  # noqa: ANN401
        found = exchange.answers(ask, ask.invited)
        refused = dict.fromkeys(exchange.refused, refusal())
        names = dict(enumerate(exchange.places))
        return [(found | refused).get(names.get(place, ""), silence()) for place in ask.invited]

    return put


def transfer_federated(
    exchange: Exchange,
    public: ArrayLike,
    epsilon: Number | None = None,
    *,
    classes: Iterable[Any],
    nodes: int,
    delta: Number = "1e-5",
    round_epsilon: Number | None = None,
    rounds: int = 20,
    answers: int = 2,
    participation: float = 1.0,
    model: Any = "logistic",  # noqa: ANN401
    teaching: Teaching | None = None,
    request: str | None = None,
    seed: int = 0,
) -> Transfer:
    """PrivateKT over nodes: each answers a few questions a round from a model of its own, through its own account.

    ``exchange`` gives one answer for each invited place, in order. ``seed`` is for public choices only.
    """
    started = time.perf_counter()
    samples, names = rows(public, "public"), class_names(classes)
    plan = plan_transfer(
        len(names), nodes, epsilon, delta, round_epsilon=round_epsilon, rounds=rounds, answers=answers,
        participation=participation,
    )  # fmt: skip
    learning, lessons = Learning(), teaching or Teaching()
    pupil = learner(model) if isinstance(model, str) else model
    global_model, local_model = models(pupil, None, samples, names, learning, seed)
    coordinator = LabelCoordinator(
        samples, global_model, plan.sheet, plan.holders, plan.invited, plan.rounds, request or uuid.uuid4().hex,
        plan.most, lessons, seed=seed,
    )  # fmt: skip
    release = drive(coordinator, exchange)
    guarantees = {
        account: replace(each, caveats=tuple(caveat for caveat in each.caveats if caveat != ONE_PLACE))
        for account, each in guarantees_of(release.receipts, probability(delta, "delta"), plan, False).items()
    }
    recipe = recipe_of(plan, global_model, local_model, learning, lessons, samples, None)
    return Transfer.of(release, global_model, names, plan, guarantees, recipe, [], time.perf_counter() - started)


def teach_federated(
    exchange: Exchange,
    public: ArrayLike,
    epsilon: Number = 1.0,
    *,
    classes: Iterable[Any],
    nodes: int,
    queries: int | None = None,
    trust: str = "masked",
    surviving: Number = TWO_THIRDS,
    student: Any = "logistic",  # noqa: ANN401
    request: str | None = None,
) -> Run:
    """PATE over nodes: each is one teacher, and a student learns from their noisy votes on public samples.

    One teacher moves two votes a sample, so ``queries`` samples cost 2·queries: ask about few. With ``masked`` trust
    the votes of all nodes get one noise together; with ``local`` trust each node has to hide its own vote.
    """
    samples, names = rows(public, "public"), class_names(classes)
    asked = samples[: len(samples) if queries is None else whole(queries, "queries")]
    pupil = learner(student)
    budget = positive(epsilon, "epsilon")
    moved = 2 * len(asked)
    match trust:
        case Trust.MASKED:
            mechanism: Any = DistributedLaplace.for_epsilon(budget, moved, nodes, most=1, surviving=surviving)
        case Trust.LOCAL:
            mechanism = DiscreteLaplaceNoise.for_epsilon(budget, moved)
        case _:
            raise InvalidInput(f"trust must be local or masked, got {trust!r}")
    coordinator = TeacherCoordinator(asked, names, mechanism, request or uuid.uuid4().hex)
    release = drive(coordinator, exchange)
    labels = names[release.value.labels]
    flat = asked.reshape(len(asked), -1)
    return Run(
        student=fit_hard(pupil, flat, labels, np.ones(len(labels))),
        labels=labels,
        probabilities=None,
        classes=names,
        queries=flat.astype(np.float32),
        query_labels=labels,
        membership=np.arange(len(asked)),
        guarantee=_weakest(release.receipts, Trust(trust)),
        receipts=release.receipts,
        recipe={"method": "PATE, federated", "trust": trust, "nodes": nodes, "queries": len(asked)}
        | {"answered": len({receipt.account for receipt in release.receipts}), "student": type(pupil).__name__},
    )


@dataclass(frozen=True)
class Agreement:
    """What the nodes of a FedMD run agreed on, and who was ``told`` the last of it. Their models stay with them."""

    outcome: Outcome
    guarantee: Guarantee
    receipts: tuple[Receipt, ...]
    told: tuple[str, ...] = ()


def agree_federated(
    exchange: Exchange,
    public: ArrayLike,
    epsilon: Number,
    *,
    classes: Iterable[Any],
    rounds: int = 3,
    queries: int = 100,
    delta: Number = 0,
    mechanism: str = "subset-selection",
    request: str | None = None,
    seed: int = 0,
    deliver: Deliver | None = None,
) -> Agreement:
    """FedMD over nodes: randomized predictions of public samples are averaged and sent back, round by round.

    A round's consensus travels with the next question; ``deliver`` takes the last one to the nodes.
    """
    samples, names = rows(public, "public"), class_names(classes)
    noise = response_mechanism(len(names), queries, rounds, epsilon, delta, mechanism)
    called = request or uuid.uuid4().hex
    coordinator = PredictCoordinator(samples, Form("argmax", len(names)), noise, rounds, queries, called, seed=seed)
    release = drive(coordinator, exchange)
    told: tuple[str, ...] = ()
    if deliver is not None:
        for each in release.value.remaining:
            told = tuple(deliver(each, called))
    return Agreement(release.value, _weakest(release.receipts, Trust.LOCAL, delta), release.receipts, told)


def learn_federated(
    exchange: Exchange,
    public: ArrayLike,
    epsilon: Number,
    *,
    classes: Iterable[Any],
    student: Any = "logistic",  # noqa: ANN401
    deliver: Deliver | None = None,
    **more: Any,  # noqa: ANN401
) -> Run:
    """FedMD over nodes, and a student of the coordinator's own that learns what they agreed on.

    Where the nodes agree on a public sample, its label is theirs; elsewhere it is the student's.
    """
    samples, names = rows(public, "public"), class_names(classes)
    pupil = learner(student)
    agreement = agree_federated(exchange, samples, epsilon, classes=names, deliver=deliver, **more)
    known, _ = agreed(agreement.outcome.history, len(samples))
    places = np.flatnonzero(known >= 0)
    if not len(places):
        raise InvalidInput("the nodes agree on nothing: ask about fewer samples in fewer rounds, or spend more")
    chosen = names[known[places]]
    flat = samples.reshape(len(samples), -1)
    trained = fit_hard(pupil, flat[places], chosen, np.ones(len(places)))
    labels = trained.predict(flat)
    labels[places] = chosen
    return Run(
        student=for_images(trained) if samples.ndim > 2 else trained,
        labels=labels,
        probabilities=None,
        classes=names,
        queries=flat[places].astype(np.float32),
        query_labels=chosen,
        membership=np.searchsorted(places, np.arange(len(samples))).clip(max=len(places) - 1),
        guarantee=agreement.guarantee,
        receipts=agreement.receipts,
        recipe={"method": "FedMD, federated", "trust": str(Trust.LOCAL), "student": type(pupil).__name__}
        | {"rounds": len(agreement.outcome.history), "agreed": len(places), "told": list(agreement.told)}
        | {"answered": len({receipt.account for receipt in agreement.receipts})},
    )


def _weakest(receipts: Sequence[Receipt], trust: Trust, delta: Number = 0) -> Guarantee:
    """What holds at the node that spent most; models and teachers are of a whole node, and so is the guarantee."""
    paid: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        paid.setdefault(receipt.account, []).append(receipt)
    limit = probability(delta, "delta")
    totals = [
        min(
            (
                total([receipt.spend for receipt in own], each, Rule.PLANNED)
                for each in (probability(0, "delta"), limit)
            ),
            key=lambda each: each.epsilon,
        )
        for own in paid.values()
    ]
    worst = max(totals, key=lambda each: each.epsilon)
    return Guarantee(
        epsilon=positive(worst.epsilon, "epsilon"),
        delta=worst.delta,
        unit=Unit.whole_holder(),
        adjacency=Adjacency.REPLACE_ONE,
        trust=trust,
        accountant=worst.accountant,
        caveats=(SEVERAL_NODES,),
        simulation=any(receipt.simulated for receipt in receipts),
    )
