"""Distilling sets of labels from end to end."""

from fractions import Fraction

import numpy as np
import pytest

import tacit
from tacit.core.account import Ceiling
from tacit.core.errors import BudgetExceeded, InvalidInput, TacitWarning
from tacit.core.guarantee import Adjacency, Unit
from tacit.ledger.memory import MemoryLedger
from tacit.runs.task import label_table

PARTS = tacit.digits()
NAMES = ["even", "large", "loop"]


def properties(labels):
    return np.column_stack([labels % 2 == 0, labels >= 5, np.isin(labels, [0, 6, 8, 9])])


SETS, TRUTH = properties(PARTS.private_labels), properties(PARTS.test_labels)


def distilled(epsilon=5, **options):
    given = {"max_labels": 3, "classes": NAMES, "seed": 1}
    return tacit.distill((PARTS.private_samples, SETS), PARTS.public_samples, epsilon, **(given | options))


def pairs(samples, labels, count, seed):
    """Two digits side by side, labeled with the set of the two."""
    first, second = np.random.default_rng(seed).integers(0, len(samples), size=(2, count))
    sets = np.zeros((count, 10), dtype=bool)
    sets[np.arange(count), labels[first]] = sets[np.arange(count), labels[second]] = True
    return np.hstack([samples[first], samples[second]]), sets


def test_properties_of_digits_are_learned():
    run = distilled()
    predicted = run.student.predict(PARTS.test_samples)
    # Saying the same of every digit would be right for 54 %.
    assert (predicted == TRUTH).mean() > 0.8
    assert (run.labels == properties(PARTS.public_labels)).mean() > 0.85
    assert run.labels.shape == run.probabilities.shape == (500, 3)
    assert run.query_labels.shape == (run.recipe["queries"], 3)
    assert np.array_equal(run.labels, run.query_labels[run.membership])
    assert run.classes.tolist() == NAMES


def test_pairs_of_digits_are_learned_as_sets():
    private = pairs(PARTS.private_samples, PARTS.private_labels, 6000, 0)
    public, known = pairs(PARTS.public_samples, PARTS.public_labels, 1000, 1)
    run = tacit.distill(private, public, 4, max_labels=2, seed=1, representation="identity", queries=100)
    assert (run.labels == known).mean() > 0.87  # no label at all would be right for 81 %
    found = (run.labels & known).sum()
    assert 2 * found / (run.labels.sum() + known.sum()) > 0.55
    assert (run.labels.sum(axis=1) > 1).any()


@pytest.mark.parametrize(("delta", "mechanism"), [(0, "laplace"), (1e-6, "gaussian")])
def test_the_guarantee_is_for_one_record_and_no_more_than_was_asked(delta, mechanism):
    run = distilled(2, delta=delta, mechanism=mechanism, queries=15, neighbors=2)
    assert run.recipe["mechanism"] == mechanism
    assert run.guarantee.epsilon <= 2
    assert run.guarantee.delta == Fraction(str(delta))
    assert run.guarantee.unit == Unit()
    assert run.guarantee.adjacency is Adjacency.REPLACE_ONE
    assert run.guarantee.simulation
    assert len(run.receipts) == 1


def test_the_same_seed_gives_the_same_run_and_system_randomness_no_simulation():
    assert np.array_equal(distilled(1).probabilities, distilled(1).probabilities)
    run = distilled(1, seed=None)
    assert not run.guarantee.simulation


@pytest.mark.parametrize(
    "mechanism", ["auto", "Collision", "subset selection", "Separation", "Concatenation, as published"]
)
def test_a_crowd_needs_no_curator(mechanism):
    run = distilled(8, trust="local", mechanism=mechanism, queries=10)
    assert run.guarantee.epsilon == 8
    assert run.guarantee.trust == "local"
    if mechanism in ("auto", "Collision", "subset selection"):
        assert (run.student.predict(PARTS.test_samples) == TRUTH).mean() > 0.7


def test_balanced_connections_are_an_option():
    assert distilled(voting_rule="balanced", queries=10).recipe["options"]["voting_rule"] == "balanced"


def test_sets_may_be_lists_of_classes():
    table, names = label_table([["even", "large"], []], NAMES)
    assert table.tolist() == [[True, True, False], [False, False, False]]
    assert names.tolist() == NAMES
    lists = [[name for name, has in zip(NAMES, row, strict=True) if has] for row in SETS]
    run = tacit.distill((PARTS.private_samples, lists), PARTS.public_samples, 5, max_labels=3, classes=NAMES, seed=1)
    assert np.array_equal(run.probabilities, distilled().probabilities)


def test_an_account_pays_and_its_limit_holds():
    ledger = MemoryLedger({"clinic": Ceiling(3)})
    distilled(2, ledger=ledger, account="clinic", queries=10)
    with pytest.raises(BudgetExceeded):
        distilled(2, ledger=ledger, account="clinic", queries=10)
    other = MemoryLedger({"clinic": Ceiling(3, adjacency=Adjacency.ADD_REMOVE)})
    with pytest.raises(
        InvalidInput, match="protects one record under add-remove, this run protects one record under replace-one"
    ):
        distilled(2, ledger=other, account="clinic")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_labels": 2}, "more than max_labels = 2"),
        ({"max_labels": 0}, "max_labels must be at least 1"),
        ({"max_labels": 4}, "max_labels must be between 1 and the 3 classes"),
        ({"classes": ["a"]}, "1 classes for 3 columns"),
        ({"trust": "shuffle"}, "trust must be one of central, local here"),
        ({"mechanism": "gaussian"}, "gaussian"),
        ({"mechanism": "magic", "trust": "local"}, "mechanism must be auto or one of"),
        ({"epsilon": 0}, "epsilon"),
        ({"neighbors": 20, "queries": 10}, "neighbors must be at most the 10 queries"),
    ],
)
def test_what_makes_no_sense_is_refused(options, named):
    with pytest.raises(InvalidInput, match=named):
        distilled(**options)


@pytest.mark.parametrize(
    ("private", "named"),
    [
        (PARTS.private_samples, "must be a pair"),
        ((PARTS.private_samples, SETS[:5]), "5 label sets for 1000"),
        ((PARTS.private_samples, SETS * 2), "zeros and ones"),
        ((PARTS.private_samples, [["odd"]] * 1000), "row 0 has a label that is not among"),
        ((np.where(PARTS.private_samples > 15, np.nan, PARTS.private_samples), SETS), "not a finite number"),
    ],
)
def test_bad_records_are_refused(private, named):
    with pytest.raises(InvalidInput, match=named):
        tacit.distill(private, PARTS.public_samples, 1, max_labels=3, classes=NAMES)
    with pytest.raises(InvalidInput, match="classes must be given"):
        label_table([["a"]])


def test_public_copies_of_private_records_are_told_to_the_operator_alone():
    public = np.concatenate([PARTS.public_samples, PARTS.private_samples[:4]])
    with pytest.warns(TacitWarning, match="4 public rows are exact copies of private ones"):
        run = tacit.distill((PARTS.private_samples, SETS), public, 5, max_labels=3, classes=NAMES, seed=1)
    assert "assumed to contain no private record" in str(run.guarantee)
    assert run.guarantee.public_data == distilled().guarantee.public_data


def test_one_label_each_is_a_set_of_one_where_sets_are_expected():
    """Whether every record happens to have one label only does not change what a run does."""
    one = [["even"] if has else ["large"] for has in SETS[:, 0]]
    run = tacit.distill((PARTS.private_samples, one), PARTS.public_samples, 5, max_labels=3, classes=NAMES, seed=1)
    assert run.labels.shape == (500, 3)


def test_sets_are_refused_where_nothing_says_how_large_they_are_and_by_methods_of_one_label():
    with pytest.raises(InvalidInput, match="give max_labels"):
        tacit.distill((PARTS.private_samples, SETS), PARTS.public_samples, 5, classes=NAMES)
    with pytest.raises(InvalidInput, match="privatekt needs one label per record"):
        tacit.distill((PARTS.private_samples, SETS), PARTS.public_samples, 5, classes=NAMES, method="privatekt")


def test_a_run_of_sets_survives_the_disk(tmp_path):
    run = distilled(queries=10)
    loaded = tacit.load(run.save(tmp_path / "run"))
    assert np.array_equal(loaded.labels, run.labels)
    assert np.array_equal(loaded.probabilities, run.probabilities)
    assert np.array_equal(loaded.student.predict(PARTS.test_samples), run.student.predict(PARTS.test_samples))
    assert (tmp_path / "run" / "labels.csv").read_text().startswith("public row,simulated label even,")


def test_images_may_keep_their_shape():
    images = PARTS.test_samples.reshape(-1, 8, 8)
    run = tacit.distill(
        (PARTS.private_samples.reshape(-1, 8, 8), SETS), PARTS.public_samples.reshape(-1, 8, 8), 5, max_labels=3,
        classes=NAMES, queries=10, seed=1, representation="standardized",
    )  # fmt: skip
    assert np.array_equal(run.student.predict(images), run.student.predict(PARTS.test_samples))


def f1(truth, predicted):
    return 2 * (truth & predicted).sum() / (truth.sum() + predicted.sum())


@pytest.mark.parametrize("most", [None, 3])
def test_with_a_delta_the_default_sums_sets_and_needs_not_know_how_large_they_are(most, tmp_path):
    run = distilled(2, delta=1e-5, max_labels=most)
    assert run.recipe["method"] == "auto"
    assert run.recipe["labels"] == 3
    assert run.arrays["sums"].shape == (3, run.recipe["components"] + 1)
    assert run.guarantee.epsilon <= 2
    assert f1(TRUTH, run.student.predict(PARTS.test_samples)) > 0.72  # every label for every digit: .62
    loaded = tacit.load(run.save(tmp_path / "run"))
    assert np.array_equal(loaded.student.predict(PARTS.test_samples), run.student.predict(PARTS.test_samples))


def test_thresholds_move_labels_and_cost_nothing():
    runs = {rule: distilled(1, delta=1e-5, thresholds=rule) for rule in ("f1", "frequency", "half")}
    assert np.array_equal(runs["f1"].probabilities, runs["half"].probabilities)
    assert len({str(run.guarantee) for run in runs.values()}) == 1
    assert runs["half"].student.thresholds is None
    assert runs["f1"].labels.sum() > runs["half"].labels.sum()
    assert f1(TRUTH, runs["f1"].student.predict(PARTS.test_samples)) > f1(
        TRUTH, runs["half"].student.predict(PARTS.test_samples)
    )


def test_sums_of_sets_are_for_replaced_records_and_one_record_per_person():
    persons = np.arange(1000) // 2
    for options in (
        {"adjacency": "add-remove", "components": 3},
        {"persons": persons, "unit": Unit.person("patient", 2)},
    ):
        with pytest.raises(InvalidInput, match="public number of records"):
            distilled(2, delta=1e-5, method="class_sums", **options)
    run = distilled(2, delta=1e-5, persons=persons, unit=Unit.person("patient", 1))
    assert run.guarantee.unit == Unit.person("patient", 1)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_labels": 2}, "more than max_labels = 2"),
        ({"max_labels": 4}, "max_labels must be between 1 and the 3 classes"),
        ({"fit": "least-squares"}, "logistic regressions only"),
    ],
)
def test_what_makes_no_sense_for_sums_is_refused(options, named):
    with pytest.raises(InvalidInput, match=named):
        distilled(2, delta=1e-5, method="class_sums", **options)


def test_sets_may_be_a_table_with_names_in_any_order():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(SETS[:, ::-1].astype(int), columns=NAMES[::-1])
    run = tacit.distill((PARTS.private_samples, table), PARTS.public_samples, 5, max_labels=3, classes=NAMES, seed=1)
    assert np.array_equal(run.probabilities, distilled().probabilities)
    named = tacit.distill((PARTS.private_samples, table), PARTS.public_samples, 5, max_labels=3, seed=1)
    assert named.classes.tolist() == NAMES[::-1]
    with pytest.raises(InvalidInput, match="the columns are not those of the classes"):
        tacit.distill((PARTS.private_samples, table), PARTS.public_samples, 5, max_labels=3, classes=["a", "b", "c"])
