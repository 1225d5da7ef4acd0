"""How many features a question makes of a record is the asker's choice: too many are refused before the payment."""

import numpy as np
import pytest

from tacit.core.account import Ceiling
from tacit.core.codec import StrictReader
from tacit.core.errors import InvalidInput
from tacit.ledger import open_ledger
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.methods.encoding import require_encodable
from tacit.methods.rknn.holder import VoteHolder
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.representations.arrays import WIDEST_ENCODING
from tacit.representations.chained import Chained
from tacit.representations.groups import ClusteringHead
from tacit.representations.maps import Interpolated
from tacit.representations.patches import PatchDictionary
from tacit.representations.random_features import RandomFeatures
from tacit.representations.registry import read_representation, representation_fields
from tacit.representations.scaled import Identity, PrincipalComponents
from tacit.representations.transformed_kmeans import TransformedShares

# Beside the two values of a record.
TOO_MANY = WIDEST_ENCODING + 2 + 1


def waves(count):
    return RandomFeatures(np.zeros(2), 1.0, np.zeros((2, count - 2)), np.zeros(count - 2))


def axes(count, of=2):
    return PrincipalComponents(np.zeros(of), np.ones((count, of)))


WIDE = {
    "waves": (waves(TOO_MANY), TOO_MANY),
    "directions": (axes(TOO_MANY), TOO_MANY),
    "groups": (ClusteringHead(np.ones((TOO_MANY, 2)), np.zeros(TOO_MANY)), TOO_MANY),
    "in between": (Chained((waves(TOO_MANY), axes(2, of=TOO_MANY))), 2),
}


@pytest.mark.parametrize("name", WIDE)
def test_more_features_than_a_node_has_room_for_are_refused_unpaid(name):
    representation, width = WIDE[name]
    records = Private(Records(np.ones((3, 2)), np.array([0, 1, 1])))
    queries = np.zeros((1, width), dtype=np.float32)
    mechanism = DiscreteLaplaceNoise(1, 2)
    ask = VoteAsk(queries, representation, 1, ("a", "b"), "c0ffee", mechanism, "labels", "r-1")
    with open_ledger("memory:", {"clinic": Ceiling(4)}) as ledger:
        with pytest.raises(InvalidInput):
            VoteHolder([records], Gate(ledger, "clinic")).answer(ask)
        assert ledger.balance("clinic").payments == 0


def test_as_many_as_there_is_room_for_and_as_a_record_has_are_encoded():
    require_encodable(waves(WIDEST_ENCODING + 2), np.zeros((1, 2)), WIDEST_ENCODING + 2)
    own = np.zeros((1, TOO_MANY))
    require_encodable(Identity(TOO_MANY), own, TOO_MANY)
    require_encodable(Chained((Identity(TOO_MANY), axes(2, of=TOO_MANY))), own, 2)


def test_waves_are_added_to_as_many_columns_as_a_table_has():
    columns = np.eye(4, TOO_MANY)
    made = RandomFeatures.fit(columns, waves=400)
    require_encodable(made, columns[:1], TOO_MANY + 400)


IMAGE = ((64, 64, 1), 0.0, 16.0)
HUNGRY = {
    "words of patches": PatchDictionary(*IMAGE, 2, 1, np.zeros(4), np.eye(4), np.zeros((20_000, 4))),
    "forms of a group": TransformedShares((1, 1, 1), 0.0, 1.0, np.zeros((1, TOO_MANY, 1), dtype=np.uint8), 1.0),
    "neighbors on a map": Interpolated(np.zeros((2000, 1), np.float32), np.zeros((2000, 1), np.float32), 1500),
}


@pytest.mark.parametrize("name", HUNGRY)
def test_what_takes_much_memory_for_one_record_is_not_read(name):
    with pytest.raises(InvalidInput):
        read_representation(StrictReader(representation_fields(HUNGRY[name]), "representation"))


def test_what_could_not_be_read_is_not_made():
    with pytest.raises(InvalidInput, match="too many words"):
        PatchDictionary.fit(np.random.default_rng(0).random((2, 640, 640)), words=200, stride=1)
    with pytest.raises(InvalidInput, match="forms"):
        TransformedShares.fit(np.random.default_rng(0).random((620, 4, 4)), 610)
