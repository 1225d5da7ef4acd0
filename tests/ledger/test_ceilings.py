"""A ceiling is a ceiling: not a thousandth above it, for any kind of spend, in any kind of ledger."""

from fractions import Fraction

import pytest

from tacit.accounting.compose import total
from tacit.core.account import Ceiling, Rule
from tacit.core.errors import BudgetExceeded
from tacit.core.spend import Approximate, DiscreteGaussian, Gaussian, Pure, RandomizedResponse, Repeated
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.sqlite import SqliteLedger

DELTA = Fraction(1, 10**5)
SPENDS = [
    Pure("1/3"),
    Repeated(Pure("1/50"), 7),
    RandomizedResponse("1/2", 10),
    Approximate("1/4", "1e-7"),
    Gaussian(40),
    DiscreteGaussian(50, 2, unit_steps=True),
]


def ledgers(ceiling, file):
    yield MemoryLedger({"clinic": ceiling})
    with SqliteLedger.create(file, {"clinic": ceiling}) as ledger:
        yield ledger


def charge(ledger, spend, request):
    return ledger.charge("clinic", spend, "labels", "seeded", request, "c0ffee")


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("delta", [Fraction(0), DELTA])
@pytest.mark.parametrize("spend", SPENDS, ids=repr)
def test_what_reaches_the_ceiling_fits_and_a_millionth_below_it_does_not(spend, delta, rule, tmp_path):
    reached = total([spend] * 3, delta, rule).epsilon
    if reached == float("inf"):
        pytest.skip("nothing bounds this without a delta")
    for ledger in ledgers(Ceiling(reached, delta, rule), tmp_path / "full.ledger"):
        for number in range(3):
            charge(ledger, spend, f"r-{number}")
        with pytest.raises(BudgetExceeded):
            charge(ledger, spend, "r-3")
    for ledger in ledgers(Ceiling(reached * Fraction(999_999, 1_000_000), delta, rule), tmp_path / "below.ledger"):
        for number in range(2):
            charge(ledger, spend, f"r-{number}")
        with pytest.raises(BudgetExceeded):
            charge(ledger, spend, "r-2")
        assert ledger.balance("clinic").payments == 2
