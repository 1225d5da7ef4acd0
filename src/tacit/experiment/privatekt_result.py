"""A finished PrivateKT run: the global model, what every holder is guaranteed, and how to keep both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.compose import Rule, total
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import ONE_PLACE, Adjacency, Guarantee, Trust, Unit
from tacit.core.release import Receipt, Release
from tacit.experiment.machine import versions
from tacit.experiment.privatekt_plan import TransferPlan, plan_transfer
from tacit.experiment.run import new_folder
from tacit.methods.privatekt.coordinator import Taught, Teaching
from tacit.methods.privatekt.knowledge import Learner
from tacit.methods.privatekt.models import Learning
from tacit.students.saved import load_student, save_student

__all__ = ["FORMAT", "Transfer", "guarantees_of", "load_transfer", "recipe_of"]

FORMAT = "PrivateKT 1"
SLACK = 1 + Fraction(1, 10**6)
CLASSES_READ = (
    "the list of classes was read off the private labels, so that a class exists is not protected; "
    "declare the classes to remove this"
)
FEW_HOLDERS = (
    "delta is not below one over the number of holders: exposing one of them outright would meet this definition"
)


@dataclass(frozen=True)
class Transfer:
    """What ``transfer`` returns.

    ``guarantee`` is that of the holder who paid most, ``guarantees`` has one for every account that paid. ``curve``
    is the test accuracy after some rounds, where a test set was given. ``exhausted`` counts the holders whose
    accounts ran dry on the way. ``metrics`` has the time the run took, never a private figure.
    """

    student: Any
    classes: NDArray[Any]
    guarantee: Guarantee
    guarantees: dict[str, Guarantee]
    receipts: tuple[Receipt, ...]
    plan: TransferPlan
    exhausted: int
    curve: list[tuple[int, float]]
    recipe: dict[str, Any]
    metrics: dict[str, Any]

    @classmethod
    def of(
        cls,
        release: Release[Taught],
        learner: Learner,
        classes: NDArray[Any],
        plan: TransferPlan,
        guarantees: dict[str, Guarantee],
        recipe: dict[str, Any],
        curve: list[tuple[int, float]],
        seconds: float,
    ) -> Transfer:
        """The run whose rounds taught a global model; it is refused if nobody answered."""
        if not guarantees:
            raise InvalidInput("nobody answered: every account was spent before the first round")
        return cls(
            student=release.map(lambda taught: learner.finished(taught.model)).value,
            classes=classes,
            guarantee=max(guarantees.values(), key=lambda each: each.epsilon),
            guarantees=guarantees,
            receipts=release.receipts,
            plan=plan,
            exhausted=int(release.value.refused.sum()),
            curve=curve,
            recipe=recipe,
            metrics={"rounds": release.value.rounds, "seconds": seconds},
        )

    def save(self, folder: str | Path) -> Path:
        """Write ``run.json``, with every holder's guarantee and receipt, and the student, into a new folder."""
        with new_folder(Path(folder)) as partial:
            self.write(partial)
        return Path(folder)

    def write(self, folder: Path) -> None:
        """Write the run's files into an existing folder."""
        record = {
            "format": FORMAT,
            "guarantee": self.guarantee.to_json(),
            "guarantees": {account: each.to_json() for account, each in self.guarantees.items()},
            "receipts": [receipt.to_json() for receipt in self.receipts],
            "recipe": self.recipe,
            "metrics": self.metrics | {"curve": self.curve, "exhausted": self.exhausted},
            "student": save_student(self.student, folder, self.guarantee.simulation),
            "versions": versions(),
        }
        (folder / "run.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def load_transfer(folder: str | Path) -> Transfer:
    """The run that was saved in a folder, if its receipts support what it claims. Nothing in the folder is executed.

    >>> load_transfer("no-such-run")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no-such-run: not a run folder, it has no run.json
    """
    folder = Path(folder)
    file = folder / "run.json"
    if not file.is_file():
        raise InvalidInput(f"{folder}: not a run folder, it has no run.json")
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        if record["format"] != FORMAT:
            raise InvalidInput(f"{file}: written in format {record['format']}, not as a PrivateKT run")
        claims = {account: Guarantee.from_json(each) for account, each in record["guarantees"].items()}
        receipts = tuple(Receipt.from_json(each) for each in record["receipts"])
        recipe, metrics = record["recipe"], record["metrics"]
        student = load_student(folder / Path(record["student"]).name)
        plan = plan_transfer(
            len(student.classes_), recipe["holders"], delta=max(each.delta for each in claims.values()),
            round_epsilon=recipe["round_epsilon"], rounds=recipe["rounds"], answers=recipe["answers"],
            participation=recipe["invited"] / recipe["holders"], most=recipe["most"],
        )  # fmt: skip
        weakest = Guarantee.from_json(record["guarantee"])
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, OSError) as error:
        raise InvalidInput(f"{file}: cannot be read ({type(error).__name__}: {error})") from None
    _check_claims(file, weakest, claims, receipts)
    curve = [(int(turn), float(accuracy)) for turn, accuracy in metrics.pop("curve")]
    return Transfer(
        student, np.asarray(student.classes_), weakest, claims, receipts, plan, int(metrics.pop("exhausted")), curve,
        recipe, metrics,
    )  # fmt: skip


def _check_claims(file: Path, weakest: Guarantee, claims: Mapping[str, Guarantee], receipts: Sequence[Receipt]) -> None:
    """Refuse claims of more privacy than the receipts paid for."""
    paid: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        paid.setdefault(receipt.account, []).append(receipt)
    if set(paid) != set(claims):
        raise InvalidInput(f"{file}: the accounts that paid are not those with a guarantee; it was edited")
    for account, claim in (*claims.items(), *((account, weakest) for account in claims)):
        spent = total([each.spend for each in paid[account]], claim.delta, Rule.PLANNED).epsilon
        simulated = any(each.simulated for each in paid[account])
        # Numeric accountants may differ in the last digits from one machine to the next.
        if claim.epsilon * SLACK < spent or (simulated and not claim.simulation):
            raise InvalidInput(f"{file}: claims more privacy for {account} than its receipts paid for; it was edited")


def guarantees_of(
    receipts: Sequence[Receipt], delta: Fraction, plan: TransferPlan, classes_read: bool
) -> dict[str, Guarantee]:
    """What each holder is guaranteed, by all that its account paid in this run."""
    paid: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        paid.setdefault(receipt.account, []).append(receipt)
    found = {}
    for account, own in paid.items():
        spends = [receipt.spend for receipt in own]
        # The sheets were planned; what is pure is said to be pure, even where some δ was allowed.
        spent = min((total(spends, each, Rule.PLANNED) for each in (Fraction(0), delta)), key=lambda each: each.epsilon)
        guarantee = Guarantee(
            epsilon=Fraction(spent.epsilon),
            delta=spent.delta,
            unit=Unit.whole_holder(),
            adjacency=Adjacency.REPLACE_ONE,
            trust=Trust.LOCAL,
            accountant=spent.accountant,
            caveats=(ONE_PLACE,),
            simulation=any(receipt.simulated for receipt in own),
        )
        if classes_read:
            guarantee = guarantee.with_caveat(CLASSES_READ)
        if guarantee.delta * plan.holders >= 1:
            guarantee = guarantee.with_caveat(FEW_HOLDERS)
        found[account] = guarantee
    return found


def recipe_of(
    plan: TransferPlan,
    learner: object,
    local: object,
    learning: Learning,
    teaching: Teaching,
    public: NDArray[Any],
    seed: int | None,
) -> dict[str, Any]:
    """Every public choice of a run."""
    return {
        "method": "PrivateKT",
        "trust": str(Trust.LOCAL),
        "rounds": plan.rounds,
        "answers": plan.sheet.answers,
        "holders": plan.holders,
        "invited": plan.invited,
        "most": plan.most,
        "round_epsilon": str(plan.sheet.epsilon),
        "model": type(learner).__name__,
        "local": type(local).__name__,
        "learning": repr(learning),
        "teaching": repr(teaching),
        "public_samples": len(public),
        "randomness": "system" if seed is None else f"seed {seed} (simulation)",
    }
