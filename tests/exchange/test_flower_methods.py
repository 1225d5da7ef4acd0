"""Every method through Flower's messages and through the local loop: the same seeded simulation, the same result."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.datasets.digits import digits
from tacit.datasets.tables import read_table
from tacit.exchange.flower_client import client_app
from tacit.exchange.flower_in_process import InProcessGrid, contexts
from tacit.exchange.flower_masked import FlowerMasked
from tacit.exchange.flower_messages import payload_of
from tacit.exchange.flower_server import FlowerExchange
from tacit.exchange.journal import Journal
from tacit.exchange.letters import Letter, Reason, read_letter, read_reply
from tacit.exchange.local import local_exchange
from tacit.exchange.node_masking import Memory
from tacit.exchange.node_study import StudyRoom
from tacit.exchange.portable import ask_to_bytes, read_ask
from tacit.exchange.rounds import Terms
from tacit.experiment.federated_job import read_job, run_job
from tacit.experiment.federated_methods import (
    agree_federated,
    in_places,
    learn_federated,
    teach_federated,
    transfer_federated,
)
from tacit.experiment.run import load
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


def rooms(made, public=None):
    public = digits().public_samples if public is None else public
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
    assert all(len(node.room.memory.kept) == 1 + 2 for node in made)
    last = over.outcome.history[-1]
    right = np.mean(last.targets.argmax(axis=1) == digits().public_labels[last.rows])
    assert right > 0.7


JOB = f"""\
method = "fedmd"
public = "public.npz"
classes = {list(map(str, range(10)))}
epsilon = 300
records = 1000
nodes = {COUNT}
at_least = 3
rounds = 3
queries = 40
deadline = 10
grace = 0.3
patience = 0.3
out = "run"
"""


def fedmd_job(tmp_path):
    """A job over files, and its public samples as both sides read them."""
    np.savez(tmp_path / "public.npz", X=digits().public_samples)
    (tmp_path / "job.toml").write_text(JOB)
    return read_job(tmp_path / "job.toml"), read_table(tmp_path / "public.npz").samples


def run_over(job, grid):
    made = []

    def exchange(run, journal, tell):
        made.append(FlowerExchange(grid, run, job.terms, journal, tell))
        return made[0]

    return run_job(job, exchange), made[0]


def test_a_fedmd_job_is_the_same_as_the_local_loop_and_tells_the_nodes_what_it_came_to(tmp_path):
    job, public = fedmd_job(tmp_path)
    made = rooms(there(), public)
    run, exchange = run_over(job, grid_over(made))
    request = Journal.open(tmp_path / "run.journal", job.model_dump_json(exclude={"out", "patience"})).run
    told = {}
    here = learn_federated(
        local_exchange(rooms(there(), public)), public, 300, classes=job.classes, rounds=3, queries=40, request=request,
        deliver=lambda feedback, name: told.setdefault(name, feedback) and (),
    )  # fmt: skip
    assert (run.labels == here.labels).all()
    assert run.guarantee == here.guarantee
    assert {each.account for each in run.receipts} == {node.name for node in made}
    assert np.mean(run.labels.astype(int) == digits().public_labels) > 0.6
    assert run.recipe["told"] == sorted(node.name for node in made)
    # Every node has all three agreements, the last one too, and it is the one that the local loop came to.
    for node in made:
        kept = [
            read_ask(content) for name, content in node.room.memory.kept.items() if not name.endswith("begun.feedback")
        ]
        assert [each.round for each in kept] == [0, 1, 2]
        np.testing.assert_array_equal(kept[-1].targets, told[request].targets)
    assert load(tmp_path / "run").recipe["method"] == "FedMD, federated"
    assert exchange.turns[-1].step == "learn"


def test_a_fedmd_job_that_comes_back_asks_nobody_again_and_tells_again(tmp_path):
    job, public = fedmd_job(tmp_path)
    made = rooms(there(), public)
    steps = []

    class Cut(InProcessGrid):
        def push_messages(self, messages):
            messages = list(messages)
            steps.append(read_letter(payload_of(messages[0])).step)
            if steps.count("learn") == 1:
                raise KeyboardInterrupt
            return super().push_messages(messages)

    with pytest.raises(KeyboardInterrupt):
        run_over(job, grid_over(made, Cut))
    run, _ = run_over(job, grid_over(made, Cut))
    assert steps == ["answer"] * 3 + ["learn"] * 2
    assert run.recipe["told"] == sorted(node.name for node in made)
    assert [node.ledger.balance(node.account).payments for node in made] == [3] * COUNT


def test_a_node_takes_note_of_nothing_in_which_it_took_no_part():
    made = rooms(there())
    over = agreed(FlowerExchange(grid_over(made), "r", TERMS))
    last = over.outcome.history[-1]
    node, stranger = made[0], rooms(there())[0]

    def said(node, told=last, request="r", content=None):
        payload = Letter("r", 3, COUNT, ask_to_bytes(told), "learn", (content or request.encode())).to_bytes()
        return read_reply(node.reply(payload)).answer

    before = dict(node.room.memory.kept)
    assert said(node, request="another run") is Reason.QUESTION
    assert said(node, told=dataclasses.replace(last, round=7)) is Reason.QUESTION
    assert said(node, content=b"x" * 2000) is Reason.QUESTION
    assert said(node, content=b"\xff\xfe") is Reason.QUESTION
    assert said(stranger) is Reason.QUESTION
    assert said(stranger, told=dataclasses.replace(last, round=0)) is Reason.QUESTION
    assert said(dataclasses.replace(node, room=None)) is Reason.QUESTION
    assert said(dataclasses.replace(node, rules=dataclasses.replace(ANYTHING, methods=("pate",)))) is Reason.METHOD
    assert node.room.memory.kept == before
    assert said(node) == b""
    assert said(node) == b""
    assert len(node.room.memory.kept) == len(before) + 1
    question = Letter("r", 3, COUNT, b"no feedback", "learn", b"r").to_bytes()
    assert read_reply(node.reply(question)).answer is Reason.QUESTION
