"""Names people can type, and what they stand for. Constructors import what they need only when called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Representation
from tacit.representations.principal import PrincipalComponents
from tacit.representations.scaled import Identity, Standardised, flat
from tacit.representations.spectral import spectral_map
from tacit.students.weighted import forest, logistic

__all__ = ["REPRESENTATIONS", "STUDENTS", "find", "suggest_representation"]

Entry = TypeVar("Entry")

REPRESENTATIONS: Mapping[str, Callable[[NDArray[Any]], Representation]] = {
    "identity": Identity.fit,
    "standardised": Standardised.fit,
    "pca": PrincipalComponents.fit,
    "spectral": spectral_map,
}


def _network() -> Any:  # noqa: ANN401
    try:
        from tacit.students.torch_classifier import TorchClassifier
    except ModuleNotFoundError as error:
        raise InvalidInput(f"neural students need {error.name}: pip install 'tacit[torch]'") from None
    return TorchClassifier()


STUDENTS: Mapping[str, Callable[[], Any]] = {"logistic": logistic, "forest": forest, "network": _network}
# Below this many samples a neighbourhood graph is mostly gaps.
GRAPH_SAMPLES = 100


def find(entries: Mapping[str, Entry], name: str, what: str) -> Entry:
    """The entry of that name, or an error that lists the names there are.

    >>> find(STUDENTS, "oracle", "student")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: unknown student 'oracle': choose one of forest, logistic, network
    """
    if name not in entries:
        raise InvalidInput(f"unknown {what} {name!r}: choose one of {', '.join(sorted(entries))}")
    return entries[name]


def suggest_representation(public: NDArray[Any]) -> str:
    """A representation that suits the public samples.

    Features of one scale (pixels, counts, embeddings) keep it and are mapped by their neighbourhood graph, if
    there are enough samples for one; features of very different scales (ages beside incomes) are standardised,
    or the largest would decide every distance alone.

    >>> suggest_representation(np.random.default_rng(0).normal(size=(200, 64)))
    'spectral'
    >>> suggest_representation(np.array([[1.0, 20_000], [2.0, 50_000], [3.0, 30_000]]))
    'standardised'
    """
    spreads = flat(public).astype(np.float64).std(axis=0)
    spreads = spreads[spreads > 0]
    if not len(spreads):
        raise InvalidInput("the public samples are all alike: there is nothing to tell them apart by")
    uneven = spreads.max() > 10 * np.median(spreads)
    if uneven or len(spreads) <= 8:
        return "standardised"
    return "spectral" if len(public) >= GRAPH_SAMPLES else "pca"
