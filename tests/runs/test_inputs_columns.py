"""Names are part of the data: tables are matched by them before anything is paid, and again when a student predicts."""

import json
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput, TacitWarning
from tacit.core.samples import column_names
from tacit.datasets.tables import read_table
from tacit.ledger.memory import MemoryLedger
from tacit.methods.fedmd.models import Schedule
from tacit.students.weighted import logistic

NAMES = ["age", "dose", "weight", "height"]
NOISE = np.random.default_rng(3).normal(size=(700, 4))
# The first column decides, the last is large: taken for one another they give a useless model.
TRUTH = (np.arange(700) % 2).astype(int)
ALL = NOISE * [1, 3, 3, 9] + TRUTH[:, None] * [8, 0, 0, 0]
PRIVATE, PUBLIC, TEST = ALL[:300], ALL[300:500], ALL[500:]
TRUE = TRUTH[500:]


class Frame:
    """As much of a data frame as is looked at."""

    def __init__(self, values, columns):
        self.values, self.columns = np.asarray(values), columns

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)


def table(values, names=NAMES, order=None):
    """A data frame with its columns in another order, if one is given."""
    order = list(range(len(names))) if order is None else order
    return Frame(values[:, order], [names[each] for each in order])


REVERSED = [3, 2, 1, 0]
OTHERS = ["age", "dosis", "weight", "height"]


def distill(private, public, **options):
    return tacit.distill((private, TRUTH[:300]), public, 5, classes=[0, 1], queries=10, seed=1, **options)


def privatekt(private, public, **options):
    return tacit.distill(
        (private, TRUTH[:300]), public, method="privatekt", round_epsilon=8, delta=0, classes=[0, 1], rounds=20,
        queries_per_round=2, holders=5, model=logistic(), participation=1, seed=1, **options,
    )  # fmt: skip


def fedmd(private, public, **options):
    parties = [(Frame(private.values[each::2], private.columns), TRUTH[:300][each::2]) for each in (0, 1)]
    return tacit.distill(
        parties, public, 5, method="fedmd", classes=[0, 1], models=["forest"], rounds=1, queries=50, seed=1,
        schedule=Schedule(own=1, digest=1, revisit=1), **options,
    )  # fmt: skip


def multilabel(private, public, **options):
    sets = np.column_stack([TRUTH[:300] == 0, TRUTH[:300] == 1])
    return tacit.distill((private, sets), public, 5, max_labels=1, queries=10, seed=1, **options)


METHODS = {"rknn": distill, "privatekt": privatekt, "fedmd": fedmd, "multilabel": multilabel}


def models(run):
    """The student, and where holders have models of their own, theirs."""
    return (run.student, *(() if run.holder_models is None else run.holder_models.models))


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("method", METHODS)
def test_columns_in_another_order_give_the_same_model(method, place):
    if place and method != "fedmd":
        pytest.skip("holders have no models of their own")

    def student(run):
        return models(run)[place]

    made = METHODS[method](table(PRIVATE), table(PUBLIC))
    turned = METHODS[method](table(PRIVATE, order=REVERSED), table(PUBLIC))
    expected = np.asarray(student(made).predict(TEST))
    right = expected.argmax(axis=1) if expected.ndim == 2 else expected
    assert (right == TRUE).mean() > 0.95
    assert np.array_equal(student(turned).predict(TEST), expected)
    # The student takes a table in any order, and refuses one with other columns.
    for run in (made, turned):
        assert np.array_equal(student(run).predict(table(TEST, order=REVERSED)), expected)
        assert student(run).feature_names_in_.tolist() == NAMES
        with pytest.raises(InvalidInput, match="missing dose, unknown dosis; did you mean dose for dosis"):
            student(run).predict(table(TEST, OTHERS))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("names", [OTHERS, NAMES[:3], [*NAMES, "more"], ["a", "b", "c", "d"]])
def test_other_columns_are_refused_before_anything_is_paid(method, names):
    account = {"rknn": "a", "multilabel": "a"}.get(method, "holder 0")
    ledger = MemoryLedger({account: Ceiling(50, "0.1")})
    paying = {"ledger": ledger} | ({"account": "a"} if account == "a" else {})
    values = np.column_stack([PRIVATE, PRIVATE])[:, : len(names)]
    with pytest.raises(InvalidInput, match="private samples: the columns are not those of the public ones: "):
        METHODS[method](table(values, names), table(PUBLIC), **paying)
    assert ledger.balance(account).payments == 0


def test_at_most_ten_names_are_listed():
    wide = np.zeros((3, 40))
    with pytest.raises(InvalidInput) as refused:
        distill(table(wide, [f"a{each}" for each in range(40)]), table(wide, [f"{each}b" for each in range(40)]))
    assert "and 30 more" in str(refused.value)
    assert len(str(refused.value)) < 400


def test_a_test_set_is_matched_by_name():
    for method in (privatekt, fedmd):
        runs = [
            method(table(PRIVATE), table(PUBLIC), test=(table(TEST, order=order), TRUE)) for order in (None, REVERSED)
        ]
        found = [
            run.metrics["curve"] if run.holder_models is None else run.holder_models.accuracies.tolist() for run in runs
        ]
        assert len(found[0]) > 1
        assert found[0] == found[1]
        with pytest.raises(InvalidInput, match="test samples: the columns are not those of the public ones"):
            method(table(PRIVATE), table(PUBLIC), test=(table(TEST, OTHERS), TRUE))


def test_names_are_kept_with_the_run_and_checked_again(tmp_path):
    made = distill(table(PRIVATE), table(PUBLIC))
    loaded = tacit.load(made.save(tmp_path / "run"))
    assert loaded.features == made.features == tuple(NAMES)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["features"] == NAMES
    taught = privatekt(table(PRIVATE), table(PUBLIC))
    again = tacit.load(taught.save(tmp_path / "transfer"))
    for run, first in ((loaded, made), (again, taught)):
        assert np.array_equal(run.student.predict(table(TEST, order=REVERSED)), first.student.predict(TEST))
        assert np.array_equal(run.student.predict_proba(table(TEST, order=REVERSED)), run.student.predict_proba(TEST))
        with pytest.raises(InvalidInput, match="the columns are not those of the samples that it learned from"):
            run.student.predict(table(TEST, OTHERS))
    shared = fedmd(table(PRIVATE), table(PUBLIC)).save(tmp_path / "federation", holder_models=True)
    assert json.loads((shared / "run.json").read_text())["features"] == NAMES
    assert tacit.load(shared).student.feature_names_in_.tolist() == NAMES


def test_a_network_takes_tables_by_name_as_well(tmp_path):
    pytest.importorskip("torch")
    made = distill(table(PRIVATE), table(PUBLIC), student="network")
    loaded = tacit.load(made.save(tmp_path / "run"))
    assert np.array_equal(loaded.student.predict(table(TEST, order=REVERSED)), made.student.predict(TEST))


def test_a_damaged_list_of_names_is_refused(tmp_path):
    folder = distill(table(PRIVATE), table(PUBLIC)).save(tmp_path / "run")
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | {"features": "age"}))
    with pytest.raises(InvalidInput, match="features must be a list of column names"):
        tacit.load(folder)


def test_the_student_is_an_estimator_as_scikit_learn_knows_them():
    from sklearn.base import clone, is_classifier

    found = distill(table(PRIVATE), table(PUBLIC)).student
    assert is_classifier(found)
    assert found.n_features_in_ == 4
    assert found.classes_.tolist() == [0, 1]
    assert found.score(table(TEST, order=REVERSED), TRUE) > 0.95
    assert clone(found).fit(table(PRIVATE, order=REVERSED), TRUTH[:300]).score(TEST, TRUE) > 0.9


def test_without_names_nothing_changes_and_half_the_names_are_warned_of():
    plain = distill(PRIVATE, PUBLIC)
    assert plain.features is None
    assert not hasattr(plain.student, "feature_names_in_")
    # A data frame of a plain array numbers its columns: those are no names.
    numbered = distill(Frame(PRIVATE, range(4)), Frame(PUBLIC, range(4)))
    assert np.array_equal(numbered.labels, plain.labels)
    with pytest.warns(TacitWarning, match="the private samples have no column names and the others do"):
        half = distill(PRIVATE, table(PUBLIC))
    assert half.features == tuple(NAMES)
    with pytest.warns(TacitWarning, match="the public samples have no column names and the others do"):
        distill(table(PRIVATE), PUBLIC)


def test_names_of_several_kinds_of_tables():
    assert column_names(Frame(np.zeros((1, 2)), range(2))) is None
    assert column_names(Frame(np.zeros((1, 2)), [1, 0])) == ("1", "0")
    arrow = types.SimpleNamespace(column_names=["a", "b"], columns=[object(), object()])
    assert column_names(arrow) == ("a", "b")
    with pytest.raises(InvalidInput, match=r"several columns have the same name \(a\)"):
        column_names(Frame(np.zeros((1, 2)), ["a", "a"]))


def test_a_real_data_frame(tmp_path):
    pandas = pytest.importorskip("pandas")
    private, public, test = (pandas.DataFrame(each, columns=NAMES) for each in (PRIVATE, PUBLIC, TEST))
    made = distill(private[NAMES[::-1]], public)
    assert (made.student.predict(test[NAMES[::-1]]) == TRUE).mean() > 0.95
    with pytest.raises(InvalidInput, match="missing age"):
        made.student.predict(test.rename(columns={"age": "years"}))


def test_a_real_data_frame_of_polars():
    polars = pytest.importorskip("polars")
    private, public, test = (polars.DataFrame(each, schema=NAMES) for each in (PRIVATE, PUBLIC, TEST))
    made = distill(private.select(NAMES[::-1]), public)
    assert (made.student.predict(test.select(NAMES[::-1])) == TRUE).mean() > 0.95


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["well", "ill"]
    lines = [",".join([*NAMES[::-1], "outcome"])]
    lines += [",".join([*map(str, row[::-1]), names[label]]) for row, label in zip(PRIVATE, TRUTH, strict=False)]
    Path("private.csv").write_text("\n".join(lines))
    Path("public.csv").write_text("\n".join([",".join(NAMES), *(",".join(map(str, row)) for row in PUBLIC)]))
    return tmp_path


COMMAND = ["distill", "--private", "private.csv", "--public", "public.csv", "--label", "outcome", "--epsilon", "5",
           "--classes", "ill,well", "--out", "out"]  # fmt: skip


@pytest.mark.parametrize("method", [[], ["--method", "privatekt", "--holders", "5", "--model", "logistic"],
                                    ["--method", "fedmd", "--holders", "2", "--models", "forest"]])  # fmt: skip
def test_the_command_line_stores_the_names_of_its_files(files, method):
    with pytest.raises(SystemExit) as stopped:
        main([*COMMAND, *method])
    assert stopped.value.code == 0
    assert json.loads(Path("out/run.json").read_text())["features"] == NAMES
    if not method:
        found = tacit.load("out").student
        assert (found.predict(table(TEST, order=REVERSED)) == np.array(["well", "ill"])[TRUE]).mean() > 0.9


def test_files_with_other_columns_are_refused_with_their_names(files, capsys):
    Path("public.csv").write_text("age,dosis,weight,height\n1,2,3,4\n")
    with pytest.raises(SystemExit) as stopped:
        main(COMMAND)
    assert stopped.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "private.csv: the columns are not those of public.csv: missing dosis, unknown dose" in said


class _Column:
    def __init__(self, values):
        self._values = values

    def to_pylist(self):
        return self._values


class _Content:
    """As much of a pyarrow table as is looked at."""

    def __init__(self, columns):
        self._columns = columns
        self.column_names, self.num_rows = list(columns), len(next(iter(columns.values())))

    def column(self, name):
        return _Column(self._columns[name])


@pytest.fixture
def parquet(monkeypatch, tmp_path):
    """A stand-in for pyarrow, which need not be installed."""
    contents = {}
    module = types.ModuleType("pyarrow.parquet")
    module.read_table = lambda path: contents[Path(path).name]
    monkeypatch.setitem(sys.modules, "pyarrow", types.ModuleType("pyarrow"))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", module)

    def write(name, columns):
        (tmp_path / name).write_bytes(b"PAR1")
        contents[name] = _Content(columns)
        return tmp_path / name

    return write


def test_parquet_files_have_names(parquet):
    file = parquet("a.parquet", {"age": [61, 50], "dose": [2.5, True], "outcome": ["ill", "well"]})
    found = read_table(file, "outcome")
    assert (found.columns, found.named, found.labels.tolist()) == (("age", "dose"), True, ["ill", "well"])
    assert found.samples.tolist() == [[61, 2.5], [50, 1]]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"age": [1, None], "y": ["a", "b"]}, "row 1, column 'age': not a finite number; remove or fill in missing"),
        ({"age": [1, "x"], "y": ["a", "b"]}, "row 1, column 'age': not a number"),
        ({"age": [1, 2], "y": ["a", None]}, "row 1, column 'y': the value is missing"),
        ({"age": [1, 2], "z": ["a", "b"]}, "no column 'y'; the columns are age, z"),
        ({"y": ["a", "b"]}, "no feature columns are left"),
    ],
)
def test_bad_parquet_files_are_refused_with_their_place(parquet, columns, said):
    with pytest.raises(InvalidInput, match=said):
        read_table(parquet("a.parquet", columns), "y")


def test_a_real_parquet_file(tmp_path):
    arrow, reader = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    reader.write_table(arrow.table({"age": [61, 50], "outcome": ["ill", "well"]}), tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet", "outcome").samples.tolist() == [[61], [50]]


def test_without_pyarrow_a_parquet_file_is_explained(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(InvalidInput, match="Parquet files need pyarrow"):
        read_table(tmp_path / "a.parquet")


def test_mixed_types_are_read_as_numbers_and_text_is_named_with_its_place():
    objects = np.array([[1, 2.5], [np.int64(3), True]], dtype=object)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from tacit.runs.inputs import rows

        assert rows(Frame(objects, ["a", "b"]), "private").tolist() == [[1, 2.5], [3, 1]]
    objects[1, 0] = "three"
    with pytest.raises(InvalidInput, match="private samples must be numbers; row 1, column 'a' has none"):
        rows(Frame(objects, ["a", "b"]), "private")
    objects[1, 0] = None
    with pytest.raises(InvalidInput, match="row 1, column 0 is missing"):
        rows(objects, "private")
