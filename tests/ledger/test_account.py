import math
import os
import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.compose import total
from tacit.core.account import Balance, Ceiling, Rule, Total
from tacit.core.errors import BudgetExceeded, InvalidInput
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.spend import FREE, Composed, DiscreteGaussian, Pure, Repeated, Stability
from tacit.ledger import account
from tacit.ledger.account import Tally
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.sqlite import SqliteLedger

RICH = Ceiling(3, "1e-5", Rule.PLANNED, Unit.person("patient", 4), Adjacency.ADD_REMOVE)


@pytest.mark.parametrize("ceiling", [Ceiling("1/3"), RICH])
def test_a_ceiling_survives_being_written(ceiling):
    assert Ceiling.from_json(ceiling.to_json()) == ceiling


@pytest.mark.parametrize(
    ("epsilon", "delta", "named"), [(0, 0, "epsilon"), (-1, 0, "epsilon"), (1, 1, "delta"), (1, -0.1, "delta")]
)
def test_a_ceiling_is_checked(epsilon, delta, named):
    with pytest.raises(InvalidInput, match=named):
        Ceiling(epsilon, delta)


def test_a_pure_account_is_charged_without_an_accountant(monkeypatch):
    """Ten thousand charges, each told apart, and composition is never asked: that is what makes them O(1)."""
    monkeypatch.setattr(account, "composed", None)
    ceiling, tally = Ceiling(1, "1e-6"), Tally()
    for number in range(10_000):
        spend = Pure(Fraction(1, 10_000 + number % 3))
        assert tally.excess(spend, ceiling) is None
        tally = tally.plus(spend)
    assert tally.payments == 10_000


def test_equal_spends_are_one_part_of_the_running_total():
    tally, leak, tenth = Tally(), Stability("1e-9"), Pure("1/10")
    for spend in (leak, tenth, FREE, leak, tenth, leak):
        tally = tally.plus(spend)
    assert tally.payments == 6
    assert tally.running.parts == ((leak, 3), (tenth, 2))
    assert tally.running.rest is None


def test_many_equal_charges_never_pass_for_one_that_was_fixed_in_advance():
    spend, delta = DiscreteGaussian(10, 2, unit_steps=True), Fraction(1, 10**5)
    ceiling, tally = Ceiling(9, delta), Tally()
    for count in (1, 2, 3):
        tally = tally.plus(spend)
        assert tally.total(ceiling) == total([spend] * count, delta)
        planned = total([Repeated(spend, count)], delta).epsilon
        assert (tally.total(ceiling).epsilon == planned) == (count == 1)


@given(st.fractions(0, 3), st.fractions(Fraction(1, 1000), 3))
def test_what_is_shown_never_promises_more_than_there_is(spent, ceiling):
    balance = Balance("clinic", Ceiling(ceiling), Total(spent, Fraction(0), "pure composition"), 2)
    assert balance.remaining == max(0, ceiling - spent)
    assert Fraction(balance.remaining_shown) <= balance.remaining
    assert Fraction(balance.spent_shown) >= spent


def test_a_total_without_bound_leaves_nothing():
    balance = Balance("clinic", Ceiling(1), Total(math.inf, Fraction(0), "none"), 1)
    assert balance.remaining == 0
    assert "spent epsilon without bound of 1" in balance.in_words


def test_opening_a_ledger_is_light():
    """A client process is started for every message; it must not pay for an accountant it does not ask."""
    heavy = "numpy scipy dp_accounting pydantic typer rich"
    code = f"import sys, tacit.ledger.sqlite; print([name for name in '{heavy}'.split() if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "[]"


def test_what_is_foreseen_is_what_the_charges_will_find(tmp_path):
    """Several requests taken as one charge would pass for planned in advance, and the last would be refused."""
    spend, delta = DiscreteGaussian(10, 2, unit_steps=True), Fraction(1, 10**5)
    together = total([Composed(spend, spend)], delta).epsilon
    one_by_one = total([spend, spend], delta).epsilon
    assert together < one_by_one
    policy = {"tight": Ceiling((together + one_by_one) / 2, delta), "enough": Ceiling(one_by_one, delta)}
    with SqliteLedger.create(tmp_path / "main.ledger", policy) as durable:
        for ledger in (MemoryLedger(policy), durable):
            with pytest.raises(BudgetExceeded, match="0 payments"):
                ledger.preflight("tight", {"r-1": spend, "r-2": spend})
            ledger.preflight("enough", {"r-1": spend, "r-2": spend})
            for request in ("r-1", "r-2"):
                ledger.charge("enough", spend, "labels", "system", request, "q")
            ledger.preflight("enough", {"r-1": spend, "r-2": spend})
            with pytest.raises(BudgetExceeded, match="2 payments"):
                ledger.preflight("enough", {"r-2": spend, "r-3": spend})
