"""Sums around public odds: noise cannot take away what is known, records correct what is known wrongly; its tables."""

import numpy as np
import pytest

import house_numbers
import network_names
import tacit
from experiments import named_groups
from experiments.measured import Memory
from experiments.public_odds import Known, corrected, correction, right
from experiments.seeded import Seeded
from tacit.methods.class_sums.coordinator import Moments

CENTERS = np.eye(4)[:, :3] * 3


def drawn(count, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, count)
    return (CENTERS[labels] + rng.normal(size=(count, 3))).astype(np.float32), labels


def known(sharpness=3.0, wrong=False, persons=None):
    private, public, test = drawn(4000, 1), drawn(1500, 2), drawn(2000, 3)

    def said(samples):
        distances = ((samples[:, None] - CENTERS) ** 2).sum(axis=2)
        odds = np.exp(-distances * sharpness / 6)
        return (odds[:, [1, 0, 2, 3]] if wrong else odds) / odds.sum(axis=1, keepdims=True)

    return Known(*private, *public, *test, said(public[0]), said(test[0]), persons)


def test_with_much_noise_what_was_known_remains():
    given = known()
    before = right(given.test_chances, given.truth)
    released = given.sums(0.001, 0)
    assert given.judged(released.around())["test"] > before - 0.02
    assert given.judged(released.alone())["test"] < before - 0.1


def test_with_little_noise_records_correct_wrong_knowledge():
    given = known(sharpness=0.3, wrong=True)
    before = right(given.test_chances, given.truth)
    released = given.sums(8.0, 0)
    assert before < 0.6
    assert given.judged(released.around())["test"] > before + 0.1


def test_the_release_is_that_of_the_run_and_its_price_is_what_was_asked():
    given = known()
    released = given.sums(1.0, 4)
    assert released.run.guarantee.epsilon <= 1
    assert released.block.public.shape == (1500, released.run.recipe["components"])
    np.testing.assert_array_equal(released.alone()[1], given.sums(1.0, 4).alone()[1])


def test_a_photograph_is_protected_with_all_its_digits():
    given = known(persons=np.arange(4000) // 2)
    two, one = (given.sums(1.0, 0, tacit.Unit.person("photograph", most)) for most in (2, 1))
    assert two.run.guarantee.unit.column == "photograph"
    assert two.run.guarantee.unit.records == 2
    assert two.block.size == pytest.approx(4000, rel=0.2)
    assert one.block.size == 2000


def test_what_the_sums_agree_with_is_hardly_changed():
    given = known()
    public = given.public.astype(float)
    means = given.chances.T @ public / len(public)
    factors = correction(Moments(means, given.chances.mean(axis=0), np.full(means.shape, 1e-5)), public, given.chances)
    np.testing.assert_allclose(corrected(given.chances, factors, public), given.chances, atol=0.02)


@pytest.fixture
def seeded(tmp_path):
    return Seeded(Memory(tmp_path), 2, lambda _: None)


def test_names_settle_what_few_noisy_answers_leave_open():
    given = known()
    found = named_groups.voted(given, 0.05, 0)
    assert found["both"]["test"] > 0.8
    assert found["both"]["test"] >= found["answers"]["test"]


def test_answers_alone_name_the_groups_when_noise_is_small():
    found = named_groups.voted(known(), 8.0, 0)
    assert found["answers"]["test"] > 0.8


def test_every_line_has_its_runs_and_the_lines_without_records_come_first(seeded, monkeypatch):
    monkeypatch.setattr(network_names, "EPSILONS", (1.0,))
    ways = ("alone", "around", "alone, mixed", "both, mixed")
    monkeypatch.setattr(network_names, "summed", lambda *_: {way: {"labels": 0.5, "test": 0.6} for way in ways})
    rows = list(network_names.central_lines(known(), seeded, {}))
    assert [row.names["ε"] for row in rows] == ["0", "0", *4 * ["1"], *4 * ["no noise"]]
    assert [len(row.runs) for row in rows] == [1, 1, *4 * [2], *4 * [1]]


def test_the_reader_alone_the_sums_and_no_privacy_are_lines_of_one_table(seeded, monkeypatch):
    monkeypatch.setattr(house_numbers, "EPSILONS", (1.0,))
    share = {"labels": 0.5, "test": 0.6}
    monkeypatch.setattr(house_numbers, "summed", lambda *_: {"alone": share, "both": share})
    monkeypatch.setattr(house_numbers, "voted", lambda *_: share)
    monkeypatch.setattr(house_numbers, "taught", lambda *_: {"test": 0.7})
    rows = list(house_numbers.reader_lines(known(), seeded))
    assert [row.names["ε"] for row in rows] == ["0", *3 * ["1"], *3 * ["no noise"], *2 * ["no privacy"]]


def test_a_photograph_is_asked_for_at_every_bound(seeded, monkeypatch, tmp_path):
    monkeypatch.setattr(house_numbers, "RESULTS", tmp_path)
    asked = []

    def summed(_, epsilon, seed, unit=None):
        asked.append(None if unit is None else unit.records)
        return {"alone": {"labels": 0.5, "test": 0.6}, "both": {"labels": 0.5, "test": 0.6}}

    monkeypatch.setattr(house_numbers, "summed", summed)
    given = known(persons=np.arange(4000) // 2)
    house_numbers.write_photographs(list(house_numbers.photograph_lines(given, seeded)), given)
    assert set(asked) == {None, *house_numbers.BOUNDS}
    text = (tmp_path / "house-numbers-photographs.md").read_text()
    assert "| a photograph | 1 | 2,000 |" in text
    assert (tmp_path / "house-numbers-photographs.png").exists()
