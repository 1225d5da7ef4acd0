"""A method rehearsed on public samples: it is run as it would be, on records made of labeled public samples.

Labels of some public samples are known. A regression on all but a third of them says how likely each class is for the
others; records are drawn from the public samples with labels by these odds, as many as there will be, and the method is
run on them with its real noise. How many labels of the third that was kept out it gets right is its accuracy. No
private record is read and nothing is spent.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, Number, TacitWarning, Unit
from tacit.core.options import Options
from tacit.datasets.frame import Frame
from tacit.datasets.image_files import ImageFiles
from tacit.methods.forecast import NINE_OF_TEN
from tacit.runs.distill import distill
from tacit.runs.inputs import Data

__all__ = ["Rehearsal", "rows_taken"]

_FOLDS = 3
# Records are this many at most; with fewer than there will be, ε is larger by as much, so that noise and counts keep
# their ratio.
_MOST = 3000
# Components and strengths of the regression that are compared by their likelihood on labels that they did not see.
_COMPONENTS, _STRENGTHS = (10, 40), (0.01, 0.1, 1.0)
# The regression has seen a few labels, and records know theirs. What it misses may be learned from them: this part of
# it at most.
_LEARNED = 0.15
# How far records differ from public samples with such labels, as a deviation.
_UNLIKE = 0.015


@dataclass(frozen=True)
class Rehearsal:
    """What a method gets right of the known labels, and an interval that should hold nine of ten runs."""

    accuracy: float
    low: float
    high: float

    @classmethod
    def of(
        cls,
        samples: Any,  # noqa: ANN401
        rows: NDArray[Any],
        known: Integers,
        classes: NDArray[Any],
        units: int,
        unit: Unit,
        epsilon: float,
        delta: Number,
        method: Options,
        kind: str,
        found: dict[Any, Any],
    ) -> Rehearsal:
        """Run the method on records made of ``samples``, whose numbers are ``rows``; ``found`` keeps the regressions.

        ``known`` has the place of each sample's class, or -1.
        """
        places = np.flatnonzero(known >= 0)
        least = np.bincount(known[places], minlength=len(classes))
        if len(places) < 10 * _FOLDS or (least > 0).sum() < 2:
            raise InvalidInput(f"a rehearsal needs at least {10 * _FOLDS} labeled public samples of two classes")
        if "rehearsal" not in found:
            found["rehearsal"] = [_odds(rows, known, part) for part in _folds(known, places)]
        right, seen = [], []
        drawn = min(units * unit.records, _MOST // unit.records * unit.records)
        data = Data(kind=kind, persons=None if unit.column is None else np.arange(drawn) // unit.records)
        share = epsilon * units * unit.records / drawn
        for fold, (kept, odds) in enumerate(found["rehearsal"]):
            random = np.random.default_rng(fold)
            which = random.integers(0, len(rows), drawn)
            guessed = (odds[which].cumsum(axis=1) > random.random((drawn, 1))).argmax(axis=1)
            told = np.where(known[which] >= 0, known[which], guessed)
            told = np.where(np.isin(which, kept), guessed, told)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TacitWarning)
                run = distill(
                    (rows_taken(samples, which), classes[told]), samples, share, delta=delta, method=method, data=data,
                    classes=classes, unit=unit, seed=fold,
                )  # fmt: skip
            right.append(np.asarray(run.labels)[kept] == classes[known[kept]])
            seen.append(odds[kept].argmax(axis=1) == known[kept])
        hits, guesses = np.concatenate(right), np.concatenate(seen)
        missed = 1 - float(guesses.mean())
        middle = min(1.0, float(hits.mean()) + missed / math.sqrt(len(hits)))
        # A share of labels, of a law that is never quite sure; and from fold to fold.
        likely = (hits.sum() + 1) / (len(hits) + 2)
        folds = np.var([each.mean() for each in right]) / _FOLDS
        wide = NINE_OF_TEN * math.sqrt(likely * (1 - likely) / len(hits) + folds + _UNLIKE**2)
        return cls(middle, max(0.0, middle - wide), min(1.0, middle + math.hypot(wide, _LEARNED * missed)))


def _folds(known: Integers, places: Integers) -> list[Integers]:
    """The known samples in parts with about as many of every class."""
    order = places[np.argsort(known[places], kind="stable")]
    return [order[part::_FOLDS] for part in range(_FOLDS)]


def _odds(rows: NDArray[Any], known: Integers, kept: Integers) -> tuple[Integers, NDArray[np.float64]]:
    """How likely each class is for every sample, by the known labels that are not kept out."""
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression

    classes = int(known.max()) + 1
    learned = np.setdiff1d(np.flatnonzero(known >= 0), kept)
    half = len(learned) // 2
    learned = np.random.default_rng(0).permutation(learned)
    flat = rows.reshape(len(rows), -1)
    best: tuple[float, Any, float] | None = None
    for components in _COMPONENTS:
        points = PCA(min(components, *flat.shape), random_state=0).fit_transform(flat)
        points = points / max(float(points[:, 0].std()), 1e-12)
        for strength in _STRENGTHS:
            loss = 0.0
            for some, others in ((learned[:half], learned[half:]), (learned[half:], learned[:half])):
                if len(np.unique(known[some])) < 2:
                    continue
                model = LogisticRegression(C=strength, max_iter=200).fit(points[some], known[some])
                chances = np.full((len(others), classes), 1e-6)
                chances[:, model.classes_] = model.predict_proba(points[others])
                loss -= float(np.log(np.maximum(chances[range(len(others)), known[others]], 1e-6)).sum())
            if best is None or loss < best[0]:
                best = loss, points, strength
    assert best is not None
    _, points, strength = best
    model = LogisticRegression(C=strength, max_iter=200).fit(points[learned], known[learned])
    odds = np.zeros((len(rows), classes))
    odds[:, model.classes_] = model.predict_proba(points)
    return kept, odds


def rows_taken(samples: Any, which: Integers) -> Any:  # noqa: ANN401
    """These of the samples."""
    if isinstance(samples, Frame):
        return Frame(samples.columns, tuple(samples.column(each)[which] for each in samples.columns))
    if isinstance(samples, ImageFiles):
        return ImageFiles(tuple(samples.files[each] for each in which))
    return samples[which]
