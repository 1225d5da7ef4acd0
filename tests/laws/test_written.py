"""What a run writes down says nothing that was computed from records outside a gate.

Two data sets that differ in one record, seeded noise, and a record that does not move what is released: then every
byte that is written must be equal, but for the time and what names the payment. Once a record is a copy of a public
row and once it is almost one; and under add/remove adjacency there is once a record more.
"""

import itertools
import json
import re
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput, TacitWarning
from tacit.core.guarantee import PUBLIC_DATA
from tacit.ledger.memory import MemoryLedger
from tacit.methods.fedmd.models import Schedule
from tacit.methods.registry import METHODS as REGISTERED
from tacit.report.page import report_page
from tacit.runs.folders import read_record
from tacit.students.weighted import logistic
from tests.sampled import sampled

# Two far clouds, a class each, and public samples in both.
CLOUDS = np.array([[0.0, 0.0, 0.0], [40.0, 40.0, 40.0]])
SPREAD = np.random.default_rng(0).normal(size=(400, 3))
LABELS = np.arange(200) % 2
PRIVATE, PUBLIC = CLOUDS[LABELS] + SPREAD[:200], CLOUDS[np.arange(200) % 2] + SPREAD[200:]
SOURCE = Path(tacit.__file__).parent


@pytest.fixture(autouse=True)
def every_reading_of_the_clock_counts(monkeypatch):
    """A clock that goes on by a second whenever it is read: written times are equal if it is read as often."""
    monkeypatch.setattr("tacit.runs.drive.clock", itertools.count().__next__)


def private(copied):
    """The same records, but for the first: a copy of a public row, or a hair beside it."""
    samples = PRIVATE.copy()
    samples[0] = PUBLIC[0] if copied else PUBLIC[0] + 1e-9
    return samples, LABELS


def rknn(pair, folder, **options):
    tacit.distill(pair, PUBLIC, 5, classes=[0, 1], queries=8, seed=1, request="r", **options).save(folder)


def privatekt(pair, folder):
    tacit.distill(
        pair, PUBLIC, 10, method="privatekt", classes=[0, 1], rounds=3, holders=4, model=logistic(), participation=1,
        seed=1, request="r",
    ).save(folder)  # fmt: skip


def pate(pair, folder, **options):
    tacit.distill(
        pair, PUBLIC, 50, method="pate", classes=[0, 1], teachers=5, queries=10, seed=1, request="r", **options
    ).save(folder)


def private_knn(pair, folder, **options):
    tacit.distill(
        pair, PUBLIC, 5, method="private_knn", classes=[0, 1], seed=1, request="r", delta="1e-6", queries=8,
        neighbors=5, **options,
    ).save(folder)  # fmt: skip


def class_sums(pair, folder, **options):
    tacit.distill(
        pair, PUBLIC, 5, method="class_sums", classes=[0, 1], seed=1, request="r", **options
    ).save(folder)  # fmt: skip


def noisy_sgd(pair, folder, **options):
    tacit.distill(
        pair, PUBLIC, 5, method="noisy_sgd", classes=[0, 1], steps=2, seed=1, request="r", **options
    ).save(folder)  # fmt: skip


def auto(pair, folder, **options):
    tacit.distill(pair, PUBLIC, 5, classes=[0, 1], seed=1, request="r", **options).save(folder)


def fedmd(pair, folder, variant, **options):
    samples, labels = pair
    parties = [(samples[each::2], labels[each::2] ^ (np.arange(100) % 7 == 0)) for each in (0, 1)]
    tacit.distill(
        parties, PUBLIC, method="fedmd", variant=variant, classes=[0, 1], models=["forest"], rounds=2, queries=20,
        seed=1, request="r", schedule=Schedule(own=1, digest=1, revisit=1), **options,
    ).save(folder)  # fmt: skip


def multilabel(pair, folder):
    samples, labels = pair
    sets = np.column_stack([labels == 0, labels == 1])
    tacit.distill((samples, sets), PUBLIC, 5, max_labels=1, queries=4, seed=1, request="r").save(folder)


METHODS = {
    "rknn": rknn,
    "rknn soft": lambda *run: rknn(*run, labels="soft"),
    "rknn, two rounds": lambda *run: rknn(*run, iterations=2),
    "rknn, local": lambda *run: rknn(*run, trust="local"),
    "rknn, shuffle": lambda *run: rknn(*run, trust="shuffle", delta="1e-6"),
    "rknn, add/remove": lambda *run: rknn(*run, adjacency="add-remove"),
    "multilabel": multilabel,
    "privatekt": privatekt,
    "pate": pate,
    "pate, gaussian": lambda *run: pate(*run, delta="1e-6"),
    "private k-NN": private_knn,
    "private k-NN, screened": lambda *run: private_knn(*run, threshold=0.5, answers=4),
    "private k-NN, filtered": lambda *run: private_knn(*run, adjacency="add-remove", participations=2, reach=0.3),
    "class sums": class_sums,
    "class sums, gaussian": lambda *run: class_sums(*run, delta="1e-6"),
    "class sums, add/remove": lambda *run: class_sums(*run, delta="1e-6", adjacency="add-remove", components=2),
    "noisy sgd": noisy_sgd,
    "noisy sgd, gaussian": lambda *run: noisy_sgd(*run, delta="1e-6"),
    "noisy sgd, add/remove": lambda *run: noisy_sgd(*run, delta="1e-6", adjacency="add-remove", records=200),
    "auto": auto,
    "auto, a table": lambda *run: auto(*run, delta="1e-6"),
    "auto, images": lambda *run: auto(*run, delta="1e-6", data_kind="images"),
    "fedmd rknn": lambda *run: fedmd(*run, "rknn", epsilon=5),
    "fedmd response": lambda *run: fedmd(*run, "response", epsilon=50),
    "fedmd ldp": lambda *run: fedmd(*run, "ldp", epsilon=50),
    "fedmd nfdp": lambda *run: fedmd(*run, "nfdp", subset=20),
    "fedmd np": lambda *run: fedmd(*run, "np"),
}


def written(folder):
    """Every file's content by name: of archives what is in them, without times and names of payments."""
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            name = str(file.relative_to(folder))
            if zipfile.is_zipfile(file):
                with zipfile.ZipFile(file) as archive:
                    # skops names objects by their place in memory.
                    inside = [re.sub(r"^\d{6,}", str(at), each) for at, each in enumerate(archive.namelist())]
                    found |= {
                        f"{name}/{each}": _steady(archive.read(real))
                        for each, real in zip(inside, archive.namelist(), strict=True)
                    }
            else:
                found[name] = _steady(file.read_bytes())
    return found


def _steady(content):
    # A digest has the time of the payment in it.
    return re.sub(rb'"digest": "[0-9a-f]+"|"__id__": \d+|"file": "\d+\.npy"', b"", content)


@pytest.mark.filterwarnings("ignore::tacit.methods.fedmd.exposure.WeakPrivacyWarning")
@pytest.mark.filterwarnings("ignore:all labels are the same")
@pytest.mark.parametrize("method", sampled(METHODS, 3))
def test_a_copy_among_the_public_rows_is_told_to_the_operator_and_to_no_file(tmp_path, method):
    with pytest.warns(TacitWarning, match="1 public row is an exact copy of a private one"):
        METHODS[method](private(copied=True), tmp_path / "copied")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", TacitWarning)
        METHODS[method](private(copied=False), tmp_path / "other")
    assert not any("copies" in str(each.message) for each in heard)
    one, other = written(tmp_path / "copied"), written(tmp_path / "other")
    assert one.keys() == other.keys()
    assert "labels.csv" in one
    assert any(name.startswith(("student.skops/", "simulated-student.")) for name in one)
    assert any(name.startswith("arrays.npz/") for name in one)
    different = [name for name in one if one[name] != other[name]]
    assert not different, _first_difference(one[different[0]], other[different[0]])
    assert PUBLIC_DATA.encode() in one["run.json"]
    pages = [_steady(report_page(read_record(tmp_path / each)).encode()) for each in ("copied", "other")]
    assert pages[0] == pages[1], _first_difference(*pages)


def _first_difference(one, other):
    place = next(at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return one[max(0, place - 60) : place + 60], other[max(0, place - 60) : place + 60]


ADD_REMOVE = {
    "rknn": {"queries": 2},
    "rknn, gaussian": {"queries": 2, "delta": "0.02", "mechanism": "gaussian"},
    "rknn, many queries": {"queries": 100},
    "rknn, two rounds": {"queries": 2, "iterations": 2},
    "pate": {"method": "pate", "teachers": 5, "queries": 10},
    "pate, holders": {"method": "pate", "holders": 5, "queries": 10},
    "pate, gaussian": {"method": "pate", "teachers": 5, "queries": 10, "delta": "0.02"},
    "private k-NN": {"method": "private_knn", "queries": 8, "neighbors": 3, "delta": "0.02"},
    "private k-NN, filtered": {
        "method": "private_knn",
        "queries": 8,
        "neighbors": 3,
        "delta": "0.02",
        "participations": 2,
    },
}


@pytest.mark.parametrize("method", ADD_REMOVE)
def test_under_add_remove_nothing_written_depends_on_how_many_records_there_are(tmp_path, method):
    samples, labels = np.concatenate([PRIVATE, PRIVATE]), np.concatenate([LABELS, LABELS])
    for folder, count in (("all", 400), ("fewer", 201), ("few", 30)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TacitWarning)
            tacit.distill(
                (samples[:count], labels[:count]), PUBLIC, 5, classes=[0, 1], seed=1, request="r",
                adjacency="add-remove", **ADD_REMOVE[method],
            ).save(tmp_path / folder)  # fmt: skip
    one, other, few = (json.loads((tmp_path / each / "run.json").read_text()) for each in ("all", "fewer", "few"))
    for record in (one, other, few):
        for receipt in record["receipts"]:
            del receipt["digest"]
    assert one == other == few


# What a method needs besides its name.
NEEDED = {
    "private_knn": {"delta": "1e-6"},
    "privatekt": {"holders": 4, "rounds": 2, "model": "logistic"},
    "fedmd": {"holders": 2, "models": ["forest"]},
}


@pytest.mark.parametrize("method", REGISTERED)
def test_a_method_that_would_have_to_look_at_how_many_there_are_refuses_add_remove(method):
    options = NEEDED.get(method, {})
    with pytest.raises(InvalidInput, match=r"add-remove the number|replace-one"):
        tacit.distill((PRIVATE, LABELS), PUBLIC, 5, method=method, classes=[0, 1], adjacency="add-remove", **options)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_what_depends_on_the_number_of_records_is_told_to_the_operator_before_anything_is_paid(adjacency):
    ledger = MemoryLedger({"a": Ceiling(5, "0.5", adjacency=adjacency)})
    run = {"classes": [0, 1], "queries": 100, "delta": "0.02", "mechanism": "gaussian", "adjacency": adjacency}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", TacitWarning)

        def announce(plan):
            said = " ".join(str(each.message) for each in heard)
            assert "a query gets 2 on average" in said
            assert "delta is not below one over the number of records" in said
            assert ledger.balance("a").payments == 0
            # What may be written or sent of the plan does not have it.
            assert plan.doubts == ()

        watching = tacit.Observer(plan=announce)
        made = tacit.distill((PRIVATE, LABELS), PUBLIC, "0.5", ledger=ledger, account="a", observer=watching, **run)
    assert ledger.balance("a").payments == 1
    assert ("number of records: exposing" in str(made.guarantee)) == (adjacency == "replace-one")


def test_no_statement_has_a_sentence_of_its_own_about_public_data():
    """Of federated jobs as well: a statement says what its default is, and is read back as it was written."""
    places = [file for file in SOURCE.rglob("*.py") if re.search(r"\bpublic_data\s*[=\]]", file.read_text())]
    assert places == [SOURCE / "core" / "guarantee.py"]
