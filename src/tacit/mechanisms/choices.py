"""Which of the registered mechanisms answer which statistic: one table, by which the doors to records are made.

A door lets through what its row lists and nothing else. A mechanism of the package is added to the rows where it
belongs; one of another package needs no row, and passes where an operator's policy names it and the row has others that
randomize the same statistic and release the same kind of answer.
"""

from __future__ import annotations

from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.mechanisms.central.sealed_table import SealedTable
from tacit.mechanisms.description import Statistic
from tacit.mechanisms.door import Door, Kinds
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.concatenation import Concatenation
from tacit.mechanisms.local.generalized_randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.local.randomized_labels import RandomizedLabels
from tacit.mechanisms.local.responses import Responses
from tacit.mechanisms.local.separation import Separation
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.masked.distributed_gaussian import DistributedGaussian
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace, MaskedShare
from tacit.mechanisms.registry import OWN
from tacit.mechanisms.shuffle.multi_message_noise import MultiMessageNoise
from tacit.mechanisms.shuffle.shuffled import SealedMessages, Shuffled
from tacit.mechanisms.shuffle.single_message import SingleMessage

__all__ = [
    "LABELS",
    "LOCAL",
    "PARTY_VOTES",
    "PREDICTIONS",
    "RECORD_SUMS",
    "RECORD_VOTES",
    "SUM_SHARES",
    "TEACHER_VOTES",
    "VOTE_SHARES",
    "crowd_door",
    "label_door",
    "prediction_door",
    "table_door",
]


def _own(statistic: Statistic) -> Kinds:
    return tuple(each for each in OWN if each.statistic == statistic)


RECORD_VOTES: Kinds = (PermuteAndFlip, DiscreteLaplaceNoise, DiscreteGaussianNoise)
RECORD_SUMS: Kinds = (RoundedGaussianNoise, DiscreteGaussianNoise, DiscreteLaplaceNoise)
PARTY_VOTES: Kinds = (PermuteAndFlip, DiscreteLaplaceNoise)
TEACHER_VOTES: Kinds = _own("table")
PREDICTIONS: Kinds = (DiscreteGaussianNoise, DiscreteLaplaceNoise, Responses)
LABELS: Kinds = (RandomizedLabels,)
LOCAL: Kinds = _own("local")
# Whose shares make the noise of a masked sum: of counts, and of numbers with a bounded length.
VOTE_SHARES: Kinds = (DistributedLaplace,)
SUM_SHARES: Kinds = (DistributedGaussian, DistributedLaplace)


def table_door(name: str, choices: Kinds, shares: Kinds = VOTE_SHARES) -> Door:
    """A holder whose table goes out through one of these, in shares under masks, or sealed for a curator."""
    return Door(
        name,
        (*choices, *shares, MaskedShare, SealedTable),
        {MaskedShare: shares, SealedTable: choices},
    )


def crowd_door(name: str) -> Door:
    """A crowd whose clients randomize for themselves, with or without a shuffler."""
    return Door(
        name,
        (*LOCAL, SealedMessages, Shuffled),
        {
            Concatenation: (Collision,),
            SealedMessages: (MultiMessageNoise, SingleMessage),
            Separation: (Collision,),
            Shuffled: (MultiMessageNoise, SingleMessage),
            SingleMessage: LOCAL,
        },
    )


def prediction_door(name: str) -> Door:
    """A party that randomizes the predictions of its model."""
    return Door(name, PREDICTIONS, {Responses: (GeneralizedRandomizedResponse, SubsetSelection)})


def label_door(name: str) -> Door:
    """A holder that randomizes the labels its model gives."""
    return Door(name, LABELS)
