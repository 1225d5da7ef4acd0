"""Forecasts: every registered method has one, more budget helps, labels narrow it, and nothing private is needed."""

import numpy as np
import pytest

import tacit
from tacit.core.errors import InvalidInput
from tacit.datasets.frame import Frame, cells_of
from tacit.methods.registry import METHODS
from tacit.runs import planning
from tacit.runs.planning import Prospect

PARTS = tacit.digits()
FIGURES = {"records": 1000, "classes": 10}


def labeled(count):
    known = np.array(PARTS.public_labels, dtype=object)
    known[count:] = None
    return known


def test_every_method_that_has_a_forecast_is_part_of_the_plan():
    found = tacit.forecast(PARTS.public_samples, delta=1e-5, **FIGURES)
    assert {each.method for each in found.prospects} == {name for name, each in METHODS.items() if each.forecast}
    assert {each.trust for each in found.prospects if each.method == "rknn"} == {"central", "shuffle", "local"}
    for each in found.prospects:
        assert not each.refused
        assert 0 <= each.low <= each.accuracy <= each.high <= 1
        assert each.seconds > 0
    # A trusted curator adds the least noise.
    by_trust = {each.trust: each.accuracy for each in found.prospects if each.method == "rknn"}
    assert by_trust["local"] < by_trust["shuffle"] <= by_trust["central"] + 0.02


def prospect(method, accuracy, around=0.1, trust="central", refused=""):
    return Prospect(method, trust, 1.0, accuracy, accuracy - around, accuracy + around, refused=refused)


def test_what_forecasts_cannot_tell_apart_is_in_the_order_in_which_it_was_measured():
    given = [
        prospect("auto", 0.78), prospect("rknn", 0.85), prospect("rknn", 0.8, trust="shuffle"), prospect("fedmd", 0.82),
        prospect("class_sums", 0.68, 0.05), prospect("pate", 0.9, refused="too few"), prospect("noisy_sgd", 0.6, 0.2),
    ]  # fmt: skip
    # Sums are expected below the interval of votes; another trust model and other units keep their places.
    names = [(each.method, each.trust) for each in planning._ranked(given, ("auto", "class_sums", "noisy_sgd", "rknn"))]
    assert names == [
        ("auto", "central"), ("fedmd", "central"), ("rknn", "shuffle"), ("noisy_sgd", "central"),
        ("class_sums", "central"), ("rknn", "central"), ("pate", "central"),
    ]  # fmt: skip
    alone = [prospect("fedmd", 0.5), prospect("privatekt", 0.7, trust="local")]
    assert [each.method for each in planning._ranked(alone, ("auto",))] == ["privatekt", "fedmd"]


def test_the_plan_of_a_table_puts_the_default_first_where_votes_look_purer_than_they_are():
    random = np.random.default_rng(0)
    truth = random.integers(0, 2, 600)
    rows = random.normal(size=(600, 6)) + truth[:, None] * [2, 1, 0, 0, 0, 0]
    known = truth.astype(object)
    known[100:] = None
    figures = {"records": 20_000, "classes": 2, "delta": 1e-5, "public_labels": known}
    found = tacit.forecast(rows, methods=["rknn", "class_sums", "auto", "noisy_sgd"], **figures)
    assert next(each.method for each in found.prospects if each.trust == "central") == "auto"


@pytest.mark.parametrize("method", [tacit.ReverseKNN(queries=40, neighbors=2), "class_sums", "fedmd", "pate"])
def test_more_budget_is_expected_to_label_better(method):
    figures = {**FIGURES, "methods": [method], "public_labels": labeled(200), "delta": 0}
    few, many = (tacit.forecast(PARTS.public_samples, epsilon=each, **figures).prospects for each in (0.05, 8))
    central = [next(each for each in found if each.trust != "shuffle") for found in (few, many)]
    assert central[0].accuracy < central[1].accuracy


def test_labels_narrow_the_interval_and_it_holds_what_is_measured():
    run = tacit.distill(
        (PARTS.private_samples, PARTS.private_labels), PARTS.public_samples, 1.0, method="rknn", classes=range(10),
        seed=0,
    )  # fmt: skip
    measured = float((run.labels == PARTS.public_labels).mean())
    alone, told = (
        tacit.forecast(PARTS.public_samples, methods=["rknn"], public_labels=known, **FIGURES).best
        for known in (None, labeled(200))
    )
    assert told.high - told.low < 0.6 * (alone.high - alone.low)
    assert alone.low <= measured <= alone.high
    assert told.low <= measured <= told.high


@pytest.mark.parametrize("known", [None, 100, 300])
def test_private_knn_is_expected_to_do_what_its_wide_neighborhoods_allow(known):
    """As many records vote on a query as a class has: far fewer agree than in the small cluster that gets the label."""
    figures = {**FIGURES, "public_labels": known and labeled(known), "delta": 1e-5}
    found = tacit.forecast(PARTS.public_samples, methods=["private_knn", "rknn"], **figures)
    expected = next(each for each in found.prospects if each.method == "private_knn")
    run = tacit.distill(
        (PARTS.private_samples, PARTS.private_labels), PARTS.public_samples, 1.0, delta=1e-5, method="private_knn",
        classes=range(10), seed=0,
    )  # fmt: skip
    assert found.best.method == "rknn"
    assert expected.low <= float((run.labels == PARTS.public_labels).mean()) <= expected.high
    assert expected.accuracy < 0.85


def test_more_voters_on_a_query_agree_less():
    figures = {**FIGURES, "public_labels": labeled(300), "epsilon": 8, "delta": 1e-5}
    few, many = (
        tacit.forecast(PARTS.public_samples, methods=[tacit.PrivateKNN(queries=30, neighbors=each)], **figures).best
        for each in (10, 100)
    )
    assert few.accuracy > many.accuracy + 0.2


def test_the_epsilon_that_is_named_reaches_what_was_wanted():
    votes = tacit.ReverseKNN(queries=40, neighbors=2)
    figures = {**FIGURES, "methods": [votes], "public_labels": labeled(200)}
    found = tacit.forecast(PARTS.public_samples, accuracy=0.85, **figures)
    central = next(each for each in found.prospects if each.trust == "central")
    again = tacit.forecast(PARTS.public_samples, epsilon=central.needed, **figures)
    assert next(each for each in again.prospects if each.trust == "central").accuracy >= 0.85
    assert central.needed < 1.0
    assert next(each for each in found.prospects if each.trust == "shuffle").refused.startswith("shuffling needs delta")


def test_without_public_samples_a_purity_is_stated():
    low, high = (tacit.forecast(purity=each, methods=["rknn"], **FIGURES).best.accuracy for each in (0.7, 0.95))
    assert low < 0.75 < 0.9 < high


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"classes": 1}, "classes must be at least 2"),
        ({"accuracy": 2}, "accuracy must be between 0.1 and 1, got 2"),
        ({"purity": 0}, r"purity must be in \(0, 1\], got 0"),
        ({"epsilon": 0}, "epsilon must be above 0"),
        ({"public_labels": [1, 2]}, "public_labels has 2 rows, the public samples 500"),
        ({"public_labels": ["?"] * 500}, "none of public_labels is one of the classes"),
        ({"methods": ["rkn"]}, "did you mean 'rknn'"),
    ],
)
def test_a_wrong_figure_is_named(wrong, said):
    with pytest.raises(InvalidInput, match=said):
        tacit.forecast(PARTS.public_samples, **{**FIGURES, **wrong})


def test_a_method_without_a_forecast_says_so():
    from dataclasses import replace

    with pytest.raises(InvalidInput, match="method rknn has no forecast"):
        replace(METHODS["rknn"], forecast="").load_forecast()


def test_a_rehearsal_runs_the_method_on_public_samples_and_is_narrow():
    found = tacit.forecast(
        PARTS.public_samples, methods=["rknn"], public_labels=labeled(150), rehearse=True, **FIGURES
    ).prospects  # fmt: skip
    central = next(each for each in found if each.trust == "central")
    assert central.said == "rehearsed on 150 labels"
    # Ten seeded runs on the records label 94 to 95 % right.
    assert central.low < 0.945 < central.high
    assert central.high - central.low < 0.2
    assert all("rehearsed" not in each.said for each in found if each.trust != "central")


def test_a_rehearsal_of_a_table_whose_persons_have_several_records():
    random = np.random.default_rng(0)
    ill = random.random(200) < 0.5
    cells = (np.where(ill, 70.0, 40.0) + random.normal(0, 8, 200), cells_of(np.where(ill, "north", "south").tolist()))
    known = np.where(np.arange(200) < 60, np.where(ill, "ill", "well"), None)
    found = tacit.forecast(
        Frame(("age", "ward"), cells), records=400, classes=["ill", "well"], epsilon=4, methods=["class_sums"],
        unit=tacit.Unit.person("patient", 3), public_labels=known, rehearse=True,
    )  # fmt: skip
    assert found.best.said == "rehearsed on 60 labels"
    assert found.best.accuracy > 0.8


def test_too_few_labels_leave_the_forecast_as_it_is_and_say_so():
    found = tacit.forecast(
        PARTS.public_samples, methods=["class_sums"], public_labels=labeled(28), rehearse=True, **FIGURES
    ).best  # fmt: skip
    assert "no rehearsal: a rehearsal needs at least 30 labeled public samples" in found.said + found.refused
    with pytest.raises(InvalidInput, match="needs public samples, and public_labels of some"):
        tacit.forecast(PARTS.public_samples, rehearse=True, **FIGURES)
