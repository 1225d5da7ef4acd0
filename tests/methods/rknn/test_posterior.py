"""Posteriors: exact sums, the order of the counts kept, and confidence that means what it says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, logsumexp, xlogy

from tacit.core.errors import InvalidInput
from tacit.methods.rknn.posterior import (
    Mixture,
    Noise,
    calibrated_posterior,
    fit_mixture,
    log_kernel,
    mixture_posterior,
)

noises = st.builds(Noise, st.sampled_from(["laplace", "gaussian"]), st.floats(0.05, 300))
tables = st.integers(2, 6).flatmap(
    lambda classes: st.lists(
        st.lists(st.integers(-100, 300), min_size=classes, max_size=classes), min_size=1, max_size=5
    )
)


def plain_kernel(values, means, noise):
    """The definition, term by term."""
    amount = np.arange(4000)[None, None, :]
    offset = values[:, None, None] - amount
    law = -np.abs(offset) / noise.scale if noise.law == "laplace" else -((offset / noise.scale) ** 2) / 2
    mean = means[None, :, None]
    return logsumexp(law + xlogy(amount, mean) - mean - gammaln(amount + 1), axis=2)


@given(
    values=st.sets(st.integers(-300, 2500), min_size=1, max_size=3),
    means=st.lists(st.floats(0, 2500), min_size=1, max_size=3),
    noise=noises,
)
@settings(max_examples=100, deadline=None)
def test_the_kernel_is_the_sum_it_stands_for(values, means, noise):
    seen, mean = np.array(sorted(values)), np.array(means)
    assert log_kernel(seen, mean, noise) == pytest.approx(plain_kernel(seen, mean, noise), rel=1e-11, abs=1e-9)


@given(table=tables, noise=noises)
@settings(max_examples=30, deadline=None)
def test_the_order_of_the_counts_is_kept(table, noise):
    counts = np.array(table)
    found = calibrated_posterior(counts, noise)
    assert found.sum(axis=1) == pytest.approx(1)
    ranked = np.take_along_axis(found, np.argsort(counts, axis=1), axis=1)
    assert (np.diff(ranked, axis=1) >= -1e-9).all()


@given(table=tables, noise=noises, seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_classes_are_alike_and_a_prior_multiplies(table, noise, seed):
    counts = np.array(table)
    classes = counts.shape[1]
    generator = np.random.default_rng(seed)
    mixture = Mixture.even([0, 30, 100, 400], [1 / classes, 0.8, 1])
    found = mixture_posterior(counts, noise, mixture)
    order = generator.permutation(classes)
    assert mixture_posterior(counts[:, order], noise, mixture) == pytest.approx(found[:, order], abs=1e-9)
    prior = generator.uniform(0.1, 1, classes)
    weighted = found * prior
    weighted /= weighted.sum(axis=1, keepdims=True)
    assert mixture_posterior(counts, noise, mixture, prior) == pytest.approx(weighted, abs=1e-9)


def drawn(seed, queries, classes, noise):
    """Queries of many sizes and purities, their true labels, and what is released of their counts."""
    generator = np.random.default_rng(seed)
    size = generator.gamma(4, 25, queries)
    share = 1 / classes + (1 - 1 / classes) * generator.beta(3, 1.5, queries)
    labels = generator.integers(0, classes, queries)
    means = np.repeat((size * (1 - share) / (classes - 1))[:, None], classes, axis=1)
    means[np.arange(queries), labels] = size * share
    if noise.law == "laplace":
        stop = -np.expm1(-1 / noise.scale)
        added = np.subtract(*generator.geometric(stop, (2, queries, classes)))
    else:
        added = np.rint(generator.normal(0, noise.scale, (queries, classes))).astype(int)
    return generator.poisson(means) + added, labels


def loss(probabilities, labels):
    return -np.log(probabilities[np.arange(len(labels)), labels]).mean()


@pytest.mark.parametrize("noise", [Noise("laplace", 15), Noise("gaussian", 25)])
def test_confidence_is_accuracy(noise):
    counts, labels = drawn(1, 1000, 10, noise)
    found = calibrated_posterior(counts, noise)
    confidence, right = found.max(axis=1), found.argmax(axis=1) == labels
    assert 0.4 < right.mean() < 0.9
    # Both among the queries it is sure of and among the others; a share of 500 has a spread of 0.022.
    sure = confidence > np.median(confidence)
    for part in (sure, ~sure):
        assert confidence[part].mean() == pytest.approx(right[part].mean(), abs=0.06)
    clipped = np.maximum(counts, 0.5)
    assert loss(found, labels) < loss(clipped / clipped.sum(axis=1, keepdims=True), labels) - 0.1


def test_confidence_by_the_wrong_noise_is_rejected():
    """The mutant that believes in a third of the noise is caught by the same comparison."""
    noise = Noise("laplace", 15)
    counts, labels = drawn(1, 1000, 10, noise)
    mutant = calibrated_posterior(counts, Noise("laplace", 5))
    confidence, right = mutant.max(axis=1), mutant.argmax(axis=1) == labels
    assert confidence.mean() - right.mean() > 0.1
    assert loss(mutant, labels) > loss(calibrated_posterior(counts, noise), labels) + 0.1


def test_noise_alone_convinces_nobody():
    counts = np.subtract(*np.random.default_rng(2).geometric(0.1, (2, 300, 10)))
    assert calibrated_posterior(counts, Noise("laplace", -1 / np.log(0.9))).max(axis=1).mean() < 0.2


def test_fitting_raises_the_likelihood():
    noise = Noise("laplace", 10)
    counts, _ = drawn(3, 200, 5, noise)
    fitted = fit_mixture(counts, noise)
    assert fitted.weights.sum() == pytest.approx(1)
    assert (fitted.weights > 0).all()
    # Gamma(4, 25) has mean 100, the shares 0.2 + 0.8·2/3 on average.
    assert fitted.weights @ fitted.sizes == pytest.approx(100, abs=12)
    assert fitted.weights @ fitted.shares == pytest.approx(0.733, abs=0.06)


@pytest.mark.parametrize("noise", [Noise("laplace", 2), Noise("gaussian", 2)])
def test_counts_the_model_cannot_explain_are_still_ordered(noise):
    # Half of the rest in one class: under the model about e^-4000.
    found = calibrated_posterior(np.array([[4000, 2000, -3, 0], [10, 0, 0, 0]]), noise)
    assert np.isfinite(found).all()
    assert found[0, 0] == pytest.approx(1)
    assert found[1].argmax() == 0


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: Noise("cauchy", 1), "law must be laplace or gaussian"),
        (lambda: Noise("laplace", 0), "scale must be above 0"),
        (lambda: Noise("laplace", np.inf), "scale must be above 0 and finite"),
        (lambda: calibrated_posterior(np.ones((2, 3)), Noise("laplace", 1)), "noisy_counts must be integers"),
        (lambda: calibrated_posterior(np.ones(3, dtype=int), Noise("laplace", 1)), r"got shape \(3,\)"),
        (lambda: calibrated_posterior(np.ones((2, 1), dtype=int), Noise("laplace", 1)), "at least 2 classes"),
        (lambda: calibrated_posterior(np.ones((2, 2), dtype=int), Noise("laplace", 1), [1, 0]), "2 numbers above 0"),
        (lambda: calibrated_posterior(np.ones((2, 2), dtype=int), Noise("laplace", 1), [1]), "2 numbers above 0"),
    ],
)
def test_wrong_input_is_named(action, message):
    with pytest.raises(InvalidInput, match=message):
        action()
