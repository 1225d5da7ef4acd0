"""The default from records to a student: what is asked, what it costs, who pays, and what questions depend on."""

import contextlib
import dataclasses
import json
import warnings
from fractions import Fraction

import numpy as np
import pytest

import tacit
from tacit.accounting.compose import total
from tacit.core.account import Ceiling, Rule
from tacit.core.errors import BudgetExceeded, InvalidInput
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.release import restored
from tacit.core.spend import Gaussian, Pure
from tacit.ledger.memory import MemoryLedger
from tacit.methods.auto import teaching
from tacit.methods.auto.coordinator import AutoCoordinator
from tacit.methods.auto.method import prepare, worth_dividing
from tacit.methods.auto.options import Auto
from tacit.methods.auto.plan import installed, plan_auto
from tacit.methods.auto.teaching import AutoTeaching
from tacit.methods.class_sums.plan import SumPlan
from tacit.methods.class_sums.wire import SumAsk
from tacit.methods.curated import CuratedJob
from tacit.methods.noisy_sgd.wire import GradientAsk
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.gate import Gate
from tacit.wire import ask_to_bytes
from tests.methods.auto.given import CLASSES, clouds, halves, planes, task

pytestmark = pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")

NAMES = np.array(CLASSES)
DELTA = Fraction(1, 10**5)


def named(made, size, seed):
    samples, labels = made(size, seed)
    return samples, NAMES[labels]


# What is asked of images and of tables, of clusters and of mixtures, where no network learns in between: the data,
# arguments, and the questions.
CASES = {
    "clusters": (clouds, {"data_kind": "images"}, [VoteAsk, VoteAsk]),
    "mixtures": (planes, {"data_kind": "images"}, [VoteAsk, SumAsk]),
    "votes": (planes, {"data_kind": "images", "releases": "votes"}, [VoteAsk, VoteAsk]),
    "sums": (clouds, {"data_kind": "images", "releases": "sums"}, [SumAsk]),
    "table": (halves, {"classes": CLASSES[:2]}, [SumAsk, GradientAsk]),
    "table of three classes": (planes, {}, [SumAsk]),
    "table of few": (halves, {"classes": CLASSES[:2], "epsilon": "1/50"}, [SumAsk]),
    "table, sums alone": (halves, {"classes": CLASSES[:2], "releases": "sums"}, [SumAsk]),
    "mixed table": (halves, {"classes": CLASSES[:2], "data_kind": "mixed"}, [SumAsk, GradientAsk]),
    "texts": (planes, {"data_kind": "embedding"}, 8 * [GradientAsk]),
    "texts of few": (planes, {"data_kind": "embedding", "epsilon": "1/10"}, [SumAsk]),
    "texts, sums alone": (planes, {"data_kind": "embedding", "releases": "sums"}, [SumAsk]),
    "texts, a student": (planes, {"data_kind": "embedding", "student": "logistic"}, [SumAsk]),
    "pure clusters": (clouds, {"data_kind": "images", "delta": 0}, [VoteAsk, VoteAsk]),
    "pure mixtures": (planes, {"data_kind": "images", "delta": 0}, [VoteAsk, SumAsk]),
    "pure mixed table": (planes, {"data_kind": "mixed", "delta": 0}, [SumAsk]),
}
WITHOUT_TORCH = pytest.mark.usefixtures("no_torch")


@pytest.fixture
def no_torch(monkeypatch):
    """The core alone, which is faster as well: the map is what is taught between questions."""
    monkeypatch.setattr("tacit.methods.auto.plan.installed", lambda *_: False)


def distilled(case, records=900, **more):
    made, given, _ = CASES[case]
    values = {"delta": DELTA, "classes": CLASSES, "method": "auto"} | given | more
    return tacit.distill(named(made, records, 1), made(150, 2)[0], values.pop("epsilon", 8), **values)


@pytest.fixture
def asked(monkeypatch):
    """Every question that a holder was asked, in order."""
    seen = []
    for holder in (
        "tacit.methods.class_sums.holder.SumHolder",
        "tacit.methods.rknn.holder.VoteHolder",
        "tacit.methods.noisy_sgd.holder.GradientHolder",
    ):
        alone = getattr(__import__(holder.rpartition(".")[0], fromlist=["x"]), holder.rpartition(".")[2]).answer
        monkeypatch.setattr(f"{holder}.answer", lambda self, ask, alone=alone: (seen.append(ask), alone(self, ask))[1])
    return seen


@WITHOUT_TORCH
@pytest.mark.parametrize("case", CASES)
def test_what_is_asked_follows_from_releases_and_the_price_is_never_below_the_charge(case, asked, monkeypatch):
    prices = {}
    alone = CuratedJob.accounts
    monkeypatch.setattr(
        CuratedJob, "accounts", lambda self: [each for each in alone(self) if prices.update(each.prices) is None]
    )
    run = distilled(case)
    assert [type(each) for each in asked] == CASES[case][2]
    assert list(prices) == [each.request for each in asked]
    for receipt, price, ask in zip(run.receipts, prices.values(), asked, strict=True):
        assert receipt.spend == ask.mechanism.spend
        if isinstance(price, Pure):
            assert receipt.spend == price
            continue
        # The charge is the price but for the rounding of a root.
        assert price.noise_multiplier <= receipt.spend.noise_multiplier < price.noise_multiplier * Fraction("1.00001")
        if isinstance(ask, SumAsk | GradientAsk):
            assert receipt.spend == price
    spends = [each.spend for each in run.receipts]
    assert run.guarantee.epsilon == total(spends, run.guarantee.delta, Rule.PLANNED).epsilon <= 8


@pytest.mark.parametrize(
    ("case", "delta", "last"), [("mixtures", DELTA, GradientAsk), ("clusters", DELTA, VoteAsk), ("mixtures", 0, SumAsk)]
)
def test_with_a_network_the_last_question_has_a_price_that_was_known(
    case, delta, last, asked, monkeypatch, brief_networks
):
    pytest.importorskip("torch", reason="needs tacit[torch]")
    pytest.importorskip("safetensors", reason="needs tacit[torch]")
    if last is VoteAsk:  # its student is networks alone
        monkeypatch.setattr(teaching, "image_network", brief_networks)
    prices = {}
    alone = CuratedJob.accounts
    monkeypatch.setattr(
        CuratedJob, "accounts", lambda self: [each for each in alone(self) if prices.update(each.prices) is None]
    )
    run = distilled(case, delta=delta, seed=1)
    assert len(asked) == 3
    assert type(asked[-1]) is last
    assert run.guarantee.epsilon <= 8
    for receipt, price in zip(run.receipts, prices.values(), strict=True):
        if delta:
            assert price.noise_multiplier <= receipt.spend.noise_multiplier
    assert ("gradient" in run.recipe["chosen"]) is (last is GradientAsk)
    test, labels = CASES[case][0](400, 5)
    assert (run.student.predict(test) == NAMES[labels]).mean() > 0.7


@WITHOUT_TORCH
@pytest.mark.parametrize("case", ["clusters", "mixtures", "table"])
def test_of_persons_noise_and_price_are_those_of_all_their_records(case, asked):
    unit = Unit.person("patient", 3)
    run = distilled(case, records=4500, epsilon=20, persons=np.arange(4500) // 3, unit=unit)
    assert run.guarantee.unit == unit
    assert run.guarantee.epsilon <= 20
    for ask in asked:
        assert ask.sensitivity(unit, Adjacency.REPLACE_ONE).within(ask.mechanism.max_sensitivity)
        # Three records can all move in one direction.
        assert ask.mechanism.squared_shift == 9 * (2 if isinstance(ask, VoteAsk) else 4 * ask.radius**2)
    one = distilled(case, records=4500, epsilon=20)
    for whole, single in zip(run.receipts, one.receipts, strict=True):
        assert float(whole.spend.noise_multiplier) == pytest.approx(float(single.spend.noise_multiplier), rel=1e-5)


@WITHOUT_TORCH
@pytest.mark.parametrize("case", ["clusters", "mixtures", "table", "pure clusters", "pure mixed table"])
@pytest.mark.parametrize("rule", Rule)
def test_an_account_with_exactly_this_budget_pays_and_one_with_less_pays_nothing(case, rule):
    delta = CASES[case][1].get("delta", DELTA)
    ledger = MemoryLedger({"enough": Ceiling(8, delta, rule), "less": Ceiling("7.9", delta, rule)})
    run = distilled(case, ledger=ledger, account="enough")
    assert ledger.balance("enough").payments == len(run.receipts)
    assert ledger.balance("enough").spent.epsilon <= 8
    if rule is Rule.ADAPTIVE or len(run.receipts) == 1:
        with pytest.raises(BudgetExceeded, match="cannot pay"):
            distilled(case, ledger=ledger, account="less")
        assert ledger.balance("less").payments == 0


class Killed(BaseException):
    """Not an error that anybody may catch."""


@WITHOUT_TORCH
@pytest.mark.parametrize("case", ["clusters", "mixtures", "pure mixtures", "table"])
def test_the_same_request_goes_on_and_pays_nothing_twice(case, monkeypatch, asked):
    ledger = MemoryLedger({"clinic": Ceiling(8, DELTA)})
    paying = {"ledger": ledger, "account": "clinic", "request": "r"}
    alone = Gate.release

    def dying(self, *given):
        alone(self, *given)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Gate, "release", dying)
        with pytest.raises(Killed):
            distilled(case, **paying)
    assert ledger.balance("clinic").payments == 1
    run = distilled(case, **paying)
    again = distilled(case, **paying)
    assert ledger.balance("clinic").payments == len(run.receipts) == len(again.receipts)
    assert run.probabilities.tolist() == again.probabilities.tolist()
    # Three times the first question, and twice each later one: all the same to the last byte.
    by_request = {}
    for ask in asked:
        by_request.setdefault(ask.request, set()).add(ask_to_bytes(ask))
    assert {len(each) for each in by_request.values()} == {1}


def written(value):
    """What crosses, with every array as bytes; the header of a network's file is in no order that could be kept."""
    if isinstance(value, dict):
        return {name: written(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [written(each) for each in value]
    if isinstance(value, np.ndarray):
        content = np.ascontiguousarray(value).tobytes()
        if value.dtype == np.uint8:
            start = 8 + int.from_bytes(content[:8], "little")
            return json.loads(content[8:start]), content[start:]
        return value.shape, content
    return value


def course(job, answer):
    """The questions of a job as bytes, where ``answer`` is what is released."""
    coordinator = job.coordinator
    state, said = coordinator.begin(), []
    while (ask := coordinator.ask(state)) is not None:
        said.append(written(ask.fields()))
        state = coordinator.fold(state, [restored(answer(ask), [])])
    return said


def shape(ask):
    return (len(ask.queries), len(CLASSES)) if isinstance(ask, VoteAsk) else ask.table_shape


@pytest.mark.parametrize("torch", [False, True])
@pytest.mark.parametrize(("kind", "pure"), [("images", True), ("images", False), ("table", True)])
def test_questions_depend_on_public_samples_and_releases_alone(kind, pure, torch, monkeypatch):
    """Neighbors, and even other records altogether: where releases are the same, so is every question, to the byte."""
    if torch:
        pytest.importorskip("torch", reason="needs tacit[torch]")
        pytest.importorskip("safetensors", reason="needs tacit[torch]")
    else:
        monkeypatch.setattr("tacit.methods.auto.plan.installed", lambda *_: False)

    def answer(ask):
        drawn = np.random.default_rng(7)
        if not isinstance(ask, VoteAsk):
            return drawn.integers(-90_000, 90_000, shape(ask)) + np.eye(*shape(ask), k=0, dtype=np.int64)
        queries = np.arange(len(ask.queries))
        return np.where(queries[:, None] % 3 == np.arange(3), 300, 1 if pure else 200)

    public = clouds(90, 2)[0]
    private = clouds(900, 1)
    neighbor = private[0].copy(), private[1].copy()
    neighbor[0][5], neighbor[1][5] = 1000.0, 1 - min(1, private[1][5])
    # A gradient is asked for tables of two classes only.
    given = {"kind": kind, "classes": np.array(CLASSES)[: 2 if kind == "table" else 3]}
    courses = [
        course(prepare(task((samples, np.minimum(labels, len(given["classes"]) - 1)), public, **given), Auto()), answer)
        for samples, labels in (private, neighbor, (planes(900, 3)[0], np.zeros(900, dtype=np.int64)))
    ]
    assert courses[0] == courses[1] == courses[2]
    assert len(courses[0]) == (3 if torch and kind == "images" else 2)


def test_every_question_has_noise_that_its_holder_accepts():
    """The mechanism of each question, votes or sums, tolerates what one unit moves, and wastes nothing."""
    for kind, answer in (("images", 300), ("images", 0), ("table", 0)):
        given = task(clouds(900, 1), clouds(90, 2)[0], kind=kind)
        plan = dataclasses.replace(plan_auto(given, "auto"), network=False)
        teaching = AutoTeaching(given, plan)
        coordinator = AutoCoordinator(len(plan.tasks), teaching.choose(()), teaching.choose)
        state = coordinator.begin()
        while (ask := coordinator.ask(state)) is not None:
            moves = ask.sensitivity(given.unit, given.adjacency)
            assert moves.within(ask.mechanism.max_sensitivity)
            assert ask.mechanism.squared_shift == moves.l2_squared
            assert isinstance(ask.mechanism.spend, Gaussian)
            table = np.zeros(shape(ask), dtype=np.int64)
            table[:, 0] = answer
            state = coordinator.fold(state, [restored(table, [])])


@pytest.mark.parametrize(
    ("given", "method"),
    [
        ({"delta": 0}, "rknn"),
        ({"trust": "local"}, "rknn"),
        ({"queries": 6}, "rknn"),
        ({"releases": "votes"}, "rknn"),
        ({"releases": "sums", "delta": 0}, "class_sums"),
        ({"data_kind": "images", "delta": 0}, "rknn"),
        ({"data_kind": "images", "epsilon": "1/2"}, "rknn"),
        ({}, "auto"),
    ],
)
def test_where_the_plan_is_another_methods_it_is_that_one(given, method):
    run = distilled("table of three classes", records=200, seed=1, **given)
    arrays = {"rknn": "queries", "class_sums": "sums", "auto": "release_1"}
    assert arrays[method] in run.arrays or arrays[method] in run.recipe


def test_a_crowd_cannot_be_asked_for_sums_and_is_told_so():
    with pytest.raises(InvalidInput, match="class sums have no local mechanism"):
        distilled("table", trust="local", releases="sums")
    job = prepare(task(clouds(90, 1), clouds(60, 2)[0], delta=Fraction(0)), Auto(releases="sums"))
    assert isinstance(job.plan, SumPlan)


def test_a_hopeless_budget_and_public_samples_without_a_difference_are_told_before_anything_is_paid():
    ledger = MemoryLedger({"clinic": Ceiling(8, DELTA)})
    paying = {"ledger": ledger, "account": "clinic"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", tacit.TacitWarning)
        with pytest.raises(tacit.TacitWarning, match="the labels will be mostly noise"):
            distilled("table", epsilon="1/1000", **paying)
    with pytest.raises(InvalidInput, match="all equal"):
        tacit.distill(named(planes, 90, 1), np.ones((50, 4)), 8, delta=DELTA, classes=CLASSES, **paying)
    assert ledger.balance("clinic").payments == 0


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"delta": 0}, "with delta = 0"),
        ({"trust": "local"}, "no curator has all records"),
        ({"adjacency": "add-remove"}, "number of records is private"),
        ({"releases": "votes"}, "votes were asked for"),
        ({"data_kind": "images", "epsilon": "1/2"}, "distinguished from noise"),
    ],
)
def test_why_it_is_reverse_knn_is_said(given, reason):
    """On the screen, and in what is written."""
    said = []
    with contextlib.suppress(InvalidInput):  # under add/remove the number of queries must be said
        run = distilled("table", records=200, seed=1, observer=tacit.Observer(stage=said.append), **given)
        assert reason in run.recipe["votes because"]
    assert any(each.startswith("planning reverse k-NN votes") and reason in each for each in said)


class Blind:
    """A view in which all samples are alike."""

    def encode(self, samples):
        return np.zeros((len(samples), 3), dtype=np.float32)


@pytest.mark.parametrize("case", ["clusters", "mixtures"])
def test_a_paid_run_is_not_lost_to_a_network_that_sees_nothing(case, monkeypatch):
    monkeypatch.setattr(AutoTeaching, "_view", lambda self, chances: Blind())
    monkeypatch.setattr(AutoTeaching, "_taught", lambda self, chances, last=False: None)
    monkeypatch.setattr("tacit.methods.auto.plan.installed", lambda *modules: "torch" in modules and len(modules) == 2)
    ledger = MemoryLedger({"clinic": Ceiling(8, DELTA)})
    run = distilled(case, ledger=ledger, account="clinic")
    assert ledger.balance("clinic").payments == len(run.receipts) == 3
    assert np.isfinite(run.probabilities).all()


def test_first_votes_that_drown_are_not_bought():
    few, many = (
        task(clouds(records, 1), clouds(60, 2)[0], kind="images", epsilon=Fraction(1)) for records in (50, 5000)
    )
    assert not worth_dividing(AutoTeaching(few, plan_auto(few, "auto")))
    assert worth_dividing(AutoTeaching(many, plan_auto(many, "auto")))


@pytest.mark.parametrize("case", ["table", "clusters"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"student": "magic"}, "magic"),
        ({"releases": "magic"}, "releases must be one of auto, votes, sums"),
        ({"delta": "1e-40"}, "delta must be 0, or in"),
        ({"releases": "sums", "queries": 5}, "unknown option 'queries' of Auto"),
    ],
)
def test_what_would_be_refused_later_is_refused_before_anything_is_paid(case, given, message):
    ledger = MemoryLedger({"clinic": Ceiling(8, "1e-5")})
    with pytest.raises(InvalidInput, match=message):
        distilled(case, ledger=ledger, account="clinic", **given)
    assert ledger.balance("clinic").payments == 0


def test_a_seed_makes_a_simulation_and_the_same_seed_the_same_run():
    with warnings.catch_warnings():
        one, other = (distilled("mixtures", seed=3) for _ in range(2))
    assert one.guarantee.simulation
    assert one.probabilities.tolist() == other.probabilities.tolist()
    corrected = ", then a gradient" if installed("torch", "safetensors") else ""
    assert one.recipe["chosen"] == f"votes, then sums{corrected}"
    assert (
        one.student.predict_proba(planes(50, 9)[0]).tolist() == other.student.predict_proba(planes(50, 9)[0]).tolist()
    )
