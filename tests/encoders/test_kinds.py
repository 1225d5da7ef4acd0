"""What public samples are taken for, what each encoder refuses, and what who loads records is told."""

import sys

import numpy as np
import pytest
from scipy import sparse

from tacit.core.errors import InvalidInput
from tacit.datasets.frame import Frame, cells_of
from tacit.datasets.image_files import ImageFiles
from tacit.encoders.images import ImageEncoder
from tacit.encoders.kinds import ENCODER_FILE, read_encoder, recognize, write_encoder
from tacit.encoders.table import TableEncoder
from tacit.encoders.text import Components, TextEncoder, minilm_installed, texts_of

NUMBERS = np.arange(24.0).reshape(8, 3)
TEXTS = np.array(["a bad cough", "a high fever", "a cough", "a fever"] * 3)


def frame(**columns):
    return Frame(tuple(columns), tuple(cells_of(each) for each in columns.values()))


@pytest.mark.parametrize(
    ("public", "options", "said"),
    [
        (NUMBERS[:0], {}, "the public part is empty"),
        (NUMBERS, {"kind": "tables"}, "tables"),
        (NUMBERS, {"text": ["note"]}, "text and categories are columns, but the public samples have none"),
        (NUMBERS, {"kind": "text"}, "the public samples are numbers, not texts"),
        (np.zeros((4, 8, 8)), {"kind": "mixed"}, "not a mixed table"),
        (np.zeros(4), {}, "public samples must be numbers, one row per sample"),
        (TEXTS, {"kind": "images"}, "the public samples are texts; their kind is text, not images"),
        (sparse.csr_array(np.eye(4)), {"kind": "table"}, "a sparse matrix; their kind is embedding"),
        (frame(age=[1.0, 2.0]), {"kind": "table", "categories": ["age"]}, "has neither text nor categories"),
        (frame(age=[1.0, 1.0]), {"kind": "mixed"}, "no column that varies"),
        (frame(age=[1.0, 2.0]), {"text": ["note"]}, "note"),
    ],
)
def test_what_public_samples_cannot_be_is_refused(public, options, said):
    with pytest.raises(InvalidInput, match=said):
        recognize(public, **options)


def test_kinds_that_are_named_are_taken():
    assert recognize(NUMBERS, "mixed").encoder is not None
    assert recognize(np.array([["a", 1.0], ["b", 2.0]] * 6, dtype=object)).kind == "mixed"
    assert recognize(frame(note=TEXTS), "text").kind == "text"
    assert recognize(frame(age=[1.0, 2.0]), "embedding").kind == "embedding"
    assert recognize(np.array([[1.0, np.nan]] * 2)).kind == "table"
    assert recognize(np.random.default_rng(1).normal(size=(40, 64)).astype(np.float32)).kind in ("embedding", "images")
    assert recognize(NUMBERS).lines == recognize(NUMBERS, "table").lines


def test_an_image_encoder_takes_files_and_arrays_of_its_shape():
    gray, color = ImageEncoder((4, 4, 1)), ImageEncoder((4, 4, 3))
    assert gray.names is None
    assert gray.blocks == {"pixels": 16}
    assert gray.lines == ("4x4 pixels, gray",)
    assert color.lines == ("4x4 pixels, color",)
    assert gray.encode(np.zeros((2, 4, 4))).shape == (2, 4, 4)
    assert gray.unread(np.zeros((2, 4, 4))) == []
    with pytest.raises(InvalidInput, match=r"image files, or arrays of shape \(4, 4, 3\)"):
        color.encode(np.zeros((2, 4, 4)))


def test_images_that_cannot_be_read_are_counted_and_the_first_is_named(tmp_path):
    pytest.importorskip("PIL")
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(b"no image")
    files = ImageFiles((tmp_path / "a.png", tmp_path / "b.png"))
    assert ImageEncoder((4, 4, 1)).unread(files) == ["2 images cannot be read, the first is row 0"]


def test_a_table_encoder_matches_columns_by_name_or_by_place():
    public = frame(age=np.arange(40.0) % 17 + 0.5, ward=["north", "south"] * 20, same=["x"] * 40)
    encoder = TableEncoder.fit(public)
    assert encoder.width == sum(encoder.blocks.values())
    assert set(encoder.left_out) == {"same"}
    by_place = encoder.encode(np.array([[0.5, "north"]], dtype=object))
    assert np.array_equal(by_place, encoder.encode(frame(ward=["north"], age=[0.5])))
    for wrong in (np.array([[1.0, 2.0, 3.0]]), np.zeros((1, 2, 2)), sparse.csr_array(np.eye(2))):
        with pytest.raises(InvalidInput, match="samples must be a table with the columns"):
            encoder.encode(wrong)
    told = encoder.unread(frame(age=["?", "old"], ward=["east", "north"]))
    assert told == [
        "cells without a number, by column: 'age' 1",
        "cells of a level that is rare or not in the public rows, by column: 'ward' 1",
    ]


def test_texts_come_as_arrays_bytes_columns_and_lists():
    assert texts_of(np.array([b"caf\xc3\xa9"])) == ["café"]
    assert texts_of(frame(title=["a", None], body=["b", "c"])) == ["a\nb", "c"]
    assert texts_of(np.array([["a", "b"]])) == ["a\nb"]
    with pytest.raises(InvalidInput, match="texts must be an array or a list of texts"):
        texts_of(np.zeros((2, 2)))


def test_a_text_encoder_tells_of_empty_texts_and_of_another_model(monkeypatch):
    encoder = TextEncoder.fit(TEXTS, minilm=False)
    assert encoder.names is None
    assert encoder.unread(["", "a cough", " "]) == ["2 texts are empty"]
    assert encoder.unread([""]) == ["1 text is empty"]
    other = TextEncoder(encoder.words, encoder.rarity, encoder.components, "00" * 32)
    assert other.blocks["minilm"] == 384
    assert "MiniLM" in other.lines[0]
    monkeypatch.setattr("tacit.encoders.text._minilm", lambda: type("Model", (), {"digest": "11" * 32}))
    with pytest.raises(InvalidInput, match="other weights of MiniLM"):
        other.encode(TEXTS)


def test_a_broken_extra_is_an_extra_that_is_not_there(monkeypatch):
    monkeypatch.setattr("tacit.encoders.text.find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    assert not minilm_installed()
    monkeypatch.setattr("tacit.encoders.text.find_spec", lambda name: None)
    assert not minilm_installed()


def test_components_refuse_samples_of_another_width():
    encoder = Components.fit(sparse.random(30, 40, 0.3, random_state=1), 5)
    assert encoder.names is None
    assert "40 sparse features, 5 components" in encoder.lines[0]
    assert encoder.unread(sparse.csr_array(np.eye(40))) == []
    with pytest.raises(InvalidInput, match="samples have 3 features and the public ones 40"):
        encoder.encode(sparse.csr_array(np.eye(3)))


def test_an_encoder_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    write_encoder(ImageEncoder((8, 8, 1)), tmp_path)
    monkeypatch.setattr("tacit.encoders.kinds._LARGEST_FILE", 3)
    with pytest.raises(InvalidInput, match="too large for an encoder"):
        read_encoder(tmp_path / ENCODER_FILE)
