"""Every method through Flower's messages and through the local loop: the same seeded simulation, the same result."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.datasets.digits import digits
from tacit.exchange.flower_client import client_app
from tacit.exchange.flower_in_process import InProcessGrid, contexts
from tacit.exchange.flower_masked import FlowerMasked
from tacit.exchange.flower_server import FlowerExchange
from tacit.exchange.journal import Journal
from tacit.exchange.local import local_exchange
from tacit.exchange.node_masking import Memory
from tacit.exchange.node_study import StudyRoom
from tacit.exchange.rounds import Terms
from tacit.experiment.federated_methods import agree_federated, in_places, teach_federated, transfer_federated
from tacit.ledger.policy import Rules
from tacit.students.refitted import Refitted
from tacit.students.weighted import logistic
from tests.exchange.federation import masking_nodes, nodes

COUNT = 5
TERMS = Terms(expected=COUNT, at_least=3, deadline=10, grace=0.3, patience=0.3, records=1000)
ANYTHING = Rules(
    ("privatekt", "pate", "fedmd", "rknn"),
    ("AnswerSheet", "DiscreteLaplaceNoise", "Responses", "DistributedLaplace"),
    ("PrivateKT labels", "PATE votes", "FedMD predictions"),
    participants=2,
)


def there(seed=5, ceiling=1000):
    return nodes(COUNT, seed=seed, rules=ANYTHING, ceiling=ceiling)


def grid_over(made, kind=InProcessGrid, **more):
    app = client_app(lambda context: made[context.node_config["partition-id"]])
    return kind(app, contexts(COUNT, [node.name for node in made]), **more)


def labels_right(student):
    return np.mean(student.predict(digits().test_samples).astype(int) == digits().test_labels)


def transferred(exchange, **more):
    settings = {"classes": range(10), "nodes": COUNT, "rounds": 4, "round_epsilon": 20, "answers": 20, "delta": 0}
    return transfer_federated(exchange, digits().public_samples, request="r", **(settings | more))


def test_privatekt_is_the_same_through_flower():
    made = there()
    here = transferred(lambda ask: [made[place].answer(ask) for place in ask.invited])
    over = transferred(in_places(FlowerExchange(grid_over(there()), "r", TERMS)))
    np.testing.assert_array_equal(
        here.student.predict_proba(digits().test_samples), over.student.predict_proba(digits().test_samples)
    )
    assert {name: each.epsilon for name, each in here.guarantees.items()} == {
        name: each.epsilon for name, each in over.guarantees.items()
    }
    assert labels_right(over.student) > 0.3
    assert over.guarantee.unit.holder


def test_privatekt_asks_some_and_goes_on_without_who_is_lost(tmp_path):
    class Losing(InProcessGrid):
        def pull_messages(self, message_ids):
            return [each for each in super().pull_messages(message_ids) if each.metadata.src_node_id != 2]

    made = there(seed=None)
    terms = dataclasses.replace(TERMS, at_least=1, deadline=0.5)
    journal = Journal.open(tmp_path, "a recipe")
    exchange = FlowerExchange(grid_over(made, Losing), "r", terms, journal)
    run = transferred(in_places(exchange), participation=0.6)
    assert [len(turn.asked) for turn in exchange.turns] == [3, 3, 3, 3]
    assert run.exhausted == 0

    # A coordinator that comes back asks nobody, and learns the same.
    class Silent(InProcessGrid):
        def push_messages(self, messages):
            raise AssertionError("somebody was asked again")

    again = transferred(
        in_places(FlowerExchange(grid_over(made, Silent), "r", terms, Journal.open(tmp_path, "a recipe"))),
        participation=0.6,
    )
    np.testing.assert_array_equal(
        run.student.predict_proba(digits().test_samples), again.student.predict_proba(digits().test_samples)
    )


def taught(exchange, trust, **more):
    settings = {"classes": range(10), "nodes": COUNT, "queries": 40, "trust": trust}
    return teach_federated(exchange, digits().public_samples, 200, request="r", **(settings | more))


def test_pate_is_the_same_through_flower():
    here = taught(local_exchange(there()), "local")
    over = taught(FlowerExchange(grid_over(there()), "r", TERMS), "local")
    assert (here.labels == over.labels).all()
    assert here.guarantee == over.guarantee
    assert np.mean(over.labels == digits().public_labels[:40]) > 0.5


def test_pate_votes_are_summed_under_masks():
    made, peers = masking_nodes(COUNT, seed=None, ceiling=1000)
    made = [dataclasses.replace(node, rules=ANYTHING) for node in made]
    run = taught(FlowerMasked(grid_over(made), "r", TERMS, peers), "masked")
    assert np.mean(run.labels == digits().public_labels[:40]) > 0.8
    assert (str(run.guarantee.trust), run.guarantee.epsilon) == ("masked", 200)


def rooms(made):
    public = digits().public_samples
    return [
        dataclasses.replace(node, room=StudyRoom(lambda: Refitted(logistic(), 10), public, Memory())) for node in made
    ]


def agreed(exchange):
    return agree_federated(exchange, digits().public_samples, 300, classes=range(10), rounds=3, queries=40, request="r")


def test_fedmd_is_the_same_through_flower_and_learns_again_what_was_agreed_on():
    here = agreed(local_exchange(rooms(there())))
    made = rooms(there())
    over = agreed(FlowerExchange(grid_over(made), "r", TERMS))
    for mine, other in zip(here.outcome.history, over.outcome.history, strict=True):
        np.testing.assert_array_equal(mine.targets, other.targets)
    assert here.guarantee == over.guarantee
    # What was agreed on in the first two rounds travelled with the questions of the next two, and was kept.
    assert all(len(node.room.memory.kept) == 2 for node in made)
    last = over.outcome.history[-1]
    right = np.mean(last.targets.argmax(axis=1) == digits().public_labels[last.rows])
    assert right > 0.7
