"""Local answers about groups are joined with what is known of each sample."""

import numpy as np
import pytest

from experiments.local_groups import asked, joined
from experiments.public_odds import Known


def known(records=4000, public=300):
    """Three classes at corners of a square; names are right for two of them."""
    random = np.random.default_rng(0)
    corners = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])

    def part(count):
        labels = random.integers(3, size=count)
        return (corners[labels] + random.normal(size=(count, 2)) / 2).astype(np.float32), labels

    (private, labels), (shown, truth), (test, told) = part(records), part(public), part(200)
    said = [np.full((len(each), 3), 0.2) + 0.4 * np.eye(3)[each] for each in (truth, told)]
    return Known(private, labels, shown, truth, test, told, *said)


@pytest.mark.parametrize("groups", [3, 8])
def test_many_clear_answers_name_every_group(groups):
    found = asked(known(), groups, 8.0, seed=0)
    assert found["answers"]["test"] > 0.95
    assert found["both"]["test"] > 0.95


def test_chances_are_fitted_to_the_shares_of_each_group():
    chances = np.array([[0.6, 0.4], [0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    groups = np.array([0, 0, 1, 1])
    fitted = joined(np.array([[0.5, 0.5], [0.1, 0.9]]), groups, chances)
    assert np.allclose([fitted[:2].mean(axis=0), fitted[2:].mean(axis=0)], [[0.5, 0.5], [0.1, 0.9]], atol=0.02)
    # Within a group the order of what was known remains.
    assert fitted[1, 0] > fitted[0, 0]
