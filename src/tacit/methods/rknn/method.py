"""Reverse k-NN labeling as one job: planned from public information, answered by holders in this process or by nodes.

Between answers and after them labels are propagated, a student is trained, and its features become the next vote space:
all of it is post-processing of releases and public samples.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Coordinator, InvalidInput, Representation, TacitWarning, Trust, whole
from tacit.core.errors import not_one_of
from tacit.mechanisms.description import noise_in_words
from tacit.methods.curated import Answering, CuratedJob, private_cache, sharers_caveat
from tacit.methods.held import require_few_labels
from tacit.methods.rknn.coordinator import BALANCED, Labeling, Revision, VoteCoordinator, round_requests
from tacit.methods.rknn.holder import OneRecordHolders, VoteHolder
from tacit.methods.rknn.multilabel import SetCoordinator, SetLabeling, plan_sets
from tacit.methods.rknn.options import ReverseKNN
from tacit.methods.rknn.plan import Plan, plan, record_doubts
from tacit.methods.rknn.queries import keep_surest, lead, propagate
from tacit.methods.rknn.reading import ROBUST, added, pooling, put_together, robustly_added
from tacit.methods.rknn.voting_rules import NEAREST
from tacit.methods.task import Outcome, Task, taught, untrained
from tacit.private.gate import Gate
from tacit.representations.chained import Chained
from tacit.representations.maps import neighbor_graph, spectral_map
from tacit.representations.registry import ground
from tacit.representations.student_features import StudentFeatures, StudentOdds, require_sendable
from tacit.students.weighted import fit_by_label, label_thresholds

__all__ = ["PROPAGATIONS", "VOTE_SPACES", "StudentTrainer", "prepare", "propagation_by"]

PROPAGATIONS = ("clusters", "graph")
VOTE_SPACES = ("student", "student map", "same")


@dataclass(frozen=True)
class StudentTrainer:
    """Trains a student on labeled public samples, and gives its feature space for the next votes.

    ``label_fraction`` is the fraction of the most certain samples of every label that are used for training.
    ``vote_space`` is the space of the next votes: the student's features, a map of them, or the first one again.
    """

    untrained: Any
    public: NDArray[Any]
    names: NDArray[Any]
    first: Representation
    soft: bool
    label_fraction: float
    vote_space: str

    def __post_init__(self) -> None:
        if self.vote_space not in VOTE_SPACES:
            raise not_one_of("vote_space", VOTE_SPACES, self.vote_space)
        if not isinstance(self.label_fraction, numbers.Real) or not 0 < self.label_fraction <= 1:
            raise InvalidInput(f"label_fraction must be above 0 and at most 1, got {self.label_fraction!r}")

    def train(self, labeling: Labeling) -> Any:  # noqa: ANN401
        """The trained student, or one that always predicts the most frequent label if training fails."""
        rows = self.public.reshape(len(self.public), -1)
        labels = self.names[labeling.labels]
        sure = keep_surest(labeling.confidence, labeling.labels, self.label_fraction) > 0
        if self.soft and labeling.probabilities is not None:
            # Probabilities express their own certainty, so with a fraction of 1 none is left out.
            shown = sure if self.label_fraction < 1 else slice(None)
            soft = (self.names, labeling.probabilities[shown])
            return taught(self.untrained, rows[shown], labels[shown], np.ones(0), soft)
        # Confidences are weights only if all samples are used.
        weights = labeling.confidence if self.label_fraction == 1 else sure.astype(np.float64)
        return taught(self.untrained, rows, labels, weights)

    def revise(self, labeling: Labeling) -> Revision:
        """The feature space and predictions of a student trained on the labels so far."""
        from sklearn.dummy import DummyClassifier

        with warnings.catch_warnings():
            # Warnings about this temporary student are not for the user; the final one warns itself.
            warnings.simplefilter("ignore", TacitWarning)
            trained = self.train(labeling)
        odds = StudentOdds(trained, tuple(self.names.tolist()))
        guesses = np.square(odds.encode(self.public)).astype(np.float64)
        guesses /= guesses.sum(axis=1, keepdims=True)
        if self.vote_space == "same" or isinstance(trained, DummyClassifier):
            return Revision(self.first, guesses)
        seen: Representation = odds
        if hasattr(trained, "features"):
            seen = StudentFeatures(trained)
            if not seen.encode(self.public).any():
                raise InvalidInput("the student's features are not finite numbers: its training failed")
        if self.vote_space == "student map":
            seen = Chained.fit(self.public, lambda _: seen, spectral_map)
        return Revision(seen, guesses)


def propagation_by(
    name: str, public: NDArray[Any], representation: Representation
) -> Callable[[Labeling], Labeling] | None:
    """How labels of queries become labels of samples: None for clusters, or propagation over the neighbor graph."""
    if name not in PROPAGATIONS:
        raise not_one_of("propagation", PROPAGATIONS, name)
    if name == "clusters":
        return None
    graph = neighbor_graph(ground(representation, public))

    def over_graph(labeling: Labeling) -> Labeling:
        classes = int(labeling.labels.max()) + 1
        if classes == 1:
            return labeling
        found = propagate(graph, np.eye(classes)[labeling.labels] * labeling.confidence[:, None])
        return replace(labeling, labels=found.argmax(axis=1).astype(np.int64), confidence=lead(found))

    return over_graph


def prepare(task: Task, options: ReverseKNN) -> CuratedJob:
    """The job that labels this task's public samples by reverse k-NN votes."""
    trust = task.trusting(*tuple(Trust), default=Trust.CENTRAL if task.nodes is None else Trust.LOCAL)
    if options.robust is not None:
        require_robust(options.robust, trust, None if task.nodes is None else task.nodes.holders)
    if options.voting_rule not in (NEAREST, BALANCED):
        raise InvalidInput(f"voting_rule must be {NEAREST} or {BALANCED}, got {options.voting_rule!r}")
    student = None if isinstance(options.student, str) and options.student == "auto" else untrained(options.student)
    if task.multilabel:
        return _sets(task, options, trust, untrained("logistic") if student is None else student)
    if options.max_labels is not None:
        raise InvalidInput("max_labels is for records with sets of labels; these have one label each")
    task.observer.stage("choosing a representation and a mechanism")
    chosen = plan(
        task.public, len(task.classes), task.units, task.budget, task.delta, unit=task.unit,
        adjacency=task.adjacency, trust=trust, nodes=task.nodes, method=options,
    )  # fmt: skip
    task.check_representation(chosen.fitted)
    if options.labels != "hard" and options.propagation == "graph":
        raise InvalidInput(
            f"{options.labels} labels need propagation by clusters: leave out propagation, or use hard labels"
        )
    if student is None:
        # If a neighbor graph was chosen over a linear representation, it is better for the student as well.
        student = untrained("map" if chosen.representation == "spectral" else "logistic")
    if task.nodes is not None and len(chosen.rounds) > 1 and options.vote_space != "same":
        require_sendable(student)
    trainer = StudentTrainer(
        student, task.public, task.classes, chosen.fitted, options.labels != "hard", options.label_fraction,
        options.vote_space,
    )  # fmt: skip
    coordinator = VoteCoordinator(
        task.public, chosen.fitted, [each.round for each in chosen.rounds], chosen.neighbors, task.classes,
        task.request, propagation_by(options.propagation, task.public, chosen.fitted), trainer.revise,
        options.voting_rule,
    )  # fmt: skip
    return _job(task, options, chosen, coordinator, partial(_labeled, task, trainer))


def _labeled(task: Task, trainer: StudentTrainer, labeling: Labeling) -> Outcome:
    trained = trainer.train(labeling)
    return Outcome(
        student=trained,
        labels=task.classes[labeling.labels],
        probabilities=labeling.probabilities,
        arrays={
            "queries": labeling.clusters.centers,
            "query_labels": task.classes[labeling.query_labels],
            "membership": labeling.clusters.membership,
            **({} if labeling.counts is None else {"counts": labeling.counts}),
        },
    )


def _sets(task: Task, options: ReverseKNN, trust: Trust, student: Any) -> CuratedJob:  # noqa: ANN401
    """The job for records with sets of labels: every label of a public sample is decided separately."""
    chosen, reader = plan_sets(task, options, trust)
    task.check_representation(chosen.fitted)
    require_few_labels(task.parts, options.max_labels)
    coordinator = SetCoordinator(
        task.public, chosen.fitted, chosen.rounds[0].queries, chosen.choice.mechanism, reader, chosen.neighbors,
        task.classes, task.request, whole(options.max_labels, "max_labels"), options.voting_rule == BALANCED,
    )  # fmt: skip

    def finish(labeling: SetLabeling) -> Outcome:
        chances = labeling.chances[labeling.clusters.membership]
        thresholds = np.array(label_thresholds(options.thresholds, chances))
        return Outcome(
            student=fit_by_label(student, task.public.reshape(len(task.public), -1), chances, options.thresholds),
            labels=chances >= thresholds,
            probabilities=chances,
            arrays={
                "queries": labeling.clusters.centers,
                "query_labels": labeling.chances >= thresholds,
                "membership": labeling.clusters.membership,
            },
        )

    return _job(task, options, chosen, coordinator, finish)


def _job(
    task: Task,
    options: ReverseKNN,
    chosen: Plan,
    coordinator: Coordinator[Any, Any, Any, Any],
    finish: Callable[[Any], Outcome],
) -> CuratedJob:
    """The job of votes, paid by one account in this process or by one per node."""
    names = round_requests(task.request, len(chosen.rounds))
    spends = [each.choice.mechanism.spend for each in chosen.rounds]
    doubts: Sequence[str] = chosen.doubts
    if task.nodes is None and not task.multilabel:
        doubts = (*record_doubts(chosen, task.units), *doubts)
    return CuratedJob(
        task,
        options,
        chosen,
        coordinator,
        trust=chosen.trust,
        prices=dict(zip(names, spends, strict=True)),
        chosen={
            "method": options.name,
            "mechanism": chosen.choice.name,
            "why": chosen.choice.reason,
            **noise_in_words(chosen.choice.mechanism),
            "queries": chosen.queries,
            "rounds": [
                {"queries": each.queries, "mechanism": each.choice.name, "selection": each.selection}
                for each in chosen.rounds
            ],
            "neighbors": chosen.neighbors,
            "representation": chosen.representation,
        },
        stage="counting votes",
        holder=partial(_answering, task, options, chosen.trust),
        finish=finish,
        unit=chosen.unit,
        doubts=doubts,
        caveats=() if task.nodes is None else _assumed(chosen),
        pool=lambda nodes: pooling(nodes.exchange, _pool(chosen.trust, nodes.holders, options.robust)),
    )


def _assumed(chosen: Plan) -> tuple[str, ...]:
    """The caveat about other holders, if the guarantee depends on them."""
    mechanism: Any = chosen.choice.mechanism
    if chosen.trust is Trust.SHUFFLE:
        return (mechanism.inner.in_words.rstrip("."),)
    return sharers_caveat(mechanism, chosen.trust)


def _answering(task: Task, options: ReverseKNN, trust: Trust, gate: Gate) -> Answering:
    """All records behind one gate: of a curator, or of one-record holders in one process."""
    task.observer.stage("choosing queries among the public samples")
    side = VoteHolder if trust is Trust.CENTRAL else OneRecordHolders
    return side(list(task.parts), gate, task.observer.progress, private_cache(options.private_cache)).answer


def require_robust(rule: str, trust: Trust, holders: str | None = "nodes") -> None:
    """Refuse a robust rule unless nodes send separate tables.

    >>> require_robust("median", Trust.MASKED)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: robust needs local trust and holders = nodes, whose tables arrive separately; \
with masked trust only the sum is seen
    """
    if rule not in ROBUST:
        raise InvalidInput(f"robust must be one of {', '.join(ROBUST)}, got {rule!r}")
    if trust is not Trust.LOCAL or holders != "nodes":
        seen = f"; with {trust} trust only the sum is seen" if trust != Trust.LOCAL else ""
        raise InvalidInput(f"robust needs local trust and holders = nodes, whose tables arrive separately{seen}")


def _pool(trust: Trust, holders: str, robust: str | None) -> Callable[[list[Any]], Any]:
    """How the answers of nodes become one; a shuffler or curator has already combined them."""
    if robust is not None:
        return partial(robustly_added, robust)
    if trust in (Trust.CENTRAL, Trust.SHUFFLE):
        return _only
    return added if holders == "nodes" else put_together


def _only(answers: list[Any]) -> Any:  # noqa: ANN401
    if len(answers) != 1:
        raise InvalidInput(f"one answer was expected, combined from all nodes' answers; got {len(answers)}")
    return answers[0]
