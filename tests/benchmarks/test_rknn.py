"""The bench itself: what is measured is kept, tables say what was run, and the command writes them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from experiments import rknn, rknn_runs
from experiments.cost import growth
from experiments.measured import Memory
from experiments.recipes import RECIPES, Published, Recipe, Rounds
from experiments.rknn import FIGURES
from experiments.rknn_runs import Bench, Mapped, properties_of
from experiments.table import Result, Row, shown, write_result
from tacit.core.errors import InvalidInput
from tacit.datasets.published import digits, rows_of, split
from tacit.representations.scaled import Identity
from tacit.students.weighted import logistic

TOY = Recipe(
    parts=lambda folder: digits(),
    represent=lambda public, rounds: Identity.fit(public),
    student=lambda seed, checkpoint=None: logistic(),
    rounds={"ε = 1": (Rounds(1.0, (20,)), Published("90", "91"))},
    notes=("toy",),
)


@pytest.fixture
def bench(tmp_path):
    said = []
    made = Bench("digits", digits(), TOY, Memory(tmp_path / "cache"), 2, said.append)
    return replace(made, tell=said.append), said


def test_a_table_has_every_run_beside_the_papers_figures_and_the_same_without_noise(bench):
    result = FIGURES["table1"](bench[0])
    private, exact = result.rows
    assert len(private.runs) == 2
    assert private.published == {"labels": "91", "test": "90"}
    assert private.runs[0]["epsilon"] == 1
    assert np.mean(exact.values("labels")) >= np.mean(private.values("labels")) - 0.02
    text = result.markdown()
    assert "| ε = 1 | 20 |" in text
    assert "paper: test" in text
    assert "toy" in text


def test_a_stopped_bench_goes_on_where_it_was(bench, monkeypatch):
    first = FIGURES["table1"](bench[0])
    monkeypatch.setattr(rknn_runs, "distill", lambda *_, **__: pytest.fail("measured again"))
    assert FIGURES["table1"](bench[0]).to_json()["rows"] == first.to_json()["rows"]


def test_other_settings_are_another_measurement(tmp_path):
    memory = Memory(tmp_path)
    assert memory.recall({"a": 1}, lambda: {"x": 1})["x"] == 1
    assert memory.recall({"a": 2}, lambda: {"x": 2})["x"] == 2
    assert memory.recall({"a": 1}, lambda: pytest.fail("measured again"))["x"] == 1


def test_a_damaged_measurement_is_named(tmp_path):
    memory = Memory(tmp_path)
    memory.recall({"a": 1}, lambda: {"x": 1})
    file = next(tmp_path.glob("*.json"))
    file.write_text("{")
    with pytest.raises(InvalidInput, match=file.name):
        memory.recall({"a": 1}, lambda: {"x": 1})


def test_permute_and_flip_is_compared_with_laplace_noise_by_the_budget_it_saves():
    def row(epsilon, mechanism, labels):
        return Row({"ε": str(epsilon), "mechanism": mechanism}, [{"labels": labels}])

    rows = [row(0.1, "permute-and-flip", 0.5), row(0.2, "permute-and-flip", 0.7), row(0.4, "permute-and-flip", 0.9)]
    rows += [row(0.1, "laplace", 0.4), row(0.2, "laplace", 0.6), row(0.4, "laplace", 0.7)]
    # 0.7 is reached at .2 where Laplace noise needs .4; 0.6 at the geometric mean of .1 and .2.
    assert rknn._saved(rows).endswith("0.71 of ε = 0.2, 0.50 of ε = 0.4")


def test_results_are_written_whole_and_numbers_can_be_read_back(tmp_path):
    result = Result("toy", "A toy.", [Row({"a": "b"}, [{"labels": 0.5}, {"labels": 0.7}])], {"labels": 100.0})
    files = write_result(result, tmp_path / "results")
    assert [file.name for file in files] == ["toy.json", "toy.md"]
    assert json.loads(files[0].read_text())["rows"][0]["runs"][1]["labels"] == 0.7
    assert "60.0 ± 14.1" in files[1].read_text()
    assert not list((tmp_path / "results").glob("*.partial"))


def test_one_run_has_no_spread():
    assert shown([0.5]) == "50.0"


@pytest.mark.parametrize("figure", ["queries", "neighbors", "local", "shuffle", "iterations", "mechanisms"])
def test_every_figure_asks_for_what_can_be_run(bench, figure, monkeypatch):
    asked = []

    def measured(parts, rounds, seed, **settings):
        asked.append(rounds)
        return {"labels": 0.5 + seed / 10, "test": 0.5}

    for module in (rknn, rknn_runs):
        monkeypatch.setattr(module, "measure", measured)
    result = FIGURES[figure](bench[0])
    assert len(asked) == 2 * len(result.rows)
    assert result.name == f"rknn-digits-{figure}"
    assert result.markdown().count("\n| ") == len(result.rows) + 2


def test_a_line_that_is_the_recipe_itself_is_measured_once(bench, monkeypatch):
    numbers = iter(range(100))
    monkeypatch.setattr(rknn, "measure", lambda *_, **__: {"labels": next(numbers) / 100, "test": 0.5})
    own, lines = FIGURES["table1"](bench[0]).rows[0], FIGURES["iterations"](bench[0]).rows
    assert lines[0].values("labels") == own.values("labels")
    assert len({each for row in lines for each in row.values("labels")}) == 2 * len(lines)


def test_cost_counts_every_record_once(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.cost.RECORDS", (1000, 9000))
    monkeypatch.setattr("experiments.cost.QUERIES", (500,))
    result = growth(Memory(tmp_path), lambda _: None)
    assert [row.names["records"] for row in result.rows] == ["1,000", "9,000"]
    assert all(row.runs[0]["nanoseconds per record and query"] > 0 for row in result.rows)


def test_an_unknown_data_set_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="choose one of cifar10, mnist, mnist-femnist, svhn"):
        Bench.open("imagenet", tmp_path, tmp_path, 1, lambda _: None)


def test_every_recipe_names_budgets_that_can_be_split():
    for recipe in RECIPES.values():
        for rounds, _ in recipe.rounds.values():
            assert min(rounds.queries) >= 10
            assert rounds.shares is None or len(rounds.shares) == len(rounds.queries)


def test_splits_are_disjoint_and_whole():
    letters = split("toy", 50, {"private": 20, "public": 20, "test": 10})
    rows = [rows_of(letters, part) for part in ("private", "public", "test")]
    assert [len(each) for each in rows] == [20, 20, 10]
    assert sorted(np.concatenate(rows)) == list(range(50))


@pytest.mark.parametrize("sizes", [{"public": 3, "test": 8}, {"public": 10, "test": 0}, {"mine": 10}])
def test_impossible_splits_are_refused(sizes):
    with pytest.raises(InvalidInput):
        split("toy", 10, sizes)


def test_what_a_student_is_taught_is_compared_at_one_budget(bench):
    result = FIGURES["teaching"](replace(bench[0], runs=1))
    ways = {row.names["taught"]: row for row in result.rows if row.names["ε"] == "0.1"}
    assert len(ways) == 6
    assert all(0 <= row.runs[0]["test"] <= 1 for row in result.rows)
    assert ways["odds of 20 and 80 queries"].runs[0]["labels"] != ways["odds of noisy counts"].runs[0]["labels"]


def test_two_resolutions_multiply_their_odds(bench):
    """With so much budget that nothing is drowned, the product of coarse and fine odds is as right as the fine ones."""
    mapped = Mapped(bench[0])
    both = mapped.resolutions(Rounds(200.0, (20, 80)))(0)
    coarse = mapped(Rounds(100.0, (20,)), labels="soft")(0)
    assert both["labels"] > coarse["labels"]


def test_sets_of_labels_are_measured_as_whole_sets(bench):
    mapped = Mapped(bench[0])
    surely = mapped.properties(Rounds(1000.0, (100,)))(0)
    hardly = mapped.properties(Rounds(0.01, (100,)))(0)
    assert surely["labels"] > 0.85 > hardly["labels"]
    assert properties_of(np.arange(10)).sum(axis=1).max() == 3


def test_the_figure_of_sets_has_both_trusts(bench, monkeypatch):
    monkeypatch.setattr(Mapped, "properties", lambda self, rounds: lambda seed: {"labels": 0.5, "test": 0.5})
    result = FIGURES["multilabel"](bench[0])
    assert {row.names["trust"] for row in result.rows} == {"central", "local"}


def test_a_whole_run_is_timed_stage_by_stage_with_an_empty_and_a_full_cache(bench):
    result = FIGURES["stages"](replace(bench[0], reading=3.0))
    cold = {row.names["stage"]: row.runs[0]["seconds"] for row in result.rows if row.names["caches"] == "cold"}
    assert cold["reading and preparing"] == 3.0
    assert {"fitting the first space", "counting votes", "training the student"} <= set(cold)
    assert cold["all"] == pytest.approx(sum(each for name, each in cold.items() if name != "all"))
    assert "cold cache: reading and preparing 3 s" in "\n".join(bench[1])
    assert len(result.rows) == 2 * len(cold)


def test_a_table_can_be_made_of_what_has_been_measured_so_far(bench, monkeypatch):
    one = replace(bench[0], runs=1)
    private = replace(one, recipe=replace(TOY, rounds={"ε = 1": TOY.rounds["ε = 1"]}))
    calls = iter([{"labels": 0.9, "test": 0.8}])
    monkeypatch.setattr(rknn, "measure", lambda *_, **__: next(calls))
    with pytest.raises(StopIteration):
        FIGURES["table1"](private)
    result = FIGURES["table1"](replace(private, runs=3, kept_only=True)).measured()
    assert [row.names["budget"] for row in result.rows] == ["ε = 1"]
    assert len(result.rows[0].runs) == 1
    assert "Not measured yet: no noise (not private)" in result.markdown()


def test_nothing_measured_is_said(bench):
    with pytest.raises(InvalidInput, match="nothing was measured yet"):
        FIGURES["table1"](replace(bench[0], kept_only=True)).measured()
