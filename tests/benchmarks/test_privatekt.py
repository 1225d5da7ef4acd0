"""The bench of PrivateKT on a toy scale: rows come out, and what was measured is not measured again."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tacit.cli import main
from tacit.datasets.published import digits

pytest.importorskip("torch")

from experiments import privatekt, privatekt_data, privatekt_figures, privatekt_groups
from experiments.privatekt import TransferBench
from tacit.core.errors import InvalidInput
from tacit.methods.privatekt.options import Learning, Teaching

PARTS = digits()
SMALL = replace(
    privatekt_data.AUTHORS, holders=8, alpha=5.0, rounds=2, teaching=Teaching(pool=100),
    learning=Learning(steps=2, local_steps=2, pretext=5),
)  # fmt: skip
TOY = privatekt_data.Data(lambda folder, cache: PARTS, SMALL, 1, ("A toy.",))


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.setitem(privatekt_data.DATA, "toy", TOY)
    monkeypatch.setitem(privatekt_figures.PAPER, "toy", 0.01)
    return TransferBench.open("toy", tmp_path, tmp_path / "cache", 2, lambda text: None)


def test_the_main_table_is_made_and_remembered(bench, monkeypatch):
    table, chart = privatekt_figures.main(bench)
    assert [len(row.runs) for row in table.rows] == [2, 2]
    assert table.rows[0].runs[0]["epsilon"] <= 5
    assert table.rows[0].published == {"accuracy": "1.0"}
    assert "1.0 % was first seen after 2, 2 rounds" in table.markdown()
    assert list(chart.panels[0].curves) == ["ε = 5 per round", "federated averaging, no privacy, 2 rounds"]
    monkeypatch.setattr(privatekt, "distill", None)
    assert privatekt_figures.main(bench)[0].rows == table.rows


def test_the_other_figures_have_a_row_for_each_setting(bench, monkeypatch):
    bench = replace(bench, runs=1)
    assert len(privatekt_figures.ablation(bench)[0].rows) == 8
    assert len(privatekt_figures.curve(bench)[0].rows) == 5
    monkeypatch.setattr(privatekt_figures, "SCHEDULES", ((1, 1, 1 / 2), (1, 2, 1 / 2)))
    totals = privatekt_figures.totals(bench)[0]
    assert all(run["epsilon"] <= most for row, most in zip(totals.rows, (5, 10, 20), strict=True) for run in row.runs)
    tried = [note for note in totals.notes if "agreement with pretended labels" in note]
    # One answer at ε = 20 buys nothing that two at 10 do not.
    assert [note.count("answers") for note in tried] == [2, 2, 1]


def test_time_is_measured_over_holders_and_rounds(bench):
    table, chart = privatekt_figures.growth(replace(bench, rounds=1))
    assert chart is None
    assert {row.names["holders"] for row in table.rows} == {"20", "40", "80"}


def test_schedules_are_chosen_on_public_samples_alone():
    public = privatekt_figures.pretended(PARTS)
    seen = {row.tobytes() for row in PARTS.public_samples}
    for samples in (public.private_samples, public.public_samples, public.test_samples):
        assert {row.tobytes() for row in samples} <= seen
    assert set(np.unique(public.private_labels)) <= set(range(10))


def test_splits_are_disjoint_and_fixed():
    samples = np.arange(20, dtype=np.uint8)[:, None]
    first = privatekt_data.repartitioned("toy", (samples, samples[:, 0] % 2), (samples, samples[:, 0]), 5)
    second = privatekt_data.repartitioned("toy", (samples, samples[:, 0] % 2), (samples, samples[:, 0]), 5)
    assert np.array_equal(first.public_samples, second.public_samples)
    assert not set(first.public_samples[:, 0]) & set(first.private_samples[:, 0])
    assert first.public_samples.max() <= 1


def test_the_command_writes_what_it_measured(bench, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    arguments = ["bench", "privatekt", "--data", "toy", "--folder", str(tmp_path), "--runs", "1", "--rounds", "1"]
    arguments += ["--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    record = json.loads((tmp_path / "out" / "privatekt-toy-main.json").read_text())
    assert record["rows"][0]["runs"][0]["rounds"] == 1
    assert (tmp_path / "out" / "privatekt-toy-main.png").exists()
    for wrong, said in ((["--figure", "none"], "unknown figure"), (["--data", "none"], "unknown data set")):
        with pytest.raises(SystemExit) as ended:
            main([*arguments, *wrong])
        assert ended.value.code == 2
        assert said in capsys.readouterr().err


def test_unknown_data_is_named(tmp_path):
    with pytest.raises(InvalidInput, match="unknown data set 'faces'"):
        TransferBench.open("faces", tmp_path, tmp_path, 1, print)


def test_groups_are_measured_with_and_without_importance_beside_no_answers_and_true_labels(bench, monkeypatch):
    how = privatekt_groups.Grouped("pca", LogisticRegression(C=1e-3, max_iter=2000), knowledge="pixels")
    monkeypatch.setitem(privatekt_groups.GROUPED, "toy", how)
    table, chart = privatekt_groups.groups(bench)
    named = {row.names["what"]: row for row in table.rows}
    assert len(named) == len(table.rows) == 13
    for total in (5, 10, 20):
        asked = [row for what, row in named.items() if what.startswith(f"total ε = {total}:")]
        assert all(0 < run["epsilon"] <= total for row in asked for run in row.runs)
    assert named["ε = 0: the most frequent class of the test"].runs[0]["epsilon"] == 0
    true = named["true labels of all public samples, no privacy"].runs[0]
    assert true["accuracy"] > 0.9
    assert "epsilon" not in true
    gains = next(note for note in table.notes if "95 % interval" in note)
    assert gains.count("±") == 7
    assert list(chart.panels[0].curves) == ["groups", "groups, no importance sampling"]


def test_a_map_places_the_samples_that_it_was_made_from_only():
    rows = PARTS.public_samples[:150].astype(np.float32)
    made = privatekt_groups.Mapped.fit(rows, components=3)
    assert made.encode(rows).shape == (150, 3)
    with pytest.raises(KeyError):
        made.encode(rows[1:])
