"""Whole samples as numbers: what a table, texts, a sparse matrix and images become, and that each row is its own."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse

from tacit.core.errors import InvalidInput
from tacit.datasets.frame import Frame, cells_of
from tacit.datasets.image_files import ImageFiles
from tacit.encoders.images import ImageEncoder
from tacit.encoders.kinds import read_encoder, recognize, write_encoder
from tacit.encoders.table import TableEncoder
from tacit.encoders.text import Components, TextEncoder, minilm_installed

ROWS = 120
CHANCE = np.random.default_rng(5)
TOPICS = (["cough", "fever", "throat", "cold"], ["fracture", "bone", "cast", "knee"])
TEXTS = np.array([
    f"patient {CHANCE.integers(9)} has a {' and a '.join(CHANCE.choice(TOPICS[row % 2], 3))} today"
    for row in range(ROWS)
])  # fmt: skip


def table(**more):
    columns = {
        "age": np.arange(ROWS, dtype=float) % 60,
        "sex": ["f", "m"] * (ROWS // 2),
        "seen": [f"2024-{1 + row % 12:02d}-03" for row in range(ROWS)],
        **more,
    }
    return Frame(tuple(columns), tuple(cells_of(each) for each in columns.values()))


FITTED = {
    "table": (TableEncoder.fit(table(note=TEXTS)), table(note=TEXTS)),
    "text": (TextEncoder.fit(TEXTS, minilm=False), TEXTS),
    "components": (
        Components.fit(sparse.random(ROWS, 300, 0.1, random_state=1), 20),
        sparse.random(ROWS, 300, 0.1, random_state=2, format="csr"),
    ),
}


def some(samples, rows):
    if isinstance(samples, Frame):
        return Frame(samples.columns, tuple(column[rows] for column in samples.cells))
    return samples[rows]


@pytest.mark.parametrize("kind", FITTED)
def test_a_row_is_encoded_the_same_in_any_company(kind):
    encoder, samples = FITTED[kind]
    whole = encoder.encode(samples)
    assert whole.dtype == np.float32
    assert whole.shape == (ROWS, sum(encoder.blocks.values()))
    turned = np.arange(ROWS)[::-1]
    assert np.array_equal(encoder.encode(some(samples, turned)), whole[turned])
    for row in (0, 7, ROWS - 1):
        assert np.array_equal(encoder.encode(some(samples, np.array([row])))[0], whole[row])
    assert np.array_equal(encoder.encode(some(samples, np.arange(3, 48))), whole[3:48])


@pytest.mark.parametrize("kind", FITTED)
def test_encoders_are_written_and_read_to_the_last_bit(kind, tmp_path):
    encoder, samples = FITTED[kind]
    first = tmp_path / write_encoder(encoder, tmp_path)
    loaded = read_encoder(first)
    assert np.array_equal(loaded.encode(samples), encoder.encode(samples))
    content = first.read_bytes()
    write_encoder(loaded, tmp_path)
    assert first.read_bytes() == content


@pytest.mark.parametrize("change", [b"", b"TACIT1", b"{}", "half", "other"])
def test_a_damaged_encoder_is_refused(change, tmp_path):
    file = tmp_path / write_encoder(FITTED["table"][0], tmp_path)
    content = file.read_bytes()
    if change == "half":
        file.write_bytes(content[: len(content) // 2])
    elif change == "other":
        file.write_bytes(content.replace(b'"scale"', b'"scala"'))
    else:
        file.write_bytes(change)
    with pytest.raises((InvalidInput, ValueError)):
        read_encoder(file)


def test_each_column_is_taken_for_what_public_rows_show():
    encoder = TableEncoder.fit(
        table(
            patient_id=np.arange(ROWS) + 7000.0,
            name=[f"person{row}" for row in range(ROWS)],
            empty=[None] * ROWS,
            same=["a"] * ROWS,
            grade=np.arange(ROWS) % 4.0,
            zip_code=np.arange(ROWS) % 20 + 10_000.0,
            member=[True, False, None] * (ROWS // 3),
            note=TEXTS,
        )
    )  # fmt: skip
    taken = {}
    for column in encoder.columns:
        taken.setdefault(column.name, []).append(column.taken_as)
    assert taken == {
        "age": ["number"], "sex": ["category"], "seen": ["date"], "grade": ["number", "category"],
        "zip_code": ["category"], "member": ["number"],
    }  # fmt: skip
    assert encoder.texts == ("note",)
    assert encoder.left_out == {
        "patient_id": "it numbers the rows",
        "name": "no value of it is shared by 5 public rows",
        "empty": "it is empty in every public row",
        "same": "it is the same in every public row",
    }
    assert any("column 'name' is left out: no value" in line for line in encoder.lines)


def test_a_category_that_looks_like_a_number_can_be_named():
    codes = table(ward=(np.arange(ROWS) % 20.0))
    assert [each.taken_as for each in TableEncoder.fit(codes).columns if each.name == "ward"] == ["number"]
    named = TableEncoder.fit(codes, categories=["ward"])
    assert [each.taken_as for each in named.columns if each.name == "ward"] == ["category"]
    with pytest.raises(
        InvalidInput, match="no column 'wart'; the columns are age, sex, seen, ward; did you mean 'ward'"
    ):
        TableEncoder.fit(codes, categories=["wart"])


def test_columns_are_matched_by_name_and_those_left_out_may_be_gone():
    encoder = TableEncoder.fit(table(same=["a"] * ROWS))
    whole = encoder.encode(table(same=["a"] * ROWS))
    assert np.array_equal(encoder.encode(table().take(["seen", "age", "sex"])), whole)
    other = dataclasses.replace(table(), columns=("age", "sexx", "seen"))
    with pytest.raises(InvalidInput, match="missing sex, unknown sexx; did you mean sex for sexx"):
        encoder.encode(other)


def test_nothing_to_tell_rows_apart_by_is_refused():
    with pytest.raises(InvalidInput, match="no column that varies"):
        TableEncoder.fit(Frame(("a",), (np.zeros(30),)))


def test_empty_and_missing_texts_are_texts():
    encoder = TextEncoder.fit(TEXTS, minilm=False)
    encoded = encoder.encode(np.array(["", None, "zzz", TEXTS[0]], dtype=object))
    assert not encoded[:3].any()
    assert np.linalg.norm(encoded[3]) == pytest.approx(1, abs=1e-6)
    assert encoder.unread(np.array(["", None, "a"], dtype=object)) == ["2 texts are empty"]
    with pytest.raises(InvalidInput, match="the public texts contain no words"):
        TextEncoder.fit(np.array(["", " "]), minilm=False)


@pytest.mark.skipif(not minilm_installed(), reason="the extra features is not installed")
def test_minilm_stands_beside_tfidf():
    encoder = TextEncoder.fit(TEXTS)
    assert list(encoder.blocks) == ["minilm", "tfidf"]
    assert encoder.encode(TEXTS[:3]).shape == (3, encoder.width)


def test_kinds_are_recognized_from_public_samples_and_can_be_named():
    numbers = np.random.default_rng(0).normal(size=(50, 20))
    assert recognize(numbers).kind == "embedding"
    assert recognize(numbers * 10.0 ** np.arange(20)).kind == "table"
    assert recognize(numbers, "table").kind == "table"
    assert recognize(np.zeros((5, 8, 8))).kind == recognize(np.zeros((5, 64))).kind == "images"
    assert recognize(sparse.random(9, 40, 0.5)).kind == "embedding"
    assert recognize(Frame(("note",), (cells_of(TEXTS.tolist()),))).kind == "text"
    assert recognize(table(note=TEXTS)).kind == "mixed"
    assert recognize(Frame(("a", "b"), numbers[:, :2])).encoder is None
    assert recognize(Frame(("a", "b"), numbers[:, :2]), "mixed").kind == "mixed"
    assert recognize(Frame(("a", "b"), numbers[:, :2]), categories=["a"]).kind == "mixed"
    gaps = numbers.copy()
    gaps[3, 4] = np.nan
    assert recognize(gaps).kind == "table"
    assert recognize(gaps, "mixed").kind == recognize(Frame(("a", "b"), gaps[:, 3:5])).kind == "mixed"
    for samples, kind, said in [
        (numbers, "magic", "unknown kind 'magic'"),
        (TEXTS, "table", "their kind is text, not table"),
        (numbers, "text", "numbers, not texts"),
        (table(), "table", "row 0, column 'sex': not a number"),
        (np.zeros((5, 7, 7)), "mixed", "not a mixed table"),
        (np.zeros((0, 3)), None, "the public part is empty"),
    ]:
        with pytest.raises(InvalidInput, match=said):
            recognize(samples, kind)


def test_images_are_brought_to_the_size_of_public_ones(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    for place, size in enumerate([(20, 10), (40, 20), (60, 30)]):
        pillow.fromarray(np.full((size[1], size[0], 3), 40 * place, dtype=np.uint8)).save(tmp_path / f"{place}.png")
    encoder = ImageEncoder.fit(ImageFiles(tuple(sorted(tmp_path.glob("*.png")))))
    assert encoder.shape == (20, 40, 3)
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n")
    files = [tmp_path / name for name in ("0.png", "2.png", "broken.png")]
    encoded = encoder.encode(files)
    assert encoded.shape == (3, 20, 40, 3)
    assert [image.max() for image in encoded] == [0, 80, 0]
    assert encoder.unread(files) == ["1 image cannot be read, the first is row 2"]
    with pytest.raises(InvalidInput, match=r"broken\.png: cannot be read as an image"):
        ImageEncoder.fit(ImageFiles((tmp_path / "broken.png",)))
