"""The FedMD bench on a toy set: every table is made, kept, and not measured again."""

from dataclasses import replace

import numpy as np
import pytest

from tacit.bench.fedmd import (
    PAPER,
    guarantees,
    kinds,
    measure,
    noise,
    over_parties,
    partitions,
    privacy,
    subsets,
)
from tacit.core.errors import InvalidInput
from tacit.datasets.digits import digits
from tacit.experiment.fedmd_data import STAND_INS, StandIn

PARTS = digits()
TOY = StandIn(
    "toy digits",
    PARTS.private_samples[:200].reshape(-1, 8, 8),
    PARTS.private_labels[:200],
    np.arange(200) % 2,
    PARTS.public_samples[:60].reshape(-1, 8, 8),
    PARTS.public_labels[:60],
    (PARTS.test_samples[:50].reshape(-1, 8, 8), PARTS.test_labels[:50]),
    tuple(range(10)),
)
QUICK = replace(PAPER, parties=2, rounds=1, queries=40, own=1, subset=30, models=("perceptron",))


def test_a_measurement_is_kept(tmp_path):
    told = []
    first = measure(TOY, QUICK, 1, tmp_path, lambda what, number: told.append((what, number)))
    assert [number for _, number in told] == [0, 1]
    assert first["curve"][-1] == pytest.approx(first["after"], abs=1e-6)
    assert "NOT DIFFERENTIAL PRIVACY" in first["claim"]
    assert measure(TOY, QUICK, 1, tmp_path, lambda *_: pytest.fail("measured again")) == first
    assert measure(TOY, QUICK, 2, tmp_path) != first


def test_every_table(tmp_path):
    options = {"setting": QUICK, "runs": 1, "cache": tmp_path}
    made = [
        subsets(TOY, (18, 30), **options),
        kinds(TOY, (2,), **options),
        partitions(TOY, **options),
        over_parties(TOY, (1, 2), **options),
        guarantees(TOY, ("2",), queries=10, asked=1, **options),
        privacy(),
        noise(),
    ]
    assert [len(each.rows) for each in made] == [4, 3, 4, 2, 5, 8, 9]
    for each in made:
        assert each.name.startswith("fedmd-")
        assert each.markdown().count("\n") > len(each.rows)
        assert each.to_json()["rows"]
    assert "NO PRIVACY" in made[0].markdown()
    assert "80.64" in made[0].markdown()
    assert "NOT differential privacy" in made[5].markdown()
    assert any("epsilon = 2, delta = 0 (pure)" in note for note in made[4].notes)


@pytest.mark.parametrize("name", STAND_INS)
def test_a_missing_set_is_named(tmp_path, monkeypatch, name):
    monkeypatch.setattr("tacit.experiment.fedmd_data.DEBIAN", tmp_path / "none")
    with pytest.raises(InvalidInput, match=r"no such file|no file|is at none of"):
        STAND_INS[name](tmp_path)
