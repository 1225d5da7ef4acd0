"""What seeded runs came to before the pipelines were made one: the same labels and predictions, to the last one.

The figures were computed on the tree before the redesign (commit e7e1327). A change here is a change of what users
get from the same call with the same seed; it needs a reason, and never comes from moving code.
"""

import dataclasses
import hashlib

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

import tacit
from tacit.federation.node.steps import NodeMemory
from tacit.ledger.policy import Rules
from tacit.methods.fedmd.models import ConsensusStore, Schedule
from tacit.students.weighted import logistic
from tacit.students.wrapped import Refitted
from tests.federation.federation import nodes
from tests.local_exchange import local_exchange

pytestmark = pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")

PARTS = tacit.digits()
PRIVATE, PUBLIC = (PARTS.private_samples, PARTS.private_labels), PARTS.public_samples
TWO_RECORDS = tacit.Unit.person("person", 2)
PROPERTIES = [np.column_stack([labels % 2 == 0, labels >= 5]) for labels in (PARTS.private_labels, PARTS.test_labels)]


# How a run is called, and what is looked at: labels of the public samples, the student, and the ε of its statement.


def rknn(**options):
    run = tacit.distill(PRIVATE, PUBLIC, **({"epsilon": 1.0, "classes": range(10), "seed": 1} | options))
    return run.labels, run.student.predict(PARTS.test_samples), run.guarantee.epsilon


def multilabel(**options):
    private = PARTS.private_samples, PROPERTIES[0]
    run = tacit.distill(private, PUBLIC, 1.0, max_labels=2, classes=["even", "large"], seed=1, **options)
    return run.labels, run.student.predict(PARTS.test_samples), run.guarantee.epsilon


def privatekt(epsilon=None, **options):
    settings = {"rounds": 12, "model": logistic(), "holders": 20, "classes": range(10), "seed": 3}
    run = tacit.distill(PRIVATE, PUBLIC, epsilon, method="privatekt", **(settings | options))
    return run.student.predict(PUBLIC), run.student.predict(PARTS.test_samples), run.guarantee.epsilon


def fedmd(variant, epsilon, **more):
    parties = [(PARTS.private_samples[place:300:3], PARTS.private_labels[place:300:3]) for place in range(3)]
    method = tacit.FedMD(variant=variant, models=["logistic"], rounds=2, queries=100, schedule=Schedule(1, 1, 1))
    run = tacit.distill(parties, PUBLIC[:200], epsilon, method=method, classes=range(10), seed=1, **more)
    agreed = np.full((2, 200), -1)
    for turn in range(2):
        agreed[turn, run.arrays[f"rows {turn}"]] = run.arrays[f"targets {turn}"].argmax(axis=1)
    predictions = np.column_stack([model.predict(PARTS.test_samples) for model in run.holder_models.models])
    return agreed, predictions, run.guarantee.epsilon


RULES = Rules(
    ("privatekt", "pate", "fedmd", "rknn"),
    (
        "RandomizedLabels",
        "DiscreteLaplaceNoise",
        "Responses",
        "SubsetSelection",
        "GeneralizedRandomizedResponse",
        "UnaryEncoding",
    ),
    ("reverse k-NN labels", "PrivateKT labels", "PATE votes", "FedMD predictions"),
    participants=2,
)
# The student that runs over nodes had before they chose one as all others do.
LOGISTIC = tacit.ReverseKNN(student="logistic")


def federated(epsilon, method, holders="nodes", **more):
    there = [
        dataclasses.replace(each, consensus=ConsensusStore(lambda: Refitted(logistic(), 10), PUBLIC, NodeMemory()))
        for each in nodes(5, seed=5, rules=RULES, ceiling=1000)
    ]
    exchange = local_exchange(there)
    if isinstance(method, tacit.PrivateKT):
        exchange = lambda ask: [there[place].answer(ask) for place in ask.invited]  # noqa: E731
    run = tacit.distill(
        None, PUBLIC, epsilon, method=method, classes=range(10), request="r",
        exchange=tacit.Nodes(exchange, nodes=5, records=1000, holders=holders), **more,
    )  # fmt: skip
    # The figure of PATE is that of the samples that were asked about: once there were no labels of others.
    labels = run.arrays["query_labels"] if isinstance(method, tacit.PATE) else run.labels
    return labels, run.student.predict(PARTS.test_samples), run.guarantee.epsilon


RUNS = {
    "rknn, hard labels": rknn,
    "rknn, soft labels": lambda: rknn(labels="soft"),
    "rknn, proportions, two iterations": lambda: rknn(labels="proportions", iterations=2),
    "rknn, two iterations": lambda: rknn(iterations=2, epsilon=2),
    "rknn, local": lambda: rknn(trust="local", epsilon=8),
    "rknn, shuffle": lambda: rknn(trust="shuffle", delta="1e-6", epsilon=2),
    "rknn, Gaussian noise": lambda: rknn(mechanism="gaussian", delta="1e-6"),
    "rknn, labels over the graph": lambda: rknn(propagation="graph", label_fraction=0.8),
    "rknn, two neighbors, balanced": lambda: rknn(neighbors=2, voting_rule="balanced"),
    "rknn, persons": lambda: rknn(persons=np.arange(1000) // 4, unit=TWO_RECORDS, epsilon=4),
    "rknn, add/remove": lambda: rknn(adjacency="add-remove", queries=30),
    "multi-label": lambda: multilabel(thresholds="half"),
    "multi-label, local": lambda: multilabel(trust="local", thresholds="half"),
    "multi-label, thresholds by F1": multilabel,
    "multi-label, sums": lambda: multilabel(delta=1e-5),
    "PrivateKT": lambda: privatekt(round_epsilon=6, delta=0),
    "PrivateKT, a total": lambda: privatekt(20, participation=0.25),
    "FedMD, rknn": lambda: fedmd("rknn", epsilon=5),
    "FedMD, response": lambda: fedmd("response", epsilon=400),
    "FedMD, response with a delta": lambda: fedmd("response", epsilon=100, delta="1e-5"),
    "FedMD, ldp": lambda: fedmd("ldp", epsilon=400),
    "rknn over nodes": lambda: federated(1, LOGISTIC),
    "rknn over nodes, by record": lambda: federated(8, LOGISTIC, holders="records"),
    "rknn over nodes, median": lambda: federated(4, dataclasses.replace(LOGISTIC, robust="median")),
    "PATE over nodes": lambda: federated(200, tacit.PATE(queries=40), trust="local"),
    "PrivateKT over nodes": lambda: federated(
        80, tacit.PrivateKT(rounds=4, queries_per_round=20, participation=1, model="logistic"), delta=0
    ),
    "FedMD over nodes": lambda: federated(300, tacit.FedMD(variant="response", rounds=3, queries=40)),
}

# Digests of the labels and of the predictions, how many predictions are right, and ε.
FIGURES = {
    "rknn, hard labels": ("3db8aff2baa3", "723b419d3dc8", 282, 1.0),
    "rknn, soft labels": ("435a2e03491e", "7e73927252d8", 281, 1.0),
    "rknn, proportions, two iterations": ("16331ea83c15", "289f6c0411f0", 260, 1.0),
    "rknn, two iterations": ("faf4e244b22e", "515334b2a2be", 280, 2.0),
    "rknn, local": ("92088fba3da2", "8c81a9369fc3", 280, 8.0),
    "rknn, shuffle": ("4de8f8260011", "ee5d11f5af29", 284, 2.0),
    "rknn, Gaussian noise": ("c99d94db2aed", "39466da4f84c", 273, 1.0),
    "rknn, labels over the graph": ("e470eb89a5ba", "b390a76c0ce8", 278, 1.0),
    "rknn, two neighbors, balanced": ("f5ff8ee8e1e3", "dbbf9cd76208", 276, 1.0),
    "rknn, persons": ("c99d94db2aed", "39466da4f84c", 273, 4.0),
    "rknn, add/remove": ("88e283e82443", "63da7df98e03", 281, 1.0),
    "multi-label": ("5137712f4ac0", "1b6d740d91a4", 494, 1.0),
    "multi-label, local": ("b99f967df6c2", "1db0acc1b55b", 329, 1.0),
    "multi-label, thresholds by F1": ("5137712f4ac0", "07cfb53db962", 492, 1.0),
    "multi-label, sums": ("3bba6b3cdc83", "96835d4b6bc8", 494, 0.999998),
    "PrivateKT": ("dc9d991fc6a5", "d52b9f8188b7", 160, 36.0),
    "PrivateKT, a total": ("cc1a3b9f9497", "6677a358e76e", 143, 20.0),
    "FedMD, rknn": ("a6e338d81894", "1cc1b159abac", 752, 5.0),
    "FedMD, response": ("7c98d7a5af8a", "8dc6159ec5a3", 687, 400.0),
    "FedMD, response with a delta": ("b525f810c446", "b953d221dc6c", 723, 100.0),
    "FedMD, ldp": ("9ddb02b843a0", "e6907e6befdb", 607, 400.0),
    "rknn over nodes": ("8e17af9f8d62", "6150a9794031", 250, 1.0),
    "rknn over nodes, by record": ("c84772067745", "95f1a1d6124f", 272, 8.0),
    "rknn over nodes, median": ("b23014dff6f4", "5549ba28dfed", 275, 4.0),
    "PATE over nodes": ("61a295f5e3c1", "81d829e32255", 226, 200.0),
    "PrivateKT over nodes": ("7d2c1b370008", "c09f22bce9b1", 116, 80.0),
    "FedMD over nodes": ("2165599d8bb9", "08a2d1ac42c9", 234, 300.0),
}


def digest(labels):
    return hashlib.sha256(np.ascontiguousarray(labels, dtype=np.int64).tobytes()).hexdigest()[:12]


def right(predictions):
    if predictions.shape == PROPERTIES[1].shape and predictions.dtype == bool:
        return int((predictions == PROPERTIES[1]).sum())
    return int((PARTS.test_labels == predictions.T).sum())


@pytest.mark.parametrize("name", RUNS)
def test_a_seeded_run_comes_out_as_it_did(name):
    labels, predictions, epsilon = RUNS[name]()
    found = digest(labels), digest(predictions), right(predictions), round(float(epsilon), 6)
    assert found == FIGURES[name]
