"""FedMD as one job: holders with different models train on their consensus, and so does a student."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

import numpy as np

from tacit.core import Adjacency, Ceiling, Exchange, Ledger, Mechanism, Spend, Trust, Unit
from tacit.core.errors import InvalidInput, TacitWarning, warn_user
from tacit.core.options import to_recipe
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.mechanisms.central.sampling import StratifiedSample, SubsetSample
from tacit.methods.fedmd.coordinator import Consensus as Agreement
from tacit.methods.fedmd.coordinator import ConsensusVoteCoordinator, PredictCoordinator, agreed, require_weights
from tacit.methods.fedmd.exposure import Exposure, WeakPrivacyWarning
from tacit.methods.fedmd.holder import SUBSET_REQUEST, RandomizedParty, SubsetParty, VotingParty
from tacit.methods.fedmd.models import StartingModel, Study, model_name, party_models
from tacit.methods.fedmd.options import FOR_TABLES, MIXED, VARIANTS, FedMD
from tacit.methods.fedmd.plan import (
    DIVIDED_BY_LABEL,
    MODEL_STAYS,
    ceiling_of,
    check_options,
    party_sample,
    prediction_noise,
    response_mechanism,
    subset_ceiling,
    unit_of,
    vote_coordinator,
)
from tacit.methods.fedmd.wire import PredictionForm
from tacit.methods.task import Account, Announcement, HolderModels, Job, Nodes, Outcome, Task, taught, untrained
from tacit.private.gate import Gate
from tacit.private.records import inspect

__all__ = ["PartyJob", "prepare"]

Sample = SubsetSample | StratifiedSample
Side = SubsetParty | RandomizedParty | VotingParty


def prepare(task: Task, options: FedMD) -> Job:
    """The job of FedMD: holders learn from each other through public samples."""
    task.single_labels("fedmd").trusting(Trust.LOCAL, default=Trust.LOCAL)
    check_options(options, task.epsilon, task.delta)
    variant = options.variant
    if task.unit.column is not None or task.adjacency is not Adjacency.REPLACE_ONE:
        raise InvalidInput("fedmd protects records or whole holders under replace-one adjacency; leave out the unit")
    queries = options.queries_of(len(task.public))
    if queries > len(task.public):
        raise InvalidInput(f"queries must be at most the {len(task.public)} public samples, got {queries}")
    holders = len(task.parts) if task.nodes is None else task.nodes.nodes
    require_weights(options.weights, holders)
    samples: list[Sample] = []
    if variant in ("np", "nfdp"):
        if task.nodes is not None:
            raise InvalidInput(f"variant {variant} has no noise and runs in one process only, not over nodes")
        samples = [_sample(part, options) for part in task.parts]
    coordinator = _coordinator(task, options, holders, queries)
    made = [] if task.nodes is not None else _models(task, options)
    if samples:
        weakest = max((Exposure.of(each, _simulated(task, variant)) for each in samples), key=attrgetter("probability"))
        warn_user(str(weakest).removesuffix("."), WeakPrivacyWarning)
    return PartyJob(task, options, coordinator, untrained(options.student), made, samples)


def _coordinator(
    task: Task, options: FedMD, holders: int, queries: int
) -> PredictCoordinator | ConsensusVoteCoordinator:
    variant, form = options.variant, PredictionForm(options.kind, len(task.classes))
    noise: Mechanism[Any, Any] | None = None
    if variant == "rknn":
        return vote_coordinator(task, options, holders)
    if variant == "response":
        if options.kind != "argmax":
            raise InvalidInput(f"randomized response is for labels: kind must be argmax, got {options.kind!r}")
        noise = response_mechanism(
            len(task.classes), queries, options.rounds, task.budget, task.delta, options.mechanism
        )
    elif variant == "ldp":
        noise = prediction_noise(form, queries, options.rounds, task.budget, task.delta)
    return PredictCoordinator(
        task.public, form, noise, options.rounds, queries, task.request, options.weights, task.seed or 0
    )


def _models(task: Task, options: FedMD) -> list[StartingModel]:
    """The holders' models, pretrained on the labeled public samples if there are any."""
    marks, kinds = None, len(task.classes)
    if options.public_labels is not None:
        given = np.asarray(options.public_labels)
        if given.shape != (len(task.public),):
            raise InvalidInput(f"public_labels has shape {given.shape} for {len(task.public)} public samples")
        others = np.unique(given)
        known = others if not np.isin(others, task.classes).all() else task.classes
        places = {name: place for place, name in enumerate(known.tolist())}
        marks, kinds = np.array([places[each] for each in given.tolist()], dtype=np.int64), len(known)
    made = party_models(
        _kinds(task, options), len(task.parts), task.public, len(task.classes), marks, kinds, options.pretrain,
        task.seed or 0,
    )  # fmt: skip
    if options.kind != "argmax" and (silent := [each for each in made if not each.gives_scores]):
        raise InvalidInput(
            f"{options.kind} needs models with predict_proba, and {len(silent)} of the holders have one without; "
            "use argmax"
        )
    return made


def _kinds(task: Task, options: FedMD) -> Sequence[Any]:
    """The kinds of models, assigned to the holders in turn, or each holder's own by its name."""
    models = options.models
    if models is None:
        # The default must not need an extra that is not installed.
        return (MIXED if task.public.ndim > 2 else FOR_TABLES) if find_spec("torch") else ("forest", "logistic")
    if not isinstance(models, Mapping):
        return models
    if strange := sorted(set(models) - set(task.holders)):
        raise InvalidInput(f"models: {strange[0]!r} is not one of the {len(task.holders)} holders")
    if missing := [each for each in task.holders if each not in models]:
        raise InvalidInput(f"models has no model for {len(missing)} of the {len(task.holders)} holders")
    return [models[each] for each in task.holders]


def _sample(part: Any, options: FedMD) -> Sample:  # noqa: ANN401
    return inspect(
        [part],
        lambda own: party_sample(
            options.variant, own[0].labels, options.subset, options.replacement, options.per_class
        ),
    )


def _simulated(task: Task, variant: str) -> bool:
    return task.seed is not None and variant == "nfdp"


@dataclass(frozen=True)
class PartyJob:
    """Rounds of predictions or one question of votes, with one account per holder."""

    task: Task
    options: FedMD
    coordinator: PredictCoordinator | ConsensusVoteCoordinator
    student: Any
    models: list[StartingModel]
    samples: list[Sample]
    sides: list[Side] = field(default_factory=list)
    accuracies: list[list[float]] = field(default_factory=list)
    doubts: tuple[str, ...] = ()
    trust: Trust = Trust.LOCAL
    holders_learn: bool = True

    @property
    def plan(self) -> Announcement:
        """The variant in words."""
        return Announcement(
            (
                ("variant", VARIANTS[self.options.variant]),
                ("holders", f"{len(self.task.holders)}, models {', '.join(sorted(set(self._model_names())))}"),
            )
            if self.models
            else (("variant", VARIANTS[self.options.variant]),)
        )

    def _model_names(self) -> tuple[str, ...]:
        kinds = _kinds(self.task, self.options)
        return tuple(model_name(kinds[place % len(kinds)]) for place in range(len(self.models)))

    @property
    def unit(self) -> Unit:
        """Any record may change all predictions, so these protect a holder with all its records; votes one record."""
        return Unit() if self.samples else unit_of(self.options.variant)

    @property
    def caveats(self) -> tuple[str, ...]:
        """The holders' own models are not covered."""
        return (MODEL_STAYS, *self._division)

    @property
    def _division(self) -> tuple[str, ...]:
        """The caveat that simulated holders got their records by label, if one record is protected."""
        by_label = self.task.division not in (None, "even") and not self.unit.holder
        return (DIVIDED_BY_LABEL,) if by_label else ()

    @property
    def recipe(self) -> Mapping[str, Any]:
        """Every public choice."""
        schedule = self.options.schedule
        return {
            "options": to_recipe(self.options) | {"public_labels": None},
            "variant": VARIANTS[self.options.variant],
            "rounds": self.options.rounds,
            "queries": self.options.queries_of(len(self.task.public)),
            "epochs": {
                "pretrain": self.options.pretrain,
                "own": schedule.own,
                "digest": schedule.digest,
                "revisit": schedule.revisit,
            },
        }

    def _ceiling(self, holder: int) -> Ceiling | None:
        if self.options.variant == "np":
            return None
        if self.samples:
            return subset_ceiling(self.samples[holder].spend.delta)
        return ceiling_of(self.options.variant, self.task.budget, self.task.delta)

    def accounts(self) -> Sequence[Account]:
        """One account per holder."""
        return [
            Account(name, self._ceiling(place), self._prices(place)) for place, name in enumerate(self.task.holders)
        ]

    def _prices(self, holder: int) -> Mapping[str, Spend]:
        """The costs of a holder: for every question, or once for the records that it trains on."""
        return {SUBSET_REQUEST: self.samples[holder].spend} if self.samples else self.coordinator.prices()

    def exchange(self, payers: Sequence[tuple[Ledger, str]]) -> Exchange[Any, Any]:
        """All holders in one process, each with its own records, gate and model."""
        task, options = self.task, self.options
        for place, (part, model) in enumerate(zip(task.parts, self.models, strict=True)):
            randomness = SystemRandomness() if task.seed is None else SeededRandomness(task.seed * 1009 + place)
            gate, study = Gate(*payers[place], randomness), Study(model, task.public, options.schedule)
            if self.samples:
                self.sides.append(SubsetParty(part, self.samples[place], gate, study))
            else:
                self.sides.append((VotingParty if options.variant == "rknn" else RandomizedParty)(part, gate, study))

        def put(ask: Any) -> list[Any]:  # noqa: ANN401
            answers = [side.answer(ask) for side in self.sides]
            if isinstance(self.coordinator, PredictCoordinator):
                self._measure()
            return answers

        return put

    def _measure(self) -> None:
        """Report one more step and, if there is a test set, the accuracy of the holders' models."""
        observer, rates = self.task.observer, []
        if self.task.test is not None:
            samples, labels = self.task.test
            rates = [float((model.predict(samples) == labels).mean()) for model in self.models]
            observer.stage(f"the holders' models have a test accuracy of {np.mean(rates):.1%}")
        if not self.accuracies:
            observer.stage("trained on own records")
        observer.progress(len(self.accuracies))
        self.accuracies.append(rates)

    def over(self, nodes: Nodes) -> Exchange[Any, Any]:
        """The exchange with nodes, which train on the consensus themselves."""
        return nodes.exchange

    def exposures(self) -> Sequence[Any]:
        """For variants without noise: the probability that a record is exposed, per holder."""
        found = [Exposure.of(sample, _simulated(self.task, self.options.variant)) for sample in self.samples]
        return [each.with_caveat(caveat) for caveat in self._division for each in found] or found

    def finish(self, released: Agreement) -> Outcome:
        """The consensus, a student trained on it, and the holders' models after the last round."""
        delivered: tuple[str, ...] = ()
        if self.task.nodes is None:
            self._learn(released)
        elif self.task.nodes.deliver is not None:
            for each in released.remaining:
                delivered = tuple(self.task.nodes.deliver(each, self.task.request))
        samples = self.task.public.reshape(len(self.task.public), -1)
        known, sure = agreed(released.history, len(samples))
        places = np.flatnonzero(known >= 0)
        if not len(places):
            warn_user(
                "the holders have no consensus: use fewer queries and rounds, or a larger epsilon. The student always "
                "predicts the first class"
            )
        rows = samples[places] if len(places) else samples[:1]
        names = self.task.classes[known[places]] if len(places) else self.task.classes[:1]
        with warnings.catch_warnings():
            if not len(places):
                warnings.simplefilter("ignore", TacitWarning)
            trained = taught(self.student, rows, names, np.ones(len(rows)))
        labels = np.asarray(trained.predict(samples), dtype=self.task.classes.dtype)
        labels[places] = self.task.classes[known[places]]
        arrays: dict[str, Any] = {"agreed": known >= 0, "agreement": sure}
        for each in released.history:
            arrays |= {f"rows {each.round}": each.rows, f"targets {each.round}": each.targets}
        holders = None
        if self.models:
            measured = np.array(self.accuracies) if self.task.test is not None else None
            holders = HolderModels(self.task.holders, self._model_names(), tuple(self.models), measured)
        recipe = {"agreed": len(places), "delivered_to": list(delivered)}
        return Outcome(trained, labels, None, arrays, {"rounds": len(released.history)}, recipe, holders)

    def _learn(self, released: Agreement) -> None:
        """Train the holders on the last consensus, or with votes on all of them."""
        if isinstance(self.coordinator, ConsensusVoteCoordinator):
            # Voting needs no model, so the models have not been trained on their own records yet.
            for side in self.sides:
                assert isinstance(side, VotingParty)
                side.begin()
            self._measure()
        for feedback in released.remaining:
            for side in self.sides:
                side.learn(feedback)
            self._measure()
