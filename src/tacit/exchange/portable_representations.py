"""Representations as they travel: a name, numbers and arrays, rebuilt from a closed list.

A vote is protected because a record's features depend on that record and on public numbers alone, to the last bit.
Whoever asks chooses those numbers, so whatever that property rests on (grids, ranges, shapes) is checked here and not
taken on trust. A representation that is not listed cannot travel, and says so.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.images import ImageShape
from tacit.core.protocols import Representation
from tacit.exchange.fields import Fields, packed
from tacit.representations import patches, transformed_kmeans
from tacit.representations.chained import Chained
from tacit.representations.clustering_head import ClusteringHead
from tacit.representations.deskewed import Deskewed
from tacit.representations.even_width import EvenWidth
from tacit.representations.grid import snapped
from tacit.representations.hog import OrientedGradients
from tacit.representations.interpolated import Interpolated
from tacit.representations.mixture import MixtureShares
from tacit.representations.patches import PatchDictionary
from tacit.representations.principal import PrincipalComponents
from tacit.representations.scaled import Directions, Identity, Standardised
from tacit.representations.student_features import StudentFeatures
from tacit.representations.transformed_kmeans import TransformedShares
from tacit.students.saved import SAFETENSORS, load_student, save_student

__all__ = ["read_representation", "representation_fields"]

REAL, NARROW = ("<f8",), ("<f4",)
LONGEST_CHAIN = 8
WIDEST = 2**22
# Values of an image: more would make one image larger than a whole question may be.
LARGEST_IMAGE = 2**22
LARGEST_STUDENT = 64 * 2**20
# What a network looks at; its first layer has some hundred weights for each of these.
WIDEST_STUDENT, MOST_CLASSES = 2**18, 10_000
# Beyond this even halves of float32's range, differences overflow.
LARGEST_VALUE = 1e30

Writer = Callable[[Any], dict[str, Any]]
Reader = Callable[[Fields], Representation]


def representation_fields(representation: Representation) -> dict[str, Any]:
    """The representation's name and numbers, as values that can be encoded.

    >>> representation_fields(Identity(4))
    {'kind': 'identity', 'width': 4}
    """
    made = type(representation)
    for name, (described, write, _) in KINDS.items():
        if f"{made.__module__.rsplit('.', 1)[-1]}.{made.__name__}" == described:
            return {"kind": name, **write(representation)}
    raise InvalidInput(
        f"{made.__name__} cannot travel to a holder: it is not among {', '.join(KINDS)}. Choose one of these"
    )


def read_representation(fields: Fields) -> Representation:
    """The representation that such values stand for; anything else is refused.

    >>> read_representation(Fields({"kind": "identity", "width": 4}, "representation"))
    Identity(width=4)
    """
    made = KINDS[fields.one_of("kind", KINDS)][2](fields)
    fields.done()
    return made


def _image(fields: Fields, channels: tuple[int, ...] = (1, 3)) -> ImageShape:
    shape = fields.integers("shape", 3, 1, LARGEST_IMAGE)
    if len(shape) != 3 or math.prod(shape) > LARGEST_IMAGE or shape[2] not in channels:
        raise InvalidInput(f"the {fields.what}'s shape must be height, width and channels of a small image")
    return shape[0], shape[1], shape[2]


def _range(fields: Fields) -> tuple[float, float]:
    dark, bright = (fields.number(name, -LARGEST_VALUE, LARGEST_VALUE) for name in ("dark", "bright"))
    if not dark < bright:
        raise InvalidInput(f"the {fields.what}'s dark must be below its bright")
    return dark, bright


def _table(
    fields: Fields, name: str, kinds: tuple[str, ...], shape: tuple[int | None, ...] | None = None
) -> NDArray[Any]:
    found = fields.array(name, kinds, shape, -LARGEST_VALUE, LARGEST_VALUE)
    if not found.size:
        raise InvalidInput(f"the {fields.what}'s {name} must not be empty")
    return found


def _width(fields: Fields) -> int:
    return fields.integer("width", 1, WIDEST)


def _standardised(fields: Fields) -> Standardised:
    mean = _table(fields, "mean", REAL, (None,))
    spread = fields.array("spread", REAL, mean.shape, 0, LARGEST_VALUE)
    if not (spread > 0).all():
        raise InvalidInput(f"the {fields.what}'s spread must be above 0")
    return Standardised(mean, spread)


def _principal(fields: Fields) -> PrincipalComponents:
    mean = _table(fields, "mean", REAL, (None,))
    return PrincipalComponents(mean, _table(fields, "directions", REAL, (None, len(mean))))


def _deskewed(fields: Fields) -> Deskewed:
    shape = _image(fields, channels=(1,))
    if min(shape[:2]) < 2:
        raise InvalidInput(f"the {fields.what}'s shape must have two rows and two columns")
    return Deskewed(shape, *_range(fields))


def _even_width(fields: Fields) -> EvenWidth:
    shape = _image(fields, channels=(1,))
    if shape[1] < 2:
        raise InvalidInput(f"the {fields.what}'s shape must have two columns")
    return EvenWidth(shape, fields.number("spread", 0, LARGEST_VALUE))


def _gradients(fields: Fields) -> OrientedGradients:
    shape = _image(fields)
    dark, bright = _range(fields)
    side = min(shape[:2])
    if side < 4:
        raise InvalidInput(f"the {fields.what}'s shape must have four rows and four columns")
    return OrientedGradients(shape, dark, bright, fields.integer("cell", 2, side // 2), fields.integer("bins", 2, 64))


def _patches(fields: Fields) -> PatchDictionary:
    shape = _image(fields)
    dark, bright = _range(fields)
    if min(shape[:2]) < 4:
        raise InvalidInput(f"the {fields.what}'s shape must have four rows and four columns")
    patch = fields.integer("patch", 2, min(shape[:2]) // 2)
    stride = fields.integer("stride", 1, patch)
    size = patch * patch * shape[2]
    found = {
        "mean": _table(fields, "mean", REAL, (size,)),
        "whitening": _table(fields, "whitening", REAL, (size, size)),
        "words": _table(fields, "words", REAL, (None, size)),
    }
    for name, array in found.items():
        # Off the grid sums would be rounded by the company a record is in, and its vote with them.
        limit = patches.LIMIT if name == "words" else math.inf
        if not np.array_equal(snapped(array, patches.BITS, limit), array):
            raise InvalidInput(f"the {fields.what}'s {name} must be on the grid of 2^-{patches.BITS}")
    return PatchDictionary(shape, dark, bright, patch, stride, **found)


def _interpolated(fields: Fields) -> Interpolated:
    anchors = _table(fields, "anchors", NARROW, (None, None))
    places = _table(fields, "places", NARROW, (len(anchors), None))
    if len(anchors) < 2:
        raise InvalidInput(f"the {fields.what} needs at least two anchors")
    return Interpolated(anchors, places, fields.integer("neighbors", 1, len(anchors) - 1))


def _mixture(fields: Fields) -> MixtureShares:
    means = _table(fields, "means", REAL, (None, None))
    groups, width = means.shape
    scales = _table(fields, "scales", REAL, (groups, width, width))
    return MixtureShares(means, scales, _table(fields, "offsets", REAL, (groups,)))


def _head(fields: Fields) -> ClusteringHead:
    weights = _table(fields, "weights", REAL, (None, None))
    return ClusteringHead(weights, _table(fields, "offsets", REAL, (len(weights),)))


def _transformed(fields: Fields) -> TransformedShares:
    shape = _image(fields)
    dark, bright = _range(fields)
    forms = fields.array("forms", ("|u1",), (None, None, math.prod(shape)), 0, transformed_kmeans.LEVELS)
    softness = fields.number("softness", 1e-9, LARGEST_VALUE)
    if not forms.size:
        raise InvalidInput(f"the {fields.what}'s forms must not be empty")
    return TransformedShares(shape, dark, bright, forms, softness)


def _chained(fields: Fields) -> Chained:
    parts = fields.several("parts", LONGEST_CHAIN)
    if not parts:
        raise InvalidInput(f"the {fields.what} needs at least one part")
    for part in parts:
        if isinstance(kind := part.peek("kind"), str) and kind == "chained":
            raise InvalidInput(f"the {fields.what} must not be a chain of chains")
    return Chained(tuple(map(read_representation, parts)))


def _imagenet(fields: Fields) -> Representation:
    from tacit.representations.torch_efficientnet import ImageNetFeatures

    shape = _image(fields)
    dark, bright = _range(fields)
    size = fields.integer("size", 32, 512)
    if size % 32:
        raise InvalidInput(f"the {fields.what}'s size must be a multiple of 32")
    made = ImageNetFeatures(shape, dark, bright, size)
    if made.digest != fields.digest("digest"):
        raise InvalidInput(f"the {fields.what} was made with other weights than this holder has")
    return made


def _student_fields(representation: StudentFeatures) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        written = save_student(representation.student, Path(folder))
        if not written.endswith(SAFETENSORS):
            raise InvalidInput(
                f"{type(representation.student).__name__} cannot travel to a holder: only networks known by name can"
            )
        return {"student": packed((Path(folder) / written).read_bytes())}


def _student(fields: Fields) -> StudentFeatures:
    content = fields.content("student", LARGEST_STUDENT)
    try:
        # A network is built before its weights are compared with it, so its size is looked at first.
        head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        words = json.loads(head["__metadata__"]["words"])
        shape, classes = words["shape"], words["classes"]
        small = all(type(side) is int and side > 0 for side in shape) and math.prod(shape) <= WIDEST_STUDENT
        small = small and 2 <= len(classes) <= MOST_CLASSES and len(shape) in (1, 3)
        sizes = [math.prod(tensor["shape"]) for name, tensor in head.items() if name != "__metadata__"]
        small = small and sum(sizes) * 2 <= len(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        small = False
    if not small:
        raise InvalidInput(f"the {fields.what}'s student must be a small network that was saved as tensors")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / SAFETENSORS).write_bytes(content)
        try:
            return StudentFeatures(load_student(Path(folder) / SAFETENSORS))
        except InvalidInput:
            # The reason would name a folder that is gone, or say what the sender wants said.
            raise InvalidInput(f"the {fields.what}'s student cannot be read, or not without an extra") from None


def _attributes(*names: str) -> Writer:
    def write(made: Any) -> dict[str, Any]:  # noqa: ANN401
        found = {name: getattr(made, name) for name in names}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}

    return write


IMAGE = ("shape", "dark", "bright")
# The module and class are names, not classes: a network's module is imported only by who has its extra.
KINDS: Mapping[str, tuple[str, Writer, Reader]] = {
    "identity": ("scaled.Identity", _attributes("width"), lambda fields: Identity(_width(fields))),
    "directions": ("scaled.Directions", _attributes("width"), lambda fields: Directions(_width(fields))),
    "standardised": ("scaled.Standardised", _attributes("mean", "spread"), _standardised),
    "principal": ("principal.PrincipalComponents", _attributes("mean", "directions"), _principal),
    "deskewed": ("deskewed.Deskewed", _attributes(*IMAGE), _deskewed),
    "even-width": ("even_width.EvenWidth", _attributes("shape", "spread"), _even_width),
    "gradients": ("hog.OrientedGradients", _attributes(*IMAGE, "cell", "bins"), _gradients),
    "patches": (
        "patches.PatchDictionary",
        _attributes(*IMAGE, "patch", "stride", "mean", "whitening", "words"),
        _patches,
    ),
    "interpolated": ("interpolated.Interpolated", _attributes("anchors", "places", "neighbors"), _interpolated),
    "mixture": ("mixture.MixtureShares", _attributes("means", "scales", "offsets"), _mixture),
    "head": ("clustering_head.ClusteringHead", _attributes("weights", "offsets"), _head),
    "transformed": ("transformed_kmeans.TransformedShares", _attributes(*IMAGE, "forms", "softness"), _transformed),
    "chained": (
        "chained.Chained",
        lambda made: {"parts": [representation_fields(part) for part in made.parts]},
        _chained,
    ),
    "imagenet": ("torch_efficientnet.ImageNetFeatures", _attributes(*IMAGE, "size", "digest"), _imagenet),
    "student": ("student_features.StudentFeatures", _student_fields, _student),
}
