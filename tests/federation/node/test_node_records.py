"""A node that counts its records where they lie: the same answers, and a refusal of what needs them in memory."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Unit
from tacit.encoders.encoded import LONGEST_CELL
from tacit.federation.messages import RefusalReason
from tacit.federation.node.node import Node
from tacit.federation.node.records import LoadedArrays, node_records
from tacit.federation.node.refusals import Refused
from tacit.federation.settings import NODE_EXAMPLE, read_node_file
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.policy import Rules
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.methods.pate.wire import TeacherAsk
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.records import reveal
from tacit.representations.scaled import Identity

FILE = """
name = "north"
data = "{data}"
label = "outcome"
classes = ["ill", "well"]
policy = "policy.toml"
ledger = "north.ledger"
account = "north"
"""
QUERIES = np.array([[0, 9], [9, 0]], dtype=np.float32)
ASK = VoteAsk(QUERIES, Identity(2), 1, ("ill", "well"), "c0ffee", DiscreteLaplaceNoise.for_epsilon(1, 2), "v", "r-1")


@pytest.fixture
def folder(tmp_path):
    generator = np.random.default_rng(1)
    columns = {name: generator.integers(0, 10, 300) for name in ("age", "dose")}
    outcome = np.where(generator.random(300) < 0.5, "ill", "well")
    table = pa.table({**columns, "outcome": outcome})
    pa.parquet.write_table(table, tmp_path / "all.parquet")
    for number in range(3):
        pa.parquet.write_table(table.slice(100 * number, 100), tmp_path / f"part-{number}.parquet")
    return tmp_path


def node(folder, data, more=""):
    (folder / "node.toml").write_text(FILE.format(data=data) + more)
    records, features = node_records(read_node_file(folder / "node.toml"), None, LoadedArrays())
    rules = Rules(("rknn", "pate"), ("DiscreteLaplaceNoise",), ("v",), participants=1)
    ledger = MemoryLedger({"north": Ceiling(1)})
    return Node("north", ("ill", "well"), records, rules, ledger, "north", features=features, seed=1)


ENGINE = '[engine]\nname = "threads"\nworkers = 2\n'


def test_a_node_with_an_engine_gives_the_same_answer(folder):
    memory, streamed = node(folder, "all.parquet"), node(folder, "part-*.parquet", ENGINE)
    assert memory.features == streamed.features == ("age", "dose")
    assert np.array_equal(memory.answer(ASK).value, streamed.answer(ASK).value)
    assert streamed._sizes() == (300, 300)


def test_columns_come_in_the_public_samples_order(folder):
    memory, streamed = node(folder, "all.parquet"), node(folder, "part-*.parquet", ENGINE)
    answers = []
    for each in (memory, streamed):
        ordered = each._in_order(("dose", "age"))
        answers.append(Node(**{**each.__dict__, "records": ordered}).answer(ASK).value)
    assert np.array_equal(*answers)


def test_what_needs_records_in_memory_is_refused_and_not_paid(folder):
    streamed = node(folder, "part-*.parquet", ENGINE)
    before = streamed.ledger.balance("north")
    ask = object.__new__(TeacherAsk)
    with pytest.raises(Refused) as told:
        streamed._check(ask, "answer", None)
    assert told.value.reason is RefusalReason.METHOD
    assert streamed.ledger.balance("north") == before


def test_the_file_is_read_strictly(folder):
    # As it is made it needs no file that only some federations have; with all its sections it is a node's file, too.
    (folder / "node.toml").write_text(NODE_EXAMPLE)
    made = read_node_file(folder / "node.toml")
    assert (made.engine, made.peers, made.public, made.shuffler, made.curator) == (None,) * 5
    (folder / "node.toml").write_text(re.sub(r"(?m)^# (?!kind|shape)", "", NODE_EXAMPLE))
    made = read_node_file(folder / "node.toml")
    assert made.engine.engine.workers == 2
    assert None not in (made.peers, made.public, made.shuffler, made.curator)
    for more, words in (
        ('[engine]\nname = "sparc"\n', "did you mean spark"),
        ("[engine]\nworkers = 0\n", "workers"),
        ("[engine]\nspeed = 1\n", "is not a setting"),
    ):
        (folder / "node.toml").write_text(FILE.format(data="all.parquet") + more)
        with pytest.raises(InvalidInput, match=words):
            read_node_file(folder / "node.toml")
    (folder / "node.toml").write_text(FILE.format(data="a.csv").replace('"outcome"', '["ill", "well"]') + ENGINE)
    with pytest.raises(InvalidInput, match="one label each"):
        read_node_file(folder / "node.toml")


def test_persons_are_bounded_by_the_account(folder):
    (folder / "node.toml").write_text(FILE.format(data="part-*.parquet") + ENGINE)
    records, _ = node_records(read_node_file(folder / "node.toml"), "age", LoadedArrays())
    ledger = MemoryLedger({"north": Ceiling(1000, unit=Unit.person("age", 1))})
    rules = Rules(("rknn",), ("DiscreteLaplaceNoise",), ("v",), participants=1)
    ask = VoteAsk(
        QUERIES[:, :1], Identity(1), 1, ("ill", "well"), "c0ffee", DiscreteLaplaceNoise.for_epsilon(900, 2), "v", "r-1"
    )
    counts = Node("north", ("ill", "well"), records, rules, ledger, "north", seed=1).answer(ask).value
    assert counts.sum() == 10


# Raw rows, for an encoder that comes with the question

MIXED = 'kind = "mixed"\n'
RAW = "age,ward,note,outcome\n61,icu,a cough,ill\n,day clinic,,well\nold,n/a,03,well\n"


def raw(folder, content, more="", name="raw.csv", label="outcome", person=None, arrays=None):
    (folder / name).write_text(content)
    text = FILE.format(data=name).replace('"outcome"', label if "[" in label else f'"{label}"')
    (folder / "node.toml").write_text(text + MIXED + more)
    found = read_node_file(folder / "node.toml")
    records, features = node_records(found, person, arrays or LoadedArrays())
    assert features is None
    return reveal(records)


def test_raw_rows_stay_as_they_are_written(tmp_path):
    own = raw(tmp_path, RAW)
    assert own.samples.dtype.names == ("age", "ward", "note")
    assert own.samples.tolist() == [("61", "icu", "a cough"), ("", "day clinic", ""), ("old", "n/a", "3")]
    assert own.labels.tolist() == [0, 1, 1]
    few = raw(tmp_path, RAW, 'features = ["ward", "age"]\n')
    assert few.samples.dtype.names == ("ward", "age")


def test_persons_and_sets_of_labels_are_read_beside_raw_rows(tmp_path):
    owned = raw(tmp_path, "who,ward,outcome\nada,icu,ill\nbob,,well\n", person="who")
    assert (owned.persons.tolist(), owned.samples.tolist()) == (["ada", "bob"], [("icu",), ("",)])
    sets = raw(tmp_path, "ward,ill,well\nicu,1,1\n,0,1\n", label='["ill", "well"]')
    assert (sets.labels.tolist(), sets.samples.tolist()) == ([[True, True], [False, True]], [("icu",), ("",)])


def test_the_columns_of_json_lines_are_the_operators_not_those_of_a_record(tmp_path):
    lines = '{"age": 61, "outcome": "ill"}\n{"ward": "icu", "rare": 1, "outcome": "well"}\n'
    with pytest.raises(InvalidInput, match="name its feature columns in features"):
        raw(tmp_path, lines, name="raw.jsonl")
    own = raw(tmp_path, lines, 'features = ["age", "ward", "dose"]\n', name="raw.jsonl")
    assert own.samples.dtype.names == ("age", "ward", "dose")
    assert own.samples["ward"].tolist() == ["", "icu"]
    assert np.isnan(own.samples["dose"]).all()


@pytest.mark.parametrize(
    ("content", "more", "said"),
    [
        (RAW, 'features = ["aage"]\n', "no column 'aage'.*did you mean 'age'"),
        (RAW.replace(",ill", ",sick"), "", "row 2: the label is not one of the classes"),
        (RAW, ENGINE, "an engine counts numbers"),
        ("outcome\nill\n", "", "no feature columns are left"),
        ("age,outcome\n", "", "there are no records"),
    ],
)
def test_what_is_wrong_with_raw_rows_is_told_to_the_operator(tmp_path, content, more, said):
    with pytest.raises(InvalidInput, match=said):
        raw(tmp_path, content, more)


def test_an_array_has_no_columns_for_an_encoder(tmp_path):
    np.savez(tmp_path / "raw.npz", X=np.eye(2), outcome=np.array(["ill", "well"]))
    (tmp_path / "node.toml").write_text(FILE.format(data="raw.npz") + MIXED)
    with pytest.raises(InvalidInput, match="needs a table with named columns"):
        node_records(read_node_file(tmp_path / "node.toml"), None, LoadedArrays())


# Images in folders

IMAGES = FILE.replace('label = "outcome"\n', 'kind = "images"\nshape = [4, 4, 1]\n')


@pytest.fixture
def scans(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    for place, name in enumerate(("ill", "well")):
        (tmp_path / "scans" / name).mkdir(parents=True)
        pillow.fromarray(np.full((8, 8), 200 * place, dtype=np.uint8)).save(tmp_path / "scans" / name / "1.png")
    (tmp_path / "node.toml").write_text(IMAGES.format(data="scans"))
    return tmp_path


def images(folder, arrays=None, person=None):
    return reveal(node_records(read_node_file(folder / "node.toml"), person, arrays or LoadedArrays())[0])


def test_images_of_a_folder_have_the_shape_of_the_node_s_file(scans):
    arrays = LoadedArrays()
    own = images(scans, arrays)
    assert (own.samples.shape, own.samples.dtype, own.labels.tolist()) == ((2, 4, 4), np.uint8, [0, 1])
    assert own.samples.reshape(2, -1).tolist() == [[0] * 16, [200] * 16]
    images(scans, arrays)
    assert arrays.reads == 1
    # A file in a folder of the folder is changed, too.
    (scans / "scans" / "ill" / "1.png").write_bytes((scans / "scans" / "well" / "1.png").read_bytes())
    assert images(scans, arrays).samples.min() == 200
    assert arrays.reads == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("shape = [4, 4, 1]", ""), "images need their shape"),
        (("shape = [4, 4, 1]", 'shape = [4, 4, 1]\nlabel = "ill"'), "and no label"),
        (("shape = [4, 4, 1]", "shape = [4, 4, 2]"), "must be height, width"),
        (('kind = "images"', ""), 'shape is for kind = "images"'),
        (('kind = "images"\nshape = [4, 4, 1]', ""), "label: is missing"),
        (("scans", "node.toml"), "not a folder"),
        (('"well"', '"fine"'), "is not one of the classes"),
    ],
)
def test_what_is_wrong_with_images_is_told_to_the_operator(scans, change, said):
    (scans / "node.toml").write_text(IMAGES.format(data="scans").replace(*change))
    with pytest.raises(InvalidInput, match=said):
        images(scans)


def test_an_image_that_cannot_be_read_and_persons_are_told_to_the_operator(scans):
    with pytest.raises(InvalidInput, match="have no column 'patient'"):
        images(scans, person="patient")
    (scans / "scans" / "ill" / "1.png").write_bytes(b"no image")
    with pytest.raises(InvalidInput, match=r"1.png: cannot be read as an image"):
        images(scans)


def test_an_image_that_becomes_unusable_while_the_node_serves_casts_an_empty_vote(scans, caplog):
    arrays = LoadedArrays()
    images(scans, arrays)
    (scans / "scans" / "ill" / "1.png").write_bytes(b"no image")
    (scans / "scans" / "other").mkdir()
    (scans / "scans" / "other" / "1.png").write_bytes((scans / "scans" / "well" / "1.png").read_bytes())
    assert images(scans, arrays).labels.tolist() == [-1, -1, 1]
    assert "some cast empty votes" in caplog.text  # the operator hears of it
    assert arrays.reads == 2


def test_a_raw_row_that_becomes_unusable_while_the_node_serves_casts_an_empty_vote(tmp_path):
    arrays = LoadedArrays()
    for content, labels in ((RAW, [0, 1, 1]), (RAW + "50,icu,,unknown\n", [0, 1, 1, -1])):
        own = raw(tmp_path, content, arrays=arrays)
        assert own.labels.tolist() == labels
    assert arrays.reads == 2


def test_one_long_text_does_not_decide_on_the_memory_of_all(tmp_path):
    own = raw(tmp_path, "note,outcome\n" + "a" * 50_000 + ",ill\nb,well\n")
    assert own.samples["note"].dtype.itemsize == 4 * LONGEST_CELL
