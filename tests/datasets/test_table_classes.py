import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.datasets.table import class_indices, read_classes


@pytest.mark.parametrize(
    "labels",
    [
        [1.0, 0.0],
        [True, False],
        ["1.0", "0.0"],
        ["True", "False"],
        ["true", "false"],
        ["1", "0"],
        [1, 0],
        ["01", "0e0"],
    ],
)
@pytest.mark.parametrize("classes", [["0", "1"], [0, 1], [0.0, 1.0], [False, True], ["False", "True"], ["0.0", "1"]])
def test_labels_are_matched_by_value(labels, classes):
    assert class_indices(np.array(labels), np.array(classes)).tolist() == [1, 0]


def test_what_is_written_the_same_comes_first_and_nothing_is_guessed():
    codes = np.array(["1", "01", "other"])
    assert class_indices(np.array(["01", "1", "other"]), codes).tolist() == [1, 0, 2]
    with pytest.raises(InvalidInput, match="row 1: the label is not one of the classes"):
        class_indices(np.array(["1", "1.0"]), codes)
    with pytest.raises(InvalidInput, match="row 0: the label is not one of the classes"):
        class_indices(np.array(["else"]), codes)
    with pytest.raises(InvalidInput, match="row 0: the label is not one of the classes"):
        class_indices(np.array(["1_0"]), np.array(["10", "20"]))


def test_a_missing_label_is_named_with_its_row():
    with pytest.raises(InvalidInput, match=r"private labels: row 2: the label is missing \(nan\)"):
        class_indices(np.array([0, 1, np.nan]), np.array([0.0, 1.0]), "private labels")


def test_rows_have_the_numbers_of_their_file():
    with pytest.raises(InvalidInput, match=r"a\.csv: row 9: the label is not one of the classes \(a, b\)"):
        class_indices(np.array(["a", "c"]), np.array(["a", "b"]), "a.csv", np.array([2, 9]))


def test_class_files_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "c.txt").write_bytes(b"\xef\xbb\xbfill\r\nwell\r\n")
    assert read_classes(str(tmp_path / "c.txt")) == ["ill", "well"]
    with pytest.raises(InvalidInput, match="cannot read the classes"):
        read_classes("a\0.txt")
