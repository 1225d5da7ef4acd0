"""Laws of every method with a ledger that was written to the protocol alone."""

from fractions import Fraction

import pytest

from tacit.core.errors import BudgetExceeded, TacitError
from tests.laws.methods.given import OVER_BUDGET, PRIVATE, PUBLIC, added_simply, every, looked_at_before
from tests.laws.methods.third_party import ThirdPartyLedger

pytestmark = pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")


@every(only=added_simply)
def test_a_ledger_written_to_the_protocol_alone_pays(method, tmp_path):
    funds = method.funds(make=ThirdPartyLedger)
    run = method.run(PRIVATE, PUBLIC, funds=funds, folder=tmp_path / "rounds")
    assert funds.payments() == dict.fromkeys(method.accounts, method.payments)
    assert len(run.receipts) == method.payments * len(method.accounts)
    again = method.run(PRIVATE, PUBLIC, funds=funds, folder=tmp_path / "rounds")
    assert funds.payments() == dict.fromkeys(method.accounts, method.payments)
    assert set(again.receipts) == set(run.receipts)


@every(only=lambda method: looked_at_before(method) or added_simply(method))
def test_a_ledger_of_a_third_party_that_cannot_pay_to_the_end_pays_nothing(method, tmp_path):
    funds = method.funds(Fraction(2 * method.payments - 1, 2 * method.payments), make=ThirdPartyLedger)
    with pytest.raises(BudgetExceeded, match="account"):
        method.run(PRIVATE, PUBLIC, funds=funds)
    assert set(funds.payments().values()) == {0}


@every(only=added_simply)
def test_a_ledger_of_a_third_party_refuses_what_is_over_budget(method, tmp_path):
    funds = method.funds(Fraction(1, 10), make=ThirdPartyLedger)
    with pytest.raises(TacitError if method.federated else BudgetExceeded, match=OVER_BUDGET):
        method.run(PRIVATE, PUBLIC, funds=funds)
    assert set(funds.payments().values()) == {0}
