"""From receipts to what may be claimed: one function for every method, in one process and over nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from tacit.accounting.compose import least_total
from tacit.accounting.parts import group
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Guarantee, Trust, Unit
from tacit.core.rational import whole
from tacit.core.release import Receipt

__all__ = [
    "CLASSES_READ",
    "NODES_BOUND_PERSONS",
    "SEVERAL_NODES",
    "by_account",
    "group_guarantee",
    "guarantees_from",
    "weakest",
]

CLASSES_READ = (
    "the list of classes was read off the private labels, so that a class exists is not protected; "
    "declare the classes to remove this"
)
SEVERAL_NODES = (
    "it holds for what one node has: where the same record or person is at several nodes, what each of them spends "
    "adds up"
)

NODES_BOUND_PERSONS = (
    "it holds for persons at nodes whose own accounts protect such persons and count as many records of each: what a "
    "node's account protects is not sent"
)


def by_account(receipts: Sequence[Receipt]) -> dict[str, list[Receipt]]:
    """The receipts of every account. An account is of one holder; what the others paid is not for its records."""
    paid: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        paid.setdefault(receipt.account, []).append(receipt)
    return paid


def guarantees_from(
    receipts: Sequence[Receipt],
    *,
    delta: Fraction,
    unit: Unit,
    adjacency: Adjacency,
    trust: Trust,
    caveats: tuple[str, ...] = (),
) -> dict[str, Guarantee]:
    """What each account that paid is guaranteed, by all that it paid.

    What is pure is said to be pure, even where some δ was allowed.

    >>> from tacit.core.spend import Pure
    >>> paid = [Receipt("ada", f"r-{n}", "labels", Pure("1/4"), "system", n, "") for n in range(2)]
    >>> given = {"unit": Unit(), "adjacency": Adjacency.REPLACE_ONE, "trust": Trust.CENTRAL}
    >>> guarantees_from(paid, delta=Fraction(0), **given)["ada"].epsilon
    Fraction(1, 2)
    """
    found = {}
    for account, own in by_account(receipts).items():
        spent = least_total([receipt.spend for receipt in own], delta)
        found[account] = Guarantee(
            epsilon=Fraction(spent.epsilon),
            delta=spent.delta,
            unit=unit,
            adjacency=adjacency,
            trust=trust,
            accountant=spent.accountant,
            caveats=caveats,
            simulation=any(receipt.simulated for receipt in own),
        )
    return found


def group_guarantee(claim: Guarantee, receipts: Sequence[Receipt], size: int) -> Guarantee:
    """What the account that paid most guarantees any ``size`` of its units together, such as a family.

    >>> from tacit.core.spend import Pure
    >>> paid = [Receipt("ada", "r", "labels", Pure("1/4"), "system", 1, "")]
    >>> given = {"unit": Unit(), "adjacency": Adjacency.REPLACE_ONE, "trust": Trust.CENTRAL}
    >>> group_guarantee(guarantees_from(paid, delta=Fraction(0), **given)["ada"], paid, 3).epsilon
    Fraction(3, 4)
    """
    count = whole(size, "size")
    totals = [
        least_total([group(receipt.spend, count) for receipt in own], claim.delta)
        for own in by_account(receipts).values()
    ]
    spent = max(totals, key=lambda each: (each.epsilon, each.delta))
    if spent.epsilon == math.inf:
        raise InvalidInput(f"no epsilon is proven for {count} together at delta = {claim.delta}: allow a larger delta")
    grouped = replace(claim, epsilon=Fraction(spent.epsilon), delta=spent.delta, accountant=spent.accountant)
    return grouped.with_caveat(f"epsilon and delta are for any {count} of those protected together")


def weakest(claims: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """The weakest of the accounts' claims; of those that are no differential privacy the likeliest exposure."""
    return max(claims.values(), key=lambda each: (getattr(each, "epsilon", each.delta), each.delta))
