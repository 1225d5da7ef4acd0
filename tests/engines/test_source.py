"""Every form of a source is read as the same records; what is wrong with one is told before anything is paid."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Unit
from tacit.core.randomness import SystemRandomness
from tacit.engines import file_fragments
from tacit.engines import source as sources
from tacit.engines.fragments import number_table
from tacit.engines.records import streamed_records
from tacit.engines.source import RecordSource, source_digest
from tests.engines.holdings import CLASSES, TABLES, arrays, in_memory, table, threads

RECORDS = table(6000)
EXPECTED = in_memory("votes", RECORDS)
COLUMNS = tuple(f"f{place}" for place in range(4))


def parquet_folder(folder):
    for number in range(3):
        pa.parquet.write_table(
            RECORDS.slice(number * 2000, 2000), folder / f"part-{number}.parquet", row_group_size=700
        )
    return folder


def pattern(folder):
    return f"{parquet_folder(folder)}/part-*.parquet"


def csv(folder):
    pa.csv.write_csv(RECORDS, folder / "records.csv")
    return folder / "records.csv"


def tabs(folder):
    options = pa.csv.WriteOptions(delimiter="\t")
    pa.csv.write_csv(RECORDS, folder / "records.tsv", options)
    return folder / "records.tsv"


def arrow(folder):
    pa.feather.write_feather(RECORDS, str(folder / "records.arrow"), compression="uncompressed", chunksize=900)
    return folder / "records.arrow"


def data_set(folder):
    return pa.dataset.dataset(parquet_folder(folder))


def in_memory_set(folder):
    return pa.dataset.dataset(RECORDS)


def files(folder):
    return sorted(parquet_folder(folder).iterdir())


def opened(records, **more):
    source = RecordSource(records, "label", **{"features": COLUMNS, **more}).open()
    return streamed_records(source, threads(2), np.array(CLASSES), None, (4,))


@pytest.mark.parametrize("form", [parquet_folder, pattern, csv, tabs, arrow, data_set, in_memory_set, files])
def test_every_form_counts_the_same(form, tmp_path):
    records = opened(form(tmp_path))
    assert records.source.rows == 6000
    assert np.array_equal(records.total(TABLES["votes"], Unit(), SystemRandomness()), EXPECTED)


@pytest.mark.parametrize("form", [parquet_folder, csv, tabs, arrow, data_set])
def test_the_number_of_records_is_right_however_files_are_divided(form, tmp_path, monkeypatch):
    """Every part of a Parquet file was taken to have all its rows, so that files of several parts had too many."""
    monkeypatch.setattr(sources, "FRAGMENT_ROWS", 700)
    monkeypatch.setattr(file_fragments, "PIECE", 5000)
    records = opened(form(tmp_path))
    assert len(records.source.fragments) >= (1 if form is arrow else 8)
    assert records.source.rows == records.units(Unit()) == 6000
    assert np.array_equal(records.total(TABLES["votes"], Unit(), SystemRandomness()), EXPECTED)


def test_a_mapped_array_counts_the_same(tmp_path):
    samples, _ = arrays(RECORDS)
    np.save(tmp_path / "X.npy", samples)
    np.save(tmp_path / "y.npy", np.array(RECORDS.column("label").to_pylist()))
    np.save(tmp_path / "who.npy", np.array(RECORDS.column("who").to_pylist()))
    beside = {"label": str(tmp_path / "y.npy"), "persons": str(tmp_path / "who.npy")}
    source = RecordSource(tmp_path / "X.npy", **beside).open()
    records = streamed_records(source, threads(), np.array(CLASSES), None, (4,))
    assert np.array_equal(records.total(TABLES["votes"], Unit(), SystemRandomness()), EXPECTED)
    unit = Unit.person("who", 1)
    assert records.units(unit) == len(set(RECORDS.column("who").to_pylist()))
    assert records.total(TABLES["votes"], unit, SystemRandomness()).sum() <= 2 * records.units(unit)


def test_persons_are_bounded_over_all_files(tmp_path):
    records = opened(parquet_folder(tmp_path), persons="who")
    counted = records.total(TABLES["votes"], Unit.person("who", 10**6), SystemRandomness())
    assert np.array_equal(counted, EXPECTED)
    # One record of everybody, of whom some have no number or no class.
    once = records.total(TABLES["votes"], Unit.person("who", 1), SystemRandomness())
    people = len(set(RECORDS.column("who").to_pylist()))
    assert 0 < once.sum() <= 2 * people < counted.sum()


def test_a_cell_of_a_csv_file_spoils_its_own_record_alone(tmp_path):
    clean = "f0,f1,f2,f3,label\n" + "0.5,1,2,3,ill\n" * 5
    (tmp_path / "a.csv").write_text(clean)
    whole = opened(tmp_path / "a.csv", persons=None).total(TABLES["votes"], Unit(), SystemRandomness())
    for cell in (b"many", b"", b"1_000", b'"a ""quoted"" cell"', b"\xff\xfe", "−3".encode()):
        (tmp_path / "b.csv").write_bytes(clean.encode() + cell + b",1,2,3,ill\n")
        spoiled = opened(tmp_path / "b.csv").total(TABLES["votes"], Unit(), SystemRandomness())
        assert np.array_equal(spoiled, whole), cell


def test_a_class_written_as_a_number_is_the_same_class(tmp_path):
    content = pa.table({**{name: RECORDS.column(name) for name in COLUMNS}, "label": np.arange(6000) % 3})
    pa.parquet.write_table(content, tmp_path / "a.parquet")
    source = RecordSource(tmp_path / "a.parquet", "label").open()
    by_text = streamed_records(source, threads(), np.array(["0", "1", "2"]), COLUMNS, (4,))
    by_number = streamed_records(source, threads(), np.arange(3), COLUMNS, (4,))
    first, second = (each.total(TABLES["votes"], Unit(), SystemRandomness()) for each in (by_text, by_number))
    assert np.array_equal(first, second)
    assert first.sum() > 0


def test_columns_are_matched_by_name(tmp_path):
    pa.parquet.write_table(RECORDS.select(["who", "f3", "label", "f1", "f0", "f2"]), tmp_path / "a.parquet")
    source = RecordSource(tmp_path / "a.parquet", "label", persons="who").open()
    records = streamed_records(source, threads(), np.array(CLASSES), COLUMNS, (4,))
    assert np.array_equal(records.total(TABLES["votes"], Unit(), SystemRandomness()), EXPECTED)
    backwards = records.in_order([3, 2, 1, 0])
    assert backwards.reading.columns == ("f3", "f2", "f1", "f0")


def test_what_is_wrong_with_a_source_is_told_without_a_cell(tmp_path):
    (tmp_path / "bad.csv").write_text("f0,label\n1,ill\n2,well,secret\n")
    (tmp_path / "empty.csv").write_text("f0,label\n")
    (tmp_path / "note.txt").write_text("secret")
    (tmp_path / "broken.parquet").write_bytes(b"secret")
    pa.parquet.write_table(RECORDS, tmp_path / "a.parquet")
    pa.parquet.write_table(RECORDS.drop_columns(["f0"]), tmp_path / "b.parquet")
    np.save(tmp_path / "X.npy", np.zeros((3, 2)))
    np.save(tmp_path / "y.npy", np.zeros(4))
    wrong = [
        (RecordSource(tmp_path / "bad.csv", "label"), "cannot be read as a table"),
        (RecordSource(tmp_path / "empty.csv", "label"), "there are no records"),
        (RecordSource(tmp_path / "note.txt", "label"), "cannot be streamed"),
        (RecordSource(tmp_path / "none.parquet", "label"), "no such file"),
        (RecordSource(tmp_path / "*.orc", "label"), "there is no file that can be streamed"),
        (RecordSource(tmp_path / "broken.parquet", "label"), "not a parquet file"),
        (RecordSource(tmp_path / "a.parquet", "lable"), "did you mean 'label'"),
        (RecordSource(tmp_path / "a.parquet"), "column of labels"),
        (RecordSource([tmp_path / "a.parquet", tmp_path / "b.parquet"], "label"), "has no column 'f0'"),
        (RecordSource([tmp_path / "a.parquet", tmp_path / "a.parquet"], "label"), "would count twice"),
        (RecordSource([tmp_path / "a.parquet", tmp_path / "bad.csv"], "label"), "must have one format"),
        (RecordSource(tmp_path / "a.parquet", "label", ["label"]), "cannot be a feature"),
        (RecordSource(tmp_path / "X.npy", str(tmp_path / "y.npy")), "one value per sample"),
        (RecordSource(tmp_path / "X.npy", "label"), "no such .npy file"),
        (RecordSource(7, "label"), "got int"),
    ]
    for source, words in wrong:
        with pytest.raises(InvalidInput, match=words) as told:
            source.open()
        assert "secret" not in str(told.value)


@pytest.mark.parametrize("way", ["through another folder", "a link beside it", "a linked folder"])
def test_a_file_that_is_found_under_two_names_is_refused(way, tmp_path):
    folder = tmp_path / "records"
    folder.mkdir()
    pa.parquet.write_table(RECORDS, folder / "a.parquet")
    if way == "a link beside it":
        (folder / "b.parquet").symlink_to(folder / "a.parquet")
        records = folder
    else:
        (tmp_path / "linked").symlink_to(folder)
        other = folder / ".." / "records" if way == "through another folder" else tmp_path / "linked"
        records = [folder / "a.parquet", other / "a.parquet"]
    with pytest.raises(InvalidInput, match="would count twice"):
        RecordSource(records, "label").open()


def test_a_source_is_described_without_its_records(tmp_path):
    with pytest.raises(InvalidInput, match="a list of columns"):
        RecordSource("a.csv", "label", "f0")
    with pytest.raises(InvalidInput, match="both the label and the person"):
        RecordSource("a.csv", "label", persons="label")
    records = opened(parquet_folder(tmp_path))
    assert "6000" not in repr(records) + repr(records.source)
    digest = source_digest(records.source.given)
    assert digest == source_digest(records.source.given)
    (tmp_path / "part-0.parquet").touch()
    assert digest != source_digest(records.source.given)


def test_records_of_another_width_are_refused(tmp_path):
    source = RecordSource(parquet_folder(tmp_path), "label", COLUMNS[:3]).open()
    with pytest.raises(InvalidInput, match="3 feature columns"):
        streamed_records(source, threads(), np.array(CLASSES), None, (4,))
    with pytest.raises(InvalidInput, match="no feature column 'f3'"):
        streamed_records(source, threads(), np.array(CLASSES), COLUMNS, (4,))


def test_narrow_columns_are_the_same_numbers_as_wide_ones():
    # Columns of float32 alone are converted together, and beside others one by one.
    values = np.random.default_rng(2).normal(size=(50, 3)).astype(np.float32)
    values[0] = (np.inf, -0.0, 1e-45)
    columns = {str(place): pa.array(values[:, place], mask=np.arange(50) == place + 1) for place in range(3)}
    together = number_table(pa.table(columns))
    beside = number_table(pa.table({**columns, "more": pa.array(range(50))}))
    assert together.dtype == np.float64
    assert together.flags.c_contiguous
    assert together.tobytes() == np.ascontiguousarray(beside[:, :3]).tobytes()
    assert np.isnan(together[[1, 2, 3], [0, 1, 2]]).all()
    assert number_table(pa.table({"a": pa.array([], pa.float32())})).shape == (0, 1)
