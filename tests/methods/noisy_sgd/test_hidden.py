"""Two layers by Opacus: what is accounted is what is drawn, the missing randomness is said, and what is refused."""

import json
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

import tacit
from tacit.accounting.compose import total
from tacit.core.account import Rule
from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness
from tacit.core.sensitivity import Sensitivity
from tacit.methods.noisy_sgd.holder import TrainingHolder
from tacit.methods.noisy_sgd.torch_hidden import (
    CLIP,
    OPACUS_NOISE,
    HiddenTraining,
    hidden_student,
    pretrained_layer,
    seeded_generator,
)
from tacit.private.gate import Gate
from tacit.private.records import Private, Records

pytestmark = pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")

RANDOM = np.random.default_rng(8)
CENTERS = np.array([[0.0, 0, 0, 0], [3, 0, 3, 0], [0, 3, 0, 3]])
LABELS = np.arange(600) % 3
SAMPLES, PUBLIC = (CENTERS[LABELS] + RANDOM.normal(size=(600, 4)) for _ in range(2))
NAMES = np.array(["c", "a", "b"])
SMALL = HiddenTraining(4, 3, 8, Fraction(1, 2), 4, Fraction(2), 600)


def run(**options):
    given = {"delta": "1e-5", "adjacency": "add-remove", "records": 600, "epochs": 4, "width": 8, "model": "hidden"}
    return tacit.distill(
        (SAMPLES, NAMES[LABELS]), PUBLIC, 6, method="noisy_sgd", seed=1, **({"classes": NAMES} | given | options)
    )


@pytest.mark.parametrize("model", ["hidden", "finetuned"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"adjacency": "replace-one"}, "give adjacency add-remove and records"),
        ({"records": None}, "the approximate number of records"),
        ({"delta": 0}, "needs a delta"),
        ({"trust": "local"}, "trust must be"),
    ],
)
def test_wrong_use_is_named(options, words, model):
    with pytest.raises(InvalidInput, match=words):
        run(**options, model=model)


def test_where_opacus_is_missing_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "opacus", None)
    with pytest.raises(InvalidInput, match=r"tacit\[compare\]"):
        run()


def test_the_holder_refuses_other_accounts_and_other_mechanisms():
    ledger = tacit.open_ledger("memory:", {"clinic": tacit.Ceiling(8, "1e-5")})
    with pytest.raises(InvalidInput, match="under add-remove adjacency"):
        TrainingHolder([Private(Records(SAMPLES, LABELS))], Gate(ledger, "clinic"))
    assert SMALL.max_sensitivity == Sensitivity(l1=1)
    assert SMALL.spend.count == 4


def test_the_generator_is_not_that_of_a_seed_of_32_bits():
    torch = pytest.importorskip("torch", reason="needs tacit[torch]")

    @dataclass
    class Scripted:
        last: int

        def words(self, count):
            return np.array([*[1 << 32] * (count - 1), self.last << 32], dtype=np.uint64)

    made = [seeded_generator(Scripted(last)) for last in (1, 2, 2)]
    drawn = [torch.rand(700, generator=each, dtype=torch.float64) for each in made]
    # The last of 624 words counts, and nothing but the words does.
    assert not torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[1], drawn[2])


def test_the_order_of_the_classes_is_part_of_the_question(monkeypatch):
    monkeypatch.setattr("tacit.methods.noisy_sgd.method.require_opacus", lambda: None)
    asked = []
    monkeypatch.setattr("tacit.methods.noisy_sgd.method.TrainingCoordinator", lambda ask: asked.append(ask.question))
    for classes in (NAMES, NAMES[::-1], NAMES):
        with pytest.raises(AttributeError):  # nobody asks
            run(classes=classes)
    assert asked[0] == asked[2] != asked[1]


def test_the_student_is_the_network_whatever_order_the_classes_are_in():
    weights = RANDOM.normal(size=4 * 8 + 8 + 8 * 3 + 3).astype(np.float32)
    first, offset, second, last = np.split(weights, np.cumsum([32, 8, 24]))
    scores = np.tanh(SAMPLES @ first.reshape(8, 4).T + offset) @ second.reshape(3, 8).T + last
    assert hidden_student(weights, SMALL, NAMES).predict(SAMPLES).tolist() == NAMES[scores.argmax(axis=1)].tolist()


def test_it_learns_says_whose_noise_it_is_and_is_saved(tmp_path):
    pytest.importorskip("opacus", reason="needs tacit[compare]")
    made = run()
    assert (made.labels == NAMES[LABELS]).mean() > 0.85
    assert made.student.predict(PUBLIC).tolist() == made.labels.tolist()
    assert (NAMES[made.probabilities.argmax(axis=1)] == made.labels).all()
    assert OPACUS_NOISE in str(made.guarantee)
    assert len(made.receipts) == 1
    spent = total([made.receipts[0].spend], Fraction(1, 10**5), Rule.PLANNED).epsilon
    assert Fraction(9, 10) * 6 < spent == made.guarantee.epsilon <= 6
    again = tacit.load(made.save(tmp_path / "run"))
    assert again.student.predict(SAMPLES).tolist() == made.student.predict(SAMPLES).tolist()
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert OPACUS_NOISE in record["guarantee"]["statement"]


def test_the_trainer_gets_the_noise_that_is_accounted(monkeypatch):
    opacus = pytest.importorskip("opacus", reason="needs tacit[compare]")
    import opacus.optimizers as optimizers

    given = []
    plain = optimizers.DPOptimizer

    def noted(*arguments, **settings):
        given.append(settings)
        return plain(*arguments, **settings)

    monkeypatch.setattr(optimizers, "DPOptimizer", noted)
    assert opacus
    rows = SAMPLES.astype(np.float32)
    drawn = [SMALL.sample((rows[:count], LABELS[:count]), SeededRandomness(2)) for count in (600, 0)]
    assert [each.shape for each in drawn] == [(67,), (67,)]
    assert all(np.isfinite(each).all() for each in drawn), "a sample of nobody is noise like any other"
    assert {(each["noise_multiplier"], each["max_grad_norm"]) for each in given} == {(2.0, CLIP)}
    # How many records there are is private: what is divided by does not depend on it.
    assert {each["expected_batch_size"] for each in given} == {300}


def test_a_pretrained_layer_is_of_the_network_and_depends_on_public_samples_alone():
    layer = pretrained_layer(PUBLIC, 8, 6)
    assert layer == pretrained_layer(PUBLIC.copy(), 8, 6)
    assert replace(SMALL, pretrained=layer).spend == SMALL.spend
    with pytest.raises(InvalidInput, match="not of the network's size"):
        replace(SMALL, pretrained=layer[:-4])


def test_fine_tuning_starts_from_what_public_samples_taught_and_costs_the_same():
    pytest.importorskip("opacus", reason="needs tacit[compare]")
    plain, tuned = run(), run(model="finetuned")
    assert tuned.guarantee.epsilon == plain.guarantee.epsilon
    assert OPACUS_NOISE in str(tuned.guarantee)
    assert (tuned.labels == NAMES[LABELS]).mean() > 0.85
    # With hardly a step the first layer is the public one; the release is what moved from there.
    layer = pretrained_layer(PUBLIC, 8, 6)
    still = replace(SMALL, pretrained=layer, rate=Fraction(1, 10**9), steps=1, noise_multiplier=Fraction(1, 10**9))
    moved = still.sample((SAMPLES.astype(np.float32), LABELS), SeededRandomness(1))
    np.testing.assert_allclose(moved[: 8 * 5], np.frombuffer(layer, dtype="<f4"), atol=1e-5)
