"""Class sums over parties as the consensus that each may combine with its own head, on a toy scale."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from experiments import fedmd_sums
from experiments.fedmd import FedBench
from experiments.fedmd_data import StandIn
from experiments.measured import Memory
from tacit.datasets.published import digits

PARTS = digits()
TOY = StandIn(
    "toy", PARTS.private_samples / 16, PARTS.private_labels, None, PARTS.public_samples / 16, None,
    (PARTS.test_samples / 16, PARTS.test_labels), tuple(range(10)),
)  # fmt: skip


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.setattr(fedmd_sums, "_encoded", lambda bench: bench.data)
    monkeypatch.setattr(fedmd_sums, "SIZES", (40, 100))
    monkeypatch.setattr(fedmd_sums, "PAPER", {40: "1.0", 100: "2.0"})
    return FedBench("toy", TOY, Memory(tmp_path), 1, lambda text: None)


def test_the_table_has_own_heads_the_consensus_and_both(bench):
    table, chart = fedmd_sums.sums(bench)
    few, many, clear, pooled = (row.runs[0] for row in table.rows)
    assert few["own"] < many["own"] < pooled["after"]
    # Without noise a hundred records of each of ten parties teach every party more than its own.
    assert clear["after"] > many["own"]
    assert "1e-05" in many["claim"] or "1e-5" in many["claim"]
    assert chart.panels[0].places == [40, 100]


def test_every_class_is_drawn_as_often_as_it_can_be():
    labels = np.array([0] * 50 + [1] * 5 + [2] * 20)
    drawn = labels[fedmd_sums._drawn(labels, 30, seed=1)]
    assert np.bincount(drawn)[1] == 5
    assert abs(int(np.bincount(drawn)[0]) - int(np.bincount(drawn)[2])) <= 1


def test_no_record_is_judged_by_a_head_that_saw_it():
    class Recalling:
        """Knows exactly the records that it saw."""

        def get_params(self, deep=True):
            return {}

        def fit(self, X, y):
            self.seen, self.classes_ = {row.tobytes() for row in X}, np.unique(y)
            return self

        def predict_proba(self, X):
            assert not any(row.tobytes() in self.seen for row in X)
            return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))

    rows = np.arange(12.0)[:, None]
    found = fedmd_sums._out_of_fold(Recalling(), rows, np.arange(12) % 2, np.array([0, 1]))
    assert np.allclose(found, np.log(0.5))


def test_parties_share_no_image_of_a_subclass(monkeypatch):
    fine = np.repeat(np.arange(30), 100)

    class Part:
        images = np.zeros((3000, 1, 1, 3), dtype=np.uint8)
        coarse = fine // 5

    Part.fine = fine
    from experiments import fedmd_data

    monkeypatch.setattr(fedmd_data, "read_cifar100", lambda folder, part: Part)
    monkeypatch.setattr(fedmd_data, "read_cifar10", lambda file: (np.zeros((4, 1, 1, 3), np.uint8), np.arange(4)))
    Part.images = np.arange(3000, dtype=np.int64).reshape(-1, 1, 1, 1)
    made = fedmd_data.cifar100_superclasses("here", records=60)
    assert np.bincount(made.owners).tolist() == [60] * 10
    assert len(np.unique(made.samples)) == 600
    first = made.samples[made.owners == 0].ravel()
    assert set(first // 100 % 5) == {0}
    assert replace(made, owners=None).classes == tuple(range(6))
