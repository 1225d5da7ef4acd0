"""One record lives with one holder, so what is claimed of several is the weakest of their claims."""

from fractions import Fraction

from tacit.core.guarantee import Adjacency, Trust, Unit
from tacit.core.release import Receipt
from tacit.core.spend import Approximate, Pure
from tacit.runs.payment import guarantees_from, weakest


def test_disjoint_holders_do_not_add_up():
    spends = {"ada": Pure(1), "bo": Approximate(2, "1/9"), "cy": Pure("1/2")}
    paid = [Receipt(name, "r", "labels", spend, "system", 1, "") for name, spend in spends.items()]
    given = {"unit": Unit(), "adjacency": Adjacency.REPLACE_ONE, "trust": Trust.CENTRAL}
    claims = guarantees_from(paid, delta=Fraction(1, 9), **given)
    assert (weakest(claims).epsilon, weakest(claims).delta) == (2, Fraction(1, 9))
    assert weakest({"ada": claims["ada"]}) == claims["ada"]
