"""No server tells neighbors apart beyond the stated ε, seeing every packet; and servers that could are found out."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.audit import auditor
from tacit.audit.auditor import audit
from tacit.audit.mutants import MUTANTS
from tacit.audit.transcripts import (
    HalfShare,
    Silent,
    masked_transcript,
    shuffled_transcript,
    unmasked,
    unshuffled,
)
from tacit.core.errors import InvalidInput
from tacit.core.randomness import SystemRandomness
from tacit.mechanisms.masked.distributed_laplace import MaskedShare

CONFIDENCE = 1 - 1e-9
SAMPLES = 120_000
# A batch has fifty pairs of cells, and every message in it is sealed and opened.
BATCHED = 200
DELTA = Fraction(1, 20)


@pytest.mark.statistical(rate=2e-9)
def test_the_masked_server_sees_no_more_than_is_paid_for():
    total = audit(masked_transcript(Fraction(1), packets=False), SAMPLES, CONFIDENCE, SystemRandomness())
    packets = audit(masked_transcript(Fraction(1), packets=True), SAMPLES, CONFIDENCE, SystemRandomness())
    assert total.passed, str(total)
    assert packets.passed, str(packets)
    # The audit has teeth: nearly all of the claim is needed for the sum, and nothing of it for the packets.
    assert total.share > 0.7, str(total)
    assert packets.found < 0.1, str(packets)


@pytest.mark.parametrize("mutant", [HalfShare, Silent])
def test_holders_that_add_too_little_noise_are_found_out(mutant):
    finding = audit(masked_transcript(Fraction(1), False, mutant), SAMPLES, CONFIDENCE, SystemRandomness())
    assert not finding.passed, str(finding)


def test_masks_left_out_are_found_out():
    finding = audit(masked_transcript(Fraction(1), True, unmasked), SAMPLES, CONFIDENCE, SystemRandomness())
    assert not finding.passed, str(finding)


def same_mask(share):
    """Every table goes under the same mask."""
    return MaskedShare(share.plan, share.session, np.arange(share.mask.size, dtype=np.uint64) * np.uint64(977))


def test_a_mask_that_is_used_twice_is_found_out():
    honest, mutant = (masked_transcript(Fraction(1), True, wrap) for wrap in (lambda share: share, same_mask))

    def difference(target):
        first, second = (target.draw(0, 2000, SystemRandomness()) for _ in range(2))
        return np.abs((first - second).astype(np.int16).astype(np.int64))

    # Under fresh masks the difference of two packets is anything; under one mask it is that of two noisy tables.
    assert np.median(difference(honest)) > 1000
    assert np.median(difference(mutant)) < 10


@pytest.mark.statistical(rate=2e-9)
@pytest.mark.parametrize("order", [False, True])
def test_the_coordinator_of_a_shuffled_batch_sees_no_more_than_is_paid_for(order):
    target = replace(shuffled_transcript(Fraction(1), DELTA, order), cost=1)
    finding = audit(target, BATCHED, CONFIDENCE, SystemRandomness())
    assert finding.passed, str(finding)


def test_a_shuffler_that_does_not_mix_is_found_out():
    target = replace(shuffled_transcript(Fraction(1), DELTA, True, unshuffled), cost=1)
    # A larger error is allowed where something is to be found.
    finding = audit(target, BATCHED, 0.999, SystemRandomness())
    assert not finding.passed, str(finding)


def test_protocols_and_their_mutants_are_audited_by_name(monkeypatch):
    for name in auditor.PROTOCOLS:
        (check,) = auditor.AUDITABLE[name](Fraction(1, 2), DELTA)
        assert (check.name, check.epsilon) == (name, Fraction(1, 2))
    for mutant in MUTANTS.values():
        if mutant.mechanism in auditor.PROTOCOLS:
            (claimed,) = auditor.AUDITABLE[mutant.mechanism](Fraction(1), DELTA)
            made = mutant.check(Fraction(1), DELTA)
            assert (made.name, made.claimed) == (mutant.name, claimed.claimed)
    monkeypatch.setattr(auditor, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"masked-sum .* pip install 'tacit\[federated\]'"):
        auditor.AUDITABLE["masked-sum"](Fraction(1), DELTA)


def test_a_pair_of_cells_shows_one_vote_and_its_noise():
    """What the coordinator sees of a pair is the true vote on average, and messages that say nothing besides."""
    seen = shuffled_transcript(Fraction(1), DELTA, False).draw(1, 100, SystemRandomness())
    assert seen.shape == (100, 3)
    # The noise of a hundred pairs has a deviation of about 0.6 on average.
    own, other = seen[:, 1].mean(), seen[:, 0].mean()
    assert abs(own - 1) < 5
    assert abs(other) < 5
    assert seen[:, 2].min() >= 0
