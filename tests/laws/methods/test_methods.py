"""Laws of every method, in one process and through a federation: one parametrized test for each law.

A law knows no method: what is particular to one is in its adapter. Where a law has no meaning for a method, the test
says why and is skipped.
"""

import csv
import json
import math
import re
import warnings
import zipfile
from fractions import Fraction

import numpy as np
import pytest

import tacit
from tacit.core.errors import BudgetExceeded, InvalidInput, TacitError, TacitWarning
from tacit.core.guarantee import PUBLIC_DATA
from tacit.core.spend import DiscreteGaussian, Gaussian
from tacit.encoders.kinds import ENCODER_FILE
from tacit.private.gate import Gate
from tests.laws.methods.adapters import CLASSES, in_file
from tests.laws.methods.collectors import CURATOR
from tests.laws.methods.given import (
    LABELS,
    OVER_BUDGET,
    PRIVATE,
    PUBLIC,
    SAMPLES,
    added_simply,
    every,
    every_case,
    looked_at_before,
    paying,
    plain,
    seeded,
    several_payments,
)
from tests.laws.methods.third_party import added_up

pytestmark = pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")


def funded_later(method):
    if not method.federated or method.may_run_dry:
        return "this is the law of nodes that end a run when they cannot pay"
    return several_payments(method)


@every(only=funded_later)
def test_a_run_that_nodes_could_not_pay_to_the_end_goes_on_when_they_can(method, tmp_path):
    funds = method.funds(Fraction(2 * method.payments - 1, 2 * method.payments))
    with pytest.raises(TacitError, match="cannot pay"):
        method.run(PRIVATE, PUBLIC, funds=funds, folder=tmp_path)
    assert funds.payments() == dict.fromkeys(method.accounts, method.payments - 1)
    funds.ledger.apply(dict.fromkeys(method.accounts, method.ceiling()))
    run = method.run(PRIVATE, PUBLIC, funds=funds, folder=tmp_path)
    assert funds.payments() == dict.fromkeys(method.accounts, method.payments)
    assert len(run.receipts) == method.payments * len(method.accounts)


def several_accounts(method):
    if method.federated:
        return "nodes are sovereign: a run goes on without one that cannot pay, as long as enough can"
    if method.may_run_dry:
        return "holders that cannot pay any more leave, and the others go on: that is the law of running dry"
    return paying(method) or (None if len(method.accounts) > 1 else "one account pays")


def spending_delta(method):
    return paying(method) or (None if method.delta_options is not None else "it spends no delta")


def with_epsilon(method):
    return None if method.epsilon is not None else "it states no epsilon"


@every(only=looked_at_before)
def test_an_account_that_cannot_pay_to_the_end_pays_nothing(method, tmp_path):
    funds = method.funds(Fraction(2 * method.payments - 1, 2 * method.payments))
    with pytest.raises(BudgetExceeded, match="account"):
        method.run(PRIVATE, PUBLIC, funds=funds)
    assert set(funds.payments().values()) == {0}


@every(only=several_accounts)
def test_where_one_account_cannot_pay_none_pays(method, tmp_path):
    funds = method.funds()
    funds = type(funds)(funds.ceilings | {method.accounts[-1]: method.ceiling(Fraction(1, 10))})
    with pytest.raises(BudgetExceeded, match=method.accounts[-1]):
        method.run(PRIVATE, PUBLIC, funds=funds)
    assert set(funds.payments().values()) == {0}


def running_dry(method):
    return None if method.may_run_dry else "who cannot pay ends the run"


@every(only=running_dry)
def test_holders_that_cannot_pay_any_more_leave_and_what_was_paid_is_not_lost(method):
    funds = method.funds()
    poor = method.ceiling(Fraction(2 * method.payments - 1, 2 * method.payments))
    funds = type(funds)(funds.ceilings | {method.accounts[-1]: poor})
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run = method.run(PRIVATE, PUBLIC, funds=funds)
    assert funds.payments() == dict.fromkeys(method.accounts, method.payments) | {
        method.accounts[-1]: method.payments - 1
    }
    assert len(run.receipts) == sum(funds.payments().values())
    assert run.metrics["exhausted"] == 1
    # Who coordinates nodes cannot know beforehand; their own operators are told.
    said = [str(each.message) for each in told if "will drop out: holder 2" in str(each.message)]
    assert len(said) == (0 if method.federated else 1)


@every(only=paying)
def test_over_budget_is_refused_and_nothing_is_charged(method, tmp_path):
    funds = method.funds(Fraction(1, 10))
    # A coordinator hears from its nodes that they cannot pay, and no more.
    with pytest.raises(TacitError if method.federated else BudgetExceeded, match=OVER_BUDGET):
        method.run(PRIVATE, PUBLIC, funds=funds)
    assert set(funds.payments().values()) == {0}


@every()
def test_classes_that_were_read_off_the_labels_are_admitted_or_asked_for(method):
    try:
        said = str(method.run(PRIVATE, PUBLIC, classes=None, seed=1).guarantee)
    except InvalidInput as error:
        said = str(error)
    assert re.search("the list of classes was read from the private labels|classes must be (a list|given)", said)
    assert "read off" not in str(seeded(method.name).guarantee)


def counted(method):
    if method.adjacency != "replace-one":
        return "how many records there are is private, and a statement that depended on it would tell"
    return spending_delta(method)


@every(only=counted)
def test_a_delta_that_protects_nobody_is_admitted(method):
    units = method.units(PRIVATE)
    with pytest.warns(TacitWarning, match="delta is not below one over the number of"):
        run = method.run(PRIVATE, PUBLIC, delta=Fraction(3, 2 * units), seed=1, **method.delta_options)
    assert run.guarantee.delta * units >= 1
    assert "delta is not below one over the number of" in str(run.guarantee)


@every(only=spending_delta)
def test_a_small_delta_is_not_admitted_to(method):
    assert "delta is not below" not in str(seeded(method.name, "1e-3").guarantee)


def copied(yes):
    """The records, of which the first is a copy of a public one, or a hair beside it."""
    samples = SAMPLES.copy()
    samples[0] = PUBLIC[0] if yes else PUBLIC[0] + 1e-9
    return samples, LABELS


@every()
def test_a_statement_says_the_same_of_public_data_whether_there_are_copies_or_not(method):
    one, other = (method.run(copied(each), PUBLIC, seed=1) for each in (True, False))
    assert str(one.guarantee) == str(other.guarantee)
    assert str(one.guarantee).count(PUBLIC_DATA) == 1
    assert one.recipe == other.recipe


def in_process(method):
    return "who runs it sees no record" if method.federated else None


@every(only=in_process)
def test_copies_are_told_to_the_operator_before_anything_is_paid(method, tmp_path):
    funds = None if paying(method) else method.funds()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="1 public row is an exact copy of a private one")
        with pytest.raises(TacitWarning, match="1 public row is an exact copy of a private one"):
            method.run(copied(yes=True), PUBLIC, funds=funds)
    assert funds is None or set(funds.payments().values()) == {0}


@every(only=added_simply)
def test_the_statement_is_what_the_receipts_come_to(method, tmp_path):
    funds = method.funds()
    run = method.run(PRIVATE, PUBLIC, funds=funds)
    paid = dict.fromkeys(method.accounts, (Fraction(0), Fraction(0)))
    for receipt in run.receipts:
        epsilon, delta = added_up(receipt.spend)
        paid[receipt.account] = paid[receipt.account][0] + epsilon, paid[receipt.account][1] + delta
    assert len(run.receipts) == method.payments * len(method.accounts)
    assert funds.payments() == dict.fromkeys(method.accounts, method.payments)
    said = getattr(run, "guarantees", None) or {"the weakest": run.guarantee}
    worst = max(paid.values())
    for account, claim in {**said, "the weakest": run.guarantee}.items():
        epsilon, delta = paid.get(account, worst)
        if method.epsilon is None:
            assert claim.probability == delta
            continue
        assert (claim.epsilon, claim.delta) == (epsilon, delta)
        assert claim.unit == method.unit
        assert claim.epsilon <= method.epsilon
        assert not claim.simulation
    if method.epsilon is not None:
        assert max(funds.spent().values()) == run.guarantee.epsilon


def gaussian(method):
    return spending_delta(method) or (None if method.gaussian else "its delta is not that of Gaussian noise")


@every(only=gaussian)
def test_a_statement_about_gaussian_noise_is_what_gaussian_noise_is_worth(method):
    run = seeded(method.name, "1e-3")
    account = run.receipts[0].account
    spends = [each.spend for each in run.receipts if each.account == account]
    assert all(isinstance(each, DiscreteGaussian | Gaussian) for each in spends)
    # All shifts at once: not below the exact δ(ε) of one Gaussian (Balle and Wang, 2018), but for what integers change,
    # and not above what zero-concentrated differential privacy gives (Bun and Steinke, 2016).
    shift = math.sqrt(sum(
        each.noise_multiplier**-2 if isinstance(each, Gaussian) else each.squared_shift / each.sigma**2
        for each in spends
    ))  # fmt: skip
    epsilon, delta = float(run.guarantee.epsilon), float(run.guarantee.delta)
    assert delta == 1e-3
    exact = _normal(shift / 2 - epsilon / shift) - math.exp(epsilon) * _normal(-shift / 2 - epsilon / shift)
    assert exact <= 1.01 * delta
    assert epsilon <= 1.0001 * (shift**2 / 2 + math.sqrt(2 * shift**2 * math.log(1 / delta)))


def _normal(at):
    return math.erfc(-at / math.sqrt(2)) / 2


@every()
def test_labels_student_statement_and_recipe_are_written(method, tmp_path):
    run = plain(method.name)
    run.save(tmp_path / "run")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["recipe"] == json.loads(json.dumps(run.recipe))
    assert record["recipe"]["method"]
    assert record["recipe"]["trust"] == method.trust
    assert record["guarantee"]["statement"] == str(run.guarantee)
    assert len(record["receipts"]) == len(run.receipts)
    assert (tmp_path / "run" / record["student"]).is_file()
    with (tmp_path / "run" / "labels.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    several = np.ndim(run.labels) > 1
    assert head[1 : 1 + len(CLASSES)] == [f"label {name}" for name in CLASSES] if several else head[1] == "label"
    assert [int(row[0]) for row in rows] == list(range(len(PUBLIC)))
    assert len(run.labels) == len(PUBLIC)
    wanted = [list(map(str, map(int, row))) for row in run.labels] if several else [[str(each)] for each in run.labels]
    assert [row[1 : 1 + len(wanted[0])] for row in rows] == wanted


@every()
def test_a_run_is_saved_loaded_and_predicts_as_before(method, tmp_path):
    run = plain(method.name)
    again = tacit.load(run.save(tmp_path / "run"))
    assert again.student.predict(SAMPLES).tolist() == run.student.predict(SAMPLES).tolist()
    assert again.labels.tolist() == run.labels.tolist()
    assert again.guarantee == run.guarantee
    assert str(again.guarantee) == str(run.guarantee)
    assert again.receipts == run.receipts
    assert again.recipe == json.loads(json.dumps(run.recipe))


class Killed(BaseException):
    """Not an error that anybody may catch."""


def killed_here(moment, method):
    if moment == LAST and CURATOR in method.accounts:
        return "the last payment is the curator's, in its service (tests/federation/flower/test_summed_collected.py)"
    return paying(method)


FIRST, LAST = "after the first payment", "before the last one"


@every_case([FIRST, LAST], killed_here)
def test_a_run_that_was_killed_goes_on_and_nothing_is_paid_twice(method, tmp_path, monkeypatch, case):
    funds = method.funds()
    alone, count = Gate.release, 0

    def dying(self, *given, **more):
        nonlocal count
        count += 1
        if case == LAST and count == method.payments * len(method.accounts):
            raise Killed
        release = alone(self, *given, **more)
        if case == FIRST:
            raise Killed
        return release

    with monkeypatch.context() as patch:
        patch.setattr(Gate, "release", dying)
        with pytest.raises(Killed):
            method.run(PRIVATE, PUBLIC, funds=funds, folder=tmp_path / "rounds")
    before = sum(funds.payments().values())
    assert before == (1 if case == FIRST else method.payments * len(method.accounts) - 1)
    run = method.run(PRIVATE, PUBLIC, funds=funds, folder=tmp_path / "rounds")
    assert funds.payments() == dict.fromkeys(method.accounts, method.payments)
    assert len({each.digest for each in run.receipts}) == method.payments * len(method.accounts)
    again = method.run(PRIVATE, PUBLIC, funds=funds, folder=tmp_path / "rounds")
    assert funds.payments() == dict.fromkeys(method.accounts, method.payments)
    assert set(again.receipts) == set(run.receipts)


@every(only=paying)
def test_a_seeded_run_says_simulation_everywhere(method, tmp_path):
    run = seeded(method.name)
    assert all(each.simulated for each in run.receipts)
    assert run.guarantee.simulation
    assert str(run.guarantee).startswith("SIMULATION")
    assert "simulation" in run.recipe["randomness"]
    for file in run.save(tmp_path / "run").rglob("*"):
        # An encoder is fitted on public samples alone, so there is no simulation in it.
        if file.is_file() and file.name != ENCODER_FILE:
            assert "simulat" in file.name or _says_simulation(file), file.name


def _says_simulation(file):
    if not zipfile.is_zipfile(file):
        return "simulat" in file.read_text().lower()
    with np.load(file) as archive:
        return bool(archive["simulation"])


@every()
def test_the_same_seed_gives_the_same_run(method):
    one, other = seeded(method.name), method.run(PRIVATE, PUBLIC, seed=1)
    assert [each.spend for each in one.receipts] == [each.spend for each in other.receipts]
    assert str(one.guarantee) == str(other.guarantee)
    assert one.recipe == other.recipe
    learned = [_learned(each) for each in (one, other)]
    assert learned[0] == learned[1] != []


def _learned(run):
    """What a run brought: labels and a student, of which every method has one or both."""
    labels, student = getattr(run, "labels", None), getattr(run, "student", None)
    return [each.tolist() for each in (labels, student and student.predict(SAMPLES)) if each is not None]


@every(only=paying)
def test_a_seeded_run_pays_from_no_real_ledger(method, tmp_path):
    funds = method.funds(make=in_file(tmp_path))
    with pytest.raises(InvalidInput, match="simulation"):
        method.run(PRIVATE, PUBLIC, funds=funds, seed=1)
    assert set(funds.payments().values()) == {0}
