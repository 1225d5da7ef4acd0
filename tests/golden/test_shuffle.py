"""Golden vectors of counting from shuffled messages: mathematics, section 7."""

from fractions import Fraction

import numpy as np
import pytest

from tacit.mechanisms.shuffle.multi_message_noise import plan_noise_messages
from tacit.mechanisms.shuffle.negative_binomial import cell_delta, least_noise_messages


@pytest.mark.parametrize(
    ("noise", "margin", "shape", "flood", "delta"),
    [(".5", ".3", 20, ".2", 4.057248e-6), ("1", ".2", 10, ".3", 3.976785e-3), (".5", "1.5", 0, 1, 0.393469)],
)
def test_delta_of_one_cell(noise, margin, shape, flood, delta):
    assert float(cell_delta(noise, margin, shape, flood)) == pytest.approx(delta, rel=1e-6)


def test_without_a_flood_no_margin_helps():
    assert cell_delta(".5", ".1", 0, 1) == cell_delta(".5", "50", 0, 1)


@pytest.mark.parametrize(
    ("fraction", "shape", "flood", "mean"),
    [("1/2", "32.914", ".4181", 63.41), ("1/10", "17.672", ".0585", 293.44)],
)
def test_the_published_floods_are_just_enough_and_ours_are_no_larger(fraction, shape, flood, mean):
    # k = r = 1, ε = 1, δ = 1e-6. The two parameters are given to a few digits: δ = 1e-6 lies between the corners of
    # what they may have been, and so does E[W].
    noise, margin = (1 - Fraction(fraction)) / 2, Fraction(fraction)
    more, less = Fraction(shape) + Fraction("0.0005"), Fraction(shape) - Fraction("0.0005")
    slow, fast = Fraction(flood) - Fraction("0.00005"), Fraction(flood) + Fraction("0.00005")
    assert cell_delta(noise, margin, more, slow) <= Fraction("1e-6") <= cell_delta(noise, margin, less, fast)
    assert float(less) / np.expm1(float(fast)) <= mean <= float(more) / np.expm1(float(slow))
    # E[W] has ripples, and the published points are on a slope: a better one is within half a percent.
    found = least_noise_messages(noise, margin, "1e-6")
    assert cell_delta(noise, margin, found.shape, found.epsilon) <= Fraction("1e-6")
    assert 0.995 * mean < found.mean < mean


def test_messages_a_user_and_the_scale_of_the_paper():
    # The paper's scale 4kr/ε is a half for the flood; messages = kr + (2d/n)(p/(1−p) + E[W]).
    plan = plan_noise_messages(1, "1e-6", cells=400, participants=60_000, ones=4, prefer="1/2")
    assert 1 / plan.epsilon_noise == 16
    decay = np.exp(-float(plan.epsilon_noise))
    flood = float(plan.flood.shape) / np.expm1(float(plan.flood.epsilon))
    assert plan.messages == pytest.approx(4 + 2 * 400 / 60_000 * (decay / (1 - decay) + flood), rel=1e-12)
