"""Multi-message shuffling: votes, noise shares and noise messages, sent anonymously through a shuffler.

Each participant turns its votes into +1 and −1 messages about cells. The shuffler removes who sent what; the
coordinator adds. The noise of the sums is what a trusted curator would add, but no curator sees a vote.

A fraction φ of ε pays for the noise messages, the rest for the noise of the sums, whose scale is 2c/((1−φ)ε). With a
small φ counts are nearly as accurate as a trusted curator's and messages are many; with a large φ the reverse, until
the noise of the sums dominates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.core import ANYTHING, Approximate, Estimates, Integers, InvalidInput, Randomness, Sensitivity
from tacit.core.rational import Number, exact, positive
from tacit.mechanisms.auditing import Check, Estimator, Target
from tacit.mechanisms.central.counts import count_table
from tacit.mechanisms.description import (
    CELLS,
    EXACT,
    PARTICIPANTS,
    Checks,
    Described,
    Inner,
    Parameters,
    require_quorum,
)
from tacit.mechanisms.forms import Messages
from tacit.mechanisms.messages import SignedCode
from tacit.mechanisms.shuffle.negative_binomial import NegativeBinomial, cell_delta, largest_sum, least_noise_messages

__all__ = ["MultiMessageNoise", "noise_message_target", "plan_noise_messages"]

# The time to compute the law of noise messages grows with their mean per cell.
LARGEST_FLOOD = 10**6
# The part of δ for holders with more messages than they send.
OVERFLOW = Fraction(1, 2**80)
# Few participants make an audit fast, and the claims are as tight for few as for many.
AUDITED_PARTICIPANTS = 3
# A scale 11 % above the trusted curator's, for about six times the fewest messages.
LEAST_NOISE = Fraction(1, 10)


def _affordable(flood: NegativeBinomial) -> None:
    if flood.shape / flood.epsilon > LARGEST_FLOOD:
        raise InvalidInput(f"the noise must have a mean of at most {LARGEST_FLOOD} messages per cell")


@dataclass(frozen=True)
class MultiMessageNoise(Described):
    """Counts votes from shuffled messages, with distributed noise and noise messages.

    **Law.** A participant draws, for each of d ``cells``, Z⁺ and Z⁻ ~ NB(1/(τn), e^−ε₁) and W ~ NB(r_W/(τn), e^−ε₂),
    and sends (cell, +1) as often as its vote + Z⁺ + W and (cell, −1) as often as Z⁻ + W. The n participants' sum of a
    cell is then its count plus discrete Laplace noise of scale 1/ε₁ (for τ = 1), because NB shares add up and W
    cancels.

    **Spend.** ``Approximate(2cε₁ + cε₃, cδ + 2⁻⁸⁰)`` for the multiset of all messages when one participant's at most c
    ``ones`` are replaced by others, with δ of ``cell_delta``. It holds against whoever sees the messages after the
    shuffler, as long as at least τn honest participants add their shares (τ is ``share``).

    **Proof.** The multiset is a function of the number of +1 and of −1 messages of each cell, and cells are
    independent. Replacing c ones takes a vote from at most c cells, each of which loses at most ε₁, and adds one to at
    most c others, each (ε₁ + ε₃, δ); composing them adds both up. If more than τn participants take part, their shares
    are NB(1) and more, and what is more is independent of the votes: sending it as well is post-processing. How many
    messages one holder has is not covered: each sends ``most_messages``, empty ones included, and drops what is more.
    Of the at most τn holders with τn participants, one drops some with probability β = 2⁻⁸⁰/(1 + e^ε), which changes
    the law by β in total variation, for either of two neighbors: it costs δ another (1 + e^ε)β = 2⁻⁸⁰.

    **Source.** B. Ghazi, R. Kumar, P. Manurangsi and R. Pagh, Private counting from anonymous messages, ICML 2020; the
    bound is derived in ``tacit.mechanisms.shuffle.negative_binomial``.

    >>> mechanism = MultiMessageNoise(cells=400, ones=1, participants=60_000, epsilon_noise="1/4", epsilon_margin="1/2",
    ...     flood=NegativeBinomial("32.92", "0.4181"))
    >>> float(mechanism.spend.epsilon), mechanism.spend.delta < Fraction(1, 10**6)
    (1.0, True)
    >>> round(mechanism.messages, 3)
    1.893
    """

    name = "flooded-messages"
    statistic = "messages"
    releases = "messages"
    parameters: ClassVar[Parameters] = {
        "cells": CELLS,
        "ones": CELLS,
        "participants": PARTICIPANTS,
        "epsilon_noise": EXACT,
        "epsilon_margin": EXACT,
        "flood": Inner((NegativeBinomial,), check=_affordable),
        "share": EXACT,
    }

    cells: int
    ones: int
    participants: int
    epsilon_noise: Fraction
    epsilon_margin: Fraction
    flood: NegativeBinomial
    share: Fraction

    def __init__(
        self,
        cells: int,
        ones: int,
        participants: int,
        epsilon_noise: Number,
        epsilon_margin: Number,
        flood: NegativeBinomial,
        share: Number = 1,
    ) -> None:
        if cells < 1:
            raise InvalidInput(f"cells must be at least 1, got {cells}")
        if not 1 <= ones <= cells:
            raise InvalidInput(f"ones must be in [1, {cells}], the number of cells, got {ones}")
        if participants < 1:
            raise InvalidInput(f"participants must be at least 1, got {participants}")
        if not 0 < exact(share, "share") <= 1:
            raise InvalidInput(f"share must be in (0, 1], got {share}")
        if flood.shape < 1:
            raise InvalidInput(f"the noise must have a shape of at least 1, got {float(flood.shape):g}")
        object.__setattr__(self, "cells", int(cells))
        object.__setattr__(self, "ones", int(ones))
        object.__setattr__(self, "participants", int(participants))
        object.__setattr__(self, "epsilon_noise", positive(epsilon_noise, "epsilon_noise"))
        object.__setattr__(self, "epsilon_margin", positive(epsilon_margin, "epsilon_margin"))
        object.__setattr__(self, "flood", flood)
        object.__setattr__(self, "share", exact(share, "share"))
        # A δ of one or more, or a ratio that cannot be sampled, is refused here and not at the first message.
        _ = self.spend, self.noise_share

    @property
    def spend(self) -> Approximate:
        """The cost of all messages for one participant, after shuffling."""
        delta = cell_delta(self.epsilon_noise, self.epsilon_margin, self.flood.shape, self.flood.epsilon)
        return Approximate(self.ones * (2 * self.epsilon_noise + self.epsilon_margin), self.ones * delta + OVERFLOW)

    @property
    def max_sensitivity(self) -> Sensitivity:
        """Any change: a participant's input is at most ``ones`` cells, which is checked."""
        return ANYTHING

    @property
    def quorum(self) -> int:
        """How many participants the spend needs: τn, rounded up."""
        return math.ceil(self.share * self.participants)

    @property
    def in_words(self) -> str:
        """The trust assumption, in words."""
        return (
            f"A shuffler is trusted to mix the messages of at least {self.quorum} honest participants. Without it, "
            "whoever sees a participant's messages sees its votes: only the others' messages hide them."
        )

    @property
    def noise_share(self) -> NegativeBinomial:
        """The law of one participant's Z⁺ and Z⁻ in one cell."""
        return NegativeBinomial(1 / (self.share * self.participants), self.epsilon_noise)

    @property
    def flood_share(self) -> NegativeBinomial:
        """The law of one participant's W in one cell."""
        return NegativeBinomial(self.flood.shape / (self.share * self.participants), self.flood.epsilon)

    @property
    def messages(self) -> float:
        """The expected number of messages per participant."""
        return self.ones + 2 * self.cells * (self.noise_share.mean + self.flood_share.mean)

    def variance(self, participants: int) -> float:
        """The variance of a decoded count when this many participants took part."""
        return 2 * participants * self.noise_share.variance

    def sample(self, value: NDArray[Any], randomness: Randomness) -> Integers:
        """Messages of one participant's cells, or of one row of cells per participant: rows (cell, sign), sorted.

        >>> from tacit.core.randomness import SeededRandomness
        >>> mechanism = MultiMessageNoise(2, 1, 1000, 1, 1, NegativeBinomial(20, "1/2"))
        >>> mechanism.sample(np.array([1]), SeededRandomness(1)).tolist()
        [[1, 1]]
        """
        return _ordered(np.concatenate(self.encode(np.atleast_2d(value), randomness)))

    def encode(self, votes: NDArray[Any], randomness: Randomness) -> list[Integers]:
        """The messages of several participants, each with a row of ``votes``: its cells, filled up with −1.

        A participant's messages are sorted, so that their order does not distinguish votes from noise.
        """
        rows = self._checked(votes)  # (participants, at most ones)
        participants = len(rows)
        noise = self.noise_share.scatter(participants, 2 * self.cells, randomness)
        flood = self.flood_share.scatter(participants, self.cells, randomness)
        voter, column = np.nonzero(rows >= 0)
        # A message as one number: 2·cell, plus 1 for a negative sign.
        sender = np.concatenate(
            [
                voter,
                np.repeat(noise.participant, noise.size),
                np.repeat(np.tile(flood.participant, 2), np.tile(flood.size, 2)),
            ]
        )
        slot = np.concatenate(
            [
                2 * rows[voter, column],
                np.repeat(noise.slot, noise.size),
                np.repeat(2 * flood.slot, flood.size),
                np.repeat(2 * flood.slot + 1, flood.size),
            ]
        )
        order = np.lexsort((slot, sender))
        messages = np.stack([slot[order] // 2, 1 - 2 * (slot[order] % 2)], axis=1)
        return np.split(messages, np.cumsum(np.bincount(sender, minlength=participants))[:-1])

    def shuffle(self, answers: Sequence[NDArray[Any]], participants: int) -> Integers:
        """The shuffler's output: all messages in sorted order; refused below the quorum.

        Sorting is a shuffle that needs no randomness: the order reveals nothing but the multiset of messages.

        >>> mechanism = MultiMessageNoise(2, 1, 3, 1, 1, NegativeBinomial(20, "1/2"))
        >>> mechanism.shuffle([np.array([[1, 1]]), np.array([[0, -1], [0, 1]])], participants=3).tolist()
        [[0, 1], [0, -1], [1, 1]]
        """
        require_quorum(participants, self.quorum)
        if not all(np.ndim(answer) == 2 and np.shape(answer)[1] == 2 for answer in answers):
            raise InvalidInput("answers must each be rows (cell, sign)")
        return _ordered(self._messages(np.concatenate(answers)))

    def decode(self, messages: NDArray[Any], participants: int) -> Estimates:
        """The unbiased count of votes for each cell, from ``participants`` participants.

        >>> mechanism = MultiMessageNoise(2, 1, 1000, 1, 1, NegativeBinomial(20, "1/2"))
        >>> mechanism.decode(np.array([[1, 1], [1, 1], [0, -1]]), participants=1000).counts.tolist()
        [-1.0, 2.0]
        """
        require_quorum(participants, self.quorum)
        checked = self._messages(messages)
        plus = np.bincount(checked[checked[:, 1] > 0, 0], minlength=self.cells)
        minus = np.bincount(checked[checked[:, 1] < 0, 0], minlength=self.cells)
        return Estimates((plus - minus).astype(np.float64), np.full(self.cells, self.variance(participants)))

    def _checked(self, votes: NDArray[Any]) -> Integers:
        rows = count_table(votes)
        if rows.ndim != 2 or not rows.size or rows.shape[1] > self.ones:
            raise InvalidInput(
                f"votes must have one row per participant of 1 to {self.ones} cells, got shape {rows.shape}"
            )
        if not (rows.min() >= -1 and rows.max() < self.cells):
            raise InvalidInput(f"votes must be cells in [0, {self.cells}), or -1 for none")
        ordered = np.sort(rows, axis=1)
        if ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any():
            raise InvalidInput(
                "votes must name a cell at most once per participant: the spend is for cells that change by one"
            )
        return rows

    def _messages(self, messages: NDArray[Any]) -> Integers:
        table = count_table(messages)
        if table.ndim != 2 or table.shape[1] != 2:
            raise InvalidInput(f"messages must be rows (cell, sign), got shape {table.shape}")
        if not self.code.valid(table).all():
            raise InvalidInput(f"messages must have a cell in [0, {self.cells}) and a sign of 1 or -1")
        return table

    @property
    def code(self) -> SignedCode:
        """A cell and a sign."""
        return SignedCode(self.cells)

    @property
    def messages_each(self) -> int | None:
        """The most messages of one participant; None because noise has no bound."""
        return None

    def most_messages(self, participants: int) -> int:
        """The number of messages of a holder with this many ``participants``, empty ones included.

        It has more of its own with a probability below ``OVERFLOW``/(1 + e^ε) over the quorum.
        """
        exponent = float(self.spend.epsilon) + math.log(2 * self.quorum / OVERFLOW)
        noise = NegativeBinomial(2 * self.cells * participants * self.noise_share.shape, self.epsilon_noise)
        flood = NegativeBinomial(self.cells * participants * self.flood_share.shape, self.flood.epsilon)
        return participants * self.ones + largest_sum([(1, noise), (2, flood)], exponent)  # W comes in pairs

    def mixed_form(self, limit: int) -> Messages:
        """The form of the shuffler's output: any number of messages."""
        return Messages(self.code, None)

    def made_for(self, queries: int, classes: int, neighbors: int, labels: int) -> bool:
        """Whether the numbers of cells and of ones agree."""
        return (self.cells, self.ones) == (queries * classes, neighbors * labels)

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """Two cells and few participants, one of whom votes for one cell or for the other."""

        def arrived(epsilon: Fraction, delta: Fraction) -> list[Check]:

            mechanism = plan_noise_messages(epsilon, delta, cells=2, participants=AUDITED_PARTICIPANTS)

            def deviations(participants: int, randomness: Randomness) -> NDArray[np.float64]:
                rounds = max(1, participants // AUDITED_PARTICIPANTS)
                seen = _arrived(mechanism, 1, rounds, randomness).sum(axis=0)
                counts = np.array([seen[0] - seen[1], seen[2] - seen[3]])
                spread = math.sqrt(rounds * mechanism.variance(AUDITED_PARTICIPANTS))
                off: NDArray[np.float64] = (counts - np.array([0.0, rounds])) / spread
                return off

            return [noise_message_target(cls.name, mechanism, mechanism), Estimator(cls.name, deviations, cost=10)]

        return {cls.name: arrived}


def noise_message_target(name: str, claimed: MultiMessageNoise, mechanism: MultiMessageNoise) -> Target:
    """One participant votes for one cell or for the other: both noisy counts, and the +1 messages of the first cell."""

    def draw(vote: int, count: int, randomness: Randomness) -> Integers:
        plus, minus, other_plus, other_minus = _arrived(mechanism, vote, count, randomness).T
        return np.stack([plus - minus, other_plus - other_minus, plus], axis=1)

    return Target(name, claimed.spend.epsilon, claimed.spend.delta, (0, 1), draw, cost=10)


def _arrived(mechanism: MultiMessageNoise, vote: int, count: int, randomness: Randomness) -> Integers:
    """What the coordinator sees in ``count`` rounds: the numbers of +1 and −1 messages of each of two cells.

    One participant has a vote and the others have none; sorted messages reveal their numbers only.
    """
    votes = np.full((count * AUDITED_PARTICIPANTS, 1), -1)
    votes[::AUDITED_PARTICIPANTS] = vote
    sent = mechanism.encode(votes, randomness)
    rounds = np.repeat(np.arange(count * AUDITED_PARTICIPANTS) // AUDITED_PARTICIPANTS, [len(each) for each in sent])
    messages = np.concatenate(sent)
    slots = 2 * messages[:, 0] + (messages[:, 1] < 0)
    return np.bincount(4 * rounds + slots, minlength=4 * count).reshape(count, 4)


def _ordered(messages: Integers) -> Integers:
    return messages[np.lexsort((-messages[:, 1], messages[:, 0]))]


def plan_noise_messages(
    epsilon: Number,
    delta: Number,
    cells: int,
    participants: int,
    ones: int = 1,
    share: Number = 1,
    prefer: Literal["fewest_messages", "least_noise"] | Number = "least_noise",
) -> MultiMessageNoise:
    """Shuffled messages that cost at most (ε, δ) when a participant's at most ``ones`` votes are replaced.

    ``prefer`` is the fraction φ of ε that pays for the noise messages, or a goal: ``least_noise`` is φ = 1/10,
    ``fewest_messages`` searches for the best φ in hundredths. For each φ the fewest noise messages are taken.

    >>> plan = plan_noise_messages(1, 1e-6, cells=400, participants=60_000, prefer="1/2")
    >>> float(plan.spend.epsilon), plan.spend.delta <= Fraction(1, 10**6), round(plan.messages, 2)
    (1.0, True, 1.89)
    """
    budget, allowed = positive(epsilon, "epsilon"), exact(delta, "delta")
    if not OVERFLOW < allowed < 1:
        raise InvalidInput(f"delta must be in ({float(OVERFLOW):.1g}, 1), got {delta}")
    if ones < 1:
        raise InvalidInput(f"ones must be at least 1, got {ones}")

    def planned(fraction: Fraction) -> MultiMessageNoise:
        noise, margin = (1 - fraction) * budget / (2 * ones), fraction * budget / ones
        flood = least_noise_messages(noise, margin, (allowed - OVERFLOW) / ones)
        return MultiMessageNoise(cells, ones, participants, noise, margin, flood, share)

    match prefer:
        case "least_noise":
            return planned(LEAST_NOISE)
        case "fewest_messages":
            from scipy.optimize import minimize_scalar  # slow to import, and not installed on devices

            found = minimize_scalar(
                lambda fraction: planned(_hundredths(fraction)).messages,
                bounds=(0.01, 0.99),
                method="bounded",
                options={"xatol": 0.01},
            )
            return planned(_hundredths(found.x))
        case _:
            fraction = exact(prefer, "prefer")
            if not 0 < fraction < 1:
                raise InvalidInput(f"prefer must be a fraction in (0, 1), least_noise or fewest_messages, got {prefer}")
            return planned(fraction)


def _hundredths(fraction: float) -> Fraction:
    return Fraction(math.ceil(100 * fraction), 100)
