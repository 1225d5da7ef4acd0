"""What the parties' answers come to: read, weighted and averaged. All of it is post-processing of releases.

Weights come from public knowledge (numbers that the user gives) or from the answers themselves (agreement), never
from a party's records: a party's size or its accuracy on its own data would be a second channel out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats
from tacit.methods.fedmd.form import PredictionForm, one_hot, softmax
from tacit.methods.fedmd.wire import Feedback

__all__ = [
    "WEIGHTINGS",
    "Weights",
    "agreed",
    "agreement",
    "as_probabilities",
    "average",
    "evidence",
    "read_answer",
    "require_weights",
]

WEIGHTINGS = ("equal", "agreement")
Weights = str | tuple[float, ...]


def read_answer(answer: NDArray[Any], form: PredictionForm, mechanism: Any) -> NDArray[np.float64]:  # noqa: ANN401
    """An answer as probabilities or logits (q, classes), without bias where the mechanism randomized it.

    >>> read_answer(np.array([2, 0]), PredictionForm("argmax", 3), None).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    if mechanism is not None and mechanism.statistic == "labels":
        estimates: NDArray[np.float64] = mechanism.estimates(answer)
        return estimates
    if mechanism is None and form.kind == "argmax":
        return one_hot(answer, form.classes).astype(np.float64)
    return form.values(answer)


def evidence(answer: NDArray[Any], mechanism: Any) -> NDArray[np.float64]:  # noqa: ANN401
    """How much randomized labels (or noisy tables of them) speak for each class: log-likelihoods up to a constant.

    A noisy average that is cut to probabilities is sure of something even where noise decided. Evidence adds up over
    parties that see the same thing, and what it comes to says how sure one may be.

    >>> from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
    >>> evidence(np.array([[3, 0]]), DiscreteGaussianNoise(2, 2, unit_steps=True)).tolist()
    [[0.75, 0.0]]
    """
    # Responses to each label speak for themselves, counts by the law of their noise.
    speaks = mechanism if mechanism.statistic == "labels" else mechanism.noise_law
    if speaks is None:
        raise InvalidInput(f"nothing is known of what {type(mechanism).__name__} makes of labels")
    found: NDArray[np.float64] = speaks.evidence(answer)
    return found


def agreement(tables: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """How often each party says what all of them say on average.

    >>> a, b = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> agreement([a, a, b]).tolist()
    [1.0, 1.0, 0.5]
    """
    together = np.mean(tables, axis=0).argmax(axis=1)
    return np.array([(table.argmax(axis=1) == together).mean() for table in tables])


def require_weights(weights: Weights, holders: int) -> None:
    """Refuse weights that this many holders cannot have.

    >>> require_weights((1, 2), 3)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: weights must be 3 numbers of at least 0, one per holder; got (1, 2)
    """
    if isinstance(weights, str):
        if weights not in WEIGHTINGS:
            raise InvalidInput(f"weights must be one of {', '.join(WEIGHTINGS)} or numbers, got {weights!r}")
        return
    shares = np.asarray(weights, dtype=np.float64)
    if shares.shape != (holders,) or not np.isfinite(shares).all() or (shares < 0).any():
        raise InvalidInput(f"weights must be {holders} numbers of at least 0, one per holder; got {weights}")
    if shares.sum() <= 0:
        raise InvalidInput("weights must not all be 0")


def average(tables: Sequence[NDArray[np.float64]], weights: Weights = "equal") -> NDArray[np.float64]:
    """The weighted mean of all parties' answers.

    >>> average([np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])], (3.0, 1.0)).tolist()
    [[0.75, 0.25]]
    """
    if not tables:
        raise InvalidInput("no party answered; there is nothing to agree on")
    require_weights(weights, len(tables))
    if isinstance(weights, str):
        shares = np.ones(len(tables)) if weights == "equal" else agreement(tables)
    else:
        shares = np.asarray(weights, dtype=np.float64)
    mean: NDArray[np.float64] = np.average(np.stack(tables), axis=0, weights=shares)
    return mean


def as_probabilities(mean: NDArray[np.float64]) -> Floats:
    """Estimated probabilities brought back into their range: nothing below 0, rows that add up to 1.

    A row in which noise left nothing above 0 says nothing, and becomes uniform.

    >>> as_probabilities(np.array([[1.5, 0.5, -3.0], [-1.0, -1.0, -1.0]])).round(3).tolist()
    [[0.75, 0.25, 0.0], [0.3330000042915344, 0.3330000042915344, 0.3330000042915344]]
    """
    clipped = np.clip(mean, 0, None)
    sums = clipped.sum(axis=1, keepdims=True)
    uniform = np.full_like(clipped, 1 / clipped.shape[1])
    shares: Floats = np.divide(clipped, sums, out=uniform, where=sums > 0).astype(np.float32)
    return shares


def agreed(history: Sequence[Feedback], samples: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """For every public sample the class index last agreed on, −1 where it was never asked about, and its probability.

    What was agreed on later comes from models that have learned more.

    >>> last = Feedback(0, np.array([2]), np.array([[0.25, 0.75]], dtype=np.float32))
    >>> agreed((last,), 3)[0].tolist()
    [-1, -1, 1]
    """
    labels, sure = np.full(samples, -1, dtype=np.int64), np.zeros(samples, dtype=np.float32)
    for each in history:
        chances = softmax(each.targets) if each.logits else each.targets
        labels[each.rows] = chances.argmax(axis=1)
        sure[each.rows] = chances.max(axis=1)
    return labels, sure
