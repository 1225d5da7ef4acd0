"""Data of every common kind through the one call: recognized from public samples, kept, taken raw again."""

import csv
import json
import lzma
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import tacit
from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput, TacitWarning
from tacit.datasets.frame import Frame, cells_of
from tacit.ledger.memory import MemoryLedger
from tacit.methods.task import Nodes

CHANCE = np.random.default_rng(11)
TRUTH = np.arange(600) % 2
OUTCOMES = np.array(["ill", "well"])[TRUTH]
SPLIT = slice(0, 300), slice(300, 500), slice(500, 600)
WORDS = (["cough", "fever", "throat", "flu", "cold"], ["fracture", "bone", "cast", "knee", "fall"])


def mixed(rows, **changes):
    """A table of which the ward and the stage tell the outcome."""
    count = len(TRUTH[rows])
    truth = TRUTH[rows]
    chance = np.random.default_rng(rows.start)
    columns = {
        "age": np.where(chance.random(count) < 0.1, np.nan, chance.normal(50, 10, count) + 25 * truth),
        "dose": chance.random(count),
        "ward": [("north" if each else "south") if chance.random() < 0.9 else "west" for each in truth],
        "stage": [("I", "II")[each] for each in truth],
        "seen": [f"2024-{1 + row % 12:02d}-{1 + row % 28:02d}" for row in range(count)],
        "insured": chance.random(count) < 0.5,
        "empty": [None] * count,
        **changes,
    }
    return Frame(tuple(columns), tuple(cells_of(each) for each in columns.values()))


def texts(rows):
    return np.array([
        f"{CHANCE.choice(WORDS[each])} {rows.start + place} {' '.join(CHANCE.choice(WORDS[each], 4))} again"
        for place, each in enumerate(TRUTH[rows])
    ])  # fmt: skip


def distill(private, public, **options):
    given = {"classes": ["ill", "well"], "queries": 10, "seed": 1} | options
    return tacit.distill(private, public, 5, **given)


def accuracy(run, samples):
    return (run.student.predict(samples) == OUTCOMES[SPLIT[2]]).mean()


PRIVATE, PUBLIC, TEST = map(mixed, SPLIT)


def as_pandas(frame):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({name: frame.column(name) for name in frame.columns})


def as_polars(frame):
    polars = pytest.importorskip("polars")
    return polars.DataFrame({name: frame.column(name).tolist() for name in frame.columns})


def as_arrow(frame):
    return pytest.importorskip("pyarrow").Table.from_pandas(as_pandas(frame), preserve_index=False)


@pytest.mark.parametrize("form", [lambda frame: frame, as_pandas, as_polars, as_arrow])
def test_a_mixed_table_is_learned_from_saved_and_taken_raw_again(form, tmp_path):
    private, public, test = map(form, (PRIVATE, PUBLIC, TEST))
    told = []
    run = distill((private, OUTCOMES[SPLIT[0]]), public, observer=tacit.Observer(data=told.extend))
    assert run.recipe["data_kind"] == "mixed"
    assert told[0] == "a mixed table"
    assert "column 'empty' is left out: it is empty in every public row" in told
    assert run.recipe["encoding"] == told[1:]
    assert run.features == ("age", "dose", "ward", "stage", "seen", "insured")
    assert accuracy(run, test) > 0.95
    loaded = tacit.load(run.save(tmp_path / "run"))
    assert np.array_equal(loaded.student.predict_proba(test), run.student.predict_proba(test))
    assert np.array_equal(loaded.student.predict(test), run.student.predict(TEST))
    assert (tmp_path / "run" / "encoder.tacit").is_file()
    assert json.loads((tmp_path / "run" / "run.json").read_text())["encoder"] == "encoder.tacit"
    with pytest.raises(InvalidInput, match="missing ward"):
        loaded.student.predict(PUBLIC.take(["age", "dose", "stage", "seen", "insured"]))


def test_private_rows_never_change_the_encoder(tmp_path):
    strange = mixed(
        SPLIT[0], age=["very old"] * 300, ward=["nowhere"] * 300, seen=["soon"] * 300, insured=[None] * 300,
        stage=["I", "IX", None] * 100,
    )  # fmt: skip
    content = []
    for place, private in enumerate((PRIVATE, strange)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TacitWarning)
            run = distill((private, OUTCOMES[SPLIT[0]]), PUBLIC)
        folder = run.save(tmp_path / str(place))
        record = json.loads((folder / "run.json").read_text())
        content.append(((folder / "encoder.tacit").read_bytes(), record["recipe"], record["features"]))
    assert content[0] == content[1]


def test_what_private_rows_have_that_cannot_be_read_is_told_to_the_operator_alone(tmp_path):
    strange = mixed(SPLIT[0], age=["SENTINEL", *PRIVATE.column("age").tolist()[1:]], ward=["SENTINEL"] * 300)
    with pytest.warns(
        TacitWarning, match="without a number, by column: 'age' 1; cells of a level .*'ward' 300"
    ) as heard:
        run = distill((strange, OUTCOMES[SPLIT[0]]), PUBLIC)
    assert not any("SENTINEL" in str(each.message) for each in heard)
    run.save(tmp_path / "run")
    for file in (tmp_path / "run").iterdir():
        assert b"SENTINEL" not in file.read_bytes()
        assert b"cells have" not in file.read_bytes()


def test_a_table_with_its_label_and_persons_as_columns():
    frame = as_pandas(PRIVATE).assign(outcome=OUTCOMES[SPLIT[0]], who=np.arange(300) // 2)
    run = distill(frame, as_pandas(PUBLIC), label="outcome", persons="who")
    assert run.guarantee.unit.column == "who"
    assert accuracy(run, as_pandas(TEST)) > 0.9
    # Where the public table says whose its rows are, too, that is no feature.
    owned = as_pandas(PUBLIC).assign(who=np.arange(len(PUBLIC)) // 2)
    assert distill(frame, owned, label="outcome", persons="who").features == run.features
    with pytest.raises(InvalidInput, match=r"no column 'outcom'; the columns are .* did you mean 'outcome'"):
        distill(frame, as_pandas(PUBLIC), label="outcom")
    with pytest.raises(InvalidInput, match="name its label column"):
        distill(frame, as_pandas(PUBLIC))


def test_other_columns_are_refused_before_anything_is_paid():
    ledger = MemoryLedger({"a": Ceiling(50)})
    other = Frame(("age", "dose", "wart", "stage", "seen", "insured", "empty"), PRIVATE.cells)
    with pytest.raises(InvalidInput, match="missing ward, unknown wart; did you mean ward for wart"):
        distill((other, OUTCOMES[SPLIT[0]]), PUBLIC, ledger=ledger, account="a", seed=None)
    assert ledger.balance("a").payments == 0


def test_texts_are_learned_from_saved_and_taken_again(tmp_path):
    private, public, test = map(texts, SPLIT)
    run = distill((private.tolist(), OUTCOMES[SPLIT[0]]), public)
    assert run.recipe["data_kind"] == "text"
    assert accuracy(run, test) > 0.95
    loaded = tacit.load(run.save(tmp_path / "run"))
    assert np.array_equal(loaded.student.predict_proba(test.tolist()), run.student.predict_proba(test))
    assert loaded.student.predict(["", "a broken bone"]).shape == (2,)


def test_a_sparse_matrix_and_a_tensor():
    dense = CHANCE.random((600, 80)) * (CHANCE.random((600, 80)) < 0.2) + np.eye(80)[TRUTH]
    private, public, test = (sparse.csr_matrix(dense[rows]) for rows in SPLIT)
    run = distill((private, OUTCOMES[SPLIT[0]]), public)
    assert accuracy(run, test) > 0.9
    torch = pytest.importorskip("torch")
    rows = torch.tensor(dense)
    run = distill((rows[SPLIT[0]], OUTCOMES[SPLIT[0]]), rows[SPLIT[1]])
    assert run.encoder is None
    assert accuracy(run, rows[SPLIT[2]].numpy()) > 0.9


def images(folder, rows, classes=True):
    pillow = pytest.importorskip("PIL.Image")
    for place, truth in enumerate(TRUTH[rows]):
        pixels = np.random.default_rng(rows.start + place).integers(0, 60, size=(12, 12)).astype(np.uint8)
        pixels[:, :6] += np.uint8(150 * truth)
        pixels[:, 6:] += np.uint8(150 * (1 - truth))
        home = folder / OUTCOMES[rows][place] if classes else folder / f"part {place % 2}"
        home.mkdir(parents=True, exist_ok=True)
        pillow.fromarray(pixels).save(home / f"{place:03d}.png")
    return folder


def test_folders_of_images(tmp_path):
    private, public = images(tmp_path / "private", SPLIT[0]), images(tmp_path / "public", SPLIT[1], False)
    test = images(tmp_path / "test", SPLIT[2])
    run = distill(private, public)
    assert (run.recipe["data_kind"], run.recipe["encoding"]) == ("images", ["12x12 pixels, gray"])
    files = sorted(test.rglob("*.png"))
    truth = np.array([file.parent.name for file in files])
    assert (run.student.predict(files) == truth).mean() > 0.9
    loaded = tacit.load(run.save(tmp_path / "run"))
    assert np.array_equal(loaded.student.predict(test), run.student.predict([str(file) for file in files]))
    (private / "ill" / "000b.png").write_bytes(b"no image")
    with pytest.warns(TacitWarning, match="1 image cannot be read, the first is row 1"):
        distill(private, public)
    (tmp_path / "one" / "ill").mkdir(parents=True)
    files[0].rename(tmp_path / "one" / "ill" / "1.png")
    with pytest.raises(InvalidInput, match="only one folder; labeled images need one folder per class"):
        distill(tmp_path / "one", public)
    (public / "part 0" / "bad.png").write_bytes(b"no image")
    with pytest.raises(InvalidInput, match=r"bad\.png: cannot be read as an image; remove"):
        distill(private, public)


def test_an_array_of_objects_has_columns_by_their_places(tmp_path):
    private, public, test = (
        np.column_stack([frame.column(name).astype(object) for name in frame.columns])
        for frame in (PRIVATE, PUBLIC, TEST)
    )
    run = distill((private, OUTCOMES[SPLIT[0]]), public)
    assert run.features == ("0", "1", "2", "3", "4", "5")
    assert accuracy(run, test) > 0.95
    gaps = np.column_stack([PUBLIC.column("age"), PUBLIC.column("dose")])
    with pytest.raises(InvalidInput, match="public samples: row"):
        distill((np.nan_to_num(gaps), OUTCOMES[SPLIT[1]]), gaps)


def test_nodes_are_not_asked_for_what_needs_numbers_or_has_no_columns():
    nodes = Nodes(lambda _: [], 3, 100)
    given = {"classes": ["ill", "well"], "exchange": nodes}
    with pytest.raises(InvalidInput, match="are a mixed table, and over nodes fedmd takes numbers"):
        tacit.distill(None, PUBLIC, 1, method="fedmd", **given)
    with pytest.raises(InvalidInput, match="a sparse matrix has no columns"):
        tacit.distill(None, sparse.csr_array(np.eye(4)), 1, **given)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"data_kind": "tables"}, "unknown kind 'tables': choose one of .*; did you mean table"),
        ({"categories": "ward"}, "categories must be a list of columns"),
        ({"text": "note"}, "no column 'note'"),
        ({"data_kind": "table"}, "column 'ward': not a number"),
        ({"label": "outcome"}, r"a pair \(X, y\) has its labels in y"),
    ],
)
def test_bad_words_about_data_are_refused(change, said):
    with pytest.raises(InvalidInput, match=said):
        distill((PRIVATE, OUTCOMES[SPLIT[0]]), PUBLIC, **change)


DATA = Path(__file__).parents[2].parent / "shared" / "data"


@pytest.mark.skipif(not (DATA / "adult.csv.xz").is_file(), reason="../shared/data is not here")
def test_adult_as_it_was_published():
    pandas = pytest.importorskip("pandas")
    rows = pandas.read_csv(DATA / "adult.csv.xz", skipinitialspace=True)
    train = rows[rows["split"] == "train"].drop(columns="split").sample(frac=1, random_state=0)
    test = rows[rows["split"] != "train"].drop(columns="split")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        run = tacit.distill(
            train[:20_000], train[-4_000:].drop(columns="income"), 1, delta=1e-5, label="income",
            classes=["<=50K", ">50K"], seed=1, method="rknn",
        )  # fmt: skip
    assert len(run.labels) == 4_000
    found = run.student.predict(test.drop(columns="income"))
    assert (found == test["income"].str.rstrip(".").to_numpy()).mean() > 0.81


@pytest.mark.skipif(not (DATA / "ag_news_train10k.csv.xz").is_file(), reason="../shared/data is not here")
def test_ag_news_as_texts_with_the_core_alone(monkeypatch):
    monkeypatch.setattr("tacit.encoders.text.minilm_installed", lambda: False)
    with lzma.open(DATA / "ag_news_train10k.csv.xz", "rt", encoding="utf-8", newline="") as opened:
        rows = np.array([(topic, f"{title}\n{body}") for topic, title, body in csv.reader(opened)])
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        run = tacit.distill(
            (rows[:7000, 1], rows[:7000, 0]), rows[7000:, 1], 1, delta=1e-5, classes=list("1234"), seed=1, method="rknn"
        )
    assert run.recipe["data_kind"] == "text"
    assert (run.student.predict(rows[7000:, 1]) == rows[7000:, 0]).mean() > 0.65
