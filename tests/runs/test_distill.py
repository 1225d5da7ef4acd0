import json
from fractions import Fraction

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

import tacit
from tacit.core.errors import InvalidInput, TacitError, TacitWarning
from tacit.core.spend import DiscreteGaussian, Pure
from tacit.methods.rknn.plan import plan
from tacit.representations.scaled import Identity
from tacit.runs.folders import new_folder

PARTS = tacit.digits()
PRIVATE = (PARTS.private_samples, PARTS.private_labels)


def distill(**options):
    given = {"private": PRIVATE, "public": PARTS.public_samples, "epsilon": 1.0, "classes": range(10), "seed": 1}
    return tacit.distill(**(given | options))


def right(run):
    return np.mean(run.student.predict(PARTS.test_samples) == PARTS.test_labels)


def test_the_default_is_pure_private_and_useful():
    run = distill(seed=None)
    assert run.guarantee.epsilon == 1
    assert run.guarantee.delta == 0
    assert not run.guarantee.simulation
    assert run.guarantee.caveats == ()
    assert [receipt.spend for receipt in run.receipts] == [Pure(1)]
    assert run.labels.shape == (500,)
    assert right(run) > 0.8


def test_a_seed_makes_a_simulation_that_can_be_replayed():
    # Many queries for few votes, so that noise decides some labels.
    first, again, other = (distill(queries=60, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.query_labels, again.query_labels)
    assert not np.array_equal(first.query_labels, other.query_labels)
    assert first.guarantee.simulation
    assert "SIMULATION" in str(first.guarantee)


def test_soft_labels_pay_for_counts_and_bring_probabilities():
    run = distill(labels="soft")
    assert run.recipe["mechanism"] == "laplace"
    assert run.probabilities.shape == (500, 10)
    assert np.allclose(run.probabilities.sum(axis=1), 1)
    assert np.array_equal(run.labels, run.classes[run.probabilities.argmax(axis=1)])
    assert right(run) > 0.75


def test_delta_allows_gaussian_noise_where_it_is_better():
    assert distill(delta=1e-6).recipe["mechanism"] == "permute-and-flip"
    many = distill(delta=1e-6, neighbors=8)
    assert many.recipe["mechanism"] == "gaussian"
    assert isinstance(many.receipts[0].spend, DiscreteGaussian)
    assert Fraction(9, 10) < many.guarantee.epsilon <= 1
    assert many.guarantee.delta == Fraction(1, 10**6)
    assert "permute-and-flip would need" in many.recipe["why"]


def test_the_answer_does_not_depend_on_how_records_are_spread():
    whole = distill()
    for holders in (10, 1000, PARTS.private_labels):
        assert np.array_equal(distill(holders=holders).query_labels, whole.query_labels)


@pytest.mark.parametrize("mechanism", ["auto", "one message", "many messages"])
def test_a_shuffled_crowd_needs_no_curator(mechanism):
    run = distill(trust="shuffle", delta=1e-6, mechanism=mechanism, holders=1000)
    assert "Trust (shuffle): a shuffler is trusted" in str(run.guarantee)
    assert "this process saw all records" in str(run.guarantee)
    assert run.guarantee.epsilon <= 1
    assert run.guarantee.delta <= Fraction(1, 10**6)
    assert right(run) > 0.8


@pytest.mark.parametrize("mechanism", ["auto", "Collision", "symmetric unary encoding"])
def test_a_local_crowd_trusts_nobody(mechanism):
    name = "optimal local hashing" if mechanism == "Collision" else mechanism
    run = distill(trust="local", epsilon=6, mechanism=name)
    assert "Trust (local): nobody is trusted" in str(run.guarantee)
    assert run.guarantee.epsilon == 6
    assert "this process saw all records" in str(run.guarantee)
    assert right(run) > 0.7


def test_a_person_of_a_crowd_answers_with_one_record():
    run = distill(trust="local", epsilon=6, persons=np.arange(1000) // 2, unit=tacit.Unit.person("patient", 1))
    assert 'one person (column "patient", at most 1 record each)' in str(run.guarantee)


def test_a_person_costs_as_many_records_as_it_may_have():
    persons = np.arange(1000) // 4
    run = distill(persons=persons, unit=tacit.Unit.person("patient", 2), holders=5)
    assert 'one person (column "patient", at most 2 records each)' in str(run.guarantee)
    assert run.receipts[0].spend == Pure(1)


def test_the_plan_does_not_depend_on_how_many_records_a_person_has():
    few = np.concatenate([np.arange(500), np.arange(500)])
    many = np.concatenate([np.arange(500), np.zeros(500, dtype=int)])
    plans = []
    for persons in (few, many):
        distill(persons=persons, observer=tacit.Observer(plan=plans.append))
    assert plans[0].queries == plans[1].queries == 16


def test_owners_and_persons_go_together():
    persons = np.arange(1000) // 2
    spread = distill(persons=persons, holders=persons % 7)
    assert np.array_equal(spread.query_labels, distill(persons=persons).query_labels)


def test_labels_of_pandas_survive_the_disk(tmp_path):
    words = np.array([f"digit {each}" for each in PRIVATE[1]], dtype=object)
    run = distill(private=(PRIVATE[0], words), classes=None)
    assert tacit.load(run.save(tmp_path / "run")).labels.tolist() == run.labels.tolist()


def test_every_file_of_a_simulation_says_so(tmp_path):
    for labels in ("hard", "soft"):
        folder = distill(labels=labels).save(tmp_path / labels)
        assert "simulated label" in (folder / "labels.csv").read_text().splitlines()[0]
        assert np.load(folder / "arrays.npz")["simulation"]
        assert "SIMULATION" in (folder / "run.json").read_text()
        assert (folder / "simulated-student.skops").exists()
    real = distill(seed=None).save(tmp_path / "real")
    assert "simul" not in (real / "labels.csv").read_text().splitlines()[0]
    assert (real / "student.skops").exists()


def test_one_label_for_all_is_still_a_run():
    """What was paid for is never lost to a student that cannot learn from it."""
    with pytest.warns(TacitWarning) as said:
        run = distill(private=(PRIVATE[0], np.full(1000, 3)), epsilon=1000, queries=40)
    assert any("all labels are the same (3)" in str(each.message) for each in said)
    assert set(run.labels) == {3}
    assert run.recipe["student"] == "DummyClassifier"
    assert set(run.student.predict(PARTS.test_samples)) == {3}


def test_a_pure_run_is_said_to_be_pure_even_where_delta_was_allowed():
    assert distill(delta=1e-6).guarantee.delta == 0


def test_a_delta_that_protects_nobody_is_admitted():
    with pytest.warns(TacitWarning, match="delta is not below one over"):
        run = distill(delta=0.01, mechanism="gaussian", neighbors=2)
    assert "delta is not below one over the number of records" in str(run.guarantee)


def test_a_guarantee_does_not_tell_the_number_of_records_where_it_is_private():
    with pytest.warns(TacitWarning, match="delta is not below one over"):
        run = distill(delta=0.01, mechanism="gaussian", neighbors=2, adjacency="add-remove", queries=30)
    assert run.guarantee.caveats == ()


def test_classes_read_off_the_labels_are_admitted():
    run = distill(classes=None)
    assert "read from the private labels" in str(run.guarantee)
    assert run.classes.tolist() == list(range(10))


def test_a_class_that_no_record_has_is_fine():
    assert distill(classes=range(12)).classes.tolist() == list(range(12))


@pytest.mark.parametrize("student", ["forest", GaussianNB(), RandomForestClassifier(10, random_state=0)])
def test_any_student_with_weights_works(student):
    assert right(distill(student=student)) > 0.7


@pytest.mark.parametrize("representation", ["identity", "standardized", "pca", "spectral", Identity(64)])
def test_every_representation_works(representation):
    assert right(distill(representation=representation)) > 0.6


def test_images_may_keep_their_shape(tmp_path):
    run = distill(
        private=(PARTS.private_samples.reshape(-1, 8, 8), PARTS.private_labels),
        public=PARTS.public_samples.reshape(-1, 8, 8),
    )
    assert np.array_equal(run.query_labels, distill().query_labels)
    images = PARTS.test_samples.reshape(-1, 8, 8)
    loaded = tacit.load(run.save(tmp_path / "run"))
    for student in (run.student, loaded.student):
        assert np.array_equal(student.predict(images), distill().student.predict(PARTS.test_samples))
    assert run.recipe["student"] == "NeighborMap, StandardScaler, LogisticRegression"


@pytest.mark.parametrize("wrap", [list, tuple])
def test_common_shapes_are_taken_as_they_are(wrap):
    """A pair as a list, labels as a column (as in MedMNIST), numbers of numpy."""
    given = wrap([PRIVATE[0], PRIVATE[1][:, None]])
    run = distill(private=given, queries=np.int64(32), holders=np.int64(3), neighbors=np.int32(1), seed=np.int64(1))
    assert np.array_equal(run.query_labels, distill().query_labels)
    column = distill(persons=np.arange(1000)[:, None])
    assert column.guarantee.unit == tacit.Unit.person("person", 1)


def test_public_copies_of_private_records_are_told_to_the_operator_alone():
    public = np.concatenate([PARTS.public_samples, PARTS.private_samples[:7]])
    with pytest.warns(TacitWarning, match="7 public rows are exact copies of private ones"):
        run = distill(public=public, seed=None)
    assert run.guarantee == distill(seed=None).guarantee
    assert "assumed to contain no private record" in str(run.guarantee)


def test_a_large_epsilon_is_weak_in_words():
    with pytest.warns(TacitWarning):
        runs = [distill(epsilon=each, seed=None) for each in (10, 50)]
    assert "Caveat: epsilon = 10 is weak" in str(runs[0].guarantee)
    assert "by up to 30,000" in str(runs[0].guarantee)
    assert "Caveat: epsilon = 50 is practically no protection" in str(runs[1].guarantee)
    assert all(run.guarantee.weak and run.guarantee.to_json()["weak"] for run in runs)
    assert not distill().guarantee.weak


def test_a_paid_run_is_not_lost_to_its_student():
    class Refusing(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            raise RuntimeError("no")

    with pytest.warns(TacitWarning, match="Refusing could not be trained"):
        run = distill(student=Refusing())
    assert run.labels.shape == (500,)
    assert run.recipe["student"] == "DummyClassifier"


def test_queries_are_never_more_than_the_samples_that_differ():
    public = np.repeat(PARTS.public_samples[:20], 25, axis=0)
    assert distill(public=public, representation="pca").recipe["queries"] == 20
    with pytest.raises(InvalidInput, match="the 20 distinct public samples"):
        distill(public=public, representation="pca", queries=21)


def test_the_stages_of_a_run_are_told():
    stages = []
    distill(observer=tacit.Observer(stage=stages.append))
    assert stages == [
        "choosing what to ask",
        "planning reverse k-NN votes: with a part of the budget votes cannot be distinguished from noise",
        "choosing a representation and a mechanism",
        "choosing queries among the public samples",
        "counting votes",
        "training the student",
    ]


def test_add_remove_is_cheaper_and_says_that_the_number_is_private():
    run = distill(adjacency="add-remove", queries=40)
    assert run.receipts[0].spend == Pure(1)
    assert "number of records is then private" in str(run.guarantee)


def test_the_plan_is_made_before_any_record_is_seen():
    seen = []
    distill(observer=tacit.Observer(plan=seen.append, progress=seen.append))
    assert seen[0].queries == 32
    assert seen[-1] == 1000
    chosen = plan(PARTS.public_samples, classes=10, records=1000, epsilon=1)
    assert chosen.choice.name == "permute-and-flip"


def test_a_run_survives_the_disk(tmp_path):
    run = distill(labels="soft")
    loaded = tacit.load(run.save(tmp_path / "run"))
    assert sorted(file.name for file in (tmp_path / "run").iterdir()) == [
        "arrays.npz", "labels.csv", "recipe.toml", "run.json", "simulated-student.skops"]  # fmt: skip
    assert loaded.guarantee == run.guarantee
    assert loaded.receipts == run.receipts
    assert loaded.recipe == run.recipe
    for name in ("labels", "probabilities", "classes", "queries", "query_labels", "membership"):
        assert np.array_equal(getattr(loaded, name), getattr(run, name))
    assert np.array_equal(loaded.student.predict(PARTS.test_samples), run.student.predict(PARTS.test_samples))
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert "SIMULATION" in record["guarantee"]["statement"]
    assert record["versions"]["tacit"] == tacit.__version__
    lines = (tmp_path / "run" / "labels.csv").read_text().splitlines()
    assert len(lines) == 501


def test_a_run_folder_is_never_overwritten_or_half_written(tmp_path, monkeypatch):
    run = distill()
    run.save(tmp_path / "run")
    with pytest.raises(InvalidInput, match="exists already"):
        run.save(tmp_path / "run")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tacit.runs.run.versions", full)
    with pytest.raises(TacitError, match="the disk is full; nothing was left behind"):
        run.save(tmp_path / "other")
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


def test_an_interrupted_write_leaves_nothing(tmp_path):
    def write():
        with new_folder(tmp_path / "run") as partial:
            (partial / "labels.csv").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "run.json").write_text("{"), "cannot be read"),
        (lambda folder: (folder / "run.json").write_text('{"format": 99}'), "written in format 99"),
        (lambda folder: (folder / "arrays.npz").unlink(), "cannot be read|no such file"),
        (lambda folder: (folder / "simulated-student.skops").write_bytes(b"no"), "not a student"),
    ],
)
def test_a_damaged_run_is_refused_in_words(tmp_path, damage, said):
    folder = distill().save(tmp_path / "run")
    damage(folder)
    with pytest.raises(InvalidInput, match=said):
        tacit.load(folder)
