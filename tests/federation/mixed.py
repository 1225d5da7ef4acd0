"""A mixed table of patients for tests: numbers, categories, dates, texts and missing cells, at a few nodes."""

import numpy as np

from tacit.core.account import Ceiling
from tacit.datasets.frame import Frame
from tacit.encoders.encoded import packed_table
from tacit.federation.node.node import Node
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.policy import Rules
from tacit.private.records import Private, Records

CLASSES = ("ill", "well")
SITES = ("north", "south", "west")
RULES = Rules(
    ("rknn", "class_sums", "noisy_sgd", "private_knn", "pate"),
    ("DiscreteLaplaceNoise", "RoundedGaussianNoise", "DistributedLaplace", "DiscreteGaussianNoise"),
    ("reverse k-NN labels", "class sums", "PATE votes"),
    participants=2,
)
WORDS = {0: "fever and a bad cough at night", 1: "a routine visit without any complaint"}


def patients(rows, seed, texts=True):
    """Rows of two classes that differ in every column; a tenth of the cells is missing."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, rows)
    missing = draw.random((rows, 4)) < 0.1
    age = np.where(missing[:, 0], np.nan, np.round(draw.normal(40 + 30 * (labels == 0), 8)))
    ward = np.where(draw.random(rows) < 0.9, np.where(labels == 0, "icu", "day clinic"), "other")
    days = np.datetime64("2024-01-01") + draw.integers(0, 40, rows) + 120 * labels
    noted = [
        f"{WORDS[label]}, seen by doctor {number}" for label, number in zip(labels.tolist(), range(rows), strict=True)
    ]
    columns = {
        "age": age,
        "ward": np.where(missing[:, 1], None, ward.astype(object)),
        "seen": np.where(missing[:, 2], None, days.astype(str).astype(object)),
    } | ({"note": np.where(missing[:, 3], None, np.array(noted, dtype=object))} if texts else {})
    return Frame(tuple(columns), tuple(columns.values())), labels


def rows_of(table, rows):
    """Some rows of a table."""
    return Frame(table.columns, tuple(table.column(name)[rows] for name in table.columns))


def mixed_nodes(table, labels, seed=5, ceiling=10**6, rules=RULES, encode=packed_table, **more):
    """Nodes with every third row each, raw, or as ``encode`` makes them numbers."""
    made = []
    for place, name in enumerate(SITES):
        own = Records(encode(rows_of(table, slice(place, None, len(SITES)))), labels[place :: len(SITES)])
        ledger = MemoryLedger({name: Ceiling(ceiling, "1/2")})
        made.append(Node(name, CLASSES, Private(own), rules, ledger, name, seed=seed, **more))
    return made
