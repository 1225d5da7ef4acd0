"""The audit of the audit: every mistake that is seeded is caught, with the certainty that the real ones must stand."""

from fractions import Fraction

import pytest

from tacit.audit.auditor import AUDITABLE, PROTOCOLS, audit
from tacit.audit.mutants import MUTANTS
from tacit.core.randomness import SeededRandomness

ONE, DELTA = Fraction(1), Fraction(1, 100)
# Those of whole protocols are caught in test_transcripts.py.
OWN = {name: mutant for name, mutant in MUTANTS.items() if mutant.mechanism not in PROTOCOLS}
DRAWS = {
    "drawn-with-replacement": 300_000,
    "underpriced-subset": 4_000,
    "redrawn-subset": 1_000,
    "no-flood": 20_000,
    "not-shuffled": 20_000,
    "wrong-adjacency": 2_000,
    "redrawn-answer": 400,
    "rounded-shares": 600,
}
# Eight releases a draw are slow: fewer draws, and less certainty than the others give.
CONFIDENCE = {"redrawn-answer": 0.999}


@pytest.mark.parametrize("name", OWN)
def test_a_mutant_is_caught(name):
    check = MUTANTS[name].check(ONE, DELTA)
    confidence = CONFIDENCE.get(name, 1 - 1e-9)
    finding = audit(check, DRAWS.get(name, 100_000) * check.cost, confidence, SeededRandomness(7))
    assert not finding.passed, finding
    assert finding.name == name


@pytest.mark.parametrize("mutant", OWN.values(), ids=lambda mutant: mutant.name)
def test_a_mutant_claims_what_the_mechanism_claims_and_says_what_is_wrong(mutant):
    claims = {check.claimed for check in AUDITABLE[mutant.mechanism](ONE, DELTA)}
    underpriced = mutant.name == "underpriced-subset"
    assert (mutant.check(ONE, DELTA).claimed in claims) is not underpriced
    assert len(mutant.flaw.split()) > 5
