"""Students taught in generations from one release: what the former networks see groups the public samples anew.

What is released are labels of public samples, of which the surest are taught. Networks that learned them see the
classes farther apart than the representation did in which the release was asked for. So the public samples are grouped
once more, in the features of the former networks: a group per class, named by what the networks say of its samples,
and propagated over the neighbor graph. The next networks are taught these labels. All of this is post-processing: no
record is asked again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, Integers, Reals
from tacit.datasets.published import Parts
from tacit.methods.rknn.assignment import best_assignment
from tacit.methods.rknn.queries import cluster, margins, propagate
from tacit.representations.maps import neighbor_graph, spectral_map
from tacit.representations.scaled import PrincipalComponents
from tacit.runs.baselines import accuracy
from tacit.students.averaged import AveragedStudent

__all__ = ["Generations", "from_text", "regrouped", "taught", "to_text"]

# Of the networks' features: the components in which the neighbor graph is made, and how far they are whitened.
COMPONENTS, WHITENING = 64, 0.25


@dataclass(frozen=True)
class Generations:
    """How many networks each generation has, for how many epochs each one learns, and the networks' settings."""

    members: int
    epochs: tuple[int, ...]
    settings: Mapping[str, Any]

    def fit(
        self,
        samples: NDArray[Any],
        labels: NDArray[Any],
        weights: NDArray[np.float64],
        seed: int,
        checkpoint: Path | None = None,
    ) -> list[tuple[AveragedStudent, NDArray[Any]]]:
        """The ensemble of every generation, and the labels that it was taught.

        Samples of weight 0 are unlabeled, and taught from the second generation on.
        """
        from tacit.students.torch_classifier import TorchClassifier

        made: list[tuple[AveragedStudent, NDArray[Any]]] = []
        for number, epochs in enumerate(self.epochs):
            if made:
                labels, weights = relabeled(made[-1][0].students, samples), np.ones(len(samples))
            networks = [
                TorchClassifier(
                    **self.settings, epochs=epochs, seed=1000 * seed + 10 * number + member, checkpoint=checkpoint
                ).fit(samples, labels, weights)
                for member in range(self.members)
            ]
            made.append((AveragedStudent(networks), labels))
        return made


def relabeled(networks: Sequence[Any], samples: NDArray[Any]) -> NDArray[Any]:
    """The labels of the samples by groups in what the networks see."""
    seen = np.concatenate([each.features(samples) for each in networks], axis=1)
    guesses = AveragedStudent(networks).predict_proba(samples)
    named: NDArray[Any] = networks[0].classes_[regrouped(seen, guesses)]
    return named


def regrouped(features: Floats, guesses: Reals) -> Integers:
    """The class of each sample: groups of the features, as many as classes, each named after what is guessed of it.

    Every class names one group. Names are propagated over the neighbor graph of the groups' space.

    >>> random = np.random.default_rng(0)
    >>> truth = np.arange(90) % 3
    >>> features = np.eye(3)[truth] + random.normal(size=(90, 3)) / 8
    >>> guesses = np.full((90, 3), 0.2) + 0.4 * np.eye(3)[np.where(random.random(90) < 0.3, 0, truth)]
    >>> bool((guesses.argmax(axis=1) == truth).mean() < 0.9), bool((regrouped(features, guesses) == truth).all())
    (True, True)
    """
    classes = guesses.shape[1]
    components = PrincipalComponents.fit(features, min(COMPONENTS, features.shape[1]), whitening=WHITENING)
    rows = components.encode(features)
    places = spectral_map(rows, classes).encode(rows)
    groups = cluster(places, classes)
    said = np.stack([guesses[groups.membership == group].sum(axis=0) for group in range(classes)])
    names = best_assignment(said)
    beliefs = np.eye(classes)[names[groups.membership]] * margins(places, groups, names)[:, None]
    found: Integers = propagate(neighbor_graph(places), beliefs).argmax(axis=1).astype(np.int64)
    return found


def taught(
    plan: Generations,
    parts: Parts,
    labels: NDArray[Any],
    weights: NDArray[np.float64],
    seed: int,
    checkpoint: Path | None = None,
) -> dict[str, float]:
    """How often each generation is right about the test, and the labels that the last one was taught."""
    made = plan.fit(parts.public_samples, labels, weights, seed, checkpoint)
    tests = [accuracy(student.predict(parts.test_samples), parts.test_labels) for student, _ in made]
    return {
        "one network": accuracy(made[0][0].students[0].predict(parts.test_samples), parts.test_labels),
        **{f"generation {number}": test for number, test in enumerate(tests[:-1], start=1)},
        "test": tests[-1],
        "last labels": accuracy(made[-1][1], parts.public_labels),
    }


def to_text(numbers: NDArray[Any]) -> str:
    """Digits from 0 to 9 as text, to be kept among measurements.

    >>> from_text(to_text(np.array([3, 0, 7]))).tolist()
    [3, 0, 7]
    """
    return "".join(map(str, np.asarray(numbers, dtype=np.int64).tolist()))


def from_text(text: str) -> NDArray[np.int64]:
    """The digits of ``to_text``."""
    return np.array(list(text), dtype=np.int64)
