from pathlib import Path

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.core.samples import pixel_side
from tacit.datasets.tables import align, read_data, read_table

PIXELS = np.random.default_rng(0).integers(0, 256, size=(12, 28, 28), dtype=np.uint8)


@pytest.fixture
def medical(tmp_path):
    """The layout of the MedMNIST files."""
    file = tmp_path / "pneumonia.npz"
    np.savez(
        file, train_images=PIXELS[:6], train_labels=np.arange(6)[:, None] % 2, val_images=PIXELS[6:8],
        val_labels=np.zeros((2, 1), np.uint8), test_images=PIXELS[8:], test_labels=np.ones((4, 1), np.uint8),
    )  # fmt: skip
    return file


def test_labels_in_a_column_choose_the_samples_of_their_length(medical):
    table = read_table(medical, "train_labels")
    assert table.samples.shape == (6, 28, 28)
    assert table.labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert read_table(medical, "test_labels").samples.shape == (4, 28, 28)


def test_an_array_is_named_behind_a_colon(medical):
    public = read_table(f"{medical}:test_images")
    assert np.array_equal(public.samples, PIXELS[8:])
    private = read_table(f"{medical}:train_images", "train_labels")
    assert align(private, public).samples.shape == (6, 28, 28)
    with pytest.raises(InvalidInput, match="no array 'images'; the arrays are train_images uint8"):
        read_table(f"{medical}:images")
    with pytest.raises(InvalidInput, match=r"\(2, 1\) for 6 samples"):
        read_table(f"{medical}:train_images", "val_labels")


def test_more_than_one_candidate_is_not_guessed(medical):
    with pytest.raises(InvalidInput, match=r"no array 'X'; the arrays are"):
        read_table(medical)


def test_a_file_that_has_a_colon_in_its_name_is_itself(tmp_path):
    np.savez(tmp_path / "a.npz:b.npz", X=np.ones((2, 3)))
    assert read_table(tmp_path / "a.npz:b.npz").samples.shape == (2, 3)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"X": np.ones((3, 2)), "y": np.array(["a", None, "b"], dtype=object)}, r"'y' contains Python objects.*astype"),
        ({"X": np.ones((3, 2)), "y": np.array([0, np.nan, 1])}, r"row 1, array 'y': the value is missing"),
        ({"X": np.ones((3, 2)), "y": np.eye(3)}, r"shape \(3, 3\) for 3 samples; it must have one value per sample"),
        ({"X": np.ones((3, 2)), "y": np.arange(3).astype("datetime64[D]")}, "must be numbers or text"),
        ({"X": np.ones((3, 2)) * 1j, "y": np.arange(3)}, "'X' must be numbers"),
        ({"X": np.full((3, 2), 1e300), "y": np.arange(3)}, r"row 0, column 'X\[0\]': too large"),
        ({"X": np.float64(3), "y": np.arange(3)}, "one row per sample"),
    ],
)
def test_what_cannot_be_used_is_explained(tmp_path, arrays, said):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InvalidInput, match=said):
        read_table(tmp_path / "a.npz", "y")


def test_text_in_bytes_becomes_text(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.ones((2, 3)), y=np.array([b"ill", b"well"]))
    assert read_table(tmp_path / "a.npz", "y").labels.tolist() == ["ill", "well"]


def test_damaged_files_and_single_arrays_are_refused(tmp_path, medical):
    damaged = bytearray(medical.read_bytes())
    (tmp_path / "cut.npz").write_bytes(damaged[: len(damaged) // 2])
    damaged[200:3000] = bytes(2800)
    (tmp_path / "hit.npz").write_bytes(damaged)
    (tmp_path / "empty.npz").write_bytes(b"")
    with (tmp_path / "single.npz").open("wb") as file:
        np.save(file, np.ones((3, 2)))
    for name in ("cut", "hit", "empty", "single"):
        with pytest.raises(InvalidInput, match=f"{name}.npz: not an npz file of plain arrays"):
            read_table(tmp_path / f"{name}.npz", "train_labels")


def test_flat_rows_are_images_only_where_they_look_like_pixels(tmp_path):
    assert pixel_side(PIXELS.reshape(12, -1)) == 28
    assert pixel_side(PIXELS.reshape(12, -1) - 1.0) is None
    assert pixel_side(PIXELS.reshape(12, -1) / 255) is None
    assert pixel_side(np.zeros((3, 16))) is None
    assert pixel_side(np.zeros((3, 65))) is None
    np.savez(tmp_path / "a.npz", X=PIXELS.reshape(12, -1))
    assert read_table(tmp_path / "a.npz").samples.shape == (12, 28, 28)
    np.savez(tmp_path / "b.npz", X=PIXELS.reshape(12, -1) / 255)
    assert read_table(tmp_path / "b.npz").samples.shape == (12, 784)


@pytest.mark.parametrize(
    ("label", "said"),
    [("no-such.npy", "no such .npy file"), ("labels.csv", "no such .npy file"), ("damaged.npy", "not an npy file")],
)
def test_an_array_s_labels_are_in_another_npy_file(label, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("scans.npy", np.zeros((3, 2)))
    Path("labels.csv").write_text("y\n1\n")
    Path("damaged.npy").write_bytes(b"no array")
    with pytest.raises(InvalidInput, match=said):
        read_data("scans.npy", label)


def test_a_device_is_no_file_and_a_suffix_must_be_known(tmp_path):
    with pytest.raises(InvalidInput, match="a device or a pipe, not a file"):
        read_data("/dev/null")
    for name in ("records.xlsx", "records"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(InvalidInput, match="cannot read"):
            read_data(tmp_path / name)
    with pytest.raises(InvalidInput, match="cannot be both the label and the person column"):
        read_data(tmp_path / "records.csv", "who", "who")


def test_images_are_no_table_of_numbers(tmp_path):
    (tmp_path / "1.png").write_bytes(b"")
    with pytest.raises(InvalidInput, match="contains images, but a table of numbers is needed"):
        read_table(tmp_path / "1.png")
