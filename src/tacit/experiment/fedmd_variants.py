"""The variants of FedMD: what each party may say, what it pays from, and what may be claimed afterwards."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tacit.accounting.compose import Rule, total
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import ONE_PLACE, Adjacency, Guarantee, Trust, Unit
from tacit.core.protocols import Integers, Ledger
from tacit.core.rational import Number, positive, probability
from tacit.core.release import Receipt
from tacit.core.spend import Spend
from tacit.experiment.unlimited import UnlimitedLedger
from tacit.ledger.memory import Ceiling, MemoryLedger
from tacit.ledger.sqlite import SqliteLedger
from tacit.mechanisms.central.sampling import StratifiedSample, SubsetSample

__all__ = [
    "VARIANTS",
    "Books",
    "ceiling_of",
    "check_options",
    "claimed",
    "file_name",
    "party_names",
    "party_sample",
    "subset_ceiling",
    "subset_sample",
]

VARIANTS = {
    "np": "FedMD-NP: no privacy, all records",
    "nfdp": "FedMD-NFDP: a fixed subset of records, no noise",
    "ldp": "FedMD-LDP: predictions with noise",
    "response": "FedMD with randomized responses",
    "rknn": "FedMD on reverse k-NN votes",
}
# Which variants an option means something to, and what it is where nobody gave it.
PREDICTING = ("np", "nfdp", "ldp", "response")
OPTIONS: Mapping[str, tuple[Any, tuple[str, ...]]] = {
    "epsilon": (None, ("ldp", "response", "rknn")),
    "delta": (0, ("ldp", "response")),
    "subset": (None, ("nfdp",)),
    "replacement": (True, ("nfdp",)),
    "per_class": (False, ("nfdp",)),
    "mechanism": ("subset-selection", ("response",)),
    "vote_queries": (None, ("rknn",)),
    "representation": ("auto", ("rknn",)),
    "kind": ("argmax", PREDICTING),
    "weights": ("equal", PREDICTING),
}
MODEL_STAYS = (
    "the parties' own models were trained on their records in the clear and are not covered, nor is what was measured "
    "of them, such as accuracies; they stay with the parties, and what is covered is everything a party sent"
)
# A subset costs δ alone, but a ceiling has an ε; this one buys nothing else.
NO_EPSILON = Fraction(1, 10**6)


def check_options(variant: str, given: Mapping[str, Any]) -> None:
    """Refuse an option that does nothing in this variant: who gives it believes that it does something.

    >>> check_options("nfdp", {"subset": 60, "epsilon": 1})
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: epsilon does nothing in variant nfdp: it is for ldp, response, rknn
    """
    if variant not in VARIANTS:
        raise InvalidInput(f"variant must be one of {', '.join(VARIANTS)}, got {variant!r}")
    for name, value in given.items():
        usual, owners = OPTIONS[name]
        same = probability(value, name) == usual if name == "delta" else value is usual or value == usual
        if variant not in owners and not same:
            raise InvalidInput(f"{name} does nothing in variant {variant}: it is for {', '.join(owners)}")


def subset_sample(
    labels: Integers, size: int | None, replacement: bool, per_class: bool
) -> SubsetSample | StratifiedSample:
    """The sample that a party with these labels draws: ``size`` records, or of every class its share of them.

    >>> subset_sample(np.array([0, 0, 0, 1]), 2, replacement=False, per_class=True).strata[1]
    SubsetSample(size=1, population=1, replacement=False)
    """
    if size is None:
        raise InvalidInput("subset must say how many records a party trains on (k)")
    if not per_class:
        return SubsetSample(size, len(labels), replacement)
    counts = np.bincount(labels)
    counts = counts[counts > 0]
    sizes = np.maximum(1, np.rint(size * counts / counts.sum()).astype(np.int64))
    return StratifiedSample(
        tuple(SubsetSample(int(k), int(n), replacement) for k, n in zip(sizes, counts, strict=True))
    )


@dataclass(frozen=True)
class Books:
    """The ledgers of all parties: in memory, or a file each in a folder, where a run that stopped finds them again."""

    ledgers: tuple[Ledger, ...]
    accounts: tuple[str, ...]
    close: Callable[[], None]

    @classmethod
    def unlimited(cls, names: Sequence[str]) -> Books:
        """For a baseline without privacy."""
        book = UnlimitedLedger()
        return cls((book,) * len(names), tuple(names), lambda: None)

    @classmethod
    def opened(cls, names: Sequence[str], ceilings: Sequence[Ceiling], folder: Path | None) -> Books:
        """One account a party, with its ceiling; a ledger that is there already keeps the ceiling it has."""
        if folder is None:
            book = MemoryLedger(dict(zip(names, ceilings, strict=True)))
            return cls((book,) * len(ceilings), tuple(names), lambda: None)
        folder.mkdir(parents=True, exist_ok=True)
        books = []
        for account, ceiling in zip(names, ceilings, strict=True):
            file = folder / f"{file_name(account)}.ledger"
            books.append(SqliteLedger(file) if file.exists() else SqliteLedger.create(file, {account: ceiling}))
            if books[-1].protects(account) != (ceiling.unit, ceiling.adjacency):
                raise InvalidInput(f"{file}: the account of {account} protects something else than this run")

        def close() -> None:
            for each in books:
                each.close()

        return cls(tuple(books), tuple(names), close)

    def foresee(self, prices: Mapping[str, Spend]) -> None:
        """Refuse a run that some party's budget does not carry to its end, before its first round is paid."""
        for ledger, account in zip(self.ledgers, self.accounts, strict=True):
            if isinstance(ledger, MemoryLedger | SqliteLedger):
                ledger.foresee(account, prices)


def party_names(count: int, names: Sequence[str] | None = None) -> list[str]:
    """What the parties and their accounts are called: as given, or numbered.

    >>> party_names(2), party_names(2, ["north", "south"])
    (['party 0', 'party 1'], ['north', 'south'])
    """
    if names is None:
        return [f"party {number}" for number in range(count)]
    if len(names) != count or len(set(names)) != count or not all(isinstance(each, str) and each for each in names):
        raise InvalidInput(f"names must be {count} different names, one a party; got {list(names)}")
    return list(names)


def file_name(account: str) -> str:
    """A name for a party's file that every system takes; names that would look alike in it are told apart.

    >>> file_name("party 3"), file_name("north/west")
    ('party-3', 'north-west-d2c4fcc3')
    """
    plain = account.replace(" ", "-")
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", plain)[:80]
    return safe if safe == plain and "--" not in plain else f"{safe}-{hashlib.sha256(account.encode()).hexdigest()[:8]}"


def ceiling_of(variant: str, epsilon: Number, delta: Number) -> Ceiling:
    """What a party of a noisy variant may spend in all.

    Predictions may move in any way, so they protect a holder with all its records; votes protect one record.
    """
    unit = Unit() if variant == "rknn" else Unit.whole_holder()
    return Ceiling(positive(epsilon, "epsilon"), probability(delta, "delta"), Rule.PLANNED, unit)


def subset_ceiling(delta: Fraction) -> Ceiling:
    """Just enough for one subset, ever."""
    return Ceiling(NO_EPSILON, delta, Rule.PLANNED)


def claimed(variant: str, receipts: Sequence[Receipt], delta: Number, account: str) -> Guarantee:
    """What holds for one party after everything it has sent."""
    own = [receipt for receipt in receipts if receipt.account == account]
    spends = [receipt.spend for receipt in own]
    limit = probability(delta, "delta")
    spent = min((total(spends, each, Rule.PLANNED) for each in (Fraction(0), limit)), key=lambda each: each.epsilon)
    return Guarantee(
        epsilon=Fraction(spent.epsilon),
        delta=spent.delta,
        unit=ceiling_of(variant, 1, delta).unit,
        adjacency=Adjacency.REPLACE_ONE,
        trust=Trust.LOCAL,
        accountant=spent.accountant,
        caveats=(MODEL_STAYS, ONE_PLACE),
        simulation=any(receipt.simulated for receipt in own),
    )


def party_sample(
    variant: str, labels: Integers, size: int | None, replacement: bool, per_class: bool
) -> SubsetSample | StratifiedSample:
    """The records that a party of ``np`` or ``nfdp`` trains on: all of them, or a subset that is none of all."""
    if variant == "np":
        return SubsetSample(len(labels), len(labels), replacement=False)
    sample = subset_sample(labels, size, replacement, per_class)
    if sample.spend.delta == 1:
        raise InvalidInput(
            "a party would train on every one of its records (or of a class), which protects nothing: "
            "choose a smaller subset, or variant np"
        )
    return sample
