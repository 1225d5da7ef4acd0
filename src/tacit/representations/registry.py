"""Representations by name: how they are fitted, sent to a holder and read there.

A representation is anything with ``encode``. To be sent to a holder its class has a ``name``, ``fields()`` and a strict
``read(fields)``; it may have ``fitted_to(samples)`` and ``ground(public)``. Packages add names by entry points of the
group ``tacit.representations``: such a class, with ``fit(public)``, or a function of the public samples and the number
of queries. A holder reads a representation of another package only if its policy names it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, Representation
from tacit.core.codec import StrictReader
from tacit.core.registry import Registry
from tacit.core.samples import content_digest, row_digests

__all__ = [
    "REPRESENTATIONS", "admitted", "fit_representation", "fitted_to", "ground", "read_representation",
    "representation_fields", "suggest_representation",
]  # fmt: skip

_GROUP = "tacit.representations"
# Names for users: a class that is fitted to the public samples, or a function of them and the number of queries.
REPRESENTATIONS = Registry("representation", _GROUP, {
    "identity": "tacit.representations.scaled:Identity",
    "standardized": "tacit.representations.scaled:Standardized",
    "random-features": "tacit.representations.random_features:RandomFeatures",
    **{
        name: f"tacit.representations.chained:{name}"
        for name in (
            "pca", "spectral", "groups", "gradients", "handwriting", "patches", "imagenet", "umap", "simclr", "mixture",
            "transformed",
        )
    },
})  # fmt: skip
# Classes that can be sent to a holder, by their own name.
CLASSES = Registry("representation", _GROUP, {
    "identity": "tacit.representations.scaled:Identity",
    "directions": "tacit.representations.scaled:Directions",
    "standardized": "tacit.representations.scaled:Standardized",
    "principal": "tacit.representations.scaled:PrincipalComponents",
    "random-features": "tacit.representations.random_features:RandomFeatures",
    "deskewed": "tacit.representations.image_features:Deskewed",
    "even-width": "tacit.representations.image_features:EvenWidth",
    "gradients": "tacit.representations.image_features:OrientedGradients",
    "patches": "tacit.representations.patches:PatchDictionary",
    "interpolated": "tacit.representations.maps:Interpolated",
    "mixture": "tacit.representations.groups:MixtureShares",
    "head": "tacit.representations.groups:ClusteringHead",
    "transformed": "tacit.representations.transformed_kmeans:TransformedShares",
    "chained": "tacit.representations.chained:Chained",
    "imagenet": "tacit.representations.torch_efficientnet:ImageNetFeatures [features]",
    "student": "tacit.representations.student_features:StudentFeatures",
    "student-odds": "tacit.representations.student_features:StudentOdds",
})  # fmt: skip

# Earlier names, which old files, recipes and nodes contain.
_RENAMED = {"standardised": "standardized"}

# With fewer samples a neighbor graph falls apart.
GRAPH_SAMPLES = 100
# If this few features dominate all distances, they are standardized.
FEW_FEATURES = 8
# The largest ratio of the largest standard deviation to the lower quartile, for features of one scale.
_UNEVEN = 10

_admitted: ContextVar[frozenset[str]] = ContextVar("admitted", default=frozenset())


def fit_representation(name: str, public: NDArray[Any], queries: int) -> tuple[str, Representation]:
    """The representation of this name, fitted to public samples and the number of queries; ``auto`` chooses a name.

    >>> fit_representation("auto", np.array([[1.0, 20_000], [2.0, 50_000], [3.0, 30_000]]), 2)[0]
    'standardized'
    >>> fit_representation("spectrum", np.eye(2), 2)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: unknown representation 'spectrum': choose one of ...; did you mean spectral?
    """
    if name == "auto":
        name = suggest_representation(public)
    name = _RENAMED.get(name, name)
    found = REPRESENTATIONS.find(name)
    made: Representation = found.fit(public) if hasattr(found, "fit") else found(public, queries)
    return name, made


def representation_fields(representation: Representation) -> dict[str, Any]:
    """The representation's name and parameters, as values that can be encoded.

    >>> from tacit.representations.scaled import Identity
    >>> representation_fields(Identity(4))
    {'kind': 'identity', 'width': 4}
    """
    links = _links(representation)
    if len(links) > 1:
        return {"kind": "chained", "parts": [representation_fields(link) for link in links]}
    made: Any = type(representation)
    name = getattr(made, "name", None)
    if not isinstance(name, str) or CLASSES.get(name) is not made:
        raise InvalidInput(
            f"{made.__name__} cannot be sent to a holder: it is not among {', '.join(CLASSES)}. Choose one of these"
        )
    described: Any = representation
    return {"kind": name, **described.fields()}


def _links(representation: Representation) -> tuple[Representation, ...]:
    """The parts of a chain and of the chains in it: a chain of chains is sent as one chain."""
    parts: tuple[Representation, ...] = getattr(representation, "parts", (representation,))
    if len(parts) == 1:
        return (representation,)
    inner = (getattr(part, "parts", (part,)) for part in parts)
    return tuple(link for links in inner for part in links for link in _links(part))


def read_representation(fields: StrictReader) -> Representation:
    """The representation with these fields; anything else is refused.

    >>> read_representation(StrictReader({"kind": "identity", "width": 4}, "representation"))
    Identity(width=4)
    """
    kind = fields.one_of("kind", (*CLASSES.own, *_RENAMED, *sorted(_admitted.get())))
    kind = _RENAMED.get(kind, kind)
    found = CLASSES.get(kind)
    if found is None or getattr(found, "name", None) != kind:
        raise InvalidInput(f"the {fields.what} {kind} is allowed here, but no installed package has it")
    made: Representation = found.read(fields)
    fields.done()
    return made


@contextmanager
def admitted(names: Collection[str]) -> Iterator[None]:
    """A context in which representations of other packages with these names are read too.

    >>> with admitted(["ranks"]):
    ...     read_representation(StrictReader({"kind": "ranks"}, "representation"))
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the representation ranks is allowed here, but no installed package has it
    """
    before = _admitted.set(frozenset(names))
    try:
        yield
    finally:
        _admitted.reset(before)


def fitted_to(representation: Representation, samples: NDArray[Any]) -> bool:
    """Whether the representation was fitted on exactly these samples, as far as it can tell.

    It asks the method ``fitted_to``, or compares ``fitted_on``, a digest of the samples it was fitted on.

    >>> from tacit.representations.scaled import Identity, Standardized
    >>> rows = np.array([[0.0], [2.0]])
    >>> fitted_to(Standardized.fit(rows), rows), fitted_to(Identity.fit(rows), rows)
    (True, False)
    """
    own = getattr(representation, "fitted_to", None)
    if own is not None:
        return bool(own(samples))
    digest = getattr(representation, "fitted_on", None)
    return digest is not None and bool(digest == content_digest(row_digests(samples)))


def ground(representation: Representation, public: NDArray[Any]) -> NDArray[Any]:
    """The features that a map was made from; for any other representation, the encoded samples.

    >>> from tacit.representations.scaled import Standardized
    >>> rows = np.array([[0.0], [2.0]])
    >>> ground(Standardized.fit(rows), rows).tolist()
    [[-1.0], [1.0]]
    """
    own = getattr(representation, "ground", None)
    found: NDArray[Any] = representation.encode(public) if own is None else own(public)
    return found


def suggest_representation(public: NDArray[Any]) -> str:
    """The name of a representation that suits the public samples.

    Features of one scale (pixels, counts, embeddings) are not scaled and get a spectral embedding, if there are enough
    samples; features of very different scales (ages beside incomes) are standardized, since otherwise the largest
    would dominate every distance.

    >>> suggest_representation(np.random.default_rng(0).normal(size=(200, 64)))
    'spectral'
    >>> suggest_representation(np.array([[1.0, 20_000], [2.0, 50_000], [3.0, 30_000]]))
    'standardized'
    """
    rows = public.reshape(len(public), -1).astype(np.float64)
    spreads = rows.std(axis=0)
    if not spreads.any():
        raise InvalidInput("the public samples are all equal")
    # Relative to the largest, so that squares neither overflow nor vanish.
    shares = (spreads / spreads.max()) ** 2
    # The effective number of features: how many of equal variance would give such distances.
    effective = shares.sum() ** 2 / (shares**2).sum()
    # Pixels at the border of an image are mostly background: rare events, not a small scale. So only features that
    # differ between most samples count.
    low, high = np.quantile(rows, (0.25, 0.75), axis=0)
    varying = spreads[high > low]
    uneven = len(varying) > 0 and spreads.max() > _UNEVEN * np.quantile(varying, 0.25)
    # Samples given as images are pixels of one scale.
    if effective <= FEW_FEATURES or (uneven and public.ndim == 2):
        return "standardized"
    return "spectral" if len(public) >= GRAPH_SAMPLES else "pca"
