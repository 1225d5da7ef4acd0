"""The FedMD bench on a toy set: every table is made, kept, and not measured again."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.fedmd import PAPER, FedBench
from experiments.fedmd_data import STAND_INS, StandIn
from experiments.fedmd_figures import FIGURES
from experiments.fedmd_theory import COMPUTED
from experiments.measured import Memory
from tacit.core.errors import InvalidInput
from tacit.datasets.published import digits

PARTS = digits()
TOY = StandIn(
    "toy digits",
    PARTS.private_samples[:200].reshape(-1, 8, 8),
    PARTS.private_labels[:200],
    np.arange(200) % 2,
    PARTS.public_samples[:60].reshape(-1, 8, 8),
    PARTS.public_labels[:60] + 20,
    (PARTS.test_samples[:50].reshape(-1, 8, 8), PARTS.test_labels[:50]),
    tuple(range(10)),
)
QUICK = replace(PAPER, parties=2, rounds=1, queries=40, own=1, subset=30, models=("perceptron",))


def bench(folder, tell=lambda text: None):
    return FedBench("toy", TOY, Memory(folder), 1, tell, QUICK)


def test_a_measurement_is_kept(tmp_path):
    first = bench(tmp_path).measure(QUICK, 1)
    assert len(first["curve"]) == 2
    assert first["curve"][-1] == pytest.approx(first["after"], abs=1e-6)
    assert "NOT DIFFERENTIAL PRIVACY" in first["claim"]
    again = bench(tmp_path)
    assert again.measure(QUICK, 1) == first
    assert not again._pretrained
    assert again.measure(QUICK, 2)["parties"] != first["parties"]


def test_pretraining_is_shared_and_changes_nothing(tmp_path):
    shared, alone = bench(tmp_path / "shared"), bench(tmp_path / "alone")
    shared.measure(QUICK, 1)
    other = replace(QUICK, kind="softmax")
    assert shared.measure(other, 1)["curve"] == alone.measure(other, 1)["curve"]


def test_every_measured_figure(tmp_path):
    # Sums need the features of a pretrained network: test_fedmd_sums.py has them on a toy scale.
    made = {name: figure(bench(tmp_path)) for name, figure in FIGURES.items() if name != "sums"}
    lines = {"subsets": 4, "kinds": 3, "partitions": 4, "parties": 2, "convergence": 3, "schedule": 2, "guarantees": 9}
    assert {name: len(result.rows) for name, (result, _) in made.items()} == lines
    for name, (result, chart) in made.items():
        assert result.name == f"fedmd-toy-{name}"
        assert "toy digits" in result.caption
        assert result.markdown().count("\n") > len(result.rows)
        assert (chart is not None) == (name in ("subsets", "parties", "convergence", "schedule"))
    assert "NO PRIVACY" in made["subsets"][0].markdown()
    assert "80.64" in made["subsets"][0].markdown()
    assert any("epsilon = 10, delta = 0 (pure)" in note for note in made["guarantees"][0].notes)


def test_every_computed_figure():
    made = {name: figure() for name, figure in COMPUTED.items()}
    assert [len(result.rows) for result, _ in made.values()] == [8, 9]
    assert "NOT differential privacy" in made["privacy"][0].markdown()
    over_sizes, epsilons, over_parties = made["privacy"][1].panels
    # k of n without replacement; and fewer records per party expose each of them more.
    assert over_sizes.curves["without replacement"][49] == 0.5
    assert max(epsilons.curves["with replacement"]) < 1
    assert all(np.diff(curve).min() > 0 for curve in over_parties.curves.values())


def test_an_unknown_set_is_named(tmp_path):
    with pytest.raises(InvalidInput, match="unknown data set 'letters'"):
        FedBench.open("letters", tmp_path, tmp_path, 1, print)


@pytest.mark.parametrize("name", STAND_INS)
def test_a_missing_set_is_named(tmp_path, monkeypatch, name):
    monkeypatch.setattr("experiments.fedmd_data.DEBIAN", tmp_path / "none")
    with pytest.raises(InvalidInput, match=r"no such file|no file|is at none of"):
        STAND_INS[name](tmp_path)
