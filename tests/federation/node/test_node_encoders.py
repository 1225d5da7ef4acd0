"""A node with raw rows: it encodes them by what the coordinator sends, and nothing about a record decides a reply."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.core.codec import StrictReader, decode, encode
from tacit.core.errors import InvalidInput
from tacit.datasets.frame import Frame
from tacit.encoders.encoded import EncodedRows, packed_table
from tacit.encoders.images import ImageEncoder
from tacit.encoders.table import TableEncoder
from tacit.encoders.text import TextEncoder
from tacit.federation.intake.question import OpenQuestion
from tacit.federation.messages import RefusalReason, Request, read_response
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.methods.encoding import EncodingMemory
from tacit.methods.question import encoder_of
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.records import Private, Records
from tacit.representations.registry import read_representation
from tacit.representations.scaled import Identity
from tacit.wire import ask_to_bytes, read_ask
from tests.federation.mixed import CLASSES, RULES, mixed_nodes, patients

PUBLIC = patients(60, seed=1)[0]
ENCODER = TableEncoder.fit(PUBLIC, minilm=False)
MECHANISM = DiscreteLaplaceNoise.for_epsilon(1, 2)


def question(encoder=ENCODER, request="r", **more):
    width = encoder.width
    queries = np.arange(3 * width, dtype=np.float32).reshape(3, width) / width
    return VoteAsk(
        queries, EncodedRows.of(encoder, Identity(width)), 1, CLASSES, "space", MECHANISM, "reverse k-NN labels",
        request, **more,
    )  # fmt: skip


def node(table=None, labels=None, **more):
    own, known = (table, labels) if table is not None else patients(30, seed=2)
    return mixed_nodes(own, known, **more)[0]


def replied(to, ask, **more):
    """The refusal, or "answered", with what was paid."""
    sent = ask if isinstance(ask, bytes) else ask_to_bytes(ask)
    said = read_response(to.reply(Request("run", 0, 3, sent, **more).to_bytes())).answer
    return (said if isinstance(said, RefusalReason) else "answered"), to.ledger.balance(to.account).payments


def test_raw_rows_are_encoded_as_in_one_process():
    own, labels = patients(30, seed=2)
    made = EncodedRows.of(ENCODER, Identity(ENCODER.width))
    assert (made.encode(packed_table(own)) == ENCODER.encode(own)).all()
    assert read_ask(ask_to_bytes(question())).question == question().question
    plain = VoteAsk(question().queries, Identity(ENCODER.width), *dataclasses.astuple(question())[2:])
    assert plain.question != question().question
    assert replied(node(own, labels), question()) == ("answered", 1)


# A question that does not fit is refused before anything is paid, whatever the records are.


def changed(change):
    """A question whose encoder was changed on the way."""
    fields = decode(ask_to_bytes(question()))
    change(fields["representation"]["encoder"])
    return encode(fields)


def first(kind):
    return next(place for place, each in enumerate(ENCODER.columns) if each.taken_as == kind)


def column(kind, **values):
    def change(encoder):
        encoder["columns"][first(kind)] |= values

    return change


def words(**values):
    def change(encoder):
        encoder["text"] |= values

    return change


def directions(change):
    def changes(encoder):
        encoder["text"]["components"]["directions"] = change(encoder["text"]["components"]["directions"])

    return changes


def twice(encoder):
    encoder["columns"].append(encoder["columns"][0])


HOSTILE = {
    "a scale that is not a number": column("number", scale=float("nan")),
    "an infinite scale": column("number", scale=float("inf")),
    "a scale of nearly nothing": column("number", scale=1e-300),
    "a negative scale": column("date", scale=-1.0),
    "a center out of range": column("number", center=1e300),
    "edges in the wrong order": column("number", edges=np.array([2.0, 1.0])),
    "edges that are not numbers": column("number", edges=np.array([np.nan])),
    "edges of the wrong shape": column("number", edges=np.zeros((2, 2))),
    "too many edges": column("number", edges=np.arange(100.0)),
    "too many levels": column("category", levels=[f"a{n}" for n in range(51)]),
    "levels that occur twice": column("category", levels=["icu", "icu"]),
    "two spellings of a level": column("category", levels=["1", "01"]),
    "a level that means nothing": column("category", levels=["icu", "n/a"]),
    "levels that are no texts": column("category", levels=[1, 2]),
    "no level at all": column("category", levels=[], others=False, gaps=False),
    "a flag that is a number": column("category", others=-3),
    "an unknown cycle": column("date", cycles=["moon"]),
    "an unknown date format": column("date", written="%c"),
    "a heavy date": column("date", weight=2.0),
    "an unknown kind of column": column("number", taken_as="code"),
    "an unknown field": column("number", surprise=1),
    "a column that occurs twice": twice,
    "a column of numbers and texts": lambda encoder: encoder["texts"].append("age"),
    "too many columns": lambda encoder: encoder.update(columns=[{}] * (2**16 + 1)),
    "an unknown kind of encoder": lambda encoder: encoder.update(encoder="pickle"),
    "an encoder of sparse rows": lambda encoder: encoder.update(encoder="components"),
    "reasons for columns": lambda encoder: encoder["left_out"].append(["name", "x"]),
    "words that occur twice": lambda encoder: encoder["text"]["words"].__setitem__(0, encoder["text"]["words"][1]),
    "negative rarities": lambda encoder: encoder["text"].update(rarity=-encoder["text"]["rarity"]),
    "rarities of the wrong shape": words(rarity=np.ones(2)),
    "a pretrained model": words(minilm="c0ffee"),
    "directions off the grid": directions(lambda found: found + np.float32(1e-7)),
    "directions that are too long": directions(np.ones_like),
    "directions of the wrong shape": directions(lambda found: found[:, :-1]),
    "too many directions": directions(lambda found: np.tile(found, (1025, 1))),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_encoder_is_refused_before_anything_is_paid(what):
    with pytest.raises(InvalidInput):
        read_ask(changed(HOSTILE[what]))
    assert replied(node(), changed(HOSTILE[what])) == (RefusalReason.QUESTION, 0)


def test_an_encoder_is_read_at_the_beginning_of_a_questions_representation_only():
    fields = {"kind": "encoded", **question().representation.fields()}
    nested = decode(encode(fields)) | {"then": fields}
    for wrong in (nested, {"kind": "chained", "parts": [fields]}, fields):
        with pytest.raises(InvalidInput, match="kind must be one of"):
            read_representation(StrictReader(wrong, "representation"))
    sent = decode(ask_to_bytes(question())) | {"representation": nested}
    assert replied(node(), encode(sent)) == (RefusalReason.QUESTION, 0)


@pytest.mark.parametrize(
    ("rules", "encoder", "reason"),
    [
        ({"encoders": ()}, ENCODER, RefusalReason.ENCODER),
        ({"encoders": ("table",)}, ENCODER, RefusalReason.ENCODER),
        ({"encoders": ("text",)}, dataclasses.replace(ENCODER, texts=(), text=None), RefusalReason.ENCODER),
        ({"encoders": ("table",)}, dataclasses.replace(ENCODER, texts=(), text=None), "answered"),
        ({"encoder_features": ENCODER.width - 1}, ENCODER, RefusalReason.ENCODER),
        ({"encoder_features": ENCODER.width}, ENCODER, "answered"),
    ],
)
def test_a_policy_decides_which_encoders_are_allowed(rules, encoder, reason):
    there = node(rules=dataclasses.replace(RULES, **rules))
    assert replied(there, question(encoder)) == (reason, int(reason == "answered"))


def test_columns_are_matched_by_name_before_anything_is_paid():
    own, labels = patients(30, seed=2)
    backwards = own.take(own.columns[::-1])
    assert replied(node(backwards, labels), question()) == ("answered", 1)
    assert replied(node(own.take(("age", "ward", "note")), labels), question()) == (RefusalReason.COLUMNS, 0)


def test_texts_alone_need_a_node_with_one_column():
    own, labels = patients(30, seed=2)
    texts = TextEncoder.fit(PUBLIC.take(("note",)), minilm=False)
    assert replied(node(own, labels), question(texts)) == (RefusalReason.COLUMNS, 0)
    assert replied(node(own.take(("note",)), labels), question(texts)) == ("answered", 1)


def test_raw_rows_need_an_encoder_and_numbers_none():
    width = ENCODER.width
    numbers = dataclasses.replace(question(), representation=Identity(width))
    assert replied(node(), numbers) == (RefusalReason.ENCODER, 0)
    own, labels = patients(30, seed=2)
    plain = node(own, labels, encode=ENCODER.encode)
    assert replied(plain, question()) == (RefusalReason.ENCODER, 0)
    assert replied(plain, numbers) == ("answered", 1)


def test_devices_are_not_asked_with_an_encoder():
    ask = dataclasses.replace(question(), mechanism=GeneralizedRandomizedResponse(6, 1, 1))
    with pytest.raises(InvalidInput, match="has an encoder of raw rows"):
        OpenQuestion.of(ask, closes=2_000_000_000, most=1000)
    assert encoder_of(ask) is ask.representation


@pytest.mark.parametrize(
    "encoder",
    [ImageEncoder((2, 2, 1)), dataclasses.replace(ENCODER, text=dataclasses.replace(ENCODER.text, minilm="c0ffee"))],
)
def test_a_coordinator_does_not_send_what_nodes_refuse(encoder):
    with pytest.raises(InvalidInput, match="cannot be sent to a node"):
        EncodedRows.of(encoder, Identity(4))


# What a record is changes neither the reply nor the encoding of another one.

CELLS = st.sampled_from([
    "", "nan", "-nan", "inf", "1e999", "-1e400", "1_000", "01", "1.0", "True", "2024-02-30", "2024-05-01",
    "9999-12-31T99", "0001-01-01", "2024-01-01T00:00:00+23:59", "n/a", "icu", "Icu ", "\x00", "\ud7ff", "٣",
    "5 fever fever", "a" * 300, None, 61.0, -0.0, "-0.0", 1e300,
]) | st.text(max_size=8) | st.floats()  # fmt: skip


def tables(cells):
    return Frame(PUBLIC.columns, tuple(np.array(each, dtype=object) for each in zip(*cells, strict=True)))


rows = st.lists(st.tuples(*[CELLS] * len(PUBLIC.columns)), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(cells=rows, others=rows)
def test_any_cell_is_encoded_and_a_row_by_itself(cells, others):
    made = EncodedRows.of(ENCODER, Identity(ENCODER.width))
    alone = [made.encode(packed_table(tables([row]))) for row in cells]
    together = made.encode(packed_table(tables(cells + others)))[: len(cells)]
    assert np.vstack(alone).tobytes() == together.tobytes()  # a zero has a sign
    assert (np.abs(together) <= 4).all()


@settings(max_examples=60, deadline=None)
@given(cells=rows)
def test_a_reader_that_finds_numbers_changes_no_encoding(cells, tmp_path_factory):
    """In a file, a column is one of numbers if all its cells are: one row decides the type of the others' cells."""
    written = [[each if isinstance(each, str) and each.isprintable() else "7" for each in row] for row in cells]
    made = EncodedRows.of(ENCODER, Identity(ENCODER.width))
    typed = [np.array(each, dtype=object) for each in zip(*written, strict=True)]
    for place, column in enumerate(typed):
        try:
            typed[place] = column.astype(np.float64) if not any("_" in each for each in column) else column
        except ValueError:
            continue
    assert (
        made.encode(packed_table(Frame(PUBLIC.columns, tuple(typed)))) == made.encode(packed_table(tables(written)))
    ).all()


@settings(max_examples=25, deadline=None)
@given(cells=rows, what=st.sampled_from(sorted(HOSTILE)) | st.none())
def test_the_kind_of_reply_and_the_price_do_not_depend_on_a_record(cells, what):
    own, labels = patients(6, seed=3)
    mixed = tables([tuple(cell) for cell in cells])
    ask = question() if what is None else changed(HOSTILE[what])
    known = np.arange(len(cells)) % 2
    there = dataclasses.replace(node(), records=Private(Records(packed_table(mixed), known)))
    assert replied(there, ask) == replied(node(own, labels), ask)


def test_encodings_of_raw_rows_are_cached_by_the_encoder():
    memory = EncodingMemory(2**20)
    there = node(encodings=memory)
    assert replied(there, question()) == ("answered", 1)
    kept = memory.size
    assert kept == 4 * ENCODER.width * 10
    assert replied(there, question(request="again")) == ("answered", 2)
    assert memory.size == kept
    replied(there, question(dataclasses.replace(ENCODER, texts=(), text=None), "other"))
    assert memory.size > kept
