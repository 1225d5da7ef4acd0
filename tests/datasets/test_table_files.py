"""Text files as spreadsheets write them: each works, or says what is wrong and where."""

import pytest

from tacit.core.errors import InvalidInput
from tacit.datasets.tables import read_table


@pytest.fixture
def write(tmp_path):
    def make(text, name="records.csv"):
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return make


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbfx,y\n1,2\n3,4\n",
        "x,y\r\n1,2\r\n3,4\r\n",
        "x,y\r1,2\r3,4\r",
        "x;y\n1;2\n3;4\n",
        "x\ty\n1\t2\n3\t4\n",
        '"x", "y"\n"1", 2\n3,4\n',
        " x , y \n 1 , 2 \n 3 , 4 \n",
        "\n\nx,y\n1,2\n\n   \n3,4\n\n",
        '"x","y"\n1,2\n3,4',
    ],
    ids=["bom", "crlf", "cr", "semicolons", "tabs", "quotes", "spaces", "blank lines", "no last line break"],
)
def test_the_ways_to_write_a_table_are_all_the_same_table(write, text):
    table = read_table(write(text))
    assert table.columns == ("x", "y")
    assert table.samples.tolist() == [[1, 2], [3, 4]]


def test_a_quoted_name_may_hold_a_separator(write):
    assert read_table(write('"a,b";c\n1;2\n')).columns == ("a,b", "c")
    assert read_table(write('"a;b",c\n1,2\n')).columns == ("a;b", "c")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x,y\n\n\n1,2\n\nseven,4\n", r"row 6, column 'x': not a number"),
        ("\nx,y\n\n1,nan\n", r"row 4, column 'y': not a finite number"),
        ("x,y\n1,1e300\n", r"row 2, column 'y': too large"),
        ("x,y\n\n1,2\n-1e39,2\n", r"row 4, column 'x': too large"),
        ('x,y,z\n"1\n",2,3\n4,5,z\n', r"row 4, column 'z'"),
        ("x,y\n\n1,2,3\n", r"row 3 has 3 cells, the header 2"),
        ("x,y\n1_000,2\n", r"row 2, column 'x': not a number"),
        ("x,sex\n1,male\n2,female\n", r"row 2, column 'sex': not a number.*or leave the column out.*"
                                      r"If it is the label, remove it: public samples are unlabeled"),
        ("x;y\n1,5;2\n", r"row 2, column 'x': not a number; write decimals with a point"),
        ("x,y,x\n1,2,3\n", r"columns 1 and 3 have the same name; rename one"),
        (",x,y\n0,1,2\n", r"column 1 has no name"),
        ("x,y,\n1,2,\n", r"column 3 has no name"),
        ("x,y\r\n", r"the file has no rows"),
        ("\n\n", r"the file is empty"),
        ("größe,y\n1,2\n".encode("latin-1"), r"not a text file in UTF-8 \(row 1, byte 3\); save it as UTF-8"),
        ("x,y\n1,2\n".encode("utf-16"), r"not a text file in UTF-8 \(row 1, byte 1\)"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_with_its_line(write, text, said):
    with pytest.raises(InvalidInput, match=said):
        read_table(write(text))


def test_a_text_column_beside_a_label_is_not_taken_for_the_label(write):
    with pytest.raises(InvalidInput, match="turn text into numbers") as refused:
        read_table(write("x,sex,y\n1,male,ill\n"), label="y")
    assert "If it is the label" not in str(refused.value)


def test_underscores_of_labels_are_no_numbers_and_no_matter(write):
    table = read_table(write("x,y\n1,very_ill\n"), label="y")
    assert table.labels.tolist() == ["very_ill"]


def test_labels_and_persons_lose_their_spaces(write):
    table = read_table(write("x,y,who\n1, ill ,ada\n2,ill, ada\n"), "y", "who")
    assert set(table.labels) == {"ill"}
    assert set(table.persons) == {"ada"}


@pytest.mark.parametrize("missing", ["", "  ", "nan", "NaN"])
def test_a_missing_label_is_named_with_its_row(write, missing):
    with pytest.raises(InvalidInput, match="row 4, column 'y': the label is missing"):
        read_table(write(f"x,y\n1,ill\n\n2,{missing}\n"), "y")


def test_one_column_is_not_label_and_person(write):
    with pytest.raises(InvalidInput, match="'y' cannot be both the label and the person column"):
        read_table(write("x,y\n1,2\n"), "y", "y")


def test_a_name_that_is_too_long_is_refused_in_words(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_table(tmp_path / ("n" * 300 + ".csv"))


def test_every_row_keeps_its_number_across_chunks(write, monkeypatch):
    monkeypatch.setattr("tacit.datasets.table_files.ROWS_AT_A_TIME", 3)
    table = read_table(write("x,y\n" + "1,2\n\n" * 7))
    assert table.rows.tolist() == [2, 4, 6, 8, 10, 12, 14]
    with pytest.raises(InvalidInput, match="row 16, column 'x': not a number"):
        read_table(write("x,y\n" + "1,2\n\n" * 7 + "z,2\n"))
