"""What must never happen after a run was paid for, or to a person with strange names and small screens."""

import os
import subprocess
import sys

import numpy as np
import pytest

import tacit
from tacit.cli import main

GENERATOR = np.random.default_rng(0)
BASE = ("distill", "--private", "private.csv", "--public", "public.csv", "--label", "y", "--epsilon", "2",
        "--queries", "6")  # fmt: skip


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two clouds of points, as tables of four columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def write(names=("ill", "well")):
        private = GENERATOR.normal(size=(120, 4)) + 4 * (np.arange(120) % 2)[:, None]
        rows = [",".join([*map(str, row), names[index % 2]]) for index, row in enumerate(private)]
        (tmp_path / "private.csv").write_text("\n".join(["a,b,c,d,y", *rows]) + "\n")
        public = GENERATOR.normal(size=(40, 4)) + 4 * (np.arange(40) % 2)[:, None]
        np.savetxt(tmp_path / "public.csv", public, delimiter=",", header="a,b,c,d", comments="")
        return tmp_path

    write()
    return write


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(each) for each in arguments])
    return stopped.value.code


def test_a_picture_that_fails_costs_only_the_picture(files, monkeypatch, capsys):
    folder = files()

    def broken(run, public, file, dark_ink=False):
        file.write_bytes(b"half a picture")
        raise RuntimeError("no ink [bold]left[/bold]")

    monkeypatch.setattr("tacit.report.charts.draw_queries", broken)
    assert run(*BASE, "--classes", "ill,well", "--out", "out") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "warning: the plot of the queries could not be drawn: RuntimeError: no ink [bold]left[/bold]" in said
    assert sorted(file.name for file in (folder / "out").iterdir()) == [
        "arrays.npz",
        "labels.csv",
        "recipe.toml",
        "run.json",
        "student.skops",
    ]


def test_classes_that_look_like_formulas_are_drawn(files, capsys):
    folder = files((r"$\cheap$", "_$10^{"))
    assert run(*BASE, "--classes", r"$\cheap$,_$10^{", "--out", "out") == 0
    assert "could not be drawn" not in capsys.readouterr().out
    assert (folder / "out/queries.png").stat().st_size > 5000
    assert set(tacit.load("out").labels) <= {r"$\cheap$", "_$10^{"}


@pytest.mark.parametrize("out", ["[red]", "o/[/bold]", ":smile:", "\\[x]", "ü"])
def test_strange_names_of_folders_are_shown_as_they_are(files, capsys, out):
    folder = files()
    assert run(*BASE, "--classes", "ill,well", "--out", out) == 0
    assert f"written    {out}/: arrays.npz, labels.csv" in capsys.readouterr().out
    assert (folder / out / "run.json").exists()
    assert run(*BASE, "--out", out) == 2
    assert f"{out}: exists already" in capsys.readouterr().err


@pytest.mark.parametrize("command", [(*BASE, "--out"), ("demo", "--out")])
def test_a_name_that_is_too_long_is_one_message(files, capsys, command):
    folder = files()
    assert run(*command, "n" * 300) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert "name" in shown
    assert "too long" in shown or "cannot be written" in shown
    assert sorted(file.name for file in folder.iterdir()) == ["private.csv", "public.csv"]


@pytest.mark.parametrize("arguments", [("--private", "[/bold].csv"), ("--label", "[/bold]"), ("--classes", "[/x],[y]"),
                                       ("--public", "n" * 300), ("--mechanism", "[/bold]")])  # fmt: skip
def test_errors_show_what_was_typed(files, capsys, arguments):
    assert run(*BASE, "--out", "out", *arguments) == 2
    assert arguments[1].split(",")[0][:39] in capsys.readouterr().err


def test_an_ascii_terminal_gets_the_words(files):
    files()
    result = subprocess.run(
        [sys.executable, "-c", "from tacit.cli import main; main()", *BASE, "--classes", "ill,well", "--seed", "1",
         "--delta", "1e-6", "--labels", "soft", "--mechanism", "gaussian"],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "OMP_NUM_THREADS": "1"}, capture_output=True, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert b"Traceback" not in result.stderr
    said = " ".join(result.stdout.decode("ascii").split())
    assert "(epsilon, delta) privacy" in said
    assert "written" in said


def test_numbers_out_of_range_are_refused_with_their_place(files, capsys):
    folder = files()
    lines = (folder / "public.csv").read_text().splitlines()
    lines[7] = "1,2,1e300,4"
    (folder / "public.csv").write_text("\n".join(lines))
    assert run(*BASE, "--out", "out") == 2
    assert "public.csv: row 8, column 'c': too large" in capsys.readouterr().err


def test_the_largest_numbers_that_are_taken_do_no_harm(files, capsys):
    folder = files()
    for name in ("private.csv", "public.csv"):
        head, *rows = (folder / name).read_text().splitlines()
        rows = [",".join([f"{float(row.split(',')[0]) * 1e17}", *row.split(",")[1:]]) for row in rows]
        (folder / name).write_text("\n".join([head, *rows]))
    assert run(*BASE, "--classes", "ill,well", "--out", "out") == 0
    assert run(*BASE, "--classes", "ill,well", "--representation", "identity", "--out", "out2") == 0
    assert "could not be drawn" not in capsys.readouterr().out


def test_a_column_is_not_label_and_person(files, capsys):
    assert run(*BASE, "--unit", "y", "--out", "out") == 2
    assert "'y' cannot be both the label and the person column" in capsys.readouterr().err


def test_a_wrong_label_is_named_by_its_line_in_the_file(files, capsys):
    folder = files()
    head, *rows = (folder / "private.csv").read_text().splitlines()
    rows[3] = rows[3].replace("well", "maybe")
    (folder / "private.csv").write_text("\n\n".join([head, *rows]))
    assert run(*BASE, "--classes", "ill,well", "--out", "out") == 2
    assert "private.csv: row 9, column 'y': the label is not one of the classes" in capsys.readouterr().err


def test_images_in_the_layout_of_medmnist_are_labeled(files, capsys):
    folder = files()
    parts = tacit.digits()
    kept = parts.private_labels < 2
    np.savez(
        folder / "scans.npz", train_images=parts.private_samples[kept].reshape(-1, 8, 8),
        train_labels=parts.private_labels[kept][:, None], test_images=parts.public_samples[:60].reshape(-1, 8, 8),
    )  # fmt: skip
    assert run("distill", "--private", "scans.npz", "--public", "scans.npz:test_images", "--label", "train_labels",
               "--classes", "0,1", "--epsilon", "2", "--out", "out") == 0  # fmt: skip
    assert len(tacit.load("out").labels) == 60
    assert "could not be drawn" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("magic", "optimized unary encoding, subset selection, symmetric unary encoding"),
        ("bit response, symmetric", "is called 'symmetric unary encoding' now"),
    ],
)
def test_the_names_of_local_mechanisms_are_given(files, capsys, name, said):
    assert run(*BASE, "--classes", "ill,well", "--trust", "local", "--mechanism", name, "--out", "out") == 2
    assert said in " ".join(capsys.readouterr().err.split())
