"""The bench of PrivateKT on a toy scale: rows come out, and what was measured is not measured again."""

from dataclasses import replace

import numpy as np
import pytest

from tacit.datasets.digits import digits

pytest.importorskip("torch")

from tacit.bench import privatekt
from tacit.methods.privatekt.coordinator import Teaching
from tacit.methods.privatekt.models import Learning

PARTS = digits()
SMALL = replace(
    privatekt.AUTHORS, holders=8, alpha=5.0, teaching=Teaching(pool=100), learning=Learning(steps=2, local_steps=2)
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(privatekt, "AUTHORS", SMALL)


def test_tables_come_out_and_are_remembered(tmp_path, monkeypatch):
    table = privatekt.curve(PARTS, "digits", tmp_path, rounds=2, runs=2, epsilons=("5",))
    assert [len(row.runs) for row in table.rows] == [2, 2]
    assert table.rows[0].runs[0]["epsilon"] <= 5
    assert "PrivateKT on digits" in table.markdown()
    monkeypatch.setattr(privatekt, "transfer", None)
    assert privatekt.curve(PARTS, "digits", tmp_path, rounds=2, runs=2, epsilons=("5",)).rows == table.rows


def test_ablation_and_totals_have_a_row_for_each_setting(tmp_path):
    turns = []
    ablation = privatekt.ablation(PARTS, "digits", tmp_path, 1, 1, lambda what, turn: turns.append(turn))
    assert len(ablation.rows) == len(turns) == 8
    totals = privatekt.totals(PARTS, "digits", tmp_path, rounds=3, runs=1, epsilons=("10",))
    assert len(totals.rows) == 5
    assert all(run["epsilon"] <= 10 for row in totals.rows for run in row.runs)


def test_time_is_measured_over_holders_and_rounds():
    assert [row["holders"] for row in privatekt.growth(PARTS, holders=(2, 4), rounds=(1,))] == [2, 4]


def test_splits_are_disjoint_and_fixed():
    samples = np.arange(20, dtype=np.uint8)[:, None]
    first = privatekt.repartitioned("toy", (samples, samples[:, 0] % 2), (samples, samples[:, 0]), 5)
    second = privatekt.repartitioned("toy", (samples, samples[:, 0] % 2), (samples, samples[:, 0]), 5)
    assert np.array_equal(first.public_samples, second.public_samples)
    assert not set(first.public_samples[:, 0]) & set(first.private_samples[:, 0])
    assert first.public_samples.max() <= 1
