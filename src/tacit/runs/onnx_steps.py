"""The steps of ours as nodes of an ONNX graph: a map of public samples, a projection, the features of releases.

Everything is computed in double precision and cut to single precision where the step itself does so. A representation
of images (gradients, patches, a network's features) has no conversion here and is refused by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, Representation
from tacit.methods.auto.coordinator import Features, SumFeatures
from tacit.methods.auto.teaching import ReleasedFeatures
from tacit.representations.chained import Chained
from tacit.representations.groups import LARGEST_PENALTY, SQUARINGS, ClusteringHead, MixtureShares
from tacit.representations.maps import Interpolated, NeighborMap
from tacit.representations.scaled import Directions, Identity, PrincipalComponents, Standardized
from tacit.students.wrapped import Flatten, Projected

__all__ = ["OPSET", "require_expressible", "step_converters"]

OPSET = {"": 18, "ai.onnx.ml": 3}
_FLOAT, _DOUBLE = 1, 11


def step_converters() -> list[tuple[type, Callable[..., None], Callable[..., None]]]:
    """Each step's class, how wide it makes its rows, and its nodes, as skl2onnx registers them.

    >>> [kind.__name__ for kind, _, _ in step_converters()]
    ['NeighborMap', 'Projected', 'Flatten', 'ReleasedFeatures']
    """
    nodes: dict[type, Callable[[Graph, Any, str], str]] = {
        NeighborMap: lambda graph, step, rows: _map(graph, step.drawn, rows),
        Projected: _projection,
        Flatten: lambda graph, step, rows: rows,
        ReleasedFeatures: _released,
    }

    def converter(kind: type) -> Callable[..., None]:
        def convert(scope: Any, operator: Any, container: Any) -> None:  # noqa: ANN401
            graph = Graph(scope, container)
            rows = operator.inputs[0].full_name
            if kind is Flatten:  # rows are rows already
                graph.end(rows, operator)
                return
            made = nodes[kind](graph, operator.raw_operator, graph.node("Cast", rows, to=_DOUBLE))
            graph.end(graph.node("Cast", made, to=_FLOAT), operator)

        return convert

    return [(kind, _shape, converter(kind)) for kind in nodes]


def require_expressible(student: Any) -> None:  # noqa: ANN401
    """Refuse a student that reads samples by what has no conversion, by its name.

    >>> from tacit.methods.auto.coordinator import SumFeatures
    >>> from tacit.representations.image_features import Deskewed
    >>> seen = SumFeatures(Deskewed((2, 2, 1), 0.0, 1.0), 1.0, 4, "l2")
    >>> require_expressible(ReleasedFeatures.of([seen], (2, 2)))
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the student sees samples by the representation deskewed, which ONNX cannot \
express: export it with --skops, or distill again with a student that takes samples as they are (--student network, \
logistic or map)
    """
    for _, step in getattr(student, "steps", [("", student)]):
        for features in step.features() if isinstance(step, ReleasedFeatures) else ():
            for part in _links(features.representation):
                if type(part) not in _NODES:
                    name = getattr(part, "name", type(part).__name__)
                    raise InvalidInput(
                        f"the student sees samples by the representation {name}, which ONNX cannot express: export it "
                        "with --skops, or distill again with a student that takes samples as they are "
                        "(--student network, logistic or map)"
                    )


def _links(representation: Representation) -> tuple[Representation, ...]:
    return representation.parts if isinstance(representation, Chained) else (representation,)


def _shape(operator: Any) -> None:  # noqa: ANN401
    """How wide a step of ours makes its rows."""
    from skl2onnx.common.data_types import FloatTensorType

    step, width = operator.raw_operator, operator.inputs[0].type.shape[1]
    if isinstance(step, ReleasedFeatures):
        width = step.transform(np.zeros((1, *step.shape))).shape[1]
    elif isinstance(step, NeighborMap):
        width = np.asarray(step.places_).shape[1]
    elif isinstance(step, Projected):
        width = len(np.asarray(step.directions))
    operator.outputs[0].type = FloatTensorType([None, width])


class Graph:
    """Nodes of an ONNX graph, each with a name of its own; what a node gives is known by its name."""

    def __init__(self, scope: Any, container: Any) -> None:  # noqa: ANN401
        self.scope, self.container = scope, container

    def constant(self, values: NDArray[Any] | float) -> str:
        """A number table of the model."""
        from onnx import TensorProto

        table = np.asarray(values)
        name: str = self.scope.get_unique_variable_name("constant")
        kind = TensorProto.INT64 if table.dtype.kind == "i" else TensorProto.DOUBLE
        self.container.add_initializer(name, kind, list(table.shape), table.ravel().tolist())
        return name

    def nodes(self, kind: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:  # noqa: ANN401
        """A node with several outputs."""
        names = [self.scope.get_unique_variable_name(kind.lower()) for _ in range(outputs)]
        self.container.add_node(kind, list(inputs), names, op_version=OPSET[""], **attributes)
        return names

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:  # noqa: ANN401
        """A node with one output."""
        return self.nodes(kind, 1, *inputs, **attributes)[0]

    def over_columns(self, kind: str, rows: str) -> str:
        """A sum, minimum or maximum of each row."""
        return self.node(kind, rows, self.constant(np.array([1])), keepdims=1)

    def narrowed(self, rows: str) -> str:
        """What single precision keeps of the rows, in double precision."""
        limit = float(np.finfo(np.float32).max)
        within = self.node("Clip", rows, self.constant(-limit), self.constant(limit))
        return self.node("Cast", self.node("Cast", within, to=_FLOAT), to=_DOUBLE)

    def end(self, name: str, operator: Any) -> None:  # noqa: ANN401
        """What the step gives on."""
        self.container.add_node(
            "Identity", [name], [operator.outputs[0].full_name], op_version=OPSET[""],
            name=self.scope.get_unique_operator_name("Identity"),
        )  # fmt: skip


def _projection(graph: Graph, step: Any, rows: str) -> str:  # noqa: ANN401
    return _along(graph, rows, np.asarray(step.center), np.asarray(step.directions))


def _along(graph: Graph, rows: str, center: NDArray[Any], directions: NDArray[Any]) -> str:
    centered = graph.node("Sub", rows, graph.constant(center.astype(np.float64)))
    return graph.node("MatMul", centered, graph.constant(directions.astype(np.float64).T))


def _distances(graph: Graph, rows: str, places: NDArray[Any]) -> str:
    """Squared distances of each row from each place."""
    square = graph.over_columns("ReduceSumSquare", rows)
    cross = graph.node("MatMul", rows, graph.constant(-2 * places.T))
    partial = graph.node("Add", cross, graph.constant((places**2).sum(axis=1)[None]))
    return graph.node("Max", graph.node("Add", partial, square), graph.constant(np.zeros((1, 1))))


def _map(graph: Graph, drawn: Interpolated, rows: str) -> str:
    """The mean of the nearest anchors' places, the nearer the heavier: see ``Interpolated``."""
    squared = _distances(graph, rows, drawn.anchors.astype(np.float64))
    distance, near = graph.nodes("TopK", 2, squared, graph.constant(np.array([drawn.neighbors + 1])), largest=0)
    far = graph.over_columns("ReduceMax", distance)
    one, zero = graph.constant(np.ones((1, 1))), graph.constant(np.zeros((1, 1)))
    scale = graph.node("Where", graph.node("Greater", far, zero), far, one)
    rest = graph.node("Sub", one, graph.node("Div", distance, scale))
    weight = graph.node("Mul", rest, rest)
    # All equally far: equally heavy.
    heaviest = graph.over_columns("ReduceMax", weight)
    weight = graph.node("Where", graph.node("Equal", heaviest, zero), one, weight)
    total = graph.over_columns("ReduceSum", weight)
    found = graph.node("Gather", graph.constant(drawn.places.astype(np.float64)), near, axis=0)
    spread = graph.node("Unsqueeze", graph.node("Div", weight, total), graph.constant(np.array([2])))
    # (samples, neighbors, dimensions), summed over neighbors.
    return graph.node("ReduceSum", graph.node("Mul", found, spread), graph.constant(np.array([1])), keepdims=0)


def _released(graph: Graph, step: ReleasedFeatures, rows: str) -> str:
    """The features of all releases side by side."""
    return graph.node("Concat", *(_points(graph, each, rows) for each in step.features()), axis=1)


def _points(graph: Graph, features: Features, rows: str) -> str:
    for part in _links(features.representation):
        rows = graph.narrowed(_NODES[type(part)](graph, part, rows))
    if isinstance(features, SumFeatures):
        # Clipped to the radius; the grid of the student is finer than single precision, so it is left out.
        scaled = graph.node("Mul", rows, graph.constant(features.scale / features.radius))
        absolute = graph.over_columns("ReduceL1" if features.norm == "l1" else "ReduceL2", scaled)
        return graph.node("Div", scaled, graph.node("Max", absolute, graph.constant(np.ones((1, 1)))))
    queries = features.queries.astype(np.float64)
    nearest = graph.node("ArgMin", _distances(graph, rows, queries), axis=1, keepdims=1)
    ones = graph.node("Equal", nearest, graph.constant(np.arange(len(queries))[None]))
    return graph.node("Cast", ones, to=_DOUBLE)


def _standardized(graph: Graph, part: Standardized, rows: str) -> str:
    centered = graph.node("Sub", rows, graph.constant(part.mean.astype(np.float64)))
    return graph.node("Div", centered, graph.constant(part.spread.astype(np.float64)))


def _directions(graph: Graph, part: Directions, rows: str) -> str:
    length, zero = graph.over_columns("ReduceL2", rows), graph.constant(np.zeros((1, 1)))
    scale = graph.node("Where", graph.node("Greater", length, zero), length, graph.constant(np.ones((1, 1))))
    return graph.node("Div", rows, scale)


def _head(graph: Graph, part: ClusteringHead, rows: str) -> str:
    scores = graph.node("MatMul", rows, graph.constant(part.weights.T))
    return _shares(graph, graph.node("Neg", graph.node("Add", scores, graph.constant(part.offsets))))


def _mixture(graph: Graph, part: MixtureShares, rows: str) -> str:
    penalties = []
    for mean, scale, offset in zip(part.means, part.scales, part.offsets, strict=True):
        deviation = graph.node("Sub", rows, graph.constant(mean))
        squared = graph.over_columns("ReduceSumSquare", graph.node("MatMul", deviation, graph.constant(scale)))
        half = graph.node("Mul", squared, graph.constant(0.5))
        penalties.append(graph.node("Add", half, graph.constant(float(offset))))
    return _shares(graph, graph.node("Concat", *penalties, axis=1))


def _shares(graph: Graph, penalties: str) -> str:
    """As ``groups.shares`` computes them, squaring by squaring."""
    above = graph.node("Sub", penalties, graph.over_columns("ReduceMin", penalties))
    capped = graph.node("Min", above, graph.constant(LARGEST_PENALTY))
    one = graph.constant(1.0)
    likely = graph.node("Add", one, graph.node("Mul", capped, graph.constant(2.0**-SQUARINGS)))
    likely = graph.node("Div", one, likely)
    for _ in range(SQUARINGS):
        likely = graph.node("Mul", likely, likely)
    return graph.node("Div", likely, graph.over_columns("ReduceSum", likely))


# Rows of double precision in, rows of double precision out, before they are cut to single precision.
_NODES: dict[type, Callable[[Graph, Any, str], str]] = {
    Identity: lambda graph, part, rows: rows,
    Standardized: _standardized,
    Directions: _directions,
    PrincipalComponents: lambda graph, part, rows: _along(graph, rows, part.mean, part.directions),
    Interpolated: _map,
    ClusteringHead: _head,
    MixtureShares: _mixture,
}
