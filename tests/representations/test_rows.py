"""Every representation that has a name encodes a record by itself, and is fitted on public samples alone."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

from tacit.core.errors import InvalidInput
from tacit.datasets.published import digits
from tacit.representations.registry import fit_representation, suggest_representation
from tacit.representations.student_features import LinearStudent, StudentFeatures, StudentOdds

PARTS = digits()
# Half of them raw integers, whose distances tie.
SAMPLES = PARTS.private_samples[:40] + np.random.default_rng(0).normal(size=(40, 64)) * (np.arange(40) % 2)[:, None]
# What needs no extra; the others have tests of their own.
QUICK = ["gradients", "handwriting", "identity", "mixture", "pca", "spectral", "standardized"]


@pytest.mark.parametrize("name", QUICK)
def test_a_row_is_encoded_the_same_to_the_last_bit_whatever_stands_beside_it(name):
    fitted = fit_representation(name, PARTS.public_samples, 30)[1]
    whole = fitted.encode(SAMPLES)
    assert whole.dtype == np.float32
    assert np.isfinite(whole).all()
    alone = np.concatenate([fitted.encode(SAMPLES[[row]]) for row in range(len(SAMPLES))])
    assert np.array_equal(whole, alone)
    assert np.array_equal(whole[::-1], fitted.encode(SAMPLES[::-1]))


@pytest.mark.parametrize("name", QUICK)
def test_the_size_of_a_batch_does_not_matter(name):
    fitted = fit_representation(name, PARTS.public_samples, 30)[1]
    whole = fitted.encode(PARTS.private_samples)
    for size in (1, 499, 500, 501):
        assert np.array_equal(whole[:size], fitted.encode(PARTS.private_samples[:size]))


@pytest.mark.parametrize("name", QUICK)
def test_a_wild_record_does_not_stop_a_run(name):
    fitted = fit_representation(name, PARTS.public_samples, 30)[1]
    assert np.isfinite(fitted.encode(np.full((2, 64), 1e39))).all()


def test_a_plain_matrix_product_would_not_pass():
    directions = np.random.default_rng(1).normal(size=(64, 16))
    whole = SAMPLES @ directions
    assert not np.array_equal(whole, np.concatenate([SAMPLES[[row]] @ directions for row in range(len(SAMPLES))]))


def test_a_linear_student_adds_each_row_up_by_itself():
    """Its weights come from whoever asks, who could make a score of nothing but what a product rounds."""
    weights = np.random.default_rng(1).normal(size=(16, 64)) / 100
    student = LinearStudent(weights, np.zeros(16), np.arange(16))
    whole = student.predict_proba(SAMPLES)
    assert np.array_equal(whole, np.concatenate([student.predict_proba(SAMPLES[[row]]) for row in range(len(SAMPLES))]))


@pytest.mark.parametrize("name", QUICK)
def test_fitting_twice_gives_the_same(name):
    first, again = (fit_representation(name, PARTS.public_samples, 30)[1].encode(SAMPLES) for _ in range(2))
    assert np.array_equal(first, again)


@pytest.mark.parametrize("name", QUICK)
def test_samples_of_another_width_are_refused(name):
    fitted = fit_representation(name, PARTS.public_samples, 30)[1]
    with pytest.raises(InvalidInput, match=r"60 features, the public samples have 64|not images of shape"):
        fitted.encode(SAMPLES[:, :60])


def test_constant_features_do_no_harm():
    public = np.hstack([PARTS.public_samples, np.full((500, 1), 7.0)])
    assert np.isfinite(fit_representation("standardized", public, 30)[1].encode(public)).all()
    with pytest.raises(InvalidInput, match="all equal"):
        suggest_representation(np.ones((50, 3)))


@pytest.mark.parametrize("student", [RandomForestClassifier(5, random_state=0), GaussianNB()], ids=["forest", "bayes"])
def test_a_wild_record_does_not_stop_a_vote_in_a_students_view(student):
    """An error would say that there is one, after the first round was paid for."""
    samples = np.random.default_rng(0).normal(size=(60, 4))
    student.fit(samples, (samples[:, 0] > 0).astype(int) + (samples[:, 1] > 0))
    odds = StudentOdds(student, (0, 1, 2))
    records = np.concatenate([samples[:2], [[1e300, -1e300, 1e300, 1e300], [1e39, 0, 1e30, 1e38]]])
    seen = odds.encode(records)
    assert np.isfinite(seen).all()
    assert np.array_equal(seen[:2], odds.encode(samples[:2]))


def test_features_that_overflow_are_seen_as_nothing():
    class Squaring:
        digest = "squaring"

        def features(self, X):
            return (X.astype(np.float32) ** 2) - X.astype(np.float32) ** 2 + X.astype(np.float32)

    view = StudentFeatures(Squaring())
    assert view.encode(np.array([[3.0, 4.0], [1e300, 1.0]])).round(1).tolist() == [
        pytest.approx([0.6, 0.8]),
        [0.0, 0.0],
    ]
