"""Every public choice of a run, made before a single record is looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.compose import Rule, total
from tacit.catalog import REPRESENTATIONS, find, suggest_representation
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Trust, Unit, weakness
from tacit.core.protocols import Representation
from tacit.core.rational import Number, positive, probability
from tacit.core.sensitivity import vote_sensitivity
from tacit.experiment.inputs import whole
from tacit.methods.rknn.choice import Choice, choose_mechanism
from tacit.methods.rknn.coordinator import Round
from tacit.methods.rknn.crowd_choice import choose_local, choose_shuffled
from tacit.methods.rknn.posterior import calibrated_posterior
from tacit.methods.rknn.proportions import expected_proportions
from tacit.methods.rknn.queries import suggest_queries
from tacit.methods.rknn.reading import CountReader, MessageReader
from tacit.methods.rknn.selection import SELECTIONS

__all__ = ["Plan", "PlannedRound", "plan"]

# How answers travel without a trusted party at all, over masks, needs a network of holders.
LABELS = ("hard", "soft", "proportions")
SUPPORTED = (Trust.CENTRAL, Trust.LOCAL, Trust.SHUFFLE)
# Below this the accountants' arithmetic runs out of range, and nobody can tell it from 0.
SMALLEST_DELTA = Fraction(1, 10**30)
# How many times the votes of a query its label's lead would have to be for the label to be mostly noise. On the
# digits that come with scikit-learn labels begin to fail at about half of it.
HOPELESS = 5
# Halvings of the range in which the rounds' common stretch lies: to about a thousandth of the budget.
STRETCHES = 10
# Rows encoded at a time while distinct ones are counted.
CHUNK = 4096


@dataclass(frozen=True)
class PlannedRound:
    """One iteration: the mechanism that its share of the budget buys, how many queries, where they lie, and whether
    answers are read as proportions.
    """

    choice: Choice
    queries: int
    selection: str
    proportions: bool

    @property
    def round(self) -> Round:
        """The round as the coordinator runs it."""
        return Round(self.queries, self.choice.mechanism, self.choice.reader, self.selection, self.proportions)


@dataclass(frozen=True)
class Plan:
    """The choices, and what speaks against them.

    ``votes`` is how many votes a query gets on average, at most. ``doubts`` are reasons to think again, in words.
    """

    rounds: tuple[PlannedRound, ...]
    neighbors: int
    unit: Unit
    adjacency: Adjacency
    trust: Trust
    representation: str
    fitted: Representation
    votes: float
    doubts: tuple[str, ...]

    @property
    def choice(self) -> Choice:
        """What answers the first question."""
        return self.rounds[0].choice

    @property
    def queries(self) -> int:
        """How many queries the first question has."""
        return self.rounds[0].queries


def plan(
    public: NDArray[Any],
    classes: int,
    records: int,
    epsilon: Number,
    delta: Number = 0,
    *,
    labels: str = "hard",
    mechanism: str = "auto",
    queries: int | Sequence[int] | None = None,
    neighbors: int = 1,
    representation: str | Representation = "auto",
    unit: Unit | None = None,
    adjacency: str = "replace-one",
    trust: str = "central",
    iterations: int = 1,
    shares: Sequence[Number] | None = None,
    selection: str = "diverse",
    one_to_one: bool = False,
) -> Plan:
    """Every public choice of a run, from public knowledge alone.

    With several ``iterations`` the budget is split evenly, or as ``shares`` say; ``queries`` may be one number for
    all, or one each. ``selection`` says where later queries lie. ``one_to_one`` says that each of as many queries as
    classes stands for a class of its own.

    >>> plan(np.random.default_rng(0).normal(size=(400, 64)), classes=10, records=1000, epsilon=1).queries
    32
    """
    unit = unit or Unit()
    budget, slack = positive(epsilon, "epsilon"), probability(delta, "delta")
    if 0 < slack < SMALLEST_DELTA:
        raise InvalidInput(f"delta must be 0, or in [1e-30, 1), got {delta}")
    if labels not in LABELS:
        raise InvalidInput(f"labels must be one of {', '.join(LABELS)}, got {labels!r}")
    if not isinstance(mechanism, str):
        raise InvalidInput(f"mechanism must be a name, got {mechanism!r}")
    neighbors = whole(neighbors, "neighbors")
    if adjacency not in tuple(Adjacency):
        raise InvalidInput(f"adjacency must be one of {', '.join(Adjacency)}, got {adjacency!r}")
    if trust not in SUPPORTED:
        raise InvalidInput(f"trust must be one of {', '.join(SUPPORTED)}, got {trust!r}")
    replace = adjacency == Adjacency.REPLACE_ONE
    if trust != Trust.CENTRAL and (not replace or unit.records != 1):
        raise InvalidInput(f"{trust} trust is for holders of one record each, under replace-one adjacency")

    def choose(asked: int, share: Fraction, stretch: Fraction = Fraction(1)) -> Choice:
        epsilon_share, delta_share = budget * share * stretch, slack * share
        try:
            match Trust(trust):
                case Trust.LOCAL:
                    return choose_local(records, asked, classes, neighbors, epsilon_share, mechanism)
                case Trust.SHUFFLE:
                    return choose_shuffled(records, asked, classes, neighbors, epsilon_share, delta_share, mechanism)
                case _:
                    moves = vote_sensitivity(asked, classes, neighbors, records=unit.records, replace=replace)
                    counts = labels != "hard" or one_to_one
                    return choose_mechanism(moves, classes, epsilon_share, delta_share, mechanism, counts=counts)
        except ArithmeticError:
            raise InvalidInput(f"no mechanism can be made for epsilon = {epsilon} and delta = {delta}") from None

    parts = _shares(iterations, shares)
    if one_to_one:
        _require_one_to_one(queries, classes, labels, len(parts))
    given = _each(queries, len(parts))
    if selection not in tuple(SELECTIONS):
        raise InvalidInput(f"selection must be one of {', '.join(sorted(SELECTIONS))}, got {selection!r}")
    if None in given and not replace:
        raise InvalidInput("say how many queries: under add-remove the number of records is private, so we cannot")
    # The lead a label needs depends on the number of queries only when almost all of them are neighbours.
    leads = [
        choose(max(2 * neighbors, len(public)) if asked is None else asked, share).gap
        for asked, share in zip(given, parts, strict=True)
    ]
    wanted = [
        suggest_queries(records, len(public), classes, neighbors, gap) if asked is None else asked
        for asked, gap in zip(given, leads, strict=True)
    ]
    name, fitted = _represented(representation, public, wanted[0])
    # Equal samples cannot be told apart, so there are no more questions than different ones.
    distinct = _distinct(public, fitted, max(wanted))
    for asked in given:
        if asked is not None and distinct < asked:
            raise InvalidInput(f"queries must be between 1 and the {distinct} distinct public samples, got {asked}")
    if neighbors > min(distinct, *wanted):
        raise InvalidInput(f"neighbors must be at most the {min(distinct, *wanted)} queries, got {neighbors}")
    asked_for = [min(count, distinct) for count in wanted]

    def choices(stretch: Fraction) -> list[Choice]:
        return [choose(count, share, stretch) for count, share in zip(asked_for, parts, strict=True)]

    rounds = tuple(
        PlannedRound(
            _read(choice, one_to_one, labels), count, selection if number else "clusters", labels == "proportions"
        )
        for number, (choice, count) in enumerate(zip(_together(choices, budget, slack), asked_for, strict=True))
    )
    votes = records * unit.records * neighbors / rounds[0].queries
    return Plan(
        rounds, neighbors, unit, Adjacency(adjacency), Trust(trust), name, fitted, votes,
        _doubts(rounds[0].choice, votes, budget, unit),
    )  # fmt: skip


def _together(choices: Callable[[Fraction], list[Choice]], budget: Fraction, slack: Fraction) -> list[Choice]:
    """The rounds' mechanisms, with as much budget each as their composition leaves within the whole.

    Budgets of pure mechanisms add up. Those of several rounds of Gaussian noise come to less than their sum, so each
    round may have more than its share. They are composed as the strictest account does it, one that lets every
    charge depend on what came before, so that any account with this budget can pay.
    """
    best = choices(Fraction(1))
    if len(best) == 1 or any(choice.name != "gaussian" for choice in best):
        return best
    low, high = Fraction(1), Fraction(len(best))
    for _ in range(STRETCHES):
        middle = (low + high) / 2
        tried = choices(middle)
        spent = total([choice.mechanism.spend for choice in tried], slack, Rule.ADAPTIVE)
        if spent.epsilon <= budget and all(choice.name == "gaussian" for choice in tried):
            low, best = middle, tried
        else:
            high = middle
    return best


def _require_one_to_one(queries: object, classes: int, labels: str, iterations: int) -> None:
    """Each class has one query only where there are as many queries, asked about once, and counts to compare."""
    if queries != classes or iterations != 1 or labels != "hard":
        raise InvalidInput(
            f"one_to_one gives every class one query: ask {classes} queries in one iteration for hard labels"
        )


def _read(choice: Choice, one_to_one: bool, labels: str) -> Choice:
    """The choice, with its answers read as was asked for: one class for each query, or proportions of classes."""
    if not isinstance(choice.reader, CountReader | MessageReader):
        return choice
    chances = expected_proportions if labels == "proportions" else calibrated_posterior
    return replace_fields(choice, reader=replace_fields(choice.reader, one_to_one=one_to_one, chances=chances))


def _shares(iterations: int, shares: Sequence[Number] | None) -> list[Fraction]:
    """What part of the budget each iteration spends; together all of it."""
    count = whole(iterations, "iterations")
    if shares is None:
        return [Fraction(1, count)] * count
    if not isinstance(shares, Sequence | np.ndarray) or len(shares) != count:
        raise InvalidInput(f"shares must be a list of one for each of the {count} iterations, got {shares!r}")
    parts = [positive(share, "a share") for share in shares]
    return [part / sum(parts) for part in parts]


def _each(queries: int | Sequence[int] | None, iterations: int) -> list[int | None]:
    """The number of queries that was asked for, for every iteration."""
    if queries is None:
        return [None] * iterations
    if np.ndim(queries) == 0:
        return [whole(queries, "queries")] * iterations
    given = [whole(each, "queries") for each in np.asarray(queries).tolist()]
    if len(given) != iterations:
        raise InvalidInput(f"queries must be one number, or one for each of the {iterations} iterations, got {given}")
    return list(given)


def _represented(
    representation: str | Representation, public: NDArray[Any], queries: int
) -> tuple[str, Representation]:
    """The representation and its name, fitted on the public samples where it was given by name."""
    if isinstance(representation, str):
        name = suggest_representation(public) if representation == "auto" else representation
        return name, find(REPRESENTATIONS, name, "representation")(public, queries)
    if isinstance(representation, type) or not callable(getattr(representation, "encode", None)):
        raise InvalidInput(
            f"representation must be auto, one of {', '.join(sorted(REPRESENTATIONS))}, or a fitted object with a "
            f"method encode; got {representation!r}"
        )
    return type(representation).__name__, representation


def _distinct(public: NDArray[Any], fitted: Representation, enough: int) -> int:
    """How many public samples the representation tells apart, counted up to the number that is enough."""
    seen: set[bytes] = set()
    for start in range(0, len(public), CHUNK):
        # Adding 0 makes equal zeros of both signs.
        encoded = fitted.encode(public[start : start + CHUNK]) + np.float32(0)
        seen.update(row.tobytes() for row in encoded)
        if len(seen) >= enough:
            return enough
    return len(seen)


def _doubts(choice: Choice, votes: float, epsilon: Fraction, unit: Unit) -> tuple[str, ...]:
    doubts = []
    if choice.gap > votes:
        likely = "most labels will be noise" if choice.gap > HOPELESS * votes else "many labels may be wrong"
        doubts.append(
            f"{likely}: to be 99 % certain a label needs a lead of {choice.gap:.3g} votes, and a query gets "
            f"{votes:.3g} on average. Bring more records, ask fewer queries, or spend a larger epsilon"
        )
    if large := weakness(epsilon, unit):
        doubts.append(large)
    return tuple(doubts)
