"""CSV and Arrow files are read in flat memory, in parts that give the same records however they are cut."""

import csv
import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pytest

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Unit
from tacit.core.randomness import SystemRandomness
from tacit.engines import file_fragments, source
from tacit.engines.records import streamed_records
from tacit.engines.source import RecordSource
from tests.engines.holdings import CLASSES, TABLES, in_memory, table, threads

RECORDS = table(3000)
EXPECTED = in_memory("votes", RECORDS)
COLUMNS = [f"f{place}" for place in range(4)]
STATUS = Path("/proc/self/status")


def rows_of(file, columns=("f0", "note")):
    """All rows of a file as the engines read them, and their number as it was found when the file was opened."""
    opened = RecordSource(file, "label", columns).open()
    found = []
    for fragment in opened.fragments:
        for block in fragment.blocks(columns, "label", None):
            cells = [*(block.samples.column(name).to_pylist() for name in columns), block.labels.to_pylist()]
            found += zip(*cells, strict=True)
    assert len(found) == opened.rows
    assert len({fragment.name for fragment in opened.fragments}) == len(opened.fragments)
    return found, len(opened.fragments)


NOTES = ["plain", "two\nlines", "two\r\nlines", 'a "quoted" word', "a, comma", "", "\ufeffmark", "x" * 90]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("piece", [7, 64, 100, 1000, 2**21])
def test_lines_are_whole_however_a_csv_file_is_cut(ends, piece, tmp_path, monkeypatch):
    monkeypatch.setattr(file_fragments, "PIECE", piece)
    monkeypatch.setattr(source, "FRAGMENT_ROWS", 6)
    # A line break within quotes is a cell's own where lines end with a carriage return alone, too.
    notes = [note for note in NOTES if ends == "\n" or "\n" not in note]
    rows = [(str(number), notes[number % len(notes)], "ill") for number in range(40)]
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file, lineterminator=ends)
        writer.writerows([("f0", "note", "label"), *rows[:20]])
        file.write(2 * ends)
        writer.writerows(rows[20:])
    found, parts = rows_of(tmp_path / "a.csv")
    assert [tuple(cell.decode() for cell in row) for row in found] == rows
    assert parts > 1 or piece > 1000


def test_a_quotation_mark_that_opens_nothing_is_a_cell_like_any_other(tmp_path, monkeypatch):
    monkeypatch.setattr(file_fragments, "PIECE", 50)
    (tmp_path / "a.csv").write_text("f0,note,label\n" + '1,5" pipe,ill\n2,6 pipes,well\n' * 30)
    found, _ = rows_of(tmp_path / "a.csv")
    assert found == [(b"1", b'5" pipe', b"ill"), (b"2", b"6 pipes", b"well")] * 30


def test_a_line_that_is_too_long_is_refused_when_the_file_is_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(file_fragments, "PIECE", 100)
    monkeypatch.setattr(file_fragments, "LONGEST_LINE", 1000)
    (tmp_path / "a.csv").write_text("f0,label\n1,ill\n1," + "secret" * 400 + "\n1,ill\n")
    with pytest.raises(InvalidInput, match="cannot be read as a table") as told:
        RecordSource(tmp_path / "a.csv", "label").open()
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("most", [1, 500, 10**6])
def test_a_csv_file_is_divided_among_workers_and_persons_are_bounded_over_its_parts(most, tmp_path, monkeypatch):
    monkeypatch.setattr(file_fragments, "PIECE", 5000)
    monkeypatch.setattr(source, "FRAGMENT_ROWS", most)
    pa.csv.write_csv(RECORDS, tmp_path / "a.csv")
    opened = RecordSource(tmp_path / "a.csv", "label", COLUMNS, "who").open()
    assert len(opened.fragments) > 2 or most > 500
    records = streamed_records(opened, threads(2), np.array(CLASSES), None, (4,))
    many = records.total(TABLES["votes"], Unit.person("who", 10**6), SystemRandomness())
    assert np.array_equal(many, EXPECTED)
    one = records.total(TABLES["votes"], Unit.person("who", 1), SystemRandomness())
    assert 0 < one.sum() <= 2 * len(set(RECORDS.column("who").to_pylist())) < many.sum()


def arrow(file, content, **options):
    with pa.ipc.new_file(str(file), content.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(content)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("batch", [1, 700, 3000])
def test_an_arrow_file_counts_the_same_whatever_its_record_batches(batch, compression, tmp_path):
    content = RECORDS.slice(0, 1000 if batch == 1 else None)
    # A column that is not asked for, labels as codes of a dictionary, and columns in another order.
    content = content.append_column("more", [pa.array([[each] for each in range(content.num_rows)])])
    label = content.schema.get_field_index("label")
    content = content.set_column(label, "label", content.column("label").dictionary_encode())
    content = content.select(["more", "label", "f2", "f0", "who", "f1", "f3"]).unify_dictionaries()
    with pa.ipc.new_file(
        str(tmp_path / "a.arrow"), content.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        for part in content.to_batches(max_chunksize=batch):
            writer.write_batch(part)
    opened = RecordSource(tmp_path / "a.arrow", "label", COLUMNS).open()
    assert opened.rows == content.num_rows
    records = streamed_records(opened, threads(), np.array(CLASSES), None, (4,))
    expected = in_memory("votes", RECORDS.slice(0, content.num_rows))
    assert np.array_equal(records.total(TABLES["votes"], Unit(), SystemRandomness()), expected)


@pytest.mark.parametrize("form", ["csv", "arrow"])
def test_workers_are_sent_places_and_read_the_same_records(form, tmp_path):
    file = tmp_path / f"a.{form}"
    pa.csv.write_csv(RECORDS, file) if form == "csv" else arrow(file, RECORDS)
    opened = RecordSource(file, "label", COLUMNS).open()
    sent = pickle.dumps(opened.fragments)
    assert len(sent) < 1000
    # No matter where a worker runs.
    there = dataclasses.replace(opened, fragments=pickle.loads(sent))
    assert all(Path(fragment.file).is_absolute() for fragment in there.fragments)
    records = streamed_records(there, threads(), np.array(CLASSES), None, (4,))
    assert np.array_equal(records.total(TABLES["votes"], Unit(), SystemRandomness()), EXPECTED)


def peak_megabytes(work):
    """The most memory of this process while something is done."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pytest.skip("the peak of memory can be measured anew on Linux only")
    work()
    return next(int(line.split()[1]) / 1024 for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))


def wide(rows):
    generator = np.random.default_rng(1)
    columns = {f"f{place}": generator.normal(size=rows) for place in range(4)}
    return pa.table({**columns, "label": generator.choice(CLASSES, rows)})


def write_mapped(folder, content):
    samples = np.column_stack([content.column(name).to_numpy() for name in COLUMNS])
    np.save(folder / "X.npy", samples)
    np.save(folder / "y.npy", np.array(content.column("label").to_pylist()))
    return folder / "X.npy"


def write_csv(folder, content):
    pa.csv.write_csv(content, folder / "a.csv")
    return folder / "a.csv"


def write_arrow(folder, content):
    # As from a data frame: all rows in one record batch.
    arrow(folder / "a.arrow", content.combine_chunks())
    return folder / "a.arrow"


def write_parquet(folder, content):
    pa.parquet.write_table(content, folder / "a.parquet", row_group_size=2**16)
    return folder / "a.parquet"


@pytest.mark.parametrize("write", [write_csv, write_arrow, write_parquet, write_mapped])
def test_many_times_as_many_rows_need_no_more_memory(write, tmp_path):
    def counted(file, rows):
        label = "label" if file.suffix != ".npy" else str(file.with_name("y.npy"))
        opened = RecordSource(file, label, None if file.suffix == ".npy" else COLUMNS).open()
        records = streamed_records(opened, threads(), np.array(CLASSES), None, (4,))
        assert 0 < records.total(TABLES["votes"], Unit(), SystemRandomness()).sum() <= 2 * rows

    files = []
    for rows in (200_000, 1_500_000):
        (tmp_path / str(rows)).mkdir()
        files.append((write(tmp_path / str(rows), wide(rows)), rows))
    counted(*files[0])
    few, many = (peak_megabytes(lambda given=each: counted(*given)) for each in files)
    more = (files[1][0].stat().st_size - files[0][0].stat().st_size) / 2**20
    assert more > 38
    assert many - few < more / 2, (few, many, more)
