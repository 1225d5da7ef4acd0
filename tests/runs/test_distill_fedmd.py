"""Whole federations on scikit-learn's digits: different models together, every variant, what is claimed and refused."""

import warnings

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import tacit
from experiments.fedmd_data import StandIn, partitioned
from experiments.fedmd_pooled import centralized
from tacit.core.errors import InvalidInput, TacitWarning
from tacit.core.guarantee import Guarantee, Unit
from tacit.core.spend import Stability
from tacit.datasets.published import digits
from tacit.ledger.sqlite import SqliteLedger
from tacit.methods.fedmd.exposure import Exposure, WeakPrivacyWarning
from tacit.methods.fedmd.models import MODELS, Schedule
from tacit.methods.fedmd.options import MIXED
from tacit.students.registry import load_student

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


# With this little budget the coordinator's own student may have nothing to learn; the holders' exchange goes on.
NOTHING_AGREED = pytest.mark.filterwarnings("ignore:the holders have no consensus")


def federate(parties, public, **options):
    return tacit.distill(parties, public, method="fedmd", **options)


def run(variant, parties=None, **options):
    parties = partitioned(DATA, 5) if parties is None else parties
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPrivacyWarning)
        return federate(parties, PUBLIC, variant=variant, **{**QUICK, "seed": 1, **options})


def targets(made, number):
    return made.arrays[f"targets {number}"]


def test_models_of_five_kinds_learn_from_each_other():
    # Most parties lack some classes; only the others can teach them.
    parties = partitioned(DATA, 5, "dirichlet")
    made = run("np", parties, test=TEST, rounds=3, queries=300)
    models = made.holder_models
    assert models.kinds == MIXED
    assert {"two-convolutions", "three-convolutions", "perceptron", "forest"} <= set(models.kinds)
    assert models.accuracies.shape == (4, 5)
    assert models.after > models.before + 0.08
    assert all(receipt.spend == Stability(1) for receipt in made.receipts)
    assert str(made.guarantee).startswith("NO PRIVACY AT ALL")


def test_the_coordinators_student_knows_what_the_holders_agreed_on(tmp_path):
    made = run("np", partitioned(DATA, 2), models=["forest"], rounds=1, queries=300)
    assert made.labels.shape == (500,)
    assert (made.labels == PARTS.public_labels).mean() > 0.85
    assert (made.student.predict(TEST[0]) == TEST[1]).mean() > 0.8
    loaded = tacit.load(made.save(tmp_path / "run"))
    assert np.array_equal(loaded.labels, made.labels)
    assert loaded.guarantee == made.guarantee
    assert loaded.guarantees == made.guarantees
    assert np.array_equal(loaded.student.predict(TEST[0]), made.student.predict(TEST[0]))
    assert sorted(file.name for file in (tmp_path / "run").iterdir()) == [
        "arrays.npz", "labels.csv", "recipe.toml", "run.json", "student.skops"]  # fmt: skip


def test_a_holders_model_of_images_is_saved_for_images(tmp_path):
    made = run("np", partitioned(DATA, 2), models=["logistic"], rounds=1, queries=20)
    made.save(tmp_path / "run", holder_models=True)
    files = sorted((tmp_path / "run" / "holders").rglob("*.skops"))
    for file, model in zip(files, made.holder_models.models, strict=True):
        assert np.array_equal(load_student(file).predict(TEST[0]), model.predict(TEST[0]))


@pytest.mark.parametrize("kind", ["argmax", "softmax", "logits"])
def test_every_kind_of_answer_and_weights(kind):
    made = run("np", kind=kind, weights="agreement", models=["perceptron", "forest"], test=TEST, rounds=1)
    assert made.holder_models.after > 0.7
    again = run("np", kind=kind, weights=(1, 0, 0, 0, 0), models=["perceptron", "forest"], rounds=1)
    assert (targets(again, 0) != targets(made, 0)).any()


def test_a_seed_gives_the_same_federation():
    one, same, other = (run("nfdp", subset=40, test=TEST, seed=seed, schedule=SHORT) for seed in (3, 3, 4))
    measured = [each.holder_models.accuracies for each in (one, same, other)]
    assert (measured[0] == measured[1]).all()
    assert (targets(one, 1) == targets(same, 1)).all()
    assert (measured[0] != measured[2]).any()
    assert one.guarantee.simulation


@pytest.mark.parametrize("options", [{}, {"replacement": False}, {"per_class": True}])
def test_nfdp_states_stability_and_warns(options):
    with pytest.warns(WeakPrivacyWarning, match="NOT DIFFERENTIAL PRIVACY IN THE USUAL SENSE"):
        made = federate(
            partitioned(DATA, 2),
            PUBLIC,
            variant="nfdp",
            subset=50,
            models=["forest"],
            seed=1,
            **{**QUICK, "rounds": 1},
            **options,
        )
    assert isinstance(made.guarantee, Exposure)
    assert [each.spend.delta for each in made.receipts] == [each.probability for each in made.guarantees.values()]
    match options:
        case {"replacement": False}:
            assert float(made.guarantee.probability) == 0.1
        case {"per_class": True}:
            assert "class sizes are assumed public" in str(made.guarantee)
        case _:
            assert float(made.guarantee.probability) == pytest.approx(1 - (1 - 1 / 500) ** 50)


def test_no_privacy_warns():
    with pytest.warns(WeakPrivacyWarning, match="NO PRIVACY AT ALL"):
        federate(partitioned(DATA, 2), PUBLIC, variant="np", models=["forest"], **{**QUICK, "rounds": 1})
    with pytest.warns(WeakPrivacyWarning, match="NO PRIVACY AT ALL"):
        found = centralized(partitioned(DATA, 2), PUBLIC, TEST, classes=range(10), models=["forest", "perceptron"])
    assert len(found) == 2
    assert min(found) > 0.85


@NOTHING_AGREED
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
    assert len(made.guarantees) == 5
    for claim in made.guarantees.values():
        assert 3 * (1 - 1e-3) < claim.epsilon <= 3
        assert claim.unit == unit
        assert claim.simulation
        assert any("stay with the" in caveat for caveat in claim.caveats)
    assert len(made.receipts) == 5 * (1 if variant == "rknn" else 2)


def test_votes_help_parties_that_know_two_classes():
    parties = partitioned(DATA, 5, "class")
    made = run("rknn", parties, epsilon=5, vote_queries=30, test=TEST, rounds=3, queries=400)
    assert made.holder_models.before < 0.35
    assert made.holder_models.after > made.holder_models.before + 0.3


def test_a_subset_on_disk_is_never_drawn_again(tmp_path):
    options = {"subset": 30, "models": ["perceptron"], "seed": None, "ledger": tmp_path, "rounds": 1}
    first, second = run("nfdp", **options), run("nfdp", request="another run", **options)
    assert first.receipts == second.receipts
    assert (targets(first, 0) == targets(second, 0)).all()
    with SqliteLedger(tmp_path / "holder-0.ledger") as ledger:
        assert ledger.balance("holder 0").payments == 1
    assert not first.guarantee.simulation


class Killed(Exception):
    pass


@NOTHING_AGREED
@pytest.mark.parametrize(
    ("variant", "options"), [("response", {"epsilon": 4}), ("ldp", {"epsilon": 4}), ("rknn", {"epsilon": 4})]
)
@pytest.mark.parametrize("by", ["request", "checkpoint"])
def test_a_run_that_was_killed_goes_on_without_paying_twice(tmp_path, variant, options, by):
    options |= {"models": ["perceptron"], "seed": None, "ledger": tmp_path / "ledgers", "queries": 20}
    options |= {"parties": partitioned(DATA, 2), "schedule": SHORT}
    # By its request, or by a folder that remembers it.
    options |= {"request": "r"} if by == "request" else {"checkpoint": tmp_path / "rounds"}

    def kill(number):
        if number == 1:
            raise Killed

    with pytest.raises(Killed):
        run(variant, observer=tacit.Observer(progress=kill), **options)
    made = run(variant, **options)
    again = run(variant, **options)
    assert made.receipts == again.receipts
    assert (targets(made, 1) == targets(again, 1)).all()
    # The holders' models have learned all rounds, too.
    for one, other in zip(made.holder_models.models, again.holder_models.models, strict=True):
        assert np.array_equal(one.predict(TEST[0]), other.predict(TEST[0]))
        assert (one.predict(TEST[0]) == TEST[1]).mean() > 0.3
    for holder in range(2):
        with SqliteLedger(tmp_path / "ledgers" / f"holder-{holder}.ledger") as ledger:
            balance = ledger.balance(f"holder {holder}")
            assert balance.spent.epsilon <= 4
            assert balance.payments == (1 if variant == "rknn" else 2)


@pytest.mark.parametrize("how", ["iid", "dirichlet", "class", "owner"])
def test_records_are_shared_out_once_each(how):
    parties = partitioned(DATA, 7, how)
    assert sum(len(labels) for _, labels in parties) == 1000
    if how == "class":
        assert max(len(np.unique(labels)) for _, labels in parties) <= 3
    with pytest.raises(InvalidInput):
        partitioned(DATA, 2000, how)


def test_pretraining_on_other_classes_and_the_same():
    for labels in (PARTS.public_labels, PARTS.public_labels + 100):
        made = run("np", public_labels=labels, models=["perceptron", "forest"], rounds=1, test=TEST)
        assert made.holder_models.after > 0.7


def test_any_classifier_may_be_a_party():
    made = run("np", models=[DecisionTreeClassifier(max_depth=8), "logistic"], rounds=1, test=TEST)
    assert made.holder_models.kinds[0] == "DecisionTreeClassifier"
    assert made.holder_models.after > 0.6
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
        ("np", {"models": [object()]}, "not a classifier"),
        ("np", {"models": [KNeighborsClassifier(3)]}, "does not take sample_weight"),
        ("np", {"weights": (1, 2)}, "one per holder"),
        ("np", {"kind": "softmax", "models": [LinearSVC()]}, "predict_proba"),
        (
            "nfdp",
            {"subset": 20, "kind": "logits", "models": ["forest", LinearSVC()]},
            "2 of the holders have one without",
        ),
        ("nfdp", {"subset": 20, "epsilon": 1}, "epsilon has no effect in variant nfdp"),
        ("np", {"delta": 1e-5}, "delta has no effect in variant np"),
        ("np", {"subset": 20}, "subset has no effect in variant np: it is for nfdp"),
        ("rknn", {"epsilon": 1, "kind": "softmax"}, "kind has no effect in variant rknn"),
        ("rknn", {"epsilon": 1, "weights": "agreement"}, "weights has no effect"),
        ("rknn", {"epsilon": 1, "delta": "1e-5"}, "delta has no effect in variant rknn"),
        ("ldp", {"epsilon": 1, "mechanism": "generalized-response"}, "mechanism has no effect"),
        ("ldp", {"epsilon": 1, "vote_queries": 5}, "vote_queries has no effect"),
        ("np", {"public_labels": [1]}, "public_labels has shape"),
        ("nfdp", {}, "subset must be the number"),
        ("nfdp", {"subset": 0}, "size must be at least 1"),
        ("nfdp", {"subset": 200, "replacement": False}, "protects nothing"),
        ("nfdp", {"subset": 201, "replacement": False}, "at most the population"),
        ("ldp", {}, "needs epsilon"),
        ("ldp", {"epsilon": 0}, "epsilon must be above 0"),
        ("response", {"epsilon": 1, "kind": "softmax"}, "kind must be argmax"),
        ("response", {"epsilon": 1, "mechanism": "rappor"}, "mechanism must be one of"),
        ("rknn", {"epsilon": 1, "representation": "oracle"}, "unknown representation"),
        ("rknn", {"epsilon": 1, "vote_queries": 0}, "vote_queries must be at least 1"),
        ("np", {"ledger": "somewhere"}, "must not spend a real budget"),
        ("np", {"ledger": "somewhere", "seed": None}, "protects nothing and pays nothing"),
        ("response", {"epsilon": 1, "weights": (1, 2)}, "one per holder"),
        ("np", {"parties": {"a": (PUBLIC[:5], PARTS.public_labels[:5]), 1: (), "1": ()}}, "have the same name"),
        ("np", {"names": ["a", "b"]}, "names is given as private, a mapping"),
        ("np", {"ledgers": "somewhere"}, "ledgers is given as ledger now"),
        ("np", {"holders": 3}, "leave out holders"),
        ("np", {"models": {"0": "forest"}}, "has no model for 4 of the 5 holders"),
        ("np", {"models": {"north": "forest"}}, "'north' is not one of the 5 holders"),
    ],
)
def test_bad_input_is_named(variant, options, words):
    with pytest.raises(InvalidInput, match=words):
        run(variant, **options)


@pytest.mark.parametrize(
    ("parties", "words"),
    [
        ([], "at least one holder, a pair"),
        ([(PUBLIC[:5], PARTS.public_labels[:5]), (PUBLIC[:0], [])], "holder 1: the private part is empty"),
        ([(PUBLIC[:5], PARTS.public_labels[:4])], "holder 0"),
        ([(PUBLIC[:1], [11])], "holder 0: private labels: row 0: the label is not one of the classes"),
        ([(PUBLIC[:2].reshape(2, 64), [1, 2])], "samples have shape"),
    ],
)
def test_bad_parties_are_named(parties, words):
    with pytest.raises(InvalidInput, match=words):
        run("np", parties)


def test_a_party_of_one_class_takes_part():
    rows = PARTS.private_labels == 3
    parties = [(DATA.samples[rows], DATA.labels[rows]), *partitioned(DATA, 2)]
    made = run(
        "np", parties, models=["logistic", "perceptron", DecisionTreeClassifier(max_depth=8)], test=TEST, rounds=1
    )
    measured = made.holder_models.accuracies
    assert measured[0, 0] < 0.2 < measured[1, 0]


def test_nothing_is_measured_without_a_test_set():
    made = run("nfdp", subset=20, models=["forest"], rounds=1)
    assert made.holder_models.accuracies is None
    with pytest.raises(InvalidInput, match="give a test set"):
        _ = made.holder_models.after


@pytest.mark.filterwarnings("ignore::tacit.methods.fedmd.exposure.WeakPrivacyWarning")
@pytest.mark.parametrize(("variant", "options"), [("rknn", {"epsilon": 2}), ("nfdp", {"subset": 20})])
def test_public_copies_of_private_records_are_told_to_the_operator_alone(variant, options):
    parties = partitioned(DATA, 2)
    public = np.concatenate([PUBLIC, parties[0][0][:2], parties[1][0][:3]])
    with pytest.warns(TacitWarning, match="5 public rows are exact copies of private ones"):
        made = federate(
            parties, public, variant=variant, models=["forest"], seed=1, **{**QUICK, "rounds": 1}, **options
        )
    assert str(made.guarantee) == str(run(variant, parties, models=["forest"], rounds=1, **options).guarantee)
    assert "assumed to contain no private record" in str(made.guarantee)


def test_what_is_not_asked_for_otherwise_is_private():
    """The library's variant is the command line's, a private one, and it does not guess how much may be spent."""
    from tacit.cli.method_options import flags

    assert tacit.FedMD().variant == flags(tacit.FedMD)["variant"].about.default == "rknn"
    parties = partitioned(DATA, 2)
    with pytest.raises(InvalidInput, match="variant rknn needs epsilon"):
        federate(parties, PUBLIC, **QUICK)
    made = federate(parties, PUBLIC, epsilon=2, models=["forest"], **{**QUICK, "rounds": 1})
    assert isinstance(made.guarantee, Guarantee)
    assert made.guarantee.epsilon == 2
