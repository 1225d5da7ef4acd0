"""What a node tells of itself: to whom, and what not."""

import asyncio
import json
import urllib.request

import pytest

pytest.importorskip("prometheus_client", reason="needs tacit[federated]")

import httpx

from tacit.core.errors import InvalidInput
from tacit.federation.messages import RefusalReason
from tacit.federation.node.telemetry import NodeMetrics, NodeWeb, read_token
from tacit.federation.settings import Serving

TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture
def metrics():
    return NodeMetrics("north", lambda: 3, lambda: {"north": (0.25, 1.0)})


class Asked:
    """A client of an app that is not served."""

    def __init__(self, app):
        self._app = app

    def get(self, path, headers=None):
        async def call():
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                return await client.get(path, headers=headers)

        return asyncio.run(call())


def web(metrics, ready=True):
    return Asked(NodeWeb(metrics, TOKEN, lambda: ready).app)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer another"},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Cookie": f"token={TOKEN}"},
    ],
)
def test_without_the_token_there_are_no_figures(metrics, headers):
    answer = web(metrics).get("/metrics", headers=headers)
    assert (answer.status_code, answer.text) == (401, "Unauthorized\n")
    assert web(metrics).get(f"/metrics?token={TOKEN}").status_code == 401


def test_with_the_token_there_are_counters_and_the_budget_and_nothing_that_records_move(metrics):
    metrics.settled("refused", RefusalReason.BUDGET)
    metrics.settled("answered")
    answer = web(metrics).get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    values = {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}
    assert values['tacit_node_refusals_total{reason="budget"}'] == 1
    assert values['tacit_node_requests_total{state="answered"}'] == 1
    assert values["tacit_node_waiting"] == 3
    assert values['tacit_node_budget_epsilon_left{account="north"}'] == 0.25
    # A closed list: nothing of time, memory, processors or sizes.
    assert {name.partition("{")[0] for name in values} == {
        "tacit_node_info", "tacit_node_requests_total", "tacit_node_refusals_total", "tacit_node_draining",
        "tacit_node_waiting", "tacit_node_budget_epsilon_left", "tacit_node_budget_epsilon_ceiling",
    }  # fmt: skip
    assert sum(name.startswith("tacit_node_refusals_total") for name in values) == len(RefusalReason)


def test_health_and_readiness_are_one_word(metrics):
    assert web(metrics).get("/health").text == "ok\n"
    assert web(metrics).get("/ready").text == "ready\n"
    answer = web(metrics, ready=False).get("/ready")
    assert (answer.status_code, answer.text) == (503, "not ready\n")


def test_a_budget_is_told_on_this_machine_alone_unless_its_operator_says_so():
    assert Serving().tells_budget
    assert not Serving(budget=False).tells_budget
    assert not Serving(host="0.0.0.0").tells_budget
    assert Serving(host="0.0.0.0", budget=True).tells_budget


def test_figures_that_cannot_be_read_are_an_error_without_words(metrics):
    def broken():
        raise OSError("/srv/clinic/ada.ledger")

    answer = web(NodeMetrics("north", budget=broken)).get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert (answer.status_code, answer.text) == (503, "Unavailable\n")


def test_it_listens_where_it_is_told_and_says_where(metrics):
    served = NodeWeb(metrics, TOKEN, lambda: True)
    address = served.start("127.0.0.1", 0)
    assert address.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(f"{address}/health", timeout=30) as answer:
        assert answer.read() == b"ok\n"
    with pytest.raises(InvalidInput, match="cannot be used"):
        NodeWeb(metrics, TOKEN, lambda: True).start("127.0.0.1", int(address.rpartition(":")[2]))
    served.stop()


def test_a_token_that_is_too_short_or_no_text_is_refused(tmp_path):
    (tmp_path / "token").write_text("short")
    with pytest.raises(InvalidInput, match="at least 16 characters"):
        read_token(tmp_path / "token")
    (tmp_path / "token").write_bytes(b"\xff" * 40)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_token(tmp_path / "token")
    assert json.dumps(read_token(tmp_path / "new"))
