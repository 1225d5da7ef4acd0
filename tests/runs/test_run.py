"""Runs on disk: written whole or not at all, and read only if they agree with their receipts."""

import json
import stat
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import tacit
from tacit.core.errors import InvalidInput, TacitError
from tacit.core.guarantee import Adjacency, Guarantee, Trust, Unit
from tacit.core.release import Receipt
from tacit.core.spend import Gaussian, Pure
from tacit.runs.folders import new_folder
from tacit.runs.run import Run, load
from tacit.students.weighted import logistic

CLAIM = Guarantee(Fraction(1), Fraction(0), Unit(), Adjacency.REPLACE_ONE, Trust.CENTRAL)


def receipt(spend, randomness="system"):
    return Receipt("this run", "r", "labels", spend, randomness, 1, "0" * 64)


PAID = (receipt(Pure(1)),)


def make(guarantee=CLAIM, receipts=PAID):
    samples, labels = np.array([[0.0], [1.0], [2.0]]), np.array(["a", "b", "b"])
    return Run(
        student=logistic().fit(samples, labels), labels=labels, probabilities=None, classes=np.array(["a", "b"]),
        arrays={
            "queries": np.zeros((2, 1), np.float32), "query_labels": np.array(["a", "b"]),
            "membership": np.array([0, 1, 1]),
        },
        guarantee=guarantee, guarantees={"this run": guarantee}, receipts=receipts, recipe={"method": "rknn"},
    )  # fmt: skip


@pytest.fixture
def saved(tmp_path):
    return make().save(tmp_path / "out")


def edit(folder, change):
    record = json.loads((folder / "run.json").read_text())
    change(record)
    (folder / "run.json").write_text(json.dumps(record))


def test_a_run_comes_back_as_it_was(saved):
    run = load(saved)
    assert run.labels.tolist() == ["a", "b", "b"]
    assert run.probabilities is None
    assert run.guarantee == CLAIM
    assert run.student.predict([[-9.0]]).tolist() == ["a"]
    assert sorted(file.name for file in saved.parent.iterdir()) == ["out"]


@pytest.mark.parametrize("left", [0, 1, 30, 0.5, -5])
def test_damaged_arrays_are_named(saved, left):
    whole = (saved / "arrays.npz").read_bytes()
    (saved / "arrays.npz").write_bytes(whole[: int(len(whole) * left) if left == 0.5 else left])
    with pytest.raises(InvalidInput, match=r"arrays\.npz: "):
        load(saved)


def test_changed_bytes_in_arrays_are_named(saved):
    whole = bytearray((saved / "arrays.npz").read_bytes())
    whole[100:160] = b"\xff" * 60
    (saved / "arrays.npz").write_bytes(whole)
    with pytest.raises(InvalidInput, match=r"arrays\.npz: "):
        load(saved)


def test_missing_parts_are_named(saved):
    np.savez(saved / "arrays.npz", labels=np.zeros(3))
    with pytest.raises(InvalidInput, match=r"arrays\.npz: "):
        load(saved)
    (saved / "arrays.npz").unlink()
    with pytest.raises(InvalidInput, match=r"arrays\.npz: no such file"):
        load(saved)
    make().save(saved.with_name("second"))
    (saved.with_name("second") / "student.skops").unlink()
    with pytest.raises(InvalidInput, match=r"student\.skops: no such file"):
        load(saved.with_name("second"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda record: record["guarantee"].update(epsilon_exact="1/0"), "ZeroDivisionError"),
        (lambda record: record["guarantee"].update(epsilon_exact="small"), "small"),
        (
            lambda record: record["guarantee"].update(epsilon="0.1"),
            "states epsilon both as 0.1 and as 1; it was edited",
        ),
        (
            lambda record: record["guarantee"].update(epsilon="0.1", epsilon_exact="1/10"),
            r"claims epsilon = 0\.1 at delta = 0, but its receipts add up to epsilon = 1; it was edited",
        ),
        (lambda record: record["guarantee"].update(delta="0.1"), "states delta both as 0.1 and as 0"),
        (lambda record: record["receipts"].clear(), "no receipts"),
        (lambda record: record["receipts"][0].update(randomness="seed 3"), "receipts are those of a simulation"),
        (lambda record: record["receipts"][0]["spend"].update(kind="magic"), "unknown kind of spend"),
        (lambda record: record.update(guarantee=[]), "cannot be read"),
        (lambda record: record.update(student=3), "cannot be read"),
        (lambda record: record.update(format=99), "written in format 99"),
        (lambda record: record.pop("recipe"), "recipe"),
    ],
)
def test_an_edited_record_is_refused_and_named(saved, change, said):
    edit(saved, change)
    with pytest.raises(InvalidInput, match=rf"run\.json: .*{said}"):
        load(saved)


def test_a_claim_below_its_gaussian_receipts_is_refused(tmp_path):
    private, public = np.split(np.random.default_rng(0).normal(size=(240, 4)), [200])
    run = tacit.distill(
        (private, np.arange(200) % 2), public, 2.0, delta=1e-6, classes=[0, 1], mechanism="gaussian", labels="soft",
        queries=5,
    )  # fmt: skip
    assert load(run.save(tmp_path / "honest")).guarantee == run.guarantee
    for number, false in enumerate((
        replace(run.guarantee, epsilon=run.guarantee.epsilon * Fraction(9, 10)),
        replace(run.guarantee, delta=run.guarantee.delta / 1000),
        replace(run.guarantee, delta=Fraction(0)),
    )):  # fmt: skip
        # For the run, for the one account that paid, or for both.
        claims = [{"guarantee": false}, {"guarantees": {"this run": false}}]
        for place, claimed in enumerate((*claims, claims[0] | claims[1])):
            folder = replace(run, **claimed).save(tmp_path / f"false-{number}-{place}")
            with pytest.raises(InvalidInput, match="receipts add up to epsilon"):
                load(folder)


def test_a_claim_above_its_receipts_is_let_in(tmp_path):
    weaker = replace(CLAIM, epsilon=Fraction(2))
    assert load(make(weaker).save(tmp_path / "out")).guarantee == weaker
    noisy = make(replace(CLAIM, epsilon=Fraction(100), delta=Fraction(1, 10)), (receipt(Gaussian(5)),))
    assert load(noisy.save(tmp_path / "noisy")).guarantee.epsilon == 100


def test_a_student_is_read_from_the_run_folder_only(saved, tmp_path):
    (tmp_path / "student.skops").write_bytes((saved / "student.skops").read_bytes())
    (saved / "student.skops").unlink()
    edit(saved, lambda record: record.update(student="../student.skops"))
    with pytest.raises(InvalidInput, match=r"out/student\.skops: no such file"):
        load(saved)


def test_a_folder_beside_the_run_is_never_touched(tmp_path):
    mine = tmp_path / "out.partial"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    make().save(tmp_path / "out")
    with pytest.raises(RuntimeError), new_folder(tmp_path / "out2"):
        raise RuntimeError
    assert (mine / "thesis.txt").read_text() == "years of work"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out", "out.partial"]


def test_what_fails_leaves_no_folder_and_says_what_and_where(tmp_path):
    said = r"deep/er/out: the run could not be written, No such file or directory \(gone\)"
    with pytest.raises(TacitError, match=said), new_folder(tmp_path / "deep" / "er" / "out") as partial:
        (partial / "nowhere" / "gone").write_text("")
    assert not any(tmp_path.iterdir())
    with pytest.raises(TacitError, match="could not be written, it broke"), new_folder(tmp_path / "out"):
        raise OSError("it broke")
    with (
        pytest.raises(TacitError, match="could not be written, File name too long"),
        new_folder(tmp_path / ("n" * 300)),
    ):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(TacitError, match="could not be written"), new_folder(tmp_path / "file" / "out"):
        pass
    with pytest.raises(InvalidInput, match="exists already"), new_folder(tmp_path / "file"):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_run_folder_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").mkdir()
    out = make().save(tmp_path / "out")
    assert stat.S_IMODE(out.stat().st_mode) == stat.S_IMODE((tmp_path / "usual").stat().st_mode)


def test_the_longest_name_that_the_system_takes_is_taken(tmp_path):
    assert load(make().save(tmp_path / ("n" * 255))).guarantee == CLAIM


@pytest.mark.parametrize("format_", ["PrivateKT 1", "FedMD 1", 9, None])
def test_a_run_in_another_format_is_refused_by_its_name(tmp_path, format_):
    (tmp_path / "run.json").write_text(json.dumps({"format": format_}))
    with pytest.raises(InvalidInput, match=r"written in format .*, this version reads format 2"):
        tacit.load(tmp_path)


def test_a_run_of_format_1_is_read(saved):
    """Reverse k-NN runs of earlier versions: other names of files, and one claim for all receipts."""

    def earlier(record):
        record["format"] = 1
        for name in ("guarantees", "holder_models"):
            del record[name]

    edit(saved, earlier)
    (saved / "arrays.npz").rename(saved / "queries.npz")
    run = load(saved)
    assert run.guarantee == CLAIM
    assert run.guarantees == {"this run": CLAIM}
    assert run.membership.tolist() == [0, 1, 1]
    assert run.student.predict([[-9.0]]).tolist() == ["a"]
    edit(saved, lambda record: record["guarantee"].update(epsilon="0.1", epsilon_exact="1/10"))
    with pytest.raises(InvalidInput, match="receipts add up to epsilon = 1; it was edited"):
        load(saved)


def test_a_run_shows_itself_in_five_lines():
    said = repr(make()).splitlines()
    assert len(said) == 5
    assert said[0] == "Run of rknn, 1 payment"
    assert "3 public samples, 2 classes (a, b)" in said[1]
    assert "epsilon = 1, delta = 0 (pure)" in said[3]
    assert "<table>" in make()._repr_html_()
    assert "&lt;b&gt;" in replace(make(), recipe={"method": "<b>"})._repr_html_()


def test_what_a_method_has_none_of_is_said(tmp_path):
    with pytest.raises(InvalidInput, match="a run of rknn has no membership"):
        _ = replace(make(), arrays={}).membership
    with pytest.raises(InvalidInput, match="a run of rknn has no holder models"):
        make().save(tmp_path / "out", holder_models=True)
    assert not list(tmp_path.iterdir())


def test_a_group_is_guaranteed_what_its_receipts_come_to_together():
    grouped = make().for_group(3)
    assert grouped.epsilon == 3
    assert "any 3 of those protected together" in str(grouped)
    gaussian = receipt(Gaussian(20))
    claim = replace(CLAIM, epsilon=Fraction(1, 2), delta=Fraction(1, 10**6))
    alone, five = (make(claim, (gaussian,)).for_group(size) for size in (1, 5))
    # Five times as close: at least five times the epsilon, and less than the sum of five steps would prove.
    assert 4 * alone.epsilon < five.epsilon < 10 * alone.epsilon
    with pytest.raises(InvalidInput, match="size must be at least 1"):
        make().for_group(0)
    with pytest.raises(InvalidInput, match="allow a larger delta"):
        make(CLAIM, (gaussian,)).for_group(2)
