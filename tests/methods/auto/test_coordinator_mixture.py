"""A mixture on public samples: what noise moved comes back, and what was released has the last word."""

import numpy as np
import pytest

import tacit
from tacit.methods.auto import coordinator
from tacit.methods.auto.coordinator import Block, SumFeatures, fit_public_mixture, refined, released_misfit
from tacit.methods.class_sums.coordinator import Moments
from tacit.representations.scaled import Identity
from tests.methods.auto.given import CLASSES, clouds, planes


def told(samples, labels, noise, seed):
    """Sums of these records with this much noise, as a block about the public samples."""
    means = np.stack([(samples * (labels == each)[:, None]).mean(axis=0) for each in range(3)])
    means = means + np.random.default_rng(seed).normal(size=means.shape) * noise
    shares = np.bincount(labels, minlength=3) / len(labels)
    return Moments(means, shares, np.full(means.shape, noise**2 + 1e-6))


def odds(samples, moved):
    """Nearest of three points that lie beside the clouds."""
    from tests.methods.auto.given import CENTERS

    distance = np.square(samples[:, None] - (CENTERS + moved)).sum(axis=2)
    chances = np.exp(-distance / 20)
    return chances / chances.sum(axis=1, keepdims=True)


def test_labels_come_back_to_where_samples_are():
    public, true = clouds(300, 2)
    begun = odds(public, np.array([3.5, 3.5, 3.5, -3.5]))
    found = fit_public_mixture(public, begun)
    before, after = ((each.argmax(axis=1) == true).mean() for each in (begun, found.probabilities))
    assert before < 0.98 < after
    seen = found.components.transform(clouds(200, 3)[0])
    assert (found.odds.probabilities(seen).argmax(axis=1) == clouds(200, 3)[1]).mean() > 0.98


def test_what_was_released_has_the_last_word():
    public, true = clouds(300, 2)
    samples, labels = clouds(2000, 1)
    right = Block(SumFeatures(Identity(4), 1.0, 1, "l2"), public, told(samples, labels, 0.05, 4))
    begun = odds(public, 1.0)
    assert refined([right], public, begun) is not None
    assert released_misfit([right], np.eye(3)[true]) < coordinator.LARGEST_MISFIT
    # Classes that no cloud stands for: the sums of a mixture are far from the released ones.
    public, true = planes(300, 2)
    samples, labels = planes(20_000, 1)
    other = Block(SumFeatures(Identity(4), 1.0, 1, "l2"), public, told(samples, labels, 0.001, 4))
    assert refined([other], public, np.eye(3)[true]) is None


def test_few_samples_have_no_mixture():
    assert fit_public_mixture(np.zeros((10, 3)), np.full((10, 2), 0.5)) is None


@pytest.mark.parametrize("columns", [1, 4])
def test_samples_that_are_all_alike_have_none(columns):
    assert fit_public_mixture(np.ones((60, columns)), np.tile([[0.3, 0.7]], (60, 1))) is None


def test_embeddings_are_labeled_by_it_and_the_run_says_so(tmp_path):
    samples, labels = clouds(600, 1)
    given = {"delta": "1e-5", "classes": CLASSES, "seed": 2, "data_kind": "embedding"}
    run = tacit.distill((samples, np.array(CLASSES)[labels]), clouds(300, 2)[0], "0.2", **given)
    assert run.recipe["chosen"] == "sums, then a mixture of public samples"
    test, true = clouds(200, 5)
    assert (run.student.predict(test) == np.array(CLASSES)[true]).mean() > 0.97
    again = tacit.load(run.save(tmp_path / "run"))
    assert again.student.predict_proba(test).tolist() == run.student.predict_proba(test).tolist()
