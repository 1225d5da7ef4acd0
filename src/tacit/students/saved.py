"""Students on disk, in formats that run no code when they are read.

Scikit-learn students are kept by skops, which names every type it would have to build; only scikit-learn's and
numpy's own and one step of ours are let in, and a decision tree only if its nodes point inside it. Torch students
are kept as safetensors: plain arrays, with the architecture in words. A pickle is refused, always.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tacit.core.errors import InvalidInput

__all__ = ["load_student", "save_student"]

SKOPS, SAFETENSORS, SIMULATED = "student.skops", "student.safetensors", "simulated-"
# Compiled, so skops does not vouch for it; it runs no code when it is read, and its nodes are checked below.
TREE = "sklearn.tree._tree.Tree"
# Our own steps keep nothing, or arrays of numbers, so nothing harmful can be read into them.
KNOWN = (
    TREE,
    "tacit.representations.neighbor_map.NeighborMap",
    "tacit.students.flattened.Flatten",
    "tacit.students.projected.Projected",
)


def save_student(student: Any, folder: Path, simulation: bool = False) -> str:  # noqa: ANN401
    """Write the student into the folder and return the file's name, which says so if it learned from a simulation.

    >>> import tempfile
    >>> from tacit.students.weighted import logistic
    >>> save_student(logistic().fit([[0.0], [1.0]], [0, 1]), Path(tempfile.mkdtemp()))
    'student.skops'
    """
    mark = SIMULATED if simulation else ""
    if hasattr(student, "save_tensors"):
        student.save_tensors(folder / (mark + SAFETENSORS))
        return mark + SAFETENSORS
    import skops.io

    try:
        payload = skops.io.dumps(student)
        strange = _strange(skops.io.get_untrusted_types(data=payload))
    except Exception as error:
        # skops raises whatever the object's own state raises; none of it is the user's to debug.
        raise InvalidInput(f"a student of type {type(student).__name__} cannot be saved: {error}") from error
    if strange:
        raise InvalidInput(
            f"a student of type {type(student).__name__} cannot be saved so that it loads without running code "
            f"(it needs {', '.join(strange)}). Save it yourself, and use run.labels to train another"
        )
    (folder / (mark + SKOPS)).write_bytes(payload)
    return mark + SKOPS


def load_student(path: Path) -> Any:  # noqa: ANN401
    """The student in a file that ``save_student`` wrote; every other kind of file is refused unread.

    >>> load_student(Path("student.pkl"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: student.pkl: only student.skops and student.safetensors are read; a pickle ...
    """
    match path.name.removeprefix(SIMULATED):
        case "student.skops":
            return _load_skops(path)
        case "student.safetensors":
            try:
                from tacit.students.torch_classifier import TorchClassifier
                from tacit.students.torch_continued import FORMAT, ContinuedNetwork
                from tacit.students.torch_tensors import kind_of
            except ModuleNotFoundError as error:
                raise InvalidInput(f"{path}: needs {error.name}: pip install 'tacit[torch]'") from None

            return (ContinuedNetwork if kind_of(path) == FORMAT else TorchClassifier).load_tensors(path)
        case _:
            raise InvalidInput(
                f"{path}: only {SKOPS} and {SAFETENSORS} are read; a pickle can run any code and is refused"
            )


def _load_skops(path: Path) -> Any:  # noqa: ANN401
    import skops.io

    try:
        strange = _strange(skops.io.get_untrusted_types(file=path))
        if not strange:
            student = skops.io.load(path, trusted=list(KNOWN))
            _check_trees(student)
            return student
    except InvalidInput:
        raise
    except FileNotFoundError:
        raise InvalidInput(f"{path}: no such file") from None
    except Exception as error:
        # A damaged or hostile archive can fail anywhere inside the reader.
        raise InvalidInput(f"{path}: not a student that can be read ({type(error).__name__}: {error})") from error
    raise InvalidInput(f"{path}: refused, because reading it would build types that are not known: {strange}")


def _strange(types: list[str]) -> list[str]:
    return [name for name in types if name not in KNOWN]


def _check_trees(student: Any) -> None:  # noqa: ANN401
    """Refuse a forest with a tree whose nodes point outside it: predicting with it would read foreign memory."""
    for _, step in getattr(student, "steps", []):
        _check_trees(step)
    trees = [each.tree_ for each in getattr(student, "estimators_", [student]) if hasattr(each, "tree_")]
    for tree in trees:
        inner = tree.children_left != -1
        children = (tree.children_left, tree.children_right)
        # A child comes after its parent, so a walk down the tree always ends.
        down = all(((side[inner] > np.flatnonzero(inner)) & (side[inner] < tree.node_count)).all() for side in children)
        if not down or not ((tree.feature[inner] >= 0) & (tree.feature[inner] < tree.n_features)).all():
            raise InvalidInput("the student has a damaged tree and is refused")
