"""Every student by name, and which class reads each kind of file that a student was saved as.

A student is anything with ``fit(X, y, sample_weight)`` and ``predict``. Packages add to the names by entry points of
the group ``tacit.students``: a class or a function without parameters that makes one. To be saved, a network's class
has a ``format``, ``save_tensors(file)`` and ``load_tensors(file)``; any other class that is added is trusted to be read
by skops.
"""

from __future__ import annotations

from typing import Any

from tacit.core.registry import Registry

__all__ = ["STUDENTS", "reader_of", "trusted_types"]

STUDENTS = Registry("student", "tacit.students", {
    "logistic": "tacit.students.weighted:logistic",
    "forest": "tacit.students.weighted:forest",
    "map": "tacit.representations.maps:map_student",
    "network": "tacit.students.torch_classifier:TorchClassifier [torch]",
    "handwriting": "tacit.students.registry:handwriting",
    "photographs": "tacit.students.registry:photographs",
})  # fmt: skip
# By what the file says it holds.
FORMATS = Registry("kind of saved student", "tacit.students", {
    "tacit torch classifier 2": "tacit.students.torch_classifier:TorchClassifier [torch]",
    "tacit continued network 1": "tacit.students.torch_continued:ContinuedNetwork [torch]",
    "tacit contrastive encoder 1": "tacit.students.torch_simclr:ContrastiveEncoder [torch]",
})  # fmt: skip
# Beside scikit-learn's and numpy's own: a tree is compiled, so skops does not vouch for it, but it runs no code when it
# is read, and its nodes are checked. Our own steps keep nothing, or arrays of numbers, so nothing harmful can be read
# into them.
TYPES = (
    "sklearn.tree._tree.Tree",
    "tacit.methods.auto.student.ReleasedFeatures",
    "tacit.representations.maps.NeighborMap",
    "tacit.students.weighted.OneEachLabel",
    "tacit.students.wrapped.Flatten",
    "tacit.students.wrapped.Projected",
)


def handwriting() -> Any:  # noqa: ANN401
    """Small convolutions, shown changed copies of handwritten signs."""
    return STUDENTS["network"](
        network="small-convolutions", epochs=8, batch=32, learning_rate=5e-3, label_smoothing=0.1, average=0.995,
        augmentation="handwriting",
    )  # fmt: skip


def photographs() -> Any:  # noqa: ANN401
    """A wide residual network that learns from its own sure guesses, too."""
    return STUDENTS["network"](
        network="wide-resnet-28-2", epochs=30, label_smoothing=0.1, average=0.995, augmentation="photographs",
        consistency=1.0,
    )  # fmt: skip


def reader_of(kind: str, outside: bool = True) -> Any:  # noqa: ANN401
    """The class that reads such tensors, or None where there is none; with ``outside`` also one of another package.

    >>> reader_of("tacit torch classifier 2").__name__, reader_of("another")
    ('TorchClassifier', None)
    """
    if kind in FORMATS.own:
        return FORMATS[kind]
    return next((each for each in _added() if getattr(each, "format", "") == kind), None) if outside else None


def trusted_types(outside: bool = True) -> tuple[str, ...]:
    """The names of types that skops may build beside those it knows.

    >>> "tacit.students.wrapped.Flatten" in trusted_types()
    True
    """
    added = [f"{each.__module__}.{each.__qualname__}" for each in _added()] if outside else []
    return (*TYPES, *added)


def _added() -> list[type]:
    """The classes of students that other installed packages add."""
    return [found for found in map(STUDENTS.__getitem__, STUDENTS.outside()) if isinstance(found, type)]
