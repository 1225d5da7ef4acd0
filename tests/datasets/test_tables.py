import json

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.datasets.published import digits
from tacit.datasets.table import Table, class_indices, read_classes
from tacit.datasets.tables import align, read_table


@pytest.fixture
def write(tmp_path):
    def make(text, name="records.csv"):
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return make


def test_a_csv_is_read_with_its_label_and_person(write):
    table = read_table(write("age,dose,outcome,who\n61,2.5,well,ada\n\n44,1e3,ill,bob\n"), "outcome", "who")
    assert table.columns == ("age", "dose")
    assert table.samples.tolist() == [[61, 2.5], [44, 1000]]
    assert table.labels.tolist() == ["well", "ill"]
    assert table.persons.tolist() == ["ada", "bob"]


def test_a_csv_longer_than_one_chunk_is_read_whole(write, monkeypatch):
    monkeypatch.setattr("tacit.datasets.table_files.ROWS_AT_A_TIME", 10)
    file = write("x,y\n" + "".join(f"{i},{i % 3}\n" for i in range(25)))
    assert read_table(file).samples[:, 0].tolist() == list(range(25))
    bad = write("x,y\n" + "".join(f"{i},{i % 3}\n" for i in range(25)) + "oops,1\n")
    with pytest.raises(InvalidInput, match=r"row 27, column 'x': not a number"):
        read_table(bad)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("x,y\n", "the file has no rows"),
        ("x,y\n1,two\n", r"row 2, column 'y': not a number"),
        ("x,y\n1,2\n3,\n", r"row 3, column 'y': an empty cell is not a number"),
        ("x,y\n1,2\n3,nan\n", r"row 3, column 'y': not a finite number"),
        ("x,y\n1,inf\n", r"row 2, column 'y': not a finite number"),
        ("x,y\n1,2,3\n", "row 2 has 3 cells, the header 2"),
        ("x,x\n1,2\n", "columns 1 and 2 have the same name"),
        (b"x,y\n1,\xff\n", "not a text file in UTF-8"),
    ],
)
def test_a_bad_csv_is_refused_with_its_place(write, text, said):
    with pytest.raises(InvalidInput, match=said):
        read_table(write(text))


def test_a_wrong_column_is_named_with_the_columns_there_are(write):
    with pytest.raises(InvalidInput, match="no column 'outcome'; the columns are x, y"):
        read_table(write("x,y\n1,2\n"), label="outcome")


def test_only_the_label_is_no_features(write):
    with pytest.raises(InvalidInput, match="no feature columns"):
        read_table(write("y\n1\n"), label="y")


def test_missing_files_and_strange_ones_are_refused(write, tmp_path):
    with pytest.raises(InvalidInput, match="no such file"):
        read_table(tmp_path / "nowhere.csv")
    with pytest.raises(InvalidInput, match=r"cannot read \.xls"):
        read_table(write("x", "records.xls"))
    with pytest.raises(InvalidInput, match="not an npz file"):
        read_table(write("x", "records.npz"))


def test_an_npz_keeps_the_shape_of_its_samples(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.ones((3, 2, 2)), y=np.array([1, 0, 1]), who=np.array(["a", "b", "a"]))
    table = read_table(tmp_path / "a.npz", "y", "who")
    assert table.samples.shape == (3, 2, 2)
    assert table.columns == ("X[0]", "X[1]", "X[2]", "X[3]")
    assert table.labels.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"y": np.arange(3)}, "no array 'X'; the arrays are y"),
        ({"X": np.ones((3, 2))}, "no array 'y'"),
        ({"X": np.ones((3, 2)), "y": np.arange(2)}, r"array 'y' has shape \(2,\) for 3 samples"),
        ({"X": np.ones(3), "y": np.arange(3)}, "one row per sample"),
        ({"X": np.full((3, 2), np.nan), "y": np.arange(3)}, r"row 0, column 'X\[0\]': not a finite number"),
        ({"X": np.array([["a"]]), "y": np.arange(1)}, "must be numbers"),
        ({"X": np.array([[object()]]), "y": np.arange(1)}, "not an npz file of plain arrays"),
    ],
)
def test_a_bad_npz_is_refused(tmp_path, arrays, said):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InvalidInput, match=said):
        read_table(tmp_path / "a.npz", "y")


def test_columns_are_matched_by_name_and_differences_named():
    private = Table("private.csv", ("a", "b"), np.array([[1.0, 2.0]]), named=True)
    assert align(private, Table("p.csv", ("b", "a"), np.zeros((1, 2)))).samples.tolist() == [[2, 1]]
    with pytest.raises(
        InvalidInput, match=r"private\.csv: the columns are not those of p\.csv: missing c, d, unknown b"
    ):
        align(private, Table("p.csv", ("a", "c", "d"), np.zeros((1, 3))))


def test_classes_are_read_from_text_and_files(write):
    assert read_classes("a, b ,c") == ["a", "b", "c"]
    assert read_classes(str(write("ill\nwell\n", "c.txt"))) == ["ill", "well"]
    assert read_classes(str(write(json.dumps(["x", "y"]), "c.json"))) == ["x", "y"]
    assert read_classes(str(write(json.dumps({"classes": [0, 1]}), "schema.json"))) == ["0", "1"]


@pytest.mark.parametrize(
    ("text", "said"), [("a", "at least two"), ("a,a", "twice"), ("no.txt", "cannot read"), ("", "at least two")]
)
def test_bad_class_lists_are_refused(text, said):
    with pytest.raises(InvalidInput, match=said):
        read_classes(text)


def test_a_schema_without_classes_is_refused(write):
    for content in ("{}", "{", '{"classes": 3}'):
        with pytest.raises(InvalidInput, match="classes"):
            read_classes(str(write(content, "s.json")))


def test_labels_find_their_place_and_unseen_ones_are_named():
    assert class_indices(np.array([7, 3]), np.array([3, 7])).tolist() == [1, 0]
    assert class_indices(np.array(["1", "0"]), np.array([0, 1])).tolist() == [1, 0]
    assert class_indices(np.array([1, 0]), np.array(["0", "1"])).tolist() == [1, 0]
    with pytest.raises(InvalidInput, match=r"records.csv: row 3: the label is not one of the classes \(no, yes\)"):
        class_indices(np.array(["yes", "maybe"]), np.array(["no", "yes"]), "records.csv", 2)


def test_the_digits_are_fixed_and_disjoint():
    parts = digits()
    rows = np.concatenate([parts.private_samples, parts.public_samples, parts.test_samples])
    assert rows.shape == (1797, 64)
    again = digits()
    assert np.array_equal(parts.private_samples, again.private_samples)
    # Every digit of the set is there once: the parts partition it.
    from sklearn.datasets import load_digits

    assert sorted(map(tuple, rows)) == sorted(map(tuple, load_digits().data))
