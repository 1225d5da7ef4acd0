"""Questions about groups: public samples that are alike share the answers that were paid for.

With few answers, single samples are a poor choice of questions: most of the public samples stay far from any answer.
Here the public samples are divided into groups before anything is asked, each question is about the middle of a group,
and its answers count for all of the group. Answers about one group add up over rounds, as the law of randomized
response says how much each is worth. How often holders are wrong by themselves is estimated from the answers, too. All
of it is post-processing of releases and public samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, Integers, InvalidInput, Number, Reals
from tacit.core.randomness import SeededRandomness, permutations
from tacit.mechanisms.local.randomized_response import RandomizedLabels

__all__ = [
    "HOLDERS_DOUBT",
    "Groups",
    "answer_information",
    "checked_beliefs",
    "log_odds",
    "suggest_groups",
    "suggest_rounds",
]

# The assumed fraction of holders' own labels that say nothing: a holder may never have seen the class.
HOLDERS_DOUBT = 0.4
# What is tried to explain the answers.
_DOUBTS = np.arange(0.05, 1.0, 0.05)
# Answers per group: fewer leave groups unsure, more leave groups that hold several classes.
PER_GROUP = 16


def suggest_groups(answers: int, classes: int, public: int) -> int:
    """The number of groups for this many answers in all: enough for the classes, and sixteen answers about each.

    >>> suggest_groups(80, 10, 5000), suggest_groups(320, 10, 5000), suggest_groups(80, 2, 5)
    (12, 20, 5)
    """
    return min(max(-(-6 * classes // 5), answers // PER_GROUP), public)


def answer_information(mechanism: RandomizedLabels, doubt: float = HOLDERS_DOUBT) -> float:
    """How much the answers of one round say about the classes of what was asked, in nats, if all are equally likely.

    >>> round(answer_information(RandomizedLabels(2, 1, 500), doubt=0.0), 6)
    0.693147
    """
    rates, anything, classes = mechanism.response.rates, doubt / mechanism.classes, mechanism.classes
    right, wrong = (1 - doubt) * rates.one + anything, (1 - doubt) * rates.zero + anything
    each = np.log(classes) + right * np.log(right) + (classes - 1) * wrong * np.log(wrong)
    return mechanism.answers * float(each)


def suggest_rounds(classes: int, epsilon: Number, delta: Number, most: int = 64) -> int:
    """How often a holder should answer one question at this total: as often as says most.

    Few clear answers say less than more of them, up to where noise drowns each.

    >>> [suggest_rounds(10, total, "1e-5") for total in (5, 10, 20)], suggest_rounds(2, 10, "1e-5")
    ([1, 2, 5], 4)
    """

    def said(rounds: int) -> float:
        return rounds * answer_information(RandomizedLabels.for_total(classes, 1, epsilon, delta, rounds))

    best, found = 1, said(1)
    while best < most and (more := said(best + 1)) > found:
        best, found = best + 1, more
    return best


def log_odds(mechanism: RandomizedLabels, doubt: float = HOLDERS_DOUBT) -> float:
    """The log of how much likelier an answer is if its class is the group's, than if it is another one.

    A holder's label is that of the group, or with probability ``doubt`` any label at all; then it is randomized.

    >>> round(log_odds(RandomizedLabels(10, 1, 5), doubt=0.0), 9)
    5.0
    >>> round(log_odds(RandomizedLabels(10, 1, 5)), 2)
    2.63
    """
    if not 0 <= doubt < 1:
        raise InvalidInput(f"doubt must be at least 0 and below 1, got {doubt}")
    rates, anything = mechanism.response.rates, doubt / mechanism.classes
    return float(np.log(((1 - doubt) * rates.one + anything) / ((1 - doubt) * rates.zero + anything)))


@dataclass(frozen=True)
class Groups:
    """Public samples in groups, and what is believed of each sample's class before anything was asked.

    >>> two = Groups.of(np.array([[0.0], [1.0], [2.0], [9.0]]), 2, checked_beliefs(None, 4, 2))
    >>> two.membership[:3].tolist() == [two.membership[0]] * 3, sorted(two.questions.ravel().tolist())
    (True, [1.0, 9.0])
    """

    membership: Integers  # (public,), the group of each sample
    questions: NDArray[Any]  # (groups, *shape), what is asked
    beliefs: Reals  # (public, classes)

    @classmethod
    def of(cls, public: NDArray[Any], count: int, beliefs: Reals, space: Floats | None = None, seed: int = 0) -> Groups:
        """Groups by k-means in this space; each is asked about by its mean, or its middle sample if that has no mean.

        Images have none, nor have whole numbers and truth values, whose mean would be rounded to another sample.
        """
        from tacit.methods.rknn.queries import cluster

        rows = np.asarray(public if space is None else space).reshape(len(public), -1)
        found = cluster(rows, count, seed)
        away = ((rows - found.centers[found.membership]) ** 2).sum(axis=1)
        order = np.lexsort((away, found.membership))
        used, first = np.unique(found.membership[order], return_index=True)
        membership = np.searchsorted(used, found.membership).astype(np.int64)
        if public.ndim == 2 and public.dtype.kind == "f":
            members = np.eye(len(used), dtype=np.float64)[membership]
            questions = (members.T @ public / members.sum(axis=0)[:, None]).astype(public.dtype)
        else:
            questions = public[order[first]]
        return cls(membership, questions, beliefs)

    @property
    def sizes(self) -> Integers:
        """The number of samples in each group."""
        return np.bincount(self.membership, minlength=len(self.questions))

    @property
    def prior(self) -> Reals:
        """The mean belief of each group's samples."""
        sums = np.zeros((len(self.questions), self.beliefs.shape[1]))
        np.add.at(sums, self.membership, self.beliefs)
        prior: Reals = sums / self.sizes[:, None]
        return prior

    def posterior(self, counts: Reals, mechanism: RandomizedLabels) -> Reals:
        """The class probabilities of each group, given how often each class was answered about it."""
        return _normalized(np.log(self.prior) + log_odds(mechanism, self.doubt(counts, mechanism)) * counts)

    def sample_chances(self, counts: Reals, mechanism: RandomizedLabels) -> Reals:
        """The class probabilities of each sample: the belief about it, moved by the answers about its group."""
        odds = log_odds(mechanism, self.doubt(counts, mechanism))
        return _normalized(np.log(self.beliefs) + odds * counts[self.membership])

    def doubt(self, counts: Reals, mechanism: RandomizedLabels) -> float:
        """The fraction of holders' labels that say nothing, which explains the answers best.

        Before any answer it is about HOLDERS_DOUBT.

        Answers about one group agree where holders are right, and are spread where they are not.
        """
        rates, classes, asked = mechanism.response.rates, mechanism.classes, counts.sum(axis=1)
        fits = []
        for doubt in _DOUBTS:
            wrong = (1 - doubt) * rates.zero + doubt / classes
            logs = np.log(self.prior) + log_odds(mechanism, doubt) * counts
            highest = logs.max(axis=1)
            each = asked * np.log(wrong) + highest + np.log(np.exp(logs - highest[:, None]).sum(axis=1))
            # As if four of ten earlier labels had said nothing.
            fits.append(each.sum() + 10 * (HOLDERS_DOUBT * np.log(doubt) + (1 - HOLDERS_DOUBT) * np.log(1 - doubt)))
        return float(_DOUBTS[int(np.argmax(fits))])

    def ask(self, counts: Reals, mechanism: RandomizedLabels, importance: bool, draw: SeededRandomness) -> Integers:
        """The groups that are asked about next, as many as the mechanism has answers.

        By importance: those whose labels are least known, the entropy of the posterior times the root of the group's
        size. Otherwise those that were asked about least often.
        """
        order = permutations(1, len(self.questions), draw)[0]
        if importance:
            chances = self.posterior(counts, mechanism)
            worth = -(chances * np.log(np.maximum(chances, 1e-300))).sum(axis=1) * np.sqrt(self.sizes)
        else:
            worth = -counts.sum(axis=1)
        chosen: Integers = order[np.argsort(-worth[order], kind="stable")[: mechanism.answers]]
        return chosen


def checked_beliefs(given: Any, public: int, classes: int) -> Reals:  # noqa: ANN401
    """Rows of class probabilities, none of which is 0, so that answers can contradict them; None is no knowledge.

    >>> checked_beliefs([[1, 3]], 1, 2).round(2).tolist(), checked_beliefs(None, 1, 2).tolist()
    ([[0.25, 0.75]], [[0.5, 0.5]])
    """
    if given is None:
        return np.full((public, classes), 1 / classes)
    try:
        beliefs = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("beliefs must be an array of class probabilities") from None
    if beliefs.shape != (public, classes):
        raise InvalidInput(
            f"beliefs must have a row for each of the {public} public samples and a column for each of the {classes} "
            f"classes, got {beliefs.shape}"
        )
    if not (np.isfinite(beliefs).all() and (beliefs >= 0).all() and (beliefs.sum(axis=1) > 0).all()):
        raise InvalidInput("beliefs must be class probabilities: finite, not negative, and not all 0")
    open_beliefs: Reals = beliefs / beliefs.sum(axis=1, keepdims=True) + 1e-3
    open_beliefs /= open_beliefs.sum(axis=1, keepdims=True)
    return open_beliefs


def _normalized(logs: Reals) -> Reals:
    chances = np.exp(logs - logs.max(axis=1, keepdims=True))
    normalized: Reals = chances / chances.sum(axis=1, keepdims=True)
    return normalized
