"""Representations of images on images whose answer is known."""

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.representations.image_features import Deskewed, OrientedGradients
from tacit.representations.patches import PatchDictionary

SIDE = 28
ROW, COLUMN = np.mgrid[0:SIDE, 0:SIDE].astype(float)
# A cut-off orientation in steps of 2^-16, as encodings are.
CUT = np.rint(0.2 * 2**16) / 2**16


def slope(degrees):
    """Light that rises in one direction: 0 is to the right, 90 is down."""
    rise = np.cos(np.radians(degrees)) * (COLUMN - 13.5) + np.sin(np.radians(degrees)) * (ROW - 13.5)
    return rise[None]


@pytest.mark.parametrize(("degrees", "orientation"), [(0, 0), (45, 1), (90, 2), (135, 3), (180, 0)])
def test_a_slope_shows_in_its_own_orientation_only(degrees, orientation):
    fitted = OrientedGradients.fit(slope(degrees), bins=4)
    features = fitted.encode(slope(degrees)).reshape(4, 4, 6, 6)  # corners, orientations, blocks down and across
    inner = features[:, :, 1:-1, 1:-1]
    assert np.allclose(inner[:, orientation], CUT, atol=1e-7)
    others = np.delete(inner, orientation, axis=1)
    assert others.max() <= 0.01  # levels are whole numbers, so a slope of 45 degrees is one but for rounding


def test_a_slope_between_two_orientations_shows_in_both_alike():
    features = OrientedGradients.fit(slope(22.5), bins=4).encode(slope(22.5)).reshape(4, 4, 6, 6)[:, :, 2, 2]
    assert np.allclose(features[:, 0], features[:, 1], atol=0.02)
    assert (features[:, :2] > 0.1).all()
    assert (features[:, 2:] < 0.01).all()


def test_flat_parts_have_no_orientation_and_light_does_not_matter():
    edge = np.where(COLUMN < 14, 0.0, 1.0)[None]
    fitted = OrientedGradients.fit(np.concatenate([edge, 0 * edge]))
    assert not fitted.encode(0 * edge).any()
    assert not fitted.encode(0 * edge + 1).any()
    shifted = fitted.encode(0.25 + edge / 2)
    assert np.allclose(shifted, fitted.encode(edge), atol=0.02)


def test_color_is_seen_as_gray():
    gray = np.where(COLUMN < 14, 0, 200)[None].astype(np.uint8)
    color = np.repeat(gray[..., None], 3, axis=3)
    alike = OrientedGradients.fit(gray).encode(gray), OrientedGradients.fit(color).encode(color)
    assert np.array_equal(*alike)


@pytest.mark.parametrize(
    ("options", "message"), [({"cell": 1}, "cell must"), ({"cell": 15}, "cell must"), ({"bins": 1}, "bins must")]
)
def test_impossible_gradients_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        OrientedGradients.fit(slope(0), **options)


def leaning_bar(lean, down=0.0, right=0.0):
    """A bar of soft edges that leans: each row is shifted in proportion to how far it is from the middle."""
    middle = 13.5 + right + lean * (ROW - 13.5 - down)
    across = np.clip(2.5 - np.abs(COLUMN - middle), 0, 1)
    return (across * (np.abs(ROW - 13.5 - down) < 8))[None]


def lean_of(image):
    mass = image.sum()
    down, right = ROW - (image * ROW).sum() / mass, COLUMN - (image * COLUMN).sum() / mass
    return (image * down * right).sum() / (image * down * down).sum()


@pytest.mark.parametrize("lean", [-0.6, -0.3, 0.3, 0.6])
def test_a_leaning_bar_stands_upright(lean):
    bar, upright = leaning_bar(lean), leaning_bar(0.0)
    assert abs(lean_of(bar[0]) - lean) < 0.05
    fitted = Deskewed.fit(np.concatenate([bar, upright]))
    stood = fitted.encode(bar).reshape(SIDE, SIDE)
    assert abs(lean_of(stood)) < 0.02
    before, after = np.abs(bar - upright).sum(), np.abs(stood - fitted.encode(upright).reshape(SIDE, SIDE)).sum()
    assert after < 0.35 * before  # what is left is the softer edge


def test_where_the_ink_stands_does_not_matter():
    fitted = Deskewed.fit(leaning_bar(0.2))
    assert np.allclose(fitted.encode(leaning_bar(0.2)), fitted.encode(leaning_bar(0.2, 3, -4)), atol=1e-5)


def test_an_image_without_ink_stays_without():
    assert not Deskewed.fit(leaning_bar(0.2)).encode(np.zeros((1, SIDE, SIDE))).any()


def test_only_gray_images_are_deskewed():
    with pytest.raises(InvalidInput, match="3 channels"):
        Deskewed.fit(np.zeros((2, 8, 8, 3)))


def textured(kind, count, seed):
    """Images striped across or down, from a random place on, with some noise."""
    random = np.random.default_rng(seed)
    place = ROW if kind == "rows" else COLUMN
    start = random.uniform(0, 4, size=(count, 1, 1))
    return np.sin((place + start) * np.pi / 2) + 0.1 * random.normal(size=(count, SIDE, SIDE))


def test_patches_tell_textures_apart_wherever_they_start():
    public = np.concatenate([textured("rows", 20, 0), textured("columns", 20, 1)])
    fitted = PatchDictionary.fit(public, words=16)
    rows, columns, more = (
        fitted.encode(textured(*each)) for each in (("rows", 5, 2), ("columns", 5, 3), ("rows", 5, 4))
    )
    between = np.linalg.norm(rows[:, None] - columns, axis=2).min()
    within = np.linalg.norm(rows[:, None] - more, axis=2).max()
    assert within < 0.5 * between


def test_patches_say_in_which_quarter_something_is():
    image = np.zeros((1, SIDE, SIDE))
    image[0, 2:10, 18:26] = textured("rows", 1, 0)[0, 2:10, 18:26]
    public = np.concatenate([textured("rows", 9, 1), image])
    fitted = PatchDictionary.fit(public, words=8)
    # What differs from an empty image is at the upper right.
    changed = np.abs(fitted.encode(image) - fitted.encode(0 * image)).reshape(4, 8).sum(axis=1)
    assert changed.argmax() == 1
    assert np.delete(changed, 1).max() < 0.2 * changed[1]


def test_patches_work_in_color_and_in_little_memory(monkeypatch):
    from tacit.representations import patches

    color = np.random.default_rng(0).integers(0, 256, size=(30, 12, 12, 3)).astype(np.uint8)
    fitted = PatchDictionary.fit(color, words=6, patch=4, stride=2)
    whole = fitted.encode(color)
    assert whole.shape == (30, 24)
    assert len(fitted.mean) == 48
    monkeypatch.setattr(patches, "_BLOCK_BYTES", 1)  # one image at a time
    assert np.array_equal(fitted.encode(color), whole)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patch": 1}, "patch must"),
        ({"patch": 15}, "patch must"),
        ({"stride": 0}, "stride must"),
        ({"words": 1}, "words must"),
        ({"words": 10**6}, "words must"),
    ],
)
def test_impossible_dictionaries_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        PatchDictionary.fit(textured("rows", 3, 0), **options)
