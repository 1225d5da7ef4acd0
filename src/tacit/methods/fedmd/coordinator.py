"""The coordinator, which sees releases only: choose public samples, ask, average, and send the consensus back.

All of it is post-processing of releases. Weights come from the user (public numbers) or from the answers themselves
(agreement), never from a party's records: a party's size, or its accuracy on its own data, would be another release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import (
    Floats,
    Integers,
    InvalidInput,
    Mechanism,
    Release,
    Representation,
    SeededRandomness,
    Spend,
    gather,
    permutations,
)
from tacit.methods.fedmd.wire import Feedback, PartyVoteAsk, PredictAsk, PredictionForm, array_digest, one_hot, softmax

__all__ = [
    "WEIGHTINGS",
    "Consensus",
    "ConsensusVoteCoordinator",
    "PredictCoordinator",
    "RoundState",
    "Weights",
    "agreed",
    "agreement",
    "as_probabilities",
    "average",
    "evidence",
    "read_answer",
    "require_weights",
    "round_rows",
]

Weights = str | tuple[float, ...]
# Of randomized labels, only those that are more likely right than wrong are used for training.
_SURE = 0.5


WEIGHTINGS = ("equal", "agreement")


def read_answer(answer: NDArray[Any], form: PredictionForm, mechanism: Any) -> NDArray[np.float64]:  # noqa: ANN401
    """An answer as probabilities or logits (q, classes), unbiased if a mechanism randomized it.

    >>> read_answer(np.array([2, 0]), PredictionForm("argmax", 3), None).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    if mechanism is not None and mechanism.statistic == "labels":
        estimates: NDArray[np.float64] = mechanism.estimates(answer)
        return estimates
    if mechanism is None and form.kind == "argmax":
        return one_hot(answer, form.classes).astype(np.float64)
    return form.values(answer)


def evidence(answer: NDArray[Any], mechanism: Any) -> NDArray[np.float64]:  # noqa: ANN401
    """The log-likelihood of each class given randomized labels, or noisy tables of them, up to a constant.

    A noisy average clipped to probabilities looks confident even if noise decided it. Log-likelihoods add over parties,
    and their sum has the right confidence.

    >>> from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
    >>> evidence(np.array([[3, 0]]), DiscreteGaussianNoise(2, 2, unit_steps=True)).tolist()
    [[0.75, 0.0]]
    """
    # Responses have their own likelihood; that of counts follows from their noise.
    speaks = mechanism if mechanism.statistic == "labels" else mechanism.noise_law
    if speaks is None:
        raise InvalidInput(f"{type(mechanism).__name__} does not describe how it randomizes labels")
    found: NDArray[np.float64] = speaks.evidence(answer)
    return found


def agreement(tables: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """How often each party agrees with the average of all.

    >>> a, b = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> agreement([a, a, b]).tolist()
    [1.0, 1.0, 0.5]
    """
    together = np.mean(tables, axis=0).argmax(axis=1)
    return np.array([(table.argmax(axis=1) == together).mean() for table in tables])


def require_weights(weights: Weights, holders: int) -> None:
    """Refuse weights that this many holders cannot have.

    >>> require_weights((1, 2), 3)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: weights must be 3 numbers of at least 0, one per holder; got (1, 2)
    """
    if isinstance(weights, str):
        if weights not in WEIGHTINGS:
            raise InvalidInput(f"weights must be {', '.join(WEIGHTINGS)} or numbers, got {weights!r}")
        return
    shares = np.asarray(weights, dtype=np.float64)
    if shares.shape != (holders,) or not np.isfinite(shares).all() or (shares < 0).any():
        raise InvalidInput(f"weights must be {holders} numbers of at least 0, one per holder; got {weights}")
    if shares.sum() <= 0:
        raise InvalidInput("weights must not all be 0")


def average(tables: Sequence[NDArray[np.float64]], weights: Weights = "equal") -> NDArray[np.float64]:
    """The weighted mean of all parties' answers.

    >>> average([np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])], (3.0, 1.0)).tolist()
    [[0.75, 0.25]]
    """
    if not tables:
        raise InvalidInput("no party answered, so there is no consensus")
    require_weights(weights, len(tables))
    if isinstance(weights, str):
        shares = np.ones(len(tables)) if weights == "equal" else agreement(tables)
    else:
        shares = np.asarray(weights, dtype=np.float64)
    mean: NDArray[np.float64] = np.average(np.stack(tables), axis=0, weights=shares)
    return mean


def as_probabilities(mean: NDArray[np.float64]) -> Floats:
    """Estimated probabilities projected into their range: none below 0, rows that add up to 1.

    A row without a value above 0 is only noise, and becomes uniform.

    >>> as_probabilities(np.array([[1.5, 0.5, -3.0], [-1.0, -1.0, -1.0]])).round(3).tolist()
    [[0.75, 0.25, 0.0], [0.3330000042915344, 0.3330000042915344, 0.3330000042915344]]
    """
    clipped = np.clip(mean, 0, None)
    sums = clipped.sum(axis=1, keepdims=True)
    uniform = np.full_like(clipped, 1 / clipped.shape[1])
    shares: Floats = np.divide(clipped, sums, out=uniform, where=sums > 0).astype(np.float32)
    return shares


def agreed(history: Sequence[Feedback], samples: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """For every public sample the class of the last consensus, −1 if it was never asked about, and its probability.

    A later consensus comes from better trained models.

    >>> last = Feedback(0, np.array([2]), np.array([[0.25, 0.75]], dtype=np.float32))
    >>> agreed((last,), 3)[0].tolist()
    [-1, -1, 1]
    """
    labels, sure = np.full(samples, -1, dtype=np.int64), np.zeros(samples, dtype=np.float32)
    for each in history:
        chances = softmax(each.targets) if each.logits else each.targets
        labels[each.rows] = chances.argmax(axis=1)
        sure[each.rows] = chances.max(axis=1)
    return labels, sure


def round_rows(samples: int, queries: int, seed: int, number: int) -> Integers:
    """The public samples of a round: a public choice, the same for everyone who knows the seed.

    >>> len(set(round_rows(100, 40, seed=1, number=0).tolist()))
    40
    """
    if not 1 <= queries <= samples:
        raise InvalidInput(f"queries must be between 1 and the {samples} public samples, got {queries}")
    chosen: Integers = permutations(1, samples, SeededRandomness(seed * 100_003 + number))[0][:queries]
    return np.sort(chosen)


@dataclass(frozen=True)
class RoundState:
    """The state of a run: the consensus of every round so far."""

    rounds: int = 0
    history: Release[tuple[Feedback, ...]] | None = None


@dataclass(frozen=True)
class Consensus:
    """The consensus of every round, and the part on which the parties have not trained yet."""

    history: tuple[Feedback, ...]
    remaining: tuple[Feedback, ...]


class PredictCoordinator:
    """Asks for predictions of some public samples in every round, and averages them.

    The consensus of a round is sent with the question of the next; that of the last round is ``remaining``.
    """

    def __init__(
        self,
        public: NDArray[Any],
        form: PredictionForm,
        mechanism: Mechanism[Any, Any] | None,
        rounds: int,
        queries: int,
        request: str,
        weights: Weights = "equal",
        seed: int = 0,
        purpose: str = "FedMD predictions",
    ) -> None:
        if rounds < 1:
            raise InvalidInput(f"rounds must be at least 1, got {rounds}")
        round_rows(len(public), queries, seed, 0)
        self._samples = len(public)
        self._public = array_digest(public)
        self._form = form
        self._mechanism = mechanism
        self._rounds = rounds
        self._queries = queries
        self._request = request
        self._weights = weights
        self._seed = seed
        self._purpose = purpose

    def begin(self) -> RoundState:
        """The state without a consensus."""
        return RoundState()

    def ask(self, state: RoundState) -> PredictAsk | None:
        """The next round's question, with the consensus of the last one."""
        if state.rounds == self._rounds:
            return None
        return PredictAsk(
            round=state.rounds,
            rows=self._rows(state.rounds),
            form=self._form,
            mechanism=self._mechanism,
            public=self._public,
            feedback=None if state.history is None else state.history.value[-1],
            purpose=self._purpose,
            request=self._name(state.rounds),
        )

    def fold(self, state: RoundState, answers: Sequence[Release[Any]]) -> RoundState:
        """Average the answers."""
        if not answers:
            raise InvalidInput("no party answered, so there is no consensus")
        agreed = gather(answers).map(lambda values: (self._agree(state.rounds, values),))
        earlier = [] if state.history is None else [state.history]
        history = gather([*earlier, agreed]).map(lambda parts: tuple(each for part in parts for each in part))
        return replace(state, rounds=state.rounds + 1, history=history)

    def result(self, state: RoundState) -> Release[Consensus]:
        """The consensus of every round; the parties have not seen the last one yet."""
        if state.history is None:
            raise InvalidInput("the run has no answer yet")
        return state.history.map(lambda history: Consensus(history, history[-1:]))

    def prices(self) -> dict[str, Spend]:
        """The cost of each request for a party; empty if answers are post-processing of an earlier release."""
        if self._mechanism is None:
            return {}
        return {self._name(number): self._mechanism.spend for number in range(self._rounds)}

    def _name(self, number: int) -> str:
        return f"{self._request} round {number}"

    def _rows(self, number: int) -> Integers:
        return round_rows(self._samples, self._queries, self._seed, number)

    def _agree(self, number: int, answers: list[Any]) -> Feedback:
        if self._mechanism is not None and self._form.kind == "argmax":
            said = [evidence(answer, self._mechanism) for answer in answers]
            posterior = softmax(len(said) * average(said, self._weights)).astype(np.float32)
            # Uncertain labels are left out; as soft labels they would make every model less confident.
            sure = posterior.max(axis=1) >= _SURE
            return Feedback(number, self._rows(number)[sure], posterior[sure])
        tables = [read_answer(answer, self._form, self._mechanism) for answer in answers]
        mean, logits = average(tables, self._weights), self._form.kind == "logits"
        targets = mean.astype(np.float32) if logits else as_probabilities(mean)
        return Feedback(number, self._rows(number), targets, logits)


class ConsensusVoteCoordinator:
    """Asks once for reverse k-NN votes, on which the parties train for several rounds at no further cost.

    ``queries`` are points in the representation's space, and ``membership`` is the query of each public sample. The
    votes of all parties are added; if parties release labels only, each label is one vote.
    """

    def __init__(
        self,
        public: NDArray[Any],
        representation: Representation,
        queries: Floats,
        membership: Integers,
        classes: int,
        mechanism: Mechanism[Any, Any],
        rounds: int,
        learned: int,
        request: str,
        seed: int = 0,
        purpose: str = "FedMD on reverse k-NN votes",
    ) -> None:
        if rounds < 1:
            raise InvalidInput(f"rounds must be at least 1, got {rounds}")
        if len(membership) != len(public):
            raise InvalidInput(f"membership has {len(membership)} entries for {len(public)} public samples")
        round_rows(len(public), learned, seed, 0)
        self._public = public
        self._representation = representation
        self._queries = queries
        self._membership = membership
        self._classes = classes
        self._mechanism = mechanism
        self._rounds = rounds
        self._learned = learned
        self._request = request
        self._seed = seed
        self._purpose = purpose

    def begin(self) -> RoundState:
        """The state without a consensus."""
        return RoundState()

    def ask(self, state: RoundState) -> PartyVoteAsk | None:
        """The one question, until it is answered."""
        if state.history is not None:
            return None
        return PartyVoteAsk(
            queries=self._queries,
            representation=self._representation,
            classes=self._classes,
            mechanism=self._mechanism,
            public=array_digest(self._public),
            purpose=self._purpose,
            request=next(iter(self.prices())),
        )

    def fold(self, state: RoundState, answers: Sequence[Release[Any]]) -> RoundState:
        """Add the votes of all parties."""
        if not answers:
            raise InvalidInput("no party answered, so there is no consensus")
        return replace(state, rounds=1, history=gather(answers).map(self._agree))

    def result(self, state: RoundState) -> Release[Consensus]:
        """The consensus of every round: the same votes on other public samples each time."""
        if state.history is None:
            raise InvalidInput("the run has no answer yet")
        return state.history.map(lambda history: Consensus(history, history))

    def prices(self) -> dict[str, Spend]:
        """The cost of the one request for a party."""
        return {f"{self._request} votes": self._mechanism.spend}

    def _agree(self, answers: list[Any]) -> tuple[Feedback, ...]:
        mechanism: Any = self._mechanism
        labels_only = mechanism.releases == "labels"
        tables = [one_hot(answer, self._classes) if labels_only else answer for answer in answers]
        votes = np.sum(tables, axis=0)
        if not labels_only:
            # Counts add over parties, so the leading label is far more certain than its fraction of the votes.
            votes = one_hot(votes.argmax(axis=1), self._classes)
        targets = as_probabilities(votes.astype(np.float64))[self._membership]
        rows = [round_rows(len(self._public), self._learned, self._seed, number) for number in range(self._rounds)]
        return tuple(Feedback(number, each, targets[each]) for number, each in enumerate(rows))
