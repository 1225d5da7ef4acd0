"""FedMD in one call: parties with different models learn from each other's predictions on public samples."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Guarantee
from tacit.core.protocols import Representation
from tacit.core.rational import Number
from tacit.core.release import Receipt
from tacit.experiment.copies import warn_of_copies
from tacit.experiment.fedmd_models import MIXED, StartingModel, model_name, party_models
from tacit.experiment.fedmd_rounds import Curve, party_sides, run_rounds
from tacit.experiment.fedmd_setting import checked_setting
from tacit.experiment.fedmd_variants import (
    VARIANTS,
    Books,
    ceiling_of,
    check_options,
    claimed,
    party_names,
    party_sample,
    subset_ceiling,
)
from tacit.experiment.fedmd_votes import vote_coordinator
from tacit.experiment.inputs import seeded, whole
from tacit.mechanisms.central.sampling import StratifiedSample, SubsetSample
from tacit.methods.fedmd.consensus import Weights
from tacit.methods.fedmd.coordinator import PredictCoordinator, VoteCoordinator
from tacit.methods.fedmd.exposure import Exposure, WeakPrivacyWarning
from tacit.methods.fedmd.form import Form
from tacit.methods.fedmd.noise import prediction_noise, response_mechanism
from tacit.methods.fedmd.study import Schedule
from tacit.methods.fedmd.wire import Feedback

__all__ = ["Federation", "federate"]


@dataclass(frozen=True)
class Federation:
    """What ``federate`` returns.

    ``students`` are the parties' models and stay with them. ``accuracies`` has a row for the state before the first
    exchange and one after every round, and a column a party, where a test set was given. ``claims`` says what holds
    for each party; ``claim`` is the weakest of them. ``history`` is what the parties agreed on.
    """

    variant: str
    models: tuple[str, ...]
    students: tuple[StartingModel, ...]
    accuracies: NDArray[np.float64] | None
    claims: tuple[Guarantee | Exposure, ...]
    receipts: tuple[Receipt, ...]
    history: tuple[Feedback, ...]
    recipe: dict[str, Any]
    seconds: float

    @property
    def claim(self) -> Guarantee | Exposure:
        """The weakest of the parties' claims."""
        return max(self.claims, key=lambda each: each.probability if isinstance(each, Exposure) else each.epsilon)

    @property
    def before(self) -> float:
        """Mean accuracy of the parties before they exchanged anything."""
        return float(self._measured()[0].mean())

    @property
    def after(self) -> float:
        """Mean accuracy of the parties after the last round."""
        return float(self._measured()[-1].mean())

    def _measured(self) -> NDArray[np.float64]:
        if self.accuracies is None:
            raise InvalidInput("nothing was measured: give a test set")
        return self.accuracies


def federate(
    parties: Sequence[tuple[ArrayLike, ArrayLike]],
    public: ArrayLike,
    variant: str = "nfdp",
    *,
    classes: Iterable[Any],
    public_labels: ArrayLike | None = None,
    models: Sequence[Any] = MIXED,
    rounds: int = 20,
    queries: int = 5000,
    kind: str = "argmax",
    weights: Weights = "equal",
    schedule: Schedule | None = None,
    pretrain: int = 5,
    subset: int | None = None,
    replacement: bool = True,
    per_class: bool = False,
    epsilon: Number | None = None,
    delta: Number = 0,
    mechanism: str = "subset-selection",
    vote_queries: int | None = None,
    representation: str | Representation = "auto",
    test: tuple[ArrayLike, ArrayLike] | None = None,
    names: Sequence[str] | None = None,
    ledgers: str | Path | None = None,
    request: str = "fedmd",
    seed: int | None = None,
    progress: Callable[[int, float | None], None] | None = None,
) -> Federation:
    """Let parties (X, y), each with a model of its own kind, learn from each other through ``public`` samples.

    Each party trains on its own records; then in each of ``rounds`` rounds the parties predict ``queries`` public
    samples, a coordinator averages, and each party digests the consensus and revisits its records. ``kind`` says
    what is sent of a prediction: ``argmax``, ``softmax`` or ``logits``. ``public_labels``, of any classes, pretrain.

    Variants: ``np`` protects nothing. ``nfdp`` trains on ``subset`` records a party, drawn once (with or without
    ``replacement``, or ``per_class``); this is stability and no ordinary differential privacy, and a warning says
    so. ``ldp`` adds noise to predictions, ``response`` randomizes labels, ``rknn`` releases reverse k-NN votes
    instead of predictions; these three keep every party within a total of (``epsilon``, ``delta``).

    ``ledgers`` is a folder with one ledger a party, called by the parties' ``names`` or numbered: a run that is
    repeated there pays nothing twice, and a subset is never drawn again. A ``seed`` makes the run a simulation.
    ``progress`` is told the round and the mean accuracy.

    >>> from tacit.core.randomness import SeededRandomness
    >>> rng = SeededRandomness(1)
    >>> X = (rng.words(300 * 64) % 8).astype(float).reshape(300, 8, 8)
    >>> y = (X.mean(axis=(1, 2)) > 3.5).astype(int)
    >>> run = federate([(X[:50], y[:50]), (X[50:100], y[50:100])], X[100:200], "rknn", classes=[0, 1], rounds=1,
    ...     queries=50, models=["perceptron", "forest"], epsilon=1, test=(X[200:], y[200:]), seed=1)
    >>> run.accuracies.shape, run.claim.simulation
    ((2, 2), True)
    """
    started = time.perf_counter()
    check_options(
        variant,
        {
            "epsilon": epsilon, "delta": delta, "subset": subset, "replacement": replacement, "per_class": per_class,
            "mechanism": mechanism, "vote_queries": vote_queries, "representation": representation, "kind": kind,
            "weights": weights,
        },
    )  # fmt: skip
    setting = checked_setting(parties, public, public_labels, classes, test)
    schedule = schedule or Schedule()
    count = len(setting.names)
    rounds, queries = whole(rounds, "rounds"), whole(queries, "queries")
    if queries > len(setting.public):
        raise InvalidInput(f"queries must be at most the {len(setting.public)} public samples, got {queries}")
    if seeded(seed) is not None and ledgers is not None:
        raise InvalidInput(
            "a seed makes a simulation, which must not spend a real budget: leave out the seed, or the ledgers"
        )
    if variant == "np" and ledgers is not None:
        raise InvalidInput("variant np protects nothing and pays nothing: leave out the ledgers")
    called = party_names(len(setting.records), names)
    training_seed = seed or 0
    form = Form(kind, count)
    samples: list[SubsetSample | StratifiedSample] = []
    coordinator: PredictCoordinator | VoteCoordinator
    asked = {"rounds": rounds, "queries": queries, "request": request, "weights": weights, "seed": training_seed}
    if variant in ("np", "nfdp"):
        samples = [party_sample(variant, each.labels, subset, replacement, per_class) for each in setting.records]
        coordinator = PredictCoordinator(setting.public, form, None, **asked)  # type: ignore[arg-type]
        ceilings = [subset_ceiling(each.spend.delta) for each in samples] if variant == "nfdp" else []
    else:
        if epsilon is None:
            raise InvalidInput(f"variant {variant} needs epsilon, the total that a party may spend")
        ceilings = [ceiling_of(variant, epsilon, delta)] * len(setting.records)
        if variant == "rknn":
            coordinator = vote_coordinator(
                setting, epsilon, rounds, queries, vote_queries, representation, request, training_seed
            )
        else:
            if variant == "response" and kind != "argmax":
                raise InvalidInput(f"randomized responses are about labels: kind must be argmax, got {kind!r}")
            noise = (
                prediction_noise(form, queries, rounds, epsilon, delta)
                if variant == "ldp"
                else response_mechanism(count, queries, rounds, epsilon, delta, mechanism)
            )
            coordinator = PredictCoordinator(setting.public, form, noise, **asked)  # type: ignore[arg-type]
    made = party_models(
        models,
        len(setting.records),
        setting.public,
        count,
        setting.public_labels,
        setting.public_classes,
        pretrain,
        training_seed,
    )
    if kind != "argmax" and variant != "rknn" and (silent := [each for each in made if not each.gives_scores]):
        raise InvalidInput(
            f"{kind} needs models with predict_proba, and {len(silent)} of the parties have one without; use argmax"
        )
    simulated = seed is not None
    claims: list[Guarantee | Exposure] = [Exposure.of(each, simulated and variant == "nfdp") for each in samples]
    if claims:
        weakest = max(claims, key=lambda each: each.probability if isinstance(each, Exposure) else 0)
        warnings.warn(str(weakest).removesuffix("."), WeakPrivacyWarning, stacklevel=2)
    copied = warn_of_copies([each.samples for each in setting.records], setting.public)
    books = (
        Books.unlimited(called)
        if variant == "np"
        else Books.opened(called, ceilings, None if ledgers is None else Path(ledgers))
    )
    try:
        books.foresee(coordinator.prices())
        sides = party_sides(variant, setting, books, made, samples, schedule, seed)
        curve = Curve(made, setting.test, progress)
        release = run_rounds(coordinator, sides, curve)
    finally:
        books.close()
    if not samples:
        claims = [claimed(variant, release.receipts, delta, account) for account in books.accounts]
    if copied:
        claims = [each.with_copies() for each in claims]
    return Federation(
        variant=variant,
        models=tuple(model_name(models[party % len(models)]) for party in range(len(made))),
        students=tuple(made),
        accuracies=None if setting.test is None else np.array(curve.rows),
        claims=tuple(claims),
        receipts=release.receipts,
        history=release.value.history,
        recipe={
            "method": VARIANTS[variant],
            "rounds": rounds,
            "queries": queries,
            "kind": kind,
            "weights": weights if isinstance(weights, str) else list(weights),
            "epochs": {
                "pretrain": pretrain,
                "own": schedule.own,
                "digest": schedule.digest,
                "revisit": schedule.revisit,
            },
            "randomness": "system" if seed is None else f"seed {seed} (simulation)",
        },
        seconds=time.perf_counter() - started,
    )
