"""``tacit distill`` on files of every kind, each small and made here: the same table gives the same labels."""

import bz2
import gzip
import json
import lzma
import warnings
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.datasets.samples import samples_of

TRUTH = np.arange(400) % 2
CHANCE = np.random.default_rng(4)
ROWS = [
    {
        "age": "" if place % 17 == 3 else str(30 + 30 * int(truth) + int(CHANCE.integers(9))),
        "dose": str(round(float(CHANCE.random()), 6)),
        "ward": ("south", "north")[truth],
        "seen": f"2024-{1 + place % 12:02d}-{1 + place % 28:02d}",
        "note": " ".join(["patient", str(place), *CHANCE.choice((["cough", "fever"], ["bone", "cast"])[truth], 4)]),
        "outcome": ("ill", "well")[truth],
    }
    for place, truth in enumerate(TRUTH)
]
COLUMNS = ["age", "dose", "ward", "seen", "note"]


def csv_text(rows, columns, separator=","):
    lines = [separator.join(columns), *(separator.join(row[name] for name in columns) for row in rows)]
    return ("\n".join(lines) + "\n").encode()


def json_text(rows, columns):
    def value(row, name):
        if name in ("age", "dose"):
            return float(row[name]) if row[name] else None
        return row[name]

    return "".join(json.dumps({name: value(row, name) for name in columns}) + "\n" for row in rows).encode()


def arrow_bytes(rows, columns, suffix):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    lines = [json.loads(line) for line in json_text(rows, columns).decode().splitlines()]
    table = arrow.table({name: [line[name] for line in lines] for name in columns})
    sink = arrow.BufferOutputStream()
    (parquet.write_table if suffix == ".parquet" else feather.write_feather)(table, sink)
    return sink.getvalue().to_pybytes()


FORMATS = {
    ".csv": csv_text,
    ".tsv": lambda rows, columns: csv_text(rows, columns, "\t"),
    ".csv.gz": lambda rows, columns: gzip.compress(csv_text(rows, columns)),
    ".csv.xz": lambda rows, columns: lzma.compress(csv_text(rows, columns)),
    ".csv.bz2": lambda rows, columns: bz2.compress(csv_text(rows, columns)),
    ".jsonl": json_text,
    ".ndjson.gz": lambda rows, columns: gzip.compress(json_text(rows, columns)),
    ".parquet": lambda rows, columns: arrow_bytes(rows, columns, ".parquet"),
    ".arrow": lambda rows, columns: arrow_bytes(rows, columns, ".arrow"),
    ".feather": lambda rows, columns: arrow_bytes(rows, columns, ".feather"),
}


def written(folder, suffix, columns=COLUMNS):
    private, public = folder / f"private{suffix}", folder / f"public{suffix}"
    private.write_bytes(FORMATS[suffix](ROWS[:200], [*reversed(columns), "outcome"]))
    public.write_bytes(FORMATS[suffix](ROWS[200:], columns))
    return private, public


def command(private, public, *more, label=("--label", "outcome")):
    with pytest.raises(SystemExit) as stopped:
        main([
            "distill", "--private", str(private), "--public", str(public), *label, "--epsilon", "5", "--queries", "8",
            "--classes", "ill,well", "--seed", "1", "--out", "out", *more,
        ])  # fmt: skip
    return stopped.value.code


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def right(run):
    return (run.labels == np.array(["ill", "well"])[TRUTH[200:]]).mean()


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_mixed_table_in_every_format(tmp_path, capsys, suffix):
    private, public = written(tmp_path, suffix, COLUMNS[:4])
    assert command(private, public) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "data a mixed table" in said
    run = tacit.load("out")
    assert right(run) > 0.95
    assert run.recipe["data_kind"] == "mixed"
    # Another format of the same table is read the same.
    other = tmp_path / "other.csv"
    other.write_bytes(csv_text(ROWS[200:], COLUMNS[:4]))
    assert np.array_equal(run.student.predict(samples_of(other)), run.student.predict(public))


def test_a_column_of_texts_and_a_category_are_named(tmp_path, capsys):
    private, public = written(tmp_path, ".csv", ["note", "dose"])
    assert command(private, public, "--text", "note", "--category", "dose") == 0
    assert "text in note" in " ".join(capsys.readouterr().out.split())
    assert tacit.load("out").recipe["data_kind"] == "text"
    assert command(private, public, "--text", "notes", "--out", "other") == 2
    assert "no column 'notes'; the columns are note, dose; did you mean 'note'?" in " ".join(
        capsys.readouterr().err.split()
    )


def test_folders_of_images(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    for row, truth in enumerate(TRUTH[:200]):
        pixels = np.random.default_rng(row).integers(0, 60, size=(9, 9, 3)).astype(np.uint8)
        pixels[:, : 4 + int(truth)] += np.uint8(120 * truth)
        home = tmp_path / "private" / ("ill", "well")[truth] if row < 120 else tmp_path / "public"
        home.mkdir(parents=True, exist_ok=True)
        pillow.fromarray(pixels).save(home / f"{row:03d}.{'jpg' if row % 2 else 'png'}")
    assert command("private", "public", label=()) == 0
    run = tacit.load("out")
    assert run.recipe["data_kind"] == "images"
    assert (run.student.predict("public") == run.labels).mean() > 0.8
    assert command("private", "public", "--out", "again") == 2


def test_npy_files(tmp_path):
    samples = CHANCE.normal(size=(400, 3)) + 6 * TRUTH[:, None]
    np.save("x.npy", samples[:200])
    np.save("y.npy", np.array(["ill", "well"])[TRUTH[:200]])
    np.save("public.npy", samples[200:])
    assert command("x.npy", "public.npy", label=("--label", "y.npy")) == 0
    assert right(tacit.load("out")) > 0.95


def test_a_published_format_is_named_before_its_file(tmp_path):
    samples = (CHANCE.normal(size=(400, 3)) + 6 * TRUTH[:, None]).tolist()
    for name, rows in (("private", slice(0, 200)), ("public", slice(200, 400))):
        users = {"a": {"x": samples[rows], "y": TRUTH[rows].tolist()}}
        content = {"users": ["a"], "num_samples": [200], "user_data": users}
        Path(f"{name}.json").write_text(json.dumps(content))
    assert command("leaf:private.json", "leaf:public.json", "--classes", "0,1", label=()) == 0
    assert (tacit.load("out").labels == TRUTH[200:].astype(str)).mean() > 0.95
    assert command("leaf:nowhere.json", "leaf:public.json", "--out", "other", label=()) == 2


BAD = {
    "another encoding": ("age,ward,outcome\n1,SENTINEL\xe9,ill\n".encode("latin-1"), "not a text file in UTF-8 (row 2"),
    "twice the same name": (b"age,age,outcome\n1,SENTINEL,ill\n", "columns 1 and 2 have the same name"),
    "other columns": (b"age,wart,outcome\n1,SENTINEL,ill\n", "missing ward, unknown wart; did you mean ward for wart?"),
    "no label": (b"age,ward,outcome\n1,SENTINEL,\n", "row 2, column 'outcome': the label is missing"),
    "another class": (b"age,ward,outcome\n1,north,SENTINEL\n", "row 2, column 'outcome': the label is not one of"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_private_table_is_refused_without_its_cells(tmp_path, capsys, bad):
    content, said = BAD[bad]
    Path("private.csv").write_bytes(content)
    Path("public.csv").write_bytes(csv_text(ROWS[200:], ["age", "ward"]))
    assert command("private.csv", "public.csv") == 2
    heard = " ".join(capsys.readouterr().err.split())
    assert said in heard
    assert "SENTINEL" not in heard
    assert not Path("out").exists()


def test_cells_that_cannot_be_read_are_told_and_count_as_missing(tmp_path, capsys):
    private, public = written(tmp_path, ".csv", COLUMNS[:4])
    private.write_bytes(private.read_bytes().replace(b",south,", b",SENTINEL,", 3))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert command(private, public) == 0
    heard = capsys.readouterr()
    assert "cells of a level that is rare or not in the public rows, by column: 'ward' 3" in " ".join(heard.err.split())
    assert "SENTINEL" not in heard.err + heard.out


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", b'{"age": 1}\nSENTINEL\n', "row 2 is not JSON"),
        ("a.jsonl", b'{"age": [1]}\n', "row 1, column 'age': a list or an object"),
        ("a.jsonl", b'{"age": 1, "age": 2}\n', "row 1 has the same key twice"),
        ("a.jsonl", b"", "the file has no rows"),
        ("a.csv.gz", b"SENTINEL", "damaged, or not compressed as its suffix .gz says"),
        ("a.parquet", b"SENTINEL", "cannot be read as a Parquet file"),
        ("a.feather", b"SENTINEL", "cannot be read as an Arrow file"),
        ("a.npy", b"SENTINEL", "not an npy file"),
        ("a.png", b"SENTINEL", "cannot be read as an image"),
    ],
)
def test_bad_public_files_are_refused_with_their_place(tmp_path, capsys, name, content, said):
    if name.endswith((".parquet", ".feather")):
        pytest.importorskip("pyarrow")
    Path(name).write_bytes(content)
    Path("private.csv").write_bytes(csv_text(ROWS[:200], ["age", "outcome"]))
    assert command("private.csv", name) == 2
    heard = " ".join(capsys.readouterr().err.split())
    assert said in heard
    assert "SENTINEL" not in heard
