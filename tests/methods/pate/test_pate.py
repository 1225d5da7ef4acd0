"""Teachers vote, the gate adds noise, and what one teacher can move is what is charged."""

import itertools
import json
import warnings
from collections import Counter
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import tacit
from tacit.accounting.calibrate import screened_sigma
from tacit.accounting.compose import total
from tacit.accounting.rdp import epsilon_of
from tacit.core.account import Ceiling, Rule
from tacit.core.errors import BudgetExceeded, InvalidInput, TacitWarning, ToleranceExceeded
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.randomness import SeededRandomness
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.central.pate import ConfidentScreen, GNMax, LNMax
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.methods.pate.coordinator import TeacherCoordinator
from tacit.methods.pate.holder import TeacherHolder, rows_per_teacher
from tacit.methods.pate.method import copied_estimator
from tacit.methods.pate.wire import TeacherAsk, teacher_sensitivity
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.runs.drive import drive
from tests.local_exchange import local_exchange

PUBLIC = np.array([[0.0], [1.0], [2.0]])


class Constant:
    """A teacher that says what its first record says."""

    def fit(self, X, y, sample_weight=None):
        self.label = y[0]
        return self

    def predict(self, X):
        return np.full(len(X), self.label)


def records(label, persons=None):
    return Private(Records(np.zeros((2, 1)), np.full(2, label), persons))


def holder(labels, ceiling=10, seed=1):
    gate = Gate(MemoryLedger({"curator": Ceiling(ceiling)}), "curator", SeededRandomness(seed))
    return TeacherHolder([records(each) for each in labels], gate, Constant)


@pytest.mark.parametrize("mechanism", [LNMax(1, 3), PermuteAndFlip("1/2", 6)])
def test_the_majority_of_teachers_is_learned(mechanism):
    coordinator = TeacherCoordinator(PUBLIC, "abc", mechanism, "r-1")
    release = drive(coordinator, local_exchange([holder([2] * 40 + [0] * 5)]))
    assert release.value.labels.tolist() == [2, 2, 2]
    assert (release.value.votes is None) == isinstance(mechanism, PermuteAndFlip)
    assert [each.account for each in release.receipts] == ["curator"]


def test_votes_of_several_holders_are_added_up():
    coordinator = TeacherCoordinator(PUBLIC, "abc", LNMax(1, 3), "r-1")
    release = drive(coordinator, local_exchange([holder([1] * 30), holder([1] * 30, seed=2), holder([0] * 20, seed=3)]))
    assert release.value.labels.tolist() == [1, 1, 1]
    assert abs(release.value.votes - [20, 60, 0]).max() < 30
    assert len(release.receipts) == 3
    labels = TeacherCoordinator(PUBLIC, "abc", PermuteAndFlip("1/2", 6), "r-2")
    seen = drive(labels, local_exchange([holder([1] * 30), holder([1] * 30, seed=2), holder([0] * 30, seed=3)]))
    assert seen.value.labels.tolist() == [1, 1, 1]


@given(st.lists(st.integers(0, 2), min_size=1, max_size=5), st.data())
def test_one_teacher_moves_the_votes_no_further_than_is_said(labels, data):
    other = list(labels)
    other[data.draw(st.integers(0, len(labels) - 1))] = data.draw(st.integers(0, 2))
    tables = [np.tile(np.bincount(each, minlength=3), (3, 1)) for each in (labels, other)]
    moved = np.abs(tables[0] - tables[1])
    said = teacher_sensitivity(3)
    assert moved.sum() <= said.l1
    assert (moved**2).sum() <= said.l2_squared
    assert moved.max() <= said.linf


def test_noise_for_fewer_samples_is_refused_and_nothing_is_charged():
    asked = holder([0, 1])
    with pytest.raises(ToleranceExceeded, match="l1"):
        asked.answer(TeacherAsk(PUBLIC, ("a", "b"), LNMax(1, 2), "votes", "r-1"))
    assert len(asked.answer(TeacherAsk(PUBLIC, ("a", "b"), LNMax(1, 3), "votes", "r-1")).receipts) == 1


def test_a_spent_account_is_refused_and_a_retry_is_replayed():
    asked = holder([0, 1], ceiling=6)
    ask = TeacherAsk(PUBLIC, ("a", "b"), LNMax(1, 3), "votes", "r-1")
    first = asked.answer(ask)
    assert first.receipts[0].spend.spend.epsilon == Fraction(1)
    assert np.array_equal(asked.answer(ask).value, first.value)
    with pytest.raises(BudgetExceeded):
        asked.answer(TeacherAsk(PUBLIC, ("a", "b"), LNMax(1, 3), "votes", "r-2"))


class Broken(Constant):
    """A teacher that cannot be trained, or cannot be asked."""

    def __init__(self, step):
        self.step = step

    def fit(self, X, y, sample_weight=None):
        if self.step == "fit":
            raise ValueError(f"secret {y}")
        return super().fit(X, y)

    def predict(self, X):
        if self.step == "raise":
            raise ValueError(f"secret {self.label}")
        return np.full((1, 1) if self.step == "shape" else len(X), 7)


@pytest.mark.parametrize("step", ["fit", "raise", "shape", "label"])
def test_a_teacher_that_cannot_answer_does_not_vote_and_pays_as_any_other(step):
    ledger = MemoryLedger({"curator": Ceiling(10**6)})
    both = Private(Records(np.zeros((2, 1)), np.array([0, 1])))
    teachers = iter([Broken(step), Constant(), Constant()])
    asked = TeacherHolder([both] * 3, Gate(ledger, "curator", SeededRandomness(1)), lambda: next(teachers))
    votes = asked.answer(TeacherAsk(PUBLIC, ("a", "b"), LNMax(1000, 3), "votes", "r-1"))
    assert votes.value.tolist() == [[2, 0]] * 3
    assert ledger.balance("curator").payments == 1


def test_a_teacher_whose_records_are_all_of_one_class_votes_for_it():
    ledger = MemoryLedger({"curator": Ceiling(10**6)})
    asked = TeacherHolder([records(1)], Gate(ledger, "curator", SeededRandomness(1)), LogisticRegression)
    votes = asked.answer(TeacherAsk(PUBLIC, ("a", "b"), LNMax(1000, 3), "votes", "r-1"))
    assert votes.value.tolist() == [[0, 1]] * 3


def test_samples_of_another_shape_are_refused_before_payment():
    ledger = MemoryLedger({"curator": Ceiling(9)})
    asked = TeacherHolder([records(0)], Gate(ledger, "curator", SeededRandomness(1)), Constant)
    with pytest.raises(InvalidInput, match="another shape than the records; nothing was charged"):
        asked.answer(TeacherAsk(np.zeros((3, 2)), ("a", "b"), LNMax(1, 3), "votes", "r-1"))
    assert ledger.balance("curator").payments == 0


def test_persons_are_not_spread_over_teachers():
    gate = Gate(MemoryLedger({"curator": Ceiling(9, unit=Unit.person("patient", 2))}), "curator")
    ada, bob = np.array(["ada", "ada"]), np.array(["bob", "bob"])
    TeacherHolder([records(0, ada), records(1, bob)], gate, Constant)
    with pytest.raises(InvalidInput, match="at several teachers"):
        TeacherHolder([records(0, ada), records(1, ada)], gate, Constant)
    with pytest.raises(InvalidInput, match="person column"):
        TeacherHolder([records(0, ada), records(1)], gate, Constant)


def test_wrong_use_is_explained():
    with pytest.raises(InvalidInput, match="at least one teacher"):
        holder([])
    with pytest.raises(InvalidInput, match="gives no labels"):
        TeacherCoordinator(PUBLIC, "abc", ConfidentScreen(4, 2, 3), "r-1")
    with pytest.raises(InvalidInput, match="at least 2 classes"):
        TeacherCoordinator(PUBLIC, "a", GNMax(4, 3), "r-1")
    with pytest.raises(InvalidInput, match="at least one sample"):
        TeacherAsk(PUBLIC[:0], ("a", "b"), GNMax(4, 3), "votes", "r-1")
    with pytest.raises(InvalidInput, match="does not answer through"):
        holder([0]).answer(TeacherAsk(PUBLIC, ("a", "b"), object(), "votes", "r-1"))
    coordinator = TeacherCoordinator(PUBLIC, "abc", GNMax(4, 3), "r-1")
    with pytest.raises(InvalidInput, match="no answer yet"):
        coordinator.result(coordinator.begin())
    with pytest.raises(InvalidInput, match="no teacher answered"):
        coordinator.fold(coordinator.begin(), [])
    with pytest.raises(InvalidInput, match="queries must be at least 1"):
        teacher_sensitivity(0)


class Scripted:
    """Randomness that is told: these words, and zeros after them."""

    origin = "scripted"

    def __init__(self, words):
        self.told = words

    def words(self, count):
        return np.array([*self.told, *[0] * count][:count], dtype=np.uint64)


def divisions(names, adjacency, scripts):
    """Who teaches whom, over all draws: how often each division comes up."""
    found = Counter()
    for words in scripts:
        rows = np.array([name for name in names for _ in range(2)])
        own = Records(np.zeros((len(rows), 1)), np.zeros(len(rows), dtype=np.int64), rows)
        parts = rows_per_teacher(own, 2, adjacency, Scripted(words))
        found[frozenset((name, place) for place, part in enumerate(parts) for name in rows[part].tolist())] += 1
    return found


def without(found, name):
    """The same divisions of all others but this person."""
    left = Counter()
    for division, times in found.items():
        left[frozenset(each for each in division if each[0] != name)] += times
    return left


def test_a_replaced_person_changes_one_teacher_whatever_its_name():
    """Over all draws: the others are divided the same way, and who came is where the one who went would have been."""
    orders = list(itertools.permutations(range(4)))
    before = divisions(["bob", "cy", "dan", "eve"], Adjacency.REPLACE_ONE, orders)
    after = divisions(["bob", "cy", "dan", "ada"], Adjacency.REPLACE_ONE, orders)
    assert len(before) == 6
    assert Counter({frozenset(("ada" if n == "eve" else n, t) for n, t in d): c for d, c in before.items()}) == after
    # Nobody is spread over teachers, and they get equally many.
    assert all(len(division) == 4 and sum(place for _, place in division) == 2 for division in before)


def test_a_person_more_changes_one_teacher():
    fewer = divisions(["bob", "cy"], Adjacency.ADD_REMOVE, itertools.product(range(2), repeat=2))
    more = divisions(["ada", "bob", "cy"], Adjacency.ADD_REMOVE, itertools.product(range(2), repeat=3))
    assert {each: 2 * times for each, times in fewer.items()} == without(more, "ada")


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
    with pytest.raises(InvalidInput, match="one changed label would move records of others"):
        taught(holders=tacit.Partition(4, way, alpha=5))


def test_where_holders_bring_their_records_it_is_said_that_they_are_known():
    halves = {name: (np.arange(40.0)[:, None] + 40 * place, np.arange(40) % 2) for place, name in enumerate("ab")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = tacit.distill(halves, PUBLIC, 50, method="pate", classes=[0, 1])
    assert "which holder has a record or a person is public" in json.dumps(run.guarantee.to_json())
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
    assert epsilon_of(rho, 1e-5) == pytest.approx(2.757885, abs=1e-6)
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
    monkeypatch.setattr("tacit.runs.timing.clock", lambda: 0.0)
    plain = taught_by(queries=10)
    with pytest.warns(TacitWarning, match=r"diagnostic, private and not written: by these votes 10 answers") as said:
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
        ({"threshold": 0.5, "mechanism": "lnmax"}, "goes with gaussian noise, not lnmax"),
        ({"threshold": 0.5, "rounds": 2}, "a screen goes with one round"),
        ({"answers": 5}, "give a threshold with it"),
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


@pytest.mark.filterwarnings("ignore:all labels are the same", "ignore:delta is not below")
def test_holders_that_are_teachers_are_protected_whole():
    given = {"delta": "1e-5", "classes": range(3), "method": "pate", "unit": Unit.whole_holder(), "queries": 5}
    run = tacit.distill(parts_of_four(), WIDE, 5, seed=1, **given)
    assert run.guarantee.unit == Unit.whole_holder()
    assert run.recipe["teachers"] == 4
