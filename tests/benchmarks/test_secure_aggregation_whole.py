"""The benchmark of secure aggregation with everybody: the sum is exact, and a wrong one is noticed."""

import json

import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

import secure_aggregation
from tacit.federation.secure_aggregation import server


def test_everybody_takes_part_and_what_was_measured_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(secure_aggregation, "LARGEST_COMPLETE", 5)
    monkeypatch.setattr("sys.argv", ["secure_aggregation", "--whole", "--out", str(tmp_path), "12"])
    secure_aggregation.main()
    (row,) = json.loads((tmp_path / "secure-aggregation-whole.json").read_text())["rows"]
    assert row["exact, neighbors"] is True
    assert row["coordinator s, neighbors"] > 0
    # Too many for masks with all others here: not measured, and not said to be wrong.
    assert row["exact, all others"] is None


def test_a_sum_that_is_not_exact_is_noticed(monkeypatch):
    result = server.result
    monkeypatch.setattr(server, "result", lambda *given: result(*given).map(lambda total: total + 1))
    assert secure_aggregation.whole(10, sparse=True)["exact"] is False
