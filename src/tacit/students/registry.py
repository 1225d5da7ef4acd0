"""Students by name, and students on disk in formats that run no code when they are read.

A student is anything with ``fit(X, y, sample_weight)`` and ``predict``. Packages add names by entry points of the group
``tacit.students``: a class, or a function without parameters, that makes one. To be saved, a network's class has a
``format``, ``save_tensors(file)`` and ``load_tensors(file)``; any other registered class is trusted to be read by
skops.

Scikit-learn students are saved by skops, which lists every type it would have to build; only types of scikit-learn and
numpy, our own steps and the classes of registered students are allowed, and a decision tree only if the indices of its
nodes are in range. Torch students are saved as safetensors: plain arrays, with a description of the architecture. A
pickle is always refused. The registry says which class reads a file.
"""

from __future__ import annotations

import importlib
import io
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core import InvalidInput
from tacit.core.registry import Registry
from tacit.students.wrapped import without_names

__all__ = [
    "STUDENTS", "TENSOR_ENTRY", "load_student", "reader_of", "save_student", "student_name", "tensor_head",
    "trusted_types",
]  # fmt: skip

# By the format that a file names.
TENSOR_FORMATS = Registry("kind of saved student", "tacit.students", {
    "tacit torch classifier 2": "tacit.students.torch_classifier:TorchClassifier [torch]",
    "tacit continued network 1": "tacit.students.torch_continued:ContinuedNetwork [torch]",
    "tacit contrastive encoder 1": "tacit.students.torch_simclr:ContrastiveEncoder [torch]",
})  # fmt: skip
# Beside types of scikit-learn and numpy. A tree is a compiled type, which skops does not trust; it runs no code when it
# is read, and its nodes are checked. A perceptron keeps its optimizer, whose state are arrays of numbers. Our own steps
# have no state, or arrays of numbers, so reading them is harmless.
TYPES = (
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",
    "tacit.methods.auto.teaching.ReleasedFeatures",
    "tacit.representations.student_features.NeighborMap",
    "tacit.students.averaged.AveragedStudent",
    "tacit.students.averaged.StoredNetwork",
    "tacit.students.weighted.BinaryRelevance",
    "tacit.students.wrapped.Flatten",
    "tacit.students.wrapped.Projected",
)
_SCHEMA, _BRIDGE = "schema.json", "sklearn.externals.array_api_compat.torch"
SKOPS, SAFETENSORS, _SIMULATED = "student.skops", "student.safetensors", "simulated-"
# Former modules of our classes, which older files name.
_MOVED = {
    "tacit.methods.auto.student": "tacit.methods.auto.teaching",
    "tacit.representations.maps": "tacit.representations.student_features",
    "tacit.representations.neighbor_map": "tacit.representations.student_features",
    "tacit.students.flattened": "tacit.students.wrapped",
    "tacit.students.projected": "tacit.students.wrapped",
}
# A former name of a class, as the schema of older files has it.
_RENAMED = {'"__class__": "OneEachLabel"': '"__class__": "BinaryRelevance"'}


STUDENTS = Registry("student", "tacit.students", {
    "logistic": "tacit.students.weighted:logistic",
    "forest": "tacit.students.weighted:forest",
    "map": "tacit.representations.student_features:map_student",
    "network": "tacit.students.torch_classifier:TorchClassifier [torch]",
    "handwriting": "tacit.students.registry:handwriting_network",
    "photographs": "tacit.students.registry:photograph_network",
})  # fmt: skip

# The only entry of a tensor file's metadata.
TENSOR_ENTRY = "tacit"


def handwriting_network() -> Any:  # noqa: ANN401
    """A small convolutional network, trained with augmentation for handwriting."""
    return STUDENTS["network"](
        network="small-convolutions", epochs=8, batch=32, learning_rate=5e-3, label_smoothing=0.1, average=0.995,
        augmentation="handwriting",
    )  # fmt: skip


def photograph_network() -> Any:  # noqa: ANN401
    """A wide residual network, trained with consistency (FixMatch) for photographs."""
    return STUDENTS["network"](
        network="wide-resnet-28-2", epochs=30, label_smoothing=0.1, average=0.995, augmentation="photographs",
        consistency=1.0,
    )  # fmt: skip


def reader_of(kind: str, outside: bool = True) -> Any:  # noqa: ANN401
    """The class that reads tensors of this format, or None; with ``outside`` also a class of another package.

    >>> reader_of("tacit torch classifier 2").__name__, reader_of("another")
    ('TorchClassifier', None)
    """
    if kind in TENSOR_FORMATS.own:
        return TENSOR_FORMATS[kind]
    return next((each for each in _added() if getattr(each, "format", "") == kind), None) if outside else None


def trusted_types(outside: bool = True) -> tuple[str, ...]:
    """The names of types that skops may build beside those it trusts itself.

    >>> "tacit.students.wrapped.Flatten" in trusted_types()
    True
    """
    added = [f"{each.__module__}.{each.__qualname__}" for each in _added()] if outside else []
    return (*TYPES, *added)


def _added() -> list[type]:
    """The classes of students that other installed packages add."""
    return [found for found in map(STUDENTS.__getitem__, STUDENTS.outside()) if isinstance(found, type)]


def student_name(student: Any) -> str:  # noqa: ANN401
    """What a student is: its class, or the classes of a pipeline's steps.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> student_name(make_pipeline(StandardScaler(), "passthrough", LogisticRegression()))
    'StandardScaler, LogisticRegression'
    """
    steps = getattr(student, "steps", None) or [("", student)]
    return ", ".join(type(step).__name__ for _, step in steps if step is not None and step != "passthrough")


def save_student(student: Any, folder: Path, simulation: bool = False) -> str:  # noqa: ANN401
    """Write the student into the folder and return the file's name, which says if it comes from a simulation.

    The names of its columns are not written: the run stores them.

    >>> import tempfile
    >>> from tacit.students.weighted import logistic
    >>> save_student(logistic().fit([[0.0], [1.0]], [0, 1]), Path(tempfile.mkdtemp()))
    'student.skops'
    """
    student, mark = without_names(student), _SIMULATED if simulation else ""
    if hasattr(student, "save_tensors"):
        student.save_tensors(folder / (mark + SAFETENSORS))
        return mark + SAFETENSORS
    skops = _skops()
    try:
        payload = skops.dumps(student)
        untrusted = _untrusted(skops.get_untrusted_types(data=payload))
    except Exception as error:
        # skops raises whatever the object's own state raises.
        raise InvalidInput(f"a student of type {type(student).__name__} cannot be saved: {error}") from error
    if untrusted:
        raise InvalidInput(
            f"a student of type {type(student).__name__} cannot be saved so that it loads without running code "
            f"(it needs {', '.join(untrusted)}). Save it yourself, and use run.labels to train another"
        )
    (folder / (mark + SKOPS)).write_bytes(_without_traces(payload))
    return mark + SKOPS


def load_student(path: Path, outside: bool = True) -> Any:  # noqa: ANN401
    """The student in a file that ``save_student`` wrote; every other kind of file is refused unread.

    Without ``outside``, students of other packages are refused: a received file must not choose which code builds it.

    >>> load_student(Path("student.pkl"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: student.pkl: only student.skops and student.safetensors are read; a pickle ...
    """
    match path.name.removeprefix(_SIMULATED):
        case "student.skops":
            return _load_skops(path, outside)
        case "student.safetensors":
            return _load_tensors(path, outside)
        case _:
            raise InvalidInput(
                f"{path}: only {SKOPS} and {SAFETENSORS} are read; a pickle can run any code and is refused"
            )


def tensor_head(metadata: dict[str, str] | None) -> dict[str, Any]:
    """The format and the description in a tensor file's metadata; the oldest files have an entry for each.

    >>> tensor_head({"tacit": '{"format": "f", "words": {}}'}) == tensor_head({"format": "f", "words": "{}"})
    True
    """
    written = metadata or {}
    if TENSOR_ENTRY in written:
        head = json.loads(written[TENSOR_ENTRY])
        if not isinstance(head, dict):
            raise TypeError("its entry is not an object")
        return head
    return {**written, "words": json.loads(written["words"])} if "words" in written else dict(written)


def _without_traces(payload: bytes) -> bytes:
    """The archive without times and without the memory addresses by which skops names its parts.

    Addresses depend on everything that was in the process's memory, also on private records.
    """
    numbers: dict[str, int] = {}

    def renamed(found: re.Match[str]) -> str:
        return f"{found[1]}{numbers.setdefault(found[2], len(numbers) + 1)}"

    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(payload)) as given, zipfile.ZipFile(written, "w") as archive:
        schema = re.sub(r'("__id__": |"file": ")(\d+)', renamed, given.read(_SCHEMA).decode())
        parts = {re.sub(r"()(\d+)", renamed, name, count=1): name for name in given.namelist() if name != _SCHEMA}
        for name, before in sorted(parts.items()):
            archive.writestr(zipfile.ZipInfo(name), given.read(before))
        archive.writestr(zipfile.ZipInfo(_SCHEMA), schema)
    return written.getvalue()


def _with_present_modules(payload: bytes) -> bytes:
    """The archive with the present modules and names of our classes."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(payload)) as given, zipfile.ZipFile(written, "w") as archive:
        for name in given.namelist():
            content = given.read(name)
            if name == _SCHEMA:
                for before, now in _MOVED.items():
                    content = content.replace(f'"{before}"'.encode(), f'"{now}"'.encode())
                for before, now in _RENAMED.items():
                    content = content.replace(before.encode(), now.encode())
            archive.writestr(zipfile.ZipInfo(name), content)
    return written.getvalue()


def _load_tensors(path: Path, outside: bool) -> Any:  # noqa: ANN401
    try:
        from tacit.students.torch_networks import kind_of
    except ModuleNotFoundError as error:
        raise InvalidInput(f"{path}: needs {error.name}: pip install 'tacit[torch]'") from None
    kind = kind_of(path)
    reader = reader_of(kind, outside)
    if reader is None:
        raise InvalidInput(f"{path}: not a student of this kind ({kind!r})")
    return reader.load_tensors(path)


def _skops() -> Any:  # noqa: ANN401
    """``skops.io``, which imports all of scikit-learn to know its types.

    Scikit-learn's adapter of torch is left out: it would import torch, which is slow, and no student that skops writes
    needs it.
    """
    if not {"skops.io", _BRIDGE} & sys.modules.keys():
        sys.modules[_BRIDGE] = None  # type: ignore[assignment]  # an import of it then fails
        try:
            importlib.import_module("skops.io")
        finally:
            del sys.modules[_BRIDGE]
    return importlib.import_module("skops.io")


def _load_skops(path: Path, outside: bool) -> Any:  # noqa: ANN401
    skops = _skops()
    try:
        payload = _with_present_modules(path.read_bytes())
        untrusted = _untrusted(skops.get_untrusted_types(data=payload), outside)
        if not untrusted:
            student = skops.loads(payload, trusted=list(trusted_types(outside)))
            _check_trees(student)
            return student
    except InvalidInput:
        raise
    except FileNotFoundError:
        raise InvalidInput(f"{path}: no such file") from None
    except Exception as error:
        # A damaged or hostile archive can fail anywhere inside the reader.
        raise InvalidInput(f"{path}: not a student that can be read ({type(error).__name__}: {error})") from error
    raise InvalidInput(f"{path}: refused, because reading it would build unknown types: {untrusted}")


def _untrusted(types: list[str], outside: bool = True) -> list[str]:
    unknown = [name for name in types if name not in TYPES]
    # Other packages are imported only if an unknown type remains.
    trusted = trusted_types(outside) if unknown else ()
    return [name for name in unknown if name not in trusted]


def _check_trees(student: Any) -> None:  # noqa: ANN401
    """Refuse a forest with a tree whose nodes point outside it: predicting with it would read foreign memory."""
    for part in (*(step for _, step in getattr(student, "steps", [])), *getattr(student, "students", [])):
        _check_trees(part)
    trees = [each.tree_ for each in getattr(student, "estimators_", [student]) if hasattr(each, "tree_")]
    for tree in trees:
        inner = tree.children_left != -1
        children = (tree.children_left, tree.children_right)
        # A child comes after its parent, so a walk down the tree always ends.
        down = all(((side[inner] > np.flatnonzero(inner)) & (side[inner] < tree.node_count)).all() for side in children)
        if not down or not ((tree.feature[inner] >= 0) & (tree.feature[inner] < tree.n_features)).all():
            raise InvalidInput("the student has a damaged tree and is refused")
