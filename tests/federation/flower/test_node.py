"""What a node's own process does beside Flower's: what ends on the way leaves nothing, a lost connection is noticed."""

import os
import socket
import ssl
import sys
import threading
import time
from types import SimpleNamespace

import httpx
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from flwr.common import ConfigRecord, Message, RecordDict
from flwr.common.constant import Status
from flwr.supercore.inflatable.inflatable_object import get_object_tree
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.nodestate.nodestate_factory import NodeStateFactory
from flwr.supernode.start_client_internal import _pull_and_store_message

from tacit.core.errors import InvalidInput, TacitError
from tacit.federation.flower.node import discard_unfetched, exit_when_done, retry_lost_connections, touch_on_success
from tacit.federation.flower.processes import GAVE_UP, HEARTBEAT, NodeConnection
from tacit.federation.flower.server import payload_of
from tacit.federation.processes import Processes

RUN = 7


@pytest.fixture(autouse=True)
def task(monkeypatch):
    """Flower makes messages in the name of the process's task."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, RUN)


class Late:
    """A node that fetches a question whose run ends on the way."""

    def __init__(self, ends_at):
        self.store = ObjectStoreFactory().store()
        self.state = NodeStateFactory(ObjectStoreFactory()).state()
        self.state.get_run = lambda _: SimpleNamespace(primary_task_type="flwr-clientapp", fab_hash="f" * 64)
        self.ends_at = ends_at
        content = RecordDict({"question": ConfigRecord({"words": "hello"})})
        self.message = Message(content, dst_node_id=1, message_type="query")
        self.message.metadata.__dict__["_message_id"] = self.message.object_id

    def called(self, what):
        def call(*_):
            if self.ends_at == what:
                raise RunNotRunningException
            return b""

        return call

    def fetch(self, pull):
        return pull(
            state=self.state, object_store=self.store, node_config={}, trusted_entities=None,
            receive=lambda: (self.message, get_object_tree(self.message)), get_run=None, get_fab=None,
            pull_object=self.called("pull"), confirm_message_received=self.called("confirm"),
        )  # fmt: skip

    @property
    def waiting(self):
        """Tasks for which a process would be started."""
        return [task for task in self.state.get_tasks() if task.status.status != Status.FINISHED]


def test_flower_leaves_a_process_that_waits_for_good():
    node = Late("pull")
    assert node.fetch(_pull_and_store_message) is None
    assert len(node.waiting) == 1
    assert len(node.state.msg_store) == 1


@pytest.mark.parametrize("ends_at", ["pull", "confirm"])
def test_a_run_that_ends_on_the_way_leaves_nothing(ends_at):
    node = Late(ends_at)
    # What comes is not what was announced, so that only the end of the run can stop it.
    node.store.verify = False
    assert node.fetch(discard_unfetched(_pull_and_store_message)) is None
    assert node.waiting == []
    assert node.state.msg_store == {}
    assert len(node.store) == 0


def test_a_message_that_comes_is_kept():
    node = Late("never")
    node.store.verify = False
    assert node.fetch(discard_unfetched(_pull_and_store_message)) == RUN
    assert len(node.waiting) == 1


def test_a_message_without_the_one_record_is_not_read():
    for content in (RecordDict(), RecordDict({"tacit": ConfigRecord({"letter": "words"})})):
        with pytest.raises(InvalidInput):
            payload_of(Message(content, 1, "query.answer"))


@pytest.fixture
def cutting():
    """A server that ends every connection in the middle of its TLS handshake; its address, and how many it ended."""
    counted = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)

        def serve():
            while True:
                try:
                    came, _ = server.accept()
                except OSError:
                    return
                with came:
                    came.recv(2**16)
                    counted.append(1)

        threading.Thread(target=serve, daemon=True).start()
        yield f"https://127.0.0.1:{server.getsockname()[1]}", counted


def invoked(make, address, tries):
    invoker = make()
    invoker.max_tries, invoker.wait_function = tries, lambda _: None
    with httpx.Client(trust_env=False) as client:
        invoker.invoke(client.get, address)


def test_flower_alone_gives_up_where_a_handshake_was_cut(cutting):
    address, counted = cutting
    with pytest.raises(httpx.TransportError, match=r"(?i)ssl|tls"):
        invoked(make_simple_http_retry_invoker, address, 5)
    assert len(counted) == 1


def test_a_handshake_that_was_cut_is_tried_again(cutting):
    address, counted = cutting
    with pytest.raises(httpx.TransportError):
        invoked(retry_lost_connections(make_simple_http_retry_invoker), address, 5)
    assert len(counted) == 5


def test_a_certificate_that_nobody_trusts_is_given_up():
    asked = []

    def untrusted():
        asked.append(1)
        raise httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate")

    with pytest.raises(httpx.ConnectError):
        retry_lost_connections(make_simple_http_retry_invoker)().invoke(untrusted)
    assert len(asked) == 1


def test_a_call_that_succeeds_is_noted_and_one_that_fails_is_not(tmp_path):
    file = tmp_path / "connected"
    with pytest.raises(ssl.SSLError):
        touch_on_success(SimpleNamespace(call=lambda: (_ for _ in ()).throw(ssl.SSLError("cut"))).call, file)()
    assert not file.exists()
    assert touch_on_success(lambda told: told, file)("pulled") == "pulled"
    assert file.exists()


@pytest.mark.parametrize(
    ("fails", "failing_only", "code"), [(False, False, GAVE_UP), (True, True, GAVE_UP), (False, True, 3)]
)
def test_the_process_ends_with_the_work_of_its_threads(fails, failing_only, code):
    child = os.fork()
    if child == 0:
        exit_when_done((lambda: 1 // 0) if fails else (lambda: None), failing_only)()
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code


@pytest.fixture
def connection(tmp_path):
    """A node's connection whose process runs the code that it is given."""
    made = []

    def connected(code):
        processes = Processes(tmp_path)
        made.append(processes)
        command = [sys.executable, "-c", code], dict(os.environ)
        return NodeConnection(processes, command, tmp_path, said.append, shortest=0.05, longest=0.1)

    said = []
    yield connected, said
    for each in made:
        each.end()


def looked(connection, until):
    end = time.monotonic() + 60
    while not until():
        assert time.monotonic() < end
        connection.look()
        time.sleep(0.01)


@pytest.mark.parametrize(
    "code", [f"raise SystemExit({GAVE_UP})", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]
)
def test_a_connection_that_was_given_up_is_made_again_after_growing_pauses(connection, code):
    make, said = connection
    lost = make(code)
    lost.start()
    looked(lost, lambda: len(said) == 3)
    assert [each.rpartition(" in ")[2] for each in said] == ["0.05 seconds", "0.1 seconds", "0.1 seconds"]
    assert not lost.connected


def test_a_process_that_ends_for_a_reason_of_its_own_is_an_error(connection):
    make, said = connection
    refused = make("print('not let in'); raise SystemExit(1)")
    refused.start()
    with pytest.raises(TacitError, match=r"(?s)the node ended.*not let in"):
        looked(refused, lambda: False)
    assert said == []


def test_a_node_is_connected_while_its_process_hears_the_coordinator(connection, tmp_path):
    make, _ = connection
    alive = make("import time; time.sleep(60)")
    (tmp_path / "connected").touch()
    alive.start()
    # What the last process noted says nothing about this one.
    assert not alive.connected
    (tmp_path / "connected").touch()
    assert alive.connected
    long_ago = time.time() - 4 * HEARTBEAT
    os.utime(tmp_path / "connected", (long_ago, long_ago))
    assert not alive.connected
    (tmp_path / "connected").touch()
    alive.processes.kill("node")
    assert not alive.connected
