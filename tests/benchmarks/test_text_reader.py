"""The public text reader: pooled steps, and digits that are read where its weights are installed."""

import importlib.util

import numpy as np
import pytest

from experiments.text_reader import DIGITS, TextReader, pooled, reading
from tacit.core.errors import InvalidInput


def test_the_digit_in_the_middle_is_the_one_asked_for():
    layer = np.zeros((1, 6, 11), dtype=np.float32)
    layer[0, 0, 7], layer[0, 3, 2], layer[0, 5, 7] = 9, 5, 9
    row = pooled(layer, np.eye(11, dtype=np.float32), np.zeros(11, dtype=np.float32))[0]
    assert row[:DIGITS].argmax() == 2
    assert row[DIGITS : 2 * DIGITS].argmax() == 7
    assert reading(np.concatenate([row, row])[None]).argmax() == 2


def test_without_its_wheel_the_way_to_get_it_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InvalidInput, match="pip install --no-deps rapidocr"):
        TextReader()


@pytest.mark.skipif(importlib.util.find_spec("rapidocr") is None, reason="rapidocr is not installed")
def test_it_reads_digits_offline_and_each_image_by_itself():
    from PIL import Image, ImageDraw

    def drawn(digit):
        image = Image.new("RGB", (32, 32), "white")
        ImageDraw.Draw(image).text((9, 0), str(digit), fill="black", font_size=28)
        return np.asarray(image)

    images, reader = np.stack([drawn(digit) for digit in range(DIGITS)]), TextReader()
    rows = reader.encode(images)
    assert (reading(rows).argmax(axis=1) == np.arange(DIGITS)).sum() >= 9
    np.testing.assert_allclose(reader.encode(images[3:4])[0], rows[3], atol=1e-3)
