"""A ledger as somebody else would write it: to the protocol alone, sharing no code with the ones that come along."""

import threading
from fractions import Fraction
from hashlib import sha256

from tacit.core.account import Balance, Total
from tacit.core.errors import BudgetExceeded, RequestConflict
from tacit.core.release import Receipt
from tacit.core.spend import Approximate, Composed, Pure, RandomizedResponse, Repeated, Stability

__all__ = ["ThirdPartyLedger", "added_up"]


def added_up(spend):
    """(ε, δ) by adding up, which holds under every rule: this module's own arithmetic, on purpose not the package's."""
    match spend:
        case Pure() | RandomizedResponse():
            return spend.epsilon, Fraction(0)
        case Approximate():
            return spend.epsilon, spend.delta
        case Stability():
            return Fraction(0), spend.delta
        case Repeated():
            epsilon, delta = added_up(spend.spend)
            return spend.count * epsilon, spend.count * delta
        case Composed():
            parts = [added_up(each) for each in spend.spends]
            return sum(epsilon for epsilon, _ in parts), sum(delta for _, delta in parts)
        case _:
            raise NotImplementedError(f"{type(spend).__name__} has no simple sum")


class ThirdPartyLedger:
    """Accounts in a dictionary."""

    durable = False

    def __init__(self, ceilings):
        self._ceilings = dict(ceilings)
        self._receipts = {}
        self._questions = {}
        self._stored = {}
        self._lock = threading.Lock()

    def charge(self, account, spend, purpose, randomness, request, question, limits=None):
        """Pay once for a request."""
        with self._lock:
            key = account, request
            if key in self._receipts:
                if self._questions[key] != (question, spend):
                    raise RequestConflict(f"{request!r} was used for another question")
                return self._receipts[key]
            self._require(account, [spend])
            number = len(self._receipts) + 1
            digest = sha256(repr((number, key, question)).encode()).hexdigest()
            self._questions[key] = question, spend
            self._receipts[key] = Receipt(account, request, purpose, spend, randomness, number, digest)
            return self._receipts[key]

    def preflight(self, account, spends):
        """Refuse now what charges for these requests would refuse."""
        with self._lock:
            self._require(account, [each for name, each in spends.items() if (account, name) not in self._receipts])

    def privacy_unit(self, account):
        """Whose privacy the account counts for."""
        return self._ceilings[account].unit, self._ceilings[account].adjacency

    def balance(self, account):
        """How often the account has paid, and how much."""
        paid = [added_up(each.spend) for each in self.receipts(account)]
        spent = Total(sum(each for each, _ in paid), sum(each for _, each in paid), "addition")
        return Balance(account, self._ceilings[account], spent, len(paid))

    def accounts(self):
        """Every account."""
        return list(self._ceilings)

    def receipts(self, account):
        """What the account paid."""
        return [each for (name, _), each in self._receipts.items() if name == account]

    def stored_release(self, receipt):
        """What the payment bought."""
        return self._stored.get(receipt.digest)

    def store_release(self, receipt, payload):
        """The first one wins."""
        return self._stored.setdefault(receipt.digest, bytes(payload))

    def apply(self, policy):
        """No ceiling changes here."""
        raise NotImplementedError

    def verify(self):
        """Nothing is on disk."""
        return []

    def close(self):
        """Nothing is open."""

    def _require(self, account, coming):
        sums = [added_up(each) for each in (*(paid.spend for paid in self.receipts(account)), *coming)]
        ceiling = self._ceilings[account]
        if sum(each for each, _ in sums) > ceiling.epsilon or sum(each for _, each in sums) > ceiling.delta:
            raise BudgetExceeded(f"account {account!r} cannot pay. Nothing was charged.")
