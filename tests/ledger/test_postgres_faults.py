"""Faults of a ledger on a server: clients and servers are killed, and connections cut, at every statement.

Whatever happens, a payment is there or not, what was seen is paid for, and the same request again pays at most once.
A part of the points is met in every run; ``make faults`` meets all of them.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tacit.core.account import Ceiling
from tacit.core.errors import LedgerError
from tacit.core.spend import Pure
from tacit.ledger import open_ledger
from tacit.ledger.verify import verify
from tests.ledger.opened import SPEND, OpenedLedger
from tests.ledger.worker import release
from tests.postgres import Proxy, needs_postgres, wait_for_end

pytestmark = [needs_postgres, pytest.mark.fault]
# Some hundred processes one after another: on a busy machine longer than other tests may take.
WHOLE = [pytest.mark.slow, pytest.mark.timeout(3600)]
EVERY = pytest.param(1, marks=WHOLE)


@pytest.fixture
def proxy(postgres):
    made = Proxy(postgres)
    yield made
    made.close()


@pytest.fixture
def site(postgres, ledger_database, worker, folder):
    return OpenedLedger(folder / "site", worker, postgres.url(ledger_database))


@pytest.mark.parametrize("step", [12, EVERY])
def test_a_client_is_killed_at_every_statement(site, worker, step):
    worker.succeed(**site.command("first"))
    count = int(worker.succeed(**site.command("counted", watch="server")))
    assert count > 40
    for point in range(1, count + 1, step):
        site.kill_and_retry(f"request-{point}", watch="server", kill_at=point)


@pytest.mark.parametrize("step", [30, EVERY])
def test_a_client_is_killed_while_it_pays_for_the_first_time(postgres, worker, folder, step):
    """The first payment is also the first time that the head is written down in the second place."""
    database = postgres.database()
    site = OpenedLedger(folder / "count", worker, postgres.url(database))
    count = int(worker.succeed(**site.command("r", watch="server")))
    postgres.drop(database)
    for point in range(1, count + 1, step):
        database = postgres.database()
        site = OpenedLedger(folder / f"site-{point}", worker, postgres.url(database))
        site.kill_and_retry("r", watch="server", kill_at=point)
        postgres.drop(database)


@pytest.mark.parametrize("step", [40, EVERY])
def test_a_client_is_killed_while_it_makes_a_ledger(postgres, worker, step):
    def make(**fault):
        database = postgres.database()
        place = {"work": "create", "path": postgres.url(database)}
        said = worker.run(**place, watch="server", **fault)["said"]
        worker.succeed(**place)
        assert verify(place["path"]) == []
        postgres.drop(database)
        return said

    count = int(make())
    for point in range(1, count + 1, step):
        assert make(kill_at=point) == ""


def asked(proxy, site, request, ledger):
    """A release over the proxy; whether it came, and whether its caller was told that it did not."""
    site.requests.add(request)
    try:
        release(ledger, request, SPEND, str(site.world))
    except LedgerError as error:
        return str(error)
    return None


@pytest.mark.parametrize("back", [True, False], ids=["the server is back", "the server stays away"])
@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("step", [11, EVERY])
def test_the_connection_is_cut_in_every_statement(postgres, ledger_database, site, proxy, how, back, step):
    place = postgres.url(ledger_database, host=proxy.folder)
    with open_ledger(place) as ledger:
        assert asked(proxy, site, "first", ledger) is None
        proxy.arm()
        assert asked(proxy, site, "counted", ledger) is None
        count, commit = proxy.count, proxy.number_of("COMMIT")
        assert count > 20
        # The payment's own commit is always among them.
        for point in sorted({*range(1, count + 1, step), commit}):
            request = f"request-{point}"
            then = None if back else lambda: setattr(proxy, "refusing", True)
            proxy.arm(at=point, how=how, then=then)
            told = asked(proxy, site, request, ledger)
            proxy.refusing = False
            before = site.check_after_kill()
            if told is None:
                assert back, "nobody can know what became of it"
            elif "Nothing was charged" in told:
                assert request not in before[0], "it says that nothing was charged, and it was"
            proxy.arm()
            assert asked(proxy, site, request, ledger) is None
            site.check_after_retry(before)


@pytest.mark.parametrize("points", ["commit", pytest.param("all", marks=WHOLE)])
def test_the_server_is_killed_and_started_again(postgres, ledger_database, site, proxy, points):
    """By SIGKILL, as the machine that loses it would: a charge is all there or not at all."""
    place = postgres.url(ledger_database, host=proxy.folder)
    with open_ledger(place) as ledger:
        assert asked(proxy, site, "first", ledger) is None
        proxy.arm()
        assert asked(proxy, site, "counted", ledger) is None
        commit, count = proxy.number_of("COMMIT"), proxy.count
        chosen = [(commit, "after")] if points == "commit" else []
        chosen += [(point, how) for point in range(1, count + 1, 2) for how in ("before", "after") if points == "all"]
        for point, how in chosen:
            request = f"request-{point}-{how}"
            proxy.arm(at=point, how=how, then=postgres.kill)
            told = asked(proxy, site, request, ledger)
            assert told is not None
            assert proxy.acted.wait(60)
            postgres.start()
            before = site.check_after_kill()
            if (point, how) == (commit, "after"):
                assert request in before[0], "it was committed before the server died"
                assert "not known" in told
            proxy.arm()
            assert asked(proxy, site, request, ledger) is None
            site.check_after_retry(before)


def test_a_session_that_an_administrator_ends_is_taken_up_again(postgres, ledger_database, site):
    with open_ledger(site.path) as ledger:
        for number in range(3):
            ledger.charge("clinic", Pure(SPEND), "labels", "system", f"r-{number}", "question")
            postgres.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'tacit'"
            )
        assert ledger.balance("clinic").payments == 3


def test_sixteen_processes_exhaust_an_account_exactly(worker, folder, postgres, ledger_database):
    world = folder / "world.txt"
    url = postgres.url(ledger_database)
    # 112 sevenths of a unit: no float holds one, and a sum that drifted would allow one more or one less.
    open_ledger(url, {"clinic": Ceiling(16)}).close()
    worker.succeed(work="exhaust", path=url, world=str(world), spend="1/7", processes=16, start=time.time() + 0.5)
    told = world.read_text().splitlines()
    assert len(told) == 112
    assert len({line.split("-")[0] for line in told}) > 1, "only one process got in; nothing was contended"
    with open_ledger(url) as ledger:
        balance = ledger.balance("clinic")
        assert (balance.payments, balance.remaining) == (112, 0)
        assert ledger.verify() == []


def test_processes_with_the_same_requests_pay_once_and_see_the_same(worker, folder, site):
    requests = [f"r-{index}" for index in range(4)]
    worker.succeed(**site.command(*requests, processes=8))
    assert len(site.world.read_text().splitlines()) == 32
    site.check_after_retry(({}, {}))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_client_is_killed_by_another_process_at_random_times(worker, site):
    chance = random.Random(20260607)
    worker.succeed(**site.command("warm"))
    for number in range(40):
        requests = [f"{number}-{index}" for index in range(3)]
        worker.run(**site.command(*requests, kill_after=chance.uniform(0, 0.5)))
        before = site.check_after_kill()
        worker.succeed(**site.command(*requests))
        site.check_after_retry(before)


STARTING = """
import sys
from tests.postgres import Server
server = Server()
print(server.process, server.folder, flush=True)
sys.stdin.read()
"""


def test_a_server_of_the_tests_ends_with_the_process_that_started_it():
    """Not by a test's own care alone: whoever kills the tests leaves no server."""
    started = subprocess.Popen(
        [sys.executable, "-c", STARTING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    pid, folder = started.stdout.readline().split()
    os.kill(started.pid, signal.SIGKILL)
    started.communicate()
    wait_for_end([pid])
    shutil.rmtree(folder, ignore_errors=True)
