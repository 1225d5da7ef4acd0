"""A federation of real processes that works for an hour while faults come at random; a command, not a test.

Run: python -m tests.faults.soak [--minutes 60] [--seed 1] [--out docs/results]

Job after job is asked under changing trust, and in the middle of most a process is killed, hangs, loses its
connections, or finds its disk full. At the end the budgets must be right to the unit: every ledger verifies, what it
says is spent is what its payments come to when they are charged anew, no request was paid twice, and every receipt of
every run is a payment. Memory, handles and files of what stays up must not grow.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import psutil

from tacit.core.errors import TacitError
from tacit.core.files import write_file
from tacit.datasets.published import digits
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.sqlite import SqliteLedger
from tacit.ledger.verify import verify
from tacit.runs.folders import machine
from tacit.runs.run import load
from tests.faults.cut_connections import CuttingProxy
from tests.federation.deployment import SERVICES, Deployment, asked

NAMES = ("east", "north", "south", "west")
# Never touched by a fault: what grows there grows.
UNTOUCHED = "east"
TRUSTS = ("local", "masked", "central", "shuffle")
FAULTS = (
    "none", "node killed", "node hung", "node's disk full", "connections cut", "coordinator killed", "SuperLink killed",
    "collector killed",
)  # fmt: skip
CEILING = "100000.0"
# How often processes are looked at, in seconds.
_EVERY = 5.0
# How long a node may take to come back by itself: pauses between its attempts double, up to a minute.
_COMES_BACK = 150.0
# What may be measured as growth over the whole soak before it fails, beside twice its standard error.
BOUNDS = {"memory, MB": 0.15, "handles": 6.0, "files per job": 4.0}


@dataclass
class Series:
    """What one process had over its lives; a life begins when it is started."""

    lives: dict[float, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, life: float, at: float, value: float) -> None:
        self.lives.setdefault(life, []).append((at, value))

    def fit(self) -> tuple[float, float, float, float]:
        """Mean, growth per second within lives, its standard error, and the longest life.

        Each life has a level of its own, so that starting anew hides no growth. A life's first tenth is warming up.
        Measurements of one minute are averaged: they follow one another, and are not as many as they seem.
        """
        times, values, levels, longest = [], [], 0, 0.0
        for points in self.lives.values():
            at, value = np.array(points).T
            longest = max(longest, at[-1] - at[0])
            settled = at >= at[0] + (at[-1] - at[0]) / 10
            minutes, place = np.unique(at[settled] // 60, return_inverse=True)
            if len(minutes) >= 3:
                at, value = (np.bincount(place, each[settled]) / np.bincount(place) for each in (at, value))
                times.append(at - at.mean())
                values.append(value - value.mean())
                levels += 1
        mean = float(np.mean([value for points in self.lives.values() for _, value in points]))
        if not times:
            return mean, 0.0, 0.0, longest
        x, y = np.concatenate(times), np.concatenate(values)
        slope = float(x @ y / (x @ x))
        freedom = max(1, len(x) - levels - 1)
        error = float(np.sqrt(((y - slope * x) ** 2).sum() / freedom / (x @ x)))
        return mean, slope, error, longest


class Soak:
    """The federation, what is done to it, and what is measured."""

    def __init__(self, home: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.whole = Deployment(home, NAMES, ceiling=CEILING)
        self.processes = self.whole.processes
        self.proxy = CuttingProxy(self.whole.port)
        file = home / "west" / "node.toml"
        file.write_text(file.read_text().replace(f"127.0.0.1:{self.whole.port}", f"127.0.0.1:{self.proxy.port}"))
        self.began = time.monotonic()
        self.memory: dict[str, Series] = {}
        self.handles: dict[str, Series] = {}
        self.files: list[tuple[int, int]] = []
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.trusts: Counter[str] = Counter()
        self.words: Counter[str] = Counter()
        self.given_up: Counter[str] = Counter()
        self.runs: list[Path] = []
        self.coming: list[str] = []
        self.jobs = 0
        self._over = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self.began = time.monotonic()
        self._watching.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watching.join()

    def _watch(self) -> None:
        while not self._over.wait(_EVERY):
            self.measure()

    def heal(self, *services: str) -> None:
        """Everything that should be up is, whatever was done to it."""
        if not self.processes.alive("link"):
            self.whole.relink()
        for name in NAMES:
            if self.processes.alive(name):
                self.processes.resume(name)
                _limit(self.processes.running[name].pid, resource.RLIM_INFINITY)
        self.whole.start(*(name for name in NAMES if not self.processes.alive(name)))
        for kind in services:
            if not self.processes.alive(kind):
                self.whole.start_service(kind)

    def measure(self) -> None:
        """Memory and handles of each process with what it started at its beginning."""
        for name in (*NAMES, "link", *SERVICES.values()):
            if name not in self.processes.running:
                continue
            try:
                own = psutil.Process(self.processes.running[name].pid)
                family = [own, *own.children(recursive=True)]
                life, at = own.create_time(), time.monotonic() - self.began
                # Of a process for each message only the one that stays is looked at.
                family = [each for each in family if each.create_time() - life < 5]
                used = sum(each.memory_info().rss for each in family) / 2**20
                held = sum(each.num_fds() for each in family)
            except psutil.Error:
                continue
            self.memory.setdefault(name, Series()).add(life, at, used)
            self.handles.setdefault(name, Series()).add(life, at, held)

    def one_job(self) -> str:
        """A job with a fault in its middle, to its end; asked again where it ended in words. It says what was done."""
        if not self.coming:
            self.coming = self.random.sample(FAULTS, len(FAULTS))
        fault = self.coming.pop()
        trust = self.random.choice([each for each in TRUSTS if fault != "collector killed" or each in SERVICES])
        service = SERVICES.get(trust)
        self.heal(*filter(None, [service]))
        work = self.whole.job(f"job-{self.jobs}", trust=trust, at_least=3, grace=4, deadline=180, patience=90)
        said = ""
        for attempt in range(4):
            work.submit()
            try:
                if attempt == 0:
                    work.until(asked)
                    self.fault(fault, work, service)
                work.watch()
                break
            except (TacitError, AssertionError) as error:
                said = f"{type(error).__name__}: {error}"[:200]
                self.words[said.split(".")[0][:80]] += 1
                self.heal(*filter(None, [service]))
        else:
            raise SystemExit(f"job {self.jobs} ({trust}, {fault}) did not end: {said}")
        self.runs.append(Path(work.job.out))
        self.jobs += 1
        self.trusts[trust] += 1
        self.outcomes[fault, "went on" if not said else "ended in words, then done"] += 1
        # A node that is up and was not asked comes back by itself, or has given up its connection for good.
        for name in sorted({*filter(self.processes.alive, NAMES)} - set(work.round["asked"])):
            self.processes.resume(name)
            if not self.connected(name):
                self.given_up[name] += 1
                self.processes.kill(name)
        places = [self.whole.home / name for name in (*NAMES, *SERVICES.values())]
        self.files.append((self.jobs, sum(len([*place.rglob("*")]) for place in places)))
        return f"{trust}, {fault}, {said or 'went on'}"

    def connected(self, name: str) -> bool:
        """Whether a node hears its coordinator, or does so in a while."""
        noted, end = self.whole.home / name / f"{name}.state" / "connected", time.monotonic() + _COMES_BACK
        while not noted.exists() or time.time() - noted.stat().st_mtime > 2 * _EVERY:
            if time.monotonic() > end:
                return False
            time.sleep(0.5)
        return True

    def fault(self, fault: str, work: object, service: str | None) -> None:
        """Do it."""
        node = self.random.choice([name for name in NAMES if name != UNTOUCHED])
        match fault:
            case "node killed":
                self.processes.kill(node)
            case "node hung":
                self.processes.stop(node)
            case "node's disk full":
                _limit(self.processes.running[node].pid, 0)
            case "connections cut":
                self.proxy.cut()
            case "coordinator killed":
                work.kill()
            case "SuperLink killed":
                self.processes.kill("link")
            case "collector killed":
                self.processes.kill(service)
                time.sleep(1)
                self.whole.start_service(service)

    def budgets(self) -> dict[str, dict[str, object]]:
        """Every ledger against its own payments, charged anew, and against the receipts of all runs."""
        shown = [receipt for run in self.runs for receipt in load(run).receipts]
        found = {}
        for name in (*NAMES, "curator"):
            file = self.whole.home / name / f"{name}.ledger"
            if name == "curator" and not file.exists():
                # It was never asked.
                continue
            problems = [str(each) for each in verify(file)]
            with SqliteLedger(file) as book:
                payments, balance = book.payments(name), book.balance(name)
            again = MemoryLedger({name: balance.ceiling})
            for each in payments:
                again.charge(name, each.receipt.spend, each.receipt.purpose, "system", each.receipt.request, "again")
            paid = {(each.receipt.request, each.receipt.sequence, each.receipt.spend) for each in payments}
            own = [each for each in shown if each.account == name]
            found[name] = {
                "payments": len(payments),
                "receipts in runs": len(own),
                "paid twice": len(payments) - len({each.receipt.request for each in payments}),
                "receipts without a payment": sum((r.request, r.sequence, r.spend) not in paid for r in own),
                "epsilon spent": str(balance.spent.epsilon),
                "epsilon of the payments": str(again.balance(name).spent.epsilon),
                "delta spent": str(balance.spent.delta),
                "delta of the payments": str(again.balance(name).spent.delta),
                "problems": problems,
            }
        return found

    def growth(self) -> list[dict[str, object]]:
        """What each process grew by over the soak, as a line fits it, and whether that is within bounds."""
        rows = []
        for what, series in (("memory, MB", self.memory), ("handles", self.handles)):
            for name, each in sorted(series.items()):
                mean, slope, error, longest = each.fit()
                bound = BOUNDS[what] * (mean if what == "memory, MB" else 1) + 2 * error * longest
                grown = slope * longest
                rows.append(
                    {
                        "what": what, "process": name, "lives": len(each.lives), "minutes": round(longest / 60, 1),
                        "mean": round(mean, 1), "grown": round(grown, 2), "bound": round(bound, 2),
                        "within": bool(grown <= bound),
                    }
                )  # fmt: skip
        if not self.files:
            # Not one job was run in the time.
            return rows
        jobs, counts = np.array(self.files, dtype=float).T
        per_job = float(np.polyfit(jobs, counts, 1)[0]) if len(set(jobs)) > 2 else 0.0
        rows.append(
            {
                "what": "files per job", "process": "all nodes and services", "lives": 1,
                "minutes": round((time.monotonic() - self.began) / 60, 1), "mean": round(float(counts.mean()), 1),
                "grown": round(per_job, 2), "bound": BOUNDS["files per job"],
                "within": per_job <= BOUNDS["files per job"],
            }
        )  # fmt: skip
        return rows


def _limit(process: int, size: int) -> None:
    """How large a process and what it starts may make a file: 0 is a disk that is full."""
    try:
        for each in (own := psutil.Process(process), *own.children(recursive=True)):
            each.rlimit(psutil.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    except psutil.Error:
        pass


def right(budget: dict[str, object]) -> bool:
    """Whether a ledger says what its payments and receipts say."""
    return (
        not budget["problems"]
        and not budget["paid twice"]
        and not budget["receipts without a payment"]
        and budget["epsilon spent"] == budget["epsilon of the payments"]
        and budget["delta spent"] == budget["delta of the payments"]
    )


def table(columns: list[str], rows: list[list[object]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def page(found: dict[str, object]) -> str:
    """The results for a reader."""
    budgets, growth = found["budgets"], found["growth"]
    columns = ["payments", "receipts in runs", "paid twice", "receipts without a payment", "epsilon spent"]
    columns.append("epsilon of the payments")
    measured = ["what", "process", "lives", "minutes", "mean", "grown", "bound", "within"]
    return "\n\n".join(
        [
            "# soak",
            f"{found['jobs']} jobs in {found['minutes']} minutes (`make soak`), four nodes on loopback, seed "
            f"{found['seed']}; {found['verdict']}. Nodes that gave their connection up for good: "
            f"{sum(found['nodes that gave up'].values())}.",
            table(["fault", "outcome", "jobs"], [[*each] for each in found["outcomes"]]),
            table(["ledger", *columns], [[name, *(each[one] for one in columns)] for name, each in budgets.items()]),
            "A total is by the tightest accountant that the account's first payment leaves open: if that one had a δ "
            "of its own (a shuffled round), all payments are added up; if not, the Rényi filter may give less.",
            table(measured, [[each[one] for one in measured] for each in growth]),
            "Growth is the slope of a line within the lives of each process, times its longest life. "
            "A bound has twice the standard error of the slope added.",
            f"- {found['machine']}\n",
        ]
    )


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=None, help="end after this many jobs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None, help="a folder for soak.json and soak.md")
    said = parser.parse_args(words)
    digits()
    with tempfile.TemporaryDirectory(prefix="tacit-soak-") as home:
        soak = Soak(Path(home), said.seed)
        with soak.processes, soak.proxy, soak.whole.link():
            soak.heal()
            with soak:
                end = soak.began + 60 * said.minutes
                while time.monotonic() < end and (said.jobs is None or soak.jobs < said.jobs):
                    fault = soak.one_job()
                    print(f"{(time.monotonic() - soak.began) / 60:6.1f} min, job {soak.jobs}: {fault}", flush=True)
                minutes = (time.monotonic() - soak.began) / 60
        budgets, growth = soak.budgets(), soak.growth()
    fine = soak.jobs > 0 and all(map(right, budgets.values())) and all(each["within"] for each in growth)
    wrong = "NOT RIGHT" if soak.jobs else "NO JOB WAS RUN"
    found = {
        "minutes": round(minutes, 1), "jobs": soak.jobs, "seed": said.seed, "machine": machine(),
        "verdict": "all budgets right to the unit, nothing grew" if fine else wrong,
        "trusts": dict(soak.trusts), "outcomes": [[*each, count] for each, count in sorted(soak.outcomes.items())],
        "words": dict(soak.words), "nodes that gave up": dict(soak.given_up), "budgets": budgets, "growth": growth,
    }  # fmt: skip
    text = page(found)
    print(text)
    if said.out is not None:
        write_file(said.out / "soak.json", (json.dumps(found, indent=1) + "\n").encode())
        write_file(said.out / "soak.md", text.encode())
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
