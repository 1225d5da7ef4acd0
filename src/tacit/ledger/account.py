"""The state of an account after an entry of the ledger: its ceiling, its payments, and whether it can pay a charge.

Each payment and each ceiling is written with the account's state after it, which the entry's digest covers. A charge
reads only the account's last entry; ``verify`` recomputes every state from the first entry on.

Beside the ceiling a policy may limit the cost of one question, one purpose and one day, and the number of questions
per day: a coordinator could spend a ceiling alone at once. The limits are checked in the transaction that pays, so two
processes cannot both use the last of a day. A retried request is not counted again. Limits count all charges in the
ledger, also those made before the limit existed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any

from tacit.accounting.compose import Running
from tacit.core import Balance, BudgetExceeded, Ceiling, InvalidInput, LimitExceeded, Paid, Rule, Spend, Total, decimal

__all__ = ["Bound", "PolicyLimits", "Standing", "Tally", "covered", "equal_states"]

# Two machines may compute an RDP curve with slightly different last digits.
_TOLERANCE = 1e-9
NOTHING_CHARGED = Running()


@dataclass(frozen=True)
class Tally:
    """The number of payments of one account, and their composition.

    >>> from tacit.core.spend import Pure
    >>> Tally().plus(Pure(0.1)).plus(Pure(0.2)).total(Ceiling(1)).epsilon
    Fraction(3, 10)
    """

    payments: int = 0
    running: Running = NOTHING_CHARGED

    def plus(self, spend: Spend, curves: bool = True) -> Tally:
        """The tally after one more payment; ``curves`` is False if δ is 0 and no Rényi (RDP) curve is needed."""
        return Tally(self.payments + 1, self.running.plus(spend, curves=curves))

    def total(self, ceiling: Ceiling) -> Total:
        """The total of the payments at the ceiling's δ, by the tightest accountant its rule allows."""
        return composed(self.running, ceiling.delta, ceiling.rule)

    def excess(self, spend: Spend, ceiling: Ceiling) -> Total | None:
        """The total after one more spend, if it is above the ceiling; None if it fits.

        Basic composition of pure spends is valid under every rule, so while it fits no other accountant is run.
        """
        after = self.plus(spend, curves=ceiling.delta > 0)
        pure = after.running.pure_epsilon
        if pure is not None and pure <= ceiling.epsilon:
            return None
        reached = after.total(ceiling)
        return reached if reached.epsilon > ceiling.epsilon else None


# A charge is followed by reads of the same account, and a refused charge by its retries.
@lru_cache(maxsize=16)
def composed(running: Running, delta: Fraction, rule: Rule) -> Total:
    """The composition of all charges so far.

    >>> from tacit.core.spend import Pure
    >>> composed(Running.of([Pure(0.1)] * 10), Fraction(0), Rule.ADAPTIVE).epsilon
    Fraction(1, 1)
    """
    return running.total(delta, rule)


NOTHING_PAID = Tally()


@dataclass(frozen=True)
class Standing:
    """The state of an account after one entry.

    ``ceiling_entry`` is the sequence of the entry that set the ceiling. ``claim`` is the (ε, δ) of the ceiling at the
    first charge that was not free: the guarantee that the account can state.

    >>> from tacit.core.spend import Pure
    >>> standing = Standing("clinic", Ceiling(1), ceiling_entry=2).paid(Pure("1/4"))
    >>> standing.balance.payments, standing.balance.remaining
    (1, Fraction(3, 4))
    """

    account: str
    ceiling: Ceiling
    ceiling_entry: int
    tally: Tally = NOTHING_PAID
    claim: tuple[Fraction, Fraction] | None = None

    def paid(self, spend: Spend, keep_curve: bool = False) -> Standing:
        """The account after a payment; ``keep_curve`` computes the RDP curve even if δ is 0, for a later ceiling."""
        tally = self.tally.plus(spend, curves=keep_curve or self.ceiling.delta > 0)
        first = self.claim is None and tally.running.charges > 0
        return replace(self, tally=tally, claim=(self.ceiling.epsilon, self.ceiling.delta) if first else self.claim)

    def excess(self, spend: Spend) -> Total | None:
        """The total after one more spend, if it is above the ceiling; None if it fits."""
        return self.tally.excess(spend, self.ceiling)

    def refuse(self, excess: Total | None) -> None:
        """Refuse a charge whose total is in excess, and say what remains; None is not refused."""
        if excess is None:
            return
        delta = self.ceiling.delta
        if excess.epsilon == math.inf:
            reach = f"no accountant bounds its total at delta {decimal(delta)}"
        else:
            reach = f"it would reach epsilon {decimal(excess.epsilon)} by {excess.accountant}"
        advice = "Ask for less (a smaller epsilon or more noise)"
        if excess.epsilon == math.inf and delta == 0:
            advice = (
                "The account's delta is 0, and this noise always needs a delta above 0: ask with delta 0 for a pure "
                "mechanism (permute-and-flip, laplace)"
            )
        raise BudgetExceeded(
            f"account {self.account!r} cannot pay: {reach}. It has {self.balance.in_words}. Nothing was charged and "
            f"nothing was sampled. {advice}; only the operator can change the ceiling, with `tacit ledger open`."
        )

    def require_all(self, spends: Iterable[Spend]) -> None:
        """Refuse spends that the account cannot pay one after another, each as its own charge.

        >>> from tacit.core.spend import Pure
        >>> Standing("clinic", Ceiling(1), ceiling_entry=2).require_all([Pure("0.5"), Pure("0.6")])
        Traceback (most recent call last):
            ...
        tacit.core.errors.BudgetExceeded: account 'clinic' cannot pay: it would reach epsilon 1.1 ...
        """
        # As one charge they would be composed as planned in advance; the ledger will charge them one by one.
        coming = self
        for spend in spends:
            self.refuse(coming.excess(spend))
            coming = coming.paid(spend)

    @property
    def balance(self) -> Balance:
        """What the account has spent and what remains."""
        return Balance(self.account, self.ceiling, self.tally.total(self.ceiling), self.tally.payments)

    def under(self, ceiling: Ceiling, ceiling_entry: int) -> Standing:
        """The account with a new ceiling."""
        return replace(self, ceiling=ceiling, ceiling_entry=ceiling_entry)

    def require_change(self, after: Ceiling) -> None:
        """Refuse a new ceiling that would change the meaning of earlier payments, or for which no bound is proven.

        >>> from tacit.core.spend import Gaussian
        >>> standing = Standing("clinic", Ceiling(1, "1e-6"), ceiling_entry=2).paid(Gaussian(50))
        >>> standing.require_change(Ceiling("1/2", "1e-6"))
        >>> standing.require_change(Ceiling(2, "1e-6"))
        Traceback (most recent call last):
            ...
        tacit.core.errors.InvalidInput: the ceiling of account 'clinic' cannot be raised ...
        """
        before = self.ceiling
        if not self.tally.payments:
            return
        changed = [name for name in ("unit", "adjacency") if getattr(before, name) != getattr(after, name)]
        # A change between planned and adaptive after a release would use δ twice; without δ basic composition holds.
        sums = before.delta == 0 == after.delta
        if before.rule is not after.rule and (after.rule is Rule.PLANNED or not sums):
            changed.append("rule")
        if changed:
            raise InvalidInput(
                f"the {changed[0]} of account {self.account!r} cannot change from {getattr(before, changed[0])} to "
                f"{getattr(after, changed[0])} after its first payment. The policy was not changed. Open a new account."
            )
        if self.claim is None or after.rule is Rule.PLANNED or sums:
            return
        fixed = (self.claim, (before.epsilon, before.delta))
        if not any(after.epsilon <= epsilon and after.delta <= delta for epsilon, delta in fixed):
            raise InvalidInput(
                f"the ceiling of account {self.account!r} cannot be raised above epsilon {decimal(self.claim[0])}, "
                f"delta {decimal(self.claim[1])}, which it had at its first charge: its charges are adaptive and delta "
                "is above 0, so the bound holds only for a ceiling that was fixed before the first release. The policy "
                "was not changed. Open a new account beside it; what both have spent adds up."
            )

    def to_json(self) -> dict[str, Any]:
        """The state as JSON values; the ceiling as the sequence of its entry."""
        return {
            "ceiling": self.ceiling_entry,
            "claim": None if self.claim is None else [str(each) for each in self.claim],
            "payments": self.tally.payments,
            **self.tally.running.to_json(self.ceiling.epsilon, self.ceiling.delta),
        }

    @classmethod
    def from_json(cls, account: str, ceiling: Ceiling, value: dict[str, Any]) -> Standing:
        """The state that ``to_json`` wrote, with its ceiling.

        >>> standing = Standing("clinic", Ceiling(1), ceiling_entry=2)
        >>> Standing.from_json("clinic", Ceiling(1), standing.to_json()) == standing
        True
        """
        claim = value["claim"]
        return cls(
            account=account,
            ceiling=ceiling,
            ceiling_entry=value["ceiling"],
            tally=Tally(value["payments"], Running.from_json(value)),
            claim=None if claim is None else (Fraction(claim[0]), Fraction(claim[1])),
        )


def equal_states(one: object, other: object) -> bool:
    """Whether two states are the same, up to the last digits of an RDP curve.

    >>> equal_states({"curve": [[2.0, 0.1]]}, {"curve": [[2.0, 0.10000000000000002]]})
    True
    >>> equal_states({"charges": 1}, {"charges": 2})
    False
    """
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(equal_states(one[name], other[name]) for name in one)
        case list(), list():
            return len(one) == len(other) and all(map(equal_states, one, other))
        case float(), float():
            return math.isclose(one, other, rel_tol=_TOLERANCE)
    return type(one) is type(other) and bool(one == other)


def covered(purpose: str, allowed: str) -> bool:
    """Whether an allowed purpose covers this one: itself, or a round of it.

    >>> covered("labels, round 1 of 2", "labels"), covered("labels of all patients", "labels")
    (True, False)
    """
    return purpose == allowed or purpose.startswith(f"{allowed}, ")


@dataclass(frozen=True)
class Bound:
    """The largest total of some charges: ε at a δ; without δ, at that of the account."""

    epsilon: Fraction
    delta: Fraction | None = None


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class PolicyLimits:
    """Bounds on one question, on each of the ``purposes``, and on a day; None is no bound.

    A purpose includes all its rounds. Days are in UTC, by the times in the ledger and by ``clock``; payments with a
    later date count too, so setting the clock back frees no budget.

    >>> from tacit.core.spend import Pure
    >>> from tacit.ledger.memory import MemoryLedger
    >>> ledger = MemoryLedger({"clinic": Ceiling(10)})
    >>> limits = PolicyLimits(day=Bound(Fraction(1)), questions=5)
    >>> _ = ledger.charge("clinic", Pure("0.75"), "labels", "system", "r-1", "c0ffee", limits)
    >>> ledger.charge("clinic", Pure("0.5"), "labels", "system", "r-2", "c0ffee", limits)
    Traceback (most recent call last):
        ...
    tacit.core.errors.LimitExceeded: the policy allows epsilon 1 at delta 0 for a day, and this question would bring \
it to 1.25. Nothing was charged.
    """

    question: Bound | None = None
    purpose: Bound | None = None
    day: Bound | None = None
    questions: int | None = None
    purposes: tuple[str, ...] = ()
    clock: Callable[[], datetime] = _now

    @property
    def any(self) -> bool:
        """Whether any bound is set."""
        return any(each is not None for each in (self.question, self.purpose, self.day, self.questions))

    def require(self, spend: Spend, purpose: str, delta: Fraction, paid: Callable[[], Iterable[Paid]]) -> None:
        """Refuse a charge that the limits do not allow; ``paid`` reads the account's earlier payments, if needed."""
        if self.question is not None:
            self._require(self.question, "one question", [], spend, delta)
        if self.purpose is None and self.day is None and self.questions is None:
            return
        before = list(paid())
        if self.purpose is not None:
            for allowed in self.purposes or (purpose,):
                if covered(purpose, allowed):
                    same = [each for each in before if covered(each.purpose, allowed)]
                    self._require(self.purpose, f"the purpose {allowed!r}", same, spend, delta)
        day = self.clock().astimezone(UTC).date().isoformat()
        today = [each for each in before if each.day >= day]
        if self.questions is not None and sum(each.count for each in today) >= self.questions:
            raise LimitExceeded(
                f"the policy allows {self.questions} question{'' if self.questions == 1 else 's'} per day, and this "
                f"many were paid for on {day} (UTC). Nothing was charged."
            )
        if self.day is not None:
            self._require(self.day, "a day", today, spend, delta)

    @staticmethod
    def _require(bound: Bound, what: str, before: Iterable[Paid], spend: Spend, delta: Fraction) -> None:
        ceiling = Ceiling(bound.epsilon, delta if bound.delta is None else bound.delta)
        running = Running()
        for each in before:
            running = running.plus(each.spend, each.count)
        after = Tally(0, running).excess(spend, ceiling)
        if after is not None:
            reach = "beyond any bound" if after.epsilon == float("inf") else f"to {decimal(after.epsilon)}"
            raise LimitExceeded(
                f"the policy allows epsilon {decimal(ceiling.epsilon)} at delta {decimal(ceiling.delta)} for {what}, "
                f"and this question would bring it {reach}. Nothing was charged."
            )
