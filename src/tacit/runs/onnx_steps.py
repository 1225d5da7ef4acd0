"""ONNX conversions of this package's own steps: a map of public samples, a projection, the features of releases.

Everything is computed in double precision and rounded to single precision where the step itself does so. A
representation without a conversion (upright handwriting, patches, a pretrained encoder) is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, Representation
from tacit.methods.auto.coordinator import Features, SumFeatures, VoteFeatures
from tacit.methods.auto.teaching import ReleasedFeatures
from tacit.representations.groups import LARGEST_PENALTY, SQUARINGS, ClusteringHead, MixtureShares
from tacit.representations.image_features import (
    BLOCK_CLIP,
    GRAY,
    LEVELS,
    OrientedGradients,
    block_floor,
    cell_windows,
)
from tacit.representations.maps import Interpolated
from tacit.representations.random_features import LIMIT, RandomFeatures
from tacit.representations.scaled import Directions, Identity, PrincipalComponents, Standardized
from tacit.representations.student_features import NeighborMap, StudentFeatures
from tacit.students.wrapped import Flatten, Projected

__all__ = ["OPSET", "require_expressible", "step_converters"]

OPSET = {"": 18, "ai.onnx.ml": 3}
_FLOAT, _DOUBLE = 1, 11


def step_converters() -> list[tuple[type, Callable[..., None], Callable[..., None]]]:
    """Each step's class, its function for the output's width, and its converter, as skl2onnx registers them.

    >>> [kind.__name__ for kind, _, _ in step_converters()]
    ['NeighborMap', 'Projected', 'Flatten', 'ReleasedFeatures']
    """
    return [(kind, _shaped(width), _converter(node)) for kind, (width, node) in _STEPS.items()]


def _shaped(width: Callable[[Any, int], int]) -> Callable[..., None]:
    def shape(operator: Any) -> None:  # noqa: ANN401
        from skl2onnx.common.data_types import FloatTensorType

        found = width(operator.raw_operator, operator.inputs[0].type.shape[1])
        operator.outputs[0].type = FloatTensorType([None, found])

    return shape


def _converter(node: Callable[[Graph, Any, str], str]) -> Callable[..., None]:
    def convert(scope: Any, operator: Any, container: Any) -> None:  # noqa: ANN401
        graph = Graph(scope, container)
        rows = graph.node("Cast", operator.inputs[0].full_name, to=_DOUBLE)
        graph.end(graph.node("Cast", node(graph, operator.raw_operator, rows), to=_FLOAT), operator)

    return convert


def require_expressible(student: Any) -> None:  # noqa: ANN401
    """Refuse a student whose representation has no ONNX conversion, by name.

    >>> from tacit.methods.auto.coordinator import SumFeatures
    >>> from tacit.representations.image_features import Deskewed
    >>> seen = SumFeatures(Deskewed((2, 2, 1), 0.0, 1.0), 1.0, 4, "l2")
    >>> require_expressible(ReleasedFeatures.of([seen], (2, 2)))
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the student uses the representation deskewed, which has no ONNX \
conversion: export it with --skops, or distill again with a student on the samples themselves (--student network, \
logistic or map)
    """
    for _, step in getattr(student, "steps", [("", student)]):
        for representation in getattr(step, "representations", list)():
            for part in _links(representation):
                if type(part) not in _NODES:
                    name = getattr(part, "name", type(part).__name__)
                    raise InvalidInput(
                        f"the student uses the representation {name}, which has no ONNX conversion: export it "
                        "with --skops, or distill again with a student on the samples themselves "
                        "(--student network, logistic or map)"
                    )


def _links(representation: Representation) -> tuple[Representation, ...]:
    parts: tuple[Representation, ...] = getattr(representation, "parts", (representation,))
    return parts


class Graph:
    """Adds nodes with unique names to an ONNX graph; a node's output is identified by its name."""

    def __init__(self, scope: Any, container: Any) -> None:  # noqa: ANN401
        self.scope, self.container = scope, container

    def constant(self, values: NDArray[Any] | np.float32 | float) -> str:
        """A constant table, in double precision unless it has single precision or integers."""
        from onnx import TensorProto

        table = np.asarray(values)
        name: str = self.scope.get_unique_variable_name("constant")
        kinds = {"i": TensorProto.INT64, "f": TensorProto.FLOAT if table.dtype == np.float32 else TensorProto.DOUBLE}
        kind = kinds.get(table.dtype.kind, TensorProto.DOUBLE)
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
        """The rows rounded to single precision, as double precision."""
        limit = float(np.finfo(np.float32).max)
        within = self.node("Clip", rows, self.constant(-limit), self.constant(limit))
        return self.node("Cast", self.node("Cast", within, to=_FLOAT), to=_DOUBLE)

    def part(self, values: str, starts: list[int], ends: list[int], axes: list[int]) -> str:
        """What lies between these places of these axes."""
        return self.node("Slice", values, *(self.constant(np.array(each)) for each in (starts, ends, axes)))

    def model(self, model: Any, rows: str, output: str) -> str:  # noqa: ANN401
        """Another model of rows, whose names become this graph's own."""
        from onnx import compose

        prefix = f"{self.scope.get_unique_variable_name('model')}_"
        model = compose.add_prefix(model, prefix)
        for node in model.graph.node:
            node.input[:] = [rows if name == f"{prefix}X" else name for name in node.input]
        self.container.nodes.extend(model.graph.node)
        self.container.initializers.extend(model.graph.initializer)
        self.container.node_domain_version_pair_sets.update((e.domain, e.version) for e in model.opset_import)
        return prefix + output

    def end(self, name: str, operator: Any) -> None:  # noqa: ANN401
        """Set the output of the step."""
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
    """Squared distances of each row from each point."""
    square = graph.over_columns("ReduceSumSquare", rows)
    cross = graph.node("MatMul", rows, graph.constant(-2 * places.T))
    partial = graph.node("Add", cross, graph.constant((places**2).sum(axis=1)[None]))
    return graph.node("Max", graph.node("Add", partial, square), graph.constant(np.zeros((1, 1))))


def _map(graph: Graph, drawn: Interpolated, rows: str) -> str:
    """The mean of the nearest anchors' places, weighted by nearness: see ``Interpolated``."""
    squared = _distances(graph, rows, drawn.anchors.astype(np.float64))
    distance, near = graph.nodes("TopK", 2, squared, graph.constant(np.array([drawn.neighbors + 1])), largest=0)
    far = graph.over_columns("ReduceMax", distance)
    one, zero = graph.constant(np.ones((1, 1))), graph.constant(np.zeros((1, 1)))
    scale = graph.node("Where", graph.node("Greater", far, zero), far, one)
    rest = graph.node("Sub", one, graph.node("Div", distance, scale))
    weight = graph.node("Mul", rest, rest)
    # Anchors at equal distances get equal weights.
    heaviest = graph.over_columns("ReduceMax", weight)
    weight = graph.node("Where", graph.node("Equal", heaviest, zero), one, weight)
    total = graph.over_columns("ReduceSum", weight)
    found = graph.node("Gather", graph.constant(drawn.places.astype(np.float64)), near, axis=0)
    spread = graph.node("Unsqueeze", graph.node("Div", weight, total), graph.constant(np.array([2])))
    # (samples, neighbors, dimensions), summed over neighbors.
    return graph.node("ReduceSum", graph.node("Mul", found, spread), graph.constant(np.array([1])), keepdims=0)


def _released(graph: Graph, step: ReleasedFeatures, rows: str) -> str:
    """The concatenated features of all releases."""
    return graph.node("Concat", *(_points(graph, each, rows) for each in step.features()), axis=1)


def _points(graph: Graph, features: Features, rows: str) -> str:
    for part in _links(features.representation):
        rows = graph.narrowed(_NODES[type(part)](graph, part, rows))
    return _FEATURES[type(features)](graph, features, rows)


def _summed(graph: Graph, features: SumFeatures, rows: str) -> str:
    """Clipped to the radius; rounding to the grid is left out, which is finer than single precision."""
    scaled = graph.node("Mul", rows, graph.constant(features.scale / features.radius))
    absolute = graph.over_columns("ReduceL1" if features.norm == "l1" else "ReduceL2", scaled)
    return graph.node("Div", scaled, graph.node("Max", absolute, graph.constant(np.ones((1, 1)))))


def _nearest(graph: Graph, features: VoteFeatures, rows: str) -> str:
    """A one for the nearest query."""
    queries = features.queries.astype(np.float64)
    nearest = graph.node("ArgMin", _distances(graph, rows, queries), axis=1, keepdims=1)
    ones = graph.node("Equal", nearest, graph.constant(np.arange(len(queries))[None]))
    return graph.node("Cast", ones, to=_DOUBLE)


def _standardized(graph: Graph, part: Standardized, rows: str) -> str:
    centered = graph.node("Sub", rows, graph.constant(part.mean.astype(np.float64)))
    return graph.node("Div", centered, graph.constant(part.spread.astype(np.float64)))


def _waves(graph: Graph, part: RandomFeatures, rows: str) -> str:
    """Scaled features and triangle waves of them; rounding to the grid is left out, which is finer than the weights."""
    centered = graph.node("Sub", rows, graph.constant(part.mean.astype(np.float64)))
    scaled = graph.node("Div", centered, graph.constant(part.scale))
    near = graph.node("Clip", scaled, graph.constant(-LIMIT), graph.constant(LIMIT))
    turns = graph.node("Add", graph.node("MatMul", near, graph.constant(part.directions)), graph.constant(part.phases))
    part_of_turn = graph.node("Sub", turns, graph.node("Floor", turns))
    away = graph.node("Abs", graph.node("Sub", part_of_turn, graph.constant(0.5)))
    wave = graph.node("Sub", graph.node("Mul", graph.constant(4.0), away), graph.constant(1.0))
    return graph.node("Concat", near, graph.node("Mul", wave, graph.constant(part.height)), axis=1)


def _directions(graph: Graph, part: Directions | StudentFeatures, rows: str) -> str:
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


def _gradients(graph: Graph, part: OrientedGradients, rows: str) -> str:
    """As ``OrientedGradients`` computes them: whole numbers, in single precision up to the sums over cells."""
    high, wide, channels = part.shape
    scale, most = LEVELS / (part.bright - part.dark), graph.constant(float(LEVELS))
    scaled = graph.node("Mul", graph.node("Sub", rows, graph.constant(part.dark)), graph.constant(scale))
    levels = graph.node("Round", graph.node("Clip", scaled, graph.constant(0.0), most))
    if channels == 3:
        pixels = graph.node("Reshape", levels, graph.constant(np.array([-1, high * wide, 3])))
        gray = graph.constant(np.array(GRAY, dtype=np.float64) / sum(GRAY))
        levels = graph.node("Round", graph.node("MatMul", pixels, gray))
    image = graph.node("Reshape", levels, graph.constant(np.array([-1, 1, high, wide])))
    padding = graph.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1]))
    framed = graph.node("Pad", graph.node("Cast", image, to=_FLOAT), padding, mode="edge")
    above, below = (graph.part(framed, [top, 1], [top + high, 1 + wide], [2, 3]) for top in (0, 2))
    left, right = (graph.part(framed, [1, side], [1 + high, side + wide], [2, 3]) for side in (0, 2))
    down, across = graph.node("Sub", below, above), graph.node("Sub", right, left)
    squares = (graph.node("Mul", each, each) for each in (down, across))
    length = graph.node("Sqrt", graph.node("Add", *squares))
    angles = np.pi * np.arange(part.bins)[:, None, None] / part.bins
    turned = [graph.node("Mul", each, graph.constant(wave(angles).astype(np.float32)))
              for each, wave in ((across, np.cos), (down, np.sin))]  # fmt: skip
    along = graph.node("Abs", graph.node("Add", *turned))
    edge = np.float32(np.cos(np.pi / part.bins))
    excess = graph.node("Sub", along, graph.node("Mul", length, graph.constant(edge)))
    shares = graph.node("Div", graph.node("Max", excess, graph.constant(np.float32(0))), graph.constant(1 - edge))
    whole = graph.node("Cast", graph.node("Round", shares), to=_DOUBLE)
    windows = [cell_windows(side, part.cell).astype(np.float64) for side in (high, wide)]
    cells = graph.node("MatMul", graph.constant(windows[0]), whole)
    cells = graph.node("MatMul", cells, graph.constant(windows[1].T))
    tall, broad = len(windows[0]) - 1, len(windows[1]) - 1
    corners = [graph.part(cells, [top, left], [tall + top, broad + left], [2, 3]) for top in (0, 1) for left in (0, 1)]
    block = graph.node("Concat", *corners, axis=1)
    floor = graph.constant(block_floor(part.cell) ** 2)
    energy = graph.node("ReduceSumSquare", block, graph.constant(np.array([1])), keepdims=1)
    normal = graph.node("Div", block, graph.node("Sqrt", graph.node("Add", energy, floor)))
    grid = graph.constant(2.0**16)
    capped = graph.node("Clip", normal, graph.constant(-BLOCK_CLIP), graph.constant(BLOCK_CLIP))
    snapped = graph.node("Div", graph.node("Round", graph.node("Mul", capped, grid)), grid)
    return graph.node("Flatten", snapped, axis=1)


def _network(graph: Graph, part: StudentFeatures, rows: str) -> str:
    """What a network's last layer sees, each row scaled to length 1."""
    from tacit.students.torch_networks import network_to_onnx

    student: Any = part.student
    model = network_to_onnx(student.network_, student.shape_, "features", OPSET[""])
    seen = graph.model(model, graph.node("Cast", rows, to=_FLOAT), "features")
    return _directions(graph, part, graph.node("Cast", seen, to=_DOUBLE))


# Functions of rows in double precision, before rounding to single precision.
_NODES: dict[type, Callable[[Graph, Any, str], str]] = {
    Identity: lambda graph, part, rows: rows,
    Standardized: _standardized,
    Directions: _directions,
    PrincipalComponents: lambda graph, part, rows: _along(graph, rows, part.mean, part.directions),
    RandomFeatures: _waves,
    Interpolated: _map,
    ClusteringHead: _head,
    MixtureShares: _mixture,
    OrientedGradients: _gradients,
    StudentFeatures: _network,
}
_FEATURES: dict[type, Callable[[Graph, Any, str], str]] = {SumFeatures: _summed, VoteFeatures: _nearest}
# The width of a step's output, from its own and the input's, and its nodes.
_STEPS: dict[type, tuple[Callable[[Any, int], int], Callable[[Graph, Any, str], str]]] = {
    NeighborMap: (
        lambda step, _: int(np.asarray(step.places_).shape[1]),
        lambda graph, step, rows: _map(graph, step.drawn, rows),
    ),
    Projected: (lambda step, _: len(np.asarray(step.directions)), _projection),
    # Rows are flat already.
    Flatten: (lambda _, width: width, lambda graph, step, rows: rows),
    ReleasedFeatures: (lambda step, _: int(step.transform(np.zeros((1, *step.shape))).shape[1]), _released),
}
