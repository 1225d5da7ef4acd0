"""Students on disk, in formats that run no code when they are read.

Scikit-learn students are kept by skops, which names every type it would have to build; only scikit-learn's and
numpy's own, our steps and the classes of registered students are let in, and a decision tree only if its nodes point
inside it. Torch students are kept as safetensors: plain arrays, with the architecture in words. A pickle is refused,
always. Which class reads a file is looked up in the registry.
"""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core.errors import InvalidInput
from tacit.students.registry import TYPES, reader_of, trusted_types
from tacit.students.wrapped import without_names

__all__ = ["load_student", "save_student"]

SCHEMA = "schema.json"
SKOPS, SAFETENSORS, SIMULATED = "student.skops", "student.safetensors", "simulated-"
# Where classes of ours were when older students were saved.
MOVED = {
    "tacit.representations.neighbor_map": "tacit.representations.maps",
    "tacit.students.flattened": "tacit.students.wrapped",
    "tacit.students.projected": "tacit.students.wrapped",
}


def save_student(student: Any, folder: Path, simulation: bool = False) -> str:  # noqa: ANN401
    """Write the student into the folder and return the file's name, which says so if it learned from a simulation.

    The names of its columns are the run's to keep.

    >>> import tempfile
    >>> from tacit.students.weighted import logistic
    >>> save_student(logistic().fit([[0.0], [1.0]], [0, 1]), Path(tempfile.mkdtemp()))
    'student.skops'
    """
    student, mark = without_names(student), SIMULATED if simulation else ""
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
    (folder / (mark + SKOPS)).write_bytes(_without_traces(payload))
    return mark + SKOPS


def load_student(path: Path, outside: bool = True) -> Any:  # noqa: ANN401
    """The student in a file that ``save_student`` wrote; every other kind of file is refused unread.

    Without ``outside`` students of other packages are refused, too: what others send is not built by others' code.

    >>> load_student(Path("student.pkl"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: student.pkl: only student.skops and student.safetensors are read; a pickle ...
    """
    match path.name.removeprefix(SIMULATED):
        case "student.skops":
            return _load_skops(path, outside)
        case "student.safetensors":
            return _load_tensors(path, outside)
        case _:
            raise InvalidInput(
                f"{path}: only {SKOPS} and {SAFETENSORS} are read; a pickle can run any code and is refused"
            )


def _without_traces(payload: bytes) -> bytes:
    """The same archive without clock times and without the addresses that its parts had in this process's memory.

    skops names parts by their addresses, which depend on everything the process has held, private records too.
    """
    numbers: dict[str, int] = {}

    def renamed(found: re.Match[str]) -> str:
        return f"{found[1]}{numbers.setdefault(found[2], len(numbers) + 1)}"

    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(payload)) as given, zipfile.ZipFile(written, "w") as archive:
        schema = re.sub(r'("__id__": |"file": ")(\d+)', renamed, given.read(SCHEMA).decode())
        parts = {re.sub(r"()(\d+)", renamed, name, count=1): name for name in given.namelist() if name != SCHEMA}
        for name, before in sorted(parts.items()):
            archive.writestr(zipfile.ZipInfo(name), given.read(before))
        archive.writestr(zipfile.ZipInfo(SCHEMA), schema)
    return written.getvalue()


def _with_places(payload: bytes) -> bytes:
    """The same archive with the modules in which our classes are now."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(payload)) as given, zipfile.ZipFile(written, "w") as archive:
        for name in given.namelist():
            content = given.read(name)
            if name == SCHEMA:
                for before, now in MOVED.items():
                    content = content.replace(f'"{before}"'.encode(), f'"{now}"'.encode())
            archive.writestr(zipfile.ZipInfo(name), content)
    return written.getvalue()


def _load_tensors(path: Path, outside: bool) -> Any:  # noqa: ANN401
    try:
        from tacit.students.torch_tensors import kind_of
    except ModuleNotFoundError as error:
        raise InvalidInput(f"{path}: needs {error.name}: pip install 'tacit[torch]'") from None
    kind = kind_of(path)
    reader = reader_of(kind, outside)
    if reader is None:
        raise InvalidInput(f"{path}: not a student of this kind ({kind!r})")
    return reader.load_tensors(path)


def _load_skops(path: Path, outside: bool) -> Any:  # noqa: ANN401
    import skops.io

    try:
        payload = _with_places(path.read_bytes())
        strange = _strange(skops.io.get_untrusted_types(data=payload), outside)
        if not strange:
            student = skops.io.loads(payload, trusted=list(trusted_types(outside)))
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


def _strange(types: list[str], outside: bool = True) -> list[str]:
    unknown = [name for name in types if name not in TYPES]
    # Other packages are looked at only where something is left to explain.
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
