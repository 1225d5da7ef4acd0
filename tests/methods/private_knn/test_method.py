"""Private k-NN from options to labels: what it solves, what it refuses, and what it makes of the votes."""

from fractions import Fraction

import numpy as np
import pytest

import tacit
from tacit.core.errors import InvalidInput, TacitWarning
from tacit.core.guarantee import Unit
from tacit.core.spend import Repeated, Subsampled
from tacit.mechanisms.central import private_knn
from tacit.mechanisms.central.private_knn import Sampling, SubsampledGNMax, SubsampledScreen
from tacit.runs.task import Partition

pytestmark = pytest.mark.filterwarnings("ignore:delta is not below")

CENTERS = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
RNG = np.random.default_rng(0)
LABELS = np.arange(600) % 3
SAMPLES = CENTERS[LABELS] + RNG.normal(size=(600, 2))
TRUTH = np.arange(90) % 3
PUBLIC = CENTERS[TRUTH] + RNG.normal(size=(90, 2))


def distill(epsilon=2, **options):
    given = {"delta": "1e-5", "classes": range(3), "seed": 1, "method": "private_knn", "queries": 10, "neighbors": 20}
    return tacit.distill((SAMPLES, LABELS), PUBLIC, epsilon, **{**given, **options})


def test_labels_are_those_of_the_neighbors_and_the_budget_is_used_up():
    run = distill()
    assert (run.labels == TRUTH).mean() > 0.95
    assert 1.99 < run.guarantee.epsilon <= 2
    (receipt,) = run.receipts
    assert isinstance(receipt.spend, Repeated)
    assert receipt.spend.count == 10
    assert receipt.spend.spend == Subsampled("0.15", receipt.spend.spend.spend, replace_one=True)
    assert run.arrays["votes"].shape == (10, 3)
    assert len(run.arrays["answered"]) == 10


@pytest.mark.parametrize("options", [{}, {"threshold": 0.5, "answers": 4}], ids=["votes", "screen"])
def test_the_noise_and_the_sample_are_what_is_accounted(options, monkeypatch):
    """One object: what is charged is the spend of the mechanisms that drew, with their σ, rate and queries."""
    used, drawn, sampled = [], [], []

    def noted(owner, name, told):
        own = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given: (told(*given), own(*given))[1])

    for mechanism in (SubsampledGNMax, SubsampledScreen):
        noted(mechanism, "sample", lambda self, *_: used.append(self))
    noted(private_knn, "rounded_gaussian_integers", lambda sigma, count, _: drawn.append((sigma, count)))
    noted(Sampling, "heads", lambda self, *_: sampled.append(self))
    run = distill(4, **options)
    spends = [receipt.spend for receipt in run.receipts]
    assert spends == [each.spend for each in used]
    assert [type(each) for each in used] == [SubsampledScreen, SubsampledGNMax][-len(used) :]
    columns = [3 if type(each) is SubsampledGNMax else 1 for each in used]
    assert drawn == [(each.sigma, each.queries * classes) for each, classes in zip(used, columns, strict=True)]
    # Every query has one sample of its own, at the rate that is charged.
    assert sampled == [each.sampling for each in used for _ in range(each.queries)]
    assert [each.rate for each in used] == [spend.spend.rate for spend in spends] == [Fraction("0.15")] * len(used)
    assert [each.queries for each in used] == [spend.count for spend in spends]


@pytest.mark.parametrize("holders", [5, Partition(5, "dirichlet"), Partition(3, "class")])
def test_records_are_not_put_in_an_order_that_others_decide(holders):
    """Of equally near records the first vote: a division that depends on all records could exchange all of them."""
    with pytest.raises(InvalidInput, match="leave out holders"):
        distill(holders=holders)
    parties = {"north": (SAMPLES[:300], LABELS[:300]), "south": (SAMPLES[300:], LABELS[300:])}
    run = tacit.distill(parties, PUBLIC, 2, delta="1e-5", classes=range(3), seed=1, method="private_knn", queries=10)
    assert (run.labels == TRUTH).mean() > 0.9


def test_under_add_remove_it_costs_a_little_less_noise():
    replaced, added = distill(), distill(adjacency="add-remove")
    assert added.receipts[0].spend.spend.replace_one is False
    assert 0.9 < added.recipe["sigma"] / replaced.recipe["sigma"] < 1


def test_what_is_not_said_is_chosen_from_public_figures():
    run = distill(queries=None, neighbors=None)
    assert run.recipe["neighbors"] == 30
    assert 3 <= run.recipe["queries"] <= 90
    assert run.recipe["neighbors"] >= 4 * run.recipe["sigma"]


def test_a_screen_pays_first_and_those_that_pass_are_answered_before_others():
    run = distill(epsilon=4, threshold=0.5, answers=4)
    screen, votes = run.receipts
    assert (screen.request.endswith("-screen"), screen.spend.count, votes.spend.count) == (True, 10, 4)
    assert run.arrays["votes"].shape == (4, 3)
    assert run.guarantee.epsilon <= 4
    assert len(run.labels) == 90


def test_a_run_of_which_nothing_passes_pays_the_same_and_is_not_lost():
    one, other = (distill(epsilon=9, threshold=each, neighbors=89) for each in (1.0, 0.01))
    assert (one.arrays["passed"].any(), other.arrays["passed"].all()) == (False, True)
    assert [each.spend for each in one.receipts] == [each.spend for each in other.receipts]
    assert one.arrays["votes"].shape == (5, 3)
    assert set(one.labels) == {0, 1, 2}


def test_a_record_pays_for_its_own_participations_only():
    run = distill(adjacency="add-remove", participations=3, reach=0.2)
    everywhere = distill(adjacency="add-remove")
    assert run.receipts[0].spend.count == 3
    assert run.recipe["sigma"] < 0.85 * everywhere.recipe["sigma"]
    assert (run.labels == TRUTH).mean() > 0.9


def test_persons_are_called_with_all_their_records():
    run = distill(persons=np.arange(600) // 2, unit=Unit.person("patient", 2))
    multiplier = run.receipts[0].spend.spend.spend.noise_multiplier
    assert Fraction(run.recipe["sigma"]) / multiplier == pytest.approx(8**0.5)
    assert run.guarantee.unit == Unit.person("patient", 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delta": 0}, "needs a delta above 0, for example 1e-6; got 0"),
        ({"rate": 0.0}, "rate must be above 0 and at most 1, got 0.0"),
        ({"rate": 1.5}, "rate must be above 0 and at most 1, got 1.5"),
        ({"neighbors": 90}, "neighbors must be below the expected number of sampled records, 90"),
        ({"neighbors": 0}, "neighbors must be at least 1, got 0"),
        ({"queries": 91}, "queries must be between 1 and the 90 distinct public samples, got 91"),
        ({"trust": "local"}, "no local mechanism: the nearest records are found among all sampled records"),
        ({"trust": "shuffle"}, "no shuffle mechanism"),
        ({"trust": "masked"}, "give exchange=tacit.Nodes(...), and a method that has it: rknn, auto"),
        ({"answers": 3}, "give threshold too"),
        ({"threshold": 1.2}, "threshold must be above 0 and at most 1, got 1.2"),
        ({"participations": 2}, "give adjacency add-remove, or leave it out"),
        ({"adjacency": "add-remove", "queries": None}, "under add-remove the number of records is private"),
        ({"neighbors": 3, "neighbours": 3}, "unknown option 'neighbours' of PrivateKNN; did you mean 'neighbors'?"),
    ],
)
def test_what_is_wrong_is_said(options, said):
    with pytest.raises(InvalidInput) as refused:
        distill(**options)
    assert said in str(refused.value)


def test_what_depends_on_the_number_of_records_is_on_the_operators_screen():
    with pytest.warns(TacitWarning, match="neighbors must be below the expected number of sampled records, 90"):
        run = distill(adjacency="add-remove", neighbors=200)
    with pytest.warns(TacitWarning, match="neighbors must be below the expected number of sampled records, 15"):
        few = tacit.distill(
            (SAMPLES[:100], LABELS[:100]), PUBLIC, 2, delta="1e-5", classes=range(3), seed=1, method="private_knn",
            queries=10, neighbors=200, adjacency="add-remove",
        )  # fmt: skip
    assert few.recipe == run.recipe
    assert str(few.guarantee) == str(run.guarantee)
    with pytest.warns(TacitWarning, match="delta is not below one over the number of records"):
        distill(delta="0.01")
