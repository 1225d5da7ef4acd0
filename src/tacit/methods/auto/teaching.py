"""What the coordinator computes from releases, between questions and at the end: the next question, labels, students.

Without a network the student is the regression itself, on the public features of all releases.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning

from tacit.core import InvalidInput, Representation, TacitWarning, Trust
from tacit.core.codec import StrictReader, decode, encode
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.methods.auto.coordinator import (
    MIXED_KINDS,
    Block,
    Features,
    PublicMixture,
    Step,
    SumFeatures,
    VoteFeatures,
    current,
    joint_odds,
    joint_points,
    purity,
    refined,
    shifted,
    sum_block,
)
from tacit.methods.auto.correction import corrected_block, correction_ask, moved_block
from tacit.methods.auto.image_students import FEW, component_features, image_network, perceptron
from tacit.methods.auto.plan import AutoPlan
from tacit.methods.class_sums.coordinator import LinearOdds, Moments, ReleasedSums
from tacit.methods.class_sums.options import ClassSums
from tacit.methods.class_sums.plan import counted, plan_sums
from tacit.methods.class_sums.wire import SumAsk
from tacit.methods.rknn.posterior import Noise, expected_proportions
from tacit.methods.rknn.queries import cluster, iterative_proportional_fitting, suggest_queries
from tacit.methods.rknn.wire import VoteAsk, table_sensitivity
from tacit.methods.task import Outcome, Task, taught, untrained
from tacit.representations.registry import fit_representation, read_representation, representation_fields
from tacit.representations.student_features import StudentFeatures
from tacit.students.averaged import AveragedStudent, StoredNetwork

__all__ = ["PER_CLASS", "AutoTeaching", "ReleasedFeatures", "mixture_student", "regression_student"]

# The least number of queries per class, so that a class may have more than one cluster.
PER_CLASS, PER_CLASS_LATER = 2, 4
# The purity from which on clusters count as classes: two clusters per class of handwritten digits have .97, of clothes
# .75.
_PURE = 0.9
# More queries do not improve the student, and take longer.
_MOST_QUERIES = 300


class ReleasedFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer to the features of releases; ``written`` is these features as bytes, so that loading runs no code.

    >>> from tacit.representations.scaled import Identity
    >>> votes = VoteFeatures(Identity(2), np.array([[0.0, 0.0], [9.0, 9.0]], dtype=np.float32))
    >>> ReleasedFeatures.of([votes], (2,)).transform([[8.0, 8.0]]).tolist()
    [[0.0, 1.0]]
    """

    def __init__(self, written: NDArray[np.uint8], shape: Sequence[int]) -> None:
        self.written = written
        self.shape = shape

    @classmethod
    def of(cls, features: Sequence[Features], shape: Sequence[int]) -> ReleasedFeatures:
        """The transformer to these features, for samples of this shape."""
        return cls(np.frombuffer(encode([_fields(each) for each in features]), dtype=np.uint8).copy(), list(shape))

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> ReleasedFeatures:
        """Does nothing."""
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """One row per sample, the features of all releases concatenated."""
        samples = np.asarray(X).reshape(-1, *self.shape)
        return np.concatenate([each.points(samples) for each in self.features()], axis=1)

    def representations(self) -> list[Representation]:
        """The representations of its features."""
        return [each.representation for each in self.features()]

    def features(self) -> list[Features]:
        """The features in ``written``."""
        return [_read(each) for each in decode(np.asarray(self.written, dtype=np.uint8).tobytes())]

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _fields(features: Features) -> dict[str, Any]:
    common = {"representation": representation_fields(features.representation)}
    if isinstance(features, VoteFeatures):
        return common | {"queries": features.queries}
    return common | {"scale": features.scale, "radius": features.radius, "norm": features.norm}


def _read(fields: dict[str, Any]) -> Features:
    representation = read_representation(StrictReader(fields["representation"], "student"))
    if "queries" in fields:
        return VoteFeatures(representation, fields["queries"])
    return SumFeatures(representation, fields["scale"], fields["radius"], fields["norm"])


def regression_student(
    features: Sequence[Features], odds: LinearOdds, classes: NDArray[Any], shape: Sequence[int]
) -> Any:  # noqa: ANN401
    """The regression as a scikit-learn pipeline, which can be saved like any student."""
    from sklearn.pipeline import Pipeline

    return Pipeline([("features", ReleasedFeatures.of(features, shape)), ("odds", _regression(odds, classes))])


def mixture_student(found: PublicMixture, classes: NDArray[Any]) -> Any:  # noqa: ANN401
    """The mixture's odds as a scikit-learn pipeline."""
    from sklearn.pipeline import Pipeline

    return Pipeline([("features", found.components), ("odds", _regression(found.odds, classes))])


def _regression(odds: LinearOdds, classes: NDArray[Any]) -> Any:  # noqa: ANN401
    """A logistic regression with these odds."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression()
    order = np.argsort(classes, kind="stable")
    weights, intercepts = odds.weights[:, order].T, odds.intercepts[order]
    if len(classes) == 2:
        weights, intercepts = weights[1:] - weights[:1], intercepts[1:] - intercepts[:1]
    model.classes_, model.coef_, model.intercept_ = classes[order], weights, intercepts
    model.n_features_in_, model.n_iter_ = weights.shape[1], np.zeros(1, dtype=np.int32)
    return model


@dataclass(frozen=True)
class AutoTeaching:
    """The coordinator's computations, from public samples and releases only."""

    task: Task
    plan: AutoPlan

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.task.classes)

    def choose(self, blocks: Sequence[Block]) -> Step:
        """The next question: for images votes first, then by their purity."""
        task = self.plan.tasks[len(blocks)]
        if self.plan.kind != "images":
            if self.plan.corrects and blocks:
                return self._correction(task, blocks[0])
            return self._sums(task, self.plan.representation)
        if self.plan.releases == "sums" and not blocks:
            return self._sums(task, self.plan.representation)
        if not blocks:
            queries = self._queries(task)
            return self._votes(task, fit_representation(self.plan.vote_space, task.public, queries)[1], queries)
        if not self.clustered(blocks) and len(blocks) == 1 and self.plan.releases != "sums":
            return self._sums(task, self.plan.representation)
        chances = self.probabilities(blocks)
        network = self._taught(chances) if self.plan.network else None
        if self.clustered(blocks):
            return self._votes(task, self._view(network), PER_CLASS_LATER * self.classes)
        if hasattr(network, "features"):
            seen = self._seen(network)
            if shifted(blocks, chances, seen):
                return self._votes(task, self._view(network), self._queries(task), seen)
        if self.plan.corrects:
            return self._correction(task, blocks[1])
        try:
            return self._sums(task, self._view(network))
        except InvalidInput:
            # A network that gives all samples the same features must not waste what was paid.
            return self._sums(task, self.plan.representation)

    def clustered(self, blocks: Sequence[Block]) -> bool:
        """Whether clusters are nearly pure, by the first votes."""
        if self.plan.releases != "auto":
            return self.plan.releases == "votes"
        return blocks[0].counts is not None and purity(blocks[0].counts) >= _PURE

    def probabilities(self, blocks: Sequence[Block]) -> NDArray[np.float64]:
        """The probability of each class for every public sample, from all releases."""
        if blocks[-1].begun is not None:
            return iterative_proportional_fitting(
                self._shares(blocks[-1]), blocks[-1].public.argmax(axis=1), blocks[-1].begun
            )
        if self.plan.kind != "images" or not self.clustered(blocks):
            return joint_odds(blocks).probabilities(joint_points(blocks))
        chances: NDArray[np.float64] = self._shares(blocks[0])[blocks[0].public.argmax(axis=1)]
        for each in blocks[1:]:
            # Votes give the class proportions of a cluster; earlier probabilities say which samples have which class.
            chances = iterative_proportional_fitting(self._shares(each), each.public.argmax(axis=1), chances)
        return chances

    def finish(self, blocks: Sequence[Block], student: Any) -> Outcome:  # noqa: ANN401
        """The final student: a network if clusters are classes, otherwise the regression, a mixture or an average."""
        task = self.task
        voted = self.plan.kind == "images" and (self.clustered(blocks) or blocks[-1].begun is not None)
        odds = None if voted else joint_odds(blocks)
        chances = self.probabilities(blocks) if odds is None else odds.probabilities(joint_points(blocks))
        mixture = refined(current(blocks), task.public, chances) if self.plan.kind in MIXED_KINDS else None
        if mixture is not None:
            chances = mixture.probabilities
        labels = task.classes[chances.argmax(axis=1)]
        if not (isinstance(student, str) and student == "auto"):
            rows = task.public.reshape(len(task.public), -1)
            trained = taught(untrained(student), rows, labels, np.ones(0), (task.classes, chances))
        elif odds is None:
            trained = self.last(chances)
        elif mixture is not None:
            trained = mixture_student(mixture, task.classes)
        else:
            features = [each.features for each in current(blocks)]
            trained = regression_student(features, odds, task.classes, task.public.shape[1:])
            if self.plan.network:
                trained = self.last(chances, trained)
        arrays = {f"release_{number}": each.released for number, each in enumerate(blocks, start=1)
                  if each.released is not None}  # fmt: skip
        asked = ["a gradient" if each.refines else "sums" if each.counts is None else "votes" for each in blocks]
        said_once = [what for what, _ in groupby(asked)] + ([] if mixture is None else ["a mixture of public samples"])
        released = [{"what": what, **each.noise} for what, each in zip(asked, blocks, strict=True)]
        said = {"chosen": ", then ".join(said_once), "released": released}
        return Outcome(trained, labels, chances, arrays, recipe=said)

    def last(self, chances: NDArray[np.float64], *others: Any) -> Any:  # noqa: ANN401
        """The mean of two networks and of another student, whose errors differ; without networks that student.

        The second network learns the mean of what was released and of what the first one made of it.
        """
        first = self._taught(chances, last=True)
        if not hasattr(first, "save_tensors"):
            return others[0] if others else first
        second = self._taught((chances + self._seen(first)) / 2, last=True, seed=1)
        return AveragedStudent([*others, StoredNetwork.of(first), StoredNetwork.of(second)])

    def _queries(self, task: Task) -> int:
        """As many queries as get votes above the noise, but at least PER_CLASS per class."""
        mechanism: Any = self.vote_mechanism(task, len(task.public))
        wanted = suggest_queries(task.units, len(task.public), self.classes, 1, mechanism.lead(self.classes, 0.01))
        return int(min(max(wanted, PER_CLASS * self.classes), len(task.public) // 2, _MOST_QUERIES))

    def vote_mechanism(self, task: Task, queries: int) -> Any:  # noqa: ANN401
        """The mechanism for votes at a question's part of the budget."""
        sensitivity = table_sensitivity(queries, self.classes, 1, task.unit, task.adjacency)
        kind = RoundedGaussianNoise if task.delta > 0 else DiscreteLaplaceNoise
        return kind.calibrated(sensitivity, task.budget, task.delta)

    def _votes(self, task: Task, space: Representation, queries: int, begun: NDArray[np.float64] | None = None) -> Step:
        encoded = space.encode(task.public)
        queries = min(queries, len(np.unique(encoded, axis=0)))
        clusters = cluster(encoded, queries)
        ask = VoteAsk(
            queries=clusters.centers,
            representation=space,
            neighbors=1,
            class_names=tuple(map(str, task.classes)),
            space=hashlib.sha256(encoded.tobytes()).hexdigest(),
            mechanism=self.vote_mechanism(task, queries),
            purpose="reverse k-NN labels",
            request=task.request,
        )
        seen = {"queries": queries, "neighbors": 1, "representation": type(space).__name__}
        return Step(ask, partial(self._vote_block, ask, begun), chosen=seen)

    def _vote_block(self, ask: VoteAsk, begun: NDArray[np.float64] | None, counts: NDArray[Any]) -> Block:
        features = VoteFeatures(ask.representation, ask.queries)
        public, size = features.points(self.task.public), self._size(counts)
        mechanism: Any = ask.mechanism
        # Noise may make the total of votes larger than the number of records, or negative.
        shares = np.maximum(counts.sum(axis=0) / size, 1e-3)
        shares /= shares.sum()
        means = counts.T / size
        means = means + (public.mean(axis=0) - means.sum(axis=0)) / self.classes
        drawn = np.outer(shares * (1 - shares), public.mean(axis=0)) / size
        noise = mechanism.noise_law.variance * (1 - 1 / self.classes) / size**2
        found = Moments(means, shares, drawn + noise)
        return Block(features, public, found, np.asarray(counts), size, begun=begun)

    def _size(self, counts: NDArray[Any]) -> float:
        known = counted(self.task)
        return float(max(1.0, counts.sum())) if known is None else float(known)

    def _shares(self, block: Block) -> NDArray[np.float64]:
        """The class proportions of each query's votes, from noisy counts."""
        assert block.counts is not None
        scale = float(np.sqrt(np.median(block.moments.variances))) * self._size(block.counts)
        return expected_proportions(block.counts, Noise("gaussian", max(scale, 1e-3)))

    def _sums(self, task: Task, representation: str | Representation) -> Step:
        options = ClassSums(representation=representation, whitening=self.plan.whitening)
        planned = plan_sums(task, options, Trust.CENTRAL)
        ask = planned.question
        chosen = {
            "representation": planned.representation, "components": ask.components, "whitening": options.whitening,
            "count_weight": ask.count / ask.radius, "norm": ask.norm, "fit": "moments of all releases together",
        }  # fmt: skip
        return Step(ask, lambda table: self.summed_block(ask, ReleasedSums(table)), planned.doubts, chosen)

    def summed_block(self, ask: SumAsk, released: ReleasedSums) -> Block:
        """The block of released sums, of a curator or of nodes."""
        return sum_block(ask, released, self.task.public, counted(self.task))

    def _correction(self, task: Task, sums: Block) -> Step:
        """The gradient at the odds that follow from the sums."""
        ask = correction_ask(task, sums, joint_odds([sums]))
        read = moved_block if self.plan.kind == "images" else corrected_block
        return Step(ask, lambda table: read(ask, table, sums))

    def _view(self, network: Any) -> Representation:  # noqa: ANN401
        """The feature space of a trained network; without one that of the first votes."""
        if hasattr(network, "features"):
            return StudentFeatures(network)
        return fit_representation(self.plan.vote_space, self.task.public, PER_CLASS_LATER * self.classes)[1]

    def _seen(self, network: Any) -> NDArray[np.float64]:  # noqa: ANN401
        """The probability of each class for every public sample, by a trained network."""
        rows = self.task.public.reshape(len(self.task.public), -1)
        known = np.searchsorted(self.task.classes, network.classes_, sorter=(order := np.argsort(self.task.classes)))
        chances = np.zeros((len(rows), self.classes))
        chances[:, order[known]] = network.predict_proba(rows)
        return chances

    def _taught(self, chances: NDArray[np.float64], last: bool = False, seed: int = 0) -> Any:  # noqa: ANN401
        labels = self.task.classes[chances.argmax(axis=1)]
        if self.plan.network:
            student = image_network(self.task.public, last, seed)
        else:
            few = self.plan.representation == "identity" or len(self.task.public) < FEW
            student = untrained("map") if few else self._perceptron()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TacitWarning)
            # The perceptron's few passes are a choice.
            warnings.simplefilter("ignore", ConvergenceWarning)
            rows = self.task.public.reshape(len(self.task.public), -1)
            return taught(student, rows, labels, np.ones(0), (self.task.classes, chances))

    def _perceptron(self) -> Any:  # noqa: ANN401
        """Scikit-learn's perceptron on components of the features that are summed: what learns images without torch."""
        public = self.task.public
        features = component_features(public, self.plan.representation, self.plan.whitening, self.classes)
        return perceptron(ReleasedFeatures.of([features], public.shape[1:]), features.points(public))
