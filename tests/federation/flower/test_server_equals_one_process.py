"""Whatever one process can be asked for, a federation can too: every kind of run over Flower's messages."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.accounting.compose import total
from tacit.core.account import Rule
from tacit.core.errors import InvalidInput, TooFewParticipants
from tacit.datasets.published import digits
from tacit.federation.coordinator import Journal, RoundPolicy
from tacit.federation.flower.client import InProcessGrid, client_app, contexts
from tacit.federation.flower.server import FlowerExchange
from tacit.federation.flower.summed import FlowerMasked
from tacit.federation.node.node import open_node, prepare_ledger
from tacit.federation.node.steps import NodeMemory
from tacit.federation.settings import read_node_file
from tacit.ledger.policy import Rules
from tacit.methods.fedmd.models import ConsensusStore
from tacit.private.records import reveal
from tacit.runs.payment import by_account
from tacit.runs.run import load
from tacit.students.weighted import logistic
from tacit.students.wrapped import Refitted
from tests.federation.federation import federated, masking_nodes

COUNT, PUBLIC = 5, digits().public_samples
TERMS = RoundPolicy(expected=COUNT, at_least=4, deadline=10, grace=0.3, patience=0.3, records=1000)
ANYTHING = Rules(
    ("rknn", "privatekt", "pate", "fedmd", "class_sums", "noisy_sgd"),
    (
        "RandomizedLabels",
        "DiscreteLaplaceNoise",
        "DistributedLaplace",
        "Responses",
        "SubsetSelection",
        "RoundedGaussianNoise",
        "DistributedGaussian",
    ),
    (
        "reverse k-NN labels",
        "PrivateKT labels",
        "PATE votes",
        "FedMD predictions",
        "FedMD on reverse k-NN votes",
        "class sums",
        "noisy SGD",
    ),
    participants=2,
)


@pytest.fixture
def made():
    """Nodes that can take part in everything, and their identities."""
    there, peers = masking_nodes(COUNT, seed=None, ceiling=10**4, delta="1/2")
    return [
        dataclasses.replace(
            node, rules=ANYTHING, consensus=ConsensusStore(lambda: Refitted(logistic(), 10), PUBLIC, NodeMemory())
        )
        for node in there
    ], peers


def exchange_over(made, trust, journal=None):
    there, peers = made
    app = client_app(lambda context: there[context.node_config["partition-id"]])
    grid = InProcessGrid(app, contexts(COUNT, [node.name for node in there]))
    if trust == "masked":
        return FlowerMasked(grid, "r", TERMS, peers, journal)
    return FlowerExchange(grid, "r", TERMS, journal)


def asked(made, epsilon, folder=None, **more):
    journal = None if folder is None else Journal.open(folder, "a recipe")
    exchange = exchange_over(made, more.get("trust", "local"), journal)
    settings = {"classes": range(10), "nodes": COUNT, "surviving": "4/5", "request": "r"}
    return federated(exchange, PUBLIC, epsilon, **(settings | more)), exchange


ROUNDS = {"iterations": 2, "queries": [12, 10]}
KINDS = {
    "two rounds": (4, {**ROUNDS}),
    "two rounds, masked": (4, {**ROUNDS, "trust": "masked"}),
    "two rounds of unequal shares": (8, {**ROUNDS, "shares": [3, 1]}),
    "adaptive queries in the student's space": (8, {**ROUNDS, "selection": "entropy", "vote_space": "student"}),
    "a map of the student's space": (8, {**ROUNDS, "vote_space": "student map"}),
    "adaptive queries, masked": (8, {**ROUNDS, "selection": "margin", "vote_space": "student", "trust": "masked"}),
    "the same space": (8, {**ROUNDS, "selection": "clusters", "vote_space": "same"}),
    "soft labels": (4, {"labels": "soft", "queries": 12}),
    "soft labels, masked": (4, {"labels": "soft", "queries": 12, "trust": "masked"}),
    "proportions": (4, {"labels": "proportions", "queries": 12}),
    "proportions in two rounds, masked": (8, {"labels": "proportions", **ROUNDS, "trust": "masked"}),
    "balanced votes": (4, {"voting_rule": "balanced", "queries": 12}),
    "one query per class, masked": (4, {"one_query_per_class": True, "queries": 10, "trust": "masked"}),
    "labels over the graph": (8, {"propagation": "graph", "label_fraction": 0.8, "queries": 12}),
    "class sums": (8, {"method": "class_sums", "components": 8, "trust": "local"}),
    "class sums, masked": (8, {"method": "class_sums", "components": 8, "trust": "masked"}),
    "the default": (8, {"method": "auto", "delta": "1e-5", "data_kind": "embedding", "trust": "local"}),
    "the default, masked": (8, {"method": "auto", "delta": "1e-5", "data_kind": "table", "trust": "masked"}),
    "noisy sgd, masked": (8, {"method": "noisy_sgd", "components": 8, "steps": 2, "trust": "masked"}),
    "pate": (400, {"method": "pate", "queries": 40, "trust": "local"}),
    "pate, masked": (200, {"method": "pate", "queries": 40, "trust": "masked"}),
    "fedmd, votes": (8, {"method": "fedmd", "variant": "rknn", "rounds": 2, "vote_queries": 12}),
    "fedmd, responses": (300, {"method": "fedmd", "variant": "response", "rounds": 2, "queries": 40}),
    "privatekt": (
        80,
        {"method": "privatekt", "rounds": 4, "queries_per_round": 20, "participation": 1.0, "model": "logistic"},
    ),
}  # fmt: skip


def test_a_student_whose_view_cannot_travel_is_refused_before_anybody_pays(made):
    with pytest.raises(InvalidInput, match="cannot be cast in the feature space of a RandomForestClassifier"):
        asked(made, 4, **ROUNDS, student="forest")
    assert [node.ledger.balance(node.account).payments for node in made[0]] == [0] * COUNT
    run, _ = asked(made, 4, **ROUNDS, student="forest", vote_space="same")
    assert run.recipe["student"] == "RandomForestClassifier"


@pytest.mark.parametrize("kind", KINDS)
def test_a_federation_can(made, kind, tmp_path):
    epsilon, options = KINDS[kind]
    run, exchange = asked(made, epsilon, tmp_path / "journal", **options)
    assert run.labels.shape == (len(PUBLIC),)
    # One guarantee per node, each recomputed from what the node's own receipts say.
    names = sorted(node.name for node in made[0])
    assert sorted(run.guarantees) == names
    for account, receipts in by_account(run.receipts).items():
        claim = run.guarantees[account]
        spent = total([each.spend for each in receipts], claim.delta, Rule.PLANNED)
        assert spent.epsilon == claim.epsilon <= epsilon
        assert claim.epsilon > 0.99 * epsilon
    assert not run.guarantee.simulation
    assert str(run.guarantee.trust) == options.get("trust", "local")
    asked_for = (
        options.get("iterations", options.get("rounds", options.get("steps", 1)))
        if options.get("variant") != "rknn"
        else 1
    )
    assert [node.ledger.balance(node.account).payments for node in made[0]] == [asked_for] * COUNT
    # A coordinator that comes back learns the same, and nobody pays again.
    again, _ = asked(made, epsilon, tmp_path / "journal", **options)
    assert (again.labels == run.labels).all()
    assert sorted(map(str, again.receipts)) == sorted(map(str, run.receipts))
    assert [node.ledger.balance(node.account).payments for node in made[0]] == [asked_for] * COUNT
    run.save(tmp_path / "run")
    found = load(tmp_path / "run")
    assert (found.labels == run.labels).all()
    assert found.guarantees == run.guarantees
    assert (found.student.predict(PUBLIC) == run.student.predict(PUBLIC)).all()
    assert (found.recipe["nodes"], found.recipe["answered"]) == (COUNT, COUNT)
    assert len(exchange.rounds) == asked_for


PROPERTIES = ("even", "prime", "high", "loop")


def properties(digit):
    """Up to three of four properties at once."""
    digit = np.asarray(digit)
    table = [digit % 2 == 0, np.isin(digit, (2, 3, 5, 7)), digit > 4, np.isin(digit, (0, 6, 8, 9))]
    return np.stack(table, axis=1)


def with_sets(made):
    there, peers = made
    changed = [
        dataclasses.replace(
            node,
            classes=PROPERTIES,
            records=node.records.map(lambda own: dataclasses.replace(own, labels=properties(own.labels))),
        )
        for node in there
    ]
    return changed, peers


@pytest.mark.parametrize("trust", ["local", "masked"])
def test_a_federation_can_label_sets(made, trust, tmp_path):
    made = with_sets(made)
    run, _ = asked(made, 4, classes=PROPERTIES, max_labels=3, queries=12, trust=trust)
    truth = properties(digits().public_labels)
    assert run.labels.shape == truth.shape
    assert np.mean(run.labels == truth) > 0.75
    for account, receipts in by_account(run.receipts).items():
        assert total([each.spend for each in receipts], 0, Rule.PLANNED).epsilon == run.guarantees[account].epsilon == 4
    run.save(tmp_path / "run")
    assert (load(tmp_path / "run").labels == run.labels).all()


def test_a_node_whose_records_have_one_label_each_has_no_answer_about_sets(made):
    with pytest.raises(TooFewParticipants, match="refused"):
        asked(made, 4, max_labels=3, queries=12)


FILE = """\
name = "clinic"
data = "records.csv"
label = ["ill", "old"]
classes = ["old", "ill"]
policy = "policy.toml"
ledger = "clinic.ledger"
account = "clinic"
"""


def test_a_nodes_file_says_that_labels_are_sets(tmp_path):
    (tmp_path / "policy.toml").write_text(
        '[accounts.clinic]\nepsilon = 4\n[allow]\nmethods = ["rknn"]\nmechanisms = ["DiscreteLaplaceNoise"]\n'
        'purposes = ["reverse k-NN labels"]\nparticipants = 2\n'
    )
    (tmp_path / "records.csv").write_text("ill,dose,old,weight\n1,2.5,0,70\n0,1.5,0,60\n1,3.5,1,80\n")
    (tmp_path / "node.toml").write_text(FILE)
    file = read_node_file(tmp_path / "node.toml")
    prepare_ledger(file)
    node = open_node(file)
    own = reveal(node.records)
    assert own.labels.tolist() == [[False, True], [False, False], [True, True]]
    assert (node.features, own.samples[0].tolist()) == (("dose", "weight"), [2.5, 70.0])
    (tmp_path / "records.csv").write_text("ill,dose,old,weight\n1,2.5,0,70\n7,1.5,0,60\n")
    with pytest.raises(InvalidInput, match="row 3: a class's column must be 0 or 1"):
        open_node(file)
    (tmp_path / "records.csv").write_text("ill,dose,weight\n1,2.5,70\n")
    with pytest.raises(InvalidInput, match="no column 'old'"):
        open_node(file)
    (tmp_path / "node.toml").write_text(FILE.replace('["ill", "old"]', '["ill", "poor"]'))
    with pytest.raises(InvalidInput, match="which must be the classes"):
        read_node_file(tmp_path / "node.toml")
