"""Students taught in generations from one release: an ensemble labels all public samples for the next one.

What is released are labels of public samples, of which the surest are taught. The networks that learned them average
out each other's errors and those of single labels, so that the next networks are taught by the mean of their
probabilities on every public sample. All of this is post-processing: no record is asked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.datasets.published import Parts
from tacit.runs.baselines import accuracy
from tacit.students.averaged import AveragedStudent

__all__ = ["Generations", "from_text", "taught", "to_text"]


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
    ) -> list[AveragedStudent]:
        """The ensemble of every generation; samples of weight 0 are unlabeled, and taught from the second one on."""
        from tacit.students.torch_classifier import TorchClassifier

        made: list[AveragedStudent] = []
        for number, epochs in enumerate(self.epochs):
            networks = [
                TorchClassifier(
                    **self.settings, epochs=epochs, seed=1000 * seed + 10 * number + member, checkpoint=checkpoint
                )
                for member in range(self.members)
            ]
            for network in networks:
                if made:
                    network.fit_probabilities(samples, made[-1].classes_, made[-1].predict_proba(samples))
                else:
                    network.fit(samples, labels, weights)
            made.append(AveragedStudent(networks))
        return made


def taught(
    plan: Generations,
    parts: Parts,
    labels: NDArray[Any],
    weights: NDArray[np.float64],
    seed: int,
    checkpoint: Path | None = None,
) -> dict[str, float]:
    """How often the first generation and the last one are right: about the test, and about all public samples."""
    made = plan.fit(parts.public_samples, labels, weights, seed, checkpoint)

    def right(student: Any) -> float:  # noqa: ANN401
        return accuracy(student.predict(parts.test_samples), parts.test_labels)

    return {
        "one network": right(made[0].students[0]),
        "first generation": right(made[0]),
        "one network, last": right(made[-1].students[0]),
        "test": right(made[-1]),
        "labels after": accuracy(made[-1].predict(parts.public_samples), parts.public_labels),
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
