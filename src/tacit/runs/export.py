"""Exports of a run: labels and probabilities as a table, and the student as an ONNX model.

A model takes rows of float32, returns labels and probabilities, and contains the class names. skl2onnx converts
scikit-learn's estimators, torch converts networks, and ``onnx_steps`` this package's own steps. A step without a
conversion is refused by name.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, TacitError
from tacit.runs.onnx_steps import OPSET, require_expressible, step_converters
from tacit.students.averaged import AveragedStudent, StoredNetwork
from tacit.students.weighted import BinaryRelevance
from tacit.students.wrapped import for_rows, without_names

__all__ = ["for_classes", "label_columns", "onnx_predictions", "require_new_table", "student_to_onnx", "write_columns"]

_KINDS = (".csv", ".parquet")


def label_columns(
    labels: NDArray[Any],
    probabilities: NDArray[np.float64] | None,
    classes: NDArray[Any],
    simulation: bool,
    row: str = "public row",
) -> dict[str, NDArray[Any]]:
    """One row per sample: its number, its label (or one column per class for multi-label data), and probabilities.

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
    """Probabilities with one column per class; 0 for a class that the student was not trained on.

    >>> for_classes([[0.3, 0.7]], np.array(["b", "a"]), np.array(["a", "b", "c"])).tolist()
    [[0.7, 0.3, 0.0]]
    """
    place = {name: column for column, name in enumerate(classes.tolist())}
    chances = np.zeros((len(found), len(classes)))
    chances[:, [place[name] for name in known.tolist()]] = found
    return chances


def require_new_table(path: Path) -> None:
    """Refuse a file that exists already or has an unknown format, before any work is done.

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
        raise InvalidInput(f"{str(path)[-80:]}: there is no such folder")
    if path.suffix.lower() == ".parquet":
        _arrow("pyarrow")


def write_columns(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write a CSV or Parquet file atomically; probabilities in CSV have six digits."""
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

    It has two outputs, ``label`` and ``probabilities``, in the order of the classes in its metadata. For a multi-label
    student both have one column per label, and ``notes`` name the labels.

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
    if getattr(student, "multilabel", False):
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
    """An ONNX model's labels and probabilities for samples."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise InvalidInput(_NEEDS) from None
    rows = np.asarray(samples, dtype=np.float32).reshape(len(samples), -1)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    label, probabilities = session.run(["label", "probabilities"], {"X": rows})
    return np.asarray(label), np.asarray(probabilities, dtype=np.float64)


def _from_one(student: Any, features: int) -> Any:  # noqa: ANN401
    student = for_rows(student)
    if (converted := _OWN.get(type(student))) is not None:
        return converted(student, features)
    return _from_network(student) if hasattr(student, "save_tensors") else _from_sklearn(student, features)


class _Beside:
    """Models of the same rows side by side in one graph."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.tables: list[Any] = []
        self.domains = {"": OPSET[""]}
        self.version = 0

    def take(self, model: Any, prefix: str) -> None:  # noqa: ANN401
        """Another model, whose names get a prefix."""
        from onnx import compose

        model = compose.add_prefix(model, prefix)
        self.version = max(self.version, model.ir_version)
        self.domains |= {each.domain: each.version for each in model.opset_import}
        for node in model.graph.node:
            node.input[:] = ["X" if name == f"{prefix}X" else name for name in node.input]
        self.nodes += model.graph.node
        self.tables += model.graph.initializer

    def graph(self, name: str, features: int, outputs: Any) -> Any:  # noqa: ANN401
        """All of them as a model with these outputs, each a name, a type and a width."""
        from onnx import TensorProto, helper

        made = helper.make_graph(
            self.nodes, name, [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["samples", features])],
            [helper.make_tensor_value_info(each, kind, ["samples", width]) for each, kind, width in outputs],
            self.tables,
        )  # fmt: skip
        opsets = [helper.make_opsetid(domain, number) for domain, number in self.domains.items()]
        return helper.make_model(made, opset_imports=opsets, ir_version=self.version or 8)


def _from_mean(student: AveragedStudent, features: int) -> Any:  # noqa: ANN401
    """Every student's probabilities, in the order of the first one's classes, and their mean."""
    from onnx import TensorProto, helper

    order, beside, parts = student.classes_.tolist(), _Beside(), []
    for place, each in enumerate(student.students):
        beside.take(_from_one(each, features), f"student_{place}_")
        known = np.asarray(each.classes_).tolist()
        columns = np.zeros((len(known), len(order)), dtype=np.float32)
        columns[range(len(known)), [order.index(name) for name in known]] = 1 / len(student.students)
        where = helper.make_tensor(f"columns_{place}", TensorProto.FLOAT, columns.shape, columns.ravel().tolist())
        beside.tables.append(where)
        parts.append(f"part_{place}")
        beside.nodes.append(helper.make_node("MatMul", [f"student_{place}_probabilities", where.name], parts[-1:]))
    beside.nodes.append(helper.make_node("Sum", parts, ["probabilities"]))
    return beside.graph("mean of students", features, [("probabilities", TensorProto.FLOAT, len(order))])


# Students of this package that are neither a network nor scikit-learn's.
_OWN: Mapping[type, Callable[[Any, int], Any]] = {
    AveragedStudent: _from_mean,
    StoredNetwork: lambda stored, features: _from_one(stored.network(), features),
}


def _from_sets(students: BinaryRelevance, features: int) -> Any:  # noqa: ANN401
    """The models of all labels in one graph: each gives its label's probability, and a threshold decides."""
    from onnx import TensorProto, helper

    beside = _Beside()
    for place, student in enumerate(students.students):
        known = np.asarray(student.classes_).astype(np.int64).tolist()
        chance = f"chance_{place}"
        if len(known) == 1:
            # Trained on one class only: the prediction is constant.
            beside.nodes += _constant(chance, float(known[0]))
            continue
        beside.take(_from_one(student, features), f"label_{place}_")
        column = helper.make_tensor(f"yes_{place}", TensorProto.INT64, [1], [known.index(1)])
        beside.tables.append(column)
        beside.nodes.append(helper.make_node("Gather", [f"label_{place}_probabilities", column.name], [chance], axis=1))
    chances = [f"chance_{place}" for place in range(len(students.students))]
    thresholds = [0.5] * len(chances) if students.thresholds is None else list(students.thresholds)
    beside.tables.append(helper.make_tensor("thresholds", TensorProto.FLOAT, [len(chances)], thresholds))
    # At one half a binary student decides for the first class, which is that the label is absent.
    reached = "Greater" if students.thresholds is None else "GreaterOrEqual"
    beside.nodes += [
        helper.make_node("Concat", chances, ["probabilities"], axis=1),
        helper.make_node(reached, ["probabilities", "thresholds"], ["label"]),
    ]
    outputs = [("label", TensorProto.BOOL, len(chances)), ("probabilities", TensorProto.FLOAT, len(chances))]
    return beside.graph("sets of labels", features, outputs)


def _constant(name: str, value: float) -> list[Any]:
    """Nodes with a constant value for every row of X."""
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

        return network_to_onnx(student.network_, student.shape_, opset=OPSET[""])
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
        # skl2onnx's own message is a page of names.
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
    """Add the name of the most likely class as an output."""
    from onnx import TensorProto, helper

    text = classes.dtype.kind not in "iub"
    kind = TensorProto.STRING if text else TensorProto.INT64
    values = [str(each).encode() for each in classes] if text else classes.astype(np.int64).tolist()
    model.graph.initializer.append(helper.make_tensor("class_names", kind, [len(classes)], values))
    model.graph.node.append(helper.make_node("ArgMax", ["probabilities"], ["likeliest"], axis=1, keepdims=0))
    model.graph.node.append(helper.make_node("Gather", ["class_names", "likeliest"], ["label"], axis=0))
    model.graph.output.insert(0, helper.make_tensor_value_info("label", kind, ["samples"]))
