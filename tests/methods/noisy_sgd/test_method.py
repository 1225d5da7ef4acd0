"""Noisy SGD through the one door: what it learns, what its noise is accounted as, and what it refuses."""

from fractions import Fraction

import numpy as np
import pytest

import tacit
from tacit.accounting.compose import total
from tacit.core.account import Rule
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Unit
from tacit.core.randomness import SeededRandomness
from tacit.core.spend import Gaussian, Pure
from tacit.mechanisms.central.rounded_gaussian import RoundedGaussianNoise
from tacit.methods.noisy_sgd.plan import grid_length
from tacit.methods.noisy_sgd.rehearsal import candidates, rehearsed
from tacit.methods.noisy_sgd.wire import GradientAsk
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.representations.scaled import Identity

RANDOM = np.random.default_rng(5)
CENTERS = np.array([[0.0, 0, 0, 0], [3, 0, 3, 0], [0, 3, 0, 3]])
LABELS = np.arange(600) % 3
SAMPLES = CENTERS[LABELS] + RANDOM.normal(size=(600, 4))
PUBLIC, TRUTH = CENTERS[LABELS] + RANDOM.normal(size=(600, 4)), LABELS


def run(epsilon=1, delta="1e-5", **options):
    given = {"classes": range(3), "seed": 1} | options
    return tacit.distill((SAMPLES, LABELS), PUBLIC, epsilon, delta=delta, method="noisy_sgd", **given)


def test_it_learns_and_the_labels_are_what_the_student_says():
    made = run(2)
    assert (made.labels == TRUTH).mean() > 0.9
    assert made.student.predict(PUBLIC).tolist() == made.labels.tolist()
    assert np.allclose(made.student.predict_proba(PUBLIC), made.probabilities)
    assert made.arrays["weights"].shape == (made.recipe["components"] + 1, 3)


def test_pure_differential_privacy_adds_up():
    made = run(8, 0, steps=4)
    assert [each.spend for each in made.receipts] == [Pure(2)] * 4
    assert (made.guarantee.epsilon, made.guarantee.delta) == (8, 0)


@pytest.mark.parametrize("own", [True, False])
def test_the_noise_is_what_is_accounted(own, monkeypatch):
    """One object: each step's mechanism is charged for, and all together come to the budget and hardly less."""
    used = []
    draw = RoundedGaussianNoise.sample

    def noted(self, value, randomness):
        used.append(self)
        return draw(self, value, randomness)

    monkeypatch.setattr(RoundedGaussianNoise, "sample", noted)
    paid = {} if own else {
        "ledger": tacit.open_ledger("memory:", {"clinic": tacit.Ceiling(1, "1e-5")}), "account": "clinic"
    }  # fmt: skip
    made = run(**paid)
    assert [each.spend for each in made.receipts] == [each.spend for each in used]
    assert len(used) == 8
    assert all(isinstance(each.spend, Gaussian) for each in used)
    rule = Rule.PLANNED if own else Rule.ADAPTIVE
    spent = total([each.spend for each in made.receipts], Fraction(1, 10**5), rule).epsilon
    assert Fraction(999, 1000) < spent <= 1
    # A record that is replaced by its opposite moves the table by two radii.
    assert {each.squared_shift for each in used} == {(2 * made.recipe["radius"]) ** 2}


def test_no_setting_depends_on_a_record(monkeypatch):
    """With all labels the same, and with other samples, the plan is the same."""
    other = tacit.distill(
        (SAMPLES[::-1] * 2, np.zeros(600, dtype=int)), PUBLIC, 1, delta="1e-5", method="noisy_sgd", classes=range(3),
        seed=1,
    )  # fmt: skip
    assert other.recipe == run().recipe


def test_records_are_encoded_once_and_only_after_the_first_payment(monkeypatch):
    from tacit.methods.noisy_sgd import holder

    events = []
    chunks, charge = holder.encoded_chunks, Gate.release

    def encoding(*given):
        events.append("encoded")
        return chunks(*given)

    def releasing(self, *given):
        events.append("asked")
        return charge(self, *given)

    monkeypatch.setattr(holder, "encoded_chunks", encoding)
    monkeypatch.setattr(Gate, "release", releasing)
    run(steps=3)
    assert events == ["asked", "encoded", "asked", "asked"]


def test_of_a_person_no_more_records_take_part_than_the_unit_has(monkeypatch):
    """The holder itself sees to it, whoever handed it the records; and the same ones take part in each step."""
    from tacit.methods.noisy_sgd import holder

    seen = []
    exact = holder.record_gradients

    def noted(ask, encoded):
        seen.append(np.concatenate([rows[:, 0] for rows, _ in encoded]).tolist())
        return exact(ask, encoded)

    monkeypatch.setattr(holder, "record_gradients", noted)
    unit = Unit.person("patient", 2)
    ledger = tacit.open_ledger("memory:", {"clinic": tacit.Ceiling(100, "1e-5", unit=unit)})
    own = Private(Records(np.arange(60.0).reshape(60, 1), np.zeros(60, dtype=np.int64), np.arange(60) // 6))
    answering = holder.GradientHolder([own], Gate(ledger, "clinic", SeededRandomness(1)))
    space, none = Identity(1), np.zeros((2, 2), dtype=np.int64)
    noise = RoundedGaussianNoise(1000, 4 * 4 * 10**2)
    for request in ("r-1", "r-2"):
        answering.answer(
            GradientAsk(space, 1.0, 8, 4, none, 10, "l2", ("a", "b"), "c0ffee", noise, "sgd", request)
        )  # fmt: skip
    assert len(seen[0]) == 20
    assert max(np.bincount(np.array(seen[0], dtype=int) // 6)) == 2
    assert seen[0] == seen[1]
    made = run(persons=np.arange(600) // 6, unit=unit, steps=1)
    assert "person" in str(made.guarantee)


def test_under_add_remove_the_number_of_records_must_be_said():
    with pytest.raises(InvalidInput, match="the approximate number of records"):
        run(adjacency="add-remove")
    made = run(adjacency="add-remove", records=600, steps=2)
    assert {each.spend for each in made.receipts} == {made.receipts[0].spend}


def test_more_noise_is_met_by_fewer_components():
    points = np.random.default_rng(6).normal(size=(200, 40)) / np.arange(4, 44)
    chosen = [
        rehearsed(points, 4, candidates(40, None, 4.0, 1.0, 1.0), 4, noise, 5000)[0].components for noise in (1e-4, 0.1)
    ]
    assert chosen[0] > chosen[1]


def test_settings_that_are_said_are_taken():
    made = run(components=3, rate=2.0, clip=0.5, damping=0.3, steps=2)
    assert {name: made.recipe[name] for name in ("components", "rate", "clip", "damping", "steps")} == {
        "components": 3, "rate": 2.0, "clip": 0.5, "damping": 0.3, "steps": 2,
    }  # fmt: skip


def test_the_grid_is_coarser_for_persons_with_many_records():
    lengths = [grid_length(Unit.person("patient", records), 2.0) for records in (1, 10, 100)]
    assert lengths == sorted(lengths, reverse=True)
    assert all(2 * records * 2 * 256 * each <= 2**20 for records, each in zip((1, 10, 100), lengths, strict=True))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"trust": "local"}, "no local mechanism"),
        ({"trust": "shuffle"}, "no shuffle mechanism"),
        ({"steps": 0}, "steps"),
        ({"clip": 3.0}, "clip"),
        ({"model": "deep"}, "model must be one of linear"),
        ({"delta": "1e-31"}, "delta"),
    ],
)
def test_wrong_use_is_named(options, words):
    with pytest.raises(InvalidInput, match=words):
        run(**options)


def test_public_samples_that_are_all_alike_are_refused():
    with pytest.raises(InvalidInput, match="all equal"):
        tacit.distill(
            (SAMPLES, LABELS), np.ones((50, 4)), 1, delta="1e-5", method="noisy_sgd", classes=range(3), seed=1
        )
