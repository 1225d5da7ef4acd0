"""What a step says in an ONNX graph is what it says in Python."""

import numpy as np
import pytest
from sklearn.pipeline import Pipeline

from tacit.core.errors import InvalidInput
from tacit.methods.auto.coordinator import SumFeatures, VoteFeatures
from tacit.methods.auto.teaching import regression_student
from tacit.methods.class_sums.coordinator import LinearOdds
from tacit.methods.class_sums.wire import on_grid
from tacit.representations.chained import Chained
from tacit.representations.groups import ClusteringHead, MixtureShares
from tacit.representations.image_features import Deskewed, OrientedGradients
from tacit.representations.maps import Interpolated
from tacit.representations.random_features import RandomFeatures
from tacit.representations.scaled import Directions, Identity, PrincipalComponents, Standardized
from tacit.representations.student_features import StudentFeatures
from tacit.students.averaged import AveragedStudent, StoredNetwork
from tacit.students.wrapped import Flatten

pytest.importorskip("skl2onnx", reason="tacit[export] is not installed")
pytest.importorskip("onnxruntime", reason="tacit[export] is not installed")

from tacit.runs.export import onnx_predictions, student_to_onnx

RANDOM = np.random.default_rng(11)
CENTERS = np.array([[3.0, 0, 0, 1], [-3, 2, 0, 0], [0, -3, 2, 0]])
PUBLIC = np.concatenate([RANDOM.normal(size=(40, 4)) + center for center in CENTERS]).astype(np.float32)
# Beyond the public samples, too, and one at the origin.
ROWS = np.concatenate([RANDOM.normal(size=(200, 4)) * 4, RANDOM.normal(size=(5, 4)) * 1e4, np.zeros((1, 4))])
ROWS = ROWS.astype(np.float32)

REPRESENTATIONS = {
    "identity": Identity.fit(PUBLIC),
    "standardized": Standardized.fit(PUBLIC),
    "directions": Directions.fit(PUBLIC),
    "principal": PrincipalComponents.fit(PUBLIC, 3, whitening=0.25),
    "random-features": RandomFeatures.fit(PUBLIC, 20),
    "interpolated": Interpolated.fit(PUBLIC, PUBLIC[:, :2] * 3, neighbors=5),
    "mixture": MixtureShares.fit(PUBLIC, 3),
    "head": ClusteringHead.fit(PUBLIC, 3, starts=1),
    "chained": Chained.fit(PUBLIC, Standardized.fit, PrincipalComponents.fit, Directions.fit),
}


def student(*features, classes=("a", "b", "c")):
    width = sum(each.points(PUBLIC[:1]).shape[1] for each in features)
    weights = np.random.default_rng(3).normal(size=(width, len(classes))) * 20
    return regression_student(features, LinearOdds(weights, np.zeros(len(classes))), np.array(classes), (4,))


def require_same(made):
    labels, chances = onnx_predictions(student_to_onnx(made, 4, {}), ROWS)
    np.testing.assert_allclose(chances, made.predict_proba(ROWS), atol=1e-5)
    assert (labels == made.predict(ROWS)).all()
    assert len(set(labels.tolist())) > 1


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_class_sums_in_every_representation_of_rows(name, norm):
    require_same(student(SumFeatures(REPRESENTATIONS[name], 900.0, 4096, norm)))


def test_votes_and_sums_side_by_side_of_two_classes():
    principal = REPRESENTATIONS["principal"]
    votes = VoteFeatures(principal, principal.encode(CENTERS.astype(np.float32)))
    require_same(student(votes, SumFeatures(Identity(4), 900.0, 4096, "l2"), classes=(0, 1)))


def test_what_sees_images_is_refused_by_name_before_anything_is_converted():
    images = np.random.default_rng(0).random((30, 8, 8))
    sums = SumFeatures(Deskewed.fit(images), 900.0, 4096, "l2")
    width = sums.points(images[:1]).shape[1]
    made = regression_student([sums], LinearOdds(np.zeros((width, 2)), np.zeros(2)), np.array(["a", "b"]), (8, 8))
    with pytest.raises(InvalidInput, match=r"uses the representation deskewed, which has no ONNX conversion.*--skops"):
        student_to_onnx(made, 64, {})


def of_images(features, images, classes=("a", "b", "c")):
    width = features.points(images[:1]).shape[1]
    weights = np.random.default_rng(3).normal(size=(width, len(classes))) * 20
    odds = LinearOdds(weights, np.zeros(len(classes)))
    return regression_student([features], odds, np.array(classes), images.shape[1:])


def require_same_of_images(made, images):
    rows = images.reshape(len(images), -1).astype(np.float32)
    labels, chances = onnx_predictions(student_to_onnx(made, rows.shape[1], {}), rows)
    np.testing.assert_allclose(chances, made.predict_proba(rows), atol=2e-5)
    assert (labels == made.predict(rows)).all()
    assert len(set(labels.tolist())) > 1


@pytest.mark.parametrize("shape", [(8, 8), (17, 20), (16, 16, 3)])
def test_gradients_of_gray_and_colored_images(shape):
    images = np.random.default_rng(4).integers(0, 256, (60, *shape)).astype(np.float64)
    require_same_of_images(of_images(SumFeatures(OrientedGradients.fit(images), 900.0, 4096, "l2"), images), images)


def network(images, labels, seed=0):
    torch = pytest.importorskip("torch", reason="tacit[torch] is not installed")
    pytest.importorskip("onnxscript", reason="tacit[export] is not installed")
    from tacit.students.registry import STUDENTS

    torch.manual_seed(seed)
    made = STUDENTS["network"](network="small-convolutions", epochs=1, shifts=1)
    return made.fit(images.reshape(len(images), -1), labels)


@pytest.mark.timeout(300)
def test_the_mean_of_a_regression_and_a_network_that_never_met_a_class():
    images = np.random.default_rng(5).random((90, 16, 16)).astype(np.float32)
    labels = np.array(["a", "b"])[(images.mean(axis=(1, 2)) > 0.5).astype(int)]
    trained = network(images, labels)
    regression = of_images(SumFeatures(StudentFeatures(trained), 900.0, 4096, "l2"), images)
    mean = AveragedStudent([regression, StoredNetwork.of(trained)])
    require_same_of_images(mean, images)
    # As a run keeps it.
    require_same_of_images(Pipeline([("flatten", Flatten()), ("student", mean)]), images)


def test_public_samples_are_on_a_grid_finer_than_that_of_the_sums():
    coarse = SumFeatures(Identity(4), 3.0, 16, "l2")
    points, (whole, _) = coarse.points(ROWS), on_grid(ROWS, 3.0, 16, "l2")
    assert 0 < np.abs(points - whole / 16).max() <= 1 / 16
    assert np.linalg.norm(points, axis=1).max() <= 1
    assert not points[-1].any()
