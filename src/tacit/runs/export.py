"""A run for use elsewhere: labels and probabilities as a table, and the student as an ONNX model.

A model takes rows of float32, gives labels and probabilities, and has the class names inside. scikit-learn's own
estimators are converted by skl2onnx and networks by torch; the steps of ours have their conversion in ``onnx_steps``.
Whatever has none is refused by name.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, TacitError
from tacit.runs.onnx_steps import OPSET, require_expressible, step_converters
from tacit.students.weighted import OneEachLabel
from tacit.students.wrapped import without_names

__all__ = ["for_classes", "label_columns", "onnx_predictions", "require_new_table", "student_to_onnx", "write_columns"]

_KINDS = (".csv", ".parquet")


def label_columns(
    labels: NDArray[Any],
    probabilities: NDArray[np.float64] | None,
    classes: NDArray[Any],
    simulation: bool,
    row: str = "public row",
) -> dict[str, NDArray[Any]]:
    """One row per sample: its number, its label, or a column for each class where it may have several, and chances.

    >>> list(label_columns(np.array(["a"]), np.array([[0.9, 0.1]]), np.array(["a", "b"]), simulation=False))
    ['public row', 'label', 'probability of a', 'probability of b']
    """
    word = "simulated label" if simulation else "label"
    columns: dict[str, NDArray[Any]] = {row: np.arange(len(labels))}
    if labels.ndim == 2:
        columns |= {f"{word} {name}": labels[:, place].astype(np.int64) for place, name in enumerate(classes)}
    else:
        columns[word] = labels
    if probabilities is not None:
        columns |= {f"probability of {name}": probabilities[:, place] for place, name in enumerate(classes)}
    return columns


def for_classes(found: Any, known: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:  # noqa: ANN401
    """Probabilities with a column for each class; one that the student never met has probability 0.

    >>> for_classes([[0.3, 0.7]], np.array(["b", "a"]), np.array(["a", "b", "c"])).tolist()
    [[0.7, 0.3, 0.0]]
    """
    place = {name: column for column, name in enumerate(classes.tolist())}
    chances = np.zeros((len(found), len(classes)))
    chances[:, [place[name] for name in known.tolist()]] = found
    return chances


def require_new_table(path: Path) -> None:
    """Refuse a file that is there already, or that would be of no kind that can be written, before any work is done.

    >>> require_new_table(Path("labels.xlsx"))
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: labels.xlsx: tables are written as .csv or .parquet
    """
    if path.suffix.lower() not in _KINDS:
        raise InvalidInput(f"{str(path)[-80:]}: tables are written as {' or '.join(_KINDS)}")
    if path.exists():
        raise InvalidInput(f"{str(path)[-80:]}: exists already; choose another file")
    if not path.absolute().parent.is_dir():
        raise InvalidInput(f"{str(path)[-80:]}: there is no such folder to write it into")
    if path.suffix.lower() == ".parquet":
        _arrow("pyarrow")


def write_columns(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write a CSV or Parquet file, whole or not at all; probabilities have six digits in a CSV file."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        if path.suffix.lower() == ".parquet":
            table = _arrow("pyarrow").table({name: _plain(values) for name, values in columns.items()})
            _arrow("pyarrow.parquet").write_table(table, partial)
        else:
            with partial.open("w", newline="", encoding="utf-8") as opened:
                writer = csv.writer(opened)
                writer.writerow(columns)
                shown = [
                    [f"{each:.6f}" for each in values] if name.startswith("probability of ") else values.tolist()
                    for name, values in columns.items()
                ]
                writer.writerows(zip(*shown, strict=True))
        partial.replace(path)
    except OSError as error:
        raise TacitError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        partial.unlink(missing_ok=True)


def _plain(values: NDArray[Any]) -> Any:  # noqa: ANN401
    return values if values.dtype.kind in "fiub" else values.tolist()


def _arrow(module: str) -> Any:  # noqa: ANN401
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise InvalidInput("Parquet files need an extra: pip install 'tacit[tables]'") from None


_NEEDS = "ONNX needs an extra: pip install 'tacit[export]'"


def student_to_onnx(student: Any, features: int, notes: Mapping[str, str]) -> bytes:  # noqa: ANN401
    """The student as an ONNX model of ``X`` (samples, features), with ``notes`` in its metadata.

    It has two outputs, ``label`` and ``probabilities``, in the order of the classes that its metadata names. Of a
    student of sets of labels both have a column per label, and ``notes`` name the labels.

    >>> from tacit.students.weighted import logistic
    >>> student = logistic().fit([[0.0], [1.0]], ["no", "yes"])
    >>> model = student_to_onnx(student, 1, {"guarantee": "none: an example"})
    >>> onnx_predictions(model, np.array([[0.1], [3.0]]))[0].tolist()
    ['no', 'yes']
    """
    try:
        import onnx
    except ModuleNotFoundError:
        raise InvalidInput(_NEEDS) from None
    student = without_names(student)
    if isinstance(student, OneEachLabel):
        model, named = _from_sets(student, features), {}
    else:
        model, named = _from_one(student, features), {"classes": json.dumps(np.asarray(student.classes_).tolist())}
        if not any(each.name == "label" for each in model.graph.output):
            _add_label(model, np.asarray(student.classes_))
    onnx.helper.set_model_props(model, {**named, **notes})
    onnx.checker.check_model(model)
    written: bytes = model.SerializeToString()
    return written


def onnx_predictions(model: bytes, samples: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """What an ONNX model says of samples: a label and probabilities for each."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise InvalidInput(_NEEDS) from None
    rows = np.asarray(samples, dtype=np.float32).reshape(len(samples), -1)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    label, probabilities = session.run(["label", "probabilities"], {"X": rows})
    return np.asarray(label), np.asarray(probabilities, dtype=np.float64)


def _from_one(student: Any, features: int) -> Any:  # noqa: ANN401
    return _from_network(student) if hasattr(student, "save_tensors") else _from_sklearn(student, features)


def _from_sets(students: OneEachLabel, features: int) -> Any:  # noqa: ANN401
    """The models of all labels side by side in one graph: each says how likely its label is, above one half is yes."""
    from onnx import TensorProto, compose, helper

    nodes: list[Any] = []
    tables: list[Any] = []
    domains = {"": OPSET[""]}
    version = 0
    for place, student in enumerate(students.students):
        known = np.asarray(student.classes_).astype(np.int64).tolist()
        chance = f"chance_{place}"
        if len(known) == 1:
            # It was told the same of every sample, and says it of every sample.
            nodes += _constant(chance, float(known[0]))
            continue
        model = compose.add_prefix(_from_one(student, features), f"label_{place}_")
        version = max(version, model.ir_version)
        domains |= {each.domain: each.version for each in model.opset_import}
        for node in model.graph.node:
            node.input[:] = ["X" if name == f"label_{place}_X" else name for name in node.input]
        nodes += model.graph.node
        tables += model.graph.initializer
        column = helper.make_tensor(f"yes_{place}", TensorProto.INT64, [1], [known.index(1)])
        tables.append(column)
        nodes.append(helper.make_node("Gather", [f"label_{place}_probabilities", column.name], [chance], axis=1))
    chances = [f"chance_{place}" for place in range(len(students.students))]
    half = helper.make_tensor("half", TensorProto.FLOAT, [], [0.5])
    nodes += [
        helper.make_node("Concat", chances, ["probabilities"], axis=1),
        helper.make_node("Greater", ["probabilities", "half"], ["label"]),
    ]
    shape = ["samples", len(chances)]
    graph = helper.make_graph(
        nodes, "sets of labels",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["samples", features])],
        [helper.make_tensor_value_info("label", TensorProto.BOOL, shape),
         helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, shape)],
        [*tables, half],
    )  # fmt: skip
    opsets = [helper.make_opsetid(domain, number) for domain, number in domains.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=version or 8)


def _constant(name: str, value: float) -> list[Any]:
    """Nodes that say the same of every row of X."""
    from onnx import TensorProto, helper

    filled = helper.make_tensor(f"{name}_value", TensorProto.FLOAT, [1], [value])
    one = helper.make_tensor(f"{name}_one", TensorProto.INT64, [1], [1])
    return [
        helper.make_node("Shape", ["X"], [f"{name}_rows"], start=0, end=1),
        helper.make_node("Constant", [], [f"{name}_wide"], value=one),
        helper.make_node("Concat", [f"{name}_rows", f"{name}_wide"], [f"{name}_shape"], axis=0),
        helper.make_node("ConstantOfShape", [f"{name}_shape"], [name], value=filled),
    ]


def _from_network(student: Any) -> Any:  # noqa: ANN401
    try:
        from tacit.students.torch_networks import network_to_onnx

        return network_to_onnx(student.network_, student.shape_)
    except ModuleNotFoundError as error:
        raise InvalidInput(f"{_NEEDS.partition(':')[0]} and {error.name}: pip install 'tacit[torch,export]'") from None


def _from_sklearn(student: Any, features: int) -> Any:  # noqa: ANN401
    try:
        from skl2onnx import to_onnx, update_registered_converter
        from skl2onnx.common.data_types import FloatTensorType
        from skl2onnx.common.exceptions import MissingConverter, MissingShapeCalculator
    except ModuleNotFoundError:
        raise InvalidInput(_NEEDS) from None
    require_expressible(student)
    for kind, shape, convert in step_converters():
        update_registered_converter(kind, f"Tacit{kind.__name__}", shape, convert)
    try:
        model = to_onnx(
            student, initial_types=[("X", FloatTensorType([None, features]))], target_opset=OPSET,
            options={"zipmap": False},
        )  # fmt: skip
    except (MissingConverter, MissingShapeCalculator, NameError, RuntimeError, NotImplementedError) as error:
        # What it cannot convert skl2onnx tells in a page of names.
        raise InvalidInput(
            f"a student of type {type(student).__name__} cannot be written as ONNX ({type(error).__name__}): "
            "export it with --skops"
        ) from None
    for output, name in zip(model.graph.output, ("label", "probabilities"), strict=True):
        _rename(model, output.name, name)
    return model


def _rename(model: Any, before: str, after: str) -> None:  # noqa: ANN401
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [after if name == before else name for name in names]
    for output in model.graph.output:
        if output.name == before:
            output.name = after


def _add_label(model: Any, classes: NDArray[Any]) -> None:  # noqa: ANN401
    """The likeliest class by name, beside the probabilities."""
    from onnx import TensorProto, helper

    text = classes.dtype.kind not in "iub"
    kind = TensorProto.STRING if text else TensorProto.INT64
    values = [str(each).encode() for each in classes] if text else classes.astype(np.int64).tolist()
    model.graph.initializer.append(helper.make_tensor("class_names", kind, [len(classes)], values))
    model.graph.node.append(helper.make_node("ArgMax", ["probabilities"], ["likeliest"], axis=1, keepdims=0))
    model.graph.node.append(helper.make_node("Gather", ["class_names", "likeliest"], ["label"], axis=0))
    model.graph.output.insert(0, helper.make_tensor_value_info("label", kind, ["samples"]))
