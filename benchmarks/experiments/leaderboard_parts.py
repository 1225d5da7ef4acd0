"""The parts of a data set as a leaderboard's methods get them, and what one line of a leaderboard measures.

Every method sees samples through the same public encoder of their kind: of texts and mixed tables the door's own, of
images the features that the default takes. What a method makes of these features (components, a map) is its own.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import tacit
from experiments.development import DevelopmentSet
from experiments.measured import code_of
from tacit.datasets.samples import samples_of
from tacit.encoders.kinds import recognize
from tacit.encoders.text import TextEncoder

__all__ = [
    "DELTA",
    "HOLDER",
    "LABEL",
    "OWN",
    "RECORD",
    "Encoded",
    "Line",
    "Samples",
    "encoded",
    "references",
    "samples_digest",
]

DELTA = 1e-5
COMPONENTS = 100
RECORD, HOLDER, LABEL = "record", "holder", "label"
USED = ("tacit.runs.distill", "tacit.students.registry", "tacit.representations.registry", "tacit.encoders.kinds")


@dataclass(frozen=True)
class Encoded:
    """A data set's parts as rows of the same features, and what public knowledge these took.

    ``content`` is the digest of the samples, ``images`` are the names of the features for sums and for votes, where
    samples are images.
    """

    parts: DevelopmentSet
    private: NDArray[Any]
    public: NDArray[Any]
    test: NDArray[Any]
    knowledge: str
    content: str
    kind: str
    images: tuple[str, str] | None = None

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.parts.classes)

    @property
    def units(self) -> int:
        """How many records, or persons where records belong to some, there are."""
        return len(self.private) if self.parts.persons is None else len(np.unique(self.parts.persons))


def encoded(parts: DevelopmentSet, images: tuple[str, str] | None = None) -> Encoded:
    """The parts as every method gets them; nothing but public samples is fitted to. ``images`` as in Encoded."""
    from sklearn.decomposition import PCA

    found = recognize(samples_of(parts.public))
    raw = [samples_of(each) for each in (parts.private[0], parts.public, parts.test[0])]
    if found.encoder is not None:
        name, rows = type(found.encoder).__name__, [found.encoder.encode(each) for each in raw]
        if isinstance(found.encoder, TextEncoder):
            name = f"{name}, {'with' if found.encoder.minilm else 'without'} MiniLM"
    else:
        from tacit.methods.class_sums.plan import sum_representation

        name, base = sum_representation(
            "auto" if images is None else images[0], np.asarray(parts.public), len(parts.classes)
        )
        rows = [base.encode(np.asarray(each)) for each in raw]
    fitted = PCA(min(COMPONENTS, *rows[1].shape), random_state=0).fit(np.asarray(rows[1], dtype=np.float64))
    private, public, test = (fitted.transform(np.asarray(each, dtype=np.float64)) for each in rows)
    return Encoded(parts, private, public, test, name, samples_digest(parts), found.kind, images)


def samples_digest(parts: DevelopmentSet) -> str:
    """What a board is known by: the samples of every part in their order, raw, with labels and owners.

    >>> from dataclasses import replace
    >>> from pathlib import Path
    >>> from experiments.development import read_set
    >>> digits = read_set("digits", Path())
    >>> exchanged = replace(digits, public=digits.public[::-1])
    >>> samples_digest(digits) == samples_digest(replace(digits)) != samples_digest(exchanged)
    True
    """
    digest = hashlib.sha256()
    for samples, labels in (parts.private, (parts.public, parts.public_labels), parts.test):
        digest.update(_content(samples) + b"\0" + _content(labels) + b"\0")
    if parts.persons is not None:
        digest.update(_content(parts.persons))
    return digest.hexdigest()[:16]


def _content(samples: Any) -> bytes:  # noqa: ANN401
    if hasattr(samples, "to_csv"):
        return str(samples.to_csv(index=False)).encode()
    rows = np.asarray(samples)
    if rows.dtype.kind in "OSU":
        return "\0".join(map(str, rows.tolist())).encode()
    return f"{rows.dtype.str} {rows.shape} ".encode() + rows.tobytes()


class Samples(NamedTuple):
    """What one run is given, and the truth about its public samples, by which its labels are judged."""

    private: Any
    public: Any
    public_labels: NDArray[Any]
    test: Any


def _as_they_are(data: Encoded, _: Mapping[str, Any]) -> Samples:
    """Samples for a method that takes the encoder by its name."""
    parts = data.parts
    return Samples(parts.private[0], parts.public, parts.public_labels, parts.test[0])


@dataclass(frozen=True)
class Line:
    """One method: how its options follow from public figures, what it protects, and how settings were chosen."""

    method: str
    options: Callable[[Encoded, float], Mapping[str, Any]] = lambda *_: {}
    delta: float = DELTA
    samples: Callable[[Encoded, Mapping[str, Any]], Samples] = _as_they_are  # given the options
    protects: str = RECORD
    applies: str = ""  # the one kind of data that the line is for
    chosen: str = "its own defaults, from public samples, releases and the number of records"

    def code(self) -> str:
        """A digest of the code that a measurement of this line goes through."""
        own = [] if self.method in OWN else [f"tacit.methods.{self.method}.method"]
        if self.method == "auto":
            own += ["tacit.methods.rknn.method", "tacit.methods.class_sums.method"]
        rule = self.options.func if isinstance(self.options, partial) else self.options
        return code_of(*USED, *own, __name__, rule.__module__, self.samples.__module__)

    def about(self, name: str, data: Encoded, epsilon: float, seed: int) -> dict[str, Any]:
        """What a measurement depends on, by which it is kept."""
        return {
            "board": data.parts.name, "content": data.content, "knowledge": data.knowledge,
            "images": data.images and data.images[1], "line": name, "delta": self.delta, "epsilon": epsilon,
            "seed": seed, "code": self.code(),
        }  # fmt: skip

    def measure(self, data: Encoded, epsilon: float, seed: int) -> Mapping[str, Any]:
        """One run as a simulation, and what is to be said of it."""
        if self.method in OWN:
            return OWN[self.method](data, epsilon, seed)
        parts = data.parts
        # Whose the records are is for methods that protect records or persons; others protect a holder with all of its.
        said = parts.settings() if self.protects == RECORD else {"classes": parts.classes}
        options = self.options(data, epsilon)
        given = self.samples(data, options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = tacit.distill(
                (given.private, parts.private[1]), given.public, epsilon, delta=self.delta, method=self.method,
                seed=seed, **said, **options,
            )  # fmt: skip
            test = (np.asarray(run.student.predict(given.test)) == parts.test[1]).mean()
        claim, recipe = run.guarantee, run.recipe
        return {
            "test": float(test),
            "labels": float((run.labels == given.public_labels[: len(run.labels)]).mean()),
            "unit": claim.unit.in_words,
            "adjacency": str(claim.adjacency),
            "delta": float(claim.delta),
            "epsilon": float(claim.epsilon),
            "trust": str(claim.trust),
            "questions": len(run.receipts),
            "queries": _queries(recipe),
            "chosen": {
                name: recipe[name]
                for name in ("chosen", "representation", "components", "rate", "clip", "damping", "student")
                if name in recipe
            },
        }


def _queries(recipe: Mapping[str, Any]) -> int | None:
    """Public samples, or groups of them, that records or teachers voted on."""
    found = recipe.get("queries") or recipe.get("options", {}).get("queries")
    return int(found) if isinstance(found, int) else None


def _label_dp(data: Encoded, epsilon: float, seed: int) -> Mapping[str, Any]:
    """Randomized response on every label, with the records' features in the clear, and a regression on them."""
    random, classes = np.random.default_rng(seed), np.asarray(data.parts.classes)
    kept = np.exp(epsilon) / (np.exp(epsilon) + len(classes) - 1)
    labels = _places(classes, data.parts.private[1])
    others = (labels + random.integers(1, len(classes), len(labels))) % len(classes)
    told = np.where(random.random(len(labels)) < kept, labels, others)
    model = _regression().fit(data.private, classes[told])
    return {
        "test": float((model.predict(data.test) == data.parts.test[1]).mean()),
        "labels": float((model.predict(data.public) == data.parts.public_labels).mean()),
        "unit": "the label of one record; its features are not protected",
        "adjacency": "replace-one",
        "delta": 0.0,
        "epsilon": epsilon,
        "trust": "local",
        "questions": 1,
    }


def _places(classes: NDArray[Any], labels: Any) -> NDArray[np.int64]:  # noqa: ANN401
    order = np.argsort(classes)
    found: NDArray[np.int64] = order[np.searchsorted(classes[order], np.asarray(labels))]
    return found


def _regression() -> Any:  # noqa: ANN401
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=300))


OWN: Mapping[str, Callable[[Encoded, float, int], Mapping[str, Any]]] = {"label_dp": _label_dp}


def references(data: Encoded) -> dict[str, float]:
    """What is reached without a record's help, and without privacy."""
    from scipy.optimize import linear_sum_assignment
    from sklearn.cluster import KMeans
    from sklearn.metrics import confusion_matrix

    classes = np.asarray(data.parts.classes)
    truth = _places(classes, data.parts.test[1])
    groups = KMeans(len(classes), n_init=3, random_state=0).fit(data.public).predict(data.test)
    table = confusion_matrix(truth, groups, labels=np.arange(len(classes)))
    rows, columns = linear_sum_assignment(-table)
    plain = _regression()
    return {
        "ε = 0: a guess among the classes": 1 / len(classes),
        "ε = 0: public clusters, named by an oracle": float(table[rows, columns].sum() / len(truth)),
        "no privacy: the same regression on the records": float(
            (plain.fit(data.private, data.parts.private[1]).predict(data.test) == data.parts.test[1]).mean()
        ),
    }
