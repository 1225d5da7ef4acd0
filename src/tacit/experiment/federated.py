"""Reverse k-NN labels from many nodes, each with its own records, noise and account: only the exchange differs."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from numpy.typing import ArrayLike

from tacit.accounting.compose import Rule, total
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Guarantee, Trust, Unit
from tacit.core.protocols import Estimates, Representation
from tacit.core.rational import Number, exact, positive, probability
from tacit.core.release import Receipt, Release
from tacit.core.sensitivity import vote_sensitivity
from tacit.experiment.drive import drive
from tacit.experiment.inputs import class_names, learner, rows, whole
from tacit.experiment.planning import Plan, plan
from tacit.experiment.run import Run
from tacit.experiment.teaching import Teacher, spreading
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.masked.distributed_laplace import TWO_THIRDS, DistributedLaplace
from tacit.methods.rknn.choice import choose_mechanism
from tacit.methods.rknn.coordinator import Labeling, Round, VoteCoordinator
from tacit.methods.rknn.pooling import PooledReader, added, pooling, put_together
from tacit.methods.rknn.posterior import Noise
from tacit.methods.rknn.queries import suggest_queries
from tacit.methods.rknn.reading import MessageReader

__all__ = ["HOLDERS", "distill_federated", "plan_federated"]

HOLDERS = ("sites", "records")
SEVERAL_NODES = (
    "it holds for what one node has: where the same record or person is at several nodes, what each of them spends "
    "adds up"
)

Exchange = Callable[[Any], Sequence[Release[Any]]]


def plan_federated(
    public: ArrayLike,
    classes: int,
    nodes: int,
    records: int,
    epsilon: Number,
    delta: Number = 0,
    *,
    holders: str = "sites",
    mechanism: str = "auto",
    queries: int | None = None,
    neighbors: int = 1,
    representation: str | Representation = "auto",
    unit: Unit | None = None,
    adjacency: str = "replace-one",
    trust: str = "local",
    surviving: Number = TWO_THIRDS,
    honest: Number = TWO_THIRDS,
) -> Plan:
    """Every public choice of a run over nodes. ``records`` is what is publicly known of how many there are in all.

    ``holders`` are ``sites`` with many records each, which add noise to their own counts, or ``records``: devices
    with one record each, whose messages are randomized one by one. With ``masked`` trust sites add shares of one noise
    under masks, so that only their sum is seen: ``surviving`` is the fraction of nodes that must be in it, and
    ``honest`` the fraction of those that must be honest. With ``shuffle`` trust each record's message is mixed with
    those of the surviving others; with ``central`` trust a curator adds up exact counts.

    >>> import numpy as np
    >>> plan_federated(np.random.default_rng(0).normal(size=(400, 64)), 10, nodes=4, records=1000, epsilon=1).queries
    13
    """
    unit, samples = unit or Unit(), rows(public, "public")
    if holders not in HOLDERS:
        raise InvalidInput(f"holders must be one of {', '.join(HOLDERS)}, got {holders!r}")
    if trust not in tuple(Trust):
        raise InvalidInput(f"trust must be one of {', '.join(Trust)}, got {trust!r}")
    known = whole(records, "records")
    if trust == Trust.SHUFFLE:
        # What is planned for must come through with the nodes that are lost on the way.
        quorum = max(2, int(known * exact(surviving)))
        crowd = plan(
            samples, classes, quorum, epsilon, delta, mechanism=mechanism, queries=queries, neighbors=neighbors,
            representation=representation, unit=unit, adjacency=adjacency, trust="shuffle",
        )  # fmt: skip
        first = crowd.rounds[0]
        reader = MessageReader(_MixedDecoder(first.choice.mechanism), classes)
        return replace(crowd, rounds=(replace(first, choice=replace(first.choice, reader=reader)),))
    if holders == "records":
        if trust != Trust.LOCAL:
            raise InvalidInput("masked sums are of tables, which sites have; records answer one by one")
        return plan(
            samples, classes, known, epsilon, delta, mechanism=mechanism, queries=queries, neighbors=neighbors,
            representation=representation, unit=unit, adjacency=adjacency, trust="local",
        )  # fmt: skip
    masked = trust == Trust.MASKED
    if trust == Trust.CENTRAL:
        return plan(
            samples, classes, known, epsilon, delta, mechanism=mechanism, queries=queries, neighbors=neighbors,
            representation=representation, unit=unit, adjacency=adjacency,
        )  # fmt: skip
    if masked and mechanism not in ("auto", "laplace"):
        raise InvalidInput(f"masked sums have shares of laplace noise, not {mechanism}")
    # Shares of one noise, or a noise of each node's own: deviations of the sum, in those of one noise.
    spread = math.sqrt(1 / float(exact(surviving) * exact(honest))) if masked else math.sqrt(nodes)
    if queries is None:
        if adjacency != Adjacency.REPLACE_ONE:
            raise InvalidInput("say how many queries: under add-remove the number of records is private, so we cannot")
        moves = vote_sensitivity(max(2 * neighbors, len(samples)), classes, neighbors, records=unit.records)
        budget, slack = positive(epsilon, "epsilon"), probability(delta, "delta")
        lead = choose_mechanism(moves, classes, budget, slack, mechanism, counts=True).gap * spread
        queries = suggest_queries(known, len(samples), classes, neighbors, lead)
    chosen = plan(
        samples, classes, known, epsilon, delta, labels="soft", mechanism=mechanism, queries=queries,
        neighbors=neighbors, representation=representation, unit=unit, adjacency=adjacency,
    )  # fmt: skip
    first = chosen.rounds[0]
    noise: Any = first.choice.mechanism
    name, reason = first.choice.name, first.choice.reason
    if masked:
        if not isinstance(noise, DiscreteLaplaceNoise):
            raise InvalidInput("masked sums have shares of laplace noise, with delta 0")
        noise = DistributedLaplace.for_epsilon(positive(epsilon, "epsilon"), noise.l1, nodes, known, surviving, honest)
        name, reason = "masked laplace", noise.in_words
    pooled = replace(
        first.choice, name=name, reason=reason, mechanism=noise, gap=first.choice.gap * spread, reader=_reader(noise)
    )
    return replace(chosen, rounds=(replace(first, choice=pooled),), trust=Trust(trust))


def distill_federated(
    exchange: Exchange,
    public: ArrayLike,
    epsilon: Number = 1.0,
    *,
    classes: Iterable[Any],
    nodes: int,
    records: int,
    delta: Number = 0,
    holders: str = "sites",
    mechanism: str = "auto",
    queries: int | None = None,
    neighbors: int = 1,
    representation: str | Representation = "auto",
    student: Any = "logistic",  # noqa: ANN401
    spread: str = "clusters",
    keep: float = 1.0,
    unit: Unit | None = None,
    adjacency: str = "replace-one",
    trust: str = "local",
    surviving: Number = TWO_THIRDS,
    honest: Number = TWO_THIRDS,
    request: str | None = None,
    announce: Callable[[Plan], None] | None = None,
) -> Run:
    """Label ``public`` with what the records at many nodes know, and train a student; each node spends (ε, δ).

    ``exchange`` carries the question to the nodes and their releases back: the local loop, or a network. With ``local``
    trust every node randomizes its own answer before it leaves; with ``masked`` trust the exchange is one of masked
    sums, and only the sum is seen.
    """
    samples = rows(public, "public")
    names = class_names(classes)
    pupil = learner(student)
    chosen = plan_federated(
        samples, len(names), nodes, records, epsilon, delta, holders=holders, mechanism=mechanism, queries=queries,
        neighbors=neighbors, representation=representation, unit=unit, adjacency=adjacency, trust=trust,
        surviving=surviving, honest=honest,
    )  # fmt: skip
    teacher = Teacher(pupil, samples, names, chosen.fitted, False, keep, "student")
    coordinator = VoteCoordinator(
        samples, chosen.fitted, [Round(chosen.queries, chosen.choice.mechanism, chosen.choice.reader)],
        chosen.neighbors, names, request or uuid.uuid4().hex, spreading(spread, samples, chosen.fitted),
    )  # fmt: skip
    if announce is not None:
        announce(chosen)
    release: Release[Labeling] = drive(coordinator, pooling(exchange, _pool(chosen.trust, holders)))
    trained = release.map(teacher.train)
    guarantee = guarantee_of(release.receipts, probability(delta, "delta"), chosen)
    recipe = {
        "method": "reverse k-NN, federated",
        "trust": str(chosen.trust),
        "holders": holders,
        "nodes": nodes,
        "answered": len({receipt.account for receipt in release.receipts}),
        "mechanism": chosen.choice.name,
        "why": chosen.choice.reason,
        "queries": chosen.queries,
        "neighbors": chosen.neighbors,
        "representation": chosen.representation,
        "student": type(trained.value).__name__,
        "public_samples": len(samples),
        "spread": spread,
        "keep": float(keep),
    }
    return Run.of(release, trained.value, samples, names, guarantee, recipe)


def _pool(trust: Trust, holders: str) -> Callable[[list[Any]], Any]:
    """How the answers of an exchange become one: where somebody else has put them together, there is one already."""
    if trust in (Trust.CENTRAL, Trust.SHUFFLE):
        return _only
    return added if holders == "sites" else put_together


def _only(answers: list[Any]) -> Any:  # noqa: ANN401
    if len(answers) != 1:
        raise InvalidInput(f"one answer was expected, made of all nodes' by who collects them; got {len(answers)}")
    return answers[0]


@dataclass(frozen=True)
class _MixedDecoder:
    """Estimates from what came out of a shuffler, by how many it came from."""

    crowd: Any

    def __call__(self, mixed: Any) -> Estimates:  # noqa: ANN401
        estimates: Estimates = mixed.estimates(self.crowd.inner)
        return estimates


def guarantee_of(receipts: Sequence[Receipt], delta: Fraction, chosen: Plan) -> Guarantee:
    """What holds for a record at the node that spent most."""
    paid: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        paid.setdefault(receipt.account, []).append(receipt)
    totals = []
    for own in paid.values():
        spends = [receipt.spend for receipt in own]
        totals.append(
            min((total(spends, each, Rule.PLANNED) for each in (Fraction(0), delta)), key=lambda each: each.epsilon)
        )
    worst = max(totals, key=lambda each: (each.epsilon, each.delta))
    return Guarantee(
        epsilon=Fraction(worst.epsilon),
        delta=worst.delta,
        unit=chosen.unit,
        adjacency=chosen.adjacency,
        trust=chosen.trust,
        accountant=worst.accountant,
        caveats=(SEVERAL_NODES, *_assumed(chosen)),
        simulation=any(receipt.simulated for receipt in receipts),
    )


def _assumed(chosen: Plan) -> tuple[str, ...]:
    """What the guarantee assumes of the others, where it rests on them."""
    mechanism: Any = chosen.choice.mechanism
    match chosen.trust:
        case Trust.MASKED:
            return (mechanism.in_words.rstrip("."),)
        case Trust.SHUFFLE:
            return (mechanism.inner.in_words.rstrip("."),)
        case _:
            return ()


def _reader(mechanism: Any) -> PooledReader:  # noqa: ANN401
    match mechanism:
        case DiscreteLaplaceNoise():
            return PooledReader(Noise("laplace", float(mechanism.scale)), mechanism.variance)
        case DiscreteGaussianNoise():
            return PooledReader(Noise("gaussian", float(mechanism.sigma)), float(mechanism.sigma) ** 2)
        case DistributedLaplace():
            # Of how many nodes the sum is, is known when it is there; that of all of them has the most noise.
            variance = mechanism.variance(mechanism.holders)
            return PooledReader(Noise("gaussian", math.sqrt(variance)), variance)
        case _:
            raise InvalidInput(f"{type(mechanism).__name__} releases labels; nodes' answers are added up as counts")
