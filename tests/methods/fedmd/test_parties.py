"""What parties do and what leaves them: digest and revisit, subsets that stay, and refusals before anything is paid."""

from dataclasses import replace

import numpy as np
import pytest

from tacit.core.account import Ceiling
from tacit.core.errors import BudgetExceeded, InvalidInput, RequestConflict, ToleranceExceeded
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.randomness import SeededRandomness, SystemRandomness
from tacit.core.release import gather
from tacit.core.spend import Stability
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.sqlite import SqliteLedger
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.sampling import StratifiedSample, SubsetSample
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse, Responses
from tacit.methods.fedmd.coordinator import ConsensusVoteCoordinator, PredictCoordinator, RoundState
from tacit.methods.fedmd.exposure import Exposure
from tacit.methods.fedmd.holder import RandomizedParty, SubsetParty, VotingParty
from tacit.methods.fedmd.models import Schedule, Study
from tacit.methods.fedmd.plan import prediction_noise
from tacit.methods.fedmd.wire import Feedback, PredictAsk, PredictionForm, array_digest
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.representations.scaled import Identity

PUBLIC = np.arange(40, dtype=np.float64).reshape(20, 2)
RECORDS = Records(np.arange(60, dtype=np.float64).reshape(30, 2), np.arange(30) % 3)
FORM = PredictionForm("argmax", 3)


class Diary:
    """A model that only writes down what it is told."""

    gives_scores = True

    def __init__(self):
        self.pages = []

    def learn(self, samples, labels, epochs):
        self.pages.append(("learn", samples.copy(), labels.copy(), epochs))

    def fit_consensus(self, samples, targets, logits, epochs):
        self.pages.append(("digest", samples.copy(), targets.copy(), logits, epochs))

    def predict(self, samples):
        return np.full(len(samples), 1)

    def logits(self, samples):
        return np.tile([0.0, 1.0, 0.0], (len(samples), 1)).astype(np.float32)

    @property
    def acts(self):
        return [(page[0], page[-1]) for page in self.pages]


def asking(number=0, feedback=None, mechanism=None, form=FORM, rows=(1, 3)):
    return PredictAsk(
        number, np.array(rows), form, mechanism, array_digest(PUBLIC), feedback, "predictions", f"run round {number}"
    )


def consensus(number, rows=(1, 3)):
    return Feedback(number, np.array(rows), np.eye(3, dtype=np.float32)[: len(rows)])


def study(model):
    return Study(model, PUBLIC, Schedule(own=5, digest=2, revisit=1))


def stable(delta):
    return Ceiling("1e-6", delta)


def subset_gate(sample, ledger=None, randomness=None):
    ledger = ledger or MemoryLedger({"party": stable(sample.spend.delta)})
    return Gate(ledger, "party", randomness or SeededRandomness(1))


def test_a_round_is_digest_then_revisit():
    model = Diary()
    sample = SubsetSample(4, 30, replacement=False)
    party = SubsetParty(Private(RECORDS), sample, subset_gate(sample), study(model))
    assert model.acts == []
    party.answer(asking())
    assert model.acts == [("learn", 5)]
    party.answer(asking(1, consensus(0)))
    assert model.acts == [("learn", 5), ("digest", 2), ("learn", 1)]
    _, shown, targets, logits, _ = model.pages[1]
    assert shown.tolist() == PUBLIC[[1, 3]].tolist()
    assert (targets.tolist(), logits) == (np.eye(3)[:2].tolist(), False)
    # It revisits the very records that it began with.
    assert model.pages[2][1].tolist() == model.pages[0][1].tolist()
    party.learn(consensus(1))
    assert model.acts[3:] == [("digest", 2), ("learn", 1)]


def test_a_question_that_comes_again_teaches_nothing_twice():
    model = Diary()
    sample = SubsetSample(4, 30, replacement=True)
    party = SubsetParty(Private(RECORDS), sample, subset_gate(sample), study(model))
    for _ in range(3):
        party.answer(asking(1, consensus(0)))
        party.learn(consensus(0))
    assert model.acts == [("learn", 5), ("digest", 2), ("learn", 1)]


@pytest.mark.parametrize("replacement", [False, True])
def test_all_answers_follow_from_one_payment(replacement):
    sample = SubsetSample(4, 30, replacement)
    party = SubsetParty(Private(RECORDS), sample, subset_gate(sample), study(Diary()))
    first, second = party.answer(asking()), party.answer(asking(1, consensus(0)))
    assert first.receipts == second.receipts
    assert [receipt.spend for receipt in gather([first, second]).receipts] == [Stability(sample.delta)]
    assert first.value.tolist() == [1, 1]


def test_a_restarted_party_keeps_its_subset_and_pays_nothing(tmp_path):
    sample, file = SubsetSample(4, 30, replacement=True), tmp_path / "party.ledger"
    drawn = []
    for start in range(4):
        model = Diary()
        opened = SqliteLedger(file) if start else SqliteLedger.create(file, {"party": stable(sample.delta)})
        with opened as ledger:
            gate = subset_gate(sample, ledger, SystemRandomness())
            party = SubsetParty(Private(RECORDS), sample, gate, study(model))
            party.answer(replace(asking(), request=f"run {start} round 0"))
            assert ledger.balance("party").payments == 1
        drawn.append((model.pages[0][1].tolist(), model.pages[0][2].tolist()))
    # Drawn afresh, four equal subsets would have a chance below 30⁻¹².
    assert drawn[0] == drawn[1] == drawn[2] == drawn[3]


def test_a_party_never_draws_a_second_subset(tmp_path):
    file, sample = tmp_path / "party.ledger", SubsetSample(4, 30, replacement=True)
    with SqliteLedger.create(file, {"party": Ceiling(1, "0.9")}) as ledger:
        SubsetParty(Private(RECORDS), sample, subset_gate(sample, ledger, SystemRandomness()), study(Diary()))
        other = SubsetSample(5, 30, replacement=True)
        with pytest.raises(RequestConflict):
            SubsetParty(Private(RECORDS), other, subset_gate(other, ledger, SystemRandomness()), study(Diary()))
        # A seeded draw may not stand for the one that was paid for, either.
        with pytest.raises(RequestConflict):
            SubsetParty(Private(RECORDS), sample, subset_gate(sample, ledger, SeededRandomness(1)), study(Diary()))
        assert ledger.balance("party").payments == 1


def test_a_subset_must_fit_the_account_and_the_records():
    sample = SubsetSample(4, 30, replacement=False)
    with pytest.raises(BudgetExceeded):
        SubsetParty(
            Private(RECORDS), sample, subset_gate(sample, MemoryLedger({"party": stable("0.1")})), study(Diary())
        )
    wrong = SubsetSample(4, 31, replacement=False)
    ledger = MemoryLedger({"party": stable("0.5")})
    with pytest.raises(InvalidInput, match="made for a different number of records"):
        SubsetParty(Private(RECORDS), wrong, subset_gate(wrong, ledger), study(Diary()))
    assert ledger.balance("party").payments == 0
    for ceiling in (
        Ceiling(1, "0.5", unit=Unit.person("patient", 2)),
        Ceiling(1, "0.5", adjacency=Adjacency.ADD_REMOVE),
    ):
        with pytest.raises(InvalidInput, match="protects one record under replace-one"):
            SubsetParty(Private(RECORDS), sample, subset_gate(sample, MemoryLedger({"party": ceiling})), study(Diary()))


def test_a_subset_of_every_class_that_the_party_has():
    own = RECORDS.take(np.flatnonzero(RECORDS.labels != 1))
    sample = StratifiedSample((SubsetSample(2, 10, False), SubsetSample(3, 10, False)))
    model = Diary()
    party = SubsetParty(Private(own), sample, subset_gate(sample), study(model))
    assert party.answer(asking()).receipts[0].spend == Stability("3/10")
    labels = model.pages[0][2]
    assert np.bincount(labels).tolist() == [2, 0, 3]
    # Each drawn record still has its own label.
    assert (labels == (model.pages[0][1][:, 0] // 2) % 3).all()


def test_noise_is_paid_in_every_round_and_no_round_is_paid_twice():
    mechanism = prediction_noise(FORM, queries=2, rounds=3, epsilon=3)
    ledger = MemoryLedger({"party": Ceiling(3)})
    party = RandomizedParty(Private(RECORDS), Gate(ledger, "party", SeededRandomness(1)), study(Diary()))
    for number in range(3):
        ask = asking(number, mechanism=mechanism)
        assert party.answer(ask).value.tolist() == party.answer(ask).value.tolist()
    assert ledger.balance("party").remaining == 0
    with pytest.raises(BudgetExceeded):
        party.answer(asking(3, mechanism=mechanism))


def test_noise_for_less_is_refused_before_it_is_paid():
    ledger = MemoryLedger({"party": Ceiling(100)})
    party = RandomizedParty(Private(RECORDS), Gate(ledger, "party", SeededRandomness(1)), study(Diary()))
    honest = prediction_noise(FORM, queries=2, rounds=1, epsilon=1)
    # A mutant with half the noise, one made for a single prediction, one of the wrong kind, none at all.
    for mutant, error in [
        (DiscreteLaplaceNoise(honest.scale / 2, honest.l1 // 2), ToleranceExceeded),
        (prediction_noise(FORM, queries=1, rounds=1, epsilon=1), ToleranceExceeded),
        (Responses(GeneralizedRandomizedResponse(3, 1, 1), count=1), InvalidInput),
        (Responses(GeneralizedRandomizedResponse(4, 1, 1), count=2), InvalidInput),
        (PermuteAndFlip.for_epsilon(1, 2), InvalidInput),
        (SubsetSample(1, 2, False), InvalidInput),
        (None, InvalidInput),
    ]:
        with pytest.raises(error):
            party.answer(asking(mechanism=mutant))
    assert ledger.balance("party").payments == 0


def test_parties_refuse_what_they_cannot_answer():
    class Mute(Diary):
        gives_scores = False

    sample = SubsetSample(4, 30, replacement=False)
    party = SubsetParty(Private(RECORDS), sample, subset_gate(sample), study(Mute()))
    assert party.answer(asking()).value.tolist() == [1, 1]
    for kind in ("softmax", "logits"):
        with pytest.raises(InvalidInput, match="no predict_proba; ask for argmax"):
            party.answer(asking(form=PredictionForm(kind, 3)))
    with pytest.raises(InvalidInput, match="public samples that this party does not have"):
        party.answer(replace(asking(), public="0" * 64))
    with pytest.raises(InvalidInput, match="uses no mechanism"):
        party.answer(asking(mechanism=DiscreteLaplaceNoise(1, 2)))


def test_a_model_that_cannot_be_trained_is_answered_for_and_paid_as_any_other(caplog):
    class Clumsy(Diary):
        def learn(self, samples, labels, epochs):
            raise ValueError(f"secret {samples[0]}")

    for form, mechanism in (
        (FORM, prediction_noise(FORM, 2, 1, 1)),
        (PredictionForm("argmax", 3), Responses(GeneralizedRandomizedResponse(3, 1, 1), 2)),
    ):
        said = []
        for model in (Clumsy(), Diary()):
            ledger = MemoryLedger({"party": Ceiling(100)})
            party = RandomizedParty(Private(RECORDS), Gate(ledger, "party", SeededRandomness(1)), study(model))
            said.append(party.answer(asking(form=form, mechanism=mechanism)))
            assert ledger.balance("party").payments == 1
        assert said[0].receipts[0].spend == said[1].receipts[0].spend
        assert said[0].value.shape == said[1].value.shape
    assert "secret" not in caplog.text


def voting(mechanism, ceiling=None):
    ledger = MemoryLedger({"party": ceiling or Ceiling(1000)})
    party = VotingParty(Private(RECORDS), Gate(ledger, "party", SeededRandomness(1)), study(Diary()))
    queries = np.array([[0, 0], [60, 60]], dtype=np.float32)
    membership = np.array([0] * 10 + [1] * 10)
    identity = Identity.fit(PUBLIC)
    coordinator = ConsensusVoteCoordinator(PUBLIC, identity, queries, membership, 3, mechanism, 2, 15, "run")
    return party, coordinator, ledger


def test_votes_are_counted_once_and_learned_for_several_rounds():
    party, coordinator, ledger = voting(DiscreteLaplaceNoise.for_epsilon(1000, 2))
    state = coordinator.begin()
    ask = coordinator.ask(state)
    answer = party.answer(ask)
    # Records (0, 1), (2, 3) … (58, 59): half are nearer to each end, and labels go round.
    assert answer.value.tolist() == [[5, 5, 5], [5, 5, 5]]
    state = coordinator.fold(state, [answer, answer.map(lambda votes: votes + np.array([[3, 0, 0], [0, 0, 9]]))])
    assert coordinator.ask(state) is None
    outcome = coordinator.result(state).value
    assert [each.round for each in outcome.remaining] == [0, 1]
    for each in outcome.remaining:
        assert len(each.rows) == 15
        assert (each.targets.argmax(axis=1) == np.where(each.rows < 10, 0, 2)).all()
    assert ledger.balance("party").payments == 1


def test_labels_of_votes_are_averaged_over_parties():
    party, coordinator, _ = voting(PermuteAndFlip.for_epsilon(10, 2))
    answer = party.answer(coordinator.ask(coordinator.begin()))
    fixed = [answer.map(lambda _, labels=labels: np.array(labels)) for labels in ([0, 1], [0, 2], [1, 2], [0, 2])]
    outcome = coordinator.result(coordinator.fold(coordinator.begin(), fixed)).value
    assert outcome.history[0].targets[0].tolist() == [0.75, 0.25, 0.0]


def test_votes_with_too_little_noise_are_refused():
    for mutant in (DiscreteLaplaceNoise(1, 1), PermuteAndFlip.for_epsilon(1, 1)):
        party, coordinator, ledger = voting(mutant)
        with pytest.raises(ToleranceExceeded):
            party.answer(coordinator.ask(coordinator.begin()))
        assert ledger.balance("party").payments == 0
    with pytest.raises(InvalidInput, match="protects persons"):
        voting(DiscreteLaplaceNoise(1, 2), Ceiling(1, unit=Unit.person("patient", 2)))


def test_the_coordinator_asks_averages_and_sends_back():
    coordinator = PredictCoordinator(PUBLIC, FORM, None, rounds=2, queries=5, request="run")
    state = coordinator.begin()
    sample = SubsetSample(4, 30, replacement=False)
    parties = [SubsetParty(Private(RECORDS), sample, subset_gate(sample), study(Diary())) for _ in range(2)]
    first = coordinator.ask(state)
    assert (first.feedback, first.request) == (None, "run round 0")
    answers = [parties[0].answer(first), parties[1].answer(first).map(lambda labels: labels * 0)]
    state = coordinator.fold(state, answers)
    second = coordinator.ask(state)
    assert second.feedback.rows.tolist() == first.rows.tolist()
    assert second.feedback.targets.tolist() == [[0.5, 0.5, 0.0]] * 5
    assert second.rows.tolist() != first.rows.tolist()
    assert second.question != replace(second, feedback=None).question
    state = coordinator.fold(state, [parties[0].answer(second)])
    assert coordinator.ask(state) is None
    result = coordinator.result(state)
    assert [each.round for each in result.value.history] == [0, 1]
    assert result.value.remaining[0].round == 1
    with pytest.raises(InvalidInput, match="no party answered"):
        coordinator.fold(state, [])
    with pytest.raises(InvalidInput, match="no answer yet"):
        coordinator.result(RoundState())


def test_labels_that_noise_decided_are_not_taught():
    for epsilon, taught in (("1/1000", 0), ("20", 5)):
        mechanism = Responses(GeneralizedRandomizedResponse(3, 1, epsilon), 5)
        coordinator = PredictCoordinator(PUBLIC, FORM, mechanism, rounds=1, queries=5, request="run")
        gate = Gate(MemoryLedger({"a": Ceiling(200, unit=Unit.whole_holder())}), "a", SeededRandomness(2))
        party = RandomizedParty(Private(RECORDS), gate, study(Diary()))
        state = coordinator.fold(coordinator.begin(), [party.answer(coordinator.ask(coordinator.begin()))])
        (feedback,) = coordinator.result(state).value.history
        assert feedback.rows.shape == (taught,)
        assert feedback.targets.shape == (taught, 3)
        diary = Diary()
        study(diary).train_on_consensus(feedback, RECORDS.samples, RECORDS.labels)
        # Own records are revisited either way.
        assert [act for act, _ in diary.acts] == (["learn", "digest", "learn"] if taught else ["learn", "learn"])


def test_logits_are_averaged_as_logits():
    form = PredictionForm("logits", 3, grid=100)
    coordinator = PredictCoordinator(PUBLIC, form, None, rounds=1, queries=2, request="run")
    sample = SubsetSample(4, 30, replacement=False)
    party = SubsetParty(Private(RECORDS), sample, subset_gate(sample), study(Diary()))
    state = coordinator.fold(coordinator.begin(), [party.answer(coordinator.ask(coordinator.begin()))])
    (feedback,) = coordinator.result(state).value.history
    assert feedback.logits
    assert feedback.targets[0] == pytest.approx([-1 / 3, 2 / 3, -1 / 3], abs=0.006)


def test_what_is_claimed_for_a_subset():
    words = str(Exposure.of(SubsetSample(18, 2880, replacement=True)))
    assert "NOT DIFFERENTIAL PRIVACY IN THE USUAL SENSE: 18 raw records" in words
    assert "the same for every epsilon, and is not below 1/n" in words
    # The published ε never stands alone.
    assert words.index("delta = ") < words.index("epsilon = ")
    strata = Exposure.of(StratifiedSample((SubsetSample(1, 10, False), SubsetSample(1, 2, False))))
    assert strata.probability == 0.5
    assert "class sizes are assumed public" in str(strata)
    assert str(Exposure.of(SubsetSample(3, 3, False))).startswith("NO PRIVACY AT ALL")
    assert str(Exposure.of(SubsetSample(1, 3, False), simulation=True)).startswith("SIMULATION")
    assert Exposure.of(SubsetSample(1, 4, False)).to_json()["delta_exact"] == "1/4"


def test_votes_are_not_for_an_account_that_protects_a_whole_holder():
    gate = Gate(MemoryLedger({"party": Ceiling(1, unit=Unit.whole_holder())}), "party")
    with pytest.raises(InvalidInput, match="a whole holder"):
        VotingParty(Private(RECORDS), gate, Study(Diary(), PUBLIC, Schedule()))
