"""What the default chooses from, each part named by hand: releases, representations, numbers of queries, students."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

import tacit
from experiments.development import DevelopmentSet
from experiments.noisy_logistic import scores
from tacit.core.errors import InvalidInput, TacitWarning
from tacit.datasets.samples import samples_of
from tacit.encoders.kinds import recognize
from tacit.methods.task import taught, untrained

__all__ = ["cells", "releases_of"]

# Queries per class; small images have no cells for gradients and are seen as they are.
PER_CLASS = (2, 5, 20)
REPRESENTATIONS = {"images": ("pca", "spectral", "gradients"), "": ("standardized", "pca", "spectral")}
SUMMED = {"images": ("identity", "gradients", "patches"), "": ("auto", "identity", "standardized")}
STUDENTS = ("logistic", "forest", "map", "boosting")


def releases_of(kind: str, classes: int) -> Iterable[tuple[Mapping[str, str], Any]]:
    """What may be released, as names and the options that release it: votes, sums, and what the default asks."""
    among = "images" if kind == "images" else ""
    for representation in REPRESENTATIONS[among]:
        for each in PER_CLASS:
            options = tacit.ReverseKNN(
                representation=representation, queries=each * classes, labels="proportions", student="logistic"
            )
            yield _named("votes", representation, str(each * classes)), options
    for representation in SUMMED[among]:
        yield (
            _named("sums", representation, ""),
            tacit.ClassSums(representation=representation, whitening=0.25 if among else 0.0, student="logistic"),
        )
    yield _named("both in turn, or sums and a gradient", "chosen", ""), tacit.Auto()


def cells(parts: DevelopmentSet, epsilon: float, delta: float, seed: int) -> Iterable[dict[str, Any]]:
    """Every release once, and on it every student: names, accuracy, and for two classes the area under the curve."""
    kind = recognize(samples_of(parts.public)).kind
    for names, options in releases_of(kind, len(parts.classes)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TacitWarning)
            try:
                run = tacit.distill(
                    parts.private, parts.public, epsilon, delta=delta, seed=seed, method=options, **parts.settings()
                )
            except InvalidInput as error:
                yield {**names, "student": "", "refused": str(error)}
                continue
        if isinstance(options, tacit.Auto):
            yield {**names, "student": "chosen", "chosen": True, **_tested(run.student, run, parts)}
        # Where labels alone were released, each is taken as certain.
        certain = np.asarray(run.labels)[:, None] == np.asarray(parts.classes)
        chances = certain.astype(np.float64) if run.probabilities is None else run.probabilities
        rows = _encoded(run, parts.public)
        for student in STUDENTS:
            learned = taught(
                untrained(_boosting() if student == "boosting" else student), rows, run.labels, np.ones(0),
                (np.asarray(parts.classes), chances),
            )  # fmt: skip
            yield {**names, "student": student, **_scored(learned, _encoded(run, parts.test[0]), parts)}


def _named(release: str, representation: str, queries: str) -> dict[str, str]:
    return {"release": release, "representation": representation, "queries": queries}


def _boosting() -> Any:  # noqa: ANN401
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=50, random_state=0)


def _encoded(run: tacit.Run, samples: Any) -> Any:  # noqa: ANN401
    rows = np.asarray(samples) if run.encoder is None else run.encoder.encode(samples_of(samples))
    return rows.reshape(len(rows), -1)


def _tested(student: Any, run: tacit.Run, parts: DevelopmentSet) -> dict[str, float]:  # noqa: ANN401
    return _places(student.classes_, student.predict_proba(parts.test[0]), parts)


def _scored(student: Any, rows: Any, parts: DevelopmentSet) -> dict[str, float]:  # noqa: ANN401
    return _places(student.classes_, student.predict_proba(rows), parts)


def _places(classes: Any, chances: Any, parts: DevelopmentSet) -> dict[str, float]:  # noqa: ANN401
    known = {name: place for place, name in enumerate(np.asarray(classes).tolist())}
    return scores(np.array([known.get(each, -1) for each in np.asarray(parts.test[1]).tolist()]), chances)
