"""The time from the start of each command to its first output.

Run: python benchmarks/first_output.py [--tries 3] [--only TEXT] [--out docs/results]

Makes small files in a temporary folder, starts every command on them as a user would, and measures the time until the
first byte on the screen, and what the process had used of a processor by then, which other programs hardly change and
which is the time on an idle machine. Whatever needs more than a second of a processor is marked and makes the exit code
1. Commands are ended once they have spoken. With --out, and all commands, the table is written as first-output.md and
first-output.json.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import selectors
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import tacit
from tacit.core import Ceiling
from tacit.ledger import open_ledger

LIMIT = 1.0
_LONGEST, _FINISHING = 300.0, 10.0


def make_files(folder: Path) -> None:
    """A table of records, a public one, a run, a ledger and a recipe."""
    parts = tacit.digits()
    head = [f"pixel{place}" for place in range(64)]
    for name, samples, labels in (
        ("records.csv", parts.private_samples, parts.private_labels),
        ("samples.csv", parts.public_samples, None),
        ("tested.csv", parts.test_samples, parts.test_labels),
    ):
        with (folder / name).open("w", newline="") as file:
            rows = samples.tolist() if labels is None else np.column_stack([samples, labels]).tolist()
            csv.writer(file).writerows([head if labels is None else [*head, "digit"], *rows])
    tacit.distill(
        (parts.private_samples, parts.private_labels), parts.public_samples, 1.0, classes=range(10), method="rknn",
        student="logistic", seed=1,
    ).save(folder / "first-run")  # fmt: skip
    open_ledger(str(folder / "main.ledger"), {"clinic": Ceiling(3)})
    (folder / "recipe.toml").write_text(
        '[data]\nprivate = "records.csv"\npublic = "samples.csv"\nlabel = "digit"\n'
        'classes = "0,1,2,3,4,5,6,7,8,9"\n\n[privacy]\nepsilon = 1.0\n'
    )
    (folder / "policy.toml").write_text("[accounts.clinic]\nepsilon = 3.0\n")


FILES = "--private records.csv --public samples.csv --label digit"
CLASSES = ",".join(map(str, range(10)))
DATA = f"{FILES} --classes {CLASSES} --epsilon 1"
COMMANDS = (
    "--help",
    "--version",
    "doctor",
    "demo --out demo-run",
    f"distill {DATA} --out second-run",
    f"distill {DATA} --dry-run",
    "distill --method rknn --help",
    "init records.csv samples.csv --label digit --out recipe-2.toml",
    "run recipe.toml --out by-recipe",
    "resume first-run",
    "plan --records 1000 --classes 10",
    "plan --records 1000 --classes 10 --public samples.csv",
    "show first-run",
    "show first-run --json",
    "report first-run --out page.html",
    "report first-run --test tested.csv --label digit --out tested.html",
    "report main.ledger",
    "ui --port 0",
    "predict first-run samples.csv --out labels.csv",
    "export first-run --skops --out model",
    "export first-run --onnx --out model-2",
    "export first-run --labels public-labels.csv",
    "ledger open second.ledger --policy policy.toml",
    "ledger show main.ledger",
    "ledger verify main.ledger",
    "ledger accept main.ledger --reason trial",
    "ledger export main.ledger --out entries.jsonl",
    "ledger copy main.ledger copied.ledger",
    "ledger roles postgresql://owner@localhost:1/budget --print",
    "audit discrete-laplace",
    "federation demo",
    "federation init hub",
    "federation init here --node north --address localhost:9092 --authority hub/authority.pem",
    "federation nodes add hub here/north.pub --identity here/north.id",
    "federation nodes list hub",
    "federation nodes renew hub",
    "federation nodes remove hub north",
    "federation check here/node.toml",
    "federation approve here/node.toml",
    "federation node here/node.toml",
    "federation jobs here/node.toml",
    "federation cancel here/node.toml 3f2a",
    "federation status here/node.toml",
    "federation coordinator hub --host 127.0.0.1",
    "federation fleet hub",
    "federation shuffler hub/shuffler.toml",
    "federation curator hub/curator.toml",
    "federation intake keys tokens",
    f"federation intake open samples.csv question.tacit --classes {CLASSES} --devices 1000 --epsilon 4 --trust local",
    "federation intake worker question.tacit --store sqlite:///intake.db --port 0",
    "federation intake status --store sqlite:///intake.db",
    "federation intake tokens question.tacit tokens.key --count 2 --out given",
    "federation intake collect question.tacit batch --store sqlite:///intake.db",
    "federation intake decode question.tacit batch --public samples.csv --out by-devices",
    "federation device http://127.0.0.1:1 --folder device --digest 00 --features 0 --label 1 --epsilon 1 --question 1 "
    "--local 1",
    "bench --help",
)


def processor_seconds(process: int) -> float:
    """What a process has used of processors so far, as Linux tells it."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def first_output(arguments: list[str], folder: Path) -> tuple[float, float, str]:
    """Processor and wall seconds until the first byte on the screen, and its line; the process is ended then."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TACIT_STATE": str(folder / "state"), "PYTHONUNBUFFERED": "1"}
    program = [sys.executable, "-c", "from tacit.cli import main; main()", *arguments]
    began = time.perf_counter()
    with subprocess.Popen(
        program, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as started:
        assert started.stdout is not None
        with selectors.DefaultSelector() as waiting:
            waiting.register(started.stdout, selectors.EVENT_READ)
            waiting.select(_LONGEST)
        used, took = processor_seconds(started.pid), time.perf_counter() - began
        said = os.read(started.stdout.fileno(), 200).decode(errors="replace").strip().splitlines()
        try:
            # A short command may finish, so that the next finds its files, on a busy machine too.
            started.wait(_FINISHING)
        except subprocess.TimeoutExpired:
            # With the processes that it started itself.
            os.killpg(started.pid, signal.SIGKILL)
    return used, took, said[0][:60] if said else "(nothing)"


def tried(arguments: list[str], folder: Path, tries: int) -> list[tuple[float, float, str]]:
    """The same command several times; before each, what the last one made is removed, or it would be refused."""
    there, found = set(folder.iterdir()), []
    for _ in range(tries):
        for made in set(folder.iterdir()) - there:
            shutil.rmtree(made) if made.is_dir() else made.unlink()
        found.append(first_output(arguments, folder))
    return found


def write_page(rows: list[tuple[str, float, float]], folder: Path) -> None:
    """The table for the documentation, the slowest first."""
    slowest = sorted(rows, key=lambda row: -row[1])
    made = {
        "limit": LIMIT,
        "rows": [{"command": name, "processor": used, "wall": took} for name, used, took in slowest],
    }
    (folder / "first-output.json").write_text(json.dumps(made, indent=1) + "\n")
    late, used = sum(row[1] > LIMIT for row in rows), [row[1] for row in rows]
    lines = [
        "# First output of every command",
        "",
        "*How long do I wait until a command says something?* Processor seconds from the start of the process to the "
        "first byte on the screen, which is the time on an idle machine; the least of some tries, on small files. Of "
        f"{len(rows)} calls, which use every command, {late or 'none'} {'needs' if late == 1 else 'need'} more than "
        f"{LIMIT:g} s; the median is {statistics.median(used):.2f} s.",
        "Measured by `python benchmarks/first_output.py --out docs/results`.",
        "",
        "| command | processor seconds |",
        "|---|---|",
        *(f"| `tacit {name}` | {used:.2f} |" for name, used, _ in slowest),
    ]
    (folder / "first-output.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--only", default="", help="commands that contain this text")
    parser.add_argument("--out", type=Path, help="a folder for the table")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as made:
        make_files(Path(made))
        print(f"{'command':64} processor    wall  first line")
        for command in COMMANDS:
            if given.only not in command:
                continue
            found = tried(command.split(), Path(made), given.tries)
            used, took, said = min(found)
            rows.append((command, used, took))
            print(
                f"tacit {command[:58]:58} {used:7.2f}{' !' if used > LIMIT else '  '} {took:7.2f}  {said}", flush=True
            )
    late = sum(used > LIMIT for _, used, _ in rows)
    print(f"{late} of {len(rows)} above {LIMIT:g} s")
    if given.out is not None and not given.only:
        write_page(rows, given.out)
    sys.exit(1 if late else 0)


if __name__ == "__main__":
    main()
