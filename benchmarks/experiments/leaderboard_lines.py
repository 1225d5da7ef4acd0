"""The lines of a leaderboard: every method on the same parts of a data set, in the same representation.

Every method sees samples through the same public encoder of their kind: of texts and mixed tables the door's own, of
images the features that the default takes. What a method makes of these features (components, a map) is its own.
Methods that train models on features get the first principal components of the public samples. No setting is chosen on
private records or on the test part: each is a method's own default, which follows from public samples, releases and the
number of records, or a rule below that does.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tacit
from experiments.development import DevelopmentSet
from experiments.measured import code_of
from experiments.noisy_logistic import gaussian_parameter
from tacit.datasets.samples import samples_of
from tacit.encoders.kinds import recognize

__all__ = ["HOLDER", "LABEL", "LINES", "OPACUS", "OWN", "RECORD", "Encoded", "Line", "encoded", "references"]

DELTA = 1e-5
COMPONENTS = 100
# PATE: records per teacher and the most teachers; a majority of half of them stands out of noise of an eighth of them.
PER_TEACHER, MOST_TEACHERS, EIGHTH = 20, 500, 8
# The authors' numbers: ten parties of FedMD; two samples per round of PrivateKT. Each of its holders is asked once.
PARTIES, ROUNDS, PER_ROUND = 10, 10, 2
RECORD, HOLDER, LABEL = "record", "holder", "label"
USED = ("tacit.runs.distill", "tacit.students.registry", "tacit.representations.registry", "tacit.encoders.kinds")


@dataclass(frozen=True)
class Encoded:
    """A data set's parts as rows of the same features, and what public knowledge these took.

    ``images`` are the names of the features for sums and for votes, where samples are images.
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


def encoded(parts: DevelopmentSet) -> Encoded:
    """The parts as every method gets them; nothing but public samples is fitted to."""
    from sklearn.decomposition import PCA

    found = recognize(samples_of(parts.public))
    raw = [samples_of(each) for each in (parts.private[0], parts.public, parts.test[0])]
    images = None
    if found.encoder is not None:
        name, rows = type(found.encoder).__name__, [found.encoder.encode(each) for each in raw]
    else:
        from tacit.methods.auto.plan import image_parts
        from tacit.methods.class_sums.plan import sum_representation

        if found.kind == "images":
            images = image_parts(np.asarray(parts.public))[:2]
        name, base = sum_representation(
            "auto" if images is None else images[0], np.asarray(parts.public), len(parts.classes)
        )
        rows = [base.encode(np.asarray(each)) for each in raw]
    fitted = PCA(min(COMPONENTS, *rows[1].shape), random_state=0).fit(np.asarray(rows[1], dtype=np.float64))
    private, public, test = (fitted.transform(np.asarray(each, dtype=np.float64)) for each in rows)
    digest = hashlib.sha256()
    for each in (private, public, test):
        digest.update(np.ascontiguousarray(each.round(6)).tobytes())
    for each in (parts.private[1], parts.public_labels, parts.test[1]):
        digest.update("\0".join(map(str, np.asarray(each).tolist())).encode())
    return Encoded(parts, private, public, test, name, digest.hexdigest()[:16], found.kind, images)


@dataclass(frozen=True)
class Line:
    """One method: how its options follow from public figures, what it protects, and how settings were chosen."""

    method: str
    options: Callable[[Encoded, float], Mapping[str, Any]] = lambda *_: {}
    delta: float = DELTA
    encodes: bool = True  # whether the method takes samples as they are, and the encoder by its name
    protects: str = RECORD
    applies: str = ""  # the one kind of data that the line is for
    chosen: str = "its own defaults, from public samples, releases and the number of records"

    def code(self) -> str:
        """A digest of the code that a measurement of this line goes through."""
        own = [] if self.method in OWN else [f"tacit.methods.{self.method}.method"]
        if self.method == "auto":
            own += ["tacit.methods.rknn.method", "tacit.methods.class_sums.method"]
        return code_of(*USED, *own, "experiments.leaderboard_lines")

    def measure(self, data: Encoded, epsilon: float, seed: int) -> Mapping[str, Any]:
        """One run as a simulation, and what is to be said of it."""
        if self.method in OWN:
            return OWN[self.method](data, epsilon, seed)
        parts = data.parts
        # Whose the records are is for methods that protect records or persons; others protect a holder with all of its.
        said = parts.settings() if self.protects == RECORD else {"classes": parts.classes}
        samples = (
            (parts.private[0], parts.public, parts.test[0]) if self.encodes else (data.private, data.public, data.test)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = tacit.distill(
                (samples[0], parts.private[1]), samples[1], epsilon, delta=self.delta, method=self.method, seed=seed,
                **said, **self.options(data, epsilon),
            )  # fmt: skip
            test = (np.asarray(run.student.predict(samples[2])) == parts.test[1]).mean()
        claim, recipe = run.guarantee, run.recipe
        return {
            "test": float(test),
            "labels": float((run.labels == parts.public_labels[: len(run.labels)]).mean()),
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


def _seen(place: int, data: Encoded, _: float) -> dict[str, Any]:
    """Images by the features for sums, or for votes; other kinds have an encoder of their own."""
    return {} if data.images is None else {"representation": data.images[place]}


def _mapped(data: Encoded, _: float) -> dict[str, Any]:
    """The map of public samples that votes are cast on, as features: what reverse k-NN knows beside the encoder."""
    from tacit.representations.registry import fit_representation

    name = "spectral" if data.images is None else data.images[1]
    return {"representation": fit_representation(name, np.asarray(data.parts.public), 4 * data.classes)[1]}


def _teachers(data: Encoded) -> int:
    return int(np.clip(data.units // PER_TEACHER, 2, MOST_TEACHERS))


def _pate(mechanism: str, data: Encoded, epsilon: float) -> dict[str, Any]:
    """As many queries as noise of an eighth of the teachers allows: from the number of records, ε and δ alone."""
    teachers = _teachers(data)
    if mechanism == "lnmax":
        most = teachers * epsilon / (2 * EIGHTH)
    else:
        most = (teachers * gaussian_parameter(epsilon, DELTA) / EIGHTH) ** 2
    return {
        "mechanism": mechanism,
        "teachers": teachers,
        "queries": int(np.clip(most, 2 * data.classes, len(data.public))),
    }


def _confident(data: Encoded, epsilon: float) -> dict[str, Any]:
    """GNMax's queries, of which a noisy screen answers half: where three of five teachers agree, as for digits."""
    chosen = _pate("gnmax", data, epsilon)
    return chosen | {"queries": min(2 * chosen["queries"], len(data.public)), "threshold": 0.6}


def _two_layers(model: str, data: Encoded, epsilon: float) -> dict[str, Any]:
    """Two layers by Opacus, whose Poisson samples are accounted for records that come and go."""
    return _seen(0, data, epsilon) | {"model": model, "records": data.units, "adjacency": "add-remove"}


def _transferred(data: Encoded, _: float) -> dict[str, Any]:
    """PrivateKT: as many holders as PATE has teachers, each asked in one round, so that all of ε is in its answers."""
    return {
        "holders": tacit.Partition(_teachers(data), "even"),
        "model": "logistic",
        "rounds": ROUNDS,
        "queries_per_round": PER_ROUND,
        "participation": 1 / ROUNDS,
        "max_participations": 1,
    }


def _parties(variant: str, data: Encoded, _: float) -> dict[str, Any]:
    """FedMD among ten parties, in one round about two samples per class where every prediction is paid for."""
    asked = {} if variant == "rknn" else {"queries": min(2 * data.classes, len(data.public))}
    return {
        "variant": variant,
        "holders": tacit.Partition(PARTIES, "even"),
        "models": ["logistic"],
        "rounds": 1,
        **asked,
    }


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
RULE = "teachers: one per 20 records, 500 at most; queries: as many as noise of an eighth of the teachers allows"
REHEARSED = "rehearsed on public samples with made-up labels"
OPACUS = "32 units, 10 epochs, samples of 500; by Opacus"
TEN = "the paper's 10 parties, even; one round, two samples per class"
LINES: Mapping[str, Line] = {
    "rknn": Line("rknn", partial(_seen, 1), delta=0.0),
    "class_sums": Line("class_sums", partial(_seen, 0)),
    "noisy_sgd": Line("noisy_sgd", partial(_seen, 0), chosen=REHEARSED),
    "noisy_sgd on the map": Line("noisy_sgd", _mapped, chosen=REHEARSED, applies="images"),
    "noisy_sgd two layers": Line("noisy_sgd", partial(_two_layers, "hidden"), chosen=OPACUS),
    "noisy_sgd fine-tuned": Line("noisy_sgd", partial(_two_layers, "finetuned"), chosen=OPACUS),
    "private_knn": Line("private_knn", partial(_seen, 1)),
    "auto": Line("auto"),
    "auto pure": Line("auto", delta=0.0),
    "pate lnmax": Line("pate", partial(_pate, "lnmax"), delta=0.0, encodes=False, chosen=RULE),
    "pate gnmax": Line("pate", partial(_pate, "gnmax"), encodes=False, chosen=RULE),
    "pate confident": Line(
        "pate", _confident, encodes=False, chosen="GNMax's rule; half of twice as many queries, threshold 60 %"
    ),
    "privatekt": Line(
        "privatekt", _transferred, delta=0.0, encodes=False, protects=HOLDER,
        chosen="as many holders as PATE has teachers, even; 10 rounds of 2 samples, each holder asked once",
    ),
    "fedmd rknn": Line("fedmd", partial(_parties, "rknn"), delta=0.0, encodes=False, chosen="the paper's 10 parties"),
    "fedmd response": Line(
        "fedmd", partial(_parties, "response"), delta=0.0, encodes=False, protects=HOLDER, chosen=TEN
    ),
    "fedmd ldp": Line("fedmd", partial(_parties, "ldp"), encodes=False, protects=HOLDER, chosen=TEN),
    "label_dp": Line("label_dp", delta=0.0, protects=LABEL, chosen="none; for orientation only"),
}  # fmt: skip


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
