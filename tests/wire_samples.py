"""Mechanisms, representations and questions of every kind, for the tests of how they travel."""

import json
import struct

import numpy as np
from hypothesis import strategies as st

from tacit.core.codec import MAGIC
from tacit.encoders.columns import CategoryColumn, NumberColumn
from tacit.encoders.encoded import EncodedRows
from tacit.encoders.table import TableEncoder
from tacit.encoders.text import Components, TextEncoder
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.estimated_votes import EstimatedGNMax
from tacit.mechanisms.central.pate import ConfidentScreen, GNMax, LNMax
from tacit.mechanisms.central.private_knn import SubsampledGNMax, SubsampledScreen
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.mechanisms.central.selection import ExponentialMechanism, PermuteAndFlip
from tacit.mechanisms.central.tested_votes import TestedGNMax
from tacit.mechanisms.local.bucket_labels import Concatenation, Separation
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse, RandomizedLabels, Responses
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.unary_encoding import LocalLaplace, UnaryEncoding
from tacit.mechanisms.local.vote_shape import VoteShape
from tacit.mechanisms.masked.distributed_gaussian import DistributedGaussian
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.mechanisms.shuffle.multi_message_noise import MultiMessageNoise
from tacit.mechanisms.shuffle.negative_binomial import NegativeBinomial
from tacit.mechanisms.shuffle.single_message import Shuffled, SingleMessage
from tacit.methods.class_sums.wire import SumAsk
from tacit.methods.fedmd.wire import Feedback, PartyVoteAsk, PredictAsk, PredictionForm
from tacit.methods.noisy_sgd.wire import GradientAsk
from tacit.methods.pate.wire import TeacherAsk
from tacit.methods.private_knn.wire import NeighborAsk
from tacit.methods.privatekt.wire import LabelAsk
from tacit.methods.rknn.wire import VoteAsk
from tacit.representations.scaled import Identity

SHAPE = VoteShape(queries=4, classes=3, neighbors=1, labels=1)
CELLS = 12
LOCAL = [
    UnaryEncoding(CELLS, 1, "3/2"),
    UnaryEncoding(CELLS, 1, 1, symmetric=True),
    Collision(CELLS, 1, 1),
    Concatenation(SHAPE, 1, corrected=True),
    GeneralizedRandomizedResponse(CELLS, 1, 2),
    LinearHashing(CELLS, 1, 1),
    LocalLaplace(CELLS, 1, 1),
    Separation(SHAPE, 1),
    SubsetSelection(CELLS, 1, 1),
]
FLOOD = MultiMessageNoise(CELLS, 1, 1000, "1/4", "1/2", NegativeBinomial("32.92", "0.4181"), share="2/3")
CENTRAL = [
    PermuteAndFlip("1/4", 2),
    ExponentialMechanism("1/4", 2),
    DiscreteLaplaceNoise("7/3", 2),
    DiscreteGaussianNoise("5.25", 2, True),
    LNMax("1/20", 4),
    GNMax(40, 4),
    ConfidentScreen(150, -3, 4),
]
OTHERS = [
    SubsampledGNMax("0.15", 50, 4),
    DistributedLaplace("5/2", 2, 5, 4, 3, 1000),
    RandomizedLabels(10, 5, "1/3"),
    Responses(GeneralizedRandomizedResponse(3, 1, 1), 4),
    Shuffled(FLOOD, 1000),
    FLOOD,
    *(SingleMessage(each, 50, "1e-6") for each in LOCAL),
    Shuffled(SingleMessage(LOCAL[0], 50, "1e-6"), 50),
    RoundedGaussianNoise("1000.5", 40_000),
    DistributedGaussian("300.25", 40_000, 9, 5, 4, 3, 2**20),
    SubsampledScreen("0.15", 150, 3, 4),
    TestedGNMax("5/2", 4, 1, "1e-6", "1/4"),
    EstimatedGNMax("5/2", 4, 8, 1, "1e-6"),
]

rng = np.random.default_rng(0)
IMAGES = rng.integers(0, 256, size=(120, 8, 8)).astype(np.float64)

QUERIES = np.linspace(0, 1, 20, dtype=np.float32).reshape(4, 5)
NAMES = ("a", "b", "c")


def votes(mechanism=CENTRAL[0], **more):
    return VoteAsk(QUERIES, Identity(5), 1, NAMES, "c0ffee", mechanism, "labels", "r-1", **more)


ENCODER = TableEncoder(
    (NumberColumn("age", 50.0, 12.5, True), CategoryColumn("sex", ("f", "m"), True, False)),
    ("note",),
    TextEncoder(("cough", "fever"), np.array([1.5, 1.25]), Components(np.array([[0.5, -0.75]], dtype=np.float32))),
)
ROWS = np.array([3, 1, 2], dtype=np.int64)
FEEDBACK = Feedback(0, ROWS, np.full((3, 4), 0.25, dtype=np.float32))
ASKS = [
    votes(),
    votes(query_offsets=np.ones(4, dtype=np.float32)),
    votes(DiscreteLaplaceNoise(2, 4), labels=2),
    votes(voting_rule="max-min"),
    *(votes(each) for each in LOCAL),
    LabelAsk(IMAGES[:5], None, RandomizedLabels(10, 5, 1), (3, 1), "labels", "r round 0"),
    LabelAsk(IMAGES[:5].astype(np.uint8), b"weights", RandomizedLabels(10, 5, 1), (), "labels", "r round 0"),
    PredictAsk(1, ROWS, PredictionForm("argmax", 4), None, "c0ffee", FEEDBACK, "predictions", "r round 1"),
    PredictAsk(
        1,
        ROWS,
        PredictionForm("softmax", 4),
        DiscreteLaplaceNoise(2000, 6000),
        "c0ffee",
        None,
        "predictions",
        "r round 1",
    ),
    PartyVoteAsk(QUERIES, Identity(5), 3, CENTRAL[0], "c0ffee", "votes", "r votes"),
    TeacherAsk(IMAGES[:4], NAMES, LNMax("1/20", 4), "votes", "r-1"),
    FEEDBACK,
    SumAsk(
        Identity(5), 5, 12.5, 100, "l2", 100, NAMES, "c0ffee", RoundedGaussianNoise("1000.5", 40_000), "sums", "r-1"
    ),
    SumAsk(Identity(5), 5, 12.5, 100, "l2", 25, NAMES, "c0ffee", RoundedGaussianNoise(999, 10**6), "sums", "r-1", True),
    SumAsk(Identity(5), 5, 12.5, 100, "l1", 25, NAMES, "c0ffee", DiscreteLaplaceNoise(250, 250), "sums", "r-1"),
    SumAsk(
        Identity(5), 5, 12.5, 100, "l2", 25, NAMES, "c0ffee", RoundedGaussianNoise(999, 10**6), "sums", "r-1", True, 2
    ),
    GradientAsk(
        Identity(5),
        12.5,
        100,
        50,
        np.arange(6 * len(NAMES)).reshape(6, len(NAMES)),
        4000,
        "l2",
        NAMES,
        "c0ffee",
        RoundedGaussianNoise("100000.5", 64_000_000),
        "sgd",
        "r-1",
    ),
    NeighborAsk(QUERIES, Identity(5), 7, NAMES, "c0ffee", SubsampledGNMax("0.15", 50, 4), "votes", "r-1"),
    NeighborAsk(
        QUERIES,
        Identity(5),
        7,
        NAMES,
        "c0ffee",
        SubsampledScreen("0.15", 50, 2, 4),
        "votes",
        "r-1",
        np.ones(4, dtype=np.float32),
    ),
    VoteAsk(QUERIES, EncodedRows.of(ENCODER, Identity(5)), 1, NAMES, "c0ffee", CENTRAL[0], "labels", "r-1"),
]


hostile_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["permute-and-flip", "shuffled", "chained", "student", "1/3", "rknn-votes", "1e99999999"])
    | st.builds(
        lambda kind, shape: np.zeros(shape, dtype=kind),
        st.sampled_from(["|b1", "|u1", "<i8", "<f4", "<f8"]),
        st.lists(st.integers(0, 3), max_size=4).map(tuple),
    )
    | st.just(np.array([[np.nan, np.inf]], dtype=np.float32)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)


def raw(head, body=b""):
    written = head if isinstance(head, bytes) else json.dumps(head).encode()
    return MAGIC + struct.pack("<Q", len(written)) + written + body
