"""PATE as one job: who teaches whom, screens and rounds, and what is refused before anything is paid."""

import json
import warnings
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import tacit
from tacit.accounting.calibrate import screened_sigma
from tacit.accounting.compose import total
from tacit.core.account import Ceiling, Rule
from tacit.core.errors import BudgetExceeded, InvalidInput, TacitWarning
from tacit.core.guarantee import Unit
from tacit.core.randomness import SeededRandomness
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.central import discrete_gaussian, discrete_laplace, pate
from tacit.mechanisms.central.pate import ConfidentScreen, GNMax, LNMax
from tacit.methods.pate.holder import TeacherHolder
from tacit.methods.pate.method import copied_estimator
from tacit.methods.pate.wire import TeacherAsk
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tests.accounting.published import zcdp_epsilon

PUBLIC = np.array([[0.0], [1.0], [2.0]])


class Spy(LogisticRegression):
    """A teacher that notes down what it learned from."""

    seen: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None):
        Spy.seen.append(X.tobytes())
        return super().fit(X, y)


def taught(**options):
    Spy.seen.clear()
    samples = np.arange(80.0)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = tacit.distill(
            (samples, np.arange(80) % 2), PUBLIC, 50, method="pate", classes=[0, 1], teacher=Spy(), **options
        )
    return run, sorted(Spy.seen)


@pytest.mark.parametrize("how", [{"teachers": 4}, {"holders": 4}, {"persons": np.arange(80) // 2, "teachers": 4}])
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_who_teaches_whom_is_drawn_anew_for_every_run(how, adjacency):
    run, first = taught(adjacency=adjacency, **how)
    assert len(first) == 4
    assert run.recipe["teachers"] == 4
    assert taught(adjacency=adjacency, **how)[1] != first


def test_under_add_remove_the_number_of_teachers_must_be_said():
    with pytest.raises(InvalidInput, match="give teachers"):
        taught(adjacency="add-remove")
    assert taught()[0].recipe["teachers"] == 4


@pytest.mark.parametrize("way", ["class", "dirichlet"])
def test_teachers_are_not_chosen_by_label(way):
    with pytest.raises(InvalidInput, match="one changed label would move other records"):
        taught(holders=tacit.Partition(4, way, alpha=5))


def test_where_holders_bring_their_records_it_is_said_that_they_are_known():
    halves = {name: (np.arange(40.0)[:, None] + 40 * place, np.arange(40) % 2) for place, name in enumerate("ab")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = tacit.distill(halves, PUBLIC, 50, method="pate", classes=[0, 1])
    assert "which holder has a record or person is public" in json.dumps(run.guarantee.to_json())
    assert "which holder" not in str(taught()[0].guarantee)
    with pytest.raises(InvalidInput, match="each of the 4 holders is one teacher"):
        taught(holders=4, teachers=3)


# Confident-GNMax, rounds, and what is shown to the operator


CENTERS = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
TRUTH, POOL = np.arange(400) % 3, np.arange(60) % 3
SPREAD = np.random.default_rng(5).normal(size=(460, 2))
OWN, WIDE = (CENTERS[TRUTH] + SPREAD[:400], TRUTH), CENTERS[POOL] + SPREAD[400:]


def taught_by(epsilon=20, **options):
    given = {"delta": "1e-5", "classes": range(3), "seed": 1, "method": "pate", "teachers": 40}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="epsilon = .* is weak|all labels are the same")
        return tacit.distill(OWN, WIDE, epsilon, **{**given, **options})


def test_a_confident_run_pays_for_the_screen_and_for_a_number_of_answers_fixed_in_advance():
    agreed, split = (taught_by(threshold=each, queries=20, answers=8) for each in (0.5, 1.0))
    for run in (agreed, split):
        screen, votes = sorted((each.spend for each in run.receipts), key=lambda spend: -spend.sigma)
        assert (screen.squared_shift, votes.squared_shift) == (20, 16)
        assert screen.sigma == votes.sigma * Fraction(15, 4)
        assert 19.9 < run.guarantee.epsilon <= 20
        assert len(run.arrays["answered"]) == 8
    assert agreed.arrays["passed"].all()
    assert (agreed.labels == POOL).mean() > 0.9


@pytest.mark.parametrize(
    ("options", "kinds"),
    [({"mechanism": "gnmax"}, [GNMax]), ({"threshold": 0.5, "answers": 8}, [ConfidentScreen, GNMax])],
    ids=["gnmax", "confident"],
)
def test_the_gaussian_noise_is_what_is_accounted(options, kinds, monkeypatch):
    """One object: what is charged is the spend of the mechanisms that drew, with the σ and for the queries they had."""
    charged, drawn = noted(monkeypatch, (GNMax, ConfidentScreen), "gaussian_integers")
    run = taught_by(queries=20, **options)
    assert [type(each) for each in charged] == kinds
    spends = [each.spend for each in charged]
    assert sorted(spends, key=str) == sorted((receipt.spend for receipt in run.receipts), key=str)
    # One number per screened query; one for each of three classes of every answered query, of which one vote moves two.
    counts = [each.spend.squared_shift // 2 * 3 if type(each) is GNMax else each.spend.squared_shift
              for each in charged]  # fmt: skip
    assert drawn == [(each.sigma, count) for each, count in zip(spends, counts, strict=True)]
    assert 19.9 < total(spends, Fraction(1, 10**5), Rule.PLANNED).epsilon <= 20


def test_the_laplace_noise_is_what_is_accounted(monkeypatch):
    charged, drawn = noted(monkeypatch, (LNMax,), "laplace_integers")
    run = taught_by(mechanism="lnmax", delta=0, queries=20)
    (spend,) = [receipt.spend for receipt in run.receipts]
    assert [spend] == [each.spend for each in charged]
    assert spend.count == 2 * 20  # two cells of every query change
    assert drawn == [(1 / spend.spend.epsilon, 20 * 3)]
    assert spend.spend.epsilon * spend.count <= 20


def noted(monkeypatch, mechanisms, sampler):
    """The mechanisms that draw, and the scale and number of what is drawn, as it happens."""
    charged, drawn = [], []

    def noted_at(owner, name, told):
        own = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given: (told(*given), own(*given))[1])

    for mechanism in mechanisms:
        noted_at(mechanism, "sample", lambda self, *_: charged.append(self))
    for module in (pate, discrete_gaussian, discrete_laplace):
        if hasattr(module, sampler):
            noted_at(module, sampler, lambda scale, count, _: drawn.append((scale, count)))
    return charged, drawn


def test_an_account_that_can_pay_the_answers_and_not_the_screen_pays_nothing():
    votes = taught_by(threshold=0.5, queries=20, answers=8).receipts
    (answers,) = [each.spend for each in votes if not each.request.endswith("-screen")]
    enough = total([answers], Fraction(1, 10**5), Rule.PLANNED).epsilon
    ledger = MemoryLedger({"a": Ceiling(enough, "1e-5", Rule.PLANNED)})
    with pytest.raises(BudgetExceeded):
        taught_by(threshold=0.5, queries=20, answers=8, ledger=ledger, account="a", seed=None)
    assert ledger.balance("a").payments == 0


def test_the_published_setting_costs_what_it_should():
    """286 of 640 answered with noise 40 after a screen with noise 150, by the improved Rényi conversion."""
    spends = [ConfidentScreen(150, 200, 640).spend, GNMax(40, 286).spend]
    rho = float(sum(each.rho for each in spends))
    assert zcdp_epsilon(rho, 1e-5) == pytest.approx(2.757885, abs=1e-6)
    sigma = screened_sigma(Fraction("2.757885"), Fraction(1, 10**5), 286, 640, Fraction(15, 4))
    # A privacy-loss distribution proves as much with less noise.
    assert 37 < sigma < 38


def test_later_rounds_ask_what_a_student_is_least_sure_of_and_cost_no_more():
    whole, rounds = taught_by(queries=20), taught_by(queries=20, rounds=2)
    assert [each.spend.squared_shift for each in rounds.receipts] == [20, 20]
    assert rounds.receipts[0].spend.sigma == whole.receipts[0].spend.sigma
    assert rounds.guarantee.epsilon <= 20
    asked = rounds.arrays["answered"]
    assert len(set(asked.tolist())) == 20
    assert asked[:10].tolist() == list(range(10))
    assert asked[10:].max() >= 20


def test_a_diagnostic_is_on_the_screen_and_in_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tacit.runs.drive.clock", lambda: 0.0)
    plain = taught_by(queries=10)
    with pytest.warns(
        TacitWarning, match=r"diagnostic, private and not stored: the data-dependent epsilon of 10 answers"
    ) as said:
        shown = taught_by(queries=10, diagnostic=True)
    assert len([each for each in said if "diagnostic" in str(each.message)]) == 1
    assert [each.spend for each in plain.receipts] == [each.spend for each in shown.receipts]
    assert str(plain.guarantee) == str(shown.guarantee)
    assert plain.arrays.keys() == shown.arrays.keys()
    for one, other in ((plain, "plain"), (shown, "shown")):
        one.save(tmp_path / other)
    records = [json.loads((tmp_path / each / "run.json").read_text()) for each in ("plain", "shown")]
    for record in records:
        del record["recipe"]["options"]["diagnostic"]
        for receipt in record["receipts"]:
            del receipt["digest"], receipt["request"]
    assert records[0] == records[1]


def test_every_teacher_has_a_model_of_its_own():
    """In one shared object each teacher would say, from the second question on, what the last has learned."""
    places, model = np.array([[0.0], [0.1], [2.0], [2.1]]), GaussianNB()
    opposed = [Private(Records(places, np.array(labels))) for labels in ([0, 0, 1, 1], [1, 1, 0, 0])]
    gate = Gate(MemoryLedger({"curator": Ceiling(10**6)}), "curator", SeededRandomness(1))
    asked = TeacherHolder(opposed, gate, lambda: copied_estimator(model))
    for request in ("r-1", "r-2"):
        votes = asked.answer(TeacherAsk(PUBLIC, ("a", "b"), LNMax(1000, 3), "votes", request))
        assert votes.value[[0, 2]].tolist() == [[1, 1], [1, 1]]
    assert (taught_by(queries=30, rounds=2, teacher=GaussianNB()).labels == POOL).mean() > 0.9


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"threshold": 0.5, "delta": 0}, "gaussian noise needs delta above 0"),
        ({"threshold": 0.5, "mechanism": "lnmax"}, "needs gaussian noise, not lnmax"),
        ({"threshold": 0.5, "rounds": 2}, "a screen needs a single round"),
        ({"answers": 5}, "give threshold too"),
        ({"queries": 3, "rounds": 4}, "rounds must be at most the 3 queries, got 4"),
        ({"diagnostic": True, "mechanism": "permute-and-flip"}, "needs a delta above 0 and laplace or gaussian votes"),
        ({"teachers": 401}, "more teachers, 401, than records"),
        ({"teacher": "magic"}, "magic"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_paid(options, said):
    with pytest.raises(InvalidInput, match=said):
        taught_by(**options)


def parts_of_four():
    return [(OWN[0][place::4], OWN[1][place::4]) for place in range(4)]


@pytest.mark.parametrize(
    ("private", "options", "said"),
    [
        (OWN, {"teachers": 10}, "give the records of each holder"),
        (OWN, {"holders": 5}, "give the records of each holder"),
        (parts_of_four(), {"adjacency": "add-remove"}, "the number of holders is private"),
    ],
)
def test_a_holder_is_protected_only_where_it_is_one_teacher(private, options, said):
    given = {"delta": "1e-5", "classes": range(3), "method": "pate", "unit": Unit.whole_holder(), "queries": 5}
    with pytest.raises(InvalidInput, match=said):
        tacit.distill(private, WIDE, 5, **given, **options)


@pytest.mark.parametrize("private", [parts_of_four(), OWN])
def test_under_add_remove_holders_are_not_teachers(private):
    """A record of a new holder would be one more teacher, and their number is written down."""
    owners = {} if isinstance(private, list) else {"holders": np.arange(len(OWN[1])) % 4}
    with pytest.raises(InvalidInput, match="may be of a new holder"):
        tacit.distill(private, WIDE, 5, classes=range(3), method="pate", queries=5, adjacency="add-remove", **owners)


@pytest.mark.filterwarnings("ignore:all labels are the same", "ignore:delta is not below")
def test_holders_that_are_teachers_are_protected_whole():
    given = {"delta": "1e-5", "classes": range(3), "method": "pate", "unit": Unit.whole_holder(), "queries": 5}
    run = tacit.distill(parts_of_four(), WIDE, 5, seed=1, **given)
    assert run.guarantee.unit == Unit.whole_holder()
    assert run.recipe["teachers"] == 4


def agreeing(epsilon=8, teachers=60, **options):
    random = np.random.default_rng(1)
    labels = random.integers(0, 2, 1200)
    samples = np.stack([labels * 6.0 + random.normal(0, 0.5, 1200), random.normal(0, 1, 1200)], axis=1)
    public = np.stack([np.repeat([0.0, 6.0], 20), np.zeros(40)], axis=1)
    return tacit.distill(
        (samples, labels), public, epsilon, delta=1e-5, method="pate", classes=[0, 1], teachers=teachers,
        teacher=GaussianNB(), seed=3, **options,
    )  # fmt: skip


def test_a_private_test_lets_agreeing_teachers_answer_with_less_noise():
    run = agreeing(contested=0.2)
    assert run.recipe["mechanism"] == "TestedGNMax"
    assert run.labels.tolist() == [0] * 20 + [1] * 20
    # One release pays for the test and for the answers, whatever the votes are.
    (receipt,) = run.receipts
    assert (receipt.spend.epsilon, receipt.spend.delta) == (Fraction(8), Fraction(1, 10**5))
    assert run.guarantee.epsilon == 8
    # Votes would tell more than the labels that are paid for.
    assert "votes" not in run.arrays


def test_a_test_of_the_votes_is_refused_where_it_makes_no_sense():
    for options, words in (
        ({"contested": 0.2, "threshold": 0.6}, "contested goes without threshold"),
        ({"contested": 0.2, "rounds": 2}, "contested goes with one round"),
        ({"contested": 0.2, "diagnostic": True}, "contested goes with one round"),
        ({"contested": 0.2, "mechanism": "laplace"}, "contested goes with gnmax"),
        ({"contested": 0.2, "teachers": 12}, "a test gains nothing here"),
        ({"contested": 1.0}, "a test gains nothing here"),
        ({"contested": 0.2, "epsilon": 0.01}, "too small for a test"),
    ):
        with pytest.raises(InvalidInput, match=words):
            agreeing(**options)
    with pytest.raises(InvalidInput, match="needs delta above 0"):
        tacit.distill(
            (np.zeros((40, 2)), np.arange(40) % 2), np.ones((9, 2)), 8, method="pate", classes=[0, 1],
            contested=0.2,
        )  # fmt: skip


def test_an_estimate_of_the_cost_is_paid_with_the_answers_and_released_beside_them():
    run = agreeing(cost_estimate=0.25)
    assert run.recipe["mechanism"] == "EstimatedGNMax"
    assert run.labels.tolist() == [0] * 20 + [1] * 20
    (receipt,) = run.receipts
    answers, estimate = receipt.spend.spends
    assert (estimate.epsilon, estimate.delta) == (Fraction(2), Fraction(1, 2 * 10**5))
    assert answers.squared_shift == 80
    assert 7.5 < run.guarantee.epsilon <= 8
    assert "votes" not in run.arrays
    charged, estimated, most = (value for name, value in run.metrics.items() if "epsilon" in name)
    # What is charged for the answers holds for any votes; what is estimated is about these, and never above it.
    assert charged == float(total([answers], estimate.delta, Rule.PLANNED).epsilon)
    assert estimated <= most <= charged
    assert "no promise" in str(run.guarantee)
    assert "votes cost" not in str(agreeing().guarantee)


def test_answers_after_a_screen_are_estimated_too_and_all_of_it_is_within_the_budget():
    run = agreeing(cost_estimate=0.25, threshold=0.6, answers=36)
    screen, votes = sorted(run.receipts, key=lambda each: each.request, reverse=True)
    answers, estimate = votes.spend.spends
    assert screen.spend.sigma == answers.sigma * Fraction(15, 4)
    assert (answers.squared_shift, estimate.epsilon) == (72, 2)
    assert run.guarantee.epsilon <= 8
    assert len(run.arrays["answered"]) == 36
    charged, estimated, most = (value for name, value in run.metrics.items() if "epsilon" in name)
    assert estimated <= most <= charged < 6


def test_an_estimate_says_less_than_was_charged_where_many_teachers_agree():
    samples = np.repeat([[0.0, 0.0], [6.0, 0.0]], 800, axis=0)
    own = samples + np.random.default_rng(2).normal(0, 0.3, samples.shape), np.repeat([0, 1], 800)
    run = tacit.distill(
        own, np.repeat([[0.0, 0.0], [6.0, 0.0]], 20, axis=0), 8, delta=1e-5, method="pate", classes=[0, 1],
        teachers=400, teacher=GaussianNB(), cost_estimate=0.25, seed=1,
    )  # fmt: skip
    charged, estimated, most = (value for name, value in run.metrics.items() if "epsilon" in name)
    assert estimated < charged / 2
    assert most < 0.9 * charged


def test_an_estimate_of_the_cost_is_refused_where_it_makes_no_sense():
    for options, words in (
        ({"rounds": 2}, "cost_estimate goes with one round"),
        ({"diagnostic": True}, "cost_estimate goes with one round"),
        ({"mechanism": "laplace"}, "cost_estimate goes with gnmax"),
        ({"contested": 0.2}, "contested goes without threshold and cost_estimate"),
        ({"cost_estimate": 1.0}, "above 0 and below 1"),
        ({"cost_estimate": 0.0}, "must be above 0"),
        ({"cost_estimate": 0.99}, "leaves too little of epsilon"),
        ({"epsilon": 0.01}, "epsilon must be in"),
    ):
        with pytest.raises(InvalidInput, match=words):
            agreeing(**{"cost_estimate": 0.2, **options})
    with pytest.raises(InvalidInput, match="needs delta above 0"):
        tacit.distill(
            (np.zeros((40, 2)), np.arange(40) % 2), np.ones((9, 2)), 8, method="pate", classes=[0, 1],
            cost_estimate=0.2,
        )  # fmt: skip
