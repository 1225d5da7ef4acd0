"""PneumoniaMNIST in its publisher's format, from small files that are written here."""

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.datasets.mnist import medmnist


def arrays(**changes):
    made = {}
    for place, part in enumerate(("train", "val", "test")):
        made[f"{part}_images"] = np.full((place + 2, 28, 28), place, dtype=np.uint8)
        made[f"{part}_labels"] = np.full((place + 2, 1), place % 2, dtype=np.uint8)
    return made | changes


def test_images_for_training_and_validation_are_one_part(tmp_path):
    np.savez(tmp_path / "pneumoniamnist.npz", **arrays())
    (images, labels), (test, true) = medmnist(tmp_path)
    assert (images.shape, labels.tolist()) == ((5, 28, 28), [0, 0, 1, 1, 1])
    assert (test.shape, true.tolist()) == ((4, 28, 28), [0, 0, 0, 0])


@pytest.mark.parametrize(
    "change", [{"train_labels": np.zeros(3)}, {"val_images": np.zeros((3, 2))}, {"test_images": np.zeros((0, 28, 28))}]
)
def test_images_without_labels_are_refused(tmp_path, change):
    np.savez(tmp_path / "pneumoniamnist.npz", **arrays(**change))
    with pytest.raises(InvalidInput, match="has images"):
        medmnist(tmp_path)


def test_another_format_is_refused(tmp_path):
    np.savez(tmp_path / "pneumoniamnist.npz", X=np.zeros(3))
    with pytest.raises(InvalidInput, match="not in MedMNIST's format"):
        medmnist(tmp_path)
    (tmp_path / "pneumoniamnist.npz").write_text("no archive")
    with pytest.raises(InvalidInput, match="not in MedMNIST's format"):
        medmnist(tmp_path)
