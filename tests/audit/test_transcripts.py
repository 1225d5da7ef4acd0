"""No server tells neighbours apart beyond the stated ε, seeing every packet; and servers that could are found out."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.audit.auditor import audit
from tacit.audit.transcripts import Silent, masked_transcript, shuffled_transcript
from tacit.core.codec import encode
from tacit.core.randomness import SystemRandomness
from tacit.exchange.post.office import Outcome
from tacit.mechanisms.masked.distributed_laplace import MaskedShare
from tacit.mechanisms.shuffle.negative_binomial import NegativeBinomial

CONFIDENCE = 1 - 1e-9
SAMPLES = 120_000


class HalfShare(Silent):
    """Mutant: a holder adds half of its share of the noise."""

    def sample(self, value, randomness):
        law = self.share.plan.share_law
        jumps = NegativeBinomial(law.shape / 2, law.epsilon).scatter(1, 2 * value.size, randomness)
        both = np.zeros(2 * value.size, dtype=np.int64)
        np.add.at(both, jumps.slot, jumps.size)
        return super().sample(value + both[: value.size] - both[value.size :], randomness)


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


def unmasked(share):
    """Mutant: a holder leaves its masks out."""
    return MaskedShare(share.plan, share.session, np.zeros_like(share.mask))


def test_masks_left_out_are_found_out():
    finding = audit(masked_transcript(Fraction(1), True, unmasked), SAMPLES, CONFIDENCE, SystemRandomness())
    assert not finding.passed, str(finding)


def same_mask(share):
    """Mutant: every table goes under the same mask."""
    return MaskedShare(share.plan, share.session, np.arange(share.mask.size, dtype=np.uint64) * np.uint64(977))


def test_a_mask_that_is_used_twice_is_found_out():
    honest, mutant = (masked_transcript(Fraction(1), True, wrap) for wrap in (lambda share: share, same_mask))

    def difference(target):
        first, second = (target.draw(0, 2000, SystemRandomness()) for _ in range(2))
        return np.abs((first - second).astype(np.int16).astype(np.int64))

    # Under fresh masks the difference of two packets is anything; under one mask it is that of two noisy tables.
    assert np.median(difference(honest)) > 1000
    assert np.median(difference(mutant)) < 10


def in_order(batch, submissions):
    """Mutant: a shuffler that forwards boxes in the order in which they came."""
    boxes = np.concatenate([each.pieces for each in submissions])
    content = {
        "batch": batch.digest,
        "pieces": boxes,
        "participants": sum(each.participants for each in submissions),
        "nodes": len(submissions),
        "duplicates": 0,
    }
    return Outcome(encode(content), len(boxes))


@pytest.mark.statistical(rate=2e-9)
@pytest.mark.parametrize("order", [False, True])
def test_the_coordinator_of_a_shuffled_batch_sees_no_more_than_is_paid_for(order):
    target = replace(shuffled_transcript(Fraction(1), Fraction(1, 20), order), cost=1)
    finding = audit(target, 120, CONFIDENCE, SystemRandomness())
    assert finding.passed, str(finding)


def test_a_shuffler_that_does_not_mix_is_found_out():
    target = replace(shuffled_transcript(Fraction(1), Fraction(1, 20), True, in_order), cost=1)
    finding = audit(target, 400, CONFIDENCE, SystemRandomness())
    assert not finding.passed, str(finding)
