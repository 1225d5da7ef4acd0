"""Folders of image files: what is refused by name, what is blank, and what becomes of deep and turned images."""

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.datasets.image_files import ImageFiles, common_shape, image_files, read_images

Image = pytest.importorskip("PIL.Image")


def save(file, pixels, mode=None):
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels), mode).save(file)
    return file


def test_a_folder_without_images_one_class_or_loose_images_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"contains no images; .*\.png.* files are read"):
        image_files(tmp_path, labeled=False)
    save(tmp_path / "cats" / "1.png", np.zeros((4, 4), np.uint8))
    with pytest.raises(InvalidInput, match="only one folder"):
        image_files(tmp_path, labeled=True)
    save(tmp_path / "loose.png", np.zeros((4, 4), np.uint8))
    with pytest.raises(InvalidInput, match="images are next to the class folders"):
        image_files(tmp_path, labeled=True)
    (tmp_path / ".hidden.png").write_bytes(b"")
    assert len(image_files(tmp_path, labeled=False)) == 2


def test_a_public_image_that_cannot_be_read_is_refused_and_a_private_one_is_blank(tmp_path):
    good = save(tmp_path / "good.png", np.full((4, 4), 200, np.uint8))
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no image")
    with pytest.raises(InvalidInput, match=r"bad.png: cannot be read as an image"):
        common_shape([good, bad])
    read, lost = read_images([good, bad], (4, 4, 1))
    assert lost == [1]
    assert read.shape == (2, 4, 4)
    assert (read[0] == 200).all()
    assert not read[1].any()


def test_an_image_with_too_many_pixels_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("tacit.datasets.image_files.MOST_PIXELS", 8)
    large = save(tmp_path / "large.png", np.zeros((4, 4), np.uint8))
    assert read_images([large], (4, 4, 1))[1] == [0]


def test_deep_images_are_brought_to_eight_bits_and_color_has_three_channels(tmp_path):
    deep = save(tmp_path / "deep.png", np.full((4, 4), 65535, np.uint16))
    color = save(tmp_path / "color.png", np.full((8, 200, 3), 100, np.uint8))
    assert common_shape([deep]) == (4, 4, 1)
    assert common_shape([color]) == (4, 96, 3)
    read, lost = read_images([deep, color], (4, 4, 3))
    assert not lost
    assert (read[0] == 255).all()
    assert (read[1] == 100).all()


def test_image_files_have_a_length():
    assert len(ImageFiles(())) == 0
