"""Every method through Flower's messages and through the local loop: the same seeded simulation, the same result."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.datasets.published import digits
from tacit.datasets.tables import read_table
from tacit.federation.coordinator import Journal, RoundPolicy
from tacit.federation.flower.client import InProcessGrid, client_app, contexts
from tacit.federation.flower.server import FlowerExchange, payload_of
from tacit.federation.flower.summed import FlowerMasked
from tacit.federation.messages import RefusalReason, Request, read_node_request, read_response
from tacit.federation.node.steps import NodeMemory
from tacit.ledger.policy import Rules
from tacit.methods.fedmd.models import ConsensusStore
from tacit.methods.fedmd.wire import Feedback
from tacit.runs.federation import read_job, run_job
from tacit.runs.run import load
from tacit.students.weighted import logistic
from tacit.students.wrapped import Refitted
from tacit.wire import ask_to_bytes, read_ask
from tests.federation.federation import federated, masking_nodes, nodes
from tests.local_exchange import local_exchange

COUNT = 5
TERMS = RoundPolicy(expected=COUNT, at_least=3, deadline=10, grace=0.3, patience=0.3, records=1000)
ANYTHING = Rules(
    ("privatekt", "pate", "fedmd", "rknn"),
    ("RandomizedLabels", "DiscreteLaplaceNoise", "Responses", "DistributedLaplace"),
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
    settings = {
        "classes": range(10), "nodes": COUNT, "rounds": 4, "round_epsilon": 20, "queries_per_round": 20, "delta": 0,
        "participation": 1.0, "model": "logistic", "method": "privatekt",
    }  # fmt: skip
    return federated(exchange, digits().public_samples, request="r", **(settings | more))


def test_privatekt_is_the_same_through_flower():
    made = there()
    here = transferred(lambda ask: [made[place].answer(ask) for place in ask.invited])
    over = transferred(FlowerExchange(grid_over(there()), "r", TERMS))
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
    run = transferred(exchange, participation=0.6)
    assert [len(turn.asked) for turn in exchange.rounds] == [3, 3, 3, 3]
    assert run.metrics["exhausted"] == 0

    # A coordinator that comes back asks nobody, and learns the same.
    class Silent(InProcessGrid):
        def push_messages(self, messages):
            raise AssertionError("somebody was asked again")

    again = transferred(
        FlowerExchange(grid_over(made, Silent), "r", terms, Journal.open(tmp_path, "a recipe")), participation=0.6
    )
    np.testing.assert_array_equal(
        run.student.predict_proba(digits().test_samples), again.student.predict_proba(digits().test_samples)
    )


def taught(exchange, trust, **more):
    settings = {"classes": range(10), "nodes": COUNT, "queries": 40, "trust": trust, "method": "pate"}
    return federated(exchange, digits().public_samples, 200, request="r", **(settings | more))


def test_pate_is_the_same_through_flower():
    here = taught(local_exchange(there()), "local")
    over = taught(FlowerExchange(grid_over(there()), "r", TERMS), "local")
    assert (here.labels == over.labels).all()
    assert here.guarantee == over.guarantee
    assert np.mean(over.query_labels == digits().public_labels[:40]) > 0.5


def test_pate_votes_are_summed_under_masks():
    made, peers = masking_nodes(COUNT, seed=None, ceiling=1000)
    made = [dataclasses.replace(node, rules=ANYTHING) for node in made]
    run = taught(FlowerMasked(grid_over(made), "r", TERMS, peers), "masked")
    assert np.mean(run.query_labels == digits().public_labels[:40]) > 0.8
    assert (str(run.guarantee.trust), run.guarantee.epsilon) == ("masked", 200)


def rooms(made, public=None):
    public = digits().public_samples if public is None else public
    return [
        dataclasses.replace(node, consensus=ConsensusStore(lambda: Refitted(logistic(), 10), public, NodeMemory()))
        for node in made
    ]


RESPONSES = {"method": "fedmd", "variant": "response", "rounds": 3, "queries": 40, "nodes": COUNT}


def agreed(exchange):
    return federated(exchange, digits().public_samples, 300, classes=range(10), request="r", **RESPONSES)


def history(run):
    """What was agreed on in each round."""
    return [
        Feedback(number, run.arrays[f"rows {number}"], run.arrays[f"targets {number}"])
        for number in range(run.metrics["rounds"])
    ]


def test_fedmd_is_the_same_through_flower_and_learns_again_what_was_agreed_on():
    here = agreed(local_exchange(rooms(there())))
    made = rooms(there())
    over = agreed(FlowerExchange(grid_over(made), "r", TERMS))
    for mine, other in zip(history(here), history(over), strict=True):
        np.testing.assert_array_equal(mine.targets, other.targets)
    assert here.guarantee == over.guarantee
    # What was agreed on in the first two rounds traveled with the questions of the next two, and was kept.
    assert all(len(node.consensus.memory.kept) == 1 + 2 for node in made)
    last = history(over)[-1]
    right = np.mean(last.targets.argmax(axis=1) == digits().public_labels[last.rows])
    assert right > 0.7


JOB = f"""\
method = "fedmd"
variant = "response"
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
    request = Journal.open(tmp_path / "run.journal", job.recipe).run
    told = {}
    here = federated(
        local_exchange(rooms(there(), public)), public, 300, classes=job.classes, request=request,
        deliver=lambda feedback, name: told.setdefault(name, feedback) and (), **RESPONSES,
    )  # fmt: skip
    assert (run.labels == here.labels).all()
    assert run.guarantee == here.guarantee
    assert {each.account for each in run.receipts} == {node.name for node in made}
    assert np.mean(run.labels.astype(int) == digits().public_labels) > 0.6
    assert run.recipe["delivered_to"] == sorted(node.name for node in made)
    # Every node has all three agreements, the last one too, and it is the one that the local loop came to.
    for node in made:
        kept = [
            read_ask(content)
            for name, content in node.consensus.memory.kept.items()
            if not name.endswith("answered.feedback")
        ]
        assert [each.round for each in kept] == [0, 1, 2]
        np.testing.assert_array_equal(kept[-1].targets, told[request].targets)
    assert load(tmp_path / "run").recipe["method"] == "fedmd"
    assert exchange.rounds[-1].step == "learn"


def test_a_fedmd_job_that_comes_back_asks_nobody_again_and_tells_again(tmp_path):
    job, public = fedmd_job(tmp_path)
    made = rooms(there(), public)
    steps = []

    class Cut(InProcessGrid):
        def push_messages(self, messages):
            messages = list(messages)
            steps.append(read_node_request(payload_of(messages[0])).step)
            if steps.count("learn") == 1:
                raise KeyboardInterrupt
            return super().push_messages(messages)

    with pytest.raises(KeyboardInterrupt):
        run_over(job, grid_over(made, Cut))
    run, _ = run_over(job, grid_over(made, Cut))
    assert steps == ["answer"] * 3 + ["learn"] * 2
    assert run.recipe["delivered_to"] == sorted(node.name for node in made)
    assert [node.ledger.balance(node.account).payments for node in made] == [3] * COUNT


def test_a_node_takes_note_of_nothing_in_which_it_took_no_part():
    made = rooms(there())
    over = agreed(FlowerExchange(grid_over(made), "r", TERMS))
    last = history(over)[-1]
    node, stranger = made[0], rooms(there())[0]

    def said(node, told=last, request="r", content=None):
        payload = Request("r", 3, COUNT, ask_to_bytes(told), "learn", (content or request.encode())).to_bytes()
        return read_response(node.reply(payload)).answer

    before = dict(node.consensus.memory.kept)
    assert said(node, request="another run") is RefusalReason.QUESTION
    assert said(node, told=dataclasses.replace(last, round=7)) is RefusalReason.QUESTION
    assert said(node, content=b"x" * 2000) is RefusalReason.QUESTION
    assert said(node, content=b"\xff\xfe") is RefusalReason.QUESTION
    assert said(stranger) is RefusalReason.QUESTION
    assert said(stranger, told=dataclasses.replace(last, round=0)) is RefusalReason.QUESTION
    assert said(dataclasses.replace(node, consensus=None)) is RefusalReason.QUESTION
    assert (
        said(dataclasses.replace(node, rules=dataclasses.replace(ANYTHING, methods=("pate",)))) is RefusalReason.METHOD
    )
    assert node.consensus.memory.kept == before
    assert said(node) == b""
    assert said(node) == b""
    assert len(node.consensus.memory.kept) == len(before) + 1
    question = Request("r", 3, COUNT, b"no feedback", "learn", b"r").to_bytes()
    assert read_response(node.reply(question)).answer is RefusalReason.QUESTION
