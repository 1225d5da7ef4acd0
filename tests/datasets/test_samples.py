"""Samples in every form that people have them: what is taken as it is, what is refused, and what an error says."""

import json

import numpy as np
import pytest
from scipy import sparse

from tacit.core.errors import InvalidInput
from tacit.datasets.frame import Frame, cells_of
from tacit.datasets.image_files import ImageFiles
from tacit.datasets.published import PublishedSamples
from tacit.datasets.samples import is_text, labeled_samples, samples_of
from tacit.datasets.table import Table


def frame(**columns):
    return Frame(tuple(columns), tuple(cells_of(each) for each in columns.values()))


class Tensor:
    """What a tensor shows of itself: it may lie on a card, and may have a type that numpy does not know."""

    def __init__(self, values, known=True):
        self.values, self.known = np.asarray(values), known

    def detach(self):
        return self

    def cpu(self):
        return self

    def float(self):
        return Tensor(self.values.astype(np.float32))

    def numpy(self):
        if not self.known:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.values


def test_a_path_is_a_file(tmp_path):
    file = tmp_path / "samples.csv"
    file.write_text("age,dose\n61,2.5\n")
    assert samples_of(file).columns == samples_of(str(file)).columns == ("age", "dose")
    np.save(tmp_path / "scans.npy", np.zeros((3, 2)))
    assert len(samples_of(tmp_path / "scans.npy")) == 3


def test_what_is_known_is_taken_as_it_is():
    own = frame(age=[61.0])
    assert samples_of(own) is own
    files = ImageFiles(())
    assert samples_of(files) is files
    assert samples_of(PublishedSamples(np.ones((2, 3)), np.zeros(2))).shape == (2, 3)
    assert samples_of(Table("a", ("x",), np.ones((2, 1)), named=True)).columns == ("x",)
    assert sparse.issparse(samples_of(sparse.coo_array(np.eye(2))))


@pytest.mark.parametrize("known", [True, False])
def test_a_tensor_is_an_array(known):
    found = samples_of(Tensor([[1.0, 2.0]], known))
    assert found.tolist() == [[1.0, 2.0]]


def test_rows_of_different_lengths_are_refused():
    with pytest.raises(InvalidInput, match="samples must be an array: its rows are of different lengths"):
        samples_of([[1, 2], [3]])


def test_names_of_image_files_are_images_in_a_list_and_in_an_array(tmp_path):
    files = [tmp_path / "a.png", tmp_path / "b.png"]
    for file in files:
        file.write_bytes(b"")
    assert samples_of(files).files == tuple(files)
    assert samples_of(np.array([str(file) for file in files])).files == tuple(files)
    assert samples_of([str(files[0]), "no-such-file.png"]).dtype.kind == "U"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (np.array(["a", None], dtype=object), True),
        (np.array(["a", 1], dtype=object), False),
        (np.array([["a"]]), False),
        (np.array([], dtype=str), False),
        (["a"], False),
    ],
)
def test_texts_are_one_array_of_strings(values, text):
    assert is_text(values) is text


def test_a_pair_has_its_labels_beside_it():
    samples, labels, persons, holders = labeled_samples(
        (frame(age=[61.0, 44.0], who=["ada", "bob"]), [1, 0]), None, "who"
    )
    assert samples.columns == ("age",)
    assert labels == [1, 0]
    assert persons.tolist() == ["ada", "bob"]
    assert holders is None
    with pytest.raises(InvalidInput, match="label names a column of a private table"):
        labeled_samples(([[1.0]], [0]), "outcome")
    with pytest.raises(InvalidInput, match="the private samples have no columns"):
        labeled_samples((np.ones((2, 1)), [0, 1]), None, "who")


def test_a_table_is_taken_apart_and_whole_numbers_stay_whole():
    table = np.array([(61.5, 1.0, 7.0)], dtype=[("age", "f8"), ("outcome", "f8"), ("clinic", "f8")])
    samples, labels, persons, holders = labeled_samples(table, "outcome", None, "clinic")
    assert samples.columns == ("age",)
    assert (labels.tolist(), labels.dtype.kind) == ([1], "i")
    assert holders.tolist() == [7]
    assert persons is None
    with pytest.raises(InvalidInput, match="name its label column"):
        labeled_samples(table)
    with pytest.raises(InvalidInput, match=r"private must be a pair \(X, y\)"):
        labeled_samples(np.ones((3, 2)))


def test_a_frame_that_knows_its_labels_needs_no_column():
    own = Frame(("age",), (np.array([61.0]),), labels=np.array(["ill"]), persons=np.array(["ada"]))
    samples, labels, persons, _ = labeled_samples(own)
    assert (samples.columns, labels.tolist(), persons.tolist()) == (("age",), ["ill"], ["ada"])


def test_a_file_is_read_with_label_person_and_holder(tmp_path):
    file = tmp_path / "records.csv"
    file.write_text("age,who,clinic,outcome\n61,ada,north,ill\n44,bob,south,well\n")
    samples, labels, persons, holders = labeled_samples(file, "outcome", "who", "clinic")
    assert samples.columns == ("age",)
    assert (labels.tolist(), persons.tolist(), holders.tolist()) == (
        ["ill", "well"],
        ["ada", "bob"],
        ["north", "south"],
    )
    with pytest.raises(InvalidInput, match=r"records\.csv: name the column or array of the labels"):
        labeled_samples(file)


def test_arrays_have_labels_and_no_other_columns(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.ones((2, 3)), y=np.array([0, 1]), who=np.array(["a", "b"]))
    samples, labels, persons, _ = labeled_samples(tmp_path / "a.npz", "y", "who")
    assert (len(samples), labels.tolist(), persons.tolist()) == (2, [0, 1], ["a", "b"])
    published = PublishedSamples(np.ones((2, 3)), np.array([0, 1]))
    assert labeled_samples(published)[1].tolist() == [0, 1]
    with pytest.raises(InvalidInput, match="the private samples have no columns"):
        labeled_samples(published, None, "who")
    owned = PublishedSamples(np.ones((2, 3)), np.array([0, 1]), np.array(["f1", "f2"]))
    assert labeled_samples(owned, None, None, "writer")[3].tolist() == ["f1", "f2"]


def test_a_leaf_file_says_whose_each_sample_is(tmp_path):
    file = tmp_path / "all.json"
    file.write_text(
        json.dumps({"users": ["f1"], "user_data": {"f1": {"x": [[0.0, 1.0]], "y": [3]}}, "num_samples": [1]})
    )
    _, labels, persons, _ = labeled_samples(f"leaf:{file}", None, "writer")
    assert (labels.tolist(), persons.tolist()) == ([3], ["f1"])
