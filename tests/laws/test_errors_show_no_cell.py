"""No message shows what is in a cell: every kind of bad cell holds a value that is then looked for in all that is said.

It is looked for in the message, in the traceback with everything chained to it, and in what a command prints.
"""

import gzip
import json
import struct
import traceback
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

import tacit
from tacit.cli import main
from tacit.core.errors import InvalidInput, TacitError
from tacit.datasets.color_images import read_cifar10, read_cifar100, read_svhn
from tacit.datasets.mnist import medmnist, mnist, read_emnist_idx, read_emnist_mat, read_idx
from tacit.datasets.published import read_leaf
from tacit.datasets.table import class_indices
from tacit.datasets.tables import read_table
from tacit.private.records import Private, Records, require_usable
from tacit.runs.task import label_table

# As text, and as numbers that appear in no message for another reason.
TEXT, LARGE, LABEL = "SENTINEL", 7.7137e31, 77137
SIGNS = ("SENTINEL", "7.7137", "77137", "7.71e", "77.1", "sentinel")


def quiet(text):
    """Whether a text shows none of the values."""
    return not any(sign in text for sign in SIGNS)


CSV = {
    "text in a feature": "age,dose,who,outcome\n1,SENTINEL,ada,ill\n",
    "a comma for a point": "age;dose;who;outcome\n1;7,7137;ada;ill\n",
    "a code with an underscore": "age,dose,who,outcome\n1,77137_000,ada,ill\n",
    "a number that is too large": "age,dose,who,outcome\n1,7.7137e31,ada,ill\n",
    "no number": "age,dose,who,outcome\n77137,nan,SENTINEL,ill\n",
    "infinity": "age,dose,who,outcome\n77137,inf,SENTINEL,ill\n",
    "an empty cell": "age,dose,who,outcome\n77137,,SENTINEL,ill\n",
    "too many cells": "age,dose,who,outcome\n1,2,ada,ill,SENTINEL\n",
    "too few cells": "age,dose,who,outcome\n77137,SENTINEL\n",
    "no label": "age,dose,who,outcome\n77137,2,SENTINEL,\n",
    "no person": "age,dose,who,outcome\n77137,2,,SENTINEL\n",
    "no header": "77137,2,ada,SENTINEL\n1,2,bob,ill\n",
    "no header, and the same value twice": "77137,77137,SENTINEL,SENTINEL\n1,2,bob,ill\n",
    "a label that is no class": "age,dose,who,outcome\n1,2,ada,SENTINEL\n1,2,bob,ill\n",
    "another encoding": "age,dose,who,outcome\n1,2,ada,SENTINEL\xe9\n".encode("latin-1"),
    "a quote that never ends": 'age,dose,who,outcome\n1,2,"SENTINEL,ill\n',
    "a field that is too long": "age,dose,who,outcome\n1,2," + "SENTINEL" * 20_000 + ",ill\n",
    "one class only": "age,dose,who,outcome\n1,2,ada,SENTINEL\n1,2,bob,SENTINEL\n",
    "other columns": "age,dosis,who,outcome\n77137,2,ada,SENTINEL\n",
}
COMMANDS = {
    "rknn": ["--unit", "who"],
    "privatekt": ["--method", "privatekt", "--holder", "who", "--model", "logistic"],
    "fedmd": ["--method", "fedmd", "--holder", "who", "--models", "forest"],
}


@pytest.mark.parametrize("bad", CSV)
@pytest.mark.parametrize("method", COMMANDS)
def test_commands_show_no_cell_of_a_private_file(tmp_path, monkeypatch, capsys, method, bad):
    monkeypatch.chdir(tmp_path)
    content = CSV[bad]
    Path("private.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    Path("public.csv").write_text("age,dose\n" + "".join(f"{each},{each % 7}\n" for each in range(20)))
    arguments = [
        "distill",
        "--private",
        "private.csv",
        "--public",
        "public.csv",
        "--label",
        "outcome",
        "--epsilon",
        "1",
    ]
    declared = [] if bad == "one class only" else ["--classes", "ill,well"]
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, *declared, *COMMANDS[method], "--out", "out"])
    said = capsys.readouterr()
    assert stopped.value.code == 2
    assert "private.csv" in said.err or bad == "one class only"
    assert quiet(said.err + said.out), said.err
    assert [file.name for file in tmp_path.iterdir() if file.name not in ("private.csv", "public.csv")] == []


def test_a_model_for_a_party_that_is_none_names_no_party(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("private.csv").write_text("age,dose,who,outcome\n1,2,SENTINEL,ill\n1,3,SENTINEL2,well\n")
    Path("public.csv").write_text("age,dose\n1,2\n2,3\n3,4\n")
    for models in ("west=forest", "bob=forest,ada=forest", "=forest"):
        with pytest.raises(SystemExit):
            main(["distill", "--method", "fedmd", "--private", "private.csv", "--public", "public.csv", "--label",
                  "outcome", "--epsilon", "1", "--holder", "who", "--models", models])  # fmt: skip
        assert quiet(capsys.readouterr().err)


X = np.array([[1.0, 2.0], [3.0, 4.0]])


def _npz(folder, **arrays):
    np.savez(folder / "a.npz", **arrays)
    return read_table(folder / "a.npz", "y", "who" if "who" in arrays else None)


def _bytes(folder, name, content):
    (folder / name).write_bytes(content)
    return folder / name


def _idx(folder, name, values, code=8):
    values = np.asarray(values)
    head = bytes([0, 0, code, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return _bytes(folder, name, head + values.astype({8: ">u1", 12: ">i4"}[code]).tobytes())


def _mnist(folder):
    for part in ("train", "t10k"):
        _idx(folder, f"{part}-images-idx3-ubyte", np.zeros((2, 28, 28)))
        _idx(folder, f"{part}-labels-idx1-ubyte", [LABEL, 1], code=12)
    return mnist(folder)


def _emnist(folder, mapping):
    _idx(folder, "emnist-letters-train-images-idx3-ubyte", np.zeros((1, 28, 28)))
    _idx(folder, "emnist-letters-train-labels-idx1-ubyte", [1])
    (folder / "emnist-letters-mapping.txt").write_text(mapping)
    return read_emnist_idx(folder)


def _leaf(folder, x=((0, 1),), y=(1,), size=1, user="SENTINEL"):
    content = {"users": ["f1", user], "num_samples": [1, size]}
    content["user_data"] = {"f1": {"x": [[0, 1]], "y": [1]}, user: {"x": list(x), "y": list(y)}}
    (folder / "a.json").write_text(json.dumps(content))
    return read_leaf(folder)


def _svhn(folder, labels):
    savemat(folder / "a.mat", {"X": np.zeros((32, 32, 3, 2), dtype=np.uint8), "y": np.array(labels)})
    return read_svhn(folder / "a.mat")


def _emnist_mat(folder, labels):
    content = {"labels": np.array(labels), "images": np.zeros((2, 784), dtype=np.uint8)}
    savemat(folder / "a.mat", {"dataset": {"train": content, "mapping": np.array([[1, 65]])}})
    return read_emnist_mat(folder / "a.mat")


def _medmnist(folder, labels):
    parts = {f"{part}_images": np.zeros((2, 8, 8)) for part in ("train", "val", "test")}
    np.savez(folder / "pneumoniamnist.npz", **parts, **{f"{part}_labels": labels for part in ("train", "val", "test")})
    return medmnist(folder)


LOADERS = {
    "npz: large": lambda f: _npz(f, X=np.array([[1.0, LARGE]]), y=np.array(["ill"])),
    "npz: nan": lambda f: _npz(f, X=np.array([[LABEL, np.nan]]), y=np.array([TEXT])),
    "npz: text": lambda f: _npz(f, X=np.array([[TEXT, "2"]]), y=np.array(["ill"])),
    "npz: labels of another length": lambda f: _npz(f, X=X, y=np.array([TEXT])),
    "npz: no labels": lambda f: _npz(f, X=X, z=np.array([TEXT, TEXT])),
    "npz: no label in a row": lambda f: _npz(f, X=X, y=np.array([LABEL, np.nan])),
    "npz: objects": lambda f: _npz(f, X=X, y=np.array([TEXT, None], dtype=object)),
    "npz: dates": lambda f: _npz(f, X=X, y=np.array(["7713-07-07", "2000-01-01"], dtype="datetime64[D]")),
    "npz: persons": lambda f: _npz(f, X=X, y=np.array([1, 2]), who=np.array([LABEL, np.nan])),
    "npz: no archive": lambda f: read_table(_bytes(f, "a.npz", b"SENTINEL"), "y"),
    "npz: damaged": lambda f: _damaged(f),
    "idx: another file": lambda f: read_idx(_bytes(f, "a", b"SENTINEL")),
    "idx: cut short": lambda f: read_idx(_bytes(f, "a", bytes([0, 0, 8, 1, 0, 0, 0, 99]) + b"SENTINEL")),
    "idx: damaged gzip": lambda f: read_idx(_bytes(f, "a", gzip.compress(b"SENTINEL" * 9)[:-9])),
    "mnist: a label": _mnist,
    "emnist: a mapping": lambda f: _emnist(f, "1 SENTINEL"),
    "emnist: a mapping's code": lambda f: _emnist(f, "1 771377713777137"),
    "emnist: another file": lambda f: read_emnist_mat(_bytes(f, "a.mat", b"SENTINEL" * 40)),
    "emnist: labels": lambda f: _emnist_mat(f, [TEXT, TEXT]),
    "cifar10: a label": lambda f: read_cifar10(_bytes(f, "a.bin", bytes([77]) + bytes(3072))),
    "cifar100: a label": lambda f: _cifar100(f),
    "svhn: a label": lambda f: _svhn(f, [[LABEL], [3]]),
    "svhn: text": lambda f: _svhn(f, [TEXT, TEXT]),
    "svhn: another file": lambda f: read_svhn(_bytes(f, "a.mat", b"SENTINEL" * 40)),
    "leaf: a user with text": lambda f: _leaf(f, x=[["SENTINEL", 1]]),
    "leaf: a user with a label in words": lambda f: _leaf(f, y=["SENTINEL"]),
    "leaf: a label that is no whole number of 64 bits": lambda f: _leaf(f, y=[77137 * 10**30]),
    "leaf: a user with nothing finite": lambda f: _leaf(f, x=[[float("nan"), LABEL]]),
    "leaf: a user with other samples than announced": lambda f: _leaf(f, size=3),
    "leaf: a user with other features": lambda f: _leaf(f, x=[[1, 2, LABEL]]),
    "leaf: rows of several lengths": lambda f: _leaf(f, x=[[1, 2], [LABEL]], y=[1, 2], size=2),
    "leaf: another file": lambda f: read_leaf(_bytes(f, "a.json", b'{"SENTINEL')),
    "leaf: other keys": lambda f: read_leaf(_bytes(f, "a.json", b'{"users": ["SENTINEL"], "num_samples": [1]}')),
    "medmnist: text": lambda f: _medmnist(f, np.array([TEXT, TEXT])),
    "medmnist: objects": lambda f: _medmnist(f, np.array([TEXT, None], dtype=object)),
}


def _damaged(folder):
    np.savez(folder / "a.npz", X=X, y=np.array([TEXT, TEXT]))
    content = bytearray((folder / "a.npz").read_bytes())
    place = content.index("S".encode("utf-32-le"))
    content[place] ^= 1
    return read_table(_bytes(folder, "a.npz", bytes(content)), "y")


def _cifar100(folder):
    _bytes(folder, "train.bin", bytes([77, 1]) + bytes(3072))
    return read_cifar100(folder)


@pytest.mark.parametrize("loader", LOADERS)
def test_loaders_show_no_cell(tmp_path, loader):
    with pytest.raises(InvalidInput) as refused:
        LOADERS[loader](tmp_path)
    said = "".join(traceback.format_exception_only(refused.value)) + _chained(refused.value)
    assert quiet(said), said
    assert "77" not in str(refused.value).replace(str(tmp_path), "")


def _chained(error):
    """What a traceback would show of the errors that led to this one."""
    shown = ""
    while error is not None:
        shown += "".join(traceback.format_exception_only(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return shown


PUBLIC = np.random.default_rng(0).normal(size=(30, 2))
GOOD = (np.array([[1.0, 2.0], [3.0, 4.0]]), ["ill", "well"])
NAMES = ["ill", "well"]
PAIRS = {
    "text": ([[1.0, TEXT], [3.0, 4.0]], NAMES),
    "objects": (np.array([[1.0, TEXT], [3.0, LABEL]], dtype=object), NAMES),
    "missing": (np.array([[1.0, None], [LABEL, 4.0]], dtype=object), NAMES),
    "not finite": (np.array([[LABEL, np.inf], [3.0, 4.0]]), NAMES),
    "rows of several lengths": ([[1.0, LABEL], [3.0]], NAMES),
    "no class": (GOOD[0], ["ill", TEXT]),
    "a missing label": (GOOD[0], [TEXT, None]),
    "labels of another number": (GOOD[0], [TEXT]),
    "other features": (np.array([[1.0, 2.0, LABEL]]), ["ill"]),
    "objects for labels": (GOOD[0], [{"a": TEXT}, "ill"]),
    "numbers that are no class": (GOOD[0], [LABEL, LABEL]),
}
CALLS = {
    "distill": lambda pair: tacit.distill(pair, PUBLIC, 1, classes=NAMES, queries=2),
    "privatekt": lambda pair: tacit.distill(pair, PUBLIC, 1, method="privatekt", classes=NAMES, rounds=1),
    "fedmd": lambda pair: tacit.distill([GOOD, pair], PUBLIC, 1, method=tacit.FedMD(models=["forest"]), classes=NAMES),
    "fedmd, holders by name": lambda pair: tacit.distill(
        {"north": GOOD, "south": pair}, PUBLIC, 1, method=tacit.FedMD(models=["forest"]), classes=NAMES
    ),
    "pate": lambda pair: tacit.distill(pair, PUBLIC, 1, method="pate", classes=NAMES, queries=2),
    "private k-NN": lambda pair: tacit.distill(
        pair, PUBLIC, 1, delta="1e-6", method="private_knn", classes=NAMES, queries=2, neighbors=1, rate=0.9
    ),
    "class sums": lambda pair: tacit.distill(pair, PUBLIC, 1, method="class_sums", classes=NAMES),
    "noisy sgd": lambda pair: tacit.distill(pair, PUBLIC, 1, method="noisy_sgd", classes=NAMES, steps=1),
    "multilabel": lambda pair: tacit.distill(
        (pair[0], [[each] for each in pair[1]]), PUBLIC, 1, max_labels=1, classes=NAMES, queries=2
    ),
    "sets, not said so": lambda pair: tacit.distill(
        (pair[0], [[each, "ill"] for each in pair[1]]), PUBLIC, 1, classes=NAMES, queries=2
    ),
    "a partition": lambda pair: tacit.distill(
        pair, PUBLIC, 1, classes=NAMES, queries=2, holders=tacit.Partition(2, "dirichlet", 5.0)
    ),
}


@pytest.mark.parametrize("bad", PAIRS)
@pytest.mark.parametrize("call", CALLS)
def test_calls_show_no_cell(call, bad):
    with pytest.raises(TacitError) as refused:
        CALLS[call](PAIRS[bad])
    assert quiet(_chained(refused.value)), _chained(refused.value)


@pytest.mark.parametrize(
    "act",
    [
        lambda: tacit.distill((GOOD[0], [TEXT, TEXT]), PUBLIC, 1, queries=2),
        lambda: tacit.distill(GOOD, PUBLIC, 1, classes=NAMES, queries=2, persons=[TEXT, None]),
        lambda: tacit.distill(GOOD, PUBLIC, 1, classes=NAMES, queries=2, persons=[TEXT]),
        lambda: tacit.distill(GOOD, PUBLIC, 1, classes=NAMES, queries=2, holders=[TEXT, None]),
        lambda: class_indices(np.array([TEXT]), np.array(NAMES), "a.csv", 2, "outcome"),
        lambda: label_table([[TEXT]], classes=NAMES),
        lambda: label_table(np.array([[LABEL, 1]])),
        lambda: require_usable(Private(Records(np.array([[LARGE, np.nan]]), np.array([LABEL]))), 2),
        lambda: require_usable(Private(Records(np.array([[TEXT]]), np.array([LABEL]))), 2),
    ],
)
def test_checks_show_no_cell(act):
    with pytest.raises(InvalidInput) as refused:
        act()
    assert quiet(_chained(refused.value)), _chained(refused.value)
