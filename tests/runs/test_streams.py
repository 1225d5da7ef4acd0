"""The one door with a record source: the same run as in memory, paid before a record is read."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import tacit
from tacit.core.errors import BudgetExceeded, InvalidInput
from tacit.core.guarantee import Unit
from tacit.engines.fragments import ArrowFragment
from tacit.ledger import Ceiling, open_ledger

COLUMNS = ["age", "dose", "weight"]
CLASSES = ["ill", "well"]
GENERATOR = np.random.default_rng(5)
LABELS = GENERATOR.integers(0, 2, 3000)
RECORDS = pd.DataFrame(GENERATOR.normal(size=(3000, 3)) + 2 * LABELS[:, None], columns=COLUMNS)
PUBLIC = pd.DataFrame(GENERATOR.normal(size=(200, 3)) + 2 * GENERATOR.integers(0, 2, 200)[:, None], columns=COLUMNS)
NAMES = np.array(CLASSES)[LABELS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    ward = np.where(LABELS == 1, "north", "south")
    table = pa.table({**RECORDS, "outcome": NAMES, "who": [f"p{row % 900}" for row in range(3000)], "ward": ward})
    for number in range(3):
        pa.parquet.write_table(table.slice(1000 * number, 1000), folder / f"{number}.parquet", row_group_size=300)
    return folder


def source(folder, **more):
    return tacit.RecordSource(f"{folder}/*.parquet", **{"label": "outcome", "features": COLUMNS, **more})


@pytest.mark.parametrize("options", [{"method": "rknn"}, {"method": "class_sums"}, {"delta": 1e-6}])
def test_a_streamed_run_is_the_run_in_memory(options, folder):
    common = {"classes": CLASSES, "seed": 3, "request": "r", **options}
    memory = tacit.distill((RECORDS, NAMES), PUBLIC, 2, **common)
    streamed = tacit.distill(source(folder), PUBLIC, 2, **common, engine=tacit.Engine("threads", workers=2))
    assert (memory.labels == streamed.labels).all()
    assert memory.arrays.keys() == streamed.arrays.keys()
    for name in memory.arrays:
        assert np.array_equal(memory.arrays[name], streamed.arrays[name]), name
    assert memory.recipe == streamed.recipe
    assert streamed.guarantee == memory.guarantee


def test_a_mixed_table_is_encoded_batch_by_batch(folder):
    wards = np.where(LABELS == 1, "north", "south")
    public = PUBLIC.assign(ward=np.where(PUBLIC["age"] > 1, "north", "south"))
    common = {"classes": CLASSES, "seed": 3, "method": "class_sums", "delta": 1e-6}
    memory = tacit.distill((RECORDS.assign(ward=wards), NAMES), public, 2, **common)
    streamed = tacit.distill(f"{folder}/*.parquet", public, 2, label="outcome", **common)
    assert np.array_equal(memory.arrays["sums"], streamed.arrays["sums"])


def test_persons_are_protected_over_all_files(folder):
    run = tacit.distill(
        source(folder, persons="who"), PUBLIC, 2, classes=CLASSES, method="rknn", unit=Unit.person("who", 2), seed=1
    )
    assert run.guarantee.unit == Unit.person("who", 2)
    with pytest.raises(InvalidInput, match="the unit is a person"):
        tacit.distill(source(folder), PUBLIC, 2, classes=CLASSES, unit=Unit.person("who", 2), seed=1)
    with pytest.raises(InvalidInput, match="in the record source"):
        tacit.distill(source(folder), PUBLIC, 2, classes=CLASSES, persons="who", seed=1)


def test_no_record_is_read_before_it_is_paid_for(folder, monkeypatch):
    read, blocks = [], ArrowFragment.blocks
    monkeypatch.setattr(ArrowFragment, "blocks", lambda self, *names: read.append(names) or blocks(self, *names))
    book = open_ledger("memory:", {"clinic": Ceiling(1)})
    charge = book.charge

    def charged(*arguments):
        assert not read
        return charge(*arguments)

    monkeypatch.setattr(book, "charge", charged)
    run = tacit.distill(source(folder), PUBLIC, 1, classes=CLASSES, method="rknn", ledger=book, account="clinic")
    assert len(run.receipts) == 1
    assert len(read) == 3
    with pytest.raises(BudgetExceeded):
        tacit.distill(source(folder), PUBLIC, 1, classes=CLASSES, method="rknn", ledger=book, account="clinic")
    assert len(read) == 3


def test_files_that_are_lost_after_the_payment_tell_nothing(folder, monkeypatch):
    def lost(self, *names):
        raise OSError("the file of a private person is gone")
        yield

    book = open_ledger("memory:", {"clinic": Ceiling(1)})
    monkeypatch.setattr(ArrowFragment, "blocks", lost)
    run = tacit.distill(source(folder), PUBLIC, 1, classes=CLASSES, method="rknn", ledger=book, account="clinic")
    assert len(run.labels) == 200


@pytest.mark.parametrize("method", ["pate", "fedmd", "privatekt", "private_knn", "noisy_sgd"])
def test_methods_that_need_records_in_memory_are_refused_before_a_file_is_looked_at(method):
    with pytest.raises(InvalidInput, match=f"{method} needs all records in memory.*Nothing was charged"):
        tacit.distill("nowhere/*.parquet", PUBLIC, 1, classes=CLASSES, method=method, label="outcome")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"holders": 3}, "belongs to one holder"),
        ({"trust": "local"}, "central trust"),
        ({"classes": None}, "classes must be given"),
        ({"method": "rknn", "private_cache": "cache"}, "private_cache"),
        ({"method": "rknn", "max_labels": 2}, "one label each"),
        ({"engine": "sparc"}, "did you mean spark"),
        ({"engine": 3}, "got int"),
    ],
)
def test_what_cannot_be_streamed_is_refused_before_it_is_paid(options, words, folder):
    book = open_ledger("memory:", {"clinic": Ceiling(1)})
    before = book.balance("clinic")
    common = {"classes": CLASSES, "ledger": book, "account": "clinic"}
    with pytest.raises(InvalidInput, match=words):
        tacit.distill(source(folder), PUBLIC, 1, **{**common, **options})
    assert book.balance("clinic") == before


def test_an_engine_without_a_source_is_refused():
    with pytest.raises(InvalidInput, match="in place"):
        tacit.distill((RECORDS, NAMES), PUBLIC, 1, classes=CLASSES, engine="threads")
    with pytest.raises(InvalidInput, match="leave out the address"):
        tacit.Engine("threads", address="there")
