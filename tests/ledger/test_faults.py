"""Children killed by SIGKILL all over the write path: nothing that was seen is ever drawn again or unpaid."""

import itertools
import random
import shutil
import time

import pytest

from tacit.core.account import Ceiling
from tacit.core.spend import Pure
from tacit.ledger.sqlite import SqliteLedger
from tacit.ledger.verify import verify
from tests.ledger.opened import KILLED, SPEND, OpenedLedger


@pytest.mark.parametrize(("watch", "kills"), [("lines", 150), ("statements", 30), ("steps", 50)])
def test_killed_at_every_kind_of_point(watch, kills, worker, folder):
    counted = OpenedLedger(folder / "count", worker)
    worker.succeed(**counted.command("first"))
    count = int(worker.succeed(**counted.command("r", watch=watch)))
    points = sorted({1 + (count - 1) * index // (kills - 1) for index in range(kills)})
    # Where there are fewer points than kills, every single one is met.
    assert len(points) == min(count, kills)
    for number, point in enumerate(points):
        if number % 50 == 0:
            site = OpenedLedger(folder / f"site-{number}", worker)
            worker.succeed(**site.command("first"))
        site.kill_and_retry(f"request-{point}", watch=watch, kill_at=point)


def test_killed_at_every_statement_of_the_first_payment(worker, folder):
    """The first payment is also the first time that the head is written down in the second place."""
    count = int(worker.succeed(**OpenedLedger(folder / "count", worker).command("r", watch="statements")))
    for point in range(1, count + 1):
        OpenedLedger(folder / f"site-{point}", worker).kill_and_retry("r", watch="statements", kill_at=point)


def test_a_gate_that_lets_go_before_it_keeps_is_caught(worker, folder):
    """The mutant: some kill must leave the world with a release that the ledger does not know."""
    count = int(
        worker.succeed(**OpenedLedger(folder / "count", worker).command("r", watch="statements", careless=True))
    )
    caught = 0
    for point in range(1, count + 1):
        site = OpenedLedger(folder / f"site-{point}", worker)
        worker.run(**site.command("r", watch="statements", kill_at=point, careless=True))
        paid, kept = site.stored()
        caught += "r" in site.seen() and paid["r"] not in kept
    assert caught


def test_killed_by_another_process_at_random_times(worker, folder):
    site = OpenedLedger(folder / "site", worker)
    started = time.perf_counter()
    worker.succeed(**site.command(*(f"warm-{index}" for index in range(4))))
    longest = time.perf_counter() - started
    chance = random.Random(20240607)
    killed = 0
    for number in itertools.count():
        requests = [f"{number}-{index}" for index in range(4)]
        command = site.command(*requests, kill_after=chance.uniform(0, longest))
        if worker.run(**command)["statuses"] == KILLED:
            killed += 1
        else:
            # It was done before it was killed: the machine was slower when it was measured.
            longest *= 0.8
        before = site.check_after_kill()
        worker.succeed(**site.command(*requests))
        site.check_after_retry(before)
        if killed == 30:
            return


def test_killed_while_creating(worker, folder):
    count = int(worker.succeed(work="create", path=str(folder / "count.ledger"), watch="statements"))
    assert count >= 20
    for point in range(1, count + 1):
        path = folder / f"{point}.ledger"
        create = {"work": "create", "path": str(path)}
        assert worker.run(**create, watch="statements", kill_at=point)["statuses"] == KILLED
        worker.succeed(**create)
        assert verify(path) == []


def test_power_cut_leaves_a_torn_log(folder):
    """After a power cut the write-ahead log may end anywhere behind the last commit that reached the disk."""
    path, log = folder / "main.ledger", folder / "main.ledger-wal"
    with SqliteLedger.create(path, {"clinic": Ceiling(1)}, heads=folder / "state") as ledger:
        ledger.charge("clinic", Pure(SPEND), "labels", "system", "first", "question")
        safe, head = log.stat().st_size, ledger.head()
        # The head is written down after a commit has reached the disk, never before.
        state = shutil.copytree(folder / "state", folder / "state of the first")
        second = ledger.charge("clinic", Pure(SPEND), "labels", "system", "second", "question")
        ledger.store_release(second, b"x" * 5000)
        whole = log.stat().st_size
        lengths = [safe + (whole - safe) * index // 40 for index in range(40)]
        for length in lengths:
            cut = folder / f"cut-{length}.ledger"
            shutil.copy(path, cut)
            with log.open("rb") as source:
                cut.with_name(cut.name + "-wal").write_bytes(source.read(length))
            assert verify(cut, head=head[1]) == []
            with SqliteLedger(cut, heads=shutil.copytree(state, folder / f"state-{length}")) as restored:
                receipt = restored.charge("clinic", Pure(SPEND), "labels", "system", "second", "question")
                assert restored.store_release(receipt, b"y") in (b"y", b"x" * 5000)
                assert restored.balance("clinic").payments == 2
            assert verify(cut, head=head[1]) == []


def test_a_disk_that_fails_to_write_is_explained(worker, folder):
    site = OpenedLedger(folder / "site", worker)
    said = worker.succeed(work="cannot write", path=str(site.path), spend=SPEND)
    assert "paid at most once" in said
    assert verify(site.path) == []
    with SqliteLedger(site.path) as ledger:
        assert ledger.balance("clinic").payments == 0
        ledger.charge("clinic", Pure(SPEND), "labels", "system", "r", "question")
        assert ledger.balance("clinic").payments == 1
