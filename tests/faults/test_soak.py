"""What the soak measures with can fail: growth is found, cut connections are cut, a wrong budget is wrong."""

import socket
import threading
import types

import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tests.faults.cut_connections import CuttingProxy
from tests.faults.soak import Series, Soak, main, right


def lives(grow, count=3, steps=40):
    """A process that is started a few times, and has more every second of each life."""
    made = Series()
    for life in range(count):
        for step in range(steps):
            at = 1000.0 * life + 10 * step
            # The rest has a fixed pattern and no slope.
            made.add(float(life), at, 100 + grow * 10 * step + (1, 0, 0, 1, 0)[step % 5])
    return made


@pytest.mark.parametrize("grow", [0.0, 0.05, 1.0])
def test_growth_within_lives_is_found_though_a_process_is_started_anew(grow):
    mean, slope, error, longest = lives(grow).fit()
    assert slope == pytest.approx(grow, abs=0.002)
    assert longest == 390
    assert 0 < error < 0.002
    assert mean >= 100


def test_a_soak_that_ended_before_its_first_job_has_no_files_to_count():
    soak = types.SimpleNamespace(memory={"node": lives(0.0)}, handles={}, files=[], began=0.0)
    assert [each["what"] for each in Soak.growth(soak)] == ["memory, MB"]


def test_a_life_that_is_too_short_says_nothing():
    made = Series()
    made.add(1.0, 0.0, 5.0)
    made.add(1.0, 1.0, 9.0)
    assert made.fit() == (7.0, 0.0, 0.0, 1.0)


def test_a_wrong_budget_is_noticed():
    budget = {
        "problems": [], "paid twice": 0, "receipts without a payment": 0, "epsilon spent": "3",
        "epsilon of the payments": "3", "delta spent": "0", "delta of the payments": "0",
    }  # fmt: skip
    assert right(budget)
    wrong = {"problems": ["a digest"], "paid twice": 1, "receipts without a payment": 1, "epsilon spent": "4"}
    for name, value in (wrong | {"delta spent": "1/10"}).items():
        assert not right(budget | {name: value})


def test_connections_through_the_proxy_pass_and_are_cut():
    with socket.create_server(("127.0.0.1", 0)) as behind:
        accepted = []
        answering = threading.Thread(target=lambda: accepted.extend(behind.accept()[0] for _ in range(2)))
        answering.start()
        with CuttingProxy(behind.getsockname()[1]) as proxy:
            ends = [socket.create_connection(("127.0.0.1", proxy.port), timeout=30) for _ in range(2)]
            answering.join(30)
            ends[0].sendall(b"there")
            ends[1].sendall(b"there")
            assert sorted(each.recv(5) for each in accepted) == [b"there", b"there"]
            assert proxy.cut() == 2
            assert [each.recv(1) for each in ends] == [b"", b""]
            for each in (*ends, *accepted):
                each.close()


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_two_jobs_of_the_soak(tmp_path):
    assert main(["--jobs", "2", "--out", str(tmp_path)]) == 0
    assert "all budgets right to the unit" in (tmp_path / "soak.md").read_text()
