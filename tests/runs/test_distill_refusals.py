"""What distill refuses or doubts, in words, before anything is paid."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

import tacit
from tacit.core.errors import InvalidInput, TacitWarning
from tacit.ledger.memory import MemoryLedger
from tacit.representations.scaled import Identity

PARTS = tacit.digits()
PRIVATE = (PARTS.private_samples, PARTS.private_labels)


def distill(**options):
    given = {"private": PRIVATE, "public": PARTS.public_samples, "epsilon": 1.0, "classes": range(10), "seed": 1}
    return tacit.distill(**(given | options))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"trust": "blind"}, "trust must be one of central, local, shuffle"),
        ({"trust": "masked"}, r"masked is secure aggregation over nodes: give exchange=tacit.Nodes\(\.\.\.\)$"),
        ({"trust": "masked", "method": "pate"}, r"give exchange=tacit.Nodes\(\.\.\.\)$"),
        ({"trust": "masked", "method": "class_sums"}, r"give exchange=tacit.Nodes\(\.\.\.\)$"),
        ({"trust": "masked", "method": "noisy_sgd"}, r"give exchange=tacit.Nodes\(\.\.\.\)$"),
        ({"trust": "masked", "method": "private_knn"}, "and a method that has it: rknn, auto, class_sums, pate"),
        ({"trust": "masked", "method": "privatekt", "holders": 4}, "and a method that has it: rknn, auto"),
        ({"trust": "local", "mechanism": "laplace"}, "unknown local mechanism"),
        ({"trust": "shuffle"}, "shuffling needs delta above 0"),
        ({"trust": "shuffle", "delta": 1e-6, "mechanism": "magic"}, "unknown shuffle mechanism"),
        ({"trust": "local", "adjacency": "add-remove", "queries": 10}, "replace-one adjacency"),
        (
            {"trust": "local", "persons": np.arange(1000) // 2, "unit": tacit.Unit.person("person", 2)},
            "one record each",
        ),
    ],
)
def test_crowds_refuse_what_they_cannot_do(options, said):
    with pytest.raises(InvalidInput, match=said):
        distill(**options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epsilon": 1e-9}, "most labels will be wrong"),
        ({"private": (PRIVATE[0][:12], PRIVATE[1][:12])}, "most labels will be wrong"),
        ({"epsilon": 0.1}, "many labels may be wrong"),
        ({"epsilon": 10}, "epsilon = 10 is weak"),
        ({"epsilon": 50}, "epsilon = 50 is practically no protection"),
        ({"epsilon": 60, "trust": "local"}, "practically no protection"),
    ],
)
def test_doubts_are_told_before_anything_is_paid(options, said):
    seen = []
    with pytest.warns(TacitWarning, match=said) as told:
        distill(**options, observer=tacit.Observer(plan=lambda _: seen.append(len(told))))
    assert seen[0] > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epsilon": 0}, "epsilon must be above 0"),
        ({"epsilon": "much"}, "epsilon must be a number"),
        ({"epsilon": float("inf")}, "epsilon must be a finite number"),
        ({"delta": 1}, r"delta must be in \[0, 1\)"),
        ({"delta": -1e-9}, r"delta must be in \[0, 1\)"),
        ({"neighbors": 0}, "neighbors must be at least 1"),
        ({"neighbors": 41, "queries": 40}, "neighbors must be at most the 40 queries"),
        ({"queries": 501}, "queries must be between 1 and the 500"),
        ({"mechanism": "magic"}, "unknown mechanism 'magic'"),
        ({"mechanism": "gaussian"}, "gaussian noise needs delta above 0"),
        ({"mechanism": "permute-and-flip", "labels": "soft"}, "releases labels only"),
        ({"labels": "medium"}, "labels must be one of hard, soft, proportions"),
        ({"representation": "magic"}, "unknown representation 'magic'"),
        ({"student": "magic"}, "unknown student 'magic'"),
        ({"student": KNeighborsClassifier()}, "does not take sample_weight"),
        ({"adjacency": "swap"}, "adjacency must be one of"),
        ({"adjacency": "add-remove"}, "give queries"),
        ({"account": "x"}, "an account needs a ledger"),
        ({"ledger": MemoryLedger({})}, "name the account"),
        ({"classes": range(5)}, "the label is not one of the classes"),
        ({"classes": [1, 1]}, "twice"),
        ({"holders": 0}, "holders must be at least 1"),
        ({"holders": 1001}, "holders must be between 1 and the 1000"),
        ({"holders": np.zeros(3)}, "holders has 3 entries for 1000 records"),
        ({"public": PARTS.public_samples[:, :60]}, "64 features and public ones 60"),
        ({"public": PARTS.public_samples[:0]}, "the public part is empty"),
        ({"public": np.full((50, 64), np.nan)}, "public samples: row 0"),
        ({"public": np.ones((50, 64))}, "all equal"),
        ({"private": PRIVATE[0]}, "private must be a pair"),
        ({"private": ([[1.0, 2.0], [3.0]], [0, 1])}, "private samples must be an array"),
        ({"private": (PRIVATE[0], None)}, "private labels"),
        ({"queries": 40.0}, "queries must be a whole number, got 40.0"),
        ({"queries": "40"}, "queries must be a whole number, got '40'"),
        ({"queries": True}, "queries must be a whole number"),
        ({"neighbors": 1.5}, "neighbors must be a whole number"),
        ({"holders": 2.5}, "holders must be a whole number"),
        ({"persons": np.zeros((1000, 2))}, "persons must have one entry per record"),
        ({"persons": [None] * 1000}, "persons: row 0 is missing"),
        ({"persons": 7}, "persons must have one entry per record"),
        (
            {"records_per_person": 2, "persons": np.arange(1000)},
            r"records_per_person is given as unit=tacit.Unit.person\(",
        ),
        ({"unit": tacit.Unit.person("person", 3)}, "the unit is a person: give persons"),
        ({"classes": 2}, "classes must be a list"),
        ({"classes": "0123456789"}, "classes must be a list"),
        ({"classes": [[0, 1]]}, "classes must be a plain list"),
        ({"representation": None}, "representation must be auto, one of"),
        ({"representation": Identity}, "representation must be auto, one of"),
        ({"student": LinearRegression()}, "student must be a classifier"),
        ({"student": KMeans()}, "student must be a classifier"),
        ({"student": GaussianNB}, "student must be an object, not a class"),
        ({"student": None}, "student NoneType cannot be copied"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"seed": "x"}, "seed must be a whole number"),
        ({"seed": 1.0}, "seed must be a whole number"),
        ({"delta": 1e-300, "mechanism": "gaussian"}, r"delta must be 0, or in \[1e-30, 1\)"),
        ({"private": (PRIVATE[0], PRIVATE[1][:5])}, "give one per sample"),
        ({"private": (PRIVATE[0][:0], PRIVATE[1][:0])}, "the private part is empty"),
        ({"persons": np.zeros(3)}, "persons has 3 entries"),
        ({"persons": np.zeros(1000), "unit": tacit.Unit()}, "persons are given, but the unit is not a person"),
        ({"stage": print}, "stage is given as observer"),
        ({"view": "same"}, "view is called vote_space now"),
        ({"query": 7}, "unknown option 'query' of ReverseKNN; did you mean 'queries'"),
        ({"method": "knn"}, "unknown method 'knn'"),
        ({"method": tacit.ReverseKNN(), "queries": 3}, "give the options in the method object"),
        ({"method": tacit.ReverseKNN}, "method must be auto, one of"),
    ],
)
def test_bad_input_is_refused_in_words(options, said):
    with pytest.raises(InvalidInput, match=said):
        distill(**options)


@pytest.mark.parametrize(("records", "said"), [(1.5, "a whole number"), (0, "at least 1"), (True, "a whole number")])
def test_a_person_has_a_whole_number_of_records(records, said):
    with pytest.raises(InvalidInput, match=f"records per person must be {said}"):
        tacit.Unit.person("patient", records)


def test_a_doubt_points_to_the_line_of_who_called():
    with pytest.warns(TacitWarning) as heard:
        distill(epsilon=10, public=np.concatenate([PARTS.public_samples, PARTS.private_samples[:1]]))
    assert len(heard) > 1
    assert {each.filename for each in heard} == {__file__}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"data": "table"}, "data must be a tacit.Data, got str"),
        ({"control": tacit.Observer()}, "control must be a tacit.RunControl, got Observer"),
        (
            {"data": tacit.Data(), "persons": [1]},
            "persons is given both by itself and in data: give it in tacit.Data only",
        ),
        ({"data": tacit.Data(), "data_kind": "table"}, "data_kind is given both by itself and in data"),
        ({"control": tacit.RunControl(), "request": "r"}, "request is given both by itself and in control"),
        ({"categories": "ward"}, "categories must be a list of columns, got 'ward'"),
        ({"kind": "table"}, "unknown option 'kind'"),
    ],
)
def test_a_group_is_given_as_one_or_by_its_names(options, said):
    with pytest.raises(InvalidInput, match=said):
        distill(**options)


def test_a_group_says_what_its_names_say():
    persons, seen = np.arange(1000) // 2, []
    observer = tacit.Observer(plan=seen.append)
    flat = distill(method="rknn", persons=persons, data_kind="table", request="r", observer=observer)
    data, control = tacit.Data(kind="table", persons=persons), tacit.RunControl(request="r", observer=observer)
    grouped = distill(method="rknn", data=data, control=control)
    assert len(seen) == 2
    assert (flat.labels == grouped.labels).all()
    assert flat.guarantee == grouped.guarantee
    assert [each.request for each in flat.receipts] == [each.request for each in grouped.receipts] == ["r"]
