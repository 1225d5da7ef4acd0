"""A SuperLink's controls; the federation of real processes is in tests/faults."""

import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.federation.flower.link import LoopbackOnly


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
