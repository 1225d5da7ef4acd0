import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tacit.students.torch_training import AUGMENTATIONS, Affine, augmented  # noqa: E402

BOTH = [False, True]


@pytest.mark.parametrize("strong", BOTH)
@pytest.mark.parametrize("kind", sorted(AUGMENTATIONS))
def test_changed_images_keep_shape_and_seed_and_the_original(kind, strong):
    images = torch.rand(6, 3, 12, 10, generator=torch.Generator().manual_seed(0))
    before = images.clone()
    torch.manual_seed(3)
    first = augmented(images, kind, strong)
    torch.manual_seed(3)
    assert torch.equal(first, augmented(images, kind, strong))
    assert torch.equal(images, before)
    assert first.shape == images.shape
    assert torch.isfinite(first).all()
    assert torch.equal(first, images) == (kind == "none")


@pytest.mark.parametrize("strong", BOTH)
@pytest.mark.parametrize("kind", sorted(set(AUGMENTATIONS) - {"none"}))
def test_every_image_is_changed_in_its_own_way(kind, strong):
    image = torch.rand(1, 1, 12, 12, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(0)
    changed = augmented(image.expand(16, -1, -1, -1), kind, strong)
    assert len({each.numpy().tobytes() for each in changed}) > 8


def test_an_affine_change_of_nothing_is_nothing():
    images = torch.rand(4, 1, 9, 9)
    assert torch.allclose(Affine(0, 0, 0, 0)(images), images, atol=1e-5)


def test_a_shift_moves_by_at_most_its_share():
    image = torch.zeros(50, 1, 20, 20)
    image[:, :, 10, 10] = 1
    torch.manual_seed(0)
    moved = Affine(0, 0.1, 0, 0)(image)
    place = torch.arange(20.0)
    middle = (moved.sum(dim=2)[:, 0] * place).sum(dim=1) / moved.sum(dim=(1, 2, 3))
    assert ((middle - 10).abs() <= 2.001).all()
    assert (middle - 10).abs().max() > 1


def test_a_flat_image_stays_flat_under_affine_changes():
    torch.manual_seed(0)
    assert torch.allclose(Affine(20, 0.2, 0.2, 0.3)(torch.full((8, 1, 9, 9), 0.7)), torch.tensor(0.7))
