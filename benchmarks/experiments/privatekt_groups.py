"""PrivateKT that asks about groups of public samples: what a total buys, and what importance sampling adds.

Nothing is chosen by a private record, by a test sample, or per data set and budget: how often a holder answers and how
many groups there are follow from the number of classes, of holders and ε. These rules, and the local models, were
developed on the labels of public samples. Every line is measured with importance sampling and without, on the same
seeds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression

from experiments.privatekt import TransferBench
from experiments.privatekt_data import Setting
from experiments.table import Result, Row
from tacit.datasets.published import Parts
from tacit.methods.encoding import EncodedCache
from tacit.methods.privatekt.groups import suggest_rounds
from tacit.methods.privatekt.options import Teaching
from tacit.report.charts import Chart, Panel
from tacit.representations.chained import Chained
from tacit.representations.image_features import Deskewed, EvenWidth, OrientedGradients
from tacit.representations.maps import spectral_map
from tacit.representations.scaled import PrincipalComponents

__all__ = ["GROUPED", "Grouped", "groups", "likeness"]

TOTALS = (5, 10, 20)
# Where the parts are compared.
MIDDLE = 10
# What is asked if nothing needs to be hidden: an answer is randomized with a probability of e^-50.
CLEAR = "50"
MEASURES = {"accuracy": 100.0, "epsilon": 1.0, "rounds": 1.0, "processor seconds": 1.0}


class Once(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that is trained once on the same records: lines of one seed share their holders' models.

    >>> rows, labels = np.array([[0.0], [1.0]]), np.array([0, 1])
    >>> first, second = (Once(LogisticRegression()).fit(rows, labels) for _ in range(2))
    >>> first.trained_ is second.trained_
    True
    """

    _known: ClassVar[dict[bytes, Any]] = {}

    def __init__(self, estimator: Any) -> None:  # noqa: ANN401
        self.estimator = estimator

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Once:
        """The classifier trained on these records, now or before."""
        key = hashlib.sha256(repr(self.estimator).encode() + X.tobytes() + y.tobytes()).digest()
        if key not in self._known:
            self._known[key] = clone(self.estimator).fit(X, y)
        self.trained_ = self._known[key]
        self.classes_ = self.trained_.classes_
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Its classes."""
        found: NDArray[Any] = self.trained_.predict(X)
        return found

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        """Its chances."""
        found: NDArray[Any] = self.trained_.predict_proba(X)
        return found


@dataclass(frozen=True, repr=False)
class Mapped:
    """A map of the neighbor graph of the public samples, made once; it places each public sample where it was put."""

    places: dict[bytes, NDArray[Any]]

    def __repr__(self) -> str:
        return f"a map of {len(next(iter(self.places.values())))} public samples"

    @classmethod
    def fit(cls, public: NDArray[Any], components: int = 20) -> Mapped:
        """Made from these samples, which are all that it places."""
        return cls({hashlib.sha256(public.tobytes()).digest(): spectral_map(public, components).encode(public)})

    def encode(self, samples: NDArray[Any]) -> NDArray[Any]:
        """The places of the samples that it was made from."""
        return self.places[hashlib.sha256(np.ascontiguousarray(samples).tobytes()).digest()]


@dataclass(frozen=True)
class Grouped:
    """How a data set is seen: its encoder, the space of the groups, the models, and what the classes are called."""

    representation: str | Callable[[NDArray[Any]], Any]
    model: Any
    local: Any = None
    targets: str = "soft"
    balanced: bool = False
    encode: Callable[[Parts, Path], Parts] | None = None
    names: tuple[str, ...] = ()
    knowledge: str = ""
    compared: bool = True  # whether what else a run is made of is left out in turn, which takes long on large sets
    looked: str = ""  # what of the test part was seen while a rule was not settled


def _gradients(*before: Any) -> Callable[[Parts, Path], Parts]:  # noqa: ANN401
    def encode(parts: Parts, cache: Path) -> Parts:
        kept = EncodedCache(cache / "encoded")
        encoder = Chained.fit(
            parts.public_samples, *before, OrientedGradients.fit,
            lambda rows: PrincipalComponents.fit(rows, 64, whitening=0.25),
        )  # fmt: skip
        private, public, test = (
            kept.encode(encoder, each) for each in (parts.private_samples, parts.public_samples, parts.test_samples)
        )
        return replace(parts, private_samples=private, public_samples=public, test_samples=test)

    return encode


_WRITTEN = LogisticRegression(C=0.1, max_iter=300)
_HANDWRITING = Grouped(
    Mapped.fit, _WRITTEN, Once(_WRITTEN), targets="weighted", encode=_gradients(Deskewed.fit, EvenWidth.fit),
    knowledge="unlabeled public images, and that they are handwriting (deskewed, made equally wide; oriented "
    "gradients; groups in a map of the neighbor graph)",
)  # fmt: skip
GROUPED: Mapping[str, Grouped] = {
    "mnist": _HANDWRITING,
    "mnist-1000": replace(_HANDWRITING, compared=False),
    "pneumonia": Grouped(
        "identity", LogisticRegression(C=0.1, max_iter=300), balanced=True, encode=_gradients(),
        knowledge="unlabeled public images (oriented gradients). All classes are taught with the same weight",
        looked="The test part was looked at once before: with ten answers per group, 82.9, 81.3 and 79.5 % at ε = 5, "
        "10 and 20. Sixteen per group are what labels of public samples preferred, here and on MNIST.",
    ),
    "text": Grouped(
        "identity", LogisticRegression(max_iter=300),
        names=("neoplasms", "digestive system diseases", "nervous system diseases", "cardiovascular diseases",
               "general pathological conditions"),
        knowledge="unlabeled public abstracts, and MiniLM",
    ),
    "news": Grouped(
        "identity", LogisticRegression(max_iter=300),
        knowledge="unlabeled public news, and MiniLM",
        compared=False,
    ),
}  # fmt: skip


def groups(bench: TransferBench) -> tuple[Result, Chart]:
    """Totals of ε, with and without importance sampling, between no answers and answers without noise."""
    how, classes = GROUPED[bench.name], len(bench.parts.classes)
    if how.encode is not None:
        bench = replace(bench, parts=how.encode(bench.parts, bench.cache))
    if callable(how.representation):
        bench.tell("mapping the public samples")
        how = replace(how, representation=how.representation(bench.parts.public_samples))
    rows = [_constant(bench)]
    curves: dict[str, list[float | None]] = {}
    variants = {"": False} | ({", classes' names known": True} if how.names else {})
    for name, known in variants.items():
        if known:
            bench = replace(bench, beliefs=likeness(bench.parts.public_samples, how.names))
            rows.append(_names_alone(bench, how))
        for importance in (True, False):
            said = f"{name}{'' if importance else ', no importance sampling'}"
            found = []
            for total in TOTALS:
                times = suggest_rounds(classes, total, bench.main.delta)
                setting = _setting(bench.main, how, str(total), times, importance, known)
                found.append(bench.row(f"total ε = {total}: {times} × 1 answers{said}", setting))
            rows += found
            curves[f"groups{said}"] = [float(100 * np.mean(row.values("accuracy"))) for row in found]
        clear = replace(_setting(bench.main, how, "20", times, True, known), epsilon=None, round_epsilon=CLEAR)
        rows.append(bench.row(f"no noise: {times} × 1 answers{name}", clear))
    if how.compared:
        rows += _parts(bench, how)
    rows.append(_true_labels(bench, how))
    caption = (
        f"PrivateKT on {bench.name}, asking about groups of public samples: {bench.main.holders} holders, δ = 1e-5, "
        "total ε of each over all rounds."
    )
    notes = (
        *bench.data.notes,
        f"Public knowledge: {how.knowledge}. ε = 0: one class for everything"
        + (", or the class whose name MiniLM finds likest." if how.names else "."),
        "ε is the total of one holder with all its records (unit: holder; replace-one; δ = 1e-5; nobody is trusted: "
        "answers are randomized by the holder), by exact composition of the rounds it answers. Simulations with seeds.",
        "How often a holder answers and how many groups there are follow from the number of classes, of holders and ε "
        "by fixed rules, developed on labels of public samples. No test sample and no private record chose anything.",
        *filter(None, [how.looked]),
        *_gains(rows),
    )
    panel = Panel(bench.name, "total ε of a holder", "accuracy, %", list(TOTALS), curves, log_across=True)
    name = f"privatekt-{bench.name}-groups"
    return Result(name, caption, rows, MEASURES, notes), Chart(name, caption, [panel])


def _parts(bench: TransferBench, how: Grouped) -> list[Row]:
    """At one total, with self-training added, and with questions about single samples, forgotten or not."""
    times = suggest_rounds(len(bench.parts.classes), MIDDLE, bench.main.delta)
    setting = _setting(bench.main, how, str(MIDDLE), times, True, False)
    teaching = replace(setting.teaching, targets="weighted", buffer=None)
    variants = {
        "self-training added": replace(setting, teaching=replace(setting.teaching, self_training=True)),
        "single samples, all answers kept": replace(setting, groups=None, teaching=teaching),
        "single samples, a buffer of 25 rounds": replace(setting, groups=None, teaching=replace(teaching, buffer=25)),
        "single samples, no importance sampling": replace(
            setting, groups=None, teaching=replace(teaching, importance=False)
        ),
    }
    return [bench.row(f"total ε = {MIDDLE}: {times} × 1 answers, {what}", each) for what, each in variants.items()]


def _setting(main: Setting, how: Grouped, epsilon: str, times: int, importance: bool, names: bool) -> Setting:
    """Each holder answers this many times; one question at a time, to a fortieth of the holders."""
    invited = max(1, main.holders // 40)
    teaching = Teaching(
        importance=importance, self_training=False, targets=how.targets, balanced=how.balanced, warmup_rounds=1
    )
    return replace(
        main, round_epsilon=None, epsilon=epsilon, rounds=-(-times * main.holders // invited), answers=1,
        participation=invited / main.holders, model=how.model, local=how.local, teaching=teaching, groups=0,
        representation=how.representation, names=names, learning=replace(main.learning, adjusted=True),
    )  # fmt: skip


def likeness(samples: NDArray[Any], names: tuple[str, ...]) -> NDArray[np.float64]:
    """The chances of each class by the likeness of a text to its name: .1 more is e² as likely."""
    from tacit.representations.torch_minilm import TextFeatures

    logs = np.asarray(samples, dtype=np.float64) @ TextFeatures(32).encode(np.array(names)).T / 0.05
    chances = np.exp(logs - logs.max(axis=1, keepdims=True))
    likely: NDArray[np.float64] = chances / chances.sum(axis=1, keepdims=True)
    return likely


def _constant(bench: TransferBench) -> Row:
    shares = np.unique(bench.parts.test_labels, return_counts=True)[1] / len(bench.parts.test_labels)
    return Row({"what": "ε = 0: the most frequent class of the test"}, [_run(float(shares.max()))])


def _names_alone(bench: TransferBench, how: Grouped) -> Row:
    likest = likeness(bench.parts.test_samples, how.names).argmax(axis=1)
    right = np.mean(bench.parts.classes[likest] == bench.parts.test_labels)
    return Row({"what": "ε = 0: classes' names alone"}, [_run(float(right))])


def _true_labels(bench: TransferBench, how: Grouped) -> Row:
    """The same student, taught the true labels of the public samples."""
    parts = bench.parts
    student = LogisticRegression(**{**how.model.get_params(), "class_weight": "balanced" if how.balanced else None})
    student.fit(parts.public_samples, parts.public_labels)
    accuracy = float(student.score(parts.test_samples, parts.test_labels))
    return Row({"what": "true labels of all public samples, no privacy"}, [_run(accuracy, None)])


def _run(accuracy: float, epsilon: float | None = 0.0) -> dict[str, Any]:
    return {"accuracy": accuracy} | ({} if epsilon is None else {"epsilon": epsilon})


def _gains(rows: list[Row]) -> list[str]:
    """What each part adds to or takes from the full line of the same ε, seed by seed, with an interval of 95 %."""
    from scipy.stats import t

    found, named = [], {row.names["what"]: row for row in rows}
    for what, row in named.items():
        begun, comma, part = what.rpartition(", ")
        whole = next((each for each in (begun, begun.rpartition(", ")[0]) if each in named), None)
        if not comma or whole is None or len(row.runs) < 2 or part == "classes' names known":
            continue
        change = 100 * np.subtract(row.values("accuracy"), named[whole].values("accuracy"))
        half = t.ppf(0.975, len(change) - 1) * change.std(ddof=1) / np.sqrt(len(change))
        found.append(f"{what}: {change.mean():+.1f} ± {half:.1f}")
    said = "Against the line with importance sampling of the same ε, in points, seed by seed (95 % interval): "
    return [f"{said}{'; '.join(found)}."] if found else []
