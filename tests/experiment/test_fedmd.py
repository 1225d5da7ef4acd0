"""Whole federations on scikit-learn's digits: different models together, every variant, what is claimed and refused."""

import warnings

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from tacit.core.errors import InvalidInput, TacitWarning
from tacit.core.guarantee import Unit
from tacit.core.spend import Stability
from tacit.datasets.digits import digits
from tacit.experiment.fedmd import federate
from tacit.experiment.fedmd_data import StandIn, shared_out
from tacit.experiment.fedmd_models import MIXED, MODELS
from tacit.experiment.fedmd_pooled import centralized
from tacit.ledger.sqlite import SqliteLedger
from tacit.methods.fedmd.exposure import Exposure, WeakPrivacyWarning
from tacit.methods.fedmd.study import Schedule

PARTS = digits()
PUBLIC = PARTS.public_samples.reshape(-1, 8, 8)
TEST = (PARTS.test_samples.reshape(-1, 8, 8), PARTS.test_labels)
DATA = StandIn(
    "digits",
    PARTS.private_samples.reshape(-1, 8, 8),
    PARTS.private_labels,
    np.arange(1000) % 7,
    PUBLIC,
    PARTS.public_labels,
    TEST,
    tuple(range(10)),
)
QUICK = {"classes": range(10), "rounds": 2, "queries": 100, "schedule": Schedule(own=8, digest=2, revisit=1)}
SHORT = Schedule(own=1, digest=1, revisit=1)


def run(variant, parties=None, **options):
    parties = shared_out(DATA, 5) if parties is None else parties
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPrivacyWarning)
        return federate(parties, PUBLIC, variant, **{**QUICK, "seed": 1, **options})


def test_models_of_five_kinds_learn_from_each_other():
    # Most parties lack some classes; only the others can teach them.
    parties = shared_out(DATA, 5, "dirichlet")
    made = run("np", parties, test=TEST, rounds=3, queries=300)
    assert made.models == MIXED
    assert {"two-convolutions", "three-convolutions", "perceptron", "forest"} <= set(made.models)
    assert made.accuracies.shape == (4, 5)
    assert made.after > made.before + 0.08
    assert all(receipt.spend == Stability(1) for receipt in made.receipts)
    assert str(made.claim).startswith("NO PRIVACY AT ALL")


@pytest.mark.parametrize("kind", ["argmax", "softmax", "logits"])
def test_every_kind_of_answer_and_weights(kind):
    made = run("np", kind=kind, weights="agreement", models=["perceptron", "forest"], test=TEST, rounds=1)
    assert made.after > 0.7
    assert made.history[0].logits == (kind == "logits")
    again = run("np", kind=kind, weights=(1, 0, 0, 0, 0), models=["perceptron", "forest"], rounds=1)
    assert (again.history[0].targets != made.history[0].targets).any()


def test_a_seed_gives_the_same_federation():
    one, same, other = (run("nfdp", subset=40, test=TEST, seed=seed, schedule=SHORT) for seed in (3, 3, 4))
    assert (one.accuracies == same.accuracies).all()
    assert (one.history[1].targets == same.history[1].targets).all()
    assert (one.accuracies != other.accuracies).any()
    assert one.claim.simulation


@pytest.mark.parametrize("options", [{}, {"replacement": False}, {"per_class": True}])
def test_nfdp_states_stability_and_warns(options):
    with pytest.warns(WeakPrivacyWarning, match="NOT DIFFERENTIAL PRIVACY IN THE USUAL SENSE"):
        made = federate(
            shared_out(DATA, 2),
            PUBLIC,
            "nfdp",
            subset=50,
            models=["forest"],
            seed=1,
            **{**QUICK, "rounds": 1},
            **options,
        )
    assert isinstance(made.claim, Exposure)
    assert [receipt.spend.delta for receipt in made.receipts] == [claim.probability for claim in made.claims]
    match options:
        case {"replacement": False}:
            assert float(made.claim.probability) == 0.1
        case {"per_class": True}:
            assert "class sizes are taken to be public" in str(made.claim)
        case _:
            assert float(made.claim.probability) == pytest.approx(1 - (1 - 1 / 500) ** 50)


def test_no_privacy_warns():
    with pytest.warns(WeakPrivacyWarning, match="NO PRIVACY AT ALL"):
        federate(shared_out(DATA, 2), PUBLIC, "np", models=["forest"], **{**QUICK, "rounds": 1})
    with pytest.warns(WeakPrivacyWarning, match="NO PRIVACY AT ALL"):
        found = centralized(shared_out(DATA, 2), PUBLIC, TEST, classes=range(10), models=["forest", "perceptron"])
    assert len(found) == 2
    assert min(found) > 0.85


@pytest.mark.parametrize(
    ("variant", "options", "unit"),
    [
        ("ldp", {"kind": "softmax"}, Unit.whole_holder()),
        ("ldp", {"delta": "1e-5"}, Unit.whole_holder()),
        ("response", {}, Unit.whole_holder()),
        ("response", {"delta": "1e-5", "mechanism": "generalized-response"}, Unit.whole_holder()),
        ("rknn", {}, Unit()),
    ],
)
def test_guaranteed_variants_spend_the_same_total(variant, options, unit):
    made = run(variant, epsilon=3, models=[DecisionTreeClassifier()], queries=20, **options)
    for claim in made.claims:
        assert 3 * (1 - 1e-3) < claim.epsilon <= 3
        assert claim.unit == unit
        assert claim.simulation
        assert any("stay with the parties" in caveat for caveat in claim.caveats)
    assert len(made.receipts) == 5 * (1 if variant == "rknn" else 2)


def test_votes_help_parties_that_know_two_classes():
    parties = shared_out(DATA, 5, "class")
    made = run("rknn", parties, epsilon=5, vote_queries=30, test=TEST, rounds=3, queries=400)
    assert made.before < 0.35
    assert made.after > made.before + 0.3


def test_a_subset_on_disk_is_never_drawn_again(tmp_path):
    options = {"subset": 30, "models": ["perceptron"], "seed": None, "ledgers": tmp_path, "rounds": 1}
    first, second = run("nfdp", **options), run("nfdp", request="another run", **options)
    assert first.receipts == second.receipts
    assert (first.history[0].targets == second.history[0].targets).all()
    with SqliteLedger(tmp_path / "party-0.ledger") as ledger:
        assert ledger.balance("party 0").payments == 1
    assert not first.claim.simulation


class Killed(Exception):
    pass


@pytest.mark.parametrize(
    ("variant", "options"), [("response", {"epsilon": 4}), ("ldp", {"epsilon": 4}), ("rknn", {"epsilon": 4})]
)
def test_a_run_that_was_killed_goes_on_without_paying_twice(tmp_path, variant, options):
    options = options | {"models": ["perceptron"], "seed": None, "ledgers": tmp_path, "queries": 20, "schedule": SHORT}
    options["parties"] = shared_out(DATA, 2)

    def kill(number, _):
        if number == 1:
            raise Killed

    with pytest.raises(Killed):
        run(variant, progress=kill, **options)
    made = run(variant, **options)
    again = run(variant, **options)
    assert made.receipts == again.receipts
    assert (made.history[-1].targets == again.history[-1].targets).all()
    for party in range(2):
        with SqliteLedger(tmp_path / f"party-{party}.ledger") as ledger:
            balance = ledger.balance(f"party {party}")
            assert balance.spent.epsilon <= 4
            assert balance.payments == (1 if variant == "rknn" else 2)


@pytest.mark.parametrize("how", ["iid", "dirichlet", "class", "owner"])
def test_records_are_shared_out_once_each(how):
    parties = shared_out(DATA, 7, how)
    assert sum(len(labels) for _, labels in parties) == 1000
    if how == "class":
        assert max(len(np.unique(labels)) for _, labels in parties) <= 3
    with pytest.raises(InvalidInput):
        shared_out(DATA, 2000, how)


def test_pretraining_on_other_classes_and_the_same():
    for labels in (PARTS.public_labels, PARTS.public_labels + 100):
        made = run("np", public_labels=labels, models=["perceptron", "forest"], rounds=1, test=TEST)
        assert made.after > 0.7


def test_any_classifier_may_be_a_party():
    made = run("np", models=[DecisionTreeClassifier(max_depth=8), "logistic"], rounds=1, test=TEST)
    assert made.models[0] == "DecisionTreeClassifier"
    assert made.after > 0.6
    assert set(MIXED) <= set(MODELS)


@pytest.mark.parametrize(
    ("variant", "options", "words"),
    [
        ("fedavg", {}, "variant must be one of"),
        ("np", {"queries": 501}, "at most the 500 public samples"),
        ("np", {"rounds": 0}, "rounds must be at least 1"),
        ("np", {"kind": "votes"}, "kind must be one of"),
        ("np", {"models": []}, "models must name"),
        ("np", {"models": ["oracle"]}, "unknown model 'oracle'"),
        ("np", {"models": [object()]}, "no classifier"),
        ("np", {"models": [KNeighborsClassifier(3)]}, "does not take sample_weight"),
        ("np", {"weights": (1, 2)}, "one a party"),
        ("np", {"kind": "softmax", "models": [LinearSVC()]}, "predict_proba"),
        (
            "nfdp",
            {"subset": 20, "kind": "logits", "models": ["forest", LinearSVC()]},
            "2 of the parties have one without",
        ),
        ("nfdp", {"subset": 20, "epsilon": 1}, "epsilon does nothing in variant nfdp"),
        ("np", {"delta": 1e-5}, "delta does nothing in variant np"),
        ("np", {"subset": 20}, "subset does nothing in variant np: it is for nfdp"),
        ("rknn", {"epsilon": 1, "kind": "softmax"}, "kind does nothing in variant rknn"),
        ("rknn", {"epsilon": 1, "weights": "agreement"}, "weights does nothing"),
        ("rknn", {"epsilon": 1, "delta": "1e-5"}, "delta does nothing in variant rknn"),
        ("ldp", {"epsilon": 1, "mechanism": "generalized-response"}, "mechanism does nothing"),
        ("ldp", {"epsilon": 1, "vote_queries": 5}, "vote_queries does nothing"),
        ("np", {"public_labels": [1]}, "public_labels has shape"),
        ("nfdp", {}, "subset must say how many"),
        ("nfdp", {"subset": 0}, "size must be at least 1"),
        ("nfdp", {"subset": 200, "replacement": False}, "protects nothing"),
        ("nfdp", {"subset": 201, "replacement": False}, "at most the population"),
        ("ldp", {}, "needs epsilon"),
        ("ldp", {"epsilon": 0}, "epsilon must be above 0"),
        ("response", {"epsilon": 1, "kind": "softmax"}, "kind must be argmax"),
        ("response", {"epsilon": 1, "mechanism": "rappor"}, "mechanism must be one of"),
        ("rknn", {"epsilon": 1, "representation": "oracle"}, "unknown representation"),
        ("rknn", {"epsilon": 1, "vote_queries": 0}, "vote_queries must be at least 1"),
        ("np", {"ledgers": "somewhere"}, "must not spend a real budget"),
        ("np", {"ledgers": "somewhere", "seed": None}, "protects nothing and pays nothing"),
        ("np", {"names": ["a", "b"]}, "names must be 5 different names"),
    ],
)
def test_bad_input_is_named(variant, options, words):
    with pytest.raises(InvalidInput, match=words):
        run(variant, **options)


@pytest.mark.parametrize(
    ("parties", "words"),
    [
        ([], "at least one pair"),
        ([(PUBLIC[:5], PARTS.public_labels[:5]), (PUBLIC[:0], [])], "party 1: the private part is empty"),
        ([(PUBLIC[:5], PARTS.public_labels[:4])], "party 0"),
        ([(PUBLIC[:1], [11])], "party 0: private labels: row 0: label '11' is not in the list of classes"),
        ([(PUBLIC[:2].reshape(2, 64), [1, 2])], "samples have shape"),
    ],
)
def test_bad_parties_are_named(parties, words):
    with pytest.raises(InvalidInput, match=words):
        run("np", parties)


def test_a_party_of_one_class_takes_part():
    rows = PARTS.private_labels == 3
    parties = [(DATA.samples[rows], DATA.labels[rows]), *shared_out(DATA, 2)]
    made = run(
        "np", parties, models=["logistic", "perceptron", DecisionTreeClassifier(max_depth=8)], test=TEST, rounds=1
    )
    assert made.accuracies[0, 0] < 0.2 < made.accuracies[1, 0]


def test_nothing_is_measured_without_a_test_set():
    made = run("nfdp", subset=20, models=["forest"], rounds=1)
    assert made.accuracies is None
    with pytest.raises(InvalidInput, match="give a test set"):
        _ = made.after


@pytest.mark.filterwarnings("ignore::tacit.methods.fedmd.exposure.WeakPrivacyWarning")
@pytest.mark.parametrize(("variant", "options"), [("rknn", {"epsilon": 2}), ("nfdp", {"subset": 20})])
def test_public_copies_of_private_records_break_the_assumption_aloud(variant, options):
    parties = shared_out(DATA, 2)
    public = np.concatenate([PUBLIC, parties[0][0][:2], parties[1][0][:3]])
    with pytest.warns(TacitWarning, match="5 public rows are exact copies of private ones"):
        made = federate(parties, public, variant, models=["forest"], seed=1, **{**QUICK, "rounds": 1}, **options)
    assert "some of the public samples are exact copies of private records" in str(made.claim)
    assert "exact copies" not in str(run(variant, parties, models=["forest"], rounds=1, **options).claim)
