"""Who pays for a run, how often, and what is refused before a record is counted."""

from fractions import Fraction

import numpy as np
import pytest

import tacit
from tacit.accounting.compose import total
from tacit.core.account import Ceiling
from tacit.core.errors import BudgetExceeded, InvalidInput
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.sqlite import SqliteLedger
from tacit.methods.registry import chosen_method
from tacit.runs.payment import look_ahead

PARTS = tacit.digits()
PRIVATE = (PARTS.private_samples, PARTS.private_labels)


def distill(**options):
    given = {"private": PRIVATE, "public": PARTS.public_samples, "epsilon": 1.0, "classes": range(10), "seed": 1}
    return tacit.distill(**(given | options))


def test_a_simulation_spends_no_real_budget(tmp_path):
    path = tmp_path / "main.ledger"
    SqliteLedger.create(path, {"research": Ceiling(1)}).close()
    with SqliteLedger(path) as open_ledger:
        for ledger in (path, str(path), open_ledger):
            with pytest.raises(InvalidInput, match="a seed makes a simulation"):
                distill(ledger=ledger, account="research")
        assert open_ledger.balance("research").payments == 0


def test_what_cannot_be_paid_is_refused_before_a_record_is_counted(tmp_path):
    durable = SqliteLedger.create(tmp_path / "main.ledger", {"research": Ceiling("0.5")})
    for ledger in (durable, MemoryLedger({"research": Ceiling("0.5")})):
        counted = []
        watching = tacit.Observer(plan=counted.append, progress=counted.append)
        with pytest.raises(BudgetExceeded, match="cannot pay"):
            distill(ledger=ledger, account="research", seed=None, observer=watching)
        assert counted == []
        distill(ledger=ledger, account="research", seed=None, epsilon=0.5, request="r-1")
        # A request that is paid already costs nothing more, however empty the account is.
        distill(ledger=ledger, account="research", seed=None, epsilon=0.5, request="r-1")
    durable.close()


def test_a_ledger_pays_and_refuses_when_it_is_spent():
    ledger = MemoryLedger({"research": Ceiling("1.5")})
    distill(ledger=ledger, account="research")
    with pytest.raises(BudgetExceeded, match=r"epsilon 0\.5 remains"):
        distill(ledger=ledger, account="research")
    distill(ledger=ledger, account="research", epsilon=0.5)
    assert ledger.balance("research").remaining == 0


def test_the_same_request_is_paid_once():
    ledger = MemoryLedger({"research": Ceiling(1)})
    first = distill(ledger=ledger, account="research", request="r-1", seed=1)
    again = distill(ledger=ledger, account="research", request="r-1", seed=2)
    assert np.array_equal(first.query_labels, again.query_labels)
    assert ledger.balance("research").spent.epsilon == 1


def test_an_account_of_another_unit_is_not_charged():
    ledger = MemoryLedger({"people": Ceiling(1, unit=tacit.Unit.person("patient", 3))})
    with pytest.raises(InvalidInput, match="protects one person"):
        distill(ledger=ledger, account="people")
    assert ledger.balance("people").payments == 0


@pytest.mark.parametrize(
    ("method", "epsilon", "delta", "more"),
    [
        ("auto", 1, 0, {}),
        ("auto", 1, "1e-6", {"data_kind": "table"}),
        ("auto", 3, "1e-7", {"releases": "votes"}),
        ("rknn", 8, "1e-6", {}),
        ("rknn", 1, "1e-6", {"mechanism": "gaussian", "persons": np.arange(1000) // 3}),
        ("rknn", 1, 0, {"iterations": 2, "shares": [1, 2]}),
        ("class_sums", 2, "1e-6", {}),
    ],
)
def test_what_an_account_can_pay_is_not_refused_early(method, epsilon, delta, more):
    unit = tacit.Unit.person("person", 3) if "persons" in more else tacit.Unit()
    options = chosen_method(
        method, {name: value for name, value in more.items() if name not in ("persons", "data_kind")}
    )[1]
    asked = []

    class Watched(MemoryLedger):
        def preflight(self, account, prices):
            asked.append(list(prices.values()))

    def stop(plan):
        raise InterruptedError

    ledger = Watched({"research": Ceiling(100, "1e-5", unit=unit)})
    with pytest.raises(InterruptedError):
        distill(
            ledger=ledger, account="research", method=method, epsilon=epsilon, delta=delta, unit=unit,
            observer=tacit.Observer(plan=stop), **more,
        )  # fmt: skip
    for slack in ("1e-5", "1e-7"):
        price = total(asked[-1], Fraction(slack)).epsilon
        exactly = MemoryLedger({"research": Ceiling(price, slack, unit=unit)})
        look_ahead(exactly, "research", unit, "replace-one", epsilon, delta, options)
        if delta == 0 or options.name == "class_sums":
            # Of several mechanisms that may be chosen, some cost less.
            less = MemoryLedger({"research": Ceiling(price * Fraction(19, 20), slack, unit=unit)})
            with pytest.raises(BudgetExceeded):
                look_ahead(less, "research", unit, "replace-one", epsilon, delta, options)
