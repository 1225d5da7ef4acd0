"""Checks of what a shuffler lets through: which messages there are, and not who sent them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.audit.checks import Check, Estimator, Target
from tacit.core.protocols import Integers
from tacit.core.randomness import Randomness
from tacit.mechanisms.local.generalized_response import GeneralizedResponse
from tacit.mechanisms.shuffle.flooded_messages import FloodedMessages
from tacit.mechanisms.shuffle.flooding_plan import plan_flooding
from tacit.mechanisms.shuffle.single_message import SingleMessage

__all__ = [
    "arrived",
    "flooded",
    "flooded_messages",
    "planned_flooding",
    "planned_response",
    "sent_messages",
    "single_message",
]

# Few clients keep an audit fast, and the claims are as tight for few as for many.
FLOODERS, SENDERS = 3, 20


def arrived(mechanism: FloodedMessages, vote: int, count: int, randomness: Randomness) -> Integers:
    """What the coordinator sees of so many rounds: the number of +1 and of −1 messages of each of two cells.

    One client has a vote and the others have none; messages in sorted order say no more than their numbers.
    """
    votes = np.full((count * FLOODERS, 1), -1)
    votes[::FLOODERS] = vote
    sent = mechanism.encode(votes, randomness)
    rounds = np.repeat(np.arange(count * FLOODERS) // FLOODERS, [len(each) for each in sent])
    messages = np.concatenate(sent)
    slots = 2 * messages[:, 0] + (messages[:, 1] < 0)
    return np.bincount(4 * rounds + slots, minlength=4 * count).reshape(count, 4)


def planned_flooding(epsilon: Fraction, delta: Fraction) -> FloodedMessages:
    """Two cells and few clients, at (ε, δ)."""
    return plan_flooding(epsilon, delta, cells=2, participants=FLOODERS)


def flooded(name: str, claimed: FloodedMessages, mechanism: FloodedMessages) -> Target:
    """The client's one vote is for one cell or for the other: both noisy counts, and how many +1 the first got."""

    def draw(vote: int, count: int, randomness: Randomness) -> Integers:
        plus, minus, other_plus, other_minus = arrived(mechanism, vote, count, randomness).T
        return np.stack([plus - minus, other_plus - other_minus, plus], axis=1)

    return Target(name, claimed.spend.epsilon, claimed.spend.delta, (0, 1), draw, cost=10)


def flooded_messages(epsilon: Fraction, delta: Fraction) -> list[Check]:
    """Shares of noise and a flood."""
    name = "flooded-messages"
    mechanism = planned_flooding(epsilon, delta)

    def measured(clients: int, randomness: Randomness) -> NDArray[np.float64]:
        rounds = max(1, clients // FLOODERS)
        seen = arrived(mechanism, 1, rounds, randomness).sum(axis=0)
        counts = np.array([seen[0] - seen[1], seen[2] - seen[3]])
        spread = math.sqrt(rounds * mechanism.variance(FLOODERS))
        deviations: NDArray[np.float64] = (counts - np.array([0.0, rounds])) / spread
        return deviations

    return [flooded(name, mechanism, mechanism), Estimator(name, measured, cost=10)]


def sent_messages(mechanism: SingleMessage, cell: int, count: int, randomness: Randomness) -> Integers:
    """The cells that clients name in so many rounds, one row each: the first has ``cell``, all others cell 2."""
    cells = np.full((count, mechanism.participants), 2)
    cells[:, 0] = cell
    return mechanism.encode(cells.reshape(-1, 1), randomness).reshape(cells.shape)


def planned_response(epsilon: Fraction, delta: Fraction) -> SingleMessage:
    """Randomized response over three cells that is (ε, δ) once it is shuffled."""
    return SingleMessage.for_budget(lambda local: GeneralizedResponse(3, 1, local), SENDERS, epsilon, delta)


def single_message(epsilon: Fraction, delta: Fraction) -> Target:
    """One message a client: others who have neither of the client's two cells hide it worst."""
    mechanism = planned_response(epsilon, delta)

    def draw(cell: int, count: int, randomness: Randomness) -> Integers:
        named = sent_messages(mechanism, cell, count, randomness)
        return np.stack([(named == each).sum(axis=1) for each in (0, 1)], axis=1)

    return Target("shuffled-response", mechanism.spend.epsilon, mechanism.spend.delta, (0, 1), draw, cost=10)
