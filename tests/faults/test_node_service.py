"""A node that stays up, as a real process: killed in the middle, started twice, told to end once and twice.

The coordinator is not there; requests come through the socket to which Flower's processes forward them.
"""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.cli.federation_setup import new_coordinator, new_node
from tacit.federation.messages import RefusalReason, read_response
from tacit.federation.node.local_socket import forward_request
from tacit.federation.node.queue import JobQueue, job_id
from tacit.federation.processes import free_port
from tacit.federation.settings import read_node_file
from tacit.ledger import inspected
from tests.federation.deployment import START, TACIT, Deployment
from tests.federation.node.test_service import Place
from tests.federation.test_settings import POLICY, folder, wire_request

__all__ = ["folder"]
pytestmark = [pytest.mark.timeout(900), pytest.mark.fault]
# No proxy of the machine's is asked about its own addresses.
OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


class Command:
    """A node's folder, and the command that runs it."""

    payload = Place.payload

    def __init__(self, folder, pace, service=""):
        self.folder, (self._ask, _) = folder, wire_request()
        (folder / "policy.toml").write_text(POLICY.format(epsilon=100.0))
        new_coordinator(folder / "study", [])
        new_node(folder / "keys", "clinic", f"127.0.0.1:{free_port()}", folder / "study" / "authority.pem")
        link = (folder / "keys" / "node.toml").read_text()
        link = link[link.index("[link]") :].replace('"authority.pem"', '"keys/authority.pem"')
        text = (folder / "node.toml").read_text().replace("pace = 0.0", f"pace = {pace}")
        link = link.replace('"clinic.key"', '"keys/clinic.key"')
        (folder / "node.toml").write_text(f"{text}[service]\ndrain = 60.0\n{service}\n{link}")
        self.settings = read_node_file(folder / "node.toml")
        self.process = None

    def start(self):
        self.process = self.command()
        self.until(lambda: self.get("/health") == (200, "ok\n"))
        self.until(lambda: self.socket.exists())

    def command(self):
        return subprocess.Popen(
            [*TACIT, "federation", "node", str(self.folder / "node.toml")],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | {"COLUMNS": "300"},
        )  # fmt: skip

    @property
    def socket(self):
        return self.settings.state / "socket"

    def get(self, path):
        try:
            told = json.loads((self.settings.state / "service.json").read_text())
            assert told["process"] == self.process.pid
            with OPEN(told["address"] + path, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except (OSError, ValueError, AssertionError):
            return None

    def ask(self, request="r", run="run"):
        return read_response(forward_request(self.socket, self.payload(request, run), START)).answer

    def later(self, *arguments):
        found = []

        def asked():
            with contextlib.suppress(EOFError, OSError):
                found.append(self.ask(*arguments))

        thread = threading.Thread(target=asked)
        thread.start()
        return thread, found

    def until(self, happened):
        end = time.monotonic() + START
        while not happened():
            assert self.process.poll() is None, self.process.stdout.read()
            assert time.monotonic() < end
            time.sleep(0.05)

    def at_work(self):
        with contextlib.closing(JobQueue(self.settings.state / "queue.db")) as queue:
            return any("running" in job.states for job in queue.jobs())

    @property
    def paid(self):
        with inspected(self.settings.ledger) as book:
            return len(book.payments("clinic"))

    def ended(self):
        said, _ = self.process.communicate(timeout=120)
        return self.process.returncode, " ".join(said.split())


@pytest.fixture
def made(folder):
    commands = []

    def make(*arguments):
        commands.append(Command(folder, *arguments))
        return commands[0]

    yield make
    for each in commands:
        if each.process is not None and each.process.poll() is None:
            each.process.kill()
            each.process.communicate()


def test_killed_in_the_middle_it_goes_on_unpaid_and_told_to_end_it_finishes_its_answer(made):
    node = made(4.0)
    node.start()
    thread, found = node.later("r-0")
    node.until(lambda: node.paid == 1)
    # Paid for, and not sent: answers leave at a pace.
    node.process.kill()
    node.ended()
    thread.join(60)
    assert found == []
    node.start()
    first = node.ask("r-0")
    assert isinstance(first, bytes)
    assert node.paid == 1
    # A second one on the same queue is refused, and the first goes on.
    other = node.command()
    said, _ = other.communicate(timeout=START)
    assert other.returncode == 2
    assert "the node clinic is already running; only one process may" in said
    running, answer = node.later("r-1")
    node.until(node.at_work)
    node.process.send_signal(signal.SIGTERM)
    code, said = node.ended()
    running.join(60)
    assert (code, node.paid) == (0, 2)
    assert isinstance(answer[0], bytes)
    assert "SIGTERM: stops when a running question is answered and sent, after 60 seconds in any case" in said
    assert "ended; no question is unfinished" in said
    assert not node.socket.exists()
    events = [json.loads(line) for line in (node.settings.state / "service.jsonl").read_text().splitlines()]
    assert [each["event"] for each in events].count("started") == 2
    assert events[-1] == events[-1] | {"event": "ended", "state": "idle"}


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once_and_it_goes_on_when_it_is_started_again(made):
    node = made(3000.0)
    node.start()
    thread, found = node.later("r-0")
    node.until(lambda: node.paid == 1)
    node.process.send_signal(signal.SIGTERM)
    node.until(lambda: node.get("/ready") == (503, "not ready\n"))
    assert node.ask("r-1") is RefusalReason.BUSY
    before = time.monotonic()
    node.process.send_signal(signal.SIGTERM)
    code, said = node.ended()
    assert time.monotonic() - before < 30
    assert code == 1
    assert "in the middle of a question; started again, the node resumes it, and nothing is paid twice" in said
    thread.join(60)
    assert found == []
    text = (node.folder / "node.toml").read_text()
    (node.folder / "node.toml").write_text(text.replace("pace = 3000.0", "pace = 0.0"))
    node.start()
    assert isinstance(node.ask("r-0"), bytes)
    assert node.paid == 1


@pytest.mark.slow
def test_a_job_is_canceled_by_a_command_while_it_runs_and_its_price_is_said(made):
    node = made(45.0)
    node.start()
    thread, found = node.later("r-0")
    node.until(lambda: node.paid == 1)
    waiting, second = node.later("r-1")
    node.until(lambda: job_states(node).get("waiting") == 1)
    command = [*TACIT, "federation", "cancel", str(node.folder / "node.toml"), job_id("run")[:6]]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "1 waiting question is not answered; one is running and stops at its next step" in " ".join(said.split())
    thread.join(60)
    waiting.join(60)
    # It was paid for, and waited for its pace.
    assert found == second == [RefusalReason.CANCELED]
    assert node.ask("r-0") is RefusalReason.CANCELED
    listed = [*TACIT, "federation", "jobs", str(node.folder / "node.toml"), "--json"]
    (job,) = json.loads(subprocess.run(listed, capture_output=True, text=True, check=True).stdout)
    assert (job["canceled"], job["paid"]) == (True, ["epsilon 1"])
    assert node.paid == 1


def job_states(node):
    with contextlib.closing(JobQueue(node.settings.state / "queue.db")) as queue:
        return next(iter(queue.jobs())).states


@pytest.mark.slow
def test_the_last_answer_of_a_node_that_is_told_to_end_reaches_its_coordinator(tmp_path):
    made = Deployment(tmp_path, ("east", "north", "west"))
    for name in made.names:
        file = tmp_path / name / "node.toml"
        file.write_text(file.read_text().replace("pace = 0.5", "pace = 8.0"))
    work = made.job()
    with made.processes, made.link():
        made.start(*made.names)
        work.submit()
        end = time.monotonic() + START
        while '"event": "began"' not in made.log("west"):
            assert time.monotonic() < end
            time.sleep(0.05)
        west = made.processes.running["west"]
        west.send_signal(signal.SIGTERM)
        assert west.wait(120) == 0
        work.watch()
    assert sorted(work.round["answered"]) == ["east", "north", "west"]
    assert [len(made.payments(name)) for name in made.names] == [1, 1, 1]
