"""Faults on real processes: every fault at every step of every trust model that it makes sense for.

Each cell of the matrix is one job of one federation that stays up. After each: the job is done or ended in words, who
answered paid once and nobody twice, the labels are what they should be, and whoever was killed is started again.
Beside the nodes there is a stranger, whose key nobody has registered.
"""

import socket
import ssl
import time

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.core.errors import TacitError
from tacit.datasets.published import digits
from tacit.federation.secure_aggregation.session import STEPS as MASKED_STEPS
from tacit.runs.run import load
from tests.federation.deployment import SERVICES, START, Deployment, at_step

NAMES, STRANGER = ("east", "north", "south", "west"), "mallory"
STEPS = {"local": ("answer",), "masked": MASKED_STEPS, "shuffle": ("submit",), "central": ("submit",)}
EVERY_STEP = [(trust, step) for trust, steps in STEPS.items() for step in steps]
COLLECTED = [("shuffle", "submit"), ("central", "submit")]
# A masked sum whose tables are class sums: whole numbers below zero, and Gaussian noise in integer shares.
SUMS = "masked sums"
KINDS = {SUMS: {"trust": "masked", "method": "class_sums", "delta": 1e-6}}
STEPS |= {SUMS: MASKED_STEPS}
EVERY_STEP_OF_SUMS = [(SUMS, step) for step in MASKED_STEPS]

# Which fault is tried where: (trust model, step of its round).
MATRIX = {
    # First, because it leaves every node up.
    "coordinator killed": EVERY_STEP + EVERY_STEP_OF_SUMS,
    "node killed": EVERY_STEP + EVERY_STEP_OF_SUMS,
    "node hung": EVERY_STEP,
    "node slow": EVERY_STEP,
    "node late": EVERY_STEP,
    "node restarted": EVERY_STEP,
    "too few nodes": EVERY_STEP + EVERY_STEP_OF_SUMS,
    "coordinator and SuperLink killed": EVERY_STEP,
    "collector killed": COLLECTED,  # the shuffler, or the curator
    "collector killed when some have handed in": COLLECTED,
    "collector hung": COLLECTED,
    "collector gone for good": COLLECTED,
}
# What every test run tries, beside the shuffler and the coordinators that are killed in tests/federation: a federation
# takes half a minute to start, and longer on a busy machine. The rest is behind `make slow`.
SHORT = {("node killed", "local", "answer")}
LONG = pytest.mark.slow
CELLS = [
    pytest.param(fault, trust, step, marks=[] if (fault, trust, step) in SHORT else [LONG])
    for fault, places in MATRIX.items()
    for trust, step in places
]
EPSILON = 4
TERMS = {"at_least": 3, "deadline": 300, "grace": 5, "epsilon": float(EPSILON)}
pytestmark = [pytest.mark.timeout(1500), pytest.mark.fault]


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    made = Deployment(tmp_path_factory.mktemp("federation"), NAMES, strangers=(STRANGER,), ceiling="2000.0")
    with made.processes, made.link():
        made.start_node(STRANGER)
        yield made


@pytest.fixture
def whole(federation):
    """The federation with every node up, whatever the cell before did to them."""
    alive = list(filter(federation.processes.alive, NAMES))
    for name in alive:
        federation.processes.resume(name)
    federation.start(*(name for name in NAMES if name not in alive))
    return federation


class Cell:
    """One job at which something is done in the middle of a step."""

    def __init__(self, whole, fault, trust, step):
        self.whole, self.processes, self.trust, self.step = whole, whole.processes, trust, step
        self.name = f"{fault}-{trust}-{step}".replace(" ", "-")
        self.service = SERVICES.get(trust)
        if self.service is not None and not self.processes.alive(self.service):
            whole.start_service(self.service)
        self.before = {request for paid in self.paid().values() for request in paid}

    def paid(self):
        """The requests that everyone paid for."""
        paying = (*NAMES, "curator") if self.trust == "central" else NAMES
        return {name: [each.receipt.request for each in self.whole.payments(name)] for name in paying}

    def begin(self, name="", **more):
        """Submit the job, and come back when its step has begun."""
        terms = TERMS | KINDS.get(self.trust, {"trust": self.trust}) | more
        self.work = self.whole.job(self.name + name, **terms)
        self.work.submit()
        self.work.until(at_step(self.step))

    def end(self):
        """The job is done, with what it should have."""
        self.work.watch()
        run = load(self.work.job.out)
        assert 0.99 * EPSILON < run.guarantee.epsilon <= EPSILON
        assert np.mean(run.labels.astype(int) == digits().public_labels) > 0.5
        assert not run.guarantee.simulation

    def end_in_words(self, words):
        with pytest.raises(TacitError, match=words):
            self.work.watch()

    def go_on(self):
        """The same job again, to its end."""
        self.work.submit()
        self.end()

    @property
    def answered(self):
        return set(self.work.round["answered"])

    def check_payments(self, jobs=1):
        # Who was late in the cell before may have paid for it only now; the others had then.
        paid = {name: sum(each not in self.before for each in after) for name, after in self.paid().items()}
        assert all(1 <= paid[name] <= jobs for name in self.answered)
        assert all(paid[name] <= jobs for name in NAMES)
        # The curator pays once for every sum that it lets out.
        assert paid.get("curator", jobs) == jobs


def node_killed(cell):
    before = cell.whole.log("east").count("Traceback")
    cell.begin()
    cell.processes.kill("west")
    cell.end()
    assert cell.answered >= {"east", "north", "south"}
    if cell.trust == "local":
        assert cell.work.round["asked"] == list(NAMES)
    # Nothing of the records is in what a node says of itself.
    assert cell.whole.log("east").count("Traceback") == before


def node_hung(cell):
    cell.begin()
    cell.processes.stop("west")
    cell.end()
    assert cell.answered >= {"east", "north", "south"}


def node_slow(cell):
    """Who is slow within the grace that it has is waited for."""
    cell.begin(grace=200)
    cell.processes.stop("west")
    time.sleep(5)
    cell.processes.resume("west")
    cell.end()
    assert cell.answered == set(NAMES)


def node_late(cell):
    """Who comes when the round is over pays at most once, and hears the next question."""
    cell.begin()
    cell.processes.stop("west")
    cell.end()
    cell.processes.resume("west")
    cell.check_payments()
    if cell.step == STEPS[cell.trust][0]:
        cell.begin("-next", at_least=4)
        cell.end()
        assert cell.answered == set(NAMES)
        cell.check_payments(jobs=2)


def node_restarted(cell):
    """Who is back in the middle of the round is there for the next one."""
    cell.begin()
    cell.processes.kill("west")
    cell.whole.start("west")
    cell.end()
    assert cell.answered >= {"east", "north", "south"}
    cell.check_payments()
    if cell.step == STEPS[cell.trust][0]:
        cell.begin("-next", at_least=4)
        cell.end()
        assert cell.answered == set(NAMES)
        cell.check_payments(jobs=2)


def too_few_nodes(cell):
    cell.begin(deadline=120)
    for name in ("south", "west"):
        cell.processes.kill(name)
    cell.end_in_words(
        "of 4 nodes answered.*(At least 3 were needed|needs 3 nodes).*again when more nodes are connected"
    )
    cell.whole.start("south", "west")
    cell.go_on()


def coordinator_killed(cell):
    cell.begin()
    cell.work.kill()
    cell.end_in_words("process ended unexpectedly.*to resume, and nobody pays twice")
    cell.go_on()


def coordinator_and_superlink_killed(cell):
    cell.begin()
    cell.processes.kill("link")
    # Both are dead: whose end is noticed first is chance.
    cell.end_in_words("(SuperLink|coordinator's process) ended unexpectedly.*to resume, and nobody pays twice")
    cell.whole.relink()
    cell.go_on()


def collector_killed(cell):
    """What was handed in is on its disk, and nodes and coordinator call until it is back."""
    cell.begin()
    die_and_come_back(cell)


def collector_killed_when_some_have_handed_in(cell):
    cell.begin()
    cell.work.until(lambda found: found["rounds"][-1]["answered"])
    die_and_come_back(cell)


def die_and_come_back(cell):
    cell.processes.kill(cell.service)
    time.sleep(2)
    cell.whole.start_service(cell.service)
    cell.end()
    assert len(cell.answered) >= 3


def collector_hung(cell):
    cell.begin()
    cell.processes.stop(cell.service)
    time.sleep(5)
    cell.processes.resume(cell.service)
    cell.end()
    assert len(cell.answered) >= 3


def collector_gone_for_good(cell):
    cell.begin(deadline=45)
    cell.processes.kill(cell.service)
    cell.end_in_words("At least 3 were needed|It was tried for 45 seconds")
    cell.whole.start_service(cell.service)
    cell.go_on()


def test_nodes_are_let_in_over_tls_and_a_stranger_is_not(whole):
    assert sorted(node.name for node in whole.control.nodes()) == sorted(NAMES)
    end = time.monotonic() + START
    # Who is kept out is told why, and nothing else than the reason.
    while "this node's key is not registered there, or was removed" not in whole.log(STRANGER):
        assert time.monotonic() < end, whole.log(STRANGER)
        time.sleep(0.1)
    with socket.create_connection(("127.0.0.1", whole.port), timeout=10) as plain:
        plain.sendall(b"GET /v1/control/list-nodes HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" not in plain.recv(100)
    # A client that trusts nobody but the public authorities does not trust this one.
    with (
        socket.create_connection(("127.0.0.1", whole.port), timeout=10) as plain,
        pytest.raises(ssl.SSLError),
        ssl.create_default_context().wrap_socket(plain, server_hostname="localhost"),
    ):
        pass


@pytest.mark.parametrize(("fault", "trust", "step"), CELLS)
def test_the_job_outlives(whole, fault, trust, step):
    cell = Cell(whole, fault, trust, step)
    globals()[fault.replace(" ", "_").lower()](cell)
    cell.check_payments(jobs=2 if cell.work.job.out.endswith("-next") else 1)
    assert whole.payments(STRANGER) == []
    # What a node has read stays in its memory.
    assert not list((whole.home / "east" / "east.state").rglob("*.npy"))


@LONG
def test_a_hostile_coordinators_code_does_not_run_at_a_node(whole, tmp_path):
    app, marker = tmp_path / "app", tmp_path / "stolen"
    app.mkdir()
    (app / "pyproject.toml").write_text(
        '[project]\nname = "thief"\nversion = "1.0.0"\ndescription = ""\nlicense = "Apache-2.0"\ndependencies = []\n'
        '[tool.flwr.app]\npublisher = "mallory"\n[tool.flwr.app.components]\n'
        'serverapp = "thief_server:app"\nclientapp = "thief_client:app"\n'
    )
    (app / "thief_server.py").write_text(
        "import time\nfrom flwr.app import Message, RecordDict\nfrom flwr.serverapp import ServerApp\n"
        "app = ServerApp()\n@app.main()\ndef main(grid, context):\n"
        "    sent = [Message(RecordDict(), node, 'query.answer') for node in grid.get_node_ids()]\n"
        f"    replies = list(grid.send_and_receive(sent, timeout=90))\n"
        f"    open({str(tmp_path / 'replies')!r}, 'w').write(repr([list(each.content) for each in replies]))\n"
    )
    (app / "thief_client.py").write_text(
        "from flwr.clientapp import ClientApp\nfrom flwr.app import Message\n"
        f"open({str(marker)!r}, 'w').write('the code ran')\napp = ClientApp()\n"
        "@app.query('answer')\ndef steal(message, context):\n    return Message(message.content, reply_to=message)\n"
    )
    whole.control.start(app, {})
    end = time.monotonic() + 150
    while not (tmp_path / "replies").exists() and time.monotonic() < end:
        time.sleep(1)
    assert (tmp_path / "replies").read_text().count("tacit") == len(NAMES)
    assert not marker.exists()
