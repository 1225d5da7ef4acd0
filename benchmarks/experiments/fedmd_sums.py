"""Parties with different heads on a public encoder, and a real guarantee: one release of class sums over all parties.

Every party encodes its records by a network trained on ImageNet (public knowledge) and adds them, class by class, to
sums over all parties, released once with noise (ε = 1 for a record, δ = 1e-5). The coordinator computes a consensus
from them. Each party then combines it with its own head, in proportions that it chooses on its own records, out of
fold: what a party does with its own records at home is no release. A consensus that harms a party is left alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from experiments.fedmd import FedBench
from experiments.fedmd_data import StandIn, partitioned
from experiments.measured import code_of
from experiments.table import Result, Row
from tacit.core import Integers, Reals
from tacit.core.errors import TacitWarning
from tacit.methods.encoding import EncodedCache
from tacit.report.charts import Chart, Panel
from tacit.representations.scaled import PrincipalComponents
from tacit.runs.distill import distill

__all__ = ["combined", "sums"]

SIZE = 128  # pixels per side, where 32 are enlarged
PUBLIC = 1000  # public images, of which only the directions are used
PARTIES = 10
SIZES = (18, 60, 120, 300)
# The published figures for these numbers of records, without a usable guarantee.
PAPER = {18: "74.4", 60: "81.6", 120: "83.6", 300: "87.4"}
# The consensus' share of the log-odds; a party chooses among them.
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
MEASURES = {"own": 100.0, "consensus": 100.0, "after": 100.0, "worst party's gain": 100.0, "processor seconds": 1.0}
# Heads of five kinds; party i has kind i modulo 5.
HEADS = (
    LogisticRegression(C=1.0, max_iter=500),
    RidgeClassifier(alpha=10.0),
    KNeighborsClassifier(3, weights="distance", metric="cosine"),
    LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.5),
    make_pipeline(StandardScaler(), SVC(C=1.0)),
)


def sums(bench: FedBench) -> tuple[Result, Chart]:
    """Accuracy over the records of a party, alone, of the consensus, and of both."""
    data = _encoded(bench)
    how = "owner" if data.owners is not None else "iid"
    rows = [
        _row(bench, data, f"k = {size}, ε = 1", size, "1", how, {} if how == "owner" else {"after": PAPER[size]})
        for size in SIZES
    ]
    rows.append(_row(bench, data, "k = 300, no noise (NP)", 300, "1000000", how))
    rows.append(Row({"what": "pooled, no privacy"}, [_pooled(data)], {} if how == "owner" else {"after": "88.8"}))
    caption = (
        f"{PARTIES} parties with heads of five kinds on EfficientNet-lite0 (ImageNet, {SIZE} pixels), class sums over "
        f"all parties as consensus: {data.name}."
    )
    notes = (
        "ε = 1, δ = 1e-5 for one record (replace-one); the sums are trusted to a curator, or added under masks. One "
        "release in all. k: the records that a party has; all of them are in the sums and in its own head.",
        "Test figures with images of 96 pixels were seen before; only the size was changed since.",
        "own: a party's head alone (ε = 0 for the others: nothing is released). consensus: the released sums alone. "
        "after: both, in a proportion that each party chooses on its own records, out of fold; this is no release.",
        f"Public knowledge: the encoder, and {PUBLIC:,} images of CIFAR-10 without their labels (directions only). "
        "The paper's small networks were trained on CIFAR-10 with labels, and its figures have no usable guarantee.",
        "Images of CIFAR-100 are stored as AVIF here, close to the originals. Simulations with seeds.",
    )
    panel = Panel(
        bench.name, "records of a party", "accuracy, %", list(SIZES),
        {part: [float(100 * np.mean(row.values(part))) for row in rows[: len(SIZES)]]
         for part in ("own", "consensus", "after")}, log_across=True,
    )  # fmt: skip
    name = f"fedmd-{bench.name}-sums"
    return Result(name, caption, rows, MEASURES, notes), Chart(name, caption, [panel])


def combined(own: Reals, consensus: Reals, labels: Integers) -> float:
    """The share of the consensus with which log-chances are right most often; of equal ones the middle one.

    >>> right, wrong = np.log([[0.9, 0.1], [0.1, 0.9]]), np.log([[0.2, 0.8], [0.8, 0.2]])
    >>> combined(right, wrong, np.array([0, 1])), combined(wrong, right, np.array([0, 1]))
    (0.25, 0.75)
    """
    found = [float(np.mean(_mixed(own, consensus, share).argmax(axis=1) == labels)) for share in SHARES]
    best = [share for share, each in zip(SHARES, found, strict=True) if each == max(found)]
    return best[len(best) // 2]


def _mixed(own: Reals, consensus: Reals, share: float) -> Reals:
    mixed: Reals = (1 - share) * own + share * consensus
    return mixed


def _encoded(bench: FedBench) -> StandIn:
    """The features of the public encoder: 128 half-whitened directions of the public images."""
    from tacit.representations.torch_efficientnet import ImageNetFeatures

    data = replace(bench.data, public=bench.data.public[:PUBLIC], public_labels=None)
    network, kept = ImageNetFeatures.fit(bench.data.public, size=SIZE), EncodedCache(bench.memory.folder / "encoded")
    seen: list[Any] = [kept.encode(network, each) for each in (data.samples, data.public, data.test[0])]
    components = PrincipalComponents.fit(seen[1], 128, whitening=0.25)
    private, public, test = [components.encode(each) for each in seen]
    encoded: dict[str, Any] = {"samples": private, "public": public, "test": (test, data.test[1])}
    return replace(data, **encoded)


def _row(
    bench: FedBench, data: StandIn, what: str, size: int, epsilon: str, how: str,
    published: Mapping[str, str] | None = None,
) -> Row:  # fmt: skip
    runs = []
    for seed in range(1, bench.runs + 1):
        words = {
            "bench": "fedmd sums", "data": data.name, "size": size, "epsilon": epsilon, "seed": seed,
            "code": code_of("experiments.fedmd_sums", "tacit.methods.class_sums.method"),
        }  # fmt: skip
        runs.append(bench.memory.recall(words, partial(_run, data, size, epsilon, how, seed)))
        bench.tell(
            f"{what}, run {seed}: " + ", ".join(f"{name} {100 * runs[-1][name]:.1f} %" for name in ("own", "after"))
        )
    return Row({"what": what}, runs, published or {})


def _run(data: StandIn, size: int, epsilon: str, how: str, seed: int) -> dict[str, Any]:
    parts = []
    for samples, labels in partitioned(data, PARTIES, how, seed=seed):
        rows = _drawn(labels, size, seed)
        parts.append((samples[rows], labels[rows]))
    with warnings.catch_warnings():
        # Tables say what a line protects, and that its noise is large.
        warnings.simplefilter("ignore", TacitWarning)
        made = distill(
            parts, data.public, epsilon, delta="1e-5", method="class_sums", classes=data.classes,
            representation="identity", seed=seed,
        )  # fmt: skip
    classes, true = np.array(data.classes), data.test[1]
    said = _logs(made.student, data.test[0], classes)
    consensus = float(np.mean(classes[said.argmax(axis=1)] == true))
    own, after = [], []
    for party, (samples, labels) in enumerate(parts):
        head, places = HEADS[party % len(HEADS)], np.searchsorted(classes, labels)
        share = combined(_out_of_fold(head, samples, labels, classes), _logs(made.student, samples, classes), places)
        mine = _logs(clone(head).fit(samples, labels), data.test[0], classes)
        own.append(float(np.mean(classes[mine.argmax(axis=1)] == true)))
        after.append(float(np.mean(classes[_mixed(mine, said, share).argmax(axis=1)] == true)))
    return {
        "own": float(np.mean(own)), "consensus": consensus, "after": float(np.mean(after)),
        "worst party's gain": float(np.subtract(after, own).min()), "claim": str(made.guarantee),
    }  # fmt: skip


def _drawn(labels: Integers, size: int, seed: int) -> Integers:
    """Records of a party, the same number of each class as far as there are any."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(labels))
    turn = np.zeros(len(labels))
    for label in np.unique(labels):
        mine = order[labels[order] == label]
        turn[mine] = np.arange(len(mine))
    chosen: Integers = order[np.argsort(turn[order], kind="stable")[:size]]
    return chosen


def _out_of_fold(head: Any, samples: NDArray[Any], labels: Integers, classes: NDArray[Any]) -> Reals:  # noqa: ANN401
    """Log-chances of a party's records, each by a head that did not see it."""
    folds = min(3, int(np.unique(labels, return_counts=True)[1].min()))
    if folds < 2:
        return np.zeros((len(labels), len(classes)))
    found = np.zeros((len(labels), len(classes)))
    for fold in range(folds):
        # The same number of each class in every fold.
        held = np.zeros(len(labels), dtype=bool)
        for label in np.unique(labels):
            held[np.flatnonzero(labels == label)[fold::folds]] = True
        found[held] = _logs(clone(head).fit(samples[~held], labels[~held]), samples[held], classes)
    return found


def _logs(model: Any, samples: NDArray[Any], classes: NDArray[Any]) -> Reals:  # noqa: ANN401
    """Log-chances of each class; a model without probabilities has those of its decision function."""
    if hasattr(model, "predict_proba"):
        chances = np.asarray(model.predict_proba(samples))
    else:
        scores = model.decision_function(samples)
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    result = np.full((len(samples), len(classes)), np.log(1e-3))
    result[:, np.searchsorted(classes, model.classes_)] = np.log(np.maximum(chances, 1e-3))
    return result


def _pooled(data: StandIn) -> dict[str, Any]:
    """The mean of the heads' accuracies, each trained on all records."""
    scores = [clone(head).fit(data.samples, data.labels).score(*data.test) for head in HEADS]
    return {"after": float(np.mean(scores))}
