"""Faults on real processes: every fault at every step of every trust model that it makes sense for.

Each cell is one job of one federation that stays up. After each: the job is done or ended in words, nobody paid twice,
and whoever was killed is started again.
"""

import os
import time

import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.core.errors import TacitError
from tacit.experiment.run import load
from tests.exchange.deployment import Deployment, asked, at_step

pytestmark = [
    pytest.mark.skipif(os.environ.get("TACIT_FAULTS") != "1", reason="long: run with make faults"),
    pytest.mark.timeout(1800),
]
NAMES = ("east", "north", "south", "west")
STEPS = {"local": ("answer",), "masked": ("keys", "shares", "input", "unmask"), "shuffle": ("submit",)}
CELLS = [(trust, step) for trust, steps in STEPS.items() for step in steps]
TERMS = {"at_least": 3, "deadline": 300, "grace": 5}


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    made = Deployment(tmp_path_factory.mktemp("federation"), NAMES, ceiling="1000.0")
    with made.processes, made.link() as control:
        made.control = control
        made.start(*NAMES)
        made.start_shuffler()
        yield made


@pytest.fixture
def whole(federation):
    """The federation with all nodes up, before and after."""
    yield federation
    for name in NAMES:
        if federation.processes.alive(name):
            federation.processes.resume(name)
        else:
            federation.start(name)
    # A SuperLink forgets a node that is gone after its heartbeats stop; a new process is there again within seconds.
    time.sleep(5)


def job_of(federation, trust, step, fault, **more):
    return federation.job(f"{fault}-{trust}-{step}", trust=trust, **(TERMS | more))


def spent(federation):
    return {name: len(federation.payments(name)) for name in NAMES}


@pytest.mark.parametrize(("trust", "step"), CELLS)
@pytest.mark.parametrize("fault", ["killed", "hung"])
def test_a_node_is_lost_in_a_step(whole, trust, step, fault):
    before = spent(whole)
    work = job_of(whole, trust, step, fault)
    work.submit(whole.control)
    work.until(at_step(step))
    (whole.processes.kill if fault == "killed" else whole.processes.stop)("west")
    work.watch()
    assert set(work.turn["answered"]) >= {"east", "north", "south"}
    after = spent(whole)
    assert all(after[name] == before[name] + 1 for name in ("east", "north", "south"))
    assert after["west"] - before["west"] in (0, 1)
    assert 0.99 < load(work.job.out).guarantee.epsilon <= 1


@pytest.mark.parametrize(("trust", "step"), CELLS)
def test_the_coordinator_is_killed_in_a_step_and_comes_back(whole, trust, step):
    before = spent(whole)
    work = job_of(whole, trust, step, "coordinator")
    work.submit(whole.control)
    work.until(at_step(step))
    work.kill()
    with pytest.raises(TacitError, match="goes on where it was, and nobody pays twice"):
        work.watch()
    work.submit(whole.control)
    work.watch()
    after = spent(whole)
    assert all(after[name] - before[name] == 1 for name in work.turn["answered"])
    assert all(after[name] - before[name] <= 1 for name in NAMES)


def test_the_shuffler_is_killed_in_a_round_and_comes_back(whole):
    before = spent(whole)
    work = job_of(whole, "shuffle", "submit", "shuffler")
    work.submit(whole.control)
    work.until(lambda found: any(turn["answered"] for turn in found["turns"]))
    # One node has handed in. It is on the shuffler's disk, and the coordinator calls until the shuffler is back.
    whole.processes.kill("shuffler")
    time.sleep(2)
    whole.start_shuffler()
    work.watch()
    assert len(work.turn["answered"]) >= 3
    assert all(spent(whole)[name] - before[name] == 1 for name in work.turn["answered"])


def test_a_node_that_is_restarted_in_the_middle_is_there_for_the_next_job(whole):
    work = job_of(whole, "local", "answer", "restarted")
    before = spent(whole)
    work.submit(whole.control)
    work.until(asked)
    whole.processes.kill("west")
    whole.start("west")
    work.watch()
    again = whole.job("after-restart", **(TERMS | {"at_least": 4, "grace": 60}))
    again.submit(whole.control)
    again.watch()
    assert again.turn["answered"] == list(NAMES)
    assert spent(whole)["west"] - before["west"] in (1, 2)


def test_a_late_answer_is_not_waited_for_and_is_paid_once(whole):
    before = spent(whole)
    work = job_of(whole, "local", "answer", "late")
    work.submit(whole.control)
    work.until(asked)
    whole.processes.stop("west")
    work.watch()
    whole.processes.resume("west")
    assert "west" not in work.turn["answered"]
    time.sleep(20)
    assert spent(whole)["west"] - before["west"] in (0, 1)


def test_too_few_end_in_words_and_the_same_job_goes_on_later(whole):
    before = spent(whole)
    work = job_of(whole, "local", "answer", "too-few", deadline=45)
    work.submit(whole.control)
    work.until(asked)
    for name in ("south", "west"):
        whole.processes.kill(name)
    with pytest.raises(TacitError, match="At least 3 were needed"):
        work.watch()
    whole.start("south", "west")
    work.submit(whole.control)
    work.watch()
    assert all(spent(whole)[name] - before[name] <= 1 for name in NAMES)


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
