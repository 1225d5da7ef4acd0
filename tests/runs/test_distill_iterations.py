"""Several rounds: the budget is split and paid round by round, and what lies between is made of releases only."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tacit.core.account import Ceiling
from tacit.core.errors import BudgetExceeded, InvalidInput
from tacit.core.spend import Pure
from tacit.datasets.published import digits
from tacit.ledger.memory import MemoryLedger
from tacit.methods.rknn.plan import plan
from tacit.representations.maps import spectral_map
from tacit.representations.registry import ground
from tacit.representations.scaled import Standardized
from tacit.representations.student_features import StudentOdds
from tacit.runs.distill import distill
from tests.sampled import sampled

PARTS = digits()
# Budgets here are chosen to show what rounds do; doubts about them are tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")


def run(**settings):
    given = {"epsilon": 2, "classes": range(10), "iterations": 2, "queries": 20, "representation": "pca", "seed": 1}
    given |= settings
    return distill((PARTS.private_samples, PARTS.private_labels), PARTS.public_samples, **given)


def right(found) -> float:
    return float(np.mean(found.labels == PARTS.public_labels))


def test_every_round_is_paid_for_and_together_they_cost_the_budget():
    found = run(request="mine")
    assert [receipt.request for receipt in found.receipts] == ["mine-1", "mine-2"]
    assert [receipt.spend for receipt in found.receipts] == [Pure(1), Pure(1)]
    assert found.guarantee.epsilon == 2
    assert "round 1 of 2" in found.receipts[0].purpose


def test_shares_split_the_budget_exactly():
    found = run(epsilon="1/3", shares=[1, 3])
    assert [receipt.spend.epsilon for receipt in found.receipts] == [Fraction(1, 12), Fraction(1, 4)]
    assert found.guarantee.epsilon == Fraction(1, 3)


def test_the_same_seed_gives_the_same_rounds():
    first, second = run(), run()
    assert np.array_equal(first.labels, second.labels)
    assert np.array_equal(first.queries, second.queries)


def test_later_queries_lie_in_the_students_vote_space():
    found = run()
    assert found.queries.shape == (20, 10)  # roots of ten class probabilities
    assert run(vote_space="same").queries.shape[1] != 10
    assert run(vote_space="student map").queries.shape[1] == 12


@pytest.mark.parametrize("selection", ["clusters", "diverse", "entropy", "margin"])
def test_every_selection_labels_every_public_sample(selection):
    found = run(epsilon=20, selection=selection, vote_space="same")
    assert found.labels.shape == (500,)
    assert right(found) > 0.8


def test_what_is_not_asked_about_keeps_the_students_word():
    found = run(epsilon=20, selection="margin")
    asked = found.membership >= 0
    assert asked.sum() == 20
    assert right(found) > 0.75


def test_labels_that_spread_over_the_graph_are_no_worse_than_those_of_clusters():
    clusters = [right(run(iterations=1, queries=30, seed=seed)) for seed in range(3)]
    graph = [right(run(iterations=1, queries=30, seed=seed, propagation="graph")) for seed in range(3)]
    assert np.mean(graph) > np.mean(clusters) - 0.01


def test_kept_labels_are_the_surest():
    found = run(iterations=1, queries=30, label_fraction=0.5)
    assert found.student.predict(PARTS.test_samples).shape == (297,)


def test_balanced_connections_cost_the_same():
    found = run(iterations=1, voting_rule="balanced")
    assert found.guarantee.epsilon == 2
    assert right(found) > 0.6


def test_a_crowd_pays_in_every_round():
    found = run(epsilon=16, trust="local", queries=10)
    assert found.guarantee.epsilon == 16
    assert len(found.receipts) == 2


def test_a_repeated_request_pays_nothing_twice_and_gives_the_same_labels():
    book = MemoryLedger({"a": Ceiling(2)})
    first = run(ledger=book, account="a", request="again", seed=None)
    second = run(ledger=book, account="a", request="again", seed=None)
    assert np.array_equal(first.labels, second.labels)
    assert first.receipts == second.receipts


def test_a_budget_for_the_first_round_only_is_refused_before_anything_is_paid():
    book = MemoryLedger({"a": Ceiling("3/2")})
    with pytest.raises(BudgetExceeded):
        run(ledger=book, account="a", seed=None)
    assert book.balance("a").spent.epsilon == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"iterations": 0}, "iterations must be"),
        ({"iterations": 1.5}, "iterations must be"),
        ({"shares": [1]}, "per iteration"),
        ({"shares": [1, 0]}, "a share must be"),
        ({"queries": [10, 20, 30]}, "per iteration"),
        ({"selection": "luck"}, "selection must be one of"),
        ({"vote_space": "mine"}, "vote_space must be one of"),
        ({"propagation": "wide"}, "propagation must be one of"),
        ({"label_fraction": 0}, "label_fraction must be above 0"),
        ({"label_fraction": "all"}, "label_fraction must be above 0"),
        ({"voting_rule": "max-min"}, "voting_rule must be nearest or balanced"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_paid(settings, said):
    book = MemoryLedger({"a": Ceiling(2)})
    with pytest.raises(InvalidInput, match=said):
        run(ledger=book, account="a", seed=None, **settings)
    assert book.balance("a").spent.epsilon == 0


def test_the_plan_shows_every_round():
    chosen = plan(PARTS.public_samples, 10, 1000, 1, iterations=3, shares=[2, 1, 1], representation="pca")
    assert [each.choice.mechanism.spend.epsilon for each in chosen.rounds] == [Fraction(1, 2)] + 2 * [Fraction(1, 4)]
    assert [each.selection for each in chosen.rounds] == ["clusters", "diverse", "diverse"]
    # A larger share affords more queries.
    assert chosen.rounds[0].queries > chosen.rounds[1].queries


def test_odds_do_not_depend_on_company():
    student = run(iterations=1).student
    view = StudentOdds(student, tuple(range(10)))
    together = view.encode(PARTS.test_samples)
    assert np.array_equal(together[:5], view.encode(PARTS.test_samples[:5]))
    assert np.allclose(np.square(together).sum(axis=1), 1, atol=1e-5)


def test_a_student_without_odds_cannot_guide_a_round():
    with pytest.raises(InvalidInput, match="has no probabilities"):
        StudentOdds(object(), ("a",))


def test_the_graph_is_drawn_on_what_a_map_was_made_from():
    rows = PARTS.public_samples.astype(np.float32)
    assert np.array_equal(ground(spectral_map(rows), rows), rows)
    assert ground(Standardized.fit(rows), rows).shape == rows.shape


def test_a_map_of_some_public_samples_spreads_labels_over_all_of_them():
    found = run(iterations=1, queries=20, representation=spectral_map(PARTS.public_samples[::2]), propagation="graph")
    assert found.labels.shape == (500,)


def test_one_class_each_puts_right_what_noise_would_get_wrong():
    """On clusters that are the classes, a crowd's noisy counts read together beat the same counts read one by one."""
    random = np.random.default_rng(0)
    centers = 10 * np.eye(10)
    labels = random.integers(0, 10, 2000)
    private = centers[labels] + random.normal(0, 1, (2000, 10))
    true = random.integers(0, 10, 300)
    public = centers[true] + random.normal(0, 1, (300, 10))

    def share(seed, one_query_per_class):
        found = distill(
            (private, labels), public, 1, classes=range(10), trust="local", queries=10, representation="identity",
            seed=seed, one_query_per_class=one_query_per_class,
        )  # fmt: skip
        return np.mean(found.labels == true)

    together, alone = (np.mean([share(seed, each) for seed in range(5)]) for each in (True, False))
    assert together > alone + 0.1


@pytest.mark.parametrize("settings", [{"queries": 20}, {"iterations": 2, "queries": 10}, {"labels": "proportions"}])
def test_one_class_each_needs_a_query_a_class(settings):
    with pytest.raises(InvalidInput, match="one_query_per_class needs"):
        run(**{"iterations": 1, "queries": 10} | settings, one_query_per_class=True)


@pytest.mark.parametrize(
    ("iterations", "rule"), sampled([(2, "planned"), (2, "adaptive"), (4, "adaptive"), (4, "planned")], 2)
)
def test_rounds_of_gaussian_noise_spend_nearly_all_of_the_budget_together_and_never_more(iterations, rule):
    ledger = MemoryLedger({"clinic": Ceiling(1, "1e-6", rule)})
    found = run(
        epsilon=1, delta="1e-6", labels="soft", mechanism="gaussian", iterations=iterations, ledger=ledger,
        account="clinic",
    )  # fmt: skip
    assert 0.9 < found.guarantee.epsilon <= 1
    assert found.guarantee.delta <= Fraction("1e-6")
    assert len(found.receipts) == iterations


def test_a_stretch_that_ignores_composition_would_be_refused_by_the_ledger():
    """The mutant gives every round the whole budget; an account with that much does not pay for it."""
    ledger = MemoryLedger({"clinic": Ceiling(1, "1e-6", "planned")})
    given = {"epsilon": 1, "delta": "1e-6", "labels": "soft", "mechanism": "gaussian", "ledger": ledger}
    run(iterations=1, account="clinic", request="whole", **given)
    with pytest.raises(BudgetExceeded):
        run(iterations=1, account="clinic", request="again", **given)
