"""The mean of several trained students: what they are unsure of, or wrong about, differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from tacit.core import InvalidInput
from tacit.core.codec import bytes_to_array
from tacit.students.registry import SAFETENSORS, load_student, save_student

__all__ = ["AveragedStudent", "StoredNetwork", "network_bytes", "network_of"]


def network_bytes(student: Any) -> bytes:  # noqa: ANN401
    """A trained network as the content of its tensor file; only networks known by name have one."""
    with TemporaryDirectory() as folder:
        written = save_student(student, Path(folder))
        if not written.endswith(SAFETENSORS):
            raise InvalidInput(f"{type(student).__name__} is not a network that is saved as tensors")
        return (Path(folder) / written).read_bytes()


def network_of(content: bytes) -> Any:  # noqa: ANN401
    """The network in such content; those of other packages are refused."""
    with TemporaryDirectory() as folder:
        (Path(folder) / SAFETENSORS).write_bytes(content)
        try:
            return load_student(Path(folder) / SAFETENSORS, outside=False)
        except InvalidInput:
            # The reason would name a folder that is gone, or say what the writer of the file wants said.
            raise InvalidInput("the network cannot be read, or not without an extra") from None


class StoredNetwork(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A trained network as bytes, so that saving it among other students runs no code when they are read."""

    def __init__(self, written: NDArray[np.uint8]) -> None:
        self.written = written

    @classmethod
    def of(cls, network: Any) -> StoredNetwork:  # noqa: ANN401
        """Of this trained network."""
        return cls(bytes_to_array(network_bytes(network)).copy())

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> StoredNetwork:
        """It is trained already; scikit-learn asks every step of a pipeline for a ``fit``."""
        return self

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes that it learned."""
        return np.asarray(self.network().classes_)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """How likely each class is, one row per sample."""
        return np.asarray(self.network().predict_proba(np.asarray(X)), dtype=np.float64)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The likeliest class of every sample."""
        return np.asarray(self.network().predict(np.asarray(X)))

    def network(self) -> Any:  # noqa: ANN401
        """The network itself."""
        found = self.__dict__.get("_read")
        if found is None:
            found = self.__dict__["_read"] = network_of(np.asarray(self.written, dtype=np.uint8).tobytes())
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {"written": self.written}

    def __sklearn_is_fitted__(self) -> bool:
        return True


class AveragedStudent(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Trained students of the same classes, whose probabilities are averaged.

    >>> from tacit.students.weighted import logistic
    >>> rows = np.array([[0.0], [1.0]])
    >>> both = AveragedStudent([logistic().fit(rows, ["no", "yes"]), logistic().fit(2 * rows, ["no", "yes"])])
    >>> both.predict(rows).tolist()
    ['no', 'yes']
    """

    def __init__(self, students: Sequence[Any]) -> None:
        self.students = students

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> AveragedStudent:
        """All are trained already."""
        return self

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, in the order of the first student's."""
        return np.asarray(self.students[0].classes_)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """How likely each class is, one row per sample."""
        order = self.classes_.tolist()
        samples = np.asarray(X)
        chances = np.zeros((len(samples), len(order)))
        for each in self.students:
            # A network that never met a class has no column for it.
            places = [order.index(name) for name in np.asarray(each.classes_).tolist()]
            chances[:, places] += each.predict_proba(samples)
        chances /= len(self.students)
        return chances

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The likeliest class of every sample."""
        likeliest: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return likeliest

    def __sklearn_is_fitted__(self) -> bool:
        return True
