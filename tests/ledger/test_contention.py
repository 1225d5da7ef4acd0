"""Many processes and threads on one account spend it to the last unit, and not one more."""

import threading
import time

from tacit.core.account import Ceiling
from tacit.core.errors import BudgetExceeded
from tacit.core.spend import Pure
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.sqlite import SqliteLedger
from tacit.ledger.verify import verify


def test_eight_processes_exhaust_an_account_exactly(worker, folder):
    path, world = folder / "main.ledger", folder / "world.txt"
    # 200 sevenths of a unit: no float holds one, and a sum that drifted would allow one more or one less.
    SqliteLedger.create(path, {"clinic": Ceiling("200/7")}).close()
    worker.succeed(work="exhaust", path=str(path), world=str(world), spend="1/7", processes=8, start=time.time() + 0.5)
    told = world.read_text().splitlines()
    assert len(told) == 200
    assert len({line.split("-")[0] for line in told}) > 1, "only one process got in; nothing was contended"
    with SqliteLedger(path) as ledger:
        balance = ledger.balance("clinic")
        assert (balance.payments, balance.remaining) == (200, 0)
    assert verify(path) == []


def test_eight_processes_with_the_same_requests_pay_once_and_see_the_same(worker, folder):
    path, world = folder / "main.ledger", folder / "world.txt"
    SqliteLedger.create(path, {"clinic": Ceiling(1)}).close()
    requests = [f"r-{index}" for index in range(10)]
    worker.succeed(work="release", path=str(path), world=str(world), requests=requests, spend="1/10", processes=8)
    told = world.read_text().splitlines()
    assert len(told) == 80
    assert len(set(told)) == 10
    with SqliteLedger(path) as ledger:
        assert ledger.balance("clinic").remaining == 0
    assert verify(path) == []


def test_threads_share_one_ledger(folder):
    with SqliteLedger.create(folder / "main.ledger", {"clinic": Ceiling("50/7")}) as durable:
        for ledger in (durable, MemoryLedger({"clinic": Ceiling("50/7")})):
            paid, failed = [], []

            def spend(name, ledger=ledger, paid=paid, failed=failed):
                try:
                    for number in range(1000):
                        request = f"{name}-{number}"
                        paid.append(ledger.charge("clinic", Pure("1/7"), "labels", "system", request, "q"))
                except BudgetExceeded:
                    return
                except BaseException as error:
                    failed.append(error)

            threads = [threading.Thread(target=spend, args=(name,)) for name in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert failed == []
            assert len({receipt.digest for receipt in paid}) == 50
