"""A ledger, the world outside it, and what must be true of the two after every fault, whatever the ledger is on."""

import signal
from fractions import Fraction

from tacit.core.account import Ceiling
from tacit.ledger import open_ledger
from tacit.ledger.verify import entries, verify

KILLED = [-signal.SIGKILL]
SPEND = "1/1000"


class OpenedLedger:
    """A ledger with one account, and a file that says what was seen of its releases."""

    def __init__(self, folder, worker, place=None):
        folder.mkdir()
        self.path = place or folder / "main.ledger"
        self.world = folder / "world.txt"
        self.world.touch()
        self.worker = worker
        self.requests = set()
        open_ledger(self.path, {"clinic": Ceiling(1)}).close()

    def command(self, *requests, **fault):
        self.requests.update(requests)
        where = {"path": str(self.path), "world": str(self.world)}
        return {"work": "release", "requests": requests, "spend": SPEND, **where, **fault}

    def seen(self):
        told = {}
        for line in self.world.read_text().splitlines():
            request, payload = line.split()
            told.setdefault(request, set()).add(payload)
        return told

    def stored(self):
        paid, kept = {}, {}
        for entry in entries(self.path):
            if entry.kind == "payment":
                assert entry.content["request"] not in paid, "paid twice"
                paid[entry.content["request"]] = entry.sequence
            elif entry.kind == "release":
                assert entry.content["payment"] not in kept, "drawn twice"
                kept[entry.content["payment"]] = entry.payload.hex()
        return paid, kept

    def check_after_kill(self):
        """The ledger opens and verifies; what was seen was paid for and kept; nothing is kept unpaid."""
        assert verify(self.path) == []
        paid, kept = self.stored()
        assert set(paid) <= self.requests
        assert set(kept) <= set(paid.values())
        for request, payloads in self.seen().items():
            assert payloads == {kept[paid[request]]}
        return paid, kept

    def check_after_retry(self, before):
        """Every request is paid once and has one release for ever, the one that was kept before if one was."""
        paid, kept = self.check_after_kill()
        assert set(paid) == self.requests == set(self.seen())
        assert before[0].items() <= paid.items()
        assert before[1].items() <= kept.items()
        with open_ledger(self.path) as ledger:
            assert ledger.balance("clinic").spent.epsilon == len(self.requests) * Fraction(SPEND)

    def kill_and_retry(self, request, **fault):
        assert self.worker.run(**self.command(request, **fault))["statuses"] == KILLED
        before = self.check_after_kill()
        self.worker.succeed(**self.command(request))
        self.check_after_retry(before)
