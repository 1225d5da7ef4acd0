"""``distill`` as a scikit-learn classifier: ``fit`` takes ``public`` samples beside X and y."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from tacit.core import InvalidInput, Number, Unit, decimal, nearest, positive, warn_user
from tacit.core.options import Options, refuse_renamed
from tacit.core.places import LedgerUrl, ledger_place
from tacit.core.samples import column_names
from tacit.ledger import opened
from tacit.methods.registry import METHODS
from tacit.runs.distill import distill
from tacit.runs.export import for_classes
from tacit.runs.inputs import Data
from tacit.runs.run import Run
from tacit.runs.task import Holders

__all__ = ["PrivateDistiller"]

# Metadata of ``fit`` that pipelines and searches pass on by default: no fit works without it.
PASSED_ON = {"public": True, "persons": True, "holders": True}
_TAKEN = ("fit", "predict", "predict_proba", "score")
SCORED = "its scores and its choice come from held-out records without noise and are not covered by any guarantee"


def _options() -> dict[str, str]:
    """The estimator's parameters for all methods' options, and the options' own names.

    An option with the name of a classifier's method, such as ``fit``, gets the suffix "_option".
    """
    names = dict.fromkeys(each.name for method in METHODS.values() for each in fields(method.load_options()))
    return {f"{name}_option" if name in _TAKEN else name: name for name in names}


def _with_options(function: Any) -> Any:  # noqa: ANN401
    """The constructor with all methods' options in its signature, from which scikit-learn reads parameters."""
    signature = inspect.signature(function)
    own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    options = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in _options()]
    function.__signature__ = signature.replace(parameters=[*own, *options])
    return function


def _has_probabilities(estimator: PrivateDistiller) -> bool:
    run = getattr(estimator, "run_", None)
    return run is None or hasattr(run.student, "predict_proba")


class PrivateDistiller(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier trained with differential privacy: private records label ``public`` samples, which train a student.

    The parameters are those of ``tacit.distill`` and the options of every method (``queries``, ``neighbors``,
    ``student`` and so on); None is the method's default. ``method`` may be an options object instead. ``fit`` needs
    ``public``, unlabeled samples of the same kind as ``X``; the student is trained only on the labels that they get
    under (ε, δ)-DP. Multi-label data (``y`` a table of zeros and ones) need ``max_labels``.

    A ``ledger`` is given by its path or URL, so that every clone pays from the same account. Cross-validation and
    searches fit many times on the same records: without a ledger, or a ``seed`` for a simulation, they are refused.

    After ``fit``: ``classes_``, ``labels_`` (of the public samples), ``guarantee_``, ``run_``, ``n_features_in_`` and,
    if the columns have names, ``feature_names_in_``.

    >>> from tacit.datasets.published import digits
    >>> parts = digits()
    >>> model = PrivateDistiller(epsilon=1.0, classes=range(10))
    >>> model = model.fit(parts.private_samples, parts.private_labels, public=parts.public_samples)
    >>> model.predict(parts.test_samples).shape, model.predict_proba(parts.test_samples).shape, model.labels_.shape
    ((297,), (297, 10), (500,))
    >>> model.guarantee_.epsilon
    Fraction(1, 1)
    >>> PrivateDistiller(neighbours=2)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: unknown parameter 'neighbours' of PrivateDistiller; did you mean 'neighbors'?
    """

    __metadata_request__fit = PASSED_ON

    @_with_options
    def __init__(
        self,
        method: str | Options = "auto",
        epsilon: Number | None = 1.0,
        *,
        delta: Number | None = None,
        classes: Iterable[Any] | None = None,
        holders: Holders = 1,
        unit: Unit | None = None,
        adjacency: str = "replace-one",
        trust: str | None = None,
        ledger: str | Path | LedgerUrl | None = None,
        account: str | None = None,
        seed: int | None = None,
        **options: Any,  # noqa: ANN401
    ) -> None:
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
        self.holders = holders
        self.unit = unit
        self.adjacency = adjacency
        self.trust = trust
        self.ledger = ledger
        self.account = account
        self.seed = seed
        for name in _options():
            setattr(self, name, options.pop(name, None))
        for each in METHODS.values():
            refuse_renamed(options, each.load_options().renamed)
        for name in options:
            close = nearest(name, self._get_param_names())
            meant = f"; did you mean {close!r}?" if close else ""
            raise InvalidInput(f"unknown parameter {name[:80]!r} of PrivateDistiller{meant}")

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        public: ArrayLike | None = None,
        persons: ArrayLike | None = None,
        holders: ArrayLike | None = None,
    ) -> PrivateDistiller:
        """Pay, label ``public`` by the records (X, y), and train a student on it.

        ``persons`` has the person of each record (with ``unit``), ``holders`` its holder.
        """
        if y is None:
            raise InvalidInput("PrivateDistiller requires y to be passed, but the target y is None")
        if public is None:
            raise InvalidInput("fit needs public samples, whose labels train the student: fit(X, y, public=...)")
        if self.ledger is not None and not isinstance(self.ledger, str | Path | LedgerUrl):
            raise InvalidInput("ledger must be the path or URL of a ledger, so that clones pay from the same account")
        for samples, what in ((X, "X"), (public, "public")):
            _plain_array(samples, what)
        y = _classes_of(y)
        _require_same_steps()
        if _searching():
            self._announce_search()
        given = {name: value for own, name in _options().items() if (value := getattr(self, own)) is not None}
        run = distill(
            (X, y), public, self.epsilon, delta=self.delta, method=self.method, classes=self.classes,
            data=Data(persons=persons), holders=self.holders if holders is None else holders, unit=self.unit,
            adjacency=self.adjacency, trust=self.trust, ledger=self.ledger, account=self.account, seed=self.seed,
            **given,
        )  # fmt: skip
        self.run_: Run = run
        self.guarantee_ = run.guarantee
        self.classes_: NDArray[Any] = run.classes if run.labels.ndim == 2 else np.unique(run.classes)
        self.labels_: NDArray[Any] = run.labels.astype(np.int64) if run.labels.ndim == 2 else run.labels
        self.n_features_in_ = _width(public, run)
        if run.features is not None:
            self.feature_names_in_ = np.array(run.features, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """One class per sample, or a row of zeros and ones for multi-label data."""
        found: NDArray[Any] = np.asarray(self._student(X, "predict"))
        return found.astype(np.int64) if self.run_.labels.ndim == 2 else found

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """The probability of each of ``classes_`` per sample; 0 for a class that no public sample got."""
        found = np.asarray(self._student(X, "predict_proba"), dtype=np.float64)
        if self.run_.labels.ndim == 2:
            return found
        return for_classes(found, self.run_.student.classes_, self.classes_)

    def _student(self, X: ArrayLike, ask: str) -> Any:  # noqa: ANN401
        """The student's output for samples with the columns that it was trained on."""
        check_is_fitted(self, "run_")
        samples = X
        if column_names(X, "X") is None and (plain := _plain_array(X, "X")) is not None:
            # An encoder handles missing values; a student of plain numbers does not.
            if self.run_.encoder is None and plain.dtype.kind == "f" and not np.isfinite(plain).all():
                raise InvalidInput("Input X contains NaN or infinity; PrivateDistiller takes no missing values")
            # Warns if the columns had names in fit, and refuses another number of features.
            validate_data(self, plain.reshape(len(plain), -1), reset=False, skip_check_array=True)
            samples = plain
        return getattr(self.run_.student, ask)(samples)

    def _announce_search(self) -> None:
        """Warn before the first payment what every fit of a search costs; without a ledger there is no ceiling."""
        if self.seed is not None:
            return
        if self.ledger is None:
            raise InvalidInput(
                "cross-validation and searches fit many times on the same records, and every fit is paid for: give "
                "ledger and account, whose ceiling ends it, or seed for a simulation"
            )
        price = None if self.epsilon is None else positive(self.epsilon, "epsilon")
        each = "its part" if price is None else f"epsilon = {decimal(price)}"
        fits, left = _fits(), ""
        if fits is not None and price is not None:
            left = f"; its {fits} fits cost epsilon = {decimal(fits * price)} in total"
        if self.account is not None:
            with opened(self.ledger) as book:
                left += f"; {self.account[:80]} has {book.balance(self.account).in_words}"
        warn_user(
            f"every fit of this search pays {each} from {str(ledger_place(self.ledger))[:80]}, and fits fail once it "
            f"is spent (error_score='raise' ends the search there){left}; {SCORED}"
        )

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = False
        tags.non_deterministic = self.seed is None
        return tags


def _plain_array(samples: Any, what: str) -> NDArray[Any] | None:  # noqa: ANN401
    """The samples as an array of numbers with rows and features, or None for other kinds of data."""
    if issparse(samples):
        raise InvalidInput(f"{what} is sparse, and dense data is required: use {what}.toarray()")
    array = np.asarray(samples)
    if array.dtype.kind == "c":
        raise InvalidInput(f"{what}: Complex data not supported")
    if array.dtype.kind not in "fiubO":
        return None
    if array.ndim < 2:
        raise InvalidInput(f"{what}: Expected 2D array, one row per sample, got {array.ndim}D. Reshape your data")
    for size, of in ((len(array), "sample"), (int(np.prod(array.shape[1:])), "feature")):
        if not size:
            raise InvalidInput(
                f"{what}: Found array with 0 {of}(s) (shape={array.shape}) while a minimum of 1 is required."
            )
    if array.dtype.kind == "O":
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError):
            return None
    return array


def _width(public: Any, run: Run) -> int:  # noqa: ANN401
    """The number of features of a sample before encoding."""
    if run.encoder is None:
        return int(run.recipe["features"])
    if run.features is not None:
        return len(run.features)
    plain = _plain_array(public, "public")
    return 1 if plain is None else int(np.prod(plain.shape[1:]))


def _classes_of(y: ArrayLike) -> Any:  # noqa: ANN401
    """The labels in the form that ``distill`` takes: a list of classes, or a table of zeros and ones."""
    try:
        labels = np.asarray(y)
    except ValueError:
        return y  # lists of classes of different lengths
    if labels.dtype.kind == "f" and (np.isfinite(labels) & (labels != np.floor(labels))).any():
        raise InvalidInput("Unknown label type: continuous. PrivateDistiller is a classifier; y must be classes")
    if labels.ndim == 2 and labels.shape[1] == 1:
        return column_or_1d(labels, warn=True)
    zeros_and_ones = labels.ndim == 2 and labels.dtype.kind in "biu" and np.isin(labels, (0, 1)).all()
    return labels if zeros_and_ones else y


def _searching() -> bool:
    """Whether scikit-learn's model selection is the caller, in this process or in its worker."""
    return any(True for _ in _selecting())


def _fits() -> int | None:
    """The number of fits of a search or cross-validation, with the final refit; None in a worker process."""
    for frame in _selecting():
        known = frame.f_locals
        if frame.f_code.co_name == "evaluate_candidates" and {"n_candidates", "n_splits"} <= known.keys():
            return int(known["n_candidates"] * known["n_splits"] + bool(getattr(known.get("self"), "refit", True)))
        if frame.f_code.co_name == "cross_validate" and hasattr(known.get("cv"), "get_n_splits"):
            return int(known["cv"].get_n_splits(known.get("X"), known.get("y"), known.get("groups")))
    return None


def _require_same_steps() -> None:
    """Refuse, before anything is paid, a pipeline whose steps see the records and not the public samples.

    What a step has learned from the records has no noise in it, which is said.
    """
    for frame in _calls_from("sklearn.pipeline"):
        pipeline = frame.f_locals.get("self")
        if frame.f_code.co_name != "fit" or not isinstance(pipeline, Pipeline):
            continue
        steps = [step for _, step in pipeline.steps[:-1] if step is not None and step != "passthrough"]
        if steps and "public" not in (pipeline.transform_input or ()):
            raise InvalidInput(
                f"the pipeline's {len(steps)} step{'s' * (len(steps) != 1)} before PrivateDistiller would change X and "
                "not public: give Pipeline(..., transform_input=['public']), which needs "
                "sklearn.set_config(enable_metadata_routing=True), and fit(X, y, public=...)"
            )
        learned = [
            type(step).__name__ for step in steps
            if not isinstance(step, FrozenEstimator) and get_tags(step).requires_fit
        ]  # fmt: skip
        if learned:
            warn_user(
                f"the pipeline fits {', '.join(learned[:10])} on the records without noise, and no guarantee covers "
                "it: fit it on public samples before, and wrap it in sklearn.frozen.FrozenEstimator"
            )


def _selecting() -> Iterator[FrameType]:
    """The frames of scikit-learn's model selection in the call stack, the innermost first."""
    return _calls_from("sklearn.model_selection")


def _calls_from(module: str) -> Iterator[FrameType]:
    """The frames of a package in the call stack, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(module):
            yield frame
        frame = frame.f_back
