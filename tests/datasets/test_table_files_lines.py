"""JSON lines, Arrow files and compressed text: what is wrong is named by its row, and no cell is shown."""

import gzip
import sys

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.datasets.table_files import read_arrow, read_csv, read_json_lines
from tacit.datasets.tables import read_data


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n\n", "the file has no rows"),
        ('{"age": 61, "age": 62}\n', "row 1 has the same key twice"),
        ('{"age": 61}\n{"age": \n', "row 2 is not JSON"),
        ("[61]\n", "row 1 is not an object"),
        ('{"age": [61]}\n', "row 1, column 'age': a list or an object"),
        ('{"age": 61, "outcome": "ill"}\n{"age": 62}\n', "row 2, column 'outcome': the value is missing"),
        ('{"age": 61}\n', "outcome"),
    ],
)
def test_lines_that_are_no_rows_are_refused_by_their_number(text, said, tmp_path):
    file = tmp_path / "records.jsonl"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=said) as refused:
        read_json_lines(file, "outcome", None) if "outcome" in said else read_json_lines(file, None, None)
    assert "61" not in str(refused.value).replace(str(tmp_path), "")


def test_lines_have_persons_and_labels(tmp_path):
    file = tmp_path / "records.jsonl"
    file.write_text('{"age": 61, "who": 7, "outcome": " ill "}\n')
    found = read_json_lines(file, "outcome", "who")
    assert (found.columns, found.labels.tolist(), found.persons.tolist()) == (("age",), ["ill"], ["7"])


@pytest.mark.parametrize("name", ["records.parquet", "records.feather"])
def test_arrow_files_are_read_with_label_and_person(name, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    table = arrow.table({"age": [61, 44], "who": ["ada", "bob"], "outcome": ["ill", "well"]})
    write = parquet.write_table if name.endswith("parquet") else feather.write_feather
    write(table, tmp_path / name)
    found = read_arrow(tmp_path / name, "outcome", "who")
    assert (found.columns, found.labels.tolist(), found.persons.tolist()) == (("age",), ["ill", "well"], ["ada", "bob"])
    with pytest.raises(InvalidInput, match="outcom"):
        read_arrow(tmp_path / name, "outcom", None)


def test_an_arrow_file_that_is_none_is_refused_without_its_words(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "records.parquet").write_bytes(b"ada has a cough")
    with pytest.raises(InvalidInput, match="cannot be read as a Parquet file") as refused:
        read_data(tmp_path / "records.parquet")
    assert "cough" not in str(refused.value)


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.feather", None)
    with pytest.raises(InvalidInput, match=r"Arrow files need pyarrow: pip install 'tacit\[tables\]'"):
        read_arrow(tmp_path / "records.arrow", None, None)


def test_compressed_text_that_is_damaged_or_not_utf_8_is_refused(tmp_path):
    file = tmp_path / "records.csv.gz"
    file.write_bytes(b"age,dose\n1,2\n")
    with pytest.raises(InvalidInput, match=r"not compressed as its suffix \.gz says"):
        read_csv(file, None, None)
    file.write_bytes(gzip.compress(b"age,ward\n1,caf\xe9\n"))
    with pytest.raises(InvalidInput, match=r"not a text file in UTF-8 \(row 2, byte 6\)"):
        read_csv(file, None, None)


def test_a_person_that_is_missing_is_refused_by_its_row(tmp_path):
    file = tmp_path / "records.csv"
    file.write_text("age,who\n61,ada\n44, \n")
    with pytest.raises(InvalidInput, match="row 3, column 'who': the person is missing"):
        read_csv(file, None, "who")


@pytest.mark.parametrize(
    ("make", "label", "said"),
    [
        (lambda place: place.mkdir(), "y", "a folder, not a file with columns"),
        (lambda place: None, None, "no such file"),
        (lambda place: np.save(place.with_suffix(".npy"), np.zeros(3)), None, "one row per sample"),
    ],
)
def test_what_is_no_table_is_refused(make, label, said, tmp_path):
    place = tmp_path / "records"
    make(place)
    found = place.with_suffix(".npy") if place.with_suffix(".npy").exists() else place
    with pytest.raises(InvalidInput, match=said):
        read_data(found, label)
