"""The estimator as scikit-learn and its users expect it, and every fit of a search paid for."""

import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import DataConversionWarning, FitFailedWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import tacit
from tacit.core.errors import InvalidInput
from tacit.core.options import describe
from tacit.core.samples import Named
from tacit.methods.registry import METHODS

PARTS = tacit.digits()
DIGITS = (PARTS.private_samples, PARTS.private_labels)

MAX_LABELS = "how many labels a record may have sets the noise and must be declared; run below with max_labels"
EXPECTED = {
    "check_dtype_object": "an error names row and column, and never quotes a cell as a TypeError would",
    "check_classifiers_multilabel_representation_invariance": MAX_LABELS,
    "check_classifiers_multilabel_output_format_predict": MAX_LABELS,
    "check_classifiers_multilabel_output_format_predict_proba": MAX_LABELS,
    "check_classifiers_multilabel_output_format_decision_function": MAX_LABELS,
    "check_fit2d_1sample": "one record can vote, if the classes are declared: the error asks for them",
    "check_array_api_input": "records are read as numpy arrays",
    "check_dataframe_column_names_consistency": "columns in another order are put in order by their names",
}


class Checked(tacit.PrivateDistiller):
    """The checks know no public samples: here those right beside the records are."""

    def fit(self, X, y, public=None, persons=None, holders=None):
        return super().fit(X, y, public=beside(X) if public is None else public, persons=persons, holders=holders)


def beside(samples):
    """Not the records themselves: a representation that was fitted on those is refused."""
    if getattr(getattr(samples, "dtype", None), "kind", "") == "c":
        return samples
    try:
        return (samples if hasattr(samples, "columns") else np.asarray(samples, dtype=float)) * 1.000001 + 1e-6
    except (TypeError, ValueError):
        return samples


@pytest.mark.filterwarnings("ignore::tacit.TacitWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [Checked(epsilon=1000, seed=1, student="logistic")], expected_failed_checks=lambda estimator: EXPECTED
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::tacit.TacitWarning")
@pytest.mark.parametrize("name", [name for name in EXPECTED if "multilabel" in name])
def test_the_checks_of_sets_of_labels_with_max_labels_declared(name):
    getattr(estimator_checks, name)("PrivateDistiller", Checked(epsilon=1000, seed=1, student="logistic", max_labels=5))


def ledger(folder, epsilon):
    place = folder / "main.ledger"
    tacit.open_ledger(place, {"research": tacit.Ceiling(epsilon)}).close()
    return place


def spent(place):
    book = tacit.open_ledger(place)
    try:
        return len(book.receipts("research"))
    finally:
        book.close()


def test_it_learns_and_says_what_it_cost():
    model = tacit.PrivateDistiller(epsilon=1.0, classes=range(10), seed=3)
    assert model.fit(*DIGITS, public=PARTS.public_samples) is model
    assert model.score(PARTS.test_samples, PARTS.test_labels) > 0.85
    assert model.classes_.tolist() == list(range(10))
    assert model.n_features_in_ == 64
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_array_equal(model.labels_, model.run_.labels)
    assert model.guarantee_ is model.run_.guarantee
    chances = model.predict_proba(PARTS.test_samples)
    np.testing.assert_allclose(chances.sum(axis=1), 1, rtol=1e-6)
    assert np.mean(model.classes_[chances.argmax(axis=1)] == model.predict(PARTS.test_samples)) == 1


def test_the_estimator_is_the_door():
    model = tacit.PrivateDistiller("rknn", 1.0, classes=range(10), seed=5, queries=40, neighbors=2)
    run = tacit.distill(DIGITS, PARTS.public_samples, 1.0, classes=range(10), seed=5, queries=40, neighbors=2)
    np.testing.assert_array_equal(model.fit(*DIGITS, public=PARTS.public_samples).labels_, run.labels)


def test_every_option_of_every_method_is_a_parameter():
    known = tacit.PrivateDistiller().get_params()
    for method in METHODS.values():
        for option in describe(method.load_options()):
            assert known[option.name if option.name != "fit" else "fit_option"] is None, option.name
            assert not hasattr(tacit.PrivateDistiller, option.name) or option.name == "fit"
            # None leaves it to the method, so no method may mean something else by it.
            assert option.default is not None or "None" not in option.help


def test_clones_pickles_and_prints_its_parameters():
    model = tacit.PrivateDistiller(tacit.ReverseKNN(queries=20), epsilon=0.5, delta=1e-6, ledger="a.ledger")
    for copy in (clone(model), pickle.loads(pickle.dumps(model))):
        assert copy.get_params() == model.get_params()
    assert "epsilon=0.5" in repr(model)
    assert len(repr(tacit.PrivateDistiller(queries=3))) < 60
    assert clone(model).set_params(method="pate", teachers=4).teachers == 4
    fitted = tacit.PrivateDistiller(classes=range(10), seed=1).fit(*DIGITS, public=PARTS.public_samples)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(PARTS.test_samples), fitted.predict(PARTS.test_samples))
    assert again.guarantee_ == fitted.guarantee_


def test_two_classes_with_names_and_columns_with_names():
    rows = (PARTS.private_labels < 2) | (PARTS.private_labels == 7)
    names = tuple(f"p{column}" for column in range(64))
    labels = np.where(PARTS.private_labels[rows] < 2, "low", "seven")
    model = tacit.PrivateDistiller(epsilon=5, classes=["seven", "low"], seed=2, student="logistic")
    model.fit(Named(PARTS.private_samples[rows], names), labels, public=Named(PARTS.public_samples, names))
    assert model.feature_names_in_.tolist() == list(names)
    assert model.classes_.tolist() == ["low", "seven"]
    turned = Named(PARTS.test_samples[:, ::-1], names[::-1])
    np.testing.assert_array_equal(
        model.predict(turned), model.predict(Named(PARTS.test_samples, names)), "matched by name"
    )
    np.testing.assert_array_equal(
        model.predict_proba(turned).argmax(axis=1), (model.predict(turned) == "seven").astype(int)
    )
    with pytest.raises(tacit.InvalidInput, match="columns are not those"):
        model.predict(Named(PARTS.test_samples, ("other", *names[1:])))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(PARTS.test_samples)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="63 features, but PrivateDistiller is expecting 64"):
            model.predict(PARTS.test_samples[:, 1:])


def test_a_class_that_no_public_sample_got_has_probability_zero():
    # Its student learns labels; the default's own learns odds, of which every class has some.
    model = tacit.PrivateDistiller(method="rknn", epsilon=50, classes=range(12), seed=1)
    with pytest.warns(tacit.TacitWarning):
        model.fit(*DIGITS, public=PARTS.public_samples)
    chances = model.predict_proba(PARTS.test_samples)
    assert chances.shape == (297, 12)
    assert not chances[:, 10:].any()


def test_sets_of_labels():
    sets = np.stack([PARTS.private_labels % 2 == 0, PARTS.private_labels > 4], axis=1).astype(int)
    model = tacit.PrivateDistiller(epsilon=5, max_labels=2, thresholds="half", seed=4).fit(
        PARTS.private_samples, sets, public=PARTS.public_samples
    )
    truth = np.stack([PARTS.test_labels % 2 == 0, PARTS.test_labels > 4], axis=1).astype(int)
    assert set(np.unique(model.predict(PARTS.test_samples))) == {0, 1}
    assert (model.predict(PARTS.test_samples) == truth).mean() > 0.75
    chances = model.predict_proba(PARTS.test_samples)
    np.testing.assert_array_equal(chances >= 0.5, model.predict(PARTS.test_samples) == 1)
    assert model.labels_.shape == (500, 2)


def test_images_are_taken_as_they_were_given():
    images = [each.reshape(-1, 8, 8) for each in (PARTS.private_samples, PARTS.public_samples, PARTS.test_samples)]
    model = tacit.PrivateDistiller(classes=range(10), seed=1).fit(images[0], PARTS.private_labels, public=images[1])
    assert model.predict(images[2]).shape == (297,)
    assert model.predict_proba(images[2]).shape == (297, 10)


def test_persons_and_holders_are_told_to_fit():
    model = tacit.PrivateDistiller(unit=tacit.Unit.person("who", 3), classes=range(10), seed=1)
    model.fit(*DIGITS, public=PARTS.public_samples, persons=np.arange(1000) // 3)
    assert model.guarantee_.unit == tacit.Unit.person("who", 3)
    pate = tacit.PrivateDistiller("pate", 20, classes=range(10), seed=1, queries=5)
    pate.fit(*DIGITS, public=PARTS.public_samples, holders=np.arange(1000) % 40)
    assert pate.run_.recipe["method"] == "pate"


def test_in_a_pipeline_with_public_samples_taken_along():
    halved = FunctionTransformer(lambda samples: np.asarray(samples) / 2)
    with sklearn.config_context(enable_metadata_routing=True):
        model = Pipeline(
            [("halve", halved), ("distill", tacit.PrivateDistiller(classes=range(10), seed=1))],
            transform_input=["public"],
        )
        model.fit(*DIGITS, public=PARTS.public_samples)
        assert model.score(PARTS.test_samples, PARTS.test_labels) > 0.85
    assert model["distill"].run_.queries.max() <= 8, "the public samples went through the step, too"


def test_a_pipeline_that_changes_the_records_alone_is_refused_before_it_pays(tmp_path):
    place = ledger(tmp_path, 3)
    paid = tacit.PrivateDistiller(classes=range(10), ledger=place, account="research")
    scaled = Pipeline([("scale", StandardScaler()), ("distill", paid)])
    with pytest.raises(tacit.InvalidInput, match=r"1 step before .* not public: give Pipeline\(..., transform_input="):
        scaled.fit(*DIGITS, distill__public=PARTS.public_samples)
    assert spent(place) == 0
    same = Pipeline([("same", "passthrough"), ("distill", tacit.PrivateDistiller(classes=range(10), seed=1))])
    assert same.fit(*DIGITS, distill__public=PARTS.public_samples)["distill"].labels_.shape == (500,)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_step_that_learns_from_the_records_is_said(frozen):
    step = FrozenEstimator(StandardScaler().fit(PARTS.public_samples)) if frozen else StandardScaler()
    model = Pipeline(
        [("scale", step), ("distill", tacit.PrivateDistiller(classes=range(10), seed=1))], transform_input=["public"]
    )
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(*DIGITS, public=PARTS.public_samples)
    said = [str(each.message) for each in told]
    assert frozen != any("fits StandardScaler on the records without noise" in each for each in said)


def test_cross_validation_is_refused_without_a_budget():
    with pytest.raises(tacit.InvalidInput, match="every fit is paid for: give ledger and account"):
        cross_val_score(
            tacit.PrivateDistiller(), *DIGITS, cv=2, params={"public": PARTS.public_samples}, error_score="raise"
        )


@pytest.mark.parametrize("kind", [CalibratedClassifierCV, BaggingClassifier, OneVsRestClassifier])
def test_no_estimator_that_fits_many_times_spends_unnoticed(kind):
    model = tacit.PrivateDistiller(epsilon=1, classes=range(10))
    with (
        sklearn.config_context(enable_metadata_routing=True),
        pytest.raises(InvalidInput, match="every fit is paid for"),
    ):
        kind(model).fit(PARTS.private_samples, PARTS.private_labels, public=PARTS.public_samples)


def test_cross_validation_pays_for_every_fit_and_says_so_first(tmp_path):
    place = ledger(tmp_path, 3)
    model = tacit.PrivateDistiller(epsilon=1, classes=range(10), ledger=place, account="research")
    with sklearn.config_context(enable_metadata_routing=True), pytest.warns(tacit.TacitWarning) as heard:
        scores = cross_val_score(model, *DIGITS, cv=3, params={"public": PARTS.public_samples}, error_score="raise")
    assert scores.mean() > 0.8
    assert spent(place) == 3
    assert "every fit of this search pays epsilon = 1 from" in str(heard[0].message)
    assert "its 3 fits cost epsilon = 3 in total" in str(heard[0].message)
    assert "research has spent epsilon 0 of 3" in str(heard[0].message)
    assert "not covered by any guarantee" in str(heard[0].message)


def test_the_warning_comes_before_the_first_payment(tmp_path):
    place = ledger(tmp_path, 3)
    model = tacit.PrivateDistiller(epsilon=1, classes=range(10), ledger=place, account="research")
    with warnings.catch_warnings():
        warnings.simplefilter("error", tacit.TacitWarning)
        with pytest.raises(tacit.TacitWarning, match="every fit of this search pays"):
            cross_val_score(model, *DIGITS, cv=3, params={"public": PARTS.public_samples}, error_score="raise")
    assert spent(place) == 0


def test_a_search_ends_at_the_ceiling(tmp_path):
    place = ledger(tmp_path, 3)
    model = tacit.PrivateDistiller(epsilon=1, classes=range(10), ledger=place, account="research")
    search = GridSearchCV(model, {"queries": [20, 32]}, cv=2, error_score="raise")
    with (
        pytest.warns(tacit.TacitWarning) as heard,
        pytest.raises(tacit.BudgetExceeded, match="account 'research' cannot pay"),
    ):
        search.fit(*DIGITS, public=PARTS.public_samples)
    # Two candidates in two folds, and the best once more on everything.
    assert "its 5 fits cost epsilon = 5 in total" in str(heard[0].message)
    assert spent(place) == 3


def test_a_search_that_goes_on_after_the_ceiling_spends_nothing_more(tmp_path):
    place = ledger(tmp_path, 3)
    model = tacit.PrivateDistiller(epsilon=1, classes=range(10), ledger=place, account="research")
    search = GridSearchCV(model, {"queries": [20, 32]}, cv=2, refit=False)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        search.fit(*DIGITS, public=PARTS.public_samples)
    assert any(issubclass(each.category, FitFailedWarning) for each in heard)
    assert spent(place) == 3
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [False, True]


@pytest.mark.slow
def test_a_search_with_several_processes_pays_from_one_account(tmp_path):
    place = ledger(tmp_path, 3)
    model = tacit.PrivateDistiller(epsilon=1, classes=range(10), ledger=str(place), account="research")
    search = GridSearchCV(model, {"queries": [20, 32]}, cv=2, refit=False, n_jobs=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(*DIGITS, public=PARTS.public_samples)
    assert spent(place) == 3


@pytest.mark.parametrize("frames", ["pandas", "polars"])
@pytest.mark.parametrize("chosen", ["on the pipeline", "for all estimators"])
def test_set_output_of_a_pipeline_gives_it_tables_with_names(frames, chosen):
    library = pytest.importorskip(frames, reason=f"{frames} is not installed")
    names = [f"p{column}" for column in range(64)]
    private, public, tested = (
        library.DataFrame(dict(zip(names, each.T, strict=True)))
        for each in (PARTS.private_samples, PARTS.public_samples, PARTS.test_samples)
    )
    steps = Pipeline(
        [("same", FunctionTransformer(feature_names_out="one-to-one")),
         ("distill", tacit.PrivateDistiller(classes=range(10), seed=1, student="logistic"))],
        transform_input=["public"],
    )  # fmt: skip
    everywhere = "default" if chosen == "on the pipeline" else frames
    if chosen == "on the pipeline":
        assert steps.set_output(transform=frames) is steps
    with sklearn.config_context(enable_metadata_routing=True, transform_output=everywhere):
        steps.fit(private, PARTS.private_labels, public=public)
        assert steps["distill"].feature_names_in_.tolist() == names
        # Columns in another order are put in order; a FunctionTransformer before it would rename them.
        model = steps["distill"]
        np.testing.assert_array_equal(model.predict(tested[names[::-1]]), model.predict(tested))
        # A classifier's own output is an array, whatever is set, as scorers expect it.
        assert type(steps.predict_proba(tested)) is np.ndarray


def test_it_is_a_classifier_and_no_transformer():
    """As a transformer it could stand before steps of a pipeline that learn from the private labels without noise."""
    model = tacit.PrivateDistiller(classes=range(10), seed=1)
    assert not hasattr(model, "transform")
    assert hasattr(model, "set_output") is hasattr(LogisticRegression(), "set_output") is False
    with pytest.raises(TypeError, match="ntermediate steps should be transformers"):
        Pipeline([("distill", model), ("learn", LogisticRegression())]).fit(*DIGITS)


def test_tables_with_words_and_gaps_are_taken_as_they_are():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    random = np.random.default_rng(0)
    ill = random.random(1200) < 0.5
    age = np.where(random.random(1200) < 0.05, np.nan, np.where(ill, 70, 30) + random.normal(0, 5, 1200))
    sex = np.where(ill ^ (random.random(1200) < 0.1), "f", "m")
    table = pandas.DataFrame({"age": age, "sex": sex, "height": random.normal(170, 9, 1200)})
    model = tacit.PrivateDistiller(epsilon=2, classes=[False, True], seed=1, student="logistic")
    model.fit(table[:700], ill[:700], public=table[700:1000])
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["age", "sex", "height"]
    assert model.score(table[1000:], ill[1000:]) > 0.85
    assert model.predict_proba(table[["height", "sex", "age"]][1000:]).shape == (200, 2)


WRONG = {
    "no public samples": ({}, {"public": None}, "fit needs public samples"),
    "a ledger object": (
        {"ledger": tacit.open_ledger("memory:", {"a": tacit.Ceiling(1)}), "account": "a"}, {}, "path or URL",
    ),
    "an option of another method": ({"teachers": 3}, {}, "unknown option 'teachers' of ReverseKNN"),
    "an option beside an options object": ({"method": tacit.PATE(), "queries": 3}, {}, "give the options in the method "
    "object"),
    "a mistyped method": ({"method": "rkn"}, {}, "did you mean 'rknn'"),
    "measured targets": ({}, {"y": np.linspace(0, 1, 1000)}, "Unknown label type: continuous"),
    "a spent budget": ({"epsilon": 0}, {}, "epsilon must be above 0"),
    "an account without a ledger": ({"account": "research"}, {}, "an account needs a ledger"),
    "a student without weights": ({"student": "forrest"}, {}, "did you mean forest"),
    "other features": ({}, {"public": PARTS.public_samples[:, 1:]}, "64 features and public ones 63"),
    "text": ({}, {"public": np.array([["a"] * 64])}, "no column that varies"),
    "two-dimensional rows": ({}, {"public": PARTS.public_samples[0]}, "Expected 2D array"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_told_before_anything_is_paid(case):
    parameters, given, message = WRONG[case]
    told = {"X": DIGITS[0], "y": DIGITS[1], "public": PARTS.public_samples} | given
    with pytest.raises(tacit.InvalidInput, match=message):
        tacit.PrivateDistiller(**({"classes": range(10)} | parameters)).fit(**told)


def test_a_column_of_labels_is_taken_with_a_warning():
    with pytest.warns(DataConversionWarning):
        tacit.PrivateDistiller(seed=1, classes=range(10)).fit(
            DIGITS[0], DIGITS[1][:, None], public=PARTS.public_samples
        )


def test_any_scikit_learn_student_can_be_taught():
    model = tacit.PrivateDistiller(student=LogisticRegression(max_iter=500), classes=range(10), seed=1)
    copy = clone(model)
    assert copy.student is not model.student
    assert copy.get_params()["student__max_iter"] == 500
    copy.fit(*DIGITS, public=PARTS.public_samples)
    assert type(copy.run_.student).__name__ == "LogisticRegression"


def test_the_page_shows_what_works_and_lists_every_check_that_does_not_apply(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "estimator.md").read_text()
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(examples) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tacit.TacitWarning)
        for example in examples:
            exec(example, {})
    for name in EXPECTED:
        assert name.replace(name.partition("multilabel_")[2] or "-", "*") in page, name
