"""One federation of real processes: SuperLink and SuperNodes over TLS, a stranger at the door, one node killed."""

import socket
import ssl

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.datasets.published import digits
from tacit.federation.flower.link import LoopbackOnly
from tacit.runs.run import load
from tests.federation.deployment import Deployment, asked


@pytest.mark.timeout(900)
def test_a_federation_over_tls_outlives_a_killed_node_and_keeps_strangers_out(tmp_path):
    made = Deployment(tmp_path, ("east", "north", "west"), strangers=("mallory",))
    work = made.job(at_least=2)
    with made.processes:
        with made.link() as control:
            made.start_node("mallory")
            made.start("east", "north", "west")
            assert sorted(node.name for node in control.nodes()) == ["east", "north", "west"]
            work.submit()
            work.until(asked)
            made.processes.kill("west")
            work.watch()
            refuses_plain_connections(made.port)
            # What east has read stays in its memory.
            assert not list((tmp_path / "east" / "east.state").rglob("*.npy"))
        found = work.until(lambda found: found["state"] == "done")
    (turn,) = found["turns"]
    assert turn["asked"] == ["east", "north", "west"]
    assert {"east", "north"} <= set(turn["answered"])
    assert [len(made.payments(name)) for name in ("east", "north", "mallory")] == [1, 1, 0]
    run = load(work.job.out)
    assert np.mean(run.labels.astype(int) == digits().public_labels) > 0.4
    assert (run.guarantee.simulation, run.guarantee.epsilon) == (False, 1)
    # Who is kept out is told why, and nothing else than the reason.
    assert "this node's key is not registered there, or was removed" in made.log("mallory")
    # Nothing of the records is in what a node said of itself.
    assert "Traceback" not in made.log("east")


def refuses_plain_connections(port):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        plain.sendall(b"GET /v1/control/list-nodes HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" not in plain.recv(100)
    # A client that trusts nobody but the public authorities does not trust this one.
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        pytest.raises(ssl.SSLError),
        ssl.create_default_context().wrap_socket(plain, server_hostname="localhost"),
    ):
        pass


@pytest.mark.parametrize(
    ("path", "host", "allowed"),
    [
        ("/v1/fleet/pull-messages", "203.0.113.9", True),
        ("/v1/control/start-run", "203.0.113.9", False),
        ("/v1/control/start-run", "127.0.0.1", True),
        ("/v1/control/start-run", "::1", True),
        ("/v1/runtime/pull", "203.0.113.9", False),
        ("/docs", "203.0.113.9", False),
        ("/v1/control/start-run", "not an address", False),
    ],
)
def test_controls_are_for_the_coordinators_own_machine(path, host, allowed):
    assert LoopbackOnly(None).allows({"type": "http", "path": path, "client": (host, 1)}) is allowed
