"""Mulan's format, on a small sample of it and, where they are, on its own files."""

import lzma
import tarfile
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.core.errors import InvalidInput
from tacit.datasets.mulan import read_mulan
from tacit.datasets.published import read_published
from tacit.datasets.tables import read_data

DATA = Path(__file__).parents[3] / "shared" / "data" / "mulan_multilabel.tar.xz"
LABELS = '<?xml version="1.0"?><labels xmlns="http://mulan.sourceforge.net/labels"><label name="sad"></label>' \
    '<label name="very happy"/></labels>'  # fmt: skip
HEAD = """% a comment
@relation 'toy: -C 2'

@attribute 'mean pitch' numeric
@attribute sad {0,1}
@attribute tempo REAL
@ATTRIBUTE 'very happy' { 0, 1 }
@data
"""
DENSE = HEAD + "0.5,1,120,0\n-1e-3, 0, 90.5, 1\n\n% the end\n"
SPARSE = HEAD + "{0 0.5,1 1,2 120}\n{0 -1e-3,2 90.5, 3 1}\n"


def written(folder, content=DENSE, labels=LABELS, name="toy-train.arff"):
    (folder / "toy.xml").write_text(labels)
    (folder / name).write_text(content)
    return folder / name


@pytest.mark.parametrize("content", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", ["toy-train.arff", "toy-test.arff", "toy.arff"])
def test_a_file_is_read_with_its_names(tmp_path, content, name):
    samples, sets = read_mulan(written(tmp_path, content, name=name))
    assert samples.columns == ("mean pitch", "tempo")
    assert samples.values.tolist() == [[0.5, 120.0], [-0.001, 90.5]]
    assert sets.columns == ("sad", "very happy")
    assert sets.values.tolist() == [[True, False], [False, True]]
    assert sets.values.dtype == np.bool_


def test_a_compressed_file_is_read_too(tmp_path):
    written(tmp_path, name="toy-train.arff")
    (tmp_path / "toy-train.arff.xz").write_bytes(lzma.compress(DENSE.encode()))
    assert read_mulan(tmp_path / "toy-train.arff.xz")[1].values.shape == (2, 2)


def test_the_format_is_named_before_the_file(tmp_path):
    file = written(tmp_path)
    assert read_published("mulan", file).labels.columns == ("sad", "very happy")
    table = read_data(f"mulan:{file}")
    assert table.named
    assert table.columns == ("mean pitch", "tempo")


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (HEAD + "0.5,1,120\n", "row 9: must have 4 finite numbers"),
        (HEAD + "0.5,1,nan,0\n", "row 9: must have 4 finite numbers"),
        (HEAD + "0.5,1,fast,0\n", "row 9: not 4 numbers"),
        (HEAD + "{9 1}\n", "row 9: not 4 numbers"),
        (HEAD + "{-1 1}\n", "row 9: not 4 numbers"),
        (HEAD + "{1}\n", "row 9: not 4 numbers"),
        (HEAD + "0.5,2,120,0\n", "labels must be 0 or 1"),
        (HEAD, "the file has no rows"),
        (HEAD.replace("@data", ""), "no @data"),
        (HEAD.replace("REAL", "string") + "1,1,1,1\n", "row 6: an attribute must be numeric"),
        (HEAD.replace("tempo", "sad") + "1,1,1,1\n", "none twice"),
        (HEAD.replace("sad", "glad") + "1,1,1,1\n", "no attribute sad"),
        ("age,outcome\n61,well\n", "row 1: not a line of an ARFF file"),
    ],
)
def test_what_cannot_be_read_is_named_by_file_and_row_and_never_shown(tmp_path, content, named):
    with pytest.raises(InvalidInput, match=named) as error:
        read_mulan(written(tmp_path, content))
    assert "fast" not in str(error.value)
    assert "well" not in str(error.value)


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        ("", "not an XML file of labels"),
        ("<labels/>", "at least one label"),
        ('<labels><label name="sad"/><label name="sad"/></labels>', "none twice"),
        ('<!DOCTYPE labels [<!ENTITY a "aaaa">]><labels><label name="&a;"/></labels>', "document type is not read"),
    ],
)
def test_the_file_of_labels_is_checked(tmp_path, labels, named):
    with pytest.raises(InvalidInput, match=named):
        read_mulan(written(tmp_path, labels=labels))


def test_a_missing_file_is_named(tmp_path):
    file = written(tmp_path)
    (tmp_path / "toy.xml").unlink()
    with pytest.raises(InvalidInput, match=r"toy\.xml: no such file"):
        read_mulan(file)
    written(tmp_path).unlink()
    with pytest.raises(InvalidInput, match=r"toy-train\.arff: cannot be read \(No such file"):
        read_data(f"mulan:{file}")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mulan")
    with tarfile.open(DATA) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.skipif(not DATA.is_file(), reason="../shared/data is not here")
@pytest.mark.parametrize(
    ("name", "rows", "features", "labels"),
    [("yeast", 1500, 103, 14), ("scene", 1211, 294, 6), ("emotions", 391, 72, 6), ("medical", 333, 1449, 45)],
)
def test_published_files_have_their_published_sizes(published, name, rows, features, labels):
    samples, sets = read_mulan(published / f"{name}-train.arff")
    assert samples.values.shape == (rows, features)
    assert sets.values.shape == (rows, labels)
    assert sets.values.any(axis=0).sum() >= labels - 13  # some of medical's labels have no record here


@pytest.mark.skipif(not DATA.is_file(), reason="../shared/data is not here")
def test_a_published_set_goes_through_the_door_by_its_name(published, tmp_path):
    run = tacit.distill(
        f"mulan:{published / 'emotions-train.arff'}", f"mulan:{published / 'emotions-test.arff'}", 8, delta=1e-5, seed=1
    )
    samples, sets = read_mulan(published / "emotions-test.arff")
    assert run.classes.tolist() == list(sets.columns)
    loaded = tacit.load(run.save(tmp_path / "run"))
    predicted = loaded.student.predict(samples)
    assert np.array_equal(predicted, run.student.predict(samples))
    # Every label for every sample would reach .48.
    assert 2 * (predicted & sets.values).sum() / (predicted.sum() + sets.values.sum()) > 0.55
