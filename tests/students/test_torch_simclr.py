import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tacit.core.errors import InvalidInput  # noqa: E402
from tacit.datasets.published import digits  # noqa: E402
from tacit.representations.student_features import StudentFeatures  # noqa: E402
from tacit.students import torch_simclr  # noqa: E402
from tacit.students.torch_simclr import ContrastiveEncoder  # noqa: E402

PARTS = digits()
IMAGES = PARTS.public_samples[:64]


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def encoder(**options):
    return ContrastiveEncoder(**{"epochs": 3, "batch": 32} | options)


@pytest.fixture(scope="module")
def trained():
    torch.set_num_threads(1)
    return encoder().fit(IMAGES)


def test_a_row_is_seen_by_itself(trained):
    see = StudentFeatures(trained).encode
    whole = see(IMAGES[:12])
    assert whole.dtype == np.float32
    assert np.isfinite(whole).all()
    assert np.array_equal(whole, np.concatenate([see(IMAGES[[row]]) for row in range(12)]))
    assert np.array_equal(whole[::-1], see(IMAGES[:12][::-1]))


def test_the_same_seed_gives_the_same_and_leaves_the_generator(trained):
    before = torch.get_rng_state()
    assert encoder().fit(IMAGES).digest == trained.digest
    assert torch.equal(before, torch.get_rng_state())
    assert encoder(seed=1).fit(IMAGES).digest != trained.digest
    assert encoder().fit(IMAGES[::-1]).digest != trained.digest


def test_it_survives_the_disk(trained, tmp_path):
    file = tmp_path / "encoder.safetensors"
    trained.save_tensors(file)
    loaded = ContrastiveEncoder.load_tensors(file)
    assert loaded.digest == trained.digest
    assert loaded.get_params() == trained.get_params()
    assert np.array_equal(loaded.features(IMAGES), trained.features(IMAGES))
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(InvalidInput, match="not a contrastive encoder"):
        ContrastiveEncoder.load_tensors(file)


class Stop(Exception):
    pass


def test_interrupted_training_ends_in_the_same_encoder(trained, tmp_path):
    done = []

    def stopping(epoch):
        done.append(epoch)
        if epoch == 2:
            raise Stop

    with pytest.raises(Stop):
        encoder(checkpoint=tmp_path).fit(IMAGES, progress=stopping)
    assert done == [1, 2]
    resumed = encoder(checkpoint=tmp_path).fit(IMAGES, progress=done.append)
    assert done == [1, 2, 3]
    assert resumed.digest == trained.digest
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(InvalidInput, match=file.name):
        encoder(checkpoint=tmp_path).fit(IMAGES)


def test_it_learns_to_find_the_other_copy():
    plan = encoder(epochs=15, batch=16)._schedule()
    torch.manual_seed(0)
    images = torch.as_tensor(IMAGES, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    trainee = torch_simclr._Trainee(encoder()._encoder((1, 8, 8)).network_, plan, 0.2)
    losses = []
    loss = trainee._loss
    trainee._loss = lambda copies: (losses.append(loss(copies)), losses[-1])[1]
    for _ in range(15):
        trainee.learn(images)
    first, last = (torch.stack(part).mean().item() for part in (losses[:4], losses[-4:]))
    assert last < 0.93 * first  # half of each tiny image is hidden, so this stays hard


def test_the_loss_is_that_of_the_paper():
    torch.manual_seed(0)
    trainee = torch_simclr._Trainee(torch.nn.Identity(), encoder()._schedule(), 0.5)
    trainee.model = torch.nn.Identity()
    places = torch.randn(8, 5)
    unit = (places / places.norm(dim=1, keepdim=True)).double()
    expected = 0.0
    for row in range(8):
        others = [other for other in range(8) if other != row]
        total = sum(torch.exp(unit[row] @ unit[other] / 0.5) for other in others)
        expected -= torch.log(torch.exp(unit[row] @ unit[(row + 4) % 8] / 0.5) / total) / 8
    assert trainee._loss(places).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"network": "linear"}, "network for images"),
        ({"temperature": 0.0}, "temperature"),
        ({"augmentation": "none"}, "equal copies"),
        ({"augmentation": "sharpies"}, "augmentation"),
        ({"epochs": 0}, "epochs"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(InvalidInput, match=message):
        encoder(**options).fit(IMAGES)


def test_bad_images_are_refused(trained):
    with pytest.raises(InvalidInput, match="at least 4"):
        encoder().fit(IMAGES[:3])
    broken = IMAGES.copy()
    broken[5, 5] = np.nan
    with pytest.raises(InvalidInput, match="sample 5"):
        encoder().fit(broken)
    with pytest.raises(InvalidInput, match="not images of shape"):
        trained.features(IMAGES[:, :36])
