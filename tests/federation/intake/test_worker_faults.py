"""Faults of real parts: a worker killed while it writes, and a database that is gone for a while."""

import os
import secrets
import signal
import subprocess
import sys
import threading

import pytest

from tacit.federation.intake.device import IntakeAddress, IntakeUnreachable, post_message
from tacit.federation.intake.messages import DeviceMessage
from tacit.federation.intake.store import open_intake_store
from tests.federation.intake.questions import local_question
from tests.federation.intake.test_worker import called, counted, serving

pytestmark = pytest.mark.fault
WORKER = (sys.executable, "-c", "from tacit.cli import main; main()", "federation", "intake", "worker")


class Worker:
    """A worker's process, started by its command."""

    def __init__(self, file, place):
        options = ["--store", place, "--port", "0", "--rate", "0"]
        self.process = subprocess.Popen([*WORKER, str(file), *options], stdout=subprocess.PIPE, text=True)
        ready = self.process.stdout.readline()
        assert ready.startswith("ready at http://127.0.0.1:"), ready
        self.address = IntakeAddress(ready.split()[-1], timeout=20)

    def end(self, number):
        self.process.send_signal(number)
        self.process.wait(timeout=30)
        self.process.stdout.close()
        return self.process.returncode


def messages(question, count):
    return [DeviceMessage(os.urandom(16), bytes([number % 10])).to_bytes(question) for number in range(count)]


@pytest.mark.parametrize("place", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True)
def test_a_worker_killed_while_it_writes_loses_nothing_it_acknowledged_and_counts_nothing_twice(place, tmp_path):
    question = local_question(most=10_000)
    file = tmp_path / "question.tacit"
    file.write_bytes(question.to_bytes())
    bodies, acknowledged, enough = messages(question, 600), [], threading.Event()
    first = Worker(file, place)

    def post(own):
        for body in own:
            try:
                post_message(first.address, body)
            except IntakeUnreachable:
                return
            acknowledged.append(body)
            if len(acknowledged) >= 40:
                enough.set()

    threads = [threading.Thread(target=post, args=(bodies[number::6],)) for number in range(6)]
    for each in threads:
        each.start()
    assert enough.wait(300)
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    for each in threads:
        each.join()
    assert 40 <= len(acknowledged) < len(bodies)
    with open_intake_store(place) as store:
        kept = [payload for page in store.pages(question.digest) for payload in page]
        assert store.status()["questions"][0]["taken"] == len(kept) >= len(acknowledged)
    with serving(question, place) as (address, store):

        def taken():
            return store.status()["questions"][0]["taken"]

        # Devices that were answered post the same again, and nothing is counted twice.
        for body in acknowledged[:10]:
            post_message(address, body)
        assert taken() == len(kept)
        assert counted(address, "duplicate", 10)
        left = [body for body in bodies if body not in acknowledged][:30]
        for body in left:
            post_message(address, body)
        # Of what was on the way when the worker was killed some may be there without an answer.
        assert len(acknowledged) + len(left) <= taken() <= len(kept) + len(left)
        assert sum(len(page) for page in store.pages(question.digest)) == taken()


def test_a_database_that_goes_away_is_a_503_and_the_same_bytes_are_taken_when_it_is_back(postgres):
    import psycopg

    name, question = f"down_{secrets.token_hex(4)}", local_question()
    (body,) = messages(question, 1)
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        with serving(question, postgres.replace("/postgres?", f"/{name}?")) as (address, store):
            server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
            for _ in range(2):
                assert called(address, "POST", "/", body)[::2] == (503, b"try again")
            assert called(address, "GET", "/status")[0] == 503
            server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
            post_message(address, body)
            post_message(address, body)
            assert store.status()["questions"][0]["taken"] == 1
