"""Photographs as a pretrained network sees them: encoded once, saved with the run, and the default for color images."""

import numpy as np
import pytest

import tacit
from tacit.core.errors import InvalidInput
from tacit.datasets.samples import samples_of
from tacit.encoders import kinds
from tacit.encoders.kinds import ENCODER_FILE, has_pretrained, photographic, read_encoder, recognize, write_encoder
from tacit.runs.inputs import Data, read_given

pytestmark = pytest.mark.skipif(not has_pretrained(), reason="needs the extra features")
CLASSES = ("day", "night")


def skies(count, seed):
    """Small color images, bright or dark, with noise."""
    drawn = np.random.default_rng(seed)
    labels = drawn.integers(0, 2, count)
    return (drawn.integers(0, 90, (count, 8, 8, 3)) + 160 * (labels == 0)[:, None, None, None]).astype(np.uint8), labels


@pytest.fixture(scope="module")
def recognized():
    return recognize(skies(24, 1)[0], "photographs")


def test_color_images_are_encoded_and_the_public_ones_only_once(recognized):
    images = skies(24, 1)[0]
    assert recognized.kind == "photographs"
    assert recognized.encoder.encode(images).tobytes() == recognized.public.tobytes()
    assert recognized.lines[1] == "8x8 pixels, color"
    assert np.linalg.norm(recognized.public, axis=1) == pytest.approx(np.ones(24), rel=1e-5)


def test_an_image_is_encoded_by_itself(recognized):
    images = skies(3, 2)[0]
    each = [recognized.encoder.encode(image[None]) for image in images]
    assert np.concatenate(each).tobytes() == recognized.encoder.encode(images).tobytes()


def test_it_is_written_as_plain_data(recognized, tmp_path):
    write_encoder(recognized.encoder, tmp_path)
    images = skies(2, 3)[0]
    again = read_encoder(tmp_path / ENCODER_FILE)
    assert again.encode(images).tobytes() == recognized.encoder.encode(images).tobytes()


def test_other_images_stay_as_they_are():
    assert recognize(skies(4, 1)[0]).kind == "images"
    with pytest.raises(InvalidInput, match="no images"):
        recognize(np.array(["a cough", "a fever"]), "photographs")


def test_the_default_teaches_on_them_and_its_student_takes_images(tmp_path):
    private, public, (test, truth) = skies(400, 4), skies(60, 5)[0], skies(50, 6)
    records = (private[0], np.array(CLASSES)[private[1]])
    run = tacit.distill(records, public, 8, delta=1e-5, classes=CLASSES, seed=1, data_kind="photographs")
    assert (run.recipe["data_kind"], run.recipe["features"]) == ("photographs", 60)
    assert np.mean(run.student.predict(test) == np.array(CLASSES)[truth]) > 0.9
    run.save(tmp_path / "run")
    loaded = tacit.load(tmp_path / "run")
    assert loaded.student.predict(test).tolist() == run.student.predict(test).tolist()
    # A student that is to see the images gets them.
    assert not tacit.Auto(student="logistic").photographs


def test_what_a_network_cannot_tell_apart_is_no_photograph(tmp_path):
    from PIL import Image

    noise, gray, blank = skies(40, 7)[0], np.zeros((4, 8, 8), dtype=np.uint8), np.zeros((4, 8, 8, 3), dtype=np.uint8)
    assert not any(photographic(each) for each in (noise, gray, blank, blank[:0], "text", np.array(["a cough"])))
    for number, image in enumerate(noise[:3]):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    assert not photographic(samples_of(tmp_path))


@pytest.mark.parametrize(("said", "kind"), [(1.4, "images"), (1.6, "photographs")])
def test_the_information_of_its_predictions_decides(monkeypatch, said, kind):
    from tacit.representations import torch_efficientnet

    monkeypatch.setattr(torch_efficientnet, "information", lambda images: said)
    monkeypatch.setattr(kinds, "_INFORMATION", {})
    public = skies(300, 8)[0]
    assert read_given(None, public, photographs=True).recognized.kind == kind
    # Never over nodes, nor where the kind is named, nor where images are asked for.
    assert read_given(None, public, nodes=True, photographs=True).recognized.kind == "images"
    assert read_given(None, public, Data(kind="images"), photographs=True).recognized.kind == "images"
    assert read_given(None, public).recognized.kind == "images"


def test_photographs_are_told_apart_better_than_noise():
    from sklearn.datasets import load_sample_images

    from tacit.representations.torch_efficientnet import information

    crops = [photo[row : row + 96, column : column + 96] for photo in load_sample_images().images
             for row in range(0, 330, 110) for column in range(0, 540, 135)]  # fmt: skip
    noise = np.random.default_rng(9).integers(0, 256, (24, 32, 32, 3)).astype(np.uint8)
    assert information(np.stack(crops)) > 3 * information(noise)


def test_the_default_is_forecast_by_what_the_network_sees(monkeypatch):
    monkeypatch.setattr("tacit.runs.planning.photographic", lambda samples: True)
    public, labels = skies(60, 5)
    figures = {"records": 400, "classes": CLASSES, "epsilon": 8, "delta": 1e-5, "methods": ["auto"]}
    known = np.array(CLASSES)[labels]
    found = tacit.forecast(public, public_labels=known, **figures)
    pixels = tacit.forecast(public, public_labels=known, data_kind="images", **figures)
    assert (found.kind, pixels.kind) == ("photographs", "images")
    assert "components" in found.best.said
    rehearsed = tacit.forecast(public, public_labels=known, rehearse=True, **figures)
    assert rehearsed.best.said == "rehearsed on 60 labels"
    assert rehearsed.best.accuracy > 0.9
