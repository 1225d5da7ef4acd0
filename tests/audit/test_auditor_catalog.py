"""Every mechanism stands its audit, and most of them so nearly that a little less noise would show."""

from fractions import Fraction

import pytest

from tacit.audit.auditor import AUDITABLE, PROTOCOLS, audit
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.mechanisms.auditing import Target

ONE, DELTA = Fraction(1), Fraction(1, 100)
# At most two checks a mechanism share this.
RATE = 1e-9
# Whole protocols have tests of their own: test_transcripts.py.
NAMES = [name for name in AUDITABLE if name not in PROTOCOLS]
SLOW = {
    "private-knn": 4_000,
    "private-knn-replaced": 4_000,
    "private-knn-filtered": 500,
    "private-knn-screen": 4_000,
    "pate-tested": 20_000,
    "pate-estimated": 20_000,
    "shuffled-response": 20_000,
    "flooded-messages": 10_000,
    "nfdp-subset": 2_000,
    "nfdp-with-replacement": 2_000,
    "nfdp-stratified": 2_000,
    "gate": 1_000,
    "gate-retried": 100,
}


@pytest.mark.statistical(rate=RATE)
@pytest.mark.parametrize("name", NAMES)
def test_a_mechanism_gives_no_more_away_than_it_claims(name):
    # The mutants are caught with the same certainty in test_mutants.py.
    draws = SLOW.get(name, 50_000)
    for check in AUDITABLE[name](ONE, DELTA):
        finding = audit(check, draws * check.cost, 1 - RATE / 2, SystemRandomness())
        assert finding.passed, finding
        assert finding.samples == draws


@pytest.mark.parametrize(
    ("name", "draws", "least"),
    [
        *((name, 50_000, 0.6) for name in NAMES if name not in (*SLOW, "distributed-gaussian")),
        # Concentrated privacy is all that is proven of it, which converts to a larger epsilon than is true.
        ("distributed-gaussian", 50_000, 0.35),
        # Half of the claim pays for the test, whose result the labels show.
        ("pate-tested", 50_000, 0.4),
        # Two fifths of the claim are for the noise of the estimate itself.
        ("pate-estimated", 50_000, 0.25),
        ("shuffled-response", 20_000, 0.4),
        ("flooded-messages", 10_000, 0.4),
        ("nfdp-subset", 2_000, 0.7),
        ("nfdp-with-replacement", 2_000, 0.7),
        ("nfdp-stratified", 2_000, 0.6),
        ("private-knn", 10_000, 0.3),
        ("private-knn-replaced", 10_000, 0.2),
        ("private-knn-screen", 10_000, 0.2),
        ("gate", 1_000, 0.3),
    ],
)
def test_an_audit_shows_how_much_of_the_claim_is_needed(name, draws, least):
    target = AUDITABLE[name](ONE, DELTA)[0]
    finding = audit(target, draws * target.cost, 0.999, SeededRandomness(3))
    assert finding.share >= least, finding


@pytest.mark.parametrize("name", NAMES)
def test_a_check_is_named_after_its_mechanism_and_made_for_the_budget(name):
    for check in AUDITABLE[name](Fraction(1, 2), DELTA):
        assert check.name == name
        if isinstance(check, Target):
            assert check.epsilon <= Fraction(51, 100)
            assert check.delta <= DELTA or name.startswith("nfdp")
