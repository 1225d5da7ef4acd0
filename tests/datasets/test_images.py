import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from tacit.core.errors import InvalidInput
from tacit.datasets import color_images
from tacit.datasets.color_images import cifar10, read_cifar10, read_svhn, svhn
from tacit.datasets.mnist import mnist
from tacit.datasets.published import LETTERS, read_published, split

RANDOM = np.random.default_rng(0)


def numbered(count, start=0):
    """Images that say their own number in their first two pixels' red."""
    images = np.zeros((count, 32, 32, 3), dtype=np.uint8)
    images[:, 0, 0, 0], images[:, 0, 1, 0] = np.divmod(np.arange(start, start + count), 256)
    return images


def numbers(images):
    return (images[:, 0, 0, 0].astype(int) * 256 + images[:, 0, 1, 0]).tolist()


def write_cifar(file, images, labels):
    rows = np.concatenate(
        [np.asarray(labels, dtype=np.uint8)[:, None], images.transpose(0, 3, 1, 2).reshape(-1, 3072)], 1
    )
    file.write_bytes(rows.tobytes())
    return file


def write_idx(file, values):
    head = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    file.write_bytes(gzip.compress(head + values.tobytes()) if file.suffix == ".gz" else head + values.tobytes())


def write_mnist(folder, train=30, test=20, suffix=".gz", labels=None):
    for part, count in (("train", train), ("t10k", test)):
        images = np.zeros((count, 28, 28), dtype=np.uint8)
        images[:, 3, 5] = np.arange(count)
        write_idx(folder / f"{part}-images-idx3-ubyte{suffix}", images)
        written = np.arange(count, dtype=np.uint8) % 10 if labels is None else labels
        write_idx(folder / f"{part}-labels-idx1-ubyte{suffix}", written)


def test_cifar_colors_come_last_and_labels_first(tmp_path):
    images = RANDOM.integers(0, 256, size=(3, 32, 32, 3), dtype=np.uint8)
    read, labels = read_cifar10(write_cifar(tmp_path / "data_batch_1.bin", images, [9, 0, 4]))
    assert np.array_equal(read, images)
    assert labels.tolist() == [9, 0, 4]


def test_cifar_parts_are_disjoint_whole_and_always_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(color_images, "CIFAR10_TEST", 10)
    for place, name in enumerate(color_images.CIFAR10_FILES):
        write_cifar(tmp_path / name, numbered(100, 100 * place), np.arange(100) % 10)
    parts = cifar10(tmp_path)
    found = [numbers(each) for each in (parts.public_samples, parts.test_samples, parts.private_samples)]
    assert [len(each) for each in found] == [300, 10, 290]
    assert sorted(found[0] + found[1] + found[2]) == list(range(600))
    for samples, labels in (
        (parts.public_samples, parts.public_labels),
        (parts.test_samples, parts.test_labels),
        (parts.private_samples, parts.private_labels),
    ):
        assert [number % 10 for number in numbers(samples)] == labels.tolist()
    assert np.array_equal(cifar10(tmp_path).test_samples, parts.test_samples)


PUBLISHED = Path(__file__).parents[2] / "docs" / "results" / "splits"


@pytest.mark.parametrize(
    ("name", "samples", "sizes"),
    [
        ("cifar10", 60_000, {"public": 30_000, "test": 1_000, "private": 29_000}),
        ("mnist", 10_000, {"public": 5_000, "test": 5_000}),
        ("svhn", 10_000, {"test": 1_000, "public": 9_000}),
    ],
)
def test_published_splits_are_the_ones_that_loaders_use(name, samples, sizes):
    letters = split(name, samples, sizes)
    assert (PUBLISHED / f"{name}.txt").read_text().replace("\n", "") == letters
    for part, size in sizes.items():
        assert letters.count(LETTERS[part]) == size


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "0 bytes are not a multiple of the record size, 3073 bytes"),
        (bytes(3074), "3074 bytes are not a multiple"),
        (bytes([10]) + bytes(3072), "label 0 is above 9; is it CIFAR-100"),
    ],
)
def test_what_is_not_cifar_10_is_refused(tmp_path, content, said):
    file = tmp_path / "data_batch_1.bin"
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match=said):
        read_cifar10(file)


def test_a_missing_batch_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"no file data_batch_1\.bin"):
        cifar10(tmp_path)


def test_too_few_cifar_images_are_refused(tmp_path):
    for name in color_images.CIFAR10_FILES:
        write_cifar(tmp_path / name, numbered(2), [0, 1])
    with pytest.raises(InvalidInput, match="12 images are too few to keep 1000 for the test"):
        cifar10(tmp_path)


def write_svhn(file, images, labels):
    savemat(file, {"X": np.moveaxis(images, 0, 3), "y": np.asarray(labels)[:, None]})
    return file


def test_svhn_images_come_first_and_its_ten_is_a_zero(tmp_path):
    images = RANDOM.integers(0, 256, size=(3, 32, 32, 3), dtype=np.uint8)
    read, labels = read_svhn(write_svhn(tmp_path / "test_32x32.mat", images, [10, 1, 9]))
    assert np.array_equal(read, images)
    assert labels.tolist() == [0, 1, 9]


def test_svhn_trains_are_private_and_the_test_file_is_split(tmp_path, monkeypatch):
    monkeypatch.setattr(color_images, "SVHN_TEST", 7)
    write_svhn(tmp_path / "train_32x32.mat", numbered(20, 500), np.arange(500, 520) % 10 + 1)
    write_svhn(tmp_path / "test_32x32.mat", numbered(50), np.arange(50) % 10 + 1)
    parts = svhn(tmp_path)
    assert numbers(parts.private_samples) == list(range(500, 520))
    assert len(parts.test_samples) == 7
    assert sorted(numbers(parts.test_samples) + numbers(parts.public_samples)) == list(range(50))
    assert [(number + 1) % 10 for number in numbers(parts.public_samples)] == parts.public_labels.tolist()
    monkeypatch.setattr(color_images, "SVHN_TEST", 50)
    with pytest.raises(InvalidInput, match="50 images in the test file are too few to keep 50"):
        svhn(tmp_path)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"X": np.zeros((32, 32, 3, 2), dtype=np.uint8)}, "'X' and labels 'y' are missing"),
        ({"X": np.zeros((32, 32, 3, 2), dtype=np.uint8), "y": [[1]]}, "1 labels"),
        ({"X": np.zeros((32, 32, 3, 2)), "y": [[1], [2]]}, "float64"),
        ({"X": np.zeros((32, 32, 3, 2), dtype=np.uint8), "y": [[1], [11]]}, "label 1 is not one from 1 to 10"),
        ({"X": np.zeros((32, 32, 3, 2), dtype=np.uint8), "y": [[0], [1]]}, "label 0 is not one from 1 to 10"),
    ],
)
def test_what_is_not_svhn_is_refused(tmp_path, arrays, said):
    savemat(tmp_path / "train_32x32.mat", arrays)
    with pytest.raises(InvalidInput, match=said):
        read_svhn(tmp_path / "train_32x32.mat")


@pytest.mark.parametrize("content", [b"", b"nonsense", bytes(200), b"\x89HDF" + bytes(300)])
def test_what_is_no_matlab_file_is_refused(tmp_path, content):
    (tmp_path / "train_32x32.mat").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"train_32x32\.mat"):
        read_svhn(tmp_path / "train_32x32.mat")
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_svhn(tmp_path / "missing.mat")


def test_a_mat_file_cut_short_is_refused(tmp_path):
    file = write_svhn(tmp_path / "train_32x32.mat", numbered(3), [1, 2, 3])
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_svhn(file)


@pytest.mark.parametrize("suffix", [".gz", ""])
def test_mnist_trains_are_private_and_the_test_file_is_halved(tmp_path, suffix):
    write_mnist(tmp_path, suffix=suffix)
    parts = mnist(tmp_path)
    assert parts.private_samples[:, 3, 5].tolist() == list(range(30))
    halves = parts.public_samples[:, 3, 5].tolist(), parts.test_samples[:, 3, 5].tolist()
    assert [len(half) for half in halves] == [10, 10]
    assert sorted(halves[0] + halves[1]) == list(range(20))
    assert [number % 10 for number in halves[0]] == parts.public_labels.tolist()
    assert parts.private_labels.dtype == np.int64


def test_mnist_labels_must_fit_images_and_be_digits(tmp_path):
    write_mnist(tmp_path, labels=np.zeros(25, dtype=np.uint8))
    with pytest.raises(InvalidInput, match="train files hold 30 images and 25 labels"):
        mnist(tmp_path)
    write_mnist(tmp_path, train=3, test=3, labels=np.array([0, 10, 1], dtype=np.uint8))
    with pytest.raises(InvalidInput, match="label 1 of the train file is not one from 0 to 9"):
        mnist(tmp_path)


def test_published_formats_are_read_by_name(tmp_path):
    write_cifar(tmp_path / "data_batch_1.bin", numbered(4), [0, 1, 2, 3])
    write_svhn(tmp_path / "train_32x32.mat", numbered(3), [1, 2, 10])
    rows = np.concatenate([np.array([[1, 7], [2, 8]], dtype=np.uint8), np.zeros((2, 3072), dtype=np.uint8)], axis=1)
    (tmp_path / "train.bin").write_bytes(rows.tobytes())
    assert read_published("cifar10", tmp_path / "data_batch_1.bin").labels.tolist() == [0, 1, 2, 3]
    assert read_published("svhn", tmp_path / "train_32x32.mat").labels.tolist() == [1, 2, 0]
    assert read_published("cifar100", tmp_path).labels.tolist() == [7, 8]
    with pytest.raises(InvalidInput, match="svhm"):
        read_published("svhm", tmp_path)
