"""Forecasts of every method from public information: accuracy, price, messages and time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core import Adjacency, Integers, InvalidInput, Number, Trust, Unit, exact, positive, probability, whole
from tacit.core.errors import plural
from tacit.core.options import Options
from tacit.datasets.samples import samples_of
from tacit.encoders.kinds import photographic, recognize
from tacit.methods.forecast import NINE_OF_TEN, Evidence, Expected, seen_rows
from tacit.methods.measured_order import measured_order
from tacit.methods.registry import METHODS, Method, chosen_method, method_named
from tacit.methods.task import Task
from tacit.runs.rehearsal import Rehearsal, rows_taken

__all__ = ["Forecast", "Prospect", "forecast"]

# The trust models of the methods with several.
_TRUSTS = {"rknn": (Trust.CENTRAL, Trust.SHUFFLE, Trust.LOCAL)}
# Public samples of a rehearsal.
_REHEARSED = 5000
# In place of public samples, where there are none.
_PLACEHOLDER = np.zeros((5000, 1))
_GRID = tuple(float(each) for each in np.round(np.geomspace(0.05, 10, 9), 3))
_SMALLEST, _LARGEST, _HALVINGS = 0.01, 20.0, 9


@dataclass(frozen=True)
class Prospect:
    """The forecast of one method in one trust model: the fraction of correct labels, with a 90 % interval.

    ``refused`` says why there is no forecast; ``needed`` is the ε for a wanted accuracy.
    """

    method: str
    trust: str
    epsilon: float
    accuracy: float = math.nan
    low: float = math.nan
    high: float = math.nan
    queries: int | None = None
    neighbors: int | None = None
    messages: int = 0
    seconds: float = math.nan
    said: str = ""
    needed: float | None = None
    refused: str = ""


@dataclass(frozen=True)
class Forecast:
    """The forecasts of all methods, the best first, and the expected accuracy over a range of ε.

    Methods of one curator whose intervals overlap that of the highest are in the order in which they were measured
    (``tacit.methods.measured_order``).
    """

    prospects: tuple[Prospect, ...]
    basis: str
    kind: str
    wanted: float | None = None
    curves: tuple[tuple[str, tuple[tuple[float, float], ...]], ...] = ()

    @property
    def best(self) -> Prospect:
        """The first of them."""
        return self.prospects[0]


def forecast(
    public: Any = None,  # noqa: ANN401
    *,
    records: int,
    classes: int | Iterable[Any],
    epsilon: Number = 1,
    delta: Number | None = None,
    methods: Sequence[str | Options] | None = None,
    holders: int = 10,
    unit: Unit | None = None,
    public_labels: ArrayLike | None = None,
    purity: float | None = None,
    accuracy: float | None = None,
    curves: bool = False,
    data_kind: str | None = None,
    rehearse: bool = False,
) -> Forecast:
    """Forecast every method (or ``methods``, names or options objects) from public information only.

    ``records`` is the number of private records or persons, ``classes`` the classes or their number. How far labels
    follow the structure of the ``public`` samples is estimated from these samples, within wide bounds; labels of some
    public samples (``public_labels``, None for unknown ones) make the interval narrow. Without public samples
    ``purity`` is assumed, by default 0.9. ``accuracy`` asks for the ε that it needs. ``delta`` is by default that of
    each method. ``holders`` is for methods with several holders. ``rehearse`` runs methods of one
    curator on labeled public samples as if these were records: closer, and it takes seconds to minutes.

    >>> from tacit.datasets.published import digits
    >>> parts = digits()
    >>> found = forecast(parts.public_samples, records=1000, classes=10, methods=["rknn"])
    >>> found.best.method, found.best.trust, found.best.low < found.best.accuracy < found.best.high
    ('rknn', 'central', True)
    """
    names = np.arange(whole(classes, "classes")) if isinstance(classes, int) else np.array(list(classes))
    if len(names) < 2:
        raise InvalidInput(f"classes must be at least 2, got {len(names)}")
    if accuracy is not None and not 1 / len(names) < accuracy < 1:
        raise InvalidInput(f"accuracy must be between {1 / len(names):.2g} and 1, got {accuracy}")
    if purity is not None and not 0 < purity <= 1:
        raise InvalidInput(f"purity must be in (0, 1], got {purity}")
    if public is None and public_labels is not None:
        raise InvalidInput("public_labels are labels of public samples: give the samples, too")
    if rehearse and (public is None or public_labels is None):
        raise InvalidInput("a rehearsal needs public samples, and public_labels of some of them")
    samples = None if public is None else samples_of(public)
    views: dict[str | None, _View] = {}

    def view(options: Options) -> _View:
        encoded = data_kind is None and getattr(options, "photographs", False) and photographic(samples)
        kind = "photographs" if encoded else data_kind
        if kind not in views:
            views[kind] = _View.of(samples, names, public_labels, purity, kind, rehearse)
        return views[kind]

    budget = positive(epsilon, "epsilon")
    given = methods or ([name for name in METHODS if METHODS[name].forecast] if samples is not None else ["rknn"])
    prospects, lines = [], []
    for each in given:
        chosen, options = chosen_method(each, {})
        seen = view(options)
        for trust in _TRUSTS.get(chosen.name, (None,)):
            task = Task(
                public=seen.rows, classes=names, epsilon=budget,
                delta=exact(chosen.delta) if delta is None else probability(delta, "delta"),
                unit=unit or Unit(), adjacency=Adjacency.REPLACE_ONE, trust=trust, units=whole(records, "records"),
                request="forecast", holders=tuple(map(str, range(whole(holders, "holders")))), kind=seen.kind,
            )  # fmt: skip
            found = _prospect(chosen, options, task, seen.evidence)
            if rehearse and chosen.rehearsable and trust in (None, Trust.CENTRAL):
                found = _rehearsed(found, options, task, seen)
            if accuracy is not None and not found.refused:
                found = replace(found, needed=_needed(chosen.name, options, task, seen.evidence, accuracy))
            prospects.append(found)
            if curves and not found.refused and trust is not Trust.SHUFFLE:
                lines.append((f"{found.method} {found.trust}", _curve(chosen.name, options, task, seen.evidence)))
    # As the default sees them, where that is another way.
    last = views["photographs"] if "photographs" in views else views[data_kind]
    ranked = _ranked(prospects, measured_order(last.kind, records, len(names), float(budget)))
    return Forecast(ranked, last.evidence.basis, last.kind, accuracy, tuple(lines))


def _ranked(prospects: Sequence[Prospect], order: Sequence[str]) -> tuple[Prospect, ...]:
    """The highest expectation first; methods of one curator that it cannot tell from their best as they were measured.

    Two forecasts cannot be told apart if their intervals overlap. All others keep their places.
    """
    ranked = sorted(prospects, key=lambda each: (bool(each.refused), 0.0 if each.refused else -each.accuracy))
    known = [place for place, each in enumerate(ranked)
             if not each.refused and each.trust == Trust.CENTRAL and each.method in order]  # fmt: skip
    close = [place for place in known if ranked[place].high >= ranked[known[0]].low]
    exchanged = sorted((ranked[place] for place in close), key=lambda each: order.index(each.method))
    for place, each in zip(close, exchanged, strict=True):
        ranked[place] = each
    return tuple(ranked)


@dataclass(frozen=True)
class _View:
    """The public samples as a method sees them, what is known of their labels, and the part for a rehearsal."""

    rows: NDArray[Any]
    kind: str
    evidence: Evidence
    stage: tuple[Any, NDArray[Any], Integers | None] | None

    @classmethod
    def of(
        cls,
        samples: Any,  # noqa: ANN401
        names: NDArray[Any],
        labels: ArrayLike | None,
        purity: float | None,
        kind: str | None,
        rehearse: bool,
    ) -> _View:
        """The view of a method; of photographs, which a network encodes, a part stands for all: it takes long."""
        if samples is None:
            stated = 0.9 if purity is None else purity
            return cls(_PLACEHOLDER, "table", Evidence(_PLACEHOLDER[:0], len(names), None, stated), None)
        count = samples.shape[0] if getattr(samples, "shape", ()) else len(samples)
        known = None if labels is None else _known(labels, names, count)
        if kind == "photographs":
            part = seen_rows(count, known)
            samples, known = rows_taken(samples, part), None if known is None else known[part]
        found = recognize(samples, kind)
        if found.public is not None:
            rows = found.public
        else:
            rows = np.asarray(samples if found.encoder is None else found.encoder.encode(samples))
        places = seen_rows(len(rows), known)
        evidence = Evidence(rows[places], len(names), None if known is None else known[places], purity)
        if not rehearse:
            return cls(rows, found.kind, evidence, None)
        part = seen_rows(len(rows), known, _REHEARSED)
        # A network's features are rehearsed as they are: it need not see the images again.
        acted = rows[part] if found.kind == "photographs" else rows_taken(samples, part)
        return cls(rows, found.kind, evidence, (acted, rows[part], None if known is None else known[part]))


def _prospect(chosen: Method, options: Options, task: Task, evidence: Evidence) -> Prospect:
    method, trust = chosen.name, Trust.LOCAL if chosen.holders_pay else task.trust or Trust.CENTRAL
    if chosen.forecast_by_features and not len(evidence.points):
        return Prospect(method, str(trust), float(task.budget), refused="needs public samples for a forecast")
    try:
        low, middle, high = (_expected(method, options, task, evidence.at(level)) for level in (-1, 0, 1))
    except InvalidInput as error:
        return Prospect(method, str(trust), float(task.budget), refused=str(error))
    drawn = NINE_OF_TEN * middle.deviation
    return Prospect(
        method, str(trust), float(task.budget), middle.accuracy, max(0.0, min(low.accuracy, middle.accuracy) - drawn),
        min(1.0, max(high.accuracy, middle.accuracy) + drawn), middle.queries, middle.neighbors, middle.messages,
        middle.seconds, middle.said,
    )  # fmt: skip


def _rehearsed(prospect: Prospect, options: Options, task: Task, view: _View) -> Prospect:
    """The prospect with what a rehearsal reached; a method that cannot be rehearsed is left as it is forecast."""
    assert view.stage is not None
    samples, rows, known = view.stage
    assert known is not None  # a rehearsal without labels was refused
    kind = "embedding" if task.kind == "photographs" else task.kind
    try:
        found = Rehearsal.of(
            samples, rows, known, np.asarray(task.classes), task.units, task.unit, float(task.budget), task.delta,
            options, kind, view.evidence.found,
        )  # fmt: skip
    except InvalidInput as error:
        return replace(prospect, said="; ".join(filter(None, (prospect.said, f"no rehearsal: {error}"))))
    said = f"rehearsed on {plural(view.evidence.labeled, 'label')}"
    return replace(prospect, accuracy=found.accuracy, low=found.low, high=found.high, said=said, refused="")


def _expected(method: str, options: Options, task: Task, evidence: Evidence) -> Expected:
    found: Expected = method_named(method).load_forecast()(task, options, evidence)
    return found


def _needed(method: str, options: Options, task: Task, evidence: Evidence, wanted: float) -> float | None:
    """The smallest ε with an expected accuracy, to a few percent; None if even ε = 20 is too small."""

    def reached(epsilon: float) -> bool:
        trial = replace(task, epsilon=Fraction(epsilon).limit_denominator(10**6))
        try:
            return _expected(method, options, trial, evidence).accuracy >= wanted
        except InvalidInput:
            return False

    low, high = math.log(_SMALLEST), math.log(_LARGEST)
    if not reached(_LARGEST):
        return None
    for _ in range(3 if task.trust is Trust.SHUFFLE else _HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(math.exp(middle)) else (middle, high)
    return math.exp(high)


def _curve(method: str, options: Options, task: Task, evidence: Evidence) -> tuple[tuple[float, float], ...]:
    points = []
    for epsilon in _GRID:
        trial = replace(task, epsilon=Fraction(epsilon).limit_denominator(1000))
        with suppress(InvalidInput):
            points.append((epsilon, _expected(method, options, trial, evidence).accuracy))
    return tuple(points)


def _known(labels: ArrayLike, names: NDArray[Any], count: int) -> Integers:
    """The index of every known label; -1 for an empty cell or another label."""
    given = np.asarray(labels, dtype=object).reshape(-1)
    if len(given) != count:
        raise InvalidInput(f"public_labels has {len(given)} rows, the public samples {count}")
    place = {str(name): index for index, name in enumerate(names.tolist())}
    found = np.array([place.get(str(each), -1) for each in given], dtype=np.int64)
    if not (found >= 0).any():
        raise InvalidInput("none of public_labels is one of the classes")
    return found
