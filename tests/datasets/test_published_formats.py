"""Loaders of published formats, on small files in the same format that these tests write."""

import gzip
import json
import struct

import numpy as np
import pytest
from scipy.io import savemat

from tacit.core.errors import InvalidInput
from tacit.datasets.color_images import read_cifar100
from tacit.datasets.mnist import find_idx, read_emnist_idx, read_emnist_mat, read_idx
from tacit.datasets.published import read_leaf, read_published


def write_idx(path, array, code=8, squeeze=False):
    head = struct.pack(">HBB", 0, code, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    content = head + array.tobytes()
    path.write_bytes(gzip.compress(content) if squeeze else content)
    return path


@pytest.mark.parametrize("squeeze", [False, True])
@pytest.mark.parametrize(("code", "kind"), [(8, ">u1"), (9, ">i1"), (11, ">i2"), (12, ">i4"), (13, ">f4"), (14, ">f8")])
def test_idx_of_every_type(tmp_path, code, kind, squeeze):
    array = np.arange(24, dtype=kind).reshape(2, 3, 4)
    found = read_idx(write_idx(tmp_path / "a-idx3", array, code, squeeze), dimensions=3)
    assert found.dtype == np.dtype(kind).newbyteorder("=")
    assert (found == array).all()


def test_idx_is_refused_with_the_reason(tmp_path):
    good = write_idx(tmp_path / "good", np.zeros((2, 3), dtype=np.uint8))
    cut = tmp_path / "cut"
    cut.write_bytes(good.read_bytes()[:-1])
    torn = tmp_path / "torn.gz"
    torn.write_bytes(gzip.compress(good.read_bytes())[:-9])
    text = tmp_path / "text"
    text.write_text("hello")
    short = tmp_path / "short"
    short.write_bytes(b"\x00\x00\x08\x03\x00")
    for file, words in [
        (cut, "cut short"),
        (torn, "damaged or cut short"),
        (text, "not an idx file"),
        (short, "ends inside its header"),
        (tmp_path / "none", "No such file"),
    ]:
        with pytest.raises(InvalidInput, match=words):
            read_idx(file)
    with pytest.raises(InvalidInput, match="2 dimensions, 3 were expected"):
        read_idx(good, dimensions=3)


def test_idx_files_are_found_under_their_usual_names(tmp_path):
    (tmp_path / "train-images.idx3-ubyte.gz").write_bytes(b"")
    assert find_idx(tmp_path, "train-images-idx3-ubyte").name == "train-images.idx3-ubyte.gz"
    with pytest.raises(InvalidInput, match="no file t10k"):
        find_idx(tmp_path, "t10k-images-idx3-ubyte")


def upright():
    image = np.zeros((28, 28), dtype=np.uint8)
    image[2:26, 5] = 255  # a vertical stroke on the left
    image[25, 5:20] = 200  # and a foot: the letter L
    return image


def test_emnist_idx_stands_upright(tmp_path):
    images = np.stack([upright().T, upright().T])
    write_idx(tmp_path / "emnist-letters-train-images-idx3-ubyte.gz", images, squeeze=True)
    write_idx(tmp_path / "emnist-letters-train-labels-idx1-ubyte.gz", np.array([12, 12], np.uint8), squeeze=True)
    (tmp_path / "emnist-letters-mapping.txt").write_text("1 65 97\n12 76 108\n")
    found = read_emnist_idx(tmp_path, "letters")
    assert (found.images == upright()).all()
    assert found.labels.tolist() == [12, 12]
    assert found.characters == {1: "Aa", 12: "Ll"}
    assert found.writers is None
    write_idx(tmp_path / "emnist-letters-train-labels-idx1-ubyte.gz", np.array([12], np.uint8), squeeze=True)
    with pytest.raises(InvalidInput, match="2 images and 1 labels"):
        read_emnist_idx(tmp_path, "letters")
    with pytest.raises(InvalidInput, match="part must be one of"):
        read_emnist_idx(tmp_path, "letters", "validation")


@pytest.mark.parametrize("count", [1, 3])
def test_emnist_mat_has_writers(tmp_path, count):
    flat = np.tile(upright().ravel(order="F"), (count, 1))
    part = {
        "images": flat,
        "labels": np.full((count, 1), 47.0),
        "writers": np.arange(count, dtype=np.float64)[:, None] + 7,
    }
    file = tmp_path / "emnist-byclass.mat"
    savemat(file, {"dataset": {"train": part, "test": part, "mapping": np.array([[46.0, 75.0], [47.0, 76.0]])}})
    found = read_emnist_mat(file)
    assert (found.images == upright()).all()
    assert found.labels.tolist() == [47] * count
    assert found.writers.tolist() == list(range(7, 7 + count))
    assert found.characters == {46: "K", 47: "L"}


def test_emnist_mat_is_refused_with_the_reason(tmp_path):
    savemat(tmp_path / "other.mat", {"X": np.zeros(3)})
    with pytest.raises(InvalidInput, match="not an EMNIST file"):
        read_emnist_mat(tmp_path / "other.mat")
    (tmp_path / "text.mat").write_text("hello")
    with pytest.raises(InvalidInput, match="Matlab"):
        read_emnist_mat(tmp_path / "text.mat")


def test_mnist_and_medmnist_are_read_by_the_name_of_the_format(tmp_path):
    images = np.arange(2 * 28 * 28).reshape(2, 28, 28).astype(np.uint8)
    write_idx(tmp_path / "train-images-idx3-ubyte", images)
    write_idx(tmp_path / "train-labels-idx1-ubyte.gz", np.array([3, 9], np.uint8), squeeze=True)
    found = read_published("mnist", tmp_path)
    assert (found.samples == images).all()
    assert found.labels.tolist() == [3, 9]
    content = {f"{part}_{what}": value for part in ("train", "val", "test")
               for what, value in (("images", images), ("labels", np.array([[0], [1]])))}  # fmt: skip
    np.savez(tmp_path / "pneumoniamnist.npz", **content)
    # Training comes with validation, and the test part stays out.
    assert read_published("medmnist", tmp_path / "pneumoniamnist.npz").labels.tolist() == [0, 1, 0, 1]


def write_leaf(path, users):
    content = {
        "users": list(users),
        "num_samples": [len(labels) for _, labels in users.values()],
        "user_data": {user: {"x": rows, "y": labels} for user, (rows, labels) in users.items()},
    }
    path.write_text(json.dumps(content))


def test_leaf_files_of_a_folder(tmp_path):
    write_leaf(tmp_path / "all_data_0.json", {"f0": ([[1.0, 0.5], [0.0, 1.0]], [36, 1])})
    write_leaf(tmp_path / "all_data_1.json", {"f1": ([[0.25, 0.25]], [41]), "f2": ([], [])})
    found = read_leaf(tmp_path)
    assert found.samples.tolist() == [[1.0, 0.5], [0.0, 1.0], [0.25, 0.25]]
    assert found.labels.tolist() == [36, 1, 41]
    assert found.owners.tolist() == ["f0", "f0", "f1"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not a LEAF file"),
        ('{"users": []}', "not a LEAF file"),
        ('{"users": ["a"], "num_samples": [], "user_data": {}}', "1 users and 0 sizes"),
        ('{"users": ["a"], "num_samples": [1], "user_data": {}}', "the user at index 0 must have 'x'"),
        ('{"users": ["a"], "num_samples": [2], "user_data": {"a": {"x": [[1]], "y": [0]}}}', "declares 2"),
        (
            '{"users": ["a"], "num_samples": [1], "user_data": {"a": {"x": [["b"]], "y": [0]}}}',
            "the user at index 0 must have 'x'",
        ),
        ('{"users": ["a"], "num_samples": [1], "user_data": {"a": {"x": [[NaN]], "y": [0]}}}', "finite"),
        ('{"users": [], "num_samples": [], "user_data": {}}', "no user has a sample"),
    ],
)
def test_leaf_is_refused_with_the_reason(tmp_path, content, words):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(InvalidInput, match=words):
        read_leaf(tmp_path / "a.json")


def test_leaf_users_must_agree_on_the_features(tmp_path):
    write_leaf(tmp_path / "a.json", {"f0": ([[1.0]], [0]), "f1": ([[1.0, 2.0]], [0])})
    with pytest.raises(InvalidInput, match="2 features, others 1"):
        read_leaf(tmp_path)


def test_cifar100_records(tmp_path):
    image = np.arange(3072, dtype=np.uint8).reshape(3, 32, 32)
    record = bytes([4, 63]) + image.tobytes()
    (tmp_path / "train.bin").write_bytes(record * 2)
    (tmp_path / "fine_label_names.txt").write_text("apple\naquarium_fish\n")
    found = read_cifar100(tmp_path)
    assert found.images.shape == (2, 32, 32, 3)
    assert (found.images[1, 5, 7] == image[:, 5, 7]).all()
    assert (found.coarse.tolist(), found.fine.tolist()) == ([4, 4], [63, 63])
    assert (found.fine_names, found.coarse_names) == (("apple", "aquarium_fish"), ())
    (tmp_path / "test.bin").write_bytes(record[:-1])
    with pytest.raises(InvalidInput, match="not a multiple of the record size"):
        read_cifar100(tmp_path, "test")
    (tmp_path / "test.bin").write_bytes(bytes([20, 1]) + image.tobytes())
    with pytest.raises(InvalidInput, match="the labels of image 0 are above 19 or 99"):
        read_cifar100(tmp_path, "test")
    with pytest.raises(InvalidInput, match="part must be one of"):
        read_cifar100(tmp_path, "extra")
