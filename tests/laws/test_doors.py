"""Every mechanism that can travel, and every wrapper around it, at every door: one table says what may go through."""

import dataclasses

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput, ToleranceExceeded
from tacit.core.randomness import SeededRandomness
from tacit.core.sensitivity import ANYTHING, Sensitivity, vote_sensitivity
from tacit.core.spend import Pure
from tacit.federation.node.refusals import node_side
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.central.counts import SealedTable
from tacit.mechanisms.choices import AllowedMechanisms, wrapped
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse, Responses
from tacit.mechanisms.masked.distributed_laplace import MaskedShare
from tacit.mechanisms.registry import registered
from tacit.mechanisms.shuffle.single_message import SealedMessages, Shuffled, SingleMessage
from tacit.methods.class_sums import holder as sums
from tacit.methods.class_sums.wire import SumAsk
from tacit.methods.fedmd import holder as fedmd
from tacit.methods.fedmd.models import Schedule, Study
from tacit.methods.fedmd.wire import PartyVoteAsk, PredictAsk, PredictionForm, array_digest
from tacit.methods.noisy_sgd import holder as sgd
from tacit.methods.noisy_sgd.wire import GradientAsk
from tacit.methods.pate import holder as pate
from tacit.methods.pate.wire import TeacherAsk
from tacit.methods.private_knn import holder as private_knn
from tacit.methods.private_knn.wire import NeighborAsk
from tacit.methods.privatekt import holder as privatekt
from tacit.methods.privatekt.wire import LabelAsk
from tacit.methods.registry import METHODS
from tacit.methods.rknn import holder as rknn
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.representations.scaled import Identity
from tests.wire_samples import CENTRAL, LOCAL, OTHERS

LOCALS = {
    "bit-response", "collision", "concatenation", "generalized-response", "linear-hashing", "local-laplace",
    "separation", "subset-selection",
}  # fmt: skip
MIXED = {"shuffled(flooded-messages)", *(f"shuffled(single-message({each}))" for each in LOCALS)}
SEALED_MIXED = {each.replace("shuffled(", "sealed-messages(", 1) for each in MIXED}
VOTE_TABLES = {"permute-and-flip", "discrete-laplace", "discrete-gaussian", "rounded-gaussian"}
PARTY_TABLES = {"permute-and-flip", "discrete-laplace"}
TEACHER_TABLES = VOTE_TABLES | {
    "confidence-screen",
    "estimated-votes",
    "exponential-mechanism",
    "gaussian-votes",
    "laplace-votes",
    "tested-votes",
}
SUM_TABLES = {"rounded-gaussian", "discrete-gaussian", "discrete-laplace"}
SUM_SHARES = {"distributed-gaussian", "distributed-laplace"}
MASKS = {"distributed-laplace", "masked-share(distributed-laplace)"}
SAMPLED = {"sampled-screen", "sampled-votes"}
RESPONSES = {"responses(generalized-response)", "responses(subset-selection)"}


def sealed(names):
    return {f"sealed-table({each})" for each in names}


# What may go through each door. Everything else is refused.
ALLOWED = {
    "rknn holder": VOTE_TABLES | MASKS | sealed(VOTE_TABLES),
    "sum holder": SUM_TABLES | SUM_SHARES | {f"masked-share({each})" for each in SUM_SHARES} | sealed(SUM_TABLES),
    "gradient holder": SUM_TABLES | SUM_SHARES | {f"masked-share({each})" for each in SUM_SHARES} | sealed(SUM_TABLES),
    "rknn crowd": LOCALS | MIXED | SEALED_MIXED,
    "pate holder": TEACHER_TABLES | MASKS | sealed(TEACHER_TABLES),
    "private_knn holder": SAMPLED,
    "privatekt holder": {"answer-sheet"},
    "fedmd predicting": {"discrete-laplace", "discrete-gaussian"} | RESPONSES,
    "fedmd voting": PARTY_TABLES | MASKS | sealed(PARTY_TABLES),
    "curate rknn": VOTE_TABLES,
    "curate pate": TEACHER_TABLES,
    "curate class sums": SUM_TABLES,
    "answer class sums": SUM_TABLES,
    "masked class sums": SUM_SHARES,
    "submit class sums": SUM_TABLES,
    "curate noisy sgd": SUM_TABLES,
    "answer noisy sgd": SUM_TABLES,
    "masked noisy sgd": SUM_SHARES,
    "submit noisy sgd": SUM_TABLES,
    "curate fedmd votes": PARTY_TABLES,
    "answer rknn": VOTE_TABLES | LOCALS,
    "answer pate": TEACHER_TABLES,
    "answer private_knn": SAMPLED,
    "answer privatekt": {"answer-sheet"},
    "answer fedmd predictions": {"discrete-laplace", "discrete-gaussian"} | RESPONSES,
    "answer fedmd votes": PARTY_TABLES,
    "masked rknn": {"distributed-laplace"},
    "masked pate": {"distributed-laplace"},
    "masked fedmd votes": {"distributed-laplace"},
    "submit rknn": VOTE_TABLES | MIXED,
    "submit pate": TEACHER_TABLES,
    "submit fedmd votes": PARTY_TABLES,
}
ASKS = {
    VoteAsk: "rknn",
    TeacherAsk: "pate",
    SumAsk: "class sums",
    GradientAsk: "noisy sgd",
    NeighborAsk: "private_knn",
    LabelAsk: "privatekt",
    PredictAsk: "fedmd predictions",
    PartyVoteAsk: "fedmd votes",
}
ALL_DOORS = {
    "rknn holder": rknn.VOTES,
    "rknn crowd": rknn.ONE_RECORD,
    "sum holder": sums.SUMS,
    "gradient holder": sgd.GRADIENTS,
    "pate holder": pate.TEACHERS,
    "private_knn holder": private_knn.NEIGHBORS,
    "privatekt holder": privatekt.LABELS,
    "fedmd predicting": fedmd.PREDICTING,
    "fedmd voting": fedmd.VOTING,
    **{
        f"{step} {ASKS[ask]}": door
        for method in METHODS.values()
        if method.questions
        for ask, by_step in node_side(method).allowed.items()
        for step, door in by_step.items()
    },
}
BASES = [*CENTRAL, *LOCAL, *OTHERS, Responses(LOCAL[-1], 4)]
WRAPPERS = {
    "sealed-table": lambda inner: SealedTable(inner, "s", len),
    "masked-share": lambda inner: MaskedShare(inner, "s", np.zeros(4, dtype=np.uint64)),
    "sealed-messages": lambda inner: SealedMessages(inner, "s", len),
    "shuffled": lambda inner: Shuffled(inner, 1000),
    "single-message": lambda inner: SingleMessage(inner, 50, "1e-6"),
}
# Built by the class itself from the question's numbers, not chosen by who asks.
MADE_INSIDE = {"concatenation", "separation"}


def name_of(mechanism):
    name = mechanism.name
    inner = [name_of(each) for each in wrapped(mechanism)]
    return name if not inner or name in MADE_INSIDE else f"{name}({', '.join(inner)})"


def every_mechanism():
    """All that can travel, each in each wrapper, and those in each wrapper again."""
    once = [wrap(each) for each in BASES for wrap in WRAPPERS.values()]
    twice = [wrap(each) for each in once for wrap in WRAPPERS.values()]
    return {name_of(each): each for each in (*BASES, *once, *twice)}


EVERY = every_mechanism()


def test_every_kind_that_can_travel_is_tried():
    assert {type(each) for each in BASES} == set(registered().values())
    assert set(ALL_DOORS) == set(ALLOWED)
    assert set().union(*ALLOWED.values()) <= set(EVERY)


@pytest.mark.parametrize("name", ALL_DOORS)
def test_a_door_lets_through_what_its_row_says_and_nothing_else(name):
    passed = set()
    for called, mechanism in EVERY.items():
        try:
            ALL_DOORS[name].require(mechanism)
            passed.add(called)
        except InvalidInput:
            pass
    assert passed == ALLOWED[name]


@pytest.mark.parametrize("wrapper", ["sealed-table", "masked-share", "sealed-messages", "shuffled"])
def test_a_wrapper_tolerates_and_costs_what_is_inside_it(wrapper):
    for inner in BASES:
        mechanism = WRAPPERS[wrapper](inner)
        assert wrapped(mechanism) == [inner]
        assert mechanism.max_sensitivity == inner.max_sensitivity
        # What shuffling makes of a local mechanism takes a while to find.
        if not any(isinstance(each, SingleMessage) for each in (inner, *wrapped(inner))):
            assert mechanism.spend == inner.spend


def unbounded():
    around = [wrap(each) for each in BASES for wrap in WRAPPERS.values()]
    return {name_of(each): each for each in (*BASES, *around) if each.max_sensitivity == ANYTHING}


@pytest.mark.parametrize("name", unbounded())
def test_what_tolerates_anything_gets_no_table_of_many_records(name):
    """Charged 0.1 for one row and released all of them once, in a box that only its curator opens: worst case 5.0."""
    ledger = MemoryLedger({"ada": Ceiling(100, "1e-3")})
    table = Private(np.ones((4, 3), dtype=np.int64))
    for sensitivity in (vote_sensitivity(4, 3, 1), Sensitivity(l1=2), Sensitivity(linf=1)):
        with pytest.raises(ToleranceExceeded):
            Gate(ledger, "ada").release(table, lambda: None, sensitivity, EVERY[name], "votes", "r-1")
    assert ledger.balance("ada").payments == 0


def test_a_subclass_or_a_new_wrapper_does_not_pass():
    class Cheaper(GeneralizedRandomizedResponse):
        pass

    @dataclasses.dataclass(frozen=True)
    class Around:
        inner: object

    with pytest.raises(InvalidInput, match="Cheaper; it knows"):
        rknn.ONE_RECORD.require(Cheaper(12, 1, 1))
    with pytest.raises(InvalidInput, match="Around of GeneralizedRandomizedResponse; inside Around it knows nothing"):
        AllowedMechanisms("a door", (Around,)).require(Around(GeneralizedRandomizedResponse(12, 1, 1)))


class Stranger:
    """A mechanism of who asks: cheap, calibrated for everything, and it shows what it is given."""

    spend = Pure("1/100")
    max_sensitivity = Sensitivity(l1=10**6, l2_squared=10**6, linf=10**6, row_range=10**6)

    def sample(self, value, randomness):
        return value


PUBLIC = np.array([[0.0], [9.0]])
OWN = Records(np.arange(6.0).reshape(6, 1), np.arange(6) % 2)


class Silent:
    gives_scores = True

    def learn(self, samples, labels, epochs):
        pass

    def predict(self, samples):
        return np.zeros(len(samples), dtype=np.int64)


def answer_of_each_holder(gate, mechanism):
    """Each holder's answer to a question with this mechanism, by the name of its door."""
    own, plain = Private(OWN), Identity(1)
    votes = VoteAsk(PUBLIC.astype(np.float32), plain, 1, ("a", "b"), "", mechanism, "votes", "r-1")
    teachers = TeacherAsk(PUBLIC, ("a", "b"), mechanism, "votes", "r-1")
    added = SumAsk(plain, 1, 1.0, 10, "l2", 10, ("a", "b"), "", mechanism, "sums", "r-1")
    none = np.zeros((2, 2), dtype=np.int64)
    descended = GradientAsk(plain, 1.0, 10, 10, none, 10, "l2", ("a", "b"), "", mechanism, "gradients", "r-1")
    near = NeighborAsk(PUBLIC.astype(np.float32), plain, 1, ("a", "b"), "", mechanism, "votes", "r-1")
    marks = array_digest(PUBLIC)
    predicting = PredictAsk(
        0, np.arange(2), PredictionForm("argmax", 2), mechanism, marks, None, "predictions", "run round 0"
    )
    voting = PartyVoteAsk(PUBLIC.astype(np.float32), plain, 2, mechanism, marks, "votes", "r-1")
    study = Study(Silent(), PUBLIC, Schedule())
    return {
        "a holder of votes": lambda: rknn.VoteHolder([own], gate).answer(votes),
        "a holder of class sums": lambda: sums.SumHolder([own], gate).answer(added),
        "a holder of gradients": lambda: sgd.GradientHolder([own], gate).answer(descended),
        "a one-record holder": lambda: rknn.OneRecordHolders([own], gate).answer(votes),
        "a holder of teachers": lambda: pate.TeacherHolder([own], gate, GaussianNB).answer(teachers),
        "a holder of neighbors": lambda: private_knn.NeighborHolder([own], gate).answer(near),
        "a party": lambda: fedmd.RandomizedParty(own, gate, study).answer(predicting),
        "a voting party": lambda: fedmd.VotingParty(own, gate, study).answer(voting),
    }


@pytest.mark.parametrize("name", answer_of_each_holder(None, None))
def test_every_holder_asks_at_its_door_before_it_pays(name):
    ledger = MemoryLedger({"ada": Ceiling(100)})
    answer = answer_of_each_holder(Gate(ledger, "ada", SeededRandomness(1)), Stranger())[name]
    with pytest.raises(InvalidInput, match=f"{name} does not answer through Stranger; it knows"):
        answer()
    assert ledger.balance("ada").payments == 0
